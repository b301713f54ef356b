"""Every backend computes the same: dtypes, layouts, sources; which one runs, and bad input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from backend_cases import module, outcomes, roomy_batch

from fresh_process import fresh_output
from samples import (
    CPU_BACKENDS,
    EVERY_IMAGE,
    OPTIONAL,
    FromBatch,
    all_modality_subsets,
    assert_backends_agree,
    assert_same,
    make_batch,
    subset_id,
)
from segpaste.augmentation import BatchCopyPaste, IntraBatchSource
from segpaste.augmentation.sources.strategies import PlacementRequest
from segpaste.engine import engine_for, native, reference, use_backend
from segpaste.types import Modality

SUBSETS = [pytest.param(s, id=subset_id(s)) for s in all_modality_subsets() if Modality.INSTANCE in s]
LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "every second of more": lambda t: t.repeat_interleave(2, 0)[::2],
    "cut out of larger": lambda t: torch.nn.functional.pad(t, [2, 3])[..., 2:-3] if t.ndim > 2 else t,
    "last two dimensions swapped": lambda t: t.mT.contiguous().mT if t.ndim > 2 else t,
    "first two dimensions swapped": lambda t: t.transpose(0, 1).contiguous().transpose(0, 1) if t.ndim > 1 else t,
    "channels last": lambda t: t.contiguous(memory_format=torch.channels_last) if t.ndim == 4 else t,
    "reversed order": lambda t: t.permute(*reversed(range(t.ndim))).contiguous().permute(*reversed(range(t.ndim))),
}
"""The same values in other places."""

FLOATS = (torch.float32, torch.float16, torch.bfloat16)


class TestAgree:
    @pytest.mark.parametrize("modalities", SUBSETS)
    @pytest.mark.parametrize("dtype", [torch.uint8, *FLOATS], ids=str)
    def test_every_subset_and_dtype(self, modalities: frozenset[Modality], dtype: torch.dtype) -> None:
        num_pasted = 0
        for seed in range(3):
            batch = roomy_batch(
                image_dtype=dtype, modalities=modalities, seed=seed, metric_depth=Modality.DEPTH in modalities
            )
            reference, *others = outcomes(batch, module())
            for other in others:
                assert_backends_agree(other, reference)
            num_pasted += int(reference[1].num_placed.sum())
        assert num_pasted > 3

    @pytest.mark.parametrize("modalities", SUBSETS)
    def test_without_a_report(self, modalities: frozenset[Modality]) -> None:
        """The buffer of visible layers is reused from row to row without leftovers."""
        paste = module(layers=1, k_range=(1, 1), scale_range=(0.5, 1.0), max_attempts=1)
        for seed in range(6):
            batch = make_batch(8, size=(5, 41), max_instances=8, modalities=modalities, seed=seed)
            with use_backend("reference"):
                expected, report = paste(batch, return_report=True)
            for name in CPU_BACKENDS:
                with use_backend(name):
                    found = paste(batch)
                assert_backends_agree((found, report), (expected, report))

    @pytest.mark.parametrize("options", [{"batch_size": 0}, {"max_instances": 0, "num_instances": 0}, {"size": (1, 1)}])
    def test_degenerate_batches(self, options: dict[str, Any]) -> None:
        options = {"size": (9, 5), "max_instances": 4, "num_instances": 1, **options}
        reference, *others = outcomes(make_batch(**options), module())
        for other in others:
            assert_backends_agree(other, reference)

    @pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.bfloat16], ids=str)
    def test_channels_last_stays_so(self, dtype: torch.dtype) -> None:
        batch = roomy_batch(image_dtype=dtype)
        last = replace(batch, images=batch.images.contiguous(memory_format=torch.channels_last))
        for (plain, _), (out, _) in zip(outcomes(batch, module()), outcomes(last, module()), strict=True):
            assert out.images.is_contiguous(memory_format=torch.channels_last)
            assert_same(replace(out, images=out.images.contiguous()), plain)

    def test_a_mask_reaches_as_far_as_its_box(self) -> None:
        """A box that is wrong gives the same result by every kernel."""
        batch = roomy_batch(num_instances=4, modalities=set(OPTIONAL) - {Modality.PANOPTIC})
        x1, y1, x2, y2 = batch.boxes.unbind(-1)
        lying = replace(batch, boxes=torch.stack([x1, y1, (x1 + x2) / 2, (y1 + y2) / 2], -1))
        reference, *others = outcomes(lying, module(layers=1))
        for other in others:
            assert_backends_agree(other, reference)
        assert not torch.equal(reference[0].instance_masks, outcomes(batch, module(layers=1))[0][0].instance_masks)

    @pytest.mark.parametrize("padding", [(0, 11), (9, 0)])
    def test_masks_that_reach_into_the_padding(self, padding: tuple[int, int]) -> None:
        """Outside of the picture nothing is read, not even its border."""
        batch = roomy_batch(padding=padding, num_instances=1, modalities={Modality.INSTANCE})
        boxes = torch.tensor([0.0, 0, 37, 31]) * batch.instance_valid[..., None]
        masks = batch.instance_valid[..., None, None].expand_as(batch.instance_masks).clone()
        batch = replace(batch, boxes=boxes, instance_masks=masks)
        reference, *others = outcomes(batch, module(scale_range=(0.3, 0.6)))
        assert reference[1].num_placed.any()
        for other in others:
            assert_backends_agree(other, reference)

    @pytest.mark.parametrize("modalities", SUBSETS)
    def test_masks_that_overlap(self, modalities: frozenset[Modality]) -> None:
        """Also beside a panoptic map, where they should not: the lowest slot owns the pixel."""
        batch = roomy_batch(num_instances=4, modalities=modalities)
        grown = torch.nn.functional.max_pool2d(batch.instance_masks.float(), 7, stride=1, padding=3).bool()
        grown &= batch.instance_valid[..., None, None]
        room = torch.tensor([3.0, 3, -3, -3])
        limit = torch.tensor([37.0, 31, 37, 31])
        boxes = (batch.boxes - room).clamp(min=0).minimum(limit) * batch.instance_valid[..., None]
        batch = replace(batch, instance_masks=grown, boxes=boxes)
        reference, *others = outcomes(batch, module(scale_range=(0.5, 1.0)))
        assert reference[1].num_placed.any()
        for other in others:
            assert_backends_agree(other, reference)

    @pytest.mark.parametrize("layout", sorted(LAYOUTS))
    @pytest.mark.parametrize("dtype", [torch.uint8, torch.float32], ids=str)
    def test_any_layout_in_memory(self, layout: str, dtype: torch.dtype) -> None:
        """Views, crops, permutations and expansions of other tensors hold the same values."""
        batch = roomy_batch(image_dtype=dtype, metric_depth=True)
        strange = batch.map_tensors(LAYOUTS[layout])
        assert_same(strange, batch)
        reference, *others = outcomes(batch, module())
        for outcome in outcomes(strange, module()):
            assert_backends_agree(outcome, reference)
        for other in others:
            assert_backends_agree(other, reference)

    def test_images_expanded_from_one_channel(self) -> None:
        batch = roomy_batch()
        grey = replace(batch, images=batch.images[:, :1].expand(-1, 3, -1, -1))
        plain = replace(batch, images=grey.images.contiguous())
        for (out, _), (expected, _) in zip(outcomes(grey, module()), outcomes(plain, module()), strict=True):
            assert_same(out, expected)

    @torch.no_grad()
    def test_inputs_that_require_grad(self) -> None:
        batch = roomy_batch(image_dtype=torch.float32)
        asking = batch.map_tensors(lambda t: t.clone().requires_grad_() if t.is_floating_point() else t)
        for (out, _), (expected, _) in zip(outcomes(asking, module()), outcomes(batch, module()), strict=True):
            assert torch.equal(out.images.detach(), expected.images)

    def test_colours_that_are_no_number(self) -> None:
        """They spread as far as their weight does."""
        batch = roomy_batch(image_dtype=torch.float32)
        batch.images[:, :, ::5, ::3] = float("nan")
        batch.images[:, :, 1::5, 1::3] = float("inf")
        for scale_range in ((0.4, 1.0), (1.0, 1.0), (3.0, 3.0)):
            reference, *others = outcomes(batch, module(scale_range=scale_range))
            assert reference[1].num_placed.any()
            for other in others:
                assert_backends_agree(other, reference)

    def test_seeds_that_repeat(self) -> None:
        for seed in range(4):
            batch = replace(roomy_batch(), sample_seeds=torch.full((4,), seed))
            reference, *others = outcomes(batch, module())
            for other in others:
                assert_backends_agree(other, reference)

    def test_another_default_dtype(self) -> None:
        batch = roomy_batch(image_dtype=torch.float32, metric_depth=True)
        expected = outcomes(batch, module())[0]
        torch.set_default_dtype(torch.float64)
        try:
            for outcome in outcomes(batch, module()):
                assert_backends_agree(outcome, expected)
        finally:
            torch.set_default_dtype(torch.float32)


class TestForeignSource:
    @pytest.mark.parametrize("name", CPU_BACKENDS)
    def test_of_another_kind_is_refused(self, name: str) -> None:
        batch = roomy_batch(image_dtype=torch.float32)
        wrong = {
            "1 channels": replace(batch, images=batch.images[:, :1]),
            "4 channels": replace(batch, images=batch.images[:, [0, 1, 2, 2]]),
            "torch.uint8": roomy_batch(image_dtype=torch.uint8),
            "masks": replace(batch, instance_masks=None, instance_ids=None, panoptic_maps=None),
        }
        for words, other in wrong.items():
            with use_backend(name), pytest.raises(ValueError, match=words):
                BatchCopyPaste(EVERY_IMAGE, source=FromBatch(other))(batch)

    @pytest.mark.parametrize("name", CPU_BACKENDS)
    def test_its_placement_is_left_alone(self, name: str) -> None:
        """A strategy may return it again, when a paste that is too small now may be large enough."""

        class Keeping(IntraBatchSource):
            def sample(self, *args: Any) -> Any:
                given = super().sample(*args)
                self.given, self.before = given[1].carried, given[1].carried.clone()
                return given

        source = Keeping()
        paste = BatchCopyPaste(module().config.model_copy(update={"min_area_px": 60}), source)
        with use_backend(name):
            _, report = paste(roomy_batch(), return_report=True)
        assert torch.equal(source.given, source.before)
        assert not torch.equal(report.placement.carried, source.before)

    def test_without_some_fields(self) -> None:
        """A field that the source lacks counts as absent: depth and normals invalid, classes by label."""
        batch = roomy_batch()
        for missing in ("semantic_maps", "depth", "normals"):
            also = {"semantic_maps": "panoptic_maps", "depth": "depth_valid"}.get(missing, missing)
            paste = BatchCopyPaste(module().config, FromBatch(replace(batch, **{missing: None, also: None})))
            reference, *others = outcomes(batch, paste)
            assert reference[1].num_placed.any()
            for other in others:
                assert_backends_agree(other, reference)


class TestSelection:
    def test_the_cpu_runs_its_own(self) -> None:
        assert engine_for(torch.device("cpu")) is native

    def test_use_backend_ends(self) -> None:
        with use_backend("reference"):
            assert engine_for(torch.device("cpu")) is reference
            with use_backend("native"):
                assert engine_for(torch.device("cpu")) is native
        assert engine_for(torch.device("cpu")) is native

    def test_an_unknown_name_is_refused(self) -> None:
        names = "expected one of reference, native, triton, got 'fast'"
        with pytest.raises(ValueError, match=names), use_backend("fast"):
            pass

    @pytest.mark.parametrize(
        ("environment", "is_missing", "expected"),
        [
            ({}, False, "native 0"),
            ({"SEGPASTE_BACKEND": "reference"}, False, "reference 0"),
            ({}, True, "reference 1"),
            ({"SEGPASTE_ISA": "v9"}, False, "reference 1"),
        ],
    )
    def test_in_a_fresh_process(self, environment: dict[str, str], is_missing: bool, expected: str) -> None:
        """Without the native library there is one warning, and the reference."""
        code = f"""
