"""Objects of padded batches as frameworks hold them: lists for each image, boxes in their formats, and class ids.

Lists of annotated images become padded batches here, too.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as F

from segpaste.targets.annotated import Annotated, sample_of
from segpaste.targets.colours import normalized
from segpaste.types import BatchedDenseSample, PaddedBatchedDenseSample
from segpaste.types.check import check_class, check_count
from segpaste.types.tensors import pixel_counts, tensor_of

LabelMap = int | Sequence[int] | Mapping[int, int] | NDArray[np.integer[Any]] | Tensor
"""Class ids of a framework: a number to add to ours, one id for each of our classes (a list, an array of integers), or
a table."""


def to_framework(labels: Tensor, label_map: LabelMap) -> Tensor:
    """Return the framework's class ids of labels.

    Args:
        labels: [N] int64.
        label_map: see `LabelMap`.

    Raises:
        TypeError: ``label_map`` is of another class.
        ValueError: it has no id for a label, or is a negative number.
    """
    table = _table(label_map)
    if isinstance(table, int):
        return labels + table
    return _looked_up(labels, table, "label_map: expected a class id for every label")


def from_framework(ids: Tensor, label_map: LabelMap) -> Tensor:
    """Return the labels of class ids of a framework: the inverse of `to_framework`.

    Raises:
        TypeError: ``label_map`` is of another class.
        ValueError: it gives two labels the same id, is a negative number, or has no label for an id.
    """
    table = _table(label_map)
    if isinstance(table, int):
        labels = ids - table
        if bool((labels < 0).any()):
            raise ValueError(
                f"label_map={table}: expected class ids from {table}, got {int(ids.min())}; "
                "is 0 the background? Give the label map of these targets"
            )
        return labels
    inverse = {class_id: label for label, class_id in table.items()}
    if len(inverse) < len(table):
        raise ValueError(
            "label_map: expected a different class id for each label, got one twice, which cannot be inverted"
        )
    return _looked_up(ids, inverse, "label_map: expected a label for every class id")


def _table(label_map: Any) -> int | dict[int, int]:
    """Return a label map as a number to add, or as the class id of each label."""
    if isinstance(label_map, Tensor | np.ndarray | np.generic):
        label_map = label_map.tolist()
    if isinstance(label_map, Mapping):
        return {_integer(label): _integer(class_id) for label, class_id in label_map.items()}
    if isinstance(label_map, Sequence) and not isinstance(label_map, str | bytes):
        return dict(enumerate(map(_integer, label_map)))
    if (first := _integer(label_map)) < 0:
        raise ValueError(f"label_map: expected the class id of label 0, at least 0, got {first}")
    return first


def _integer(value: Any) -> int:
    """Return an entry of a label map as an integer."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise TypeError(
            "label_map: expected an integer to add, a list of class ids, a dict from labels to class ids, or an array "
            f"of integers, got {value!r:.40}, a {type(value).__name__}"
        )
    return int(value)


def _looked_up(values: Tensor, table: Mapping[int, int], expected: str) -> Tensor:
    found = [table.get(value) for value in values.tolist()]
    if None in found:
        missing = values.tolist()[found.index(None)]
        raise ValueError(f"{expected}, got none for {missing}; it has {sorted(table)[:20]}")
    return torch.tensor(found, dtype=torch.int64, device=values.device)


_UPRIGHT = (tv_tensors.BoundingBoxFormat.XYXY, tv_tensors.BoundingBoxFormat.XYWH, tv_tensors.BoundingBoxFormat.CXCYWH)
_MOST = 4.0
"""Upper bound of fractions of an image, even for a box that extends beyond the image."""


def corners(place: str, boxes: Any) -> Tensor:
    """Return boxes as plain xyxy in pixels, [N, 4] float32.

    Args:
        place: name for the error.
        boxes: `torchvision.tv_tensors.BoundingBoxes` of a format without an angle, or other values as xyxy; [0] if
            there are none.

    Raises:
        ValueError: they have an angle, or another shape.
    """
    if isinstance(boxes, tv_tensors.BoundingBoxes):
        if boxes.format not in _UPRIGHT:
            raise ValueError(
                f"{place}: expected boxes of format XYXY, XYWH or CXCYWH, got {boxes.format.name}: an angle does not "
                "follow a paste"
            )
        boxes = F.convert_bounding_box_format(boxes, new_format=tv_tensors.BoundingBoxFormat.XYXY)
    return _of_four(place, tensor_of(boxes).float())


