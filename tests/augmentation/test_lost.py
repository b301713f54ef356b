"""Instances of the target that pastes hide or cut below a limit: the report counts each of them, with its reason."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from samples import CPU_BACKENDS, EVERY_OBJECT, OPTIONAL, SCHEMA, make_batch, paste
from segpaste.augmentation import (
    LOSS_REASONS,
    BatchCopyPaste,
    BatchCopyPasteConfig,
    PanopticConfig,
    PasteReport,
    PasteSummary,
    PlacementConfig,
)
from segpaste.engine import use_backend
from segpaste.types import PaddedBatchedDenseSample

KERNELS = pytest.mark.parametrize("kernels", CPU_BACKENDS)
CONFIG = BatchCopyPasteConfig(
    min_area_px=4,
    min_residual_area_frac=0.4,
    panoptic=PanopticConfig(taxonomy=SCHEMA, tau_stuff_frac=0.0, tau_stuff_px=0),
    placement=PlacementConfig(layers=2, scale_range=(0.9, 1.9), k_range=(2, 8)),
    source=EVERY_OBJECT,
)


def batches(modalities: tuple[str, ...]) -> list[PaddedBatchedDenseSample]:
    return [
        make_batch(4, size=(19, 17), num_instances=4, max_instances=12, seed=seed, modalities=modalities)  # type: ignore[arg-type]
        for seed in range(5)
    ]


def expected(batch: PaddedBatchedDenseSample, out: PaddedBatchedDenseSample, report: PasteReport) -> list[list[int]]:
    """Return the codes, slot by slot and pixel by pixel."""
    found = []
    for row in range(batch.batch_size):
        codes = []
        for slot in range(batch.instance_valid.shape[1]):
            mask, seen = batch.instance_masks[row, slot], report.visible_layer[row] < 0  # type: ignore[index]
            stays = bool(out.instance_valid[row, slot]) and int(report.slot_layer[row, slot]) < 0
            rest, whole = int((mask & seen).sum()), int(mask.sum())
            codes.append(0 if not batch.instance_valid[row, slot] or stays or not whole else 2 if rest else 1)
        found.append(codes)
    return found


@KERNELS
@pytest.mark.parametrize("modalities", [("instance",), ("instance", "depth"), OPTIONAL], ids=["bare", "depth", "all"])
def test_each_loss_has_its_reason(kernels: str, modalities: tuple[str, ...]) -> None:
    total = torch.zeros(len(LOSS_REASONS), dtype=torch.int64)
    for batch in batches(modalities):
        with use_backend(kernels):
            out, report = paste(batch, CONFIG)
            copied = batch.clone()
            _, in_place = BatchCopyPaste(CONFIG, inplace=True)(copied, return_report=True)
        codes = expected(batch, out, report)
        assert report.slot_lost.tolist() == codes
        assert in_place.slot_lost.tolist() == codes
        num_before, num_after = int(batch.instance_valid.sum()), int(out.instance_valid.sum())
        assert num_before + int(report.num_placed.sum()) - int(report.num_lost.sum()) == num_after
        total += report.num_lost.sum(0)
    assert total[1] > 2
    assert total[0] > 2 or len(modalities) > 1  # what is nearer stays visible


def test_a_compiled_report_is_equal() -> None:
    batch = batches(("instance",))[0]
    module = BatchCopyPaste(CONFIG)
    _, report = module(batch, return_report=True)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    _, again = compiled(batch, return_report=True)
    assert report.slot_lost.any()
    assert torch.equal(report.slot_lost, again.slot_lost)


def test_empty_masks_are_no_loss() -> None:
    """They were no object before."""
    batch = batches(("instance",))[0]
    masks = batch.instance_masks.clone()  # type: ignore[union-attr]
    masks[:, 0] = False
    batch = replace(batch, instance_masks=masks)
    _, report = paste(batch, CONFIG)
    assert not report.slot_lost[:, 0].any()


def test_a_summary_counts_them() -> None:
    reports = [paste(batch, CONFIG)[1] for batch in batches(("instance",))[:2]]
    summary = sum(map(PasteSummary.of, reports))
    assert isinstance(summary, PasteSummary)
    for i, reason in enumerate(LOSS_REASONS):
        count = sum(int(report.num_lost[:, i].sum()) for report in reports)
        assert summary.to_dict()[f"lost_{reason}"] == count
        assert (f"lost_{reason} {count}" in repr(summary)) == (count > 0)
    nothing = paste(batches(("instance",))[0], BatchCopyPasteConfig(placement=PlacementConfig(paste_prob=0.0)))[1]
    assert "lost" not in repr(nothing)
