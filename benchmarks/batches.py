"""Batches for benchmarks: up to a given number of random rectangles, equal squares, scenes, and panoptic tiles."""

from __future__ import annotations

import torch
from torch import Tensor

from segpaste.augmentation import BatchCopyPasteConfig, PanopticConfig, PanopticTaxonomy, PlacementConfig
from segpaste.datasets.scenes import SceneConfig, SceneSchema, scene_batch
from segpaste.types import PaddedBatchedDenseSample

EVERY_IMAGE = BatchCopyPasteConfig(placement=PlacementConfig(paste_prob=1.0))
"""Pastes into every image, which takes longest; by default half of the images get no paste."""

NUM_CLASSES = 80
"""Thing classes of `panoptic_tiles`; the stuff class comes after them."""


def random_boxes(
    batch_size: int, size: int | tuple[int, int], max_instances: int, dtype: torch.dtype, seed: int = 0
) -> PaddedBatchedDenseSample:
    """Images of noise with 1 to ``max_instances`` filled rectangles, a sixteenth to a third of the shorter side each.

    Args:
        batch_size: B.
        size: H and W, or both as (H, W), pixels.
        max_instances: K, also the most instances that an image has.
        dtype: of the images, uint8 (0..255) or a floating one (0..1).
        seed: of everything random.
    """
    generator = torch.Generator().manual_seed(seed)
    canvas = (size, size) if isinstance(size, int) else size
    boxes, side = torch.zeros(batch_size, max_instances, 4), min(canvas)
    for b in range(batch_size):
        for k in range(int(torch.randint(1, max_instances + 1, (), generator=generator))):
            width, height = torch.randint(side // 16, side // 3, (2,), generator=generator).tolist()
            x = int(torch.randint(canvas[1] - width, (), generator=generator))
            y = int(torch.randint(canvas[0] - height, (), generator=generator))
            boxes[b, k] = torch.tensor([x, y, x + width, y + height])
    return _filled(boxes, canvas, dtype, generator)


def equal_squares(
    batch_size: int, size: int, max_instances: int, num_instances: int, side: int, seed: int = 0
) -> PaddedBatchedDenseSample:
    """float32 images of noise, each with so many squares of this side, pixels, at random places."""
    generator = torch.Generator().manual_seed(seed)
    boxes = torch.zeros(batch_size, max_instances, 4)
    corners = torch.randint(size - side + 1, (batch_size, num_instances, 2), generator=generator).float()
    boxes[:, :num_instances] = torch.cat([corners, corners + side], -1)
    return _filled(boxes, (size, size), torch.float32, generator)


def scenes(batch_size: int, size: int, max_instances: int) -> tuple[PaddedBatchedDenseSample, BatchCopyPasteConfig]:
    """Synthetic scenes with all five modalities, and the configuration with their taxonomy."""
    config = SceneConfig(height=size, width=size)
    taxonomy = PanopticConfig(taxonomy=SceneSchema(config.thing_names))  # type: ignore[arg-type]
    return scene_batch(batch_size, max_instances, config), BatchCopyPasteConfig(
        placement={"paste_prob": 1.0}, panoptic=taxonomy
    )


def panoptic_tiles(
    batch_size: int, size: int, max_instances: int, seed: int = 0
) -> tuple[PaddedBatchedDenseSample, BatchCopyPasteConfig]:
    """float32 images of noise with K / 2 squares side by side and one stuff class, and the configuration for it."""
    generator = torch.Generator().manual_seed(seed)
    per_row = int((max_instances / 2) ** 0.5)
    step = size // per_row
    corners = torch.tensor([[x * step, y * step] for y in range(per_row) for x in range(per_row)], dtype=torch.float32)
    boxes = torch.zeros(batch_size, max_instances, 4)
    boxes[:, : len(corners)] = torch.cat([corners, corners + step // 2], -1)
    batch = _filled(boxes, (size, size), torch.float32, generator)
    semantic = torch.full((batch_size, size, size), NUM_CLASSES)
    panoptic = torch.zeros(batch_size, size, size, dtype=torch.int64)
    for b in range(batch_size):
        for k, (x1, y1, x2, y2) in enumerate(boxes[b, : len(corners)].int().tolist()):
            semantic[b, y1:y2, x1:x2] = batch.labels[b, k]
            panoptic[b, y1:y2, x1:x2] = k + 1
    classes = dict.fromkeys(range(NUM_CLASSES), "thing") | {NUM_CLASSES: "stuff"}
    taxonomy = PanopticTaxonomy(classes=classes)  # type: ignore[arg-type]
    config = BatchCopyPasteConfig(
        panoptic=PanopticConfig(taxonomy=taxonomy),
        placement=PlacementConfig(paste_prob=1.0, k_range=(1, max_instances)),
    )
    return batch.derived(semantic_maps=semantic, panoptic_maps=panoptic), config


def _filled(
    boxes: Tensor, canvas: tuple[int, int], dtype: torch.dtype, generator: torch.Generator
) -> PaddedBatchedDenseSample:
    """A batch whose instances fill these boxes, [B, K, 4] in whole pixels, zero where there is none."""
    batch_size, max_instances, _ = boxes.shape
    valid = boxes[..., 2] > boxes[..., 0]
    masks = torch.zeros(batch_size, max_instances, *canvas, dtype=torch.bool)
    for b, k in valid.nonzero().tolist():
        x1, y1, x2, y2 = boxes[b, k].int().tolist()
        masks[b, k, y1:y2, x1:x2] = True
    images = torch.rand(batch_size, 3, *canvas, generator=generator)
    labels = torch.randint(1, NUM_CLASSES, (batch_size, max_instances), generator=generator)
    return PaddedBatchedDenseSample(
        images=images.to(dtype) if dtype.is_floating_point else (images * 255).to(dtype),
        boxes=boxes,
        labels=labels * valid,
        instance_valid=valid,
        instance_ids=(torch.arange(1, max_instances + 1) * valid).int(),
        instance_masks=masks,
        sample_seeds=torch.arange(batch_size),
    )
