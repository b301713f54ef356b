"""Hypothesis strategies for batches and configs on which the module is compared with `brute_force`.

The batches keep the contract of the containers and otherwise go where trouble is: overlapping and empty masks, loose
boxes, padding with holes, invalid and infinite depth, opposite normals, cameras that differ, full and empty slots.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from samples import SCHEMA, STUFF, make_batch, placement_of, tight_boxes
from segpaste.augmentation import (
    BatchCopyPaste,
    BatchCopyPasteConfig,
    PanopticConfig,
    PlacementConfig,
    SourceConfig,
    prepare,
)
from segpaste.augmentation.config.placement import SizeRange
from segpaste.engine import Placement, use_backend
from segpaste.types import Modality, PaddedBatchedDenseSample

SIZES = st.sampled_from([(11, 7), (7, 13), (13, 19), (5, 17), (9, 9), (1, 6)])
SCALE_RANGES = st.sampled_from([(0.5, 2.0), (0.5, 0.5), (1.0, 1.0), (0.5, 1.5), (0.1, 0.3), (3.0, 4.0), (0.9, 1.2)])
COUNTS = st.sampled_from([(2, 3, 1, 4), (1, 2, 2, 3), (4, 4, 3, 2), (0, 2, 1, 0), (0, 0, 0, 0)])
DTYPES = st.sampled_from([torch.uint8, torch.float32, torch.float16, torch.bfloat16])
SEEDS = st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=4, max_size=4, unique=True)


@st.composite
def batches(draw: st.DrawFn, modalities: frozenset[Modality]) -> PaddedBatchedDenseSample:
    size = draw(SIZES)
    counts = [min(n, size[0]) for n in draw(COUNTS)]
    metric = Modality.DEPTH in modalities and draw(st.booleans())
    batch = make_batch(
        draw(st.sampled_from([3, 4, 2, 1])),
        size=size,
        num_instances=counts,
        max_instances=max(counts) + draw(st.sampled_from([4, 5, 2, 1, 0])),
        modalities=modalities,
        seed=draw(st.integers(0, 10**6)),
        image_dtype=draw(DTYPES),
        metric_depth=metric,
        padding=draw(st.sampled_from([None, (0, 0), (1, 2), (0, 3)])) if size[0] > 1 else None,
    )
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    for spoil in SPOILS:
        if draw(st.sampled_from([False, False, False, True])):
            batch = spoil(batch, rng)
    return replace(batch, sample_seeds=torch.tensor(draw(SEEDS)[: batch.batch_size], dtype=torch.int64))


@st.composite
def placements(draw: st.DrawFn, *, has_classes: bool) -> PlacementConfig:
    """Half of them plain, the others with objects of their own sizes, cut, or on a grid of patches."""
    kind = draw(st.sampled_from(["plain", "plain", "plain", "sized", "canvas", "objects", "kept"]))
    options: dict[str, Any] = {"scale_range": draw(SCALE_RANGES), "scale_to_fit": draw(st.booleans())}
    if kind in ("plain", "sized", "canvas") and draw(st.booleans()):
        options |= {"partial": "clip", "min_visible_frac": draw(st.sampled_from([0.5, 0.0, 0.3, 0.999999, 1.0]))}
    if kind in ("sized", "objects"):
        options |= {"grouping": "instance", "size_range": draw(st.sampled_from([None, SizeRange(low=2, high=9.3)]))}
        options |= {
            "class_sizes": draw(
                st.sampled_from([{}, {2: SizeRange(low=0.01, high=0.02), 4: SizeRange(low=1, high=60)}])
            )
        }
    if kind in ("canvas", "objects"):
        options |= {"pad_to_multiple": draw(st.sampled_from([4, 3, 1, 16])), "patch_aligned_paste": True}
        options |= {"align": "instance"} if kind == "objects" else {"scale_range": (0.5, 2.0)}
    elif draw(st.sampled_from([False, False, True])):
        options |= {"pad_to_multiple": draw(st.sampled_from([4, 16]))}
    if kind == "kept":
        options |= {"position": "keep"} | draw(st.sampled_from([{}, {"grouping": "instance"}, {"partial": "clip"}]))
        if draw(st.booleans()):
            del options["scale_range"]
    if has_classes and draw(st.sampled_from([False, False, True])):
        options["region"] = draw(st.sampled_from([{1: [1, 11]}, {1: [11, 12], 2: [12], 3: [11, 12, 3]}]))
    return PlacementConfig(
        **options,
        region_frac=draw(st.sampled_from([0.4, 0.1, 1.0])),
        hflip_probability=draw(st.sampled_from([0.5, 0.0, 1.0])),
        vflip_probability=draw(st.sampled_from([0.0, 0.5, 1.0])),
        quarter_turn_probability=draw(st.sampled_from([0.75, 0.0, 1.0])),
        paste_prob=draw(st.sampled_from([1.0, 1.0, 1.0, 0.5])),
        k_range=draw(st.sampled_from([(1, 256), (1, 2), (0, 3)])),
        k_to_available=draw(st.booleans()),
        cover_void=draw(st.sampled_from([False, False, True])),
        into_empty=draw(st.sampled_from([True, True, False])),
        max_cover_frac=draw(st.sampled_from([None, None, None, 0.3, 1.0])),
        candidate_frac=draw(st.sampled_from([1.0, 1.0, 1.0, 0.5, 0.7])),
        class_temperature=draw(st.sampled_from([0.0, 1.0, 0.3])),
        layers=draw(st.sampled_from([2, 1, 3, 5])),
        max_attempts=1 if kind == "kept" else draw(st.integers(1, 3)),
    )


@st.composite
def configs(draw: st.DrawFn, modalities: frozenset[Modality]) -> BatchCopyPasteConfig:
    panoptic = PanopticConfig(
        taxonomy=SCHEMA,
        stuff_policy=draw(st.sampled_from(["ignore", "revert"])),
        tau_stuff_frac=draw(st.sampled_from([0.1, 0.0, 0.5, 0.9])),
        tau_stuff_px=draw(st.sampled_from([0, 1, 8, 64])),
        contact_priority=draw(st.sampled_from([{}, {}, {2: 1, 12: 1}, {1: -1000, 3: 7, 11: 3}])),
    )
    residual_frac, residual_px, shift = (
        draw(st.sampled_from(values)) for values in ([0.1, 0.0, 0.7, 1.0], [0, 0, 12, 40], [None, None, 0, 2])
    )
    emit_depth = draw(st.sampled_from([None, None, None, False]))
    return BatchCopyPasteConfig(
        emit_instance=draw(st.sampled_from([None, None, None, False])),
        emit_panoptic=draw(st.sampled_from([None, None, None, False])),
        emit_depth=emit_depth,
        depth_order=draw(st.sampled_from(["valid", "value"])) if emit_depth is None else "valid",
        max_instances=draw(st.sampled_from([None, None, 10])),
        antialias=draw(st.booleans()),
        perspective_depth=draw(st.sampled_from([False, False, True])),
        tile_size=draw(st.sampled_from([512, 512, 7])),
        min_area_px=draw(st.sampled_from([1, 1, 2, 4, 8])),
        min_residual_area_frac=residual_frac,
        min_residual_area_px=residual_px,
        max_box_shift_px=shift if residual_frac > 0 or residual_px > 0 else None,
        max_hidden_frac=draw(st.sampled_from([1.0, 1.0, 1.0, 0.5, 0.0, 0.3])),
        placement=draw(placements(has_classes=Modality.SEMANTIC in modalities)),
        source=SourceConfig(
            kind=draw(st.sampled_from(["intra_batch", "intra_batch", "same_image"])), whole_only=draw(st.booleans())
        ),
        panoptic=panoptic if draw(st.sampled_from([True, True, False])) else None,
    )


def with_masks(batch: PaddedBatchedDenseSample, masks: np.ndarray[Any, Any]) -> PaddedBatchedDenseSample:
    """Other masks and their tight boxes."""
    boxes = torch.stack([tight_boxes(row) for row in masks]) if masks.size else batch.boxes
    return replace(batch, instance_masks=torch.from_numpy(masks), boxes=boxes)


def overlap(batch: PaddedBatchedDenseSample, rng: np.random.Generator) -> PaddedBatchedDenseSample:
    """Instances that cover parts of one another."""
    if batch.instance_masks is None or batch.panoptic_maps is not None:
        return batch
    masks = batch.instance_masks.numpy().copy()
    grown = masks | np.roll(masks, (1, -2), (-2, -1)) & (rng.random(masks.shape) < 0.7)
    return with_masks(batch, grown & batch.instance_valid.numpy()[..., None, None])


def empty_mask(batch: PaddedBatchedDenseSample, rng: np.random.Generator) -> PaddedBatchedDenseSample:
    """An instance without a pixel, with or without a box."""
    if batch.instance_masks is None or batch.panoptic_maps is not None or batch.max_instances == 0:
        return batch
    masks = batch.instance_masks.numpy().copy()
    masks[:, 0] = False
    emptied = with_masks(batch, masks)
    return emptied if rng.random() < 0.5 else replace(emptied, boxes=batch.boxes)


def loose_boxes(batch: PaddedBatchedDenseSample, rng: np.random.Generator) -> PaddedBatchedDenseSample:
    """Boxes that are wider than their masks, by fractions of a pixel and more."""
    grown = batch.boxes + torch.tensor([-1.0, -1, 1, 1]) * torch.from_numpy(rng.random(batch.boxes.shape)).float() * 2
    height, width = batch.canvas_size
    limit = torch.tensor([width, height, width, height])
    boxes = torch.minimum(grown.clamp(min=0), limit) * batch.instance_valid[..., None]
    return replace(batch, boxes=boxes)


def rows_emptied(batch: PaddedBatchedDenseSample, rng: np.random.Generator) -> PaddedBatchedDenseSample:
    """Some images, or all, without any instance."""
    if batch.panoptic_maps is not None:
        return batch
    gone = torch.from_numpy(rng.random(batch.batch_size) < rng.choice([0.3, 0.3, 1.0]))
    changed = {n: getattr(batch, n) for n in ("boxes", "labels", "instance_valid", "instance_ids", "instance_masks")}
    kept = {n: v.masked_fill(gone.view(-1, *[1] * (v.ndim - 1)), 0) for n, v in changed.items() if v is not None}
    return replace(batch, **kept)


def slots_shuffled(batch: PaddedBatchedDenseSample, rng: np.random.Generator) -> PaddedBatchedDenseSample:
    """Free slots before and between the instances."""
    order = torch.from_numpy(rng.permutation(batch.max_instances))
    changed = {n: getattr(batch, n) for n in ("boxes", "labels", "instance_valid", "instance_ids", "instance_masks")}
    return replace(batch, **{n: v[:, order] for n, v in changed.items() if v is not None})


def odd_padding(batch: PaddedBatchedDenseSample, rng: np.random.Generator) -> PaddedBatchedDenseSample:
    """Padding that differs between images, has holes, lies over instances, or is everywhere."""
    height, width = batch.canvas_size
    padding = np.zeros((batch.batch_size, 1, height, width), bool)
    for row in padding[:, 0]:
        row[height - rng.integers(0, height // 2 + 1) :] = True
        row[:, width - rng.integers(0, width // 2 + 1) :] = True
        row |= rng.random(row.shape) < 0.1
        row |= rng.random() < 0.05
    return replace(batch, padding_mask=torch.from_numpy(padding))


def odd_depth(batch: PaddedBatchedDenseSample, rng: np.random.Generator) -> PaddedBatchedDenseSample:
    """NaN, infinity and numbers where depth is invalid, some also where it is said to be valid; steps within reach."""
    if batch.depth is None or batch.depth_valid is None:
        return batch
    depth, valid = batch.depth.numpy().copy(), batch.depth_valid.numpy().copy()
    depth[~valid] = rng.choice([np.nan, np.inf, -np.inf, 0.0, 0.01, 2.5, 4.0], (~valid).sum())
    depth[rng.random(depth.shape) < 0.03] = rng.choice([np.nan, np.inf])
    equal = rng.random(depth.shape) < 0.2
    depth[equal] = 3.0
    valid &= rng.random(valid.shape) >= rng.choice([0.0, 0.3])
    return replace(batch, depth=torch.from_numpy(depth), depth_valid=torch.from_numpy(valid))


def odd_normals(batch: PaddedBatchedDenseSample, rng: np.random.Generator) -> PaddedBatchedDenseSample:
    """NaN and infinity where there is no normal."""
    if batch.normals is None:
        return batch
    normals = batch.normals.numpy().copy()
    holes = rng.random(normals[:, 0].shape) < 0.1
    normals[:, rng.integers(3)][holes] = rng.choice([np.nan, np.inf, -np.inf])
    return replace(batch, normals=torch.from_numpy(normals))


def opposite_normals(batch: PaddedBatchedDenseSample, rng: np.random.Generator) -> PaddedBatchedDenseSample:
    """Neighbours in a row point opposite ways: at half the size their mean vanishes."""
    if batch.normals is None:
        return batch
    columns = torch.arange(batch.canvas_size[1])
    sign = torch.where(columns % 2 == 0, 1.0, -1.0)
    return replace(batch, normals=batch.normals[..., :1] * sign)


def bright_image(batch: PaddedBatchedDenseSample, rng: np.random.Generator) -> PaddedBatchedDenseSample:
    """A float image in 0..255, of one channel."""
    images = batch.images[:, :1]
    return replace(batch, images=images * 255 if images.is_floating_point() else images)


def stuff_label(batch: PaddedBatchedDenseSample, rng: np.random.Generator) -> PaddedBatchedDenseSample:
    """Instances of a class that is no thing, or that the taxonomy does not know."""
    if batch.panoptic_maps is not None:
        return batch
    other = torch.from_numpy(rng.choice([*STUFF, 77, -1, 10**9], batch.labels.shape))
    changed = torch.from_numpy(rng.random(batch.labels.shape) < 0.3) & batch.instance_valid
    return replace(batch, labels=torch.where(changed, other, batch.labels))


SPOILS = (
    overlap,
    empty_mask,
    loose_boxes,
    rows_emptied,
    slots_shuffled,
    odd_padding,
    odd_depth,
    odd_normals,
    opposite_normals,
    bright_image,
    stuff_label,
)


def placed(
    kernels: str, batch: PaddedBatchedDenseSample, paste: BatchCopyPaste, generator: torch.Generator | None = None
) -> Placement:
    """Return what the module draws for a batch as it comes, without its pixels."""
    batch = prepare.prepared(batch, paste.config, generator)
    with use_backend(kernels):
        return placement_of(paste, batch)
