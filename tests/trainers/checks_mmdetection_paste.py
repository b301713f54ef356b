"""The preset ``mmdet`` beside the ``CopyPaste`` of MMDetection, on the same draws; run by `test_trainers`."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pairs_of_images import drawn_slots, pair, pasted, rows

sys.modules["mmcv._ext"] = ModuleType("mmcv._ext")  # compiled operators, which no transform needs
sys.modules["mmcv._ext"].__getattr__ = lambda name: None  # type: ignore[method-assign]

from mmdet.datasets.transforms import CopyPaste  # noqa: E402
from mmdet.structures.bbox import HorizontalBoxes  # noqa: E402
from mmdet.structures.mask import BitmapMasks  # noqa: E402

from segpaste.types import PaddedBatchedDenseSample  # noqa: E402


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


def test_the_same_images_masks_and_boxes() -> None:
    kept_small = dropped = numbers = 0
    for seed in range(60):
        batch = pair(seed, 9, filled=False)
        out, report = pasted(batch, "mmdet")
        assert out.instance_masks is not None
        for b in range(2):
            original = results_of(batch, b) | {"mix_results": [results_of(batch, 1 - b)]}
            num_before = len(original["gt_bboxes"])
            slots = drawn_slots(report, b)
            transform = Chosen(slots)
            result = transform.transform(original)
            seen = result["gt_masks"].masks.any((1, 2))  # where nothing is left, it may keep the object
            want = (result["gt_masks"].masks[seen], result["gt_bboxes"].tensor[seen], result["gt_bboxes_labels"][seen])
            valid = out.instance_valid[b]
            assert rows(out.instance_masks[b][valid], out.boxes[b][valid], out.labels[b][valid]) == rows(*want)
            assert np.array_equal(out.images[b].permute(1, 2, 0).numpy(), result["img"])
            num_survivors = int(valid.sum()) - len(slots)
            dropped += num_before - num_survivors
            areas = out.instance_masks[b][valid & (report.slot_layer[b] < 0)].sum((1, 2))
            kept_small += int((areas <= 300).sum())
            numbers |= 1 << len(slots)
    assert dropped > 10
    assert kept_small > 100
    assert numbers & 0b11111 == 0b11111  # from no object on


@pytest.mark.parametrize("num", [1, 3, 150])
def test_as_many_objects_are_drawn(num: int) -> None:
    """The numbers that the transform draws are those from 0 to min(N, 99)."""
    transform = CopyPaste()
    counts = [len(transform._get_selected_inds(num)) for _ in range(2000)]
    assert (min(counts), max(counts)) == (0, min(num, 99))
