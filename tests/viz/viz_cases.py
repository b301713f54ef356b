"""Samples whose pictures are known, and slow references for what is drawn of a mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torchvision import tv_tensors

from samples import Array, tight_boxes
from segpaste.types import IGNORE_INDEX, CameraIntrinsics, DenseSample, InstanceMask, PanopticMap, SemanticMap

NAMES = {0: "wall", 1: "floor", 5: "cat", 7: "dog"}


def sample_with(
    size: tuple[int, int] = (17, 11),
    masks: Any = None,
    image: torch.Tensor | None = None,
    ids: Sequence[int] | None = None,
    labels: Sequence[int] | None = None,
    **fields: Any,
) -> DenseSample:
    """Just the masks, the pixels and the fields that are given; the image is noise unless it is given."""
    height, width = size
    masks = np.zeros((0, height, width), bool) if masks is None else np.asarray(masks, bool)
    n = len(masks)
    if image is None:
        image = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (3, height, width), dtype=np.uint8))
    return DenseSample(
        image=tv_tensors.Image(image),
        boxes=tv_tensors.BoundingBoxes(tight_boxes(masks), format="XYXY", canvas_size=size),
        labels=torch.tensor([5] * n if labels is None else labels, dtype=torch.int64),
        instance_ids=torch.tensor(range(1, n + 1) if ids is None else ids, dtype=torch.int32),
        instance_masks=InstanceMask(torch.from_numpy(masks)),
        **fields,
    )


def full_sample(size: tuple[int, int] = (17, 11), seed: int = 0) -> DenseSample:
    """Two things, two stuff classes, an ignored and depthless corner."""
    height, width = size
    rng = np.random.default_rng(seed)
    masks = np.zeros((2, height, width), bool)
    masks[0, : height // 2, : width // 2] = True
    masks[1, height // 2 :, width // 2 :] = True
    semantic = np.where(np.arange(height)[:, None] < height // 2, 0, 1) * np.ones((1, width), np.int64)
    semantic[masks[0]], semantic[masks[1]] = 5, 7
    free = ~masks.any(0)
    semantic[free & (rng.random(size) < 0.2)] = IGNORE_INDEX
    valid = semantic != IGNORE_INDEX
    normals = rng.standard_normal((3, height, width)).astype(np.float32)
    normals = np.where(valid, normals / np.linalg.norm(normals, axis=0), 0).astype(np.float32)
    return sample_with(
        size,
        masks,
        labels=[5, 7],
        semantic_map=SemanticMap(torch.from_numpy(semantic)),
        panoptic_map=PanopticMap(torch.from_numpy(masks[0] * 1 + masks[1] * 2)),
        depth=torch.from_numpy(rng.uniform(1, 4, (1, height, width)).astype(np.float32)),
        depth_valid=torch.from_numpy(valid[None]),
        normals=torch.from_numpy(normals),
        camera_intrinsics=CameraIntrinsics(20, 20, width / 2, height / 2),
        metric_depth=True,
    )


def pixels_of(sample: DenseSample) -> Array:
    return sample.image.as_subclass(torch.Tensor).permute(1, 2, 0).numpy()


def neighbours(mask: Array) -> Array:
    """Slow reference: the pixels beside a pixel of the mask."""
    out = np.zeros_like(mask)
    for y, x in np.argwhere(mask):
        for v, u in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
            if 0 <= v < mask.shape[0] and 0 <= u < mask.shape[1]:
                out[v, u] = True
    return out & ~mask


def border_layer(mask: Array) -> Array:
    """Slow reference: the pixels of the mask that touch a pixel outside it, or the edge of the picture."""
    padded = np.pad(mask, 1)
    return mask & neighbours(~padded)[1:-1, 1:-1]


def masks_of(size: tuple[int, int]) -> st.SearchStrategy[Array]:
    count = size[0] * size[1]
    return st.lists(st.booleans(), min_size=count, max_size=count).map(lambda v: np.array(v).reshape(size))
