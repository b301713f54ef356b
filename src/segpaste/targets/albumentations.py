"""Targets of AlbumentationsX: the dictionary that a pipeline takes and returns.

It has ``image`` [H, W, C], ``masks``, ``bboxes`` and a field of labels, as arrays and lists, or tensors of
``ToTensorV2``. See https://albumentations.ai/docs/3-basic-usage/bounding-boxes-augmentations/
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

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
)
from segpaste.targets.colours import expect_rgb, pixels_of
from segpaste.targets.objects import LabelMap, objects_of, picture_sizes, to_framework
from segpaste.targets.outcome import Outcome, joined, with_given_rows
from segpaste.types import PaddedBatchedDenseSample

FORMATS = ("pascal_voc", "coco", "cxcywh", "albumentations", "yolo")
"""Names of box formats there: xyxy, xywh and cxcywh in pixels; xyxy and cxcywh as fractions."""

_CENTRED, _RELATIVE = ("cxcywh", "yolo"), ("albumentations", "yolo")


def is_albumentations(batch: object) -> bool:
    """Return whether a batch is a dictionary with ``image``, ``labels``, and ``masks`` or ``bboxes``, or a list."""
    if is_list(batch, Mapping):
        return all(map(is_albumentations, batch))
    return has_keys(batch, "image", "labels") and ("masks" in batch or "bboxes" in batch) and "boxes" not in batch


def read(batch: Any, reading: Reading) -> Images:
    """Return the images of one or more dictionaries, for drawing.

    Raises:
        ValueError: there are boxes, and no format; labels are texts; or there is not one label for each box and mask.
    """
    listed: Sequence[Mapping[str, Any]] = [batch] if isinstance(batch, Mapping) else batch

    def annotated(b: int) -> Annotated:
        image = listed[b]["image"]
        if not isinstance(image, Tensor):
            image = np.ascontiguousarray(np.moveaxis(np.atleast_3d(image), 2, 0))
        pixels = pixels_of(image, reading)
        return read_objects(reading.owner, pixels, listed[b], reading.bbox_format)

    has_boxes = any("bboxes" in data for data in listed)
    return Images(len(listed), lambda b: as_given(annotated(b)), has_boxes)


def read_objects(
    place: str, image: Tensor, data: Mapping[str, Any], bbox_format: str | None, field: str = "labels"
) -> Annotated:
    """Return the annotations of an image; without ``bboxes`` boxes are those of the masks.

    Args:
        place: name for errors.
        image: [C, H, W].
        data: dictionary with ``masks``, a list of [H, W] or an array [N, H, W]; ``bboxes`` [N, 4], further columns are
            not read; and the field of labels, one number for each object.
        bbox_format: one of `FORMATS`; None if there are no boxes.
        field: name of the field of labels.

    Raises:
        ValueError: an array has another shape, the lengths of fields differ, or there are boxes and no format.
    """
    size, given = (image.shape[-2], image.shape[-1]), data.get("bboxes")
    if given is not None and bbox_format is None:
        raise ValueError(
            f"{place}: expected bbox_format because there are bboxes, got None; give the coord_format of A.BboxParams: "
            f"{', '.join(FORMATS)}"
        )
    boxes = None if given is None else _xyxy(given, checked_format(place, bbox_format), size)
    masks = data.get("masks")
    if masks is not None and boxes is not None and len(masks) != len(boxes):
        raise ValueError(
            f"{place}: expected a mask for each of {len(boxes)} bboxes, got {len(masks)}: A.Compose removes boxes but "
            "keeps their masks; give A.Compose masks and labels without bboxes and bbox_params: boxes are computed "
            "from the masks"
        )
    if masks is not None:
        masks = masks_of(place, masks, None, size, image)
    if boxes is None:
        boxes = image.new_zeros(0, 4, dtype=torch.float32) if masks is None else boxes_of_masks(masks)
    num = len(boxes)
    labels = numbers_of(place, data, field, num, None if num else [], floats=True)  # as pipelines may return them
    return Annotated(image, boxes, labels.long(), masks, torch.zeros(num, dtype=torch.bool, device=image.device))


def checked_format(place: str, bbox_format: str | None) -> str:
    """Return the format of boxes; raise ValueError if the name is unknown."""
    if bbox_format not in FORMATS:
        raise ValueError(f"{place}: expected bbox_format to be one of {', '.join(FORMATS)}, got {bbox_format!r}")
    return bbox_format


def read_dictionary(
    place: str, data: Mapping[str, Any], bbox_format: str | None, label_field: str, *, texts: bool
) -> Annotated:
    """Return the image and annotations of a dictionary of arrays, ready for a paste; labels are read as 0.

    Args:
        place: name for errors.
        data: ``image`` [H, W, 3], uint8 or float32 in 0..1; for the others see `read_objects`.
        bbox_format: see `read_objects`.
        label_field: name of the field with one label for each object.
        texts: True if labels are texts, not numbers.

    Raises:
        ValueError: see `read_objects`; labels are of the other kind, or masks have other values than 0 and 1 or 0 and
            255.
    """
    image, boxes = data["image"], data.get("bboxes")
    if image.ndim != 3:
        raise ValueError(
            f"{place}: expected an image [H, W, 3], got {list(image.shape)}; repeat a grey one for each channel"
        )
    expect_rgb(place, image.shape[2])
    if boxes is not None and len(boxes) and np.shape(boxes)[1:] != (4,):
        raise ValueError(
            f"{place}: expected bboxes [N, 4], got {list(np.shape(boxes))}; give labels as a field, by label_fields"
        )
    pixels = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)
    num = len(data["masks"]) if data.get("masks") is not None else 0 if boxes is None else len(boxes)
    plain = {name: value for name, value in data.items() if name in ("masks", "bboxes")}
    given = read_objects(place, pixels, {**plain, "labels": [0] * num}, bbox_format)  # boxes and masks fit each other
    labels = rows_of(place, data, label_field, num, None if num else [], "label_field names the field")
    _expect_labels(place, label_field, labels, texts=texts)
    return checked(place, given)


def _expect_labels(place: str, name: str, labels: Sequence[Any] | Tensor, *, texts: bool) -> None:
    """Check that all labels are of the kind of the pastes: texts, or numbers.

    Raises:
        ValueError: a label is of the other kind; the message has the field and the label.
    """
    others = [label for label in labels if isinstance(label, str | bytes) != texts]
    if others:
        kind, other = ("texts", "number") if texts else ("numbers", "text")
        raise ValueError(
            f"{place}: expected {kind} in {name!r}, because label_map has {kind} for the classes of the bank, got "
            f"{others[0]!r:.40}; give the {other} of each class in label_map"
            + ("" if texts else ", such as bank.class_names")
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


def to_dictionaries(
    batch: PaddedBatchedDenseSample, *, bbox_format: str | None = None, label_map: LabelMap = 0
) -> list[dict[str, Any]]:
    """Return the images of a batch as dictionaries of arrays.

    Args:
        batch: B images.
        bbox_format: one of `FORMATS`; None returns no boxes.
        label_map: class ids of the dictionaries, see `segpaste.targets.objects.LabelMap`.

    Returns:
        B dictionaries without padding: ``image`` [H, W, C], ``labels``, a list of N integers, ``masks`` [N, H, W] uint8
        if the batch has instance masks, and ``bboxes`` [N, 4] float32 if they have a format.
    """
    batch, written = batch.to("cpu"), []
    for b, (found, (height, width)) in enumerate(zip(objects_of(batch), picture_sizes(batch), strict=True)):
        image = batch.images[b, :, :height, :width].permute(1, 2, 0).contiguous().numpy()
        data = {"image": image, "labels": to_framework(found.labels, label_map).tolist()}
        if found.masks is not None:
            data["masks"] = found.masks[:, :height, :width].to(torch.uint8).numpy()
        if bbox_format is not None:
            form = checked_format("to_dictionaries", bbox_format)
            data["bboxes"] = _in_format(found.boxes, form, (height, width)).astype(np.float32)
        written.append(data)
    return written


def _xyxy(boxes: Any, bbox_format: str, size: tuple[int, int]) -> Tensor:
    """Return boxes in pixels, [N, 4] float32 xyxy."""
    values = np.array([np.asarray(box[:4], np.float64) for box in boxes]).reshape(-1, 4)
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
