"""Means of the float fields of a record over the cells of a grid, compared with a tolerance.

Backends differ in the last bits of floats, so a digest cannot cover depth, normals and float images. The means of two
backends differ by far less than the tolerance, and those of two depth maps by more.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from segpaste.types import FIELDS, PaddedBatchedDenseSample

Means = Mapping[str, tuple[float, ...]]

GRID = 4
"""Number of cells along each side of the canvas."""

TOLERANCE = 1e-4
"""Tolerance relative to the largest mean of a field: ten times the maximum difference of backends."""


def float_means(batch: PaddedBatchedDenseSample, b: int) -> dict[str, tuple[float, ...]]:
    """Return the float fields of row ``b``, except those of instances, by name.

    Returns:
        For a dense field the mean of each cell, [channels * GRID * GRID], with invalid pixels counted as 0; for
        others, such as camera intrinsics, the values. Six significant digits.
    """
    found = {}
    for field in FIELDS:
        value: Tensor | None = getattr(batch, field.batched_name)
        if value is None or not value.is_floating_point() or field.layout == "instance":
            continue
        row = value[b].detach().cpu().double().nan_to_num(0.0, 0.0, 0.0)
        if field.name == "depth" and batch.depth_valid is not None:
            row = torch.where(batch.depth_valid[b].cpu(), row, 0.0)
        if field.layout == "dense":
            row = adaptive_avg_pool2d(row, GRID)
        found[field.name] = tuple(float(f"{number:.6g}") for number in row.flatten().tolist())
    return found


def differing(recorded: Means, found: Means) -> list[str]:
    """Return the names of the fields whose means differ, or that exist on one side only."""
    if recorded.keys() != found.keys():
        return sorted(recorded.keys() ^ found.keys())
    return [name for name, values in recorded.items() if not _close(values, found[name])]


def _close(recorded: tuple[float, ...], found: tuple[float, ...]) -> bool:
    if len(recorded) != len(found):
        return False
    bound = TOLERANCE * max(map(abs, recorded), default=0.0)
    return all(abs(one - other) <= bound for one, other in zip(recorded, found, strict=True))
