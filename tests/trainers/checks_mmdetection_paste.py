"""The preset ``mmdet`` beside the ``CopyPaste`` of MMDetection, on the same draws; run by `test_trainers`."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from pairs_of_images import drawn_slots, pair, pasted, rows

operators = ModuleType("mmcv._ext")  # the compiled ones, which no transform needs
operators.__getattr__ = lambda name: None  # type: ignore[method-assign]
sys.modules.setdefault("mmcv._ext", operators)  # `checks_mmdetection` needs some and comes first

from mmdet.datasets.transforms import CopyPaste  # noqa: E402
from mmdet.structures.bbox import HorizontalBoxes  # noqa: E402
from mmdet.structures.mask import BitmapMasks  # noqa: E402

from segpaste.types import PaddedBatchedDenseSample, tight_boxes  # noqa: E402


class Chosen(CopyPaste):  # type: ignore[misc]
    """The transform with its default arguments and these objects."""

    def __init__(self, slots: list[int]) -> None:
        super().__init__()
        self.slots = slots

    def _get_selected_inds(self, num_bboxes: int) -> NDArray[np.int64]:
        assert max(self.slots, default=0) < num_bboxes
        return np.array(self.slots, dtype=np.int64)


def results_of(batch: PaddedBatchedDenseSample, b: int) -> dict[str, Any]:
    valid = batch.instance_valid[b]
    assert batch.instance_masks is not None
    masks = batch.instance_masks[b][valid].numpy().astype(np.uint8)
    return {
        "img": batch.images[b].permute(1, 2, 0).numpy(),
        "gt_bboxes": HorizontalBoxes(batch.boxes[b][valid].clone()),
        "gt_bboxes_labels": batch.labels[b][valid].numpy(),
        "gt_masks": BitmapMasks(masks, *masks.shape[1:]),
        "gt_ignore_flags": np.zeros(int(valid.sum()), bool),
    }


def compare(batch: PaddedBatchedDenseSample, b: int) -> tuple[int, int, int]:
    """Paste into image ``b`` by both, and return the numbers of objects pasted and dropped, and of small survivors."""
    out, report = pasted(batch, "mmdet")
    original = results_of(batch, b) | {"mix_results": [results_of(batch, 1 - b)]}
    num_before, slots = len(original["gt_bboxes"]), drawn_slots(report, b)
    transform = Chosen(slots)
    result = transform.transform(original)
    seen = result["gt_masks"].masks.any((1, 2))  # where nothing is left, it may keep the object
    want = (result["gt_masks"].masks[seen], result["gt_bboxes"].tensor[seen], result["gt_bboxes_labels"][seen])
    valid = out.instance_valid[b]
    assert out.instance_masks is not None
    assert rows(out.instance_masks[b][valid], out.boxes[b][valid], out.labels[b][valid]) == rows(*want)
    assert np.array_equal(out.images[b].permute(1, 2, 0).numpy(), result["img"])
    areas = out.instance_masks[b][valid & (report.slot_layer[b] < 0)].sum((1, 2))
    return len(slots), num_before - len(areas), int((areas <= 300).sum())


def test_the_same_images_masks_and_boxes() -> None:
    found = np.array([compare(pair(seed, 9, filled=False), b) for seed in range(60) for b in range(2)])
    assert {*range(5)} <= {*found[:, 0].tolist()}  # from no object on
    assert found[:, 1].sum() > 10
    assert found[:, 2].sum() > 100


@pytest.mark.parametrize("edge", [20, 21, 30, 31])
@pytest.mark.parametrize("num_more", [0, 1])
def test_at_the_thresholds(edge: int, num_more: int) -> None:
    """300 or 301 pixels are left of an object whose right edge moves from 41 to ``edge``."""
    batch = pair(0, 1, filled=True)
    assert batch.instance_masks is not None
    num_rows = 300 // (edge - 10)
    for b, (x1, x2) in enumerate(((10, 41), (edge, 60))):
        batch.instance_masks[b].zero_()
        batch.instance_masks[b, 0, 5 : 5 + num_rows, x1:x2] = True
    batch.instance_masks[0, 0, 4, 10 : 10 + 300 - num_rows * (edge - 10) + num_more] = True
    batch.boxes[:, 0] = torch.stack([tight_boxes(masks[:1])[0] for masks in batch.instance_masks])
    numbers = [compare(replace(batch, sample_seeds=torch.tensor([seed, 99])), 0) for seed in range(9)]
    assert (1, int(edge < 31 and num_more == 0)) in {number[:2] for number in numbers}


@pytest.mark.parametrize("num", [1, 3, 150])
def test_as_many_objects_are_drawn(num: int) -> None:
    """The numbers that the transform draws are those from 0 to min(N, 99)."""
    transform = CopyPaste()
    counts = [len(transform._get_selected_inds(num)) for _ in range(2000)]
    assert (min(counts), max(counts)) == (0, min(num, 99))
