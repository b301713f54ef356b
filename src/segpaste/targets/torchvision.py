"""Targets of torchvision's detection models and datasets: images with ``boxes``, ``labels``, ``masks`` and the like.

Models take a list of images and a list of dictionaries (`to_detection`, `from_detection`). Datasets of
``torchvision.datasets.wrap_dataset_for_transforms_v2`` give one image and its dictionary (`read_pair`, `write_pair`).
See https://docs.pytorch.org/vision/stable/models.html#object-detection-instance-segmentation-and-person-keypoint-detection
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as F

from segpaste.targets.annotated import (
    Annotated,
    Images,
    Reading,
    as_given,
    boxes_of_masks,
    checked,
    has_keys,
    is_list,
    masks_of,
    numbers_of,
    rows_of,
    with_masks,
)
from segpaste.targets.colours import channels, expect_colours, pixels_of
from segpaste.targets.objects import LabelMap, corners, objects_of, padded_batch, picture_sizes, to_framework
from segpaste.targets.outcome import Outcome, in_form_of, joined, with_given_rows
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.tensors import tensor_of

ENTRIES = ("boxes", "labels", "masks", "iscrowd", "area", "keypoints")
"""Entries of a target that are read and written."""


def is_torchvision(batch: object) -> bool:
    """Return whether a batch is images and targets, as two lists, as pairs, as dictionaries, or a single one."""
    return _lists_of(batch) is not None


def _lists_of(batch: object) -> tuple[Sequence[Any], Sequence[Mapping[str, Any]]] | None:
    """Return the images and the targets of a batch in any of these structures; None if it has none of them."""
    if has_keys(batch, "image", "boxes", "labels") and "bboxes" not in batch:
        batch = [batch]
    if is_list(batch, Mapping) and all(has_keys(one, "image", "boxes", "labels") for one in batch):
        batch = [(one["image"], one) for one in batch]
    if not isinstance(batch, list | tuple):
        return None
    if len(batch) == 2 and is_list(batch[0], (Tensor, Image.Image)) and is_list(batch[1], Mapping):
        return (batch[0], batch[1]) if all(map(_is_target, batch[1])) else None
    pairs = [batch] if len(batch) == 2 and isinstance(batch[1], Mapping) else batch
    if not pairs or not all(map(_is_pair, pairs)):
        return None
    return [image for image, _ in pairs], [target for _, target in pairs]


def _is_pair(value: object) -> bool:
    if not isinstance(value, list | tuple) or len(value) != 2:
        return False
    is_image = isinstance(value[0], Image.Image) or (isinstance(value[0], Tensor) and value[0].ndim == 3)
    return is_image and _is_target(value[1])


def _is_target(value: object) -> bool:
    """Return whether a value is a target; of an image without objects torchvision's datasets give ``image_id`` only."""
    if has_keys(value, "labels"):
        return "boxes" in value or "masks" in value
    return has_keys(value, "image_id") and not any(name in value for name in ENTRIES)


def read(batch: Any, reading: Reading) -> Images:
    """Return the images of a batch, for drawing.

    Raises:
        ValueError: the numbers of images and targets differ.
    """
    lists = _lists_of(batch)
    assert lists is not None
    images, targets = lists
    if len(images) != len(targets):
        raise ValueError(
            f"{reading.owner}: expected one target per image, got {len(images)} images and {len(targets)} targets; "
            "give an image without objects a target whose boxes and labels are empty"
        )

    def annotated(b: int) -> Annotated:
        place = f"{reading.owner}: targets[{b}]"
        return read_target(place, pixels_of(image_tensor(place, images[b]), reading), targets[b])

    has_boxes = any("boxes" in target for target in targets) or not any("masks" in target for target in targets)
    return Images(len(images), lambda b: as_given(annotated(b)), has_boxes)


def read_target(place: str, image: Tensor, target: Mapping[str, Any]) -> Annotated:
    """Return the annotations of an image; without boxes they are those of the masks.

    Args:
        place: name for errors.
        image: [C, H, W].
        target: ``boxes`` or ``masks``, and ``labels``; optionally ``iscrowd`` and ``keypoints``. An image without
            objects may lack them all.

    Raises:
        TypeError, ValueError: an entry has another type, shape or format, or entries differ in length.
    """
    size, given = image.shape[-2:], target.get("boxes")
    boxes, masks = None if given is None else corners(place, given), target.get("masks")
    if masks is not None:
        masks = masks_of(place, masks, None if boxes is None else len(boxes), size, image)
    num = len(boxes) if boxes is not None else 0 if masks is None else len(masks)
    if boxes is None:
        boxes = image.new_zeros(0, 4, dtype=torch.float32) if masks is None else boxes_of_masks(masks)
    labels = numbers_of(place, target, "labels", num, None if num else [])
    is_crowd = numbers_of(place, target, "iscrowd", num, [0] * num)
    points = target.get("keypoints")
    return Annotated(
        image,
        boxes,
        labels.to(boxes.device, torch.int64),
        masks,
        is_crowd.to(boxes.device, torch.bool),
        None if points is None else tensor_of(points),
    )