def _of_four(place: str, boxes: Tensor) -> Tensor:
    """Return boxes [N, 4]; those of no object may have another shape."""
    if boxes.shape[1:] != (4,) and boxes.numel():
        raise ValueError(f"{place}: expected boxes [N, 4], got the shape {list(boxes.shape)}")
    return boxes if boxes.numel() else boxes.reshape(0, 4)


def cxcywh(boxes: Tensor, size: Sequence[int]) -> Tensor:
    """Return xyxy boxes [N, 4] as (centre x, centre y, width, height) over (width, height) of ``size`` (H, W)."""
    low, high = boxes[:, :2], boxes[:, 2:]
    edges = edges_of(size, low)
    return torch.cat([(low + high) / 2 / edges, (high - low) / edges], 1)


def xyxy(boxes: Tensor, size: Sequence[int], place: str | None = None) -> Tensor:
    """Return boxes [N, 4] as xyxy in pixels, float32: the inverse of `cxcywh`.

    Args:
        boxes: (centre x, centre y, width, height) as fractions.
        size: H and W.
        place: name for errors; None does not check the boxes, which waits for their device.

    Raises:
        ValueError: the boxes are in pixels, or have another shape.
    """
    if place is not None and (boxes := _of_four(place, boxes)).numel() and (most := float(boxes.abs().max())) > _MOST:
        raise ValueError(
            f"{place}: expected boxes (centre x, centre y, width, height) as fractions of the image, got numbers up to "
            f"{most:.4g}; are these pixels? Give the batch that the model gets"
        )
    centres, sides = boxes.float().reshape(-1, 2, 2).mul(edges_of(size, boxes)).unbind(1)
    return torch.cat([centres - sides / 2, centres + sides / 2], 1)


def scaled_points(points: Tensor, size: Sequence[int]) -> Tensor:
    """Return keypoints [N, P, 2 or 3] with x and y as fractions of ``size`` (H, W) in pixels, float32."""
    return torch.cat([points[..., :2].float() * edges_of(size, points), points[..., 2:].float()], -1)


def edges_of(size: Sequence[int], like: Tensor) -> Tensor:
    """Return (width, height) of ``size`` (H, W), [2] float32 on the device of a tensor."""
    return torch.tensor([size[1], size[0]], dtype=torch.float32, device=like.device)


def box_areas(boxes: Tensor) -> Tensor:
    """Return the areas of xyxy boxes, [N]."""
    return (boxes[:, 2:] - boxes[:, :2]).prod(1)


def visible_areas(boxes: Tensor, masks: Tensor | None) -> Tensor:
    """Return the number of pixels of each mask [N, H, W], or the area of each xyxy box without masks, [N] float32."""
    return box_areas(boxes) if masks is None else pixel_counts(masks).float()


class Objects(NamedTuple):
    """Instances of one image; those without a pixel or with an empty box are left out.

    Attributes:
        boxes: [N, 4] float32 xyxy, continuous pixel edges.
        labels: [N] int64.
        masks: [N, H, W] bool; None in a batch without instance masks.
        slots: [N] int64, their slots in the batch.
    """

    boxes: Tensor
    labels: Tensor
    masks: Tensor | None
    slots: Tensor

    @property
    def areas(self) -> Tensor:
        """Number of pixels of each mask, or area of the box without masks, float32 [N]."""
        return visible_areas(self.boxes, self.masks)


def has_object(batch: PaddedBatchedDenseSample) -> Tensor:
    """Return which slots hold an object with a pixel, [B, K] bool, since frameworks reject empty boxes."""
    return batch.instance_valid & (batch.boxes[..., 2:] > batch.boxes[..., :2]).all(-1)


def objects_of(batch: PaddedBatchedDenseSample) -> list[Objects]:
    """Return the instances of each image of a batch, in the order of their slots."""
    check_class("batch", batch, PaddedBatchedDenseSample)
    keep = has_object(batch)
    found = []
    for b in range(batch.batch_size):
        slots = keep[b].nonzero()[:, 0]
        masks = None if batch.instance_masks is None else batch.instance_masks[b, slots]
        found.append(Objects(batch.boxes[b, slots], batch.labels[b, slots], masks, slots))
    return found


