"""Reader and writer of one dictionary of AlbumentationsX, before and after a paste.

It has ``image`` [H, W, 3], ``masks``, ``bboxes`` and a field of labels, as NumPy arrays and lists. The package itself
is not needed. See https://albumentations.ai/docs/3-basic-usage/bounding-boxes-augmentations/
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from segpaste.experimental.forms.one_image import Annotated, Outcome, expect_labels, joined, with_given_rows
from segpaste.integrations._values import expect_rgb, set_value

FORMATS = ("pascal_voc", "coco", "cxcywh", "albumentations", "yolo")
"""AlbumentationsX names of box formats: xyxy, xywh and cxcywh in pixels; xyxy and cxcywh as fractions."""

_CENTRED, _RELATIVE = ("cxcywh", "yolo"), ("albumentations", "yolo")


def checked_format(bbox_format: str | None) -> str | None:
    """Return the format of boxes; raise ValueError if the name is unknown."""
    if bbox_format is not None and bbox_format not in FORMATS:
        raise ValueError(f"CopyPaste: expected bbox_format to be one of {', '.join(FORMATS)}, got {bbox_format!r}")
    return bbox_format


def read_dictionary(
    data: Mapping[str, Any], bbox_format: str | None, label_field: str, *, from_boxes: bool, texts: bool
) -> Annotated:
    """Return the image and annotations of a dictionary; labels that are no integers are read as 0.

    Args:
        data: ``image`` [H, W, 3], uint8 or float32 in 0..1; ``masks``, a list of [H, W] or an array [N, H, W];
            ``bboxes`` [N, 4] in ``bbox_format``; the field of labels.
        bbox_format: one of `FORMATS`; None if there are no boxes.
        label_field: name of the field with one label for each object.
        from_boxes: use boxes for an image without masks; an image without objects then has no masks.
        texts: True if labels are texts, not numbers.

    Raises:
        ValueError: an array has another shape, the lengths of fields differ, labels are of the other kind, or masks
            have other values than 0 and 1 or 0 and 255.
    """
    image = data["image"]
    if image.ndim != 3:
        raise ValueError(
            f"CopyPaste: expected an image [H, W, 3], got {list(image.shape)}; repeat a grey one for each channel"
        )
    expect_rgb("CopyPaste", image.shape[2])
    size, masks, boxes = image.shape[:2], data.get("masks"), data.get("bboxes")
    if boxes is not None and bbox_format is None:
        raise ValueError(
            f"CopyPaste: expected bbox_format because there are bboxes, got None; give that of A.BboxParams: "
            f"{', '.join(FORMATS)}"
        )
    num = len(masks) if masks is not None else 0 if boxes is None else len(boxes)
    if boxes is not None and len(boxes) != num:
        raise ValueError(
            f"CopyPaste: expected a mask for each of {len(boxes)} bboxes, got {num}: A.Compose removes boxes but keeps "
            "their masks; give A.Compose masks and labels without bboxes and bbox_params: boxes are computed from the "
            "masks"
        )
    labels = data.get(label_field, () if not num else None)
    if labels is None or len(labels) != num:
        raise ValueError(
            f"CopyPaste: expected {label_field!r} with one label for each of {num} objects, got "
            f"{'none' if labels is None else len(labels)}; label_field names the field"
        )
    expect_labels(label_field, labels, texts=texts)
    if masks is None and (boxes is None or (not num and not from_boxes)):
        masks = np.zeros((0, *size), bool)
    stacked = None if masks is None else _masks(masks, size)
    return Annotated(
        torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1),
        torch.zeros(num, 4, dtype=torch.float32, device="cpu")
        if boxes is None
        else _xyxy(boxes, str(bbox_format), size),
        torch.zeros(num, dtype=torch.int64, device="cpu"),
        None if stacked is None else stacked.bool(),
        torch.zeros(num, dtype=torch.bool, device="cpu"),
        set_value=None if stacked is None else set_value("CopyPaste: masks", stacked),
    )


def write_dictionary(
    data: Mapping[str, Any],
    found: Outcome,
    bbox_format: str | None,
    label_field: str,
    *,
    texts: Sequence[Any] | None,
) -> dict[str, Any]:
    """Return the dictionary after a paste, each field with its given type.

    Args:
        data: dictionary before the paste.
        found: image after the paste.
        bbox_format: see `read_dictionary`; if it is given, boxes are returned, even if there were none.
        label_field: see `read_dictionary`.
        texts: text to write for each label of a paste; by default the label itself.
    """
    written: dict[str, Any] = {"image": found.image.permute(1, 2, 0).contiguous().numpy()}
    height, width = written["image"].shape[:2]
    if found.masks is not None:
        masks, given = found.masks.numpy(), data.get("masks")
        dtype = given[0].dtype if isinstance(given, list | tuple) and len(given) else getattr(given, "dtype", np.uint8)
        masks = masks.astype(dtype)
        if found.set_value != 1 and masks.dtype.kind != "b":
            masks *= found.set_value
        written["masks"] = type(given)(masks) if isinstance(given, list | tuple) else masks
    if bbox_format is not None:
        written["bboxes"] = _boxes_like(data.get("bboxes"), found, bbox_format, (height, width))
    pasted = found.labels[found.rows < 0].tolist()
    pasted = pasted if texts is None else [texts[label] for label in pasted]
    written[label_field] = joined(data.get(label_field, []), found.rows, pasted)
    if found.masks is None:  # the config leaves them out, or there were none
        data = {name: value for name, value in data.items() if name != "masks"}
    return {**data, **written}


def _masks(masks: Any, size: tuple[int, int]) -> Tensor:
    """Return masks as [N, H, W]."""
    stacked = np.asarray(masks) if len(masks) else np.zeros((0, *size), bool)
    if stacked.ndim != 3 or stacked.shape[1:] != size:
        raise ValueError(f"CopyPaste: expected masks [N, {size[0]}, {size[1]}], got {list(stacked.shape)}")
    return torch.from_numpy(np.ascontiguousarray(stacked))


def _xyxy(boxes: Any, bbox_format: str, size: tuple[int, int]) -> Tensor:
    """Return boxes in pixels, [N, 4] float32 xyxy."""
    values = np.asarray(boxes, np.float64) if len(boxes) else np.zeros((0, 4))
    if values.ndim != 2 or values.shape[1] != 4:
        raise ValueError(
            f"CopyPaste: expected bboxes [N, 4], got {list(values.shape)}; give labels as a field, by label_fields"
        )
    low, high = values[:, :2], values[:, 2:]
    if bbox_format == "coco":
        high = low + high
    elif bbox_format in _CENTRED:
        low, high = low - high / 2, low + high / 2
    scale = np.array([size[1], size[0]] * 2 if bbox_format in _RELATIVE else [1.0] * 4)
    corners = (np.concatenate([low, high], 1) * scale).round(3)  # the error of float32 fractions is smaller than this
    return torch.from_numpy(corners.astype(np.float32))


def _in_format(boxes: Tensor, bbox_format: str, size: tuple[int, int]) -> np.ndarray[Any, Any]:
    """Return xyxy boxes in a format, [N, 4] float64; the inverse of `_xyxy`."""
    scale = np.array([size[1], size[0]] * 2 if bbox_format in _RELATIVE else [1.0] * 4)
    values = boxes.numpy().astype(np.float64) / scale
    low, high = values[:, :2], values[:, 2:]
    if bbox_format in _CENTRED:
        return np.concatenate([(low + high) / 2, high - low], 1)
    return np.concatenate([low, high - low if bbox_format == "coco" else high], 1)


def _boxes_like(given: Any, found: Outcome, bbox_format: str, size: tuple[int, int]) -> Any:
    """Return boxes as an array of the given dtype, by default float32, or as a list of tuples or lists.

    Boxes that have not changed are the given ones.
    """
    boxes = torch.from_numpy(_in_format(found.boxes, bbox_format, size))
    if given is not None and len(given):
        plain = torch.from_numpy(np.asarray(given, np.float64))
        boxes = with_given_rows(plain, _xyxy(given, bbox_format, size), found, boxes)
    if not isinstance(given, list | tuple):
        return boxes.numpy().astype(np.float32 if given is None else given.dtype)
    row = type(given[0]) if len(given) and isinstance(given[0], list | tuple) else tuple
    return type(given)(row(values) for values in boxes.tolist())