def to_detection(
    batch: PaddedBatchedDenseSample, *, label_map: LabelMap, scale: float = 255.0
) -> tuple[list[Tensor], list[dict[str, Tensor]]]:
    """Return the images and targets that a detection model of torchvision trains on.

    Padding is cut off. Crowd regions are not objects, so they are in no target; torchvision's own training reference
    drops them, too. An image without objects has tensors of length 0, which the models accept. Float images are read to
    check their range, which waits for their device.

    Args:
        batch: B images in 0..``scale``, with K instance slots.
        label_map: class ids of the model. 1 for heads trained from scratch, whose class 0 is the background; the list
            of category ids of the dataset for weights trained on COCO, whose ids have gaps.
        scale: the value of white.

    Returns:
        B images [C, h, w] float32 in 0..1, and B dictionaries: ``boxes`` [N, 4] float32 xyxy in pixels, ``labels`` [N]
        int64, ``masks`` [N, h, w] uint8 if the batch has instance masks, ``keypoints`` [N, P, 3] float32 if it has
        keypoints, with visibility 0, 1 or 2, ``area`` [N] float32 of masks or boxes, and ``iscrowd`` [N] int64 zeros.

    Raises:
        TypeError, ValueError: ``label_map`` is of another class, or has no id for a label; or the colours are not in
            0..``scale``.
    """
    objects, images, targets = objects_of(batch), [], []
    expect_colours("images", [batch.images], scale, "scale")
    for b, (found, (height, width)) in enumerate(zip(objects, picture_sizes(batch), strict=True)):
        images.append(batch.images[b, :, :height, :width].float() / scale)
        target = {"boxes": found.boxes, "labels": to_framework(found.labels, label_map), "area": found.areas}
        if found.masks is not None:
            target["masks"] = found.masks[:, :height, :width].to(torch.uint8)
        if batch.keypoints is not None:
            target["keypoints"] = batch.keypoints[b, found.slots]
        target["iscrowd"] = torch.zeros_like(target["labels"])
        targets.append(target)
    return images, targets


def from_detection(
    images: Sequence[Tensor],
    targets: Sequence[Mapping[str, Any]],
    *,
    label_map: LabelMap,
    max_instances: int,
    scale: float = 255.0,
) -> PaddedBatchedDenseSample:
    """Return a batch from the lists of torchvision's detection datasets and models: the inverse of `to_detection`.

    Not for targets with keypoints. Float images and masks are read to check their values, which waits for their device.

    Args:
        images: B images [C, h, w]: uint8, or floats in 0..1; they are padded to the right and below to one size.
        targets: ``labels`` [N] integers; ``boxes`` [N, 4], xyxy unless they are `torchvision.tv_tensors.BoundingBoxes`
            of another format; ``masks`` [N, h, w] for all images or for none, of 0 and 1 or of 0 and 255, to which
            boxes are refitted, so that boxes may be missing then; the mask or the box of an object whose ``iscrowd``,
            a tensor or a list, is not 0 becomes part of the crowd mask. An image without objects may lack them all.
        label_map: class ids of the targets, as in `to_detection`.
        max_instances: K; an image with more objects keeps its largest.
        scale: the value of white in the batch; floats are multiplied by it, uint8 images stay.

    Raises:
        TypeError, ValueError: a tensor is of another dtype or shape, float images are not in 0..1, masks have other
            values, boxes an angle, a class id has no label, only some targets have masks, or a target has keypoints.
    """
    _expect_images(images)
    given, any_masks = [], any("masks" in target for target in targets)
    for i, (image, target) in enumerate(zip(images, targets, strict=True)):
        place = f"targets[{i}]"
        if "keypoints" in target:
            raise ValueError(f"{place}: expected no keypoints, since their names are not known; remove them")
        found = read_target(place, image if image.dtype == torch.uint8 else image.float() * scale, target)
        given.append(
            checked(place, with_masks(place, found, "or leave out those of the others") if any_masks else found)
        )
    return padded_batch(given, max_instances, label_map)


def _expect_images(images: Sequence[Tensor]) -> None:
    """Check the classes, dtypes and shapes of images, and the range of float images."""
    for i, image in enumerate(images):
        expected = f"images[{i}]: expected a tensor of uint8, or of floats in 0..1"
        if not isinstance(image, Tensor):
            call = "from_numpy(image).permute(2, 0, 1)" if isinstance(image, np.ndarray) else "pil_to_tensor(image)"
            owner = "torch" if isinstance(image, np.ndarray) else "torchvision.transforms.functional"
            raise TypeError(f"{expected}, got a {type(image).__name__}; call {owner}.{call}")
        if image.dtype != torch.uint8 and not image.is_floating_point():
            raise TypeError(f"{expected}, got {image.dtype}; divide image.float() by its value of white")
        if image.ndim != 3:
            raise ValueError(f"images[{i}]: expected [C, H, W], got {list(image.shape)}")
        if len(image) != len(images[0]):
            raise ValueError(
                f"images[{i}]: expected as many channels as images[0], {len(images[0])}, got {channels(len(image))}"
            )
    expect_colours("images", [image for image in images if image.dtype != torch.uint8], 1.0)


