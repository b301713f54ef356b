"""The table of targets: what is written is recognised as one target, and read back as it was."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from samples import make_batch
from segpaste.targets import TARGETS, Reading
from segpaste.types import DenseSample, PaddedBatchedDenseSample

SIZE, PADDING = (17, 11), (4, 3)
PICTURE = SIZE[0] - PADDING[0], SIZE[1] - PADDING[1]
COLOURS: dict[str, Any] = {"mean": (0.4, 0.5, 0.6), "std": (0.2, 0.2, 0.3)}
RFDETR: dict[str, Any] = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}

WRITTEN: dict[str, tuple[dict[str, Any], dict[str, Any], set[str]]] = {
    "torchvision": ({"label_map": 0}, {}, {"boxes", "masks", "keypoints"}),
    "rfdetr": ({}, RFDETR, {"boxes", "masks", "padding"}),
    "mask_labels": (COLOURS, COLOURS, {"masks", "padding"}),
    "detr": (COLOURS, COLOURS, {"boxes", "masks", "padding"}),
    "yolo": ({"overlap": False}, {}, {"boxes", "masks", "keypoints"}),
    "albumentations": ({"bbox_format": "yolo"}, {"bbox_format": "yolo"}, {"boxes", "masks"}),
}
"""Options of the writer and of the reader of each row, and what a batch of this framework may hold."""

BY_NAME = {target.read.__module__.rpartition(".")[2]: target for target in TARGETS}


def test_every_target_is_a_file() -> None:
    assert set(BY_NAME) == set(WRITTEN)
    assert len({target.name for target in TARGETS}) == len(BY_NAME) == len(TARGETS)


@pytest.mark.parametrize(
    ("name", "with_masks"),
    [(name, what == "masks") for name in WRITTEN for what in ("masks", "boxes") if what in WRITTEN[name][2]],
)
def test_what_is_written_is_read_back(name: str, with_masks: bool) -> None:
    target, (write, options, holds) = BY_NAME[name], WRITTEN[name]
    if name == "detr":
        write = {**write, "masks": with_masks}
    modalities = ["instance"] if with_masks else []
    batch = make_batch(
        3, size=SIZE, padding=PADDING, num_instances=(3, 0, 2), modalities=modalities, keypoints="keypoints" in holds
    )
    given = target.write(batch, **write)
    assert [other.name for other in TARGETS if other.recognise(given)] == [target.name]
    images = target.read(given, Reading(**options, owner="test"))
    assert (images.num_images, images.has_boxes) == (3, "boxes" in holds)
    for b in range(3):
        expect_equal(images.sample(b), batch, b, with_masks=with_masks, holds=holds)


def expect_equal(
    sample: DenseSample, batch: PaddedBatchedDenseSample, b: int, *, with_masks: bool, holds: set[str]
) -> None:
    """Compare a sample with an image of a batch, where both have pixels of the image."""
    height, width = PICTURE
    image = sample.image.float() * (1 if sample.image.dtype == torch.uint8 else 255)
    assert (image[:, :height, :width] - batch.images[b, :, :height, :width].float()).abs().max() <= 1
    valid = batch.instance_valid[b]
    assert torch.equal(sample.labels, batch.labels[b, valid])
    torch.testing.assert_close(sample.boxes.as_subclass(Tensor), batch.boxes[b, valid], rtol=0, atol=1e-3)
    if with_masks:
        assert sample.instance_masks is not None
        assert batch.instance_masks is not None
        expected = batch.instance_masks[b, valid, :height, :width]
        assert torch.equal(sample.instance_masks.as_subclass(Tensor)[:, :height, :width], expected)
    else:
        assert sample.instance_masks is None
    if "keypoints" in holds and batch.keypoints is not None:
        assert sample.keypoints is not None
        torch.testing.assert_close(sample.keypoints, batch.keypoints[b, valid], rtol=0, atol=1e-3)
    assert (sample.padding_mask is not None) == ("padding" in holds)
    if sample.padding_mask is not None:
        assert batch.padding_mask is not None
        assert torch.equal(sample.padding_mask.as_subclass(Tensor), batch.padding_mask[b])


@pytest.mark.parametrize("overlap", [True, False])
def test_maps_of_ultralytics_give_shared_pixels_to_one_object(overlap: bool) -> None:
    """Objects of a map are ordered by their area; the samples have no shared pixels, so only the order differs."""
    yolo = BY_NAME["yolo"]
    batch = make_batch(2, size=SIZE, modalities=["instance"])
    images = yolo.read(yolo.write(batch, overlap=overlap), Reading(owner="test"))
    assert batch.instance_masks is not None
    for b in range(2):
        masks = images.sample(b).instance_masks
        assert masks is not None
        areas = masks.flatten(1).sum(1).tolist()
        assert sorted(areas) == sorted(batch.instance_masks[b, batch.instance_valid[b]].flatten(1).sum(1).tolist())
        assert not overlap or areas == sorted(areas, reverse=True)


def shorter(given: Any, name: str) -> Any:
    """Return a batch of a framework whose first image has a class less."""
    if name in ("torchvision", "rfdetr"):
        images, targets = given
        return images, [{**targets[0], "labels": targets[0]["labels"][1:]}, *targets[1:]]
    if name == "detr":
        first, *others = given["labels"]
        return {**given, "labels": [{**first, "class_labels": first["class_labels"][1:]}, *others]}
    if name == "mask_labels":
        first, *others = given["class_labels"]
        return {**given, "class_labels": [first[1:], *others]}
    if name == "yolo":
        return {**given, "cls": given["cls"][1:]}
    return [{**given[0], "labels": given[0]["labels"][1:]}, *given[1:]]


@pytest.mark.parametrize("name", WRITTEN)
def test_a_class_that_is_missing_has_one_wording(name: str) -> None:
    target, (write, options, _) = BY_NAME[name], WRITTEN[name]
    given = shorter(target.write(make_batch(2, size=SIZE, modalities=["instance"]), **write), name)
    message = r"^test.*: expected '(labels|class_labels|cls)' with one value for each of \d objects, got \d; filter all"
    with pytest.raises(ValueError, match=message):
        target.read(given, Reading(**options, owner="test")).sample(0)


@pytest.mark.parametrize("name", ["rfdetr", "detr", "yolo", "torchvision"])
def test_boxes_have_four_numbers(name: str) -> None:
    target, (write, options, _) = BY_NAME[name], WRITTEN[name]
    given = target.write(make_batch(1, size=SIZE, modalities=["instance"]), **write)
    holder = {"yolo": lambda: given, "detr": lambda: given["labels"][0]}.get(name, lambda: given[1][0])()
    key = "bboxes" if name == "yolo" else "boxes"
    holder[key] = holder[key].repeat(1, 2)[:, :5]
    with pytest.raises(ValueError, match=r"^test.*: expected boxes \[N, 4\], got the shape \[3, 5\]"):
        target.read(given, Reading(**options, owner="test")).sample(0)
