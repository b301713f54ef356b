"""`simple_copy_paste` equals the rule of its paper, in plain loops; `tests/trainers` compares the other presets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from samples import CPU_BACKENDS, make_batch, paste, with_overlaps
from segpaste import get_preset
from segpaste.augmentation import PasteReport
from segpaste.datasets.jitter import make_large_scale_jittering
from segpaste.types import BatchedDenseSample, PaddedBatchedDenseSample

Array = NDArray[Any]
SIGMA = 1.0


def smoothed(mask: Array) -> Array:
    """A mask times the Gaussian around each pixel, of what lies on the canvas."""
    weight, grid = np.zeros(mask.shape), np.stack(np.indices(mask.shape), -1)
    for y, x in np.ndindex(mask.shape):
        density = np.exp(-((grid - (y, x)) ** 2).sum(-1) / (2 * SIGMA**2))
        density[np.abs(grid - (y, x)).max(-1) > 3 * SIGMA] = 0
        weight[y, x] = density[mask].sum() / density.sum()
    return weight


def expected(batch: PaddedBatchedDenseSample, target: int, slots: list[int]) -> tuple[Array, Array, list[Any]]:
    """The image with a smoothed mask everywhere, the mask, and the masks, labels and boxes of the rows."""
    assert batch.instance_masks is not None
    masks, source = batch.instance_masks.numpy(), 1 - target
    union = masks[source, slots].any(0) if slots else np.zeros(masks.shape[-2:], bool)
    alpha = smoothed(union)
    image = alpha * batch.images[source].numpy() + (1 - alpha) * batch.images[target].numpy()
    rows = [(masks[target, k] & ~union, batch.labels[target, k]) for k in np.flatnonzero(batch.instance_valid[target])]
    rows = [row for row in rows if row[0].any()] + [(masks[source, k], batch.labels[source, k]) for k in slots]
    return image, union, [(mask.tobytes(), int(label), box_of(mask)) for mask, label in rows]


def box_of(mask: Array) -> list[float]:
    rows, cols = np.nonzero(mask)
    return [float(v) for v in (cols.min(), rows.min(), cols.max() + 1, rows.max() + 1)]


def check(batch: PaddedBatchedDenseSample, kernels: str) -> tuple[PaddedBatchedDenseSample, PasteReport]:
    out, report = paste(batch, get_preset("simple_copy_paste").config, backend=kernels)
    assert out.instance_masks is not None
    for target in range(2):
        slots = [int(k) for k in report.slot_source[target][report.slot_layer[target] >= 0]]
        image, union, rows = expected(batch, target, slots)
        found = out.images[target].numpy().astype(float)
        assert np.abs(found - image)[:, union].max(initial=0) <= 1
        assert np.array_equal(found[:, ~union], batch.images[target].numpy()[:, ~union])
        valid = out.instance_valid[target]
        masks, labels, boxes = out.instance_masks[target][valid], out.labels[target][valid], out.boxes[target][valid]
        found_rows = zip(masks.numpy(), labels.tolist(), boxes.tolist(), strict=True)
        listed = [(mask.tobytes(), label, box) for mask, label, box in found_rows]
        assert sorted(listed) == sorted(rows)
    return out, report


@pytest.mark.parametrize("kernels", CPU_BACKENDS)
def test_simple_copy_paste(kernels: str) -> None:
    numbers, softened = set(), 0
    for seed in range(8):
        batch = make_batch(2, size=(30, 26), num_instances=4, max_instances=12, modalities=("instance",), seed=seed)
        batch = replace(batch, sample_seeds=torch.tensor([seed, 100 + seed]))
        if seed % 2:
            batch = with_overlaps(batch)
        out, report = check(batch, kernels)
        numbers |= set(report.num_placed.tolist())
        hard = torch.where(report.visible_layer[:, None] >= 0, batch.images.flip(0), batch.images)
        softened += int((out.images != hard).any(1).sum())
    assert numbers == {0, 1, 2, 3, 4}
    assert softened > 200


def test_both_images_are_jittered_before() -> None:
    """With the jitter of the preset, at a smaller size; padding is not pasted over."""
    loader = get_preset("simple_copy_paste").loader
    assert (loader.size, loader.scale_range, loader.hflip_prob) == (1024, (0.1, 2.0), 0.5)
    scene = make_batch(2, size=(30, 26), num_instances=4, max_instances=12, modalities=("instance",), seed=1)
    jitter = make_large_scale_jittering((28, 28), loader.scale_range, hflip_prob=loader.hflip_prob)
    num_padded = num_pasted = 0
    for seed in range(10):
        samples = [jitter(sample, 2 * seed + b) for b, sample in enumerate(scene.to_batched().to_samples())]
        batch = BatchedDenseSample.from_samples(samples).to_padded(12, sample_seeds=torch.tensor([seed, seed + 50]))
        _, report = paste(batch, get_preset("simple_copy_paste").config)
        assert batch.padding_mask is not None
        assert not ((report.visible_layer >= 0) & batch.padding_mask[:, 0]).any()
        num_padded += int(batch.padding_mask.any())
        num_pasted += int(report.num_placed.sum())
        bare = replace(batch, padding_mask=None)
        check(bare, "native")  # without a padding mask canvases are images, as in the paper
    assert num_padded > 5
    assert num_pasted > 5
