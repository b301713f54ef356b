"""Regions that objects may be pasted on, as sums over rectangles: shared by all backends.

A summed-area table says in four reads how many pixels of a box lie in a region: Crow, "Summed-area tables for texture
mapping", SIGGRAPH 1984.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

Classes = Sequence[int] | Tensor
"""Class ids."""


def region_sums(mask: Tensor | None, semantic: Tensor | None, class_sets: Sequence[Classes]) -> Tensor | None:
    """Return the regions of a batch as summed-area tables.

    Args:
        mask: [B, H, W] bool, pixels that any object may be pasted on; None for all.
        semantic: [B, H, W] int64, required with ``class_sets``.
        class_sets: semantic classes that make up each region, as numbers, or as [N] int64.

    Returns:
        [B, R, H + 1, W + 1] int32, a region for each set of classes, and ``mask`` after them if there is one. Entry
        (y, x) is the number of pixels of the region above row y and to the left of column x. None without any region.
    """
    planes = [_class_plane(semantic, classes, mask) for classes in class_sets]
    if mask is not None:
        planes.append(mask)
    if not planes:
        return None
    pixels = planes[0].unsqueeze(1) if len(planes) == 1 else torch.stack(planes, 1)
    return F.pad(pixels, [1, 0, 1, 0]).cumsum(2, dtype=torch.int32).cumsum(3, dtype=torch.int32)


def _class_plane(semantic: Tensor | None, classes: Classes, mask: Tensor | None) -> Tensor:
    """Return the pixels of these classes within the mask, [B, H, W] bool."""
    assert semantic is not None
    if isinstance(classes, Tensor):
        plane = torch.isin(semantic, classes)
    else:
        same = [semantic == label for label in classes]
        plane = functools.reduce(torch.logical_or, same) if same else torch.zeros_like(semantic, dtype=torch.bool)
    return plane if mask is None else plane & mask
