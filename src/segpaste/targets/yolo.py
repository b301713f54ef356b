"""Targets of Ultralytics: batches of its loader, a dictionary with ``img``, ``cls``, ``bboxes`` and ``batch_idx``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from segpaste.targets.annotated import (
    Annotated,
    Images,
    Reading,
    as_given,
    has_keys,
    labelled_points,
    masks_of,
    numbers_of,
)
from segpaste.targets.annotated import (
    rows_of as rows_of_entry,
)
from segpaste.targets.colours import pixels_of
from segpaste.targets.objects import has_object, scaled_points, xyxy
from segpaste.targets.yolo_rows import (
    Batch,
    Moves,
    borders_of,
    fitted_boxes,
    hidden_rows,
    images_of_rows,
    masks_of_rows,
    rows_of,
    rows_of_slots,
    widest_borders,
)
from segpaste.types import KeypointSchema, PaddedBatchedDenseSample, tight_boxes
from segpaste.types.tensors import tensor_of

_READ = ("batch_idx", "cls", "bboxes", "masks", "keypoints")


def is_yolo(batch: object) -> bool:
    """Return whether a batch is a dictionary with ``img``, ``cls``, ``bboxes`` and ``batch_idx``."""
    return has_keys(batch, "img", "cls", "bboxes", "batch_idx")


def read(batch: Mapping[str, Any], reading: Reading) -> Images:
    """Return the images of a batch, for drawing, before or after the trainer has converted them to floats.

    Smaller masks are enlarged without smoothing. ``sem_masks`` are not read.

    Raises:
        ValueError: the image of an object is not in the batch.
    """
    images, given = batch["img"], {name: tensor_of(batch[name]) for name in _READ if name in batch}
    num_images = len(images)
    rows = images_of_rows(reading.owner, given["batch_idx"], num_images)
    overlap = "masks" in given and is_overlap(given["masks"], rows, num_images)
    for name in ("cls", "bboxes", "keypoints"):
        rows_of_entry(reading.owner, {name: range(len(given.get(name, rows)))}, name, len(rows))

    def annotated(b: int) -> Annotated:
        own, image = (rows == b).nonzero()[:, 0], pixels_of(images[b], reading)
        place, size, masks, points = f"{reading.owner}: image {b}", image.shape[-2:], None, None
        if "masks" in given:
            small = masks_of_rows(given["masks"], rows, num_images, overlap, own)[None].float()
            whole = small.new_zeros(0, *size) if not len(own) else interpolate(small, size, mode="nearest-exact")[0]
            masks = masks_of(place, whole, len(own), size, image)
        if "keypoints" in given:
            points = scaled_points(given["keypoints"][own], size)
        labels = numbers_of(place, {"cls": given["cls"].reshape(-1)[own]}, "cls", len(own), floats=True)
        no_crowd = torch.zeros_like(own, dtype=torch.bool)
        return Annotated(image, xyxy(given["bboxes"][own], size, place), labels, masks, no_crowd, points)

    return Images(num_images, lambda b: as_given(annotated(b)))


def is_overlap(masks: Tensor, rows: Tensor, batch_size: int) -> bool:
    """Return whether masks are one map per image, and not one mask per object.

    Args:
        masks: [B or N, h, w].
        rows: image of each object, int64 [N].
        batch_size: number of images, B.
    """
    if len(masks) != len(rows):
        return True
    if len(masks) != batch_size:
        return False
    empty = torch.bincount(rows, minlength=batch_size) == 0  # the map of an image without objects is empty
    return not bool(masks[empty].any())


def from_yolo(
    batch: Batch,
    max_instances: int,
    *,
    overlap: bool,
    schema: KeypointSchema | None = None,
    hsv_v: float = 0.4,
    moves: Moves | None = None,
) -> PaddedBatchedDenseSample:
    """Return a batch of Ultralytics' loader as a padded batch.

    Borders that the loader has filled with grey are padding, see `borders_of`. They are at most as wide as ``moves``
    and the shapes of the images allow, see `widest_borders`. Objects without a pixel are left out, and with masks a box
    is that of the mask's pixels; `to_yolo` restores the rows and the boxes of the loader.

    Args:
        batch: ``img`` [B, 3, H, W] uint8; ``batch_idx`` [N], in any order; ``cls`` [N, 1]; ``bboxes`` [N, 4],
            (centre x, centre y, width, height) as fractions of the image; ``masks`` in full resolution, [B, H, W] or
            [N, H, W]; ``keypoints`` [N, P, 2 or 3] as fractions. Masks and keypoints may be missing.
        max_instances: K; an image with more objects keeps its largest.
        overlap: True if masks are one map per image with i + 1 at pixels of its i-th object; else one mask per object.
        schema: names of the keypoints, needed with ``keypoints``.
        hsv_v: the loader's change of brightness, which is applied to borders, too.
        moves: how the loader moves whole images; None if it does more than that, such as mosaic or rotation, or if that
            is not known. Borders may then have any width.

    Raises:
        ValueError: masks have another size than the images, or the image of an object is not in the batch.
    """
    images = batch["img"]
    (b, _, height, width), device = images.shape, images.device
    found = rows_of(batch, max_instances, overlap)
    boxes, masks, areas = found.boxes, found.masks, found.areas
    if masks is not None:
        boxes = tight_boxes(masks) if len(masks) else boxes
    there = areas[found.kept] > 0
    kept, rows, slots = found.kept[there], found.images[there], found.slots[there]

    def placed(values: Tensor, dtype: torch.dtype) -> Tensor:
        out = torch.zeros(b, max_instances, *values.shape[1:], dtype=dtype, device=device)
        out[rows, slots] = values[kept].to(dtype)
        return out

    fields: dict[str, Any] = {}
    if masks is not None:
        fields["instance_masks"] = placed(masks, torch.bool)
        ids = torch.arange(1, max_instances + 1, dtype=torch.int32, device=device).expand(b, -1)
        fields["instance_ids"] = torch.where(placed(areas > 0, torch.bool), ids, 0)
    if schema is not None:
        points = labelled_points(scaled_points(batch["keypoints"], (height, width)), (height, width))
        fields.update(keypoints=placed(points, torch.float32), keypoint_schema=schema)
    padding = borders_of(images, hsv_v, None if moves is None else widest_borders(batch, moves))
    if masks is not None:
        padding = padding & ~fields["instance_masks"].any(1, keepdim=True)  # labelled pixels are not padding
    fields["padding_mask"] = padding
    valid = placed(torch.ones_like(areas), torch.bool)
    labels = placed(batch["cls"].view(-1), torch.int64)
    return PaddedBatchedDenseSample(images, placed(boxes, torch.float32), labels, valid, **fields)


def schema_of(data: dict[str, Any]) -> KeypointSchema:
    """Return the schema of a dataset's YAML: its points by number, and the pairs of ``flip_idx``."""
    num = data["kpt_shape"][0]
    order = data.get("flip_idx") or range(num)
    pairs = tuple((point, other) for point, other in enumerate(order) if point < other)
    return KeypointSchema(tuple(f"point {i}" for i in range(num)), flip_pairs=pairs)


