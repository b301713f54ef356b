"""Wrapper that adds masks to the samples of a dataset without masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from segpaste.bank import Photos
from segpaste.types import DenseSample, InstanceMask


class MaskedPhotos:
    """A dataset of boxes whose samples have filled boxes as masks, the same as with ``source.mask_from=boxes``.

    For a dataset without objects the masks are empty.
    """

    has_masks = True

    def __init__(self, photos: Photos) -> None:
        self.photos = photos

    def __len__(self) -> int:
        return len(self.photos)

    def __getattr__(self, name: str) -> Any:
        if name == "photos":  # not set yet while a pickle is read
            raise AttributeError(name)
        return getattr(self.photos, name)

    def __getitem__(self, index: int) -> DenseSample:
        return with_box_masks(self.photos[index])


def with_box_masks(sample: DenseSample) -> DenseSample:
    """Return a sample with masks: its own, or its boxes, rounded outwards to whole pixels."""
    if sample.instance_masks is not None:
        return sample
    masks = torch.zeros(sample.num_instances, *sample.canvas_size, dtype=torch.bool, device="cpu")
    for mask, (x1, y1, x2, y2) in zip(masks, sample.boxes.as_subclass(Tensor).tolist(), strict=True):
        mask[int(np.floor(y1)) : int(np.ceil(y2)), int(np.floor(x1)) : int(np.ceil(x2))] = True
    values = {f: getattr(sample, f) for f in DenseSample.__dataclass_fields__}
    ids = torch.arange(1, sample.num_instances + 1, dtype=torch.int32, device="cpu")
    return DenseSample(**{**values, "instance_masks": InstanceMask(masks), "instance_ids": ids})
