"""Rows and boxes of Ultralytics' batches through a paste, without Ultralytics; `tests/trainers` runs its loader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from segpaste import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.augmentation import SourceConfig
from segpaste.integrations.ultralytics import from_yolo, to_yolo
from segpaste.types import PaddedBatchedDenseSample

SIDE = 40
Area = tuple[int, int, int, int]
"""x1, y1, x2, y2 of the pixels of a mask."""
NEW = 9
"""The label of the paste."""


def loaded(objects: list[tuple[int, Area | None, tuple[float, float, float, float]]], overlap: bool) -> dict[str, Any]:
    """A batch of two images with objects (image, pixels, xyxy box); in a map later ones hide earlier ones."""
    image_idx = [image for image, _, _ in objects]
    boxes = torch.tensor([box for _, _, box in objects]) / SIDE
    masks = torch.zeros(2 if overlap else len(objects), SIDE, SIDE, dtype=torch.uint8)
    for row, (image, pixels, _) in enumerate(objects):
        if pixels is not None:
            x1, y1, x2, y2 = pixels
            place, number = (image, image_idx[: row + 1].count(image)) if overlap else (row, 1)
            masks[place, y1:y2, x1:x2] = number
    return {
        "img": torch.zeros(2, 3, SIDE, SIDE, dtype=torch.uint8),
        "batch_idx": torch.tensor(image_idx).float(),
        "cls": torch.arange(len(objects)).float()[:, None],
        "bboxes": torch.cat([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]], 1),
        "masks": masks,
        "sem_masks": torch.zeros(2, SIDE, SIDE),
    }


def pasting(area: Area) -> Callable[[PaddedBatchedDenseSample], PaddedBatchedDenseSample]:
    """Return an augmentation that pastes a white rectangle into the first image, and cuts what is under it."""
    x1, y1, x2, y2 = area

    def paste(batch: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
        assert batch.instance_masks is not None
        assert batch.instance_ids is not None
        under = torch.zeros(SIDE, SIDE, dtype=torch.bool)
        under[y1:y2, x1:x2] = True
        images, masks, ids = batch.images.clone(), batch.instance_masks.clone(), batch.instance_ids.clone()
        boxes, labels, valid = batch.boxes.clone(), batch.labels.clone(), batch.instance_valid.clone()
        images[0, :, under] = 255
        masks[0] &= ~under
        slot = int((~valid[0]).nonzero()[0])
        masks[0, slot], ids[0, slot], labels[0, slot], valid[0, slot] = under, ids[0].max() + 1, NEW, True
        for k in valid[0].nonzero()[:, 0].tolist():
            ys, xs = masks[0, k].nonzero(as_tuple=True)
            valid[0, k] = bool(len(ys))
            if len(ys):
                boxes[0, k] = torch.tensor([xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]).float()
        fields = {"boxes": boxes, "labels": labels, "instance_valid": valid}
        return batch.derived(images=images, instance_masks=masks, instance_ids=ids, **fields)

    return paste


def result(batch: dict[str, Any], area: Area | None, overlap: bool) -> dict[int, list[float]]:
    """Return the boxes in pixels after a paste, by label."""
    padded = from_yolo(batch, 6, overlap=overlap)
    out = to_yolo(padded if area is None else pasting(area)(padded), like=batch, mask_ratio=1, overlap=overlap)
    assert len(out["batch_idx"]) == len(out["cls"]) == len(out["bboxes"]) == len(set(out["cls"].flatten().tolist()))
    assert out["batch_idx"].tolist() == sorted(out["batch_idx"].tolist())
    centres, sides = out["bboxes"].split(2, 1)
    boxes = torch.cat([centres - sides / 2, centres + sides / 2], 1) * SIDE
    return {int(label): box for label, box in zip(out["cls"][:, 0], boxes.round(decimals=3).tolist(), strict=True)}


WIDE = (0, (4, 4, 24, 12), (3.6, 3.7, 24.2, 12.3))
FRONT = (0, (18, 2, 30, 14), (18.0, 2.4, 30.0, 14.0))
HIDDEN = (0, None, (30.2, 30.2, 34.6, 34.6))
OTHER = (1, (4, 4, 24, 12), (4.3, 4.0, 24.0, 12.0))


@pytest.mark.parametrize("overlap", [True, False])
def test_untouched_objects_keep_box_and_row_to_the_bit(overlap: bool) -> None:
    """This also holds where a map shows a part of an object, or none."""
    batch = loaded([WIDE, HIDDEN, FRONT, OTHER], overlap)
    again = to_yolo(from_yolo(batch, 6, overlap=overlap), like=batch, mask_ratio=2, overlap=overlap)
    order = again["cls"][:, 0].long()
    assert sorted(order.tolist()) == [0, 1, 2, 3]
    assert torch.equal(again["bboxes"], batch["bboxes"][order])
    assert torch.equal(again["batch_idx"], batch["batch_idx"][order])
    if not overlap:
        assert order.tolist() == [0, 1, 2, 3]
        assert again["masks"].flatten(1).any(1).tolist() == [True, False, True, True]


@pytest.mark.parametrize("overlap", [True, False])
def test_a_cut_object_has_the_box_of_its_rest_within_its_own(overlap: bool) -> None:
    boxes = result(loaded([WIDE, HIDDEN, OTHER], overlap), (0, 0, 10, 20), overlap)
    assert boxes[0] == [10.0, 4.0, 24.0, 12.0]
    assert boxes[NEW] == [0.0, 0.0, 10.0, 20.0]
    assert boxes[1] == pytest.approx(HIDDEN[2])
    assert boxes[2] == pytest.approx(OTHER[2])
    inner = (0, (4, 4, 24, 12), (4.5, 4.0, 23.5, 12.0))
    assert result(loaded([inner], overlap), (0, 0, 10, 20), overlap)[0] == [10.0, 4.0, 23.5, 12.0]


@pytest.mark.parametrize(
    ("area", "stays"), [((0, 0, 30, 40), True), ((0, 0, 31, 31), False), ((34, 34, 40, 40), False)]
)
@pytest.mark.parametrize("overlap", [True, False])
def test_a_hidden_object_loses_its_row_under_a_paste(overlap: bool, area: Area, stays: bool) -> None:
    assert (1 in result(loaded([OTHER, HIDDEN], overlap), area, overlap)) == stays


def test_a_row_that_a_paste_covers_is_left_out() -> None:
    assert set(result(loaded([WIDE, OTHER], False), (0, 0, 30, 30), False)) == {1, NEW}


def test_moved_objects_have_the_box_of_their_mask() -> None:
    """An augmentation may do more than paste."""
    batch = loaded([WIDE], False)
    padded = from_yolo(batch, 3, overlap=False)
    assert padded.instance_masks is not None
    boxes = padded.boxes + torch.tensor([2.0, 0.0, 2.0, 0.0]) * padded.instance_valid[..., None]
    moved = padded.derived(instance_masks=padded.instance_masks.roll(2, 3), boxes=boxes)
    out = to_yolo(moved, like=batch, mask_ratio=1, overlap=False)
    assert (out["bboxes"][0] * SIDE).tolist() == pytest.approx([16.0, 8.0, 20.0, 8.0])


@pytest.mark.parametrize("overlap", [True, False])
def test_batch_idx_may_have_any_order(overlap: bool) -> None:
    batch = loaded([OTHER, WIDE, FRONT], overlap)
    padded = from_yolo(batch, 4, overlap=overlap)
    assert padded.labels[:, :2].tolist() == [[1, 2], [0, 0]]
    assert padded.boxes[1, 0].tolist() == [4.0, 4.0, 24.0, 12.0]
    assert padded.boxes[0, 1].tolist() == [18.0, 2.0, 30.0, 14.0]
    again = to_yolo(padded, like=batch, mask_ratio=1, overlap=overlap)
    assert again["batch_idx"].tolist() == [0, 0, 1]
    assert torch.equal(again["bboxes"], batch["bboxes"][again["cls"][:, 0].long()])


def test_an_image_keeps_its_largest_rows() -> None:
    """The rows of slots are those that `from_yolo` has kept, also where the augmentation adds slots."""
    small = (0, (30, 30, 33, 33), (30.2, 30.1, 33.0, 33.0))
    batch = loaded([small, WIDE, FRONT], False)
    with pytest.warns(UserWarning, match="more objects than max_instances=2"):
        padded = from_yolo(batch, 2, overlap=False)
    again = to_yolo(padded, like=batch, mask_ratio=1, overlap=False)
    assert again["cls"].tolist() == [[1], [2]]
    assert torch.equal(again["bboxes"], batch["bboxes"][1:])


@pytest.mark.parametrize("mask_from", ["boxes", "ellipse"])
def test_boxes_without_masks_keep_what_no_paste_overlaps(mask_from: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    places = torch.rand(24, 2, generator=generator) * 80
    boxes = torch.cat([places, places + 5 + torch.rand(24, 2, generator=generator) * 12], 1)
    batch = {
        "img": torch.randint(0, 255, (4, 3, 100, 100), dtype=torch.uint8, generator=generator),
        "batch_idx": torch.arange(4).repeat_interleave(6).float(),
        "cls": torch.arange(24).float()[:, None],
        "bboxes": torch.cat([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]], 1) / 100,
    }
    paste = BatchCopyPaste(
        BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=SourceConfig(mask_from=mask_from))
    )
    pasted = paste(from_yolo(batch, 12, overlap=False), torch.Generator().manual_seed(1))
    out = to_yolo(pasted, like=batch, mask_ratio=1, overlap=False)
    num_kept = num_cut = 0
    for image, label, box in zip(out["batch_idx"].tolist(), out["cls"][:, 0].tolist(), out["bboxes"], strict=True):
        if label // 6 != image:
            continue
        own = batch["bboxes"][int(label)]
        num_kept += torch.equal(box, own)
        num_cut += not torch.equal(box, own)
        assert _lies_in(box, own)
    assert num_kept > 4
    assert num_cut > 1


def _lies_in(box: Tensor, own: Tensor) -> bool:
    low, high = (sign * ((box[:2] + sign * box[2:] / 2) - (own[:2] + sign * own[2:] / 2)) for sign in (-1, 1))
    return bool((low <= 1e-6).all() and (high <= 1e-6).all())
