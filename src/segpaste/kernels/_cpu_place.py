"""Before a paste, on the CPU: what a placement must know of a batch, and its draws."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from segpaste.kernels._cpu_arrays import NO_CLASS, array
from segpaste.kernels._cpu_draws import draw_rows
from segpaste.kernels._cpu_layout import survey_rows
from segpaste.kernels.whole_operands import DrawRanges, Draws, DrawTables, Rows, Survey


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
    kinds = NO_CLASS if is_thing is None else array(is_thing)
    given = array(rows.boxes), array(rows.labels), array(rows.instance_valid), padding, kinds
    survey_rows(*given, eligible, occupied, num_free, extent)
    found = (torch.from_numpy(table) for table in (eligible, occupied, num_free, extent))
    return Survey(*found, labels=rows.labels)  # type: ignore[misc]


def draw(
    seeds: Tensor, found: Survey, tables: DrawTables, num_layers: int, ranges: DrawRanges
) -> tuple[Tensor, Tensor, Draws]:
    """What `segpaste.augmentation.source.IntraBatchSource` chooses and `draw_placement` then draws.

    Args:
        seeds: [B] int64.
        found: of the batch, whose rows are targets and sources.
        tables: the numbers of `segpaste.augmentation.schedule.Schedule`.
        num_layers: L.
        ranges: see there.

    Returns:
        The sources' rows [B, L] int64, whether there is one [B, L] bool, and the draws.

    Raises:
        ValueError: the survey's boxes or labels are not those of its slots.
    """
    b, k = found.eligible.shape
    shapes = tuple(found.occupied.shape), tuple(found.labels.shape)
    if shapes != ((b, k, 4), (b, k)):  # loops do not look where they read
        raise ValueError(f"draw: expected occupied of shape {(b, k, 4)}, and labels, as eligible, got {shapes}")
    source_idx = torch.empty(b, num_layers, dtype=torch.int64)
    layer_valid = torch.empty(b, num_layers, dtype=torch.bool)
    pairs = {name: torch.empty(b, num_layers, 2, dtype=torch.int64) for name in ("scale_num", "scale_den", "translate")}
    counts = ("tried", "no_source", "no_free_slot", "does_not_fit")
    out = Draws(
        **pairs,
        hflip=torch.empty(b, num_layers, dtype=torch.bool),
        carried=torch.empty(b, num_layers, k, dtype=torch.bool),
        **{name: torch.empty(b, dtype=torch.int64) for name in counts},
    )
    given = array(seeds), Survey(*map(array, found)), DrawTables(*map(array, tables)), ranges  # type: ignore[arg-type]
    draw_rows(*given, source_idx.numpy(), layer_valid.numpy(), Draws(*(t.numpy() for t in out)))  # type: ignore[arg-type]
    return source_idx, layer_valid, out
