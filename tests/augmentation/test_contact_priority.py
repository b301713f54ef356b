"""Class priorities: where a paste meets something else the class of the higher priority stays in front."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from loop_checks import Recording
from torch import Tensor

import brute_force
from samples import (
    CPU_BACKENDS,
    SCHEMA,
    STUFF,
    THINGS,
    assert_backends_agree,
    assert_same,
    make_batch,
    paste,
    with_overlaps,
)
from segpaste.augmentation import (
    DROP_REASONS,
    BatchCopyPaste,
    BatchCopyPasteConfig,
    PanopticConfig,
    PasteReport,
    Placement,
    PlacementConfig,
    PlacementCounts,
)
from segpaste.engine import use_backend
from segpaste.invariants import Case, violations
from segpaste.types import Modality, PaddedBatchedDenseSample

PRIORITIES = {1: 2, 2: -3, 11: 1}
"""Things above and below stuff, and some of either that are not named."""
EQUAL = dict.fromkeys((*THINGS, *STUFF), 7)

FLAT = (Modality.INSTANCE, Modality.PANOPTIC, Modality.SEMANTIC)
KINDS = list(product((1, 2, 4), ("image", "instance"), ("revert", "ignore"), (FLAT, (*FLAT, Modality.DEPTH))))
"""Layers, grouping, policy, modalities."""
FIELDS = ("images", "instance_masks", "boxes", "labels", "instance_ids", "panoptic_maps", "semantic_maps")


crowded_batch = partial(make_batch, size=(17, 15), num_instances=(3, 4, 2), max_instances=9, padding=(1, 0))


def config_of(
    priorities: dict[int, int], layers: int = 3, grouping: str = "image", policy: str = "revert", **options: Any
) -> BatchCopyPasteConfig:
    panoptic = {"taxonomy": SCHEMA, "stuff_policy": policy, "tau_stuff_px": 6, "contact_priority": priorities}
    placement = {
        "paste_prob": 1.0,
        "layers": layers,
        "grouping": grouping,
        "scale_range": (0.6, 1.8),
        "max_attempts": 2,
    }
    return BatchCopyPasteConfig(
        panoptic=PanopticConfig.model_validate(panoptic), placement=PlacementConfig.model_validate(placement), **options
    )


def random_cases() -> Iterator[tuple[PaddedBatchedDenseSample, Any]]:
    """Return a batch and the arguments of `config_of` for each kind."""
    for seed, (*arguments, modalities) in enumerate(KINDS):
        yield crowded_batch(seed=seed, modalities=modalities), arguments


def priority_of(classes: Tensor) -> Tensor:
    return torch.from_numpy(np.vectorize(lambda label: PRIORITIES.get(label, 0), otypes=[np.int64])(classes.numpy()))


def pasted_priority(out: PaddedBatchedDenseSample, report: PasteReport) -> Tensor:
    """Return the priority of the paste that each pixel shows, [B, H, W]; 0 elsewhere."""
    assert out.instance_masks is not None
    pasted = out.instance_masks & (report.slot_layer >= 0)[..., None, None]
    return (pasted * priority_of(out.labels)[..., None, None]).sum(1)


def assert_equals_plain_loops(
    out: PaddedBatchedDenseSample, report: PasteReport, expected: list[brute_force.Outcome]
) -> None:
    for b, outcome in enumerate(expected):
        np.testing.assert_array_equal(report.visible_layer[b].numpy(), outcome.visible_layer)
        for name in FIELDS:
            np.testing.assert_array_equal(getattr(out, name)[b].numpy(), outcome.fields[name], err_msg=name)
        dropped = dict(zip(DROP_REASONS, report.num_dropped[b].tolist(), strict=True))
        assert {reason: dropped[reason] for reason in outcome.dropped} == outcome.dropped


@pytest.mark.usefixtures("writing")
class TestRandomBatches:
    def test_no_paste_is_seen_over_a_class_above_its_own(self) -> None:
        num_seen = num_kept = 0
        for batch, arguments in random_cases():
            out, report = paste(batch, config_of(PRIORITIES, *arguments))
            _, plain = paste(batch, config_of({}, *arguments))
            assert batch.semantic_maps is not None
            over, of_target = pasted_priority(out, report), priority_of(batch.semantic_maps)
            seen = report.visible_layer >= 0
            assert (over >= of_target)[seen].all()
            num_seen += int(seen.sum())
            num_kept += int((~seen & (plain.visible_layer >= 0)).sum())
        assert num_seen > 500
        assert num_kept > 500

    def test_equal_plain_loops(self) -> None:
        """Masks of one source may overlap: the highest class owns the pixel, the lowest slot among equal classes."""
        for batch, arguments in random_cases():
            for given in (batch, with_overlaps(batch)):
                config, source = config_of(PRIORITIES, *arguments, min_area_px=3), Recording()
                out, report = paste(given, config, source)
                assert_equals_plain_loops(out, report, brute_force.paste(given, config, source.placement))

    def test_the_invariants_hold(self) -> None:
        for batch, arguments in random_cases():
            config = config_of(PRIORITIES, *arguments, min_area_px=3)
            out, report = paste(batch, config)
            assert not violations(Case(batch, out, report, config))
            overlapping = with_overlaps(batch)
            out, report = paste(overlapping, config)
            broken = {violation.invariant for violation in violations(Case(overlapping, out, report, config))}
            assert broken.isdisjoint({"instance_target_masks_subtract_paste_union", "depth_monotonicity"})

    def test_equal_priorities_are_none(self) -> None:
        for batch, arguments in random_cases():
            for given in (batch, with_overlaps(batch)):
                expected = paste(given, config_of({}, *arguments))
                found = paste(given, config_of(EQUAL, *arguments))
                assert_backends_agree(found, expected)

    def test_without_a_panoptic_map_they_play_no_part(self) -> None:
        num_placed = 0
        for seed in range(4):
            batch = crowded_batch(seed=seed)
            for given, options in ((batch, {"emit_panoptic": False}), (replace(batch, panoptic_maps=None), {})):
                expected = paste(given, config_of({}, **options))
                assert_backends_agree(paste(given, config_of(PRIORITIES, **options)), expected)
                num_placed += int(expected[1].num_placed.sum())
        assert num_placed > 10

    def test_in_place(self) -> None:
        for batch, arguments in random_cases():
            config = config_of(PRIORITIES, *arguments)
            expected = paste(batch, config)
            own = batch.clone()
            found = paste(own, config, inplace=True)
            assert found[0].images is own.images
            assert_backends_agree(found, expected)


class Thing(NamedTuple):
    """An object to paste: its class, the positions (y, x) of its pixels in the output, its depth."""

    label: int
    pixels: list[tuple[int, int]]
    depth: float = 1.0


ROOM = 3
"""Rows of the canvas that things are pasted into; below they lie apart in the image that they come from."""


def scene_of(things: list[Thing], overlap: bool) -> PaddedBatchedDenseSample:
    """Return an image of nothing but stuff, and one with these things, which overlap or are apart."""
    modalities = FLAT if overlap else (*FLAT, Modality.DEPTH)
    size = (ROOM * len(things), 8)
    batch = make_batch(2, size=size, num_instances=0, max_instances=len(things), modalities=modalities)
    masks, semantic, ids = (t.clone() for t in (batch.instance_masks, batch.semantic_maps, batch.panoptic_maps))
    semantic[:] = STUFF[0]
    depth = torch.full((2, 1, *size), 9.0)
    boxes, labels = torch.zeros(2, len(things), 4), torch.zeros(2, len(things), dtype=torch.int64)
    for k, thing in enumerate(things):
        for y, x in thing.pixels:
            at = y + (0 if overlap else ROOM * k), x
            masks[1, k][at] = True
            semantic[1][at], ids[1][at], depth[1, 0][at] = thing.label, k + 1, thing.depth
        rows, columns = masks[1, k].nonzero().unbind(1)
        boxes[1, k] = torch.stack([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
        labels[1, k] = thing.label
    there = torch.tensor([[False], [True]]).expand(2, len(things)).clone()
    changes: dict[str, Any] = (
        {} if overlap else {"depth": depth, "depth_valid": torch.ones_like(depth, dtype=torch.bool)}
    )
    return replace(
        batch,
        instance_masks=masks,
        semantic_maps=semantic,
        panoptic_maps=ids,
        boxes=boxes,
        labels=labels,
        instance_ids=torch.arange(1, len(things) + 1, dtype=torch.int32) * there.int(),
        instance_valid=there,
        **changes,
    )


class OneOverAnother(Recording):
    """Pastes the things of the second image of `scene_of` into the first: all in one layer, or each in its own."""

    def sample(self, *args: Any) -> tuple[PaddedBatchedDenseSample, Placement, PlacementCounts]:
        source, drawn, counts = super().sample(*args)
        layers, num = drawn.carried.shape[1:]
        first = torch.tensor([True, False])
        carried = torch.ones(1, num, dtype=torch.bool) if layers == 1 else torch.eye(num, dtype=torch.bool)
        shift = torch.arange(layers) * -ROOM
        self.placement = Placement(
            source_idx=torch.ones_like(drawn.source_idx),
            layer_valid=first[:, None].expand(2, layers).clone(),
            scale_num=torch.ones_like(drawn.scale_num),
            scale_den=torch.ones_like(drawn.scale_den),
            translate=torch.stack([torch.zeros_like(shift), shift], -1).expand(2, -1, -1).contiguous(),
            hflip=torch.zeros_like(drawn.hflip),
            carried=carried & first[:, None, None],
        )
        none = torch.zeros_like(counts.tried)
        counts = PlacementCounts(self.placement.carried.sum((1, 2)), none, none, none)
        return source, self.placement, counts


PIXEL, SIDE = (1, 1), [(y, x) for y in range(ROOM) for x in range(3)]
FIVE = {1: 5, 3: 5}
"""Two classes that are alike, above a third and stuff."""
CHAIN = [
    Thing(1, [(0, 0)], 3.0),
    Thing(2, [(0, 0), (1, 0), (2, 0)], 2.0),
    Thing(1, [(0, 0), (0, 1), (0, 3)], 2.5),
    Thing(2, [(0, 3), (1, 3), (2, 3)], 1.0),
    Thing(1, [(0, 3), (0, 4)], 2.0),
]
"""The first keeps the second out of a pixel, which the third takes. Nothing is left of the first, so it goes; then the
second keeps the third out, for it is nearer, and that goes too, being too small; and so on with the last two."""
SHORT = [*CHAIN[:2], Thing(1, [(0, 0), (0, 1)], 2.5)]


@pytest.mark.usefixtures("writing")
class TestByHand:
    @pytest.mark.parametrize("classes", list(product(THINGS, repeat=3)), ids=str)
    def test_of_a_layer_the_highest_class_and_then_the_lowest_slot(self, classes: tuple[int, ...]) -> None:
        batch, ranks = (
            scene_of([Thing(label, SIDE) for label in classes], overlap=True),
            [FIVE.get(c, 0) for c in classes],
        )
        out, report = paste(batch, config_of(FIVE, layers=1), OneOverAnother())
        assert out.instance_masks is not None
        owner = out.instance_masks[0, :, *PIXEL].nonzero().flatten()
        assert report.slot_source[0, owner].tolist() == [ranks.index(max(ranks))]

    @pytest.mark.parametrize("classes", list(product(THINGS, repeat=3)), ids=str)
    def test_of_layers_the_last_of_the_highest_class(self, classes: tuple[int, ...]) -> None:
        batch, ranks = (
            scene_of([Thing(label, SIDE) for label in classes], overlap=False),
            [FIVE.get(c, 0) for c in classes],
        )
        config = config_of(FIVE, layers=3, emit_depth=False)
        _, report = paste(batch, config, OneOverAnother())
        assert report.visible_layer[0][PIXEL] == max(range(3), key=lambda j: (ranks[j], j))

    @pytest.mark.parametrize(("priority", "is_seen"), [(4, False), (5, True), (6, True)])
    def test_over_stuff(self, priority: int, is_seen: bool) -> None:
        batch = scene_of([Thing(1, SIDE)], overlap=False)
        config = config_of({1: priority, STUFF[0]: 5}, layers=1)
        _, report = paste(batch, config, OneOverAnother())
        assert report.num_placed[0] == is_seen
        assert report.num_dropped[0, DROP_REASONS.index("hidden")] == (not is_seen)

    @pytest.mark.parametrize("things", [SHORT, CHAIN], ids=len)
    def test_taking_out_what_is_hidden_may_hide_another(self, things: list[Thing]) -> None:
        batch, source = scene_of(things, overlap=False), OneOverAnother()
        config = config_of(FIVE, layers=len(things), min_area_px=2)
        out, report = paste(batch, config, source)
        expected = brute_force.paste(batch, config, source.placement)
        assert expected[0].dropped == {"hidden": 1, "reverted": 0, "too_small": len(things) // 2}
        assert_equals_plain_loops(out, report, expected)
        assert report.placement.carried[0].any(1).nonzero().flatten().tolist() == list(range(1, len(things), 2))
        assert not violations(Case(batch, out, report, config))


@pytest.mark.slow
@pytest.mark.parametrize("name", CPU_BACKENDS)
def test_compiled_equals_eager_in_one_graph(name: str) -> None:
    module = BatchCopyPaste(config_of(PRIORITIES, min_area_px=3))
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    num_placed = 0
    with use_backend(name), torch._dynamo.config.patch(error_on_recompile=True):
        for seed in range(3):
            expected = module(crowded_batch(seed=seed), return_report=True)
            found = compiled(crowded_batch(seed=seed), return_report=True)
            assert_same(found[0], expected[0])
            assert_backends_agree(found, expected)
            num_placed += int(expected[1].num_placed.sum())
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    assert num_placed > 3
