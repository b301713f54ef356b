"""Batches as torchvision's detection models take them, and real models trained on them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import tv_tensors

from samples import make_batch
from segpaste.integrations.torchvision import from_detection, to_detection

ONE = torch.tensor([1])


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (torch.zeros(3, 6, 7, dtype=torch.uint16), "got torch.uint16; divide image.float() by its value of white"),
        (torch.zeros(3, 6, 7, dtype=torch.int32), "got torch.int32; divide image.float() by its value of white"),
        (torch.zeros(3, 6, 7, dtype=torch.bool), "got torch.bool; divide"),
        (Image.new("RGB", (7, 6)), "got a Image; call torchvision.transforms.functional.pil_to_tensor(image)"),
        (np.zeros((6, 7, 3), np.uint8), "got a ndarray; call torch.from_numpy(image).permute(2, 0, 1)"),
    ],
)
def test_images_of_another_class_or_dtype_are_refused(image: Any, message: str) -> None:
    expected = "images[0]: expected a tensor of uint8, or of floats in 0..1, "
    with pytest.raises(TypeError, match="^" + re.escape(expected + message)):
        from_detection([image], [{}], label_map=1, max_instances=1)


def test_targets_hold_what_the_batch_says() -> None:
    batch = make_batch(3, size=(17, 11), padding=(4, 3), keypoints=True)
    images, targets = to_detection(batch, label_map=1)
    assert batch.instance_masks is not None
    assert batch.keypoints is not None
    for b, (image, target) in enumerate(zip(images, targets, strict=True)):
        assert torch.equal(image, batch.images[b, :, :13, :8].float() / 255)
        rows = batch.instance_valid[b]
        assert torch.equal(target["boxes"], batch.boxes[b, rows])
        assert torch.equal(target["labels"], batch.labels[b, rows] + 1)
        assert torch.equal(target["masks"], batch.instance_masks[b, rows, :13, :8].to(torch.uint8))
        assert torch.equal(target["keypoints"], batch.keypoints[b, rows])
        assert target["area"].tolist() == batch.instance_masks[b, rows].sum((1, 2)).tolist()
        assert target["iscrowd"].tolist() == [0] * int(rows.sum())


def test_lists_become_the_same_batch() -> None:
    batch = make_batch(3, size=(17, 11), num_instances=(3, 0, 2), modalities=["instance"])
    again = from_detection(*to_detection(batch, label_map=[7, 3, 9, 5, 8]), label_map=[7, 3, 9, 5, 8], max_instances=5)
    assert torch.equal(again.images.round(), batch.images.float())
    for name in ("boxes", "labels", "instance_valid", "instance_masks"):
        assert torch.equal(getattr(again, name), getattr(batch, name)), name


def test_images_of_several_sizes_are_padded() -> None:
    images = [torch.full((3, 5, 9), 7, dtype=torch.uint8), torch.full((3, 8, 4), 9, dtype=torch.uint8)]
    targets = [
        {"boxes": torch.tensor([[1.0, 1.0, 4.0, 3.0]]), "labels": torch.tensor([1])},
        {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0, dtype=torch.int64)},
    ]
    batch = from_detection(images, targets, label_map=1, max_instances=2)
    assert batch.canvas_size == (8, 9)
    assert batch.padding_mask is not None
    assert (~batch.padding_mask).flatten(1).sum(1).tolist() == [45, 32]
    assert batch.labels.tolist() == [[0, 0], [0, 0]]
    assert batch.instance_valid.tolist() == [[True, False], [False, False]]
    back, _ = to_detection(batch, label_map=1)
    assert all(torch.equal(one, other.float() / 255) for one, other in zip(back, images, strict=True))


@pytest.mark.parametrize("with_masks", [True, False])
def test_crowds_become_the_crowd_mask(with_masks: bool) -> None:
    masks = torch.zeros(2, 6, 7, dtype=torch.uint8)
    masks[0, 1:3, 1:4] = masks[1, 2:5, 2:6] = 1
    target = {
        "boxes": torch.tensor([[1.0, 1.0, 4.0, 3.0], [2.0, 2.0, 6.0, 5.0]]),
        "labels": torch.tensor([4, 5]),
        "iscrowd": torch.tensor([0, 1]),
    }
    if with_masks:
        target["masks"] = masks
    batch = from_detection([torch.zeros(3, 6, 7)], [target], label_map=1, max_instances=3)
    assert batch.crowd_mask is not None
    assert torch.equal(batch.crowd_mask[0, 0], masks[1].bool())
    assert batch.labels[0].tolist() == [3, 0, 0]
    _, (again,) = to_detection(batch, label_map=1)
    assert again["labels"].tolist() == [4]


@pytest.mark.parametrize("name", ["XYXY", "XYWH", "CXCYWH"])
def test_boxes_of_every_upright_format(name: str) -> None:
    """Boxes of a detector, without masks: their format decides, not their order."""
    given = {"XYXY": [1.0, 2.0, 5.0, 6.0], "XYWH": [1.0, 2.0, 4.0, 4.0], "CXCYWH": [3.0, 4.0, 4.0, 4.0]}[name]
    boxes = tv_tensors.BoundingBoxes(torch.tensor([given]), format=name, canvas_size=(8, 9))
    batch = from_detection([torch.zeros(3, 8, 9)], [{"boxes": boxes, "labels": ONE}], label_map=1, max_instances=1)
    assert batch.boxes.tolist() == [[[1.0, 2.0, 5.0, 6.0]]]
    crowd = {"boxes": boxes, "labels": ONE, "iscrowd": ONE}
    region = from_detection([torch.zeros(3, 8, 9)], [crowd], label_map=1, max_instances=1).crowd_mask
    assert region is not None
    assert region[0, 0, 2:6, 1:5].all()
    assert int(region.sum()) == 16


def test_boxes_with_an_angle_are_refused() -> None:
    boxes = tv_tensors.BoundingBoxes(torch.ones(1, 5), format="CXCYWHR", canvas_size=(8, 9))
    with pytest.raises(ValueError, match=r"targets\[0\]: expected boxes of format XYXY, XYWH or CXCYWH, got CXCYWHR"):
        from_detection([torch.zeros(3, 8, 9)], [{"boxes": boxes, "labels": ONE}], label_map=1, max_instances=1)


@pytest.mark.parametrize("boxes", [torch.zeros(0), torch.zeros(0, 4), torch.tensor([])])
@pytest.mark.parametrize("with_masks", [True, False])
def test_images_without_objects(boxes: torch.Tensor, with_masks: bool) -> None:
    target = {"boxes": boxes, "labels": torch.zeros(0, dtype=torch.int64)}
    if with_masks:
        target["masks"] = torch.zeros(0, 6, 7)
    batch = from_detection([torch.zeros(3, 6, 7)], [target], label_map=1, max_instances=2)
    assert not batch.instance_valid.any()


@pytest.mark.parametrize("value", [1, 255, 1.0, 255.0, True])
def test_masks_of_0_and_255_are_those_of_0_and_1(value: Any) -> None:
    masks = torch.zeros(1, 6, 7, dtype=torch.tensor(value).dtype)
    masks[0, 1:3, 1:4] = value
    target = {"boxes": torch.zeros(1, 4), "labels": ONE, "masks": masks}
    batch = from_detection([torch.zeros(3, 6, 7)], [target], label_map=1, max_instances=1)
    assert batch.instance_masks is not None
    assert torch.equal(batch.instance_masks[0], masks.bool())


def test_soft_masks_are_refused() -> None:
    target = {"boxes": torch.zeros(1, 4), "labels": ONE, "masks": torch.full((1, 6, 7), 0.3)}
    with pytest.raises(
        ValueError, match=r"targets\[0\]: masks: expected 0 and 1, or 0 and 255, got 0.3.*; choose a thr"
    ):
        from_detection([torch.zeros(3, 6, 7)], [target], label_map=1, max_instances=1)


def test_images_of_other_channels_are_named() -> None:
    targets = [{"boxes": torch.zeros(0, 4), "labels": ONE[:0]}] * 2
    with pytest.raises(
        ValueError, match=r"images\[1\]: expected as many channels as images\[0\], 3, got 1 \(grey\); rep"
    ):
        from_detection([torch.zeros(3, 6, 7), torch.zeros(1, 6, 7)], targets, label_map=1, max_instances=1)
    with pytest.raises(ValueError, match=r"images\[0\]: expected \[C, H, W\], got \[6, 7\]"):
        from_detection([torch.zeros(6, 7)], targets[:1], label_map=1, max_instances=1)


def test_empty_images_need_no_masks_and_crowds_no_label() -> None:
    """As a dataset gives them that makes masks of the objects alone, with crowds of a category that is not trained."""
    masks = torch.zeros(2, 6, 7, dtype=torch.uint8)
    masks[0, 1:3, 1:4] = masks[1, 4:] = 1
    boxes = torch.tensor([[1.0, 1.0, 4.0, 3.0], [0.0, 4.0, 7.0, 6.0]])
    one = {"boxes": boxes, "labels": torch.tensor([7, 99]), "masks": masks, "iscrowd": torch.tensor([0, 1])}
    other = {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0, dtype=torch.int64)}
    batch = from_detection([torch.zeros(3, 6, 7)] * 2, [one, other], label_map=[3, 7], max_instances=2)
    assert batch.labels.tolist() == [[1, 0], [0, 0]]
    assert batch.instance_valid.tolist() == [[True, False], [False, False]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"keypoints": torch.zeros(1, 2, 3)}, r"targets\[1\]: expected no keypoints"),
        ({}, r"targets\[1\]: expected masks for 1 boxes, got none; .* or leave out those of the others"),
    ],
)
def test_targets_that_are_refused(changes: dict[str, torch.Tensor], message: str) -> None:
    target = {"boxes": torch.tensor([[1.0, 1.0, 4.0, 3.0]]), "labels": torch.tensor([1])}
    first = {**target, "masks": torch.ones(1, 6, 7, dtype=torch.uint8)}
    with pytest.raises(ValueError, match=message):
        from_detection([torch.zeros(3, 6, 7)] * 2, [first, {**target, **changes}], label_map=1, max_instances=2)


GREY = torch.full((3, 8, 8), 114, dtype=torch.uint8)


class TestTargetsOfItsDatasets:
    """Targets of ``wrap_dataset_for_transforms_v2``: crowds as a list, nothing for an image without objects."""

    def test_crowds_in_a_list(self) -> None:
        masks = torch.zeros(2, 8, 8, dtype=torch.bool)
        masks[0, 1:4, 1:4], masks[1, 5:7, 5:7] = True, True
        boxes = torch.tensor([[1.0, 1, 4, 4], [5, 5, 7, 7]])
        target = {"boxes": boxes, "labels": torch.tensor([3, 4]), "masks": masks, "iscrowd": [0, 1]}
        batch = from_detection([GREY], [target], label_map=0, max_instances=2)
        assert batch.labels[batch.instance_valid].tolist() == [3]
        assert batch.crowd_mask is not None
        assert torch.equal(batch.crowd_mask[0, 0], masks[1])

    @pytest.mark.parametrize("empty", [{"image_id": 7}, {"boxes": torch.zeros(0), "masks": torch.tensor([])}])
    def test_an_image_without_objects(self, empty: dict[str, Any]) -> None:
        masks = torch.ones(1, 8, 8, dtype=torch.bool)
        full = {"boxes": torch.tensor([[0.0, 0, 8, 8]]), "labels": torch.tensor([1]), "masks": masks}
        batch = from_detection([GREY, GREY], [empty, full], label_map=0, max_instances=2)
        assert batch.instance_valid.sum(1).tolist() == [0, 1]

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            (
                {"labels": torch.tensor([1, 2])},
                r"targets\[0\]: expected 'labels' with one value for each of 1 objects, got 2; filter all",
            ),
            ({"labels": torch.tensor([1.7])}, r"targets\[0\]: expected 'labels' of integers, got torch.float32"),
            ({"masks": torch.ones(2, 8, 8)}, r"targets\[0\]: expected masks \[1, 8, 8\], one for each object"),
            ({"iscrowd": [0, 0]}, r"targets\[0\]: expected 'iscrowd' with one value for each of 1 objects"),
        ],
    )
    def test_rows_that_do_not_fit(self, wrong: dict[str, Any], message: str) -> None:
        masks = torch.ones(1, 8, 8, dtype=torch.bool)
        right = {"boxes": torch.tensor([[0.0, 0, 8, 8]]), "labels": torch.tensor([1]), "masks": masks}
        with pytest.raises((TypeError, ValueError), match=message):
            from_detection([GREY], [{**right, **wrong}], label_map=0, max_instances=2)


def test_dark_images_go_round() -> None:
    """A frame below half of a grey level may be of either range, so it is taken as it is."""
    images = [torch.rand(3, 8, 8) * 0.4 / 255]
    target = {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0, dtype=torch.int64)}
    found, _ = to_detection(from_detection(images, [target], label_map=1, max_instances=1), label_map=1)
    torch.testing.assert_close(found[0], images[0])


@pytest.mark.parametrize("scale", [2.0, 65535.0])
def test_uint8_images_have_one_white(scale: float) -> None:
    batch = from_detection([GREY], [{}], label_map=0, max_instances=1)
    with pytest.raises(ValueError, match="got uint8 images, which have 0"):
        to_detection(batch, label_map=0, scale=scale)


def test_class_ids_are_not_negative() -> None:
    batch = from_detection([GREY], [{}], label_map=0, max_instances=1)
    with pytest.raises(ValueError, match="label_map: expected the class id of label 0, at least 0, got -5"):
        to_detection(batch, label_map=-5)
