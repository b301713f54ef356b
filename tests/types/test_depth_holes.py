"""Holes in the depth of objects: filled with the nearest valid depth of the same object, validity unchanged."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from samples import make_sample
from segpaste.types import Modality
from segpaste.types.dense import fill_holes
from segpaste.types.depth_holes import filled_depth


def nearest_depths(depth: torch.Tensor, known: torch.Tensor, y: int, x: int) -> set[float]:
    """The depths of the nearest known pixels, all of the same distance."""
    rows, cols = np.nonzero(known.numpy())
    squared = (rows - y) ** 2 + (cols - x) ** 2
    return {float(depth[0, i, j]) for i, j, d in zip(rows, cols, squared, strict=True) if d == squared.min()}


@pytest.mark.parametrize("seed", range(6))
def test_each_hole_has_the_nearest_depth_of_its_object(seed: int) -> None:
    rng = np.random.default_rng(seed)
    height, width = (17, 23) if seed else (1, 9)
    depth = torch.from_numpy(rng.uniform(1, 9, (1, height, width)).astype(np.float32))
    valid = torch.from_numpy(rng.random((1, height, width)) < (0.05, 0.4)[seed % 2])
    depth[~valid] = float(rng.choice([0, np.nan, np.inf]))
    depth[0, 0, 0], valid[0, 0, 0] = float("nan"), True  # marked valid, but no depth to fill with
    masks = torch.from_numpy(rng.random((3, height, width)) < 0.6)
    before = depth.clone()
    filled = filled_depth(depth, valid, masks)
    assert torch.equal(depth, before) or depth.isnan().any()
    known = valid[0] & depth[0].isfinite()
    for y, x in np.ndindex(height, width):
        owners = [mask for mask in masks if mask[y, x] and (mask & known).any()]
        if valid[0, y, x] or not owners:
            assert str(float(filled[0, y, x])) == str(float(depth[0, y, x]))
        else:
            assert float(filled[0, y, x]) in nearest_depths(depth, owners[0] & known, y, x)


def test_a_sample() -> None:
    sample = make_sample(size=(40, 30), modalities={Modality.INSTANCE, Modality.DEPTH})
    filled = fill_holes(sample)
    holes = ~sample.depth_valid & sample.instance_masks.any(0)
    assert holes.any()
    assert (filled.depth[holes] > 0).all()
    assert torch.equal(filled.depth[~holes], sample.depth[~holes])
    assert torch.equal(filled.depth_valid, sample.depth_valid)
    plain = make_sample(modalities={Modality.INSTANCE})
    assert fill_holes(plain) is plain