def to_yolo(
    batch: PaddedBatchedDenseSample, *, like: Batch, mask_ratio: int, overlap: bool, max_instances: int | None = None
) -> Batch:
    """Return the fields of Ultralytics' loader that a paste changes: the inverse of `from_yolo`.

    An object that no paste has changed keeps the loader's box. A partly hidden object gets the box of its visible
    pixels, clipped to the loader's box. An object without a pixel keeps its row if nothing has changed in its box.

    Args:
        batch: the pasted batch.
        like: the batch that was given to `from_yolo`, with masks in full resolution.
        mask_ratio: masks have the size of the images divided by this.
        overlap: as in `from_yolo`. If True, objects are ordered by descending area, and the smaller object owns shared
            pixels of the map.
        max_instances: as in `from_yolo`; by default the slots of ``batch``.

    Returns:
        ``img``, ``batch_idx`` [M], ``cls`` [M, 1], ``bboxes`` [M, 4] and, if ``like`` has them, ``masks``,
        ``sem_masks`` [B, h, w], the class of each pixel (0 without an object), and ``keypoints``.

    Raises:
        ValueError: masks of ``like`` have another size than its images.
    """
    num_slots = batch.max_instances if max_instances is None else max_instances
    rows, bboxes, masks, labels, points = _objects(batch, like, overlap, num_slots)
    if masks is not None:
        masks = _reduced(masks, mask_ratio)
        if overlap:
            order = torch.argsort(masks.flatten(1).sum(1), descending=True, stable=True)
            order = order[torch.argsort(rows[order], stable=True)]
            rows, bboxes, masks, labels = rows[order], bboxes[order], masks[order], labels[order]
            points = None if points is None else points[order]
    out: Batch = {
        "img": batch.images,
        "batch_idx": rows.to(like["batch_idx"].dtype),
        "cls": labels[:, None].to(like["cls"].dtype),
        "bboxes": bboxes,
    }
    if masks is not None:
        smallest_last = torch.argsort(masks.flatten(1).sum(1), stable=True).flip(0)
        order = torch.arange(len(rows), device=rows.device) if overlap else smallest_last
        shown = _shown(masks, rows, order, batch.batch_size)
        first = torch.searchsorted(rows, torch.arange(batch.batch_size, device=rows.device))
        numbers = torch.where(shown >= 0, shown - first[:, None, None] + 1, 0)
        holds = torch.uint8 if not numbers.numel() or int(numbers.max()) < 256 else torch.int32  # like the loader
        out["masks"] = numbers.to(holds) if overlap else masks.to(torch.uint8)
        if "sem_masks" in like:
            classes = torch.cat([labels, labels.new_zeros(1)])[shown]  # -1 indexes the last entry
            out["sem_masks"] = classes.to(like["sem_masks"].dtype)
    if points is not None:
        out["keypoints"] = points
    return out


