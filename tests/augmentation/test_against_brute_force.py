"""`BatchCopyPaste` equals the loops of `brute_force` and `brute_force_draws`, on everything that is legal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np
import paste_cases
import pytest
import torch
from hypothesis import given, seed, settings
from loop_checks import Recording, assert_equal, assert_unchanged, run
from paste_cases import batches, configs

import brute_force
import brute_force_boxes
import brute_force_draws
from brute_force_pixels import scales_of
from samples import (
    EVERY_OBJECT,
    OPTIONAL,
    SCHEMA,
    all_modality_subsets,
    assert_same,
    free_boxes,
    make_batch,
    subset_id,
)
from segpaste.augmentation import (
    DROP_REASONS,
    BatchCopyPasteConfig,
    PanopticConfig,
    PlacementConfig,
)
from segpaste.augmentation.prepare import padded_to_multiple
from segpaste.types import FIELDS, Modality, PaddedBatchedDenseSample

pytestmark = [
    pytest.mark.filterwarnings("ignore:BatchCopyPaste could paste nothing"),
    pytest.mark.filterwarnings("ignore:BatchCopyPaste. expected at least 4 scales"),
    pytest.mark.first,
    pytest.mark.xdist_group("brute-force"),  # where nothing is kept yet, one process compiles the loops for the others
]

UNCHANGED = ("camera_intrinsics", "sample_seeds", "sample_keys")
SUBSETS = all_modality_subsets()
WITH_MASKS = [m for m in SUBSETS if Modality.INSTANCE in m]
WITHOUT_MASKS = [m for m in SUBSETS if Modality.INSTANCE not in m]


def assert_draws_equal(recording: Recording, b: int, drawn: brute_force_draws.Drawn) -> None:
    actual = recording.placement
    assert actual.source_idx[b].tolist() == drawn.source_idx
    assert actual.layer_valid[b].tolist() == drawn.layer_valid
    scales = map(scales_of, actual.scale_num[b].tolist(), actual.scale_den[b].tolist())
    assert list(scales) == drawn.scale
    assert list(zip(*(flags[b].tolist() for flags in actual.orientation), strict=True)) == drawn.flips
    assert [tuple(t) for t in actual.translate[b].tolist()] == drawn.translate
    assert [row.nonzero().flatten().tolist() for row in actual.carried[b]] == drawn.carried
    for name in ("tried", "no_source", "no_free_slot", "does_not_fit", "outside_region", "covers_too_much"):
        assert int(getattr(recording.counts, name)[b]) == getattr(drawn, name), name


Check = Callable[[PaddedBatchedDenseSample, BatchCopyPasteConfig], None]


def explored(modalities: frozenset[Modality], effort: float) -> Callable[[Check], Callable[[], None]]:
    """Run a check on many batches of these modalities and configs; other subsets see other ones."""

    def wrap(check: Check) -> Callable[[], None]:
        num = max(1, round(settings().max_examples * effort))
        explore = settings(max_examples=num)(given(batches(modalities), configs(modalities))(check))
        return seed(SUBSETS.index(modalities))(explore) if settings().derandomize else explore

    return wrap


class TestDraws:
    @pytest.mark.parametrize("modalities", WITH_MASKS[::4], ids=subset_id)
    def test_equal_plain_loops(self, modalities: frozenset[Modality]) -> None:
        @explored(modalities, 0.6)
        def check(batch: PaddedBatchedDenseSample, config: BatchCopyPasteConfig) -> None:
            if max(batch.max_instances, config.max_instances or 0) == 0:
                return
            _, _, recording = run(batch, config)
            images = brute_force.prepared(batch, config)
            for b in range(batch.batch_size):
                assert_draws_equal(recording, b, brute_force_draws.draw(images, config, b))

        check()


class TestForward:
    @pytest.mark.parametrize("modalities", WITH_MASKS, ids=subset_id)
    def test_equals_plain_loops(self, modalities: frozenset[Modality]) -> None:
        @explored(modalities, 1.0)
        def check(batch: PaddedBatchedDenseSample, config: BatchCopyPasteConfig) -> None:
            if max(batch.max_instances, config.max_instances or 0) == 0:
                return
            out, report, recording = run(batch, config)
            assert_equal(out, report, recording, brute_force.paste(batch, config, recording.placement))
            assert_unchanged(out, batch, UNCHANGED)
            assert (out.instance_masks is None) == (out.instance_ids is None) == (config.emit_instance is False)
            assert (out.panoptic_maps is None) == (batch.panoptic_maps is None or config.emit_panoptic is False)
            assert (out.depth is None) == (out.depth_valid is None)
            assert (out.depth is None) == (batch.depth is None or config.emit_depth is False)

        check()

    @pytest.mark.parametrize("modalities", WITHOUT_MASKS, ids=subset_id)
    def test_pastes_nothing_without_masks(self, modalities: frozenset[Modality]) -> None:
        @explored(modalities, 0.2)
        def check(batch: PaddedBatchedDenseSample, config: BatchCopyPasteConfig) -> None:
            out, report, _ = run(batch, config)
            assert not report.num_placed.any()
            if config.placement.pad_to_multiple is not None:
                batch = padded_to_multiple(batch, config.placement.pad_to_multiple)
            gated = ("depth", "depth_valid") if config.emit_depth is False else ()
            assert all(getattr(out, name) is None for name in gated)
            dense = [f.batched_name for f in FIELDS if f.layout != "instance" and f.name != "instance_valid"]
            if batch.depth is not None:
                finite = batch.depth.isfinite()
                depth = torch.where(finite, batch.depth, 0.0)
                batch = replace(batch, depth=depth, depth_valid=batch.depth_valid & finite)
            assert_unchanged(out, batch, tuple(name for name in dense if name not in gated))
            num = batch.max_instances
            assert out.max_instances == max(num, config.max_instances or 0)
            for name in ("boxes", "labels", "instance_valid"):
                assert torch.equal(getattr(out, name)[:, :num], getattr(batch, name))
                assert not getattr(out, name)[:, num:].any()

        check()

    @pytest.mark.parametrize("modalities", WITHOUT_MASKS[::3], ids=subset_id)
    def test_boxes_stand_for_masks(self, modalities: frozenset[Modality]) -> None:
        """With ``mask_from="boxes"`` the pixels are those of filled boxes, and boxes follow those that were given."""

        @explored(modalities, 0.3)
        def check(batch: PaddedBatchedDenseSample, config: BatchCopyPasteConfig) -> None:
            if max(batch.max_instances, config.max_instances or 0) == 0:
                return
            batch = free_boxes(batch, np.random.default_rng(int(batch.sample_seeds.sum()) % 2**32))
            source = config.source.model_copy(update={"mask_from": "boxes"})
            config = config.model_copy(update={"source": source, "emit_instance": None, "emit_panoptic": None})
            out, report, recording = run(batch, config)
            padded = padded_to_multiple(batch, config.placement.pad_to_multiple or 1)
            masked = brute_force_boxes.with_filled_boxes(padded)
            images = brute_force.prepared(masked, config)
            expected = brute_force.paste(masked, config, recording.placement)
            expected = brute_force_boxes.with_given_boxes(expected, images, images, recording.placement)
            assert_equal(out, report, recording, expected)
            assert out.instance_masks is None
            assert out.instance_ids is None

        check()


class TestCorners:
    """Cases that random batches hit too seldom; each test shows that its case occurs."""

    def test_opposite_normals_vanish(self) -> None:
        """At half the size each output pixel lies between four source pixels whose normals cancel."""
        batch = make_batch(3, size=(13, 19), num_instances=2, max_instances=6, modalities=("instance", "normals"))
        batch = paste_cases.opposite_normals(batch, np.random.default_rng(0))
        config = BatchCopyPasteConfig(
            placement=PlacementConfig(paste_prob=1.0, scale_range=(0.5, 0.5)), source=EVERY_OBJECT
        )
        out, report, recording = run(batch, config)
        shown = (report.visible_layer >= 0)[:, None] & (out.normals != 0).any(1, keepdim=True)
        assert shown.any()
        assert_equal(out, report, recording, brute_force.paste(batch, config, recording.placement))

    @pytest.mark.parametrize("policy", ["revert", "ignore"])
    def test_stuff_is_driven_out(self, policy: Literal["revert", "ignore"]) -> None:
        """Thresholds that nearly every paste crosses, over pastes of which some are too small."""
        panoptic = PanopticConfig(taxonomy=SCHEMA, stuff_policy=policy, tau_stuff_frac=0.95, tau_stuff_px=4)
        config = BatchCopyPasteConfig(
            panoptic=panoptic, min_area_px=5, placement=PlacementConfig(paste_prob=1.0, layers=2), source=EVERY_OBJECT
        )
        reverted = ignored = 0
        for start in range(12):
            batch = make_batch(3, size=(13, 11), num_instances=(2, 3, 2), max_instances=8, seed=start)
            out, report, recording = run(batch, config)
            assert_equal(out, report, recording, brute_force.paste(batch, config, recording.placement))
            reverted += int(report.num_dropped[:, DROP_REASONS.index("reverted")].sum())
            ignored += int(((out.semantic_maps == 255) & (batch.semantic_maps != 255)).sum())
        assert (reverted if policy == "revert" else ignored) > 10

    @pytest.mark.parametrize(
        ("batch_size", "size", "num_instances", "max_instances"),
        [
            (0, (7, 5), 2, 4),
            (3, (7, 5), 0, 0),
            (3, (7, 5), 0, 3),
            (2, (1, 1), 1, 3),
            (1, (7, 5), 2, 4),
            (3, (7, 5), 2, 2),
        ],
    )
    def test_degenerate(self, batch_size: int, size: tuple[int, int], num_instances: int, max_instances: int) -> None:
        """No image, no slot, no instance, one pixel, one image, no free slot."""
        batch = make_batch(batch_size, size=size, num_instances=num_instances, max_instances=max_instances)
        config = BatchCopyPasteConfig(
            placement={"paste_prob": 1.0}, panoptic=PanopticConfig(taxonomy=SCHEMA), source=EVERY_OBJECT
        )
        out, report, recording = run(batch, config)
        if max_instances == 0:
            assert_same(out, batch)
        else:
            assert_equal(out, report, recording, brute_force.paste(batch, config, recording.placement))


class TestTileSize:
    @pytest.mark.parametrize("image_dtype", [torch.uint8, torch.float32])
    def test_changes_no_bit(self, image_dtype: torch.dtype) -> None:
        batch = make_batch(
            3, size=(11, 7), max_instances=7, seed=2, image_dtype=image_dtype, metric_depth=True, padding=(1, 2)
        )
        panoptic = PanopticConfig(taxonomy=SCHEMA, tau_stuff_px=0)
        placement = PlacementConfig(paste_prob=1.0, layers=2, scale_range=(0.4, 1.5))

        def tiled(tile_size: int) -> PaddedBatchedDenseSample:
            config = BatchCopyPasteConfig(
                tile_size=tile_size, placement=placement, panoptic=panoptic, source=EVERY_OBJECT
            )
            out, report, _ = run(batch, config)
            assert report.num_placed.any()
            return out

        whole = tiled(512)
        for tile_size in (1, 3, 7, 16):
            assert_same(tiled(tile_size), whole)


def test_every_subset_is_covered() -> None:
    """The two lists of subsets are all of them, and both are there."""
    assert len(WITH_MASKS) == 12
    assert len(WITHOUT_MASKS) == 8
    assert frozenset(OPTIONAL) in WITH_MASKS
