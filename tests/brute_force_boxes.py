"""Boxes of data without masks written again: the masks that stand for them, and their boxes after a paste.

It shares no code with the module. Coordinates of pastes are fractions, rounded to float32 at the end.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil, floor

import numpy as np
import torch

from brute_force import Outcome
from brute_force_pixels import Array, extent, scales_of
from segpaste.augmentation import Placement
from segpaste.types import PaddedBatchedDenseSample


def pixels_of(box: Array, size: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the (row, column) of every pixel of an image that a box touches."""
    x1, y1, x2, y2 = map(float, box)
    columns = range(max(floor(x1), 0), min(ceil(x2), size[1]))
    return [(y, x) for y in range(max(floor(y1), 0), min(ceil(y2), size[0])) for x in columns]


def with_filled_boxes(batch: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
    """Return a batch without masks with filled boxes for masks."""
    masks = np.zeros((*batch.labels.shape, *batch.canvas_size), bool)
    for b, k in batch.instance_valid.nonzero().tolist():
        for y, x in pixels_of(batch.boxes[b, k].numpy(), batch.canvas_size):
            masks[b, k, y, x] = True
    ids = torch.arange(1, batch.max_instances + 1, dtype=torch.int32).repeat(batch.batch_size, 1)
    return replace(batch, instance_masks=torch.from_numpy(masks), instance_ids=ids * batch.instance_valid)


def with_given_boxes(
    outcomes: list[Outcome], targets: list[dict[str, Array]], sources: list[dict[str, Array]], placement: Placement
) -> list[Outcome]:
    """Return outcomes of `brute_force.paste` whose boxes follow those that were given instead of the masks."""
    return [
        replace(outcome, fields={**outcome.fields, "boxes": _boxes(outcome, targets[b], sources, placement, b)})
        for b, outcome in enumerate(outcomes)
    ]


def _boxes(
    outcome: Outcome, target: dict[str, Array], sources: list[dict[str, Array]], placement: Placement, b: int
) -> Array:
    out = outcome.fields["boxes"].copy()  # those of the visible pixels
    for slot, visible in enumerate(outcome.fields["boxes"]):
        j = outcome.slot_layer[slot]
        if not outcome.fields["instance_valid"][slot]:
            continue
        if j < 0:
            given = target["boxes"][slot]
            pasted_over = any(outcome.visible_layer[at] >= 0 for at in pixels_of(given, outcome.visible_layer.shape))
            out[slot] = common(given, visible) if pasted_over else given
            continue
        source = sources[int(placement.source_idx[b, j])]
        moved = moved_box(source, source["boxes"][outcome.slot_source[slot]], placement, (b, j))
        both = common(moved, visible)
        out[slot] = both if both[0] < both[2] and both[1] < both[3] else visible
    return out


def common(box: Array, other: Array) -> Array:
    lows = [b if b >= a else a for a, b in zip(other[:2], box[:2], strict=True)]
    highs = [b if b <= a else a for a, b in zip(other[2:], box[2:], strict=True)]
    return np.array([*lows, *highs], np.float32)


def moved_box(source: dict[str, Array], box: Array, placement: Placement, which: tuple[int, int]) -> Array:
    """Return the box of a source where its layer shows it."""
    scales = scales_of(placement.scale_num[which].tolist(), placement.scale_den[which].tolist())
    x1, y1, x2, y2 = (Fraction(float(edge)) for edge in box)
    width, height = extent(source)
    if placement.swap_axes[which]:
        x1, y1, x2, y2, width, height = y1, x1, y2, x2, height, width
    if placement.hflip[which]:
        x1, x2 = width - x2, width - x1
    if placement.vflip[which]:
        y1, y2 = height - y2, height - y1
    offset = placement.translate[which].tolist()
    return np.array([np.float32(float(v * scales[i % 2] + offset[i % 2])) for i, v in enumerate((x1, y1, x2, y2))])
