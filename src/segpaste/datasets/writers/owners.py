"""Owner of each pixel, for maps in which a pixel has one object."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from segpaste.datasets.writers.format import Losses
from segpaste.types import DenseSample


def owners_of(sample: DenseSample, losses: Losses) -> NDArray[np.int32]:
    """Return the position of the instance of each pixel, [H, W] int32, -1 without an instance.

    Where masks overlap, the smaller mask is on top; of equal ones the later. Covered objects are counted.
    """
    assert sample.instance_masks is not None
    masks: NDArray[np.bool_] = sample.instance_masks.as_subclass(Tensor).numpy()
    owners = np.full(sample.canvas_size, -1, np.int32)
    areas = masks.sum((1, 2))
    for position in np.argsort(-areas, kind="stable"):
        owners[masks[position]] = position
    seen = np.bincount(owners[owners >= 0], minlength=len(masks)) if len(masks) else areas
    losses["objects partly covered by another"] += int(((seen != areas) & (seen > 0)).sum())
    losses["objects wholly covered by others"] += int(((seen != areas) & (seen == 0)).sum())
    return owners