def read_pair(place: str, image: Any, target: Mapping[str, Any], *, with_keypoints: bool) -> Annotated:
    """Return the image and the annotations of one item of a dataset, ready for a paste.

    Args:
        place: name for errors.
        image: PIL image of mode RGB, or tensor [3, H, W], uint8 or float32 in 0..1.
        target: see `read_target`.
        with_keypoints: True if a schema names the keypoints, so that they are allowed.

    Raises:
        TypeError, ValueError: see `read_target`; or masks have other values than 0 and 1 or 0 and 255.
    """
    given = checked(place, read_target(place, image_tensor(place, image), target))
    rows_of(place, target, "area", len(given.boxes), [0] * len(given.boxes))
    keypoints = target.get("keypoints")
    if keypoints is None:
        return given
    if not with_keypoints or not isinstance(keypoints, Tensor) or isinstance(keypoints, tv_tensors.KeyPoints):
        raise ValueError(
            f"{place}: expected no keypoints, or a tensor [N, P, 3] of (x, y, visibility) that keypoint_schema names, "
            f"got {type(keypoints).__name__}; give keypoint_schema=KeypointSchema(names, flip_pairs), or "
            "drop=('keypoints',)"
        )
    return given._replace(keypoints=keypoints.float())


def write_pair(image: Any, target: Mapping[str, Any], found: Outcome) -> tuple[Any, dict[str, Any]]:
    """Return the image and the target after a paste, each with its given type; a paste is no crowd."""
    size = found.image.shape[-2], found.image.shape[-1]
    target = {name: value for name, value in target.items() if value is not None or name not in ENTRIES}
    written: dict[str, Any] = {"boxes": _boxes_like(target.get("boxes"), found, size)}
    written["labels"] = in_form_of(target.get("labels", found.labels), found.labels)
    if found.masks is not None:
        masks = target.get("masks")
        dtype = masks.dtype if isinstance(masks, Tensor) else torch.uint8
        values = found.masks.view(dtype) if dtype == torch.uint8 else found.masks.to(dtype)
        if found.set_value != 1 and dtype != torch.bool:
            values = values * found.set_value
        written["masks"] = tv_tensors.Mask(values, device=values.device)
        if isinstance(masks, Tensor) and not isinstance(masks, tv_tensors.Mask):
            written["masks"] = written["masks"].as_subclass(Tensor)
    if "iscrowd" in target:
        written["iscrowd"] = joined(target["iscrowd"], found.rows, [0] * int((found.rows < 0).sum()))
    if "area" in target:
        written["area"] = in_form_of(target["area"], found.areas)
    if found.keypoints is not None:
        written["keypoints"] = in_form_of(target["keypoints"], found.keypoints)
    if found.masks is None:  # the config leaves them out, or there were none
        target = {name: value for name, value in target.items() if name != "masks"}
    return pixels_like(image, found.image), {**target, **written}


def image_tensor(place: str, image: Any) -> Tensor:
    """Return an image as a plain tensor [C, H, W].

    Args:
        place: name for errors.
        image: tensor, or PIL image of mode RGB.

    Raises:
        TypeError, ValueError: it is another object, or of another mode.
    """
    if isinstance(image, Image.Image):
        if image.mode != "RGB":
            raise ValueError(f"{place}: expected an image of mode RGB, got {image.mode}; call image.convert('RGB')")
        pixels: Tensor = F.pil_to_tensor(image)
        return pixels
    if not isinstance(image, Tensor):
        raise TypeError(f"{place}: expected the image to be a tensor or a PIL image, got {type(image).__name__}")
    return tensor_of(image)


def pixels_like(given: Any, pixels: Tensor) -> Any:
    """Return pixels with the type of the given image."""
    if isinstance(given, Image.Image):
        return F.to_pil_image(pixels)
    return tv_tensors.wrap(pixels, like=given) if isinstance(given, tv_tensors.TVTensor) else pixels


def _boxes_like(given: Any, found: Outcome, size: tuple[int, int]) -> Any:
    """Return boxes with the type, format and dtype of the given boxes, and its values where they have not changed.

    By default they are tagged, xyxy.
    """
    tagged = tv_tensors.BoundingBoxes(found.boxes, format="XYXY", canvas_size=size, device=found.boxes.device)
    if given is None:
        return tagged
    if isinstance(given, tv_tensors.BoundingBoxes):
        tagged = F.convert_bounding_box_format(tagged, new_format=given.format)
    values = tensor_of(given).double()
    boxes = with_given_rows(values, corners("boxes", given), found, tagged.as_subclass(Tensor).double())
    is_tagged = isinstance(given, tv_tensors.BoundingBoxes)
    return tv_tensors.wrap(boxes.to(given.dtype), like=tagged) if is_tagged else in_form_of(given, boxes)