def slots_of(
    image_idx: Tensor, areas: Tensor, batch_size: int, max_instances: int, *, warns: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Assign each object of a flat list a slot of its image.

    Args:
        image_idx: [N] int64, the image of each object, ascending.
        areas: [N], area of each object; an image with more objects than slots keeps its largest.
        batch_size: B.
        max_instances: K.
        warns: warn of an image with more objects.

    Returns:
        [M] int64 each: the objects that are kept, ascending, and the image and the slot of each.
    """
    kept = torch.arange(len(image_idx), device=image_idx.device)
    counts = torch.bincount(image_idx, minlength=batch_size)
    if len(kept) and int(counts.max()) > max_instances:
        if warns:
            warn_of_overflow(max_instances)
        images = [torch.nonzero(image_idx == b)[:, 0] for b in range(batch_size)]
        largest = [rows[areas[rows].argsort(descending=True, stable=True)[:max_instances]] for rows in images]
        kept = torch.cat(largest).sort().values
        counts = counts.clamp(max=max_instances)
    rows = image_idx[kept]
    first = counts.cumsum(0) - counts
    return kept, rows, torch.arange(len(kept), device=kept.device) - first[rows]


def warn_of_overflow(max_instances: int) -> None:
    """Warn that some objects have no slot; Python shows the same warning once."""
    warnings.warn(
        f"an image has more objects than max_instances={max_instances} slots: its largest are kept, the others become "
        "background, in this and in later batches; give more slots",
        stacklevel=4,
    )


def picture_sizes(batch: PaddedBatchedDenseSample) -> list[tuple[int, int]]:
    """Return (height, width) of each image up to its last row and column without padding."""
    height, width = batch.canvas_size
    if batch.padding_mask is None:
        return [(height, width)] * batch.batch_size
    return extents(~batch.padding_mask[:, 0])


def extents(inside: Tensor) -> list[tuple[int, int]]:
    """Return (height, width) up to the last row and column with a True pixel, of each of [B, H, W] bool."""
    return [(_extent(pixels.any(1)), _extent(pixels.any(0))) for pixels in inside]


def _extent(present: Tensor) -> int:
    """Return the number of entries up to the last True one."""
    found = present.nonzero()
    return int(found[-1]) + 1 if len(found) else 0


def pixel_mask(batch: PaddedBatchedDenseSample) -> Tensor:
    """Return [B, H, W] int64: 1 for pixels of the image, 0 for padding; the inverse of ``padding_mask``."""
    if batch.padding_mask is None:
        return torch.ones(batch.batch_size, *batch.canvas_size, dtype=torch.int64, device=batch.device)
    return (~batch.padding_mask[:, 0]).long()


def normalized_images(
    batch: PaddedBatchedDenseSample, mean: Sequence[float], std: Sequence[float], scale: float = 255.0
) -> Tensor:
    """Return the images of a batch after `normalized`; padding is 0."""
    images = normalized(batch.images, mean, std, scale)
    return images if batch.padding_mask is None else images.masked_fill(batch.padding_mask, 0.0)


def padded_batch(images: Sequence[Annotated], max_instances: int, label_map: LabelMap) -> PaddedBatchedDenseSample:
    """Return a padded batch of images of any sizes, padded to the right and below, with K slots.

    Args:
        images: B images, after `checked`.
        max_instances: K; an image with more instances keeps its largest.
        label_map: class ids of the images.

    Raises:
        TypeError, ValueError: see `DenseSample`; an id has no label; or images have different numbers of channels or
            dtypes.
    """
    check_count("max_instances", max_instances)
    if not images:
        raise ValueError("expected at least one image, got none; skip empty batches")
    canvas = [max(given.image.shape[axis] for given in images) for axis in (-2, -1)]
    with_crowds, samples = any(bool(given.is_crowd.any()) for given in images), []
    for given in images:
        labels = given.labels.to(torch.int64, copy=True)
        labels[~given.is_crowd] = from_framework(labels[~given.is_crowd], label_map)  # a crowd may have no label
        samples.append(sample_of(given._replace(labels=labels), canvas=canvas, with_crowds=with_crowds))
    if any(sample.num_instances > max_instances for sample in samples):
        warn_of_overflow(max_instances)
    return BatchedDenseSample.from_samples(samples).to_padded(max_instances, overflow="largest")
