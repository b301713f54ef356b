"""Before a paste, on the CPU: what a placement must know of a batch, and its draws."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from segpaste.kernels._cpu_arrays import array
from segpaste.kernels._cpu_draws import draw_rows
from segpaste.kernels._cpu_layout import survey_rows
from segpaste.kernels.whole_operands import DrawRanges, Draws, Rows, Survey

_NO_CLASS = np.empty(0, np.bool_)


def survey(rows: Rows, padding_mask: Tensor | None, canvas_size: tuple[int, int], is_thing: Tensor | None) -> Survey:
    """What a placement must know of a batch, from its rows and its padding.

    Args:
        rows: the instances; boxes, labels and validity are read.
        padding_mask: [B, 1, H, W] bool, or None.
        canvas_size: (H, W).
        is_thing: [num_classes] bool, the classes that may be pasted, or None for all.
    """
    b, k = rows.labels.shape
    eligible, occupied = np.empty((b, k), np.bool_), np.empty((b, k, 4), np.int64)
    num_free, extent = np.empty(b, np.int64), np.empty((b, 2), np.int64)
    extent[:] = canvas_size[::-1]
    padding = np.empty((0, 0, 0), np.bool_) if padding_mask is None else array(padding_mask[:, 0])
    kinds = _NO_CLASS if is_thing is None else array(is_thing)
    given = array(rows.boxes), array(rows.labels), array(rows.instance_valid), padding, kinds
    survey_rows(*given, eligible, occupied, num_free, extent)
    return Survey(*map(torch.from_numpy, (eligible, occupied, num_free, extent)))


def draw(
    seeds: Tensor,
    chosen: tuple[Tensor, Tensor] | None,
    source_extent: Tensor,
    boxes: Tensor,
    eligible: Tensor,
    target_extent: Tensor,
    occupied: Tensor,
    num_free: Tensor,
    num_layers: int,
    ranges: DrawRanges,
) -> tuple[Tensor, Tensor, Draws]:
    """What `segpaste.augmentation.placement.draw_placement` draws; if need be, after the choice of rows of the batch.

    Args:
        seeds: [B] int64.
        chosen: the layers' sources, [B, L] int64 and bool, or None to choose among the other rows of the batch.
        source_extent: [S, 2] int64.
        boxes: [S, K_s, 4] int64, pixel boxes.
        eligible: [S, K_s] bool.
        target_extent: [B, 2] int64.
        occupied: [B, K_t, 4] int64, pixel boxes.
        num_free: [B] int64.
        num_layers: L.
        ranges: see there.

    Returns:
        source_idx, layer_valid and the draws.
    """
    b, k_s = len(seeds), boxes.shape[1]
    if chosen is not None:
        source_idx, layer_valid = chosen
    else:
        source_idx = torch.empty(b, num_layers, dtype=torch.int64)
        layer_valid = torch.empty(b, num_layers, dtype=torch.bool)
    out = Draws(
        scale_num=torch.empty(b, num_layers, dtype=torch.int64),
        translate=torch.empty(b, num_layers, 2, dtype=torch.int64),
        hflip=torch.empty(b, num_layers, dtype=torch.bool),
        carried=torch.empty(b, num_layers, k_s, dtype=torch.bool),
        **{name: torch.empty(b, dtype=torch.int64) for name in ("tried", "no_source", "no_free_slot", "does_not_fit")},
    )
    sources = array(source_idx), array(layer_valid), array(source_extent), array(boxes), array(eligible)
    targets = array(target_extent), array(occupied), array(num_free)
    draw_rows(array(seeds), chosen is None, sources, targets, ranges, Draws(*(t.numpy() for t in out)))  # type: ignore[arg-type]
    return source_idx, layer_valid, out
