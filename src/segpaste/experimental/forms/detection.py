"""Reader and writer of one image and target of torchvision's detection datasets, before and after a paste.

The form is that of ``torchvision.datasets.wrap_dataset_for_transforms_v2``: an image, and a dictionary with ``boxes``,
``labels``, ``masks``, ``iscrowd`` and ``area``. `segpaste.integrations.torchvision` handles lists of them, as models
take them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as F

from segpaste.experimental.forms.one_image import (
    Annotated,
    Outcome,
    expect_labels,
    in_form_of,
    joined,
    with_given_rows,
)
from segpaste.integrations._targets import corners
from segpaste.integrations._values import set_value
from segpaste.types.tensors import tensor_of

READ = ("boxes", "labels", "masks", "iscrowd", "area", "keypoints")
"""Entries of a target that are read and written."""


def read_target(image: Any, target: Mapping[str, Any], *, from_boxes: bool, with_keypoints: bool) -> Annotated:
    """Return the image and the annotations of a target.

    Args:
        image: PIL image of mode RGB, or tensor [3, H, W], uint8 or float32 in 0..1.
        target: annotations of the image; a missing entry means that the image has none.
        from_boxes: use boxes for an image without masks; an image without objects then has no masks.
        with_keypoints: True if a schema names the keypoints, so that they are allowed.

    Raises:
        TypeError, ValueError: an entry has another type, shape or format, the lengths of entries differ, labels are
            texts, or masks have other values than 0 and 1 or 0 and 255.
    """
    pixels = pixels_of(image)
    boxes, masks, value = _boxes(target.get("boxes")), target.get("masks"), None
    if masks is not None:
        masks = tensor_of(masks)
        if masks.shape == (0,):
            masks = masks.new_zeros(0, *pixels.shape[-2:])
        value, masks = set_value("CopyPaste: masks", masks), masks.bool()
    num = len(boxes) if boxes is not None else len(masks) if masks is not None else 0
    if masks is None and not num and not from_boxes:
        masks = pixels.new_zeros(0, *pixels.shape[-2:], dtype=torch.bool)
    zeros = pixels.new_zeros(num, dtype=torch.int64)
    expect_labels("labels", target.get("labels"), texts=False)
    labels = _entries(target, "labels", num, None if num else zeros)
    is_crowd = _entries(target, "iscrowd", num, zeros).bool()
    _entries(target, "area", num, zeros)
    if masks is not None and len(masks) != num:
        raise ValueError(f"CopyPaste: expected a mask for each of {num} boxes, got {len(masks)}")
    keypoints = target.get("keypoints")
    if keypoints is not None:
        if not with_keypoints or not isinstance(keypoints, Tensor) or isinstance(keypoints, tv_tensors.KeyPoints):
            raise ValueError(
                "CopyPaste: expected no keypoints, or a tensor [N, P, 3] of (x, y, visibility) that keypoint_schema "
                f"names, got {type(keypoints).__name__}; give keypoint_schema=KeypointSchema(names, flip_pairs), or "
                "drop=('keypoints',)"
            )
        keypoints = keypoints.float()
    xyxy = pixels.new_zeros(num, 4, dtype=torch.float32) if boxes is None else boxes
    return Annotated(pixels, xyxy, labels.long(), masks, is_crowd, keypoints, value)


def write_target(image: Any, target: Mapping[str, Any], found: Outcome) -> tuple[Any, dict[str, Any]]:
    """Return the image and the target after a paste, each with its given type; a paste is no crowd."""
    size = found.image.shape[-2], found.image.shape[-1]
    boxes, num_pasted = target.get("boxes"), int((found.rows < 0).sum())
    written: dict[str, Any] = {"boxes": _boxes_like(boxes, found, size)}
    written["labels"] = in_form_of(target.get("labels", found.labels), found.labels)
    if found.masks is not None:
        masks = target.get("masks")
        dtype = masks.dtype if isinstance(masks, Tensor) else torch.uint8
        values = found.masks.to(dtype)
        if found.set_value != 1 and dtype != torch.bool:
            values *= found.set_value
        written["masks"] = tv_tensors.Mask(values, device=values.device)
        if isinstance(masks, Tensor) and not isinstance(masks, tv_tensors.Mask):
            written["masks"] = written["masks"].as_subclass(Tensor)
    if "iscrowd" in target:
        written["iscrowd"] = joined(target["iscrowd"], found.rows, [0] * num_pasted)
    if "area" in target:
        written["area"] = in_form_of(target["area"], found.areas)
    if found.keypoints is not None:
        written["keypoints"] = in_form_of(target["keypoints"], found.keypoints)
    if found.masks is None:  # the config leaves them out, or there were none
        target = {name: value for name, value in target.items() if name != "masks"}
    return pixels_like(image, found.image), {**target, **written}


def pixels_of(image: Any) -> Tensor:
    """Return an image as a plain tensor [C, H, W]; see `read_target`."""
    if isinstance(image, Image.Image):
        if image.mode != "RGB":
            raise ValueError(f"CopyPaste: expected an image of mode RGB, got {image.mode}; call image.convert('RGB')")
        pixels: Tensor = F.pil_to_tensor(image)
        return pixels
    if not isinstance(image, Tensor):
        raise TypeError(f"CopyPaste: expected the image to be a tensor or a PIL image, got {type(image).__name__}")
    plain: Tensor = image.as_subclass(Tensor)
    return plain


def pixels_like(given: Any, pixels: Tensor) -> Any:
    """Return pixels with the type of the given image."""
    if isinstance(given, Image.Image):
        return F.to_pil_image(pixels)
    return tv_tensors.wrap(pixels, like=given) if isinstance(given, tv_tensors.TVTensor) else pixels


def _boxes(boxes: Any) -> Tensor | None:
    """Return boxes as plain xyxy, [N, 4] float32."""
    return None if boxes is None else corners("CopyPaste", boxes)


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
    boxes = with_given_rows(values, corners("CopyPaste", given), found, tagged.as_subclass(Tensor).double())
    is_tagged = isinstance(given, tv_tensors.BoundingBoxes)
    return tv_tensors.wrap(boxes.to(given.dtype), like=tagged) if is_tagged else in_form_of(given, boxes)


def _entries(target: Mapping[str, Any], name: str, num: int, default: Tensor | None) -> Tensor:
    """Return an entry with one value for each object, [N]."""
    value = target.get(name, default)
    if value is None:
        raise ValueError(f"CopyPaste: expected the entry {name!r} for {num} objects, got {sorted(target)}")
    if np.ndim(value) != 1 or len(value) != num:
        raise ValueError(f"CopyPaste: expected {name!r} with one value for each of {num} objects, got {value!r:.80}")
    return tensor_of(value)
