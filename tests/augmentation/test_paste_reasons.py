"""Why nothing is pasted: the reasons in the report, the warning, and batches of boxes without masks."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import pytest
import torch
from input_cases import INSTANCE, SUBSETS, paste_with

from samples import EVERY_IMAGE, EVERY_OBJECT, SCHEMA, assert_same, make_batch
from segpaste import BatchCopyPaste, BatchCopyPasteConfig
from segpaste._reprs import counted
from segpaste.augmentation import DROP_REASONS, PanopticConfig, PasteReport, PlacementConfig, SourceConfig
from segpaste.augmentation.report import nothing_pasted_warning
from segpaste.types import Modality, PaddedBatchedDenseSample


def reasons(report: PasteReport) -> dict[str, int]:
    """The totals of `PasteReport.num_dropped` that are not 0."""
    totals = report.num_dropped.sum(0).tolist()
    return {name: count for name, count in zip(DROP_REASONS, totals, strict=True) if count}


def assert_nothing_pasted(out: PaddedBatchedDenseSample, report: PasteReport, batch: PaddedBatchedDenseSample) -> None:
    assert_same(out, batch)
    assert not report.num_placed.any()
    assert torch.equal(report.num_tried, report.num_dropped.sum(1))
    assert (report.visible_layer == -1).all()
    assert (report.slot_layer == -1).all()
    assert (report.slot_source == -1).all()
    assert not report.placement.carried.any()


class TestNothingToPaste:
    @pytest.mark.parametrize("modalities", SUBSETS)
    @pytest.mark.parametrize(
        "options",
        [
            pytest.param({"batch_size": 0}, id="B=0"),
            pytest.param({"batch_size": 1}, id="B=1"),
            pytest.param({"num_instances": 0}, id="no instance"),
            pytest.param({"num_instances": 0, "max_instances": 0}, id="K=0"),
            pytest.param({"num_instances": [0, 3, 0], "max_instances": 3}, id="the only source has no other target"),
            pytest.param({"num_instances": 3, "max_instances": 3}, id="K full"),
        ],
    )
    def test_the_batch_comes_back_as_it_was(self, modalities: frozenset[Modality], options: dict[str, Any]) -> None:
        batch = make_batch(modalities=modalities, padding=(2, 1), **options)
        if options.get("num_instances") == [0, 3, 0]:
            batch = batch.map_tensors(lambda t: t[1:2])
        assert_nothing_pasted(*paste_with(batch), batch)

    def test_all_rows_invalid_in_one_image(self) -> None:
        """The image is a target, and never a source."""
        batch = make_batch(num_instances=[3, 0, 2], modalities=INSTANCE)
        out, report = paste_with(batch)
        assert report.num_placed[1] > 0
        assert (report.placement.source_idx[report.placement.layer_valid] != 1).all()
        assert out.instance_valid[1].sum() == report.num_placed[1]

    def test_a_full_image_among_others(self) -> None:
        batch = make_batch(num_instances=[5, 1, 2], modalities=INSTANCE)
        out, report = paste_with(batch)
        assert torch.equal(out.images[0], batch.images[0])
        assert report.num_tried[0] == report.num_dropped[0, DROP_REASONS.index("no_free_slot")] > 0
        assert report.num_placed[1:].all()

    def test_paste_prob_0(self) -> None:
        batch = make_batch()
        out, report = paste_with(batch, PlacementConfig(paste_prob=0))
        assert_nothing_pasted(out, report, batch)
        assert not report.num_tried.any()


class TestTheReasons:
    @pytest.mark.parametrize(
        ("reason", "advice", "options", "config"),
        [
            ("no_source", "batch at least two images", {"batch_size": 1}, {}),
            ("no_source", "batch at least two images", {"modalities": ()}, {}),
            ("no_free_slot", "pad to more slots", {"max_instances": 3, "num_instances": 3}, {}),
            (
                "does_not_fit",
                "lower placement.scale_range",
                {},
                {"placement": PlacementConfig(paste_prob=1.0, scale_range=(60, 60))},
            ),
            (
                "too_small",
                "raise placement.scale_range",
                {},
                {"min_area_px": 10_000, "placement": PlacementConfig(paste_prob=1.0, scale_range=(1, 1))},
            ),
        ],
    )
    def test_the_only_one_in_the_report_and_in_the_warning(
        self, reason: str, advice: str, options: dict[str, Any], config: dict[str, Any]
    ) -> None:
        batch = make_batch(**{"modalities": INSTANCE, **options})
        given = {"placement": PlacementConfig(paste_prob=1.0), **config}
        module = BatchCopyPaste(BatchCopyPasteConfig(source=EVERY_OBJECT, **given))
        with pytest.warns(UserWarning, match=rf"paste nothing .* of \d+ tr(y|ies), {reason} \d+; {advice}"):
            out, report = module(batch, return_report=True)
        assert torch.equal(out.images, batch.images)
        assert not report.num_placed.any()
        assert list(reasons(report)) == [reason]
        assert torch.equal(report.num_tried, report.num_dropped.sum(1))
        assert report.num_tried.all()
        tried = int(report.num_tried.sum())
        told = repr(report).partition(", lost_")[0].rstrip(")")  # min_area_px also holds for objects of the target
        assert told == f"PasteReport({counted(batch.batch_size, 'image')}: {tried} tried, 0 placed, {reason} {tried}"

    def test_hidden_behind_the_target(self) -> None:
        batch = make_batch(modalities={Modality.INSTANCE, Modality.DEPTH})
        near = torch.where(torch.arange(3).view(3, 1, 1, 1) == 0, 0.5, 5.0).expand_as(batch.depth)
        batch = replace(batch, depth=near.contiguous(), depth_valid=torch.ones_like(batch.depth_valid))
        out, report = paste_with(batch)
        assert torch.equal(out.images[0], batch.images[0])
        assert report.num_tried[0] == report.num_dropped[0, DROP_REASONS.index("hidden")] > 0

    @pytest.mark.parametrize("has_depth", [False, True])
    def test_hidden_in_words_of_what_the_batch_has(self, has_depth: bool) -> None:
        batch = make_batch(2, modalities=INSTANCE | ({Modality.DEPTH} if has_depth else set()))
        report = paste_with(batch)[1]
        num = report.num_tried.sum()
        dropped = torch.zeros_like(report.num_dropped)
        dropped[:, DROP_REASONS.index("hidden")] = report.num_tried
        hidden = replace(report, num_dropped=dropped, num_placed=torch.zeros_like(report.num_placed))
        message = nothing_pasted_warning(hidden, BatchCopyPasteConfig(), batch.modalities)
        assert message is not None
        assert f"of {num} tries, hidden {num}; " in message
        assert ("depth" in message, "priority" in message) == (has_depth, False)

    def test_reverted_for_a_stuff_class(self) -> None:
        batch = make_batch(num_instances=2, max_instances=4, size=(13, 13), seed=4)
        guarded = PanopticConfig.model_validate({"taxonomy": SCHEMA, "tau_stuff_frac": 1.0})
        _, free = paste_with(batch)
        out, report = paste_with(batch, panoptic=guarded)
        assert free.num_placed.any()
        assert reasons(report)["reverted"] > 0
        assert torch.equal(report.num_tried, report.num_placed + report.num_dropped.sum(1))
        stuff = (batch.panoptic_maps == 0) & (batch.semantic_maps != 255)
        assert (report.visible_layer[stuff] == -1).all()
        assert torch.equal(out.semantic_maps[stuff], batch.semantic_maps[stuff])


class TestTheWarning:
    def test_a_single_image_that_tries_is_chance(self) -> None:
        config = BatchCopyPasteConfig(placement={"paste_prob": 0.3}, source=EVERY_OBJECT, min_area_px=10_000)
        numbers = set()
        for seed in range(30):
            batch = make_batch(modalities=INSTANCE, seed=seed)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                _, report = BatchCopyPaste(config)(batch, return_report=True)
            num_tried = int((report.num_tried > 0).sum())
            assert bool(caught) == (num_tried >= 2)
            numbers.add(num_tried)
        assert {0, 1, 2} <= numbers

    def test_the_first_time_and_not_again(self) -> None:
        module = BatchCopyPaste(EVERY_IMAGE)
        empty = make_batch(batch_size=1, modalities=INSTANCE)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            module(make_batch(modalities=INSTANCE))
            module(make_batch(batch_size=0, modalities=INSTANCE))
        with pytest.warns(UserWarning, match="no_source 1") as caught:
            module(empty)
        assert [w.filename for w in caught] == [__file__], "it does not name the caller's line"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            module(empty)

    @pytest.mark.parametrize("share", [1, 0], ids=["pasted", "none tried"])
    def test_not_at_all(self, share: float) -> None:
        config = BatchCopyPasteConfig(placement={"paste_prob": share}, source=EVERY_OBJECT)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            BatchCopyPaste(config)(make_batch(modalities=INSTANCE))


class TestBoxesWithoutMasks:
    BOXES = frozenset({Modality.SEMANTIC, Modality.DEPTH})

    def test_nothing_is_pasted(self) -> None:
        batch = make_batch(modalities=self.BOXES)
        out, report = paste_with(batch)
        assert_nothing_pasted(out, report, batch)
        assert reasons(report) == {"no_source": 3}

    def test_mask_from_boxes(self) -> None:
        batch = make_batch(modalities=self.BOXES)
        out, report = paste_with(batch, source=SourceConfig(mask_from="boxes", whole_only=False))
        pasted = report.slot_layer >= 0
        assert out.instance_masks is None
        assert out.instance_ids is None
        assert pasted.any()
        assert torch.equal(pasted.sum(1), report.num_placed)
        cols, rows = torch.arange(11), torch.arange(17)[:, None]
        x1, y1, x2, y2 = out.boxes[..., None, None].unbind(2)
        boxes = (cols + 1 > x1) & (cols < x2) & (rows + 1 > y1) & (rows < y2) & pasted[..., None, None]
        shown = report.visible_layer >= 0
        assert not (shown & ~boxes.any(1)).any(), "painted outside of all pasted boxes"
        assert (boxes & shown[:, None]).any((2, 3))[pasted].all(), "a row without a pixel"

    def test_boxes_cannot_own_panoptic_pixels(self) -> None:
        batch = replace(make_batch(), instance_masks=None, instance_ids=None)
        boxes = SourceConfig(mask_from="boxes", whole_only=False)
        with pytest.raises(ValueError, match="expected instance masks with the panoptic maps"):
            paste_with(batch, source=boxes)
        out, report = paste_with(batch, source=boxes, emit_panoptic=False)
        assert out.panoptic_maps is None
        assert report.num_placed.any()

    def test_a_box_is_pasted_whole_and_alone(self) -> None:
        batch = make_batch(modalities=())
        placement = PlacementConfig(paste_prob=1.0, scale_range=(1, 1), k_range=(1, 1))
        _, report = paste_with(batch, placement, source=SourceConfig(mask_from="boxes", whole_only=False))
        sizes = (batch.boxes[..., 2:] - batch.boxes[..., :2]).prod(-1)
        for b in range(3):
            slot = report.slot_source[b].max()
            assert (report.visible_layer[b] >= 0).sum() == sizes[report.placement.source_idx[b, 0], slot]

    def test_a_batch_with_masks_keeps_them(self) -> None:
        batch = make_batch(modalities=INSTANCE)
        assert_same(
            paste_with(batch, source=SourceConfig(mask_from="boxes", whole_only=False))[0], paste_with(batch)[0]
        )