class _Objects(NamedTuple):
    """Objects of a batch, ordered by image and slot, as returned by `to_yolo`."""

    images: Tensor
    bboxes: Tensor
    masks: Tensor | None
    labels: Tensor
    points: Tensor | None


def _objects(batch: PaddedBatchedDenseSample, like: Batch, overlap: bool, num_slots: int) -> _Objects:
    """Return the objects of a pasted batch, and the kept objects of the loader without a pixel."""
    before = rows_of(like, num_slots, overlap, warns=False)
    classes = like["cls"].view(-1).long()
    images, slots = has_object(batch).nonzero(as_tuple=True)
    row = rows_of_slots(batch, images, slots, before, classes)
    masks = None
    if "masks" in like and batch.instance_masks is not None:
        masks = batch.instance_masks[images, slots]
    bboxes = fitted_boxes(batch.boxes[images, slots], masks, row, before, like)
    found = _Objects(images, bboxes, masks, batch.labels[images, slots], _fractions(batch, images, slots, like))
    is_paste = torch.zeros_like(batch.instance_valid)
    is_paste[images, slots] = row < 0
    hidden = hidden_rows(batch, before, is_paste, like)
    if not len(hidden) or masks is None:
        return found
    at = before.kept[hidden]
    points = None if found.points is None else torch.cat([found.points, like["keypoints"][at]])
    order = torch.argsort(torch.cat([slots, before.slots[hidden]]), stable=True)
    images = torch.cat([images, before.images[hidden]])
    order = order[torch.argsort(images[order], stable=True)]
    return _Objects(
        images[order],
        torch.cat([bboxes, like["bboxes"][at]])[order],
        torch.cat([masks, masks.new_zeros(len(hidden), *masks.shape[1:])])[order],
        torch.cat([found.labels, classes[at]])[order],
        None if points is None else points[order],
    )


def _fractions(batch: PaddedBatchedDenseSample, images: Tensor, slots: Tensor, like: Batch) -> Tensor | None:
    """Return keypoints [M, P, 2 or 3] as fractions of the image, as in the loader; None if there are none."""
    if batch.keypoints is None:
        return None
    points = batch.keypoints[images, slots, :, : like["keypoints"].shape[-1]].clone()
    height, width = batch.canvas_size
    points[..., :2] /= torch.tensor([width, height], dtype=points.dtype, device=points.device)
    return points.to(like["keypoints"].dtype)


def _reduced(masks: Tensor, ratio: int) -> Tensor:
    """Return masks [N, H, W] bool at 1 / ``ratio`` of their size, equal to OpenCV's linear resize of 0 and 1."""
    if ratio == 1 or not len(masks):
        return masks[:, : masks.shape[1] // ratio, : masks.shape[2] // ratio]
    size = masks.shape[1] // ratio, masks.shape[2] // ratio
    smooth = interpolate(masks[:, None].float(), size, mode="bilinear", align_corners=False)
    return smooth[:, 0] >= 0.5


def _shown(masks: Tensor, rows: Tensor, order: Tensor, batch_size: int) -> Tensor:
    """Return the visible object at each pixel, [B, h, w] int64: its index in the flat list, -1 if there is none.

    Args:
        masks: [M, h, w] bool.
        rows: [M] int64, the image of each object.
        order: [M] int64, indices of objects from back to front.
        batch_size: B.
    """
    depth = torch.empty_like(order, dtype=torch.int32)
    depth[order] = torch.arange(1, len(order) + 1, dtype=torch.int32, device=order.device)
    pixels = masks.flatten(1) * depth[:, None]
    top = torch.zeros(batch_size, pixels.shape[1], dtype=torch.int32, device=masks.device)
    top.scatter_reduce_(0, rows[:, None].expand_as(pixels), pixels, "amax")
    return torch.cat([order.new_full((1,), -1), order])[top.long()].view(batch_size, *masks.shape[1:])


def write(batch: PaddedBatchedDenseSample, *, mask_ratio: int = 1, overlap: bool = True) -> Batch:
    """Return a batch as that of a loader, without one whose values it keeps; see `to_yolo`."""
    nothing = batch.boxes.new_zeros(0)
    like: Batch = {"img": batch.images, "batch_idx": nothing, "cls": nothing[:, None], "bboxes": nothing.view(0, 4)}
    if batch.instance_masks is not None:
        like["masks"] = batch.instance_masks.new_zeros(batch.batch_size if overlap else 0, *batch.canvas_size)
    if batch.keypoints is not None:
        like["keypoints"] = batch.keypoints.new_zeros(0, *batch.keypoints.shape[2:])
    return to_yolo(batch, like=like, mask_ratio=mask_ratio, overlap=overlap)
