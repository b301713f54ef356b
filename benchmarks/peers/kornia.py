"""`RandomTransplantation` of Kornia: the pixels of one class of the neighbour, in image and semantic map."""

from __future__ import annotations

import torch
from kornia.augmentation import RandomTransplantation

from segpaste.types import PaddedBatchedDenseSample

from ..timing import Contender
from . import UnsupportedError


def prepare(batch: PaddedBatchedDenseSample) -> Contender:
    """The transform on the whole batch; the map has the class of the topmost instance, 0 where there is none."""
    assert batch.instance_masks is not None
    if not batch.images.is_floating_point():
        raise UnsupportedError("images are floating numbers only")
    labels = torch.where(batch.instance_masks, batch.labels[..., None, None], 0).amax(1)
    transform = RandomTransplantation(excluded_labels=[0], p=1.0)
    return Contender(lambda given: transform(*given), lambda: (batch.images, labels))
