"""Crops of the objects of a dataset at their size in their images, staged for one target.

    staged, objects = stage_own_size(bank, crop_idx, limit=(960, 1280))

A `segpaste.bank.DatasetBank` shrinks objects to one crop size. Here each object keeps its own size, up to a limit, and
all are staged at the largest size among them: memory depends on the objects that are pasted into one image. The same
crops come from ``stage_bank_batch(bank.resized(staged.crop_size), [crop_idx])``, which reads all of them at that size.
A ``fit_into`` of the bank is not used here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from segpaste.bank.building.cropping import OwnSizeCut, cut_own_size
from segpaste.bank.building.dataset_bank import DatasetBank
from segpaste.bank.format.protocol import Columns
from segpaste.bank.read.staging import stage_bank_batch
from segpaste.bank.schema.record import Array, BankError, Crop, Layout
from segpaste.types import StagedCrops
from segpaste.types.sampling import Size

NO_CROP = -1
"""Index of a crop without an object, which is never pasted."""


@dataclass(frozen=True, slots=True)
class StagedObject:
    """Object that a staged crop shows.

    Attributes:
        index: crop of the bank: the requested one, or the one that replaces it.
        image: index of its image in the dataset.
        instance_id: its id there; position i of the image's annotation ids has the id i + 1.
        over: classes of the image's other objects that share pixels with it, if they were asked for.
        window: (x, y, width, height) of the staged crop in the photo, pixels; it may reach beyond the photo.
        scale: pixels of the crop for one of the photo, at most 1.
    """

    index: int
    image: int
    instance_id: int
    over: frozenset[int] = frozenset()
    window: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    scale: float = 1.0


def stage_own_size(
    bank: DatasetBank, indices: Sequence[int], limit: Size, *, with_over: bool = False
) -> tuple[StagedCrops, list[StagedObject | None]]:
    """Cut out objects at the resolution of their images and stage them for one target.

    Args:
        bank: the objects.
        indices: K crops of the bank, or `NO_CROP`.
        limit: (h, w), pixels; larger crops are shrunk to fit it.
        with_over: find the objects that each one overlaps.

    Returns:
        The crops [1, K], at the largest size among them, with the indices of the objects that they show; and these
        objects, None for a crop without an object.

    Raises:
        BankError: a sample is invalid.
        ValueError, OSError: an image cannot be read.
    """
    cut = [_cut(bank, index, limit, with_over) for index in indices]
    sizes = [one.crop.image.shape[1:] for one, _ in cut]
    size = max((h for h, _ in sizes), default=1), max((w for _, w in sizes), default=1)
    layout = Layout(size, bank.layout.groups, bank.layout.keypoint_schema)
    rows = _Rows(bank, layout, [one.grown(size) for one, _ in cut])
    staged = stage_bank_batch(rows, np.arange(len(cut))[None])
    shown = [None if found is None else replace(found, window=one.window(size), scale=one.scale) for one, found in cut]
    index = [max(given, 0) if one is None else one.index for given, one in zip(indices, shown, strict=True)]
    return replace(staged, crop_idx=torch.tensor([index], dtype=torch.int64, device="cpu")), shown


def _cut(bank: DatasetBank, index: int, limit: Size, with_over: bool) -> tuple[OwnSizeCut, StagedObject | None]:
    """Cut out an object, or another one of its class if it is rejected."""
    for found in () if index == NO_CROP else bank.found(index):
        sample = found.sample
        cut = cut_own_size(
            sample,
            found.position,
            limit,
            mask=found.mask,
            margin_frac=bank.margin_frac,
            depth_fill=bank.depth_fill,
            image_id=bank.image_id_of(found),
            annotation_id=found.instance_id,
        )
        if cut.crop.alpha.any():
            masks = sample.instance_masks
            over = over_classes(sample.labels, masks, found.position) if with_over else frozenset[int]()
            return cut, StagedObject(found.index, found.image, found.instance_id, over)
    empty = bank.resized((1, 1)).empty(int(bank.crop_class_ids()[index]))
    return OwnSizeCut(replace(empty, content_box=np.array([0, 0, 1, 1], np.int32))), None


def over_classes(labels: Tensor, masks: Tensor | None, position: int) -> frozenset[int]:
    """Return the classes of the other instances that share pixels with one; without masks none.

    Args:
        labels: class of each instance, [N] int64.
        masks: mask of each instance, [N, H, W] bool.
        position: index of the instance.
    """
    if masks is None:
        return frozenset()
    pixels = masks.as_subclass(Tensor).view(torch.uint8)
    shares = (pixels & pixels[position]).flatten(1).amax(1) > 0
    shares[position] = False
    return frozenset(labels[shares].tolist())


class _Rows:
    """Crops of one size as the rows of a bank."""

    def __init__(self, bank: DatasetBank, layout: Layout, crops: Sequence[Crop]) -> None:
        self.layout, self.crop_size = layout, layout.crop_size
        self.class_names, self.class_frequencies = bank.class_names, bank.class_frequencies
        self.version, self.metric_depth = bank.version, bank.metric_depth
        self._crops = crops

    def __len__(self) -> int:
        return len(self._crops)

    def __getitem__(self, index: int) -> Crop:
        return self._crops[index]

    def crop_class_ids(self) -> NDArray[np.int64]:
        return np.array([crop.class_id for crop in self._crops], np.int64)

    def read(
        self,
        indices: Sequence[int] | NDArray[np.int64],
        columns: Iterable[str] | None = None,
        out: Columns | None = None,
    ) -> Columns:
        if out is None:
            out = self.layout.empty(len(indices), columns or self.layout.shapes)
        for name, rows in out.items():
            for n, index in enumerate(indices):
                value: Array | None = getattr(self._crops[int(index)], name)
                if value is None:
                    raise BankError(f"crop {index}: expected {name}, got None")
                rows[n] = value
        return out

    def close(self) -> None:
        pass