import pathlib, warnings
from segpaste.engine.native import build, library
if {is_missing}:
    library.load.__wrapped__.__defaults__ = (pathlib.Path("nowhere"),)
import torch
from segpaste.engine import engine_for
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    found = {{engine_for(torch.device("cpu")).__name__.rpartition(".")[2] for _ in range(3)}}
print(*found, sum("its native library cannot be used" in str(w.message) for w in caught))
"""
        assert fresh_output(code, **environment) == expected

    def test_importing_segpaste_loads_no_library(self) -> None:
        code = "import sys, segpaste; segpaste.BatchCopyPaste(); print('segpaste.engine.native.library' in sys.modules)"
        assert fresh_output(code) == "False"


class TestSurvey:
    @pytest.mark.parametrize("options", [{}, {"padding": (5, 3)}, {"num_instances": 0}, {"batch_size": 0}])
    @pytest.mark.parametrize("has_taxonomy", [True, False])
    def test_equals_the_stages(self, options: dict[str, Any], has_taxonomy: bool) -> None:
        """This includes padding with holes and boxes between pixels."""
        batch = roomy_batch(**options)
        generator = torch.Generator().manual_seed(0)
        shift = torch.rand(batch.boxes.shape, generator=generator) * batch.instance_valid[..., None]
        batch = replace(batch, boxes=(batch.boxes - shift).clamp(min=0))
        paste = module() if has_taxonomy else BatchCopyPaste(EVERY_IMAGE)
        for with_holes in (False, True):
            if with_holes:
                holes = torch.rand(batch.batch_size, 1, *batch.canvas_size, generator=generator) < 0.97
                batch = replace(batch, padding_mask=holes)
            expected, found = (backend.survey(batch, paste._tables, 255) for backend in (reference, native))
            for name, value in expected._asdict().items():
                assert torch.equal(getattr(found, name), value), name
                assert getattr(found, name).dtype == value.dtype


class TestBadInput:
    def test_a_request_for_other_slots_is_refused(self) -> None:
        """Loops would read boxes that are not there."""
        batch, paste = roomy_batch(num_instances=4, modalities={Modality.INSTANCE}), module(max_attempts=1)
        found = native.survey(batch, paste._tables)
        placing = {"config": paste.config.placement, "schedule": paste.schedule, "canvas_size": batch.canvas_size}
        request = PlacementRequest(batch.sample_seeds, found.extent, found.occupied[:, :1], found.num_free, **placing)
        with pytest.raises(ValueError, match=r"expected boxes .* as eligible, got \[\d+, 1, 4\]"):
            IntraBatchSource().sample(batch, found.eligible, request)

    @pytest.mark.parametrize("edge", [1e9, 1e14, 1e19, 3e38])
    @pytest.mark.parametrize("column", [0, 1, 2, 3])
    def test_boxes_as_large_as_numbers_get(self, edge: float, column: int) -> None:
        batch = roomy_batch(num_instances=4, modalities={Modality.INSTANCE})
        boxes = batch.boxes.clone()
        boxes[:, 1, column] = edge if column > 1 else -edge
        reference, *others = outcomes(replace(batch, boxes=boxes), module(max_attempts=1))
        for other in others:
            assert_backends_agree(other, reference)

    @pytest.mark.parametrize("inplace", [False, True])
    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda p: {"source_idx": p.source_idx + 10**6}, "rows of the source batch"),
            (lambda p: {"source_idx": p.source_idx * 0 - 1}, "rows of the source batch"),
            (lambda p: {"scale_num": p.scale_num * 0}, "scale_num"),
            (lambda p: {"carried": torch.ones_like(p.carried)}, "carried"),
            (lambda p: {"carried": p.carried[..., :2]}, "carried"),
        ],
    )
    def test_placements_that_cannot_be_are_refused(self, change: Any, words: str, inplace: bool) -> None:
        class Wild(IntraBatchSource):
            def sample(self, *args: Any) -> Any:
                source, placement, counts = super().sample(*args)
                return source, replace(placement, **change(placement)), counts

        batch = roomy_batch(num_instances=4)
        before = batch.clone()
        with use_backend("native"), pytest.raises(ValueError, match=words):
            BatchCopyPaste(EVERY_IMAGE, source=Wild(), inplace=inplace)(batch)
        assert_same(batch, before)
