"""Draws of ClassMix in two launches."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from segpaste.engine.record_fields import empty
from segpaste.engine.schema import DrawTables, LayerRows, Mixture, Placement, PlacementCounts, Survey
from segpaste.engine.triton.draws import _classes
from segpaste.engine.triton.draws.arguments import MAPS, REGISTERS, count_arguments, empty_counts, map_arguments
from segpaste.engine.triton.draws.survey import PIXELS, strips_of
from segpaste.engine.triton.launching import argument_tuple, launch, plain, power_of_two
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.check import not_none

BLOCK = 512
"""Largest number of classes or slots that a program handles at once."""

MixedArguments = argument_tuple("MixedArguments", *MAPS, "classes", "class_order", "slot_order", "is_done")
"""Tensors that the kernels write: `MAPS`, where ``carried`` has the fragment last, the chosen classes, and scratch.

- ``class_order``: [B, L, num_classes] int64, priorities, -1 for classes that may not be chosen.
- ``slot_order``: [B, L, K] int64, priorities, -1 for instances that are not wanted.
- ``is_done``: [B, L] int32, 1 if nothing has to be looked for in the pixels.
"""


class PixelArguments(NamedTuple):
    """Planes of the batch as kernel arguments, bools as bytes, None where absent."""

    semantic: Tensor
    panoptic: Tensor | None
    masks: Tensor | None
    padding: Tensor | None


def draw_classes(
    batch: PaddedBatchedDenseSample, found: Survey, rows: LayerRows, tables: DrawTables
) -> tuple[Placement, PlacementCounts, Mixture]:
    """See `segpaste.engine.reference.classmix.draw_classes`."""
    (b, num_layers), k, device = rows.source_idx.shape, batch.max_instances, batch.device
    present = not_none(found.present)
    num_classes = present.shape[1]
    sizes = {"B": b, "L": num_layers, "K_s": k + 1, "num_classes": num_classes}
    placement = empty(Placement, device, sizes, **rows._asdict())
    mixture = empty(Mixture, device, sizes, eligible=found.eligible)
    orders = [torch.empty(b, num_layers, n, dtype=torch.int64, device=device) for n in (num_classes, k)]
    is_done = torch.empty(b, num_layers, dtype=torch.int32, device=device)
    seeds, limits = not_none(batch.sample_seeds), plain(tables.limits.to(device))
    counts = empty_counts(seeds, limits, num_layers)
    mixed = MixedArguments(*map_arguments(placement).values(), plain(mixture.classes), *orders, is_done)
    source_idx, layer_valid = (plain(t) for t in rows)
    launch(
        _classes.choose_classes,
        b * num_layers,
        mixed,
        count_arguments(counts),
        source_idx,
        layer_valid,
        *(plain(t) for t in (seeds, present, found.eligible, batch.labels)),
        limits,
        *(num_layers, k, num_classes),
        LAYERS=power_of_two(num_layers),
        BLOCK=min(power_of_two(max(num_classes, k)), BLOCK),
        maxnreg=REGISTERS,
    )
    height, width = batch.canvas_size
    num_strips, strip_size = strips_of(height * width)
    launch(
        _classes.find_fragments,
        b * num_layers * num_strips,
        mixed,
        count_arguments(counts),
        source_idx,
        *(plain(t) for t in (found.num_free, found.occupied)),
        _planes(batch),
        *(height, width, num_strips, strip_size, num_layers, k, num_classes),
        PIXELS=PIXELS,
        BLOCK=min(power_of_two(num_layers * k), BLOCK),
        maxnreg=REGISTERS,
    )
    return placement, counts, mixture


def _planes(batch: PaddedBatchedDenseSample) -> PixelArguments:
    """Return the planes that tell a fragment from instances: masks only without a panoptic map."""
    panoptic, padding = batch.panoptic_maps, batch.padding_mask
    return PixelArguments(
        semantic=plain(not_none(batch.semantic_maps)),
        panoptic=None if panoptic is None else plain(panoptic),
        masks=plain(not_none(batch.instance_masks)) if panoptic is None else None,
        padding=None if padding is None else plain(padding),
    )
