"""Staged crops for batches: odd objects, objects at the edge, none at all; with and without depth and normals."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from samples import SCHEMA, STUFF, THINGS, tight_boxes
from segpaste.augmentation import BatchCopyPasteConfig, PanopticConfig, SourceConfig
from segpaste.types import PaddedBatchedDenseSample, StagedCrops


def make_staged(
    batch_size: int,
    num_crops: int,
    crop_size: tuple[int, int] = (9, 6),
    *,
    seed: int = 0,
    with_surfaces: bool = False,
    metric_depth: bool = False,
    device: str = "cpu",
) -> StagedCrops:
    """Random crops; every fifth has no object, every fifth one of a class that is no thing."""
    rng = np.random.default_rng(seed)
    shape, (height, width) = (batch_size, num_crops), crop_size
    alphas = np.zeros((*shape, 1, height, width), bool)
    for place in np.ndindex(*shape):
        y1, x1 = rng.integers(0, height), rng.integers(0, width)
        y2, x2 = rng.integers(y1, height) + 1, rng.integers(x1, width) + 1
        alphas[place][0, y1:y2, x1:x2] = rng.random((y2 - y1, x2 - x1)) < rng.choice([0.7, 1.0])
        alphas[place] &= rng.random() > 0.2
    is_thing = rng.random(shape) > 0.2
    class_ids = np.where(is_thing, rng.choice(sorted(THINGS), shape), rng.choice([*STUFF, 77], shape))
    surfaces: dict[str, Any] = {}
    if with_surfaces:
        depth = rng.choice([1.0, 2.0, 5.0], (*shape, 1, 1, 1)) + rng.random((*shape, 1, height, width)) * 0.2
        normals = rng.normal(size=(*shape, 3, height, width))
        normals /= np.linalg.norm(normals, axis=2, keepdims=True)
        surfaces = {
            "depth": torch.from_numpy(depth).float(),
            "depth_valid": torch.from_numpy(rng.random((*shape, 1, height, width)) > 0.1 * rng.integers(0, 2)),
            "normals": torch.from_numpy(normals).float(),
            "camera_intrinsics": torch.from_numpy(rng.uniform(5, 20, (*shape, 4))).float(),
            "metric_depth": metric_depth,
        }
    masks = torch.from_numpy(alphas)
    boxes = torch.stack([tight_boxes(row[:, 0]) for row in alphas]) if batch_size else torch.zeros(*shape, 4)
    staged = StagedCrops(
        images=torch.from_numpy(rng.integers(0, 256, (*shape, 3, height, width), np.uint8)),
        alphas=masks,
        class_ids=torch.from_numpy(class_ids),
        boxes=boxes.to(torch.int64),
        crop_idx=torch.from_numpy(rng.integers(0, 1000, shape)),
        scales=torch.from_numpy(rng.choice([1.0, 0.5, 0.3331, 0.09], shape)).float(),
        **surfaces,
    )
    return staged.to(device)


@st.composite
def bank_cases(
    draw: st.DrawFn, batch: PaddedBatchedDenseSample, config: BatchCopyPasteConfig
) -> tuple[PaddedBatchedDenseSample, BatchCopyPasteConfig, StagedCrops]:
    """A batch and a config that were made for other sources, fitted to a bank, and crops for them."""
    if batch.images.shape[1] == 1:
        batch = batch.derived(images=batch.images.repeat(1, 3, 1, 1))
    placement, crop_size = config.placement, draw(st.sampled_from([(9, 6), (5, 12), (1, 1), (24, 20)]))
    is_gridded = placement.patch_aligned_paste and placement.align == "canvas"
    if is_gridded:
        assert placement.pad_to_multiple is not None
        crop_size = placement.pad_to_multiple, 2 * placement.pad_to_multiple
    num = draw(st.integers(1, 3))
    is_fixed = is_gridded or placement.size_range is not None
    source = SourceConfig(
        kind="bank",
        crops_per_target=num,
        value_range=draw(st.sampled_from([1, 255])),
        relative_to="crop" if is_fixed else draw(st.sampled_from(["crop", "photo"])),
        without_depth=draw(st.sampled_from(["invalid", "skip"])),
    )
    panoptic = config.panoptic
    if panoptic is None and batch.semantic_maps is not None:
        panoptic = PanopticConfig(taxonomy=SCHEMA)
    changes = {
        "panoptic": panoptic,
        "source": source,
        "placement": placement.model_copy(update={"layers": 1, "class_temperature": 0.0, "position": "random"}),
    }
    takes_depth = batch.depth is not None and config.emit_depth is not False
    staged = make_staged(
        batch.batch_size,
        num + draw(st.integers(0, 2)),
        crop_size,
        seed=draw(st.integers(0, 10**6)),
        with_surfaces=draw(st.booleans()),
        metric_depth=batch.metric_depth if takes_depth else draw(st.booleans()),
    )
    return batch, BatchCopyPasteConfig.model_validate(config.model_copy(update=changes).model_dump()), staged
