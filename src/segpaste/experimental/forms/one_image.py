"""One annotated image, without the names and forms of a framework: into a sample, and back after a paste.

The forms that a transform takes per sample (`detection`, `albumentations`) read into `Annotated` and write an
`Outcome`; what happens to crowds, to objects that are hidden and to the order of rows is decided here alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torchvision import tv_tensors

from segpaste.types import CrowdMask, DenseSample, KeypointSchema, PaddedBatchedDenseSample
from segpaste.types.check import not_none
from segpaste.types.tensors import tight_boxes

KEPT = ("image_id", "orig_size", "size", "file_name")
"""Entries that say something of the image, which a paste leaves true."""


class Annotated(NamedTuple):
    """An image and its N annotations.

    Attributes:
        image: [C, H, W] uint8 or float32.
        boxes: [N, 4] float32 xyxy, continuous pixel edges; read only where there are no masks.
        labels: [N] int64.
        masks: [N, H, W] bool, or None.
        is_crowd: [N] bool, regions whose objects are not told apart.
        keypoints: [N, P, 3] float32 (x, y, v), or None.
        set_value: what the given masks had where ``masks`` is True, 1 or 255; None if that is nowhere.
    """

    image: Tensor
    boxes: Tensor
    labels: Tensor
    masks: Tensor | None
    is_crowd: Tensor
    keypoints: Tensor | None = None
    set_value: int | None = None


class Outcome(NamedTuple):
    """The image after a paste: first the annotations of the input that are still seen, in their order, then pastes.

    Attributes:
        image: [C, H, W].
        boxes: [M, 4] float32 xyxy.
        labels: [M] int64.
        masks: [M, H, W] bool, or None.
        rows: [M] int64, the row of each in the input; -1 for a paste.
        keypoints: [M, P, 3] float32, or None.
        set_value: what the masks that are returned shall have where ``masks`` is True.
    """

    image: Tensor
    boxes: Tensor
    labels: Tensor
    masks: Tensor | None
    rows: Tensor
    keypoints: Tensor | None
    set_value: int = 1

    @property
    def areas(self) -> Tensor:
        """Pixels of each mask, or of the box where there are no masks, [M] float32."""
        if self.masks is not None:
            return self.masks.flatten(1).sum(1, dtype=torch.float32)
        return (self.boxes[:, 2:] - self.boxes[:, :2]).prod(1)


def to_sample(given: Annotated, schema: KeypointSchema | None, *, from_boxes: bool) -> DenseSample:
    """Return the sample of an annotated image; crowds become its crowd mask, the others its instances.

    Args:
        given: the image.
        schema: names of its keypoints, if it has any.
        from_boxes: objects without masks are pasted over as boxes.

    Raises:
        ValueError: there are objects without masks, which are not.
    """
    if given.masks is None and not from_boxes:
        raise ValueError(
            f"CopyPaste: expected masks beside {len(given.boxes)} boxes, got none; give those of the dataset "
            "(target_keys of wrap_dataset_for_transforms_v2 names them), or set source.mask_from='boxes' in the config"
        )
    size = given.image.shape[-2], given.image.shape[-1]
    objects, fields = ~given.is_crowd, dict[str, Any]()
    if bool(given.is_crowd.any()):
        fields["crowd_mask"] = CrowdMask(_regions(given, size).any(0, keepdim=True))
    if given.keypoints is not None:
        fields |= {"keypoints": given.keypoints[objects], "keypoint_schema": schema}
    if given.masks is not None:
        return DenseSample.from_masks(given.image, given.masks[objects], given.labels[objects], **fields)
    boxes = tv_tensors.BoundingBoxes(given.boxes[objects], format="XYXY", canvas_size=size)
    return DenseSample(tv_tensors.Image(given.image), boxes, given.labels[objects], **fields)


def outcome_of(given: Annotated, batch: PaddedBatchedDenseSample, is_paste: Tensor, *, mask_value: int = 1) -> Outcome:
    """Return the annotations of an image after a paste.

    Args:
        given: the image before it.
        batch: the pasted batch of this image alone, K slots; that of `to_sample` before the paste.
        is_paste: [K] bool, the slots that hold a paste.
        mask_value: the set value of masks that say none.
    """
    valid = batch.instance_valid[0]
    own, pasted = ((valid & which).nonzero()[:, 0] for which in (~is_paste, is_paste))
    crowds, regions = _crowds_left(given, batch)
    slots, masks, points = torch.cat([own, pasted]), batch.instance_masks, given.keypoints
    rows = torch.cat([(~given.is_crowd).nonzero()[:, 0][own], torch.full_like(pasted, -1), crowds])
    found = Outcome(
        image=batch.images[0],
        boxes=torch.cat([batch.boxes[0, slots], tight_boxes(regions)]),
        labels=torch.cat([batch.labels[0, slots], given.labels[crowds]]),
        masks=None if masks is None else torch.cat([masks[0, slots], regions]),
        rows=rows,
        keypoints=None if points is None else torch.cat([not_none(batch.keypoints)[0, slots], points[crowds]]),
        set_value=mask_value if given.set_value is None else given.set_value,
    )
    return found if not len(crowds) else _in_order(found, torch.where(rows < 0, len(given.labels), rows))


def _in_order(found: Outcome, keys: Tensor) -> Outcome:
    """Return an outcome sorted by one key for each annotation; those of equal keys stay in their order."""
    order = keys.argsort(stable=True)
    listed = ("boxes", "labels", "masks", "rows", "keypoints")
    fields = {name: value[order] for name in listed if (value := getattr(found, name)) is not None}
    return found._replace(**fields)


def _regions(given: Annotated, size: tuple[int, int]) -> Tensor:
    """Return the masks of the crowds, or their filled boxes, rounded outwards, [M, H, W] bool."""
    if given.masks is not None:
        return given.masks[given.is_crowd]
    boxes = given.boxes[given.is_crowd]
    low, high = boxes[:, :2].floor()[..., None, None], boxes[:, 2:].ceil()[..., None, None]
    rows, columns = (torch.arange(length, device=boxes.device) for length in size)
    rows = rows[:, None]
    return (columns >= low[:, 0]) & (columns < high[:, 0]) & (rows >= low[:, 1]) & (rows < high[:, 1])


def _crowds_left(given: Annotated, batch: PaddedBatchedDenseSample) -> tuple[Tensor, Tensor]:
    """Return the rows [M] and regions [M, H, W] of the crowds that pastes leave a pixel of."""
    rows = given.is_crowd.nonzero()[:, 0]
    if batch.crowd_mask is None:
        return rows[:0], torch.zeros(0, *batch.canvas_size, dtype=torch.bool, device=batch.device)
    regions = _regions(given, batch.canvas_size) & batch.crowd_mask[0]
    seen = regions.flatten(1).any(1)
    return rows[seen], regions[seen]


def joined(given: Any, rows: Tensor, pasted: Sequence[Any]) -> Any:
    """Return the entries of a field at the rows that stay, and those of the pastes after them, in the field's class.

    Args:
        given: one entry for each row of the input: a tensor, an array, a list or a tuple.
        rows: [M] int64, -1 for a paste; pastes are last.
        pasted: an entry for each paste.
    """
    kept = rows[rows >= 0].tolist()
    if isinstance(given, Tensor):
        added = torch.tensor(pasted, dtype=given.dtype, device=given.device)
        return torch.cat([given[kept], added.view(len(pasted), *given.shape[1:])])
    if isinstance(given, np.ndarray):
        texts = bool(pasted) and isinstance(pasted[0], str)  # of any length, also where the array has shorter ones
        return (
            np.concatenate([given[kept], np.asarray(pasted, None if texts else given.dtype)]) if pasted else given[kept]
        )
    return type(given)([*(given[row] for row in kept), *pasted])


def expect_labels(name: str, labels: Sequence[Any] | Tensor | None, *, texts: bool) -> None:
    """Check that all labels are of the kind that pastes get: texts, or numbers.

    Raises:
        ValueError: naming the field and a label of the other kind.
    """
    if labels is None or (isinstance(labels, Tensor) and not texts):
        return
    others = [label for label in labels if isinstance(label, str | bytes) != texts]
    if others and texts:
        raise ValueError(
            f"CopyPaste: expected texts in {name!r}, for label_map has texts for the classes of the bank, got "
            f"{others[0]!r:.40}; give the number of each class in label_map"
        )
    if others:
        raise ValueError(
            f"CopyPaste: expected numbers in {name!r}, for label_map has numbers for the classes of the bank, got "
            f"{others[0]!r:.40}; give the text of each class in label_map, such as bank.class_names"
        )


def in_form_of(given: Any, values: Tensor) -> Any:
    """Return values in the class and dtype of what stood in their place: a tensor, an array, a list or a tuple."""
    if isinstance(given, Tensor):
        return values.to(given.device, given.dtype)
    if isinstance(given, np.ndarray):
        return values.numpy().astype(given.dtype)
    return type(given)(values.tolist())


def check_others(entries: Mapping[str, Any], read: Sequence[str], keep: Sequence[str]) -> None:
    """Check that every entry of a target that is not read is known to be of the image.

    Texts, numbers and tensors without dimensions are of the image. Anything longer may hold an entry for each object,
    which would no longer fit them.

    Raises:
        ValueError: naming the entry.
    """
    for name, value in entries.items():
        if name in read or name in keep or name in KEPT:
            continue
        if value is None or isinstance(value, str | bytes | int | float | np.generic):
            continue
        if isinstance(value, Tensor | np.ndarray) and value.ndim == 0:
            continue
        raise ValueError(
            f"CopyPaste: expected of a target {', '.join(read)}, texts and numbers, got {name!r}, a "
            f"{type(value).__name__}; name it in keep=({name!r},) if it is true of the image whatever is pasted, else "
            f"in drop=({name!r},)"
        )
