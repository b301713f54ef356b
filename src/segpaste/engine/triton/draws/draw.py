"""Draws of a placement in two launches, or three if a candidate fraction is set; those of ClassMix in two.

Arguments of the kernels are records of tensors, bools as bytes, and numbers.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import torch
import triton.language as tl
from torch import Tensor

from segpaste.engine.record_fields import empty, flags_of, names_of
from segpaste.engine.schema import (
    Drawn,
    DrawRules,
    DrawTables,
    LayerRows,
    Mixture,
    Pick,
    Placement,
    PlacementCounts,
    Sources,
    Survey,
    Targets,
)
from segpaste.engine.triton.draws import _classes, _layers, _slots
from segpaste.engine.triton.draws.survey import PIXELS, strips_of
from segpaste.engine.triton.launching import argument_tuple, launch, plain, power_of_two
from segpaste.seeding import random_u32
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.check import not_none

REGISTERS = 128
"""Largest number of registers of a thread. Without a limit the assembler aims at fewer, and spills some."""

FLAGS: Final = (*flags_of(DrawRules), "limits_cover", "takes_part")
"""Rules that are known when a kernel is compiled."""

RuleArguments = argument_tuple("RuleArguments", *names_of(DrawRules, "triton"), "limits_cover", "takes_part")
"""Rules as kernel arguments: numbers are integers, and flags are constants."""

MAPS = tuple(name for name in names_of(Placement, "triton") if name not in LayerRows._fields)
"""Tensors of a `segpaste.engine.schema.Placement` that kernels write."""

DrawnArguments = argument_tuple("DrawnArguments", *MAPS, "places", "cover")
"""`MAPS`, bools as bytes, and tensors to work with.

- ``places``: [B, L, A, 2] int64, the translations that are tried; ``translate`` itself if only one is.
- ``cover``: [B, L, K_s] int64, larger for objects that cover less, -1 if not carried; None if all objects
  that may be pasted are.
"""

CountArguments = argument_tuple("CountArguments", *names_of(PlacementCounts, "triton"))

PICKS: Final = {"others": _slots.OTHERS.value, "same": _slots.SAME.value, "own": _slots.OWN.value}
"""Rules by which rows are chosen, as the kernels name them."""

SLOT_BLOCK = 32
"""Largest number of slots that are compared with as many others at once."""

LAYER_BLOCK = 16
"""Largest number of layers whose source rows are chosen at once."""

ROW_BLOCK = 32
"""Largest number of source rows that are compared at once."""

BLOCK = 1024
"""Largest number of priorities that are compared with a number at once."""

MIX_BLOCK = 512
"""Largest number of classes or slots that a program of ClassMix handles at once."""

TARGET_BLOCK = 128
"""Largest number of slots of a target that are looked at at once."""

TILE = 128
"""Largest number of objects times places that are judged at once."""

MixedArguments = argument_tuple("MixedArguments", *MAPS, "classes", "class_order", "slot_order", "is_done")
"""Tensors that the kernels write: `MAPS`, where ``carried`` has the fragment last, the chosen classes, and scratch.

- ``class_order``: [B, L, num_classes] int64, priorities, -1 for classes that may not be chosen.
- ``slot_order``: [B, L, K] int64, priorities, -1 for instances that are not wanted.
- ``is_done``: [B, L] int32, 1 if nothing has to be looked for in the pixels.
"""


class PriorityArguments(NamedTuple):
    """Priorities by which slots are chosen.

    Attributes:
        order: [B, L, K_s] int64, the priority of each slot that may be chosen, -1 for the others.
        lead: [B, L] int64, if each layer carries one object: the priority of that object, -1 if there is none.
        kept_slot: [B, L] int64, likewise: its slot, -1 if there is none.
    """

    order: Tensor
    lead: Tensor | None
    kept_slot: Tensor | None


class SizeArguments(NamedTuple):
    """Sizes as kernel arguments.

    Attributes:
        num_slots: K_s.
        num_targets: K_t.
        num_size_classes: entries of the table of sizes.
        num_region_classes: entries of the table of regions.
        num_regions: R, 0 without regions.
        region_height: rows of a table of sums.
        region_width: columns of it.
        has_slots: whether K_s is above 0.
    """

    num_slots: int
    num_targets: int
    num_size_classes: int
    num_region_classes: int
    num_regions: int
    region_height: int
    region_width: int
    has_slots: tl.constexpr


def plain_arguments(record: Any) -> Any:
    """Return a named tuple of tensors as kernel arguments, None where one is absent."""
    return record._make(None if tensor is None else plain(tensor) for tensor in record)


def rule_arguments(rules: DrawRules) -> Any:
    """Return rules as kernel arguments."""
    values = {**rules._asdict(), "limits_cover": rules.limits_cover, "takes_part": rules.takes_part}
    if rules.keeps_place:
        values["max_attempts"] = 1
    return RuleArguments(**{**values, **{name: tl.constexpr(bool(values[name])) for name in FLAGS}})


def empty_counts(seeds: Tensor, limits: Tensor, num_layers: int, needed: Tensor | None = None) -> PlacementCounts:
    """Allocate the counts of the targets of ``seeds``, for the kernels, which have a program for each layer.

    Without layers no program runs, and the counts are filled in here: a paste that is drawn has no source. ``needed``
    are boxes [B, K, 4], of which one must have an area.
    """
    if num_layers:
        return empty(PlacementCounts, seeds.device, {"B": len(seeds)})
    tries = (random_u32(seeds, "paste") < limits[0]).to(torch.int64)
    if needed is not None:
        tries = tries * (needed[..., 2:] > needed[..., :2]).all(-1).any(1)
    zeros = {name: torch.zeros_like(tries) for name in CountArguments._fields[2:]}
    return PlacementCounts(tries, tries.clone(), **zeros)


def map_arguments(placement: Placement) -> dict[str, Tensor]:
    """Return the `MAPS` of a placement by name."""
    return {name: plain(getattr(placement, name)) for name in MAPS}


def count_arguments(counts: PlacementCounts) -> Any:
    """Return counts as kernel arguments."""
    return CountArguments(*(getattr(counts, name) for name in CountArguments._fields))


def choose_rows(candidates: Tensor, seeds: Tensor, num_layers: int) -> LayerRows:
    """See `segpaste.engine.reference.draws.draw.choose_rows`."""
    b, layers = len(seeds), min(power_of_two(num_layers), LAYER_BLOCK)
    rows = empty(LayerRows, seeds.device, {"B": b, "L": num_layers})
    launch(
        _slots.choose_rows,
        b * -(-num_layers // layers),
        *(plain(t) for t in (*rows, seeds, candidates)),
        *(num_layers, b, 1),
        LAYERS=layers,
        ROWS=min(power_of_two(b), ROW_BLOCK),
        SLOTS=1,
    )
    return rows


def draw(targets: Targets, sources: Sources, tables: DrawTables, rules: DrawRules, pick: Pick | LayerRows) -> Drawn:
    """See `segpaste.engine.reference.draws.draw.draw`."""
    b, num_layers, device, k_s = len(targets.seeds), rules.num_layers, targets.seeds.device, sources.eligible.shape[1]
    sizes = {"B": b, "L": num_layers, "K_s": k_s}
    rows = pick if isinstance(pick, LayerRows) else empty(LayerRows, device, sizes)
    how = _slots.GIVEN.value if isinstance(pick, LayerRows) else PICKS[pick]
    placement = empty(Placement, device, sizes, **rows._asdict())
    tables = DrawTables(*(plain(t.to(device)) for t in tables))
    counts = empty_counts(targets.seeds, tables.limits, num_layers, targets.occupied if rules.needs_objects else None)
    written = LayerRows(*(plain(t) for t in rows))
    targets, sources = plain_arguments(targets), plain_arguments(sources)
    alone = [_integers(b, num_layers, device=device) if rules.one_each else None for _ in range(2)]
    priorities = PriorityArguments(_integers(b, num_layers, k_s, device=device), *alone)
    _draw_slots(priorities, counts, written, targets, sources, tables, rules, how)
    places = placement.translate
    if rules.max_attempts > 1 and not rules.keeps_place:
        places = _integers(b, num_layers, rules.max_attempts, 2, device=device)
    cover = _integers(b, num_layers, k_s, device=device) if rules.takes_part else None
    drawn = DrawnArguments(**map_arguments(placement), places=places, cover=cover)
    _place_layers(drawn, counts, priorities, written, targets, sources, tables, rules, how)
    if rules.takes_part:
        launch(
            _layers.keep_part,
            b,
            drawn.carried,
            cover,
            count_arguments(counts),
            targets.num_free,
            rule_arguments(rules),
            k_s,
            BLOCK=min(power_of_two(num_layers * k_s), BLOCK),
            num_warps=8,
            maxnreg=REGISTERS,
        )
    return placement, counts


def _draw_slots(
    priorities: PriorityArguments,
    counts: PlacementCounts,
    rows: LayerRows,
    targets: Targets,
    sources: Sources,
    tables: DrawTables,
    rules: DrawRules,
    how: int,
) -> None:
    """Choose the rows, unless they are given, and draw the priorities of the slots."""
    (num_rows, k_s), b, num_layers = sources.eligible.shape, len(targets.seeds), rules.num_layers
    launch(
        _slots.draw_slots,
        b * num_layers,
        priorities,
        count_arguments(counts),
        *rows,
        targets.seeds,
        sources.eligible,
        sources.labels,
        *(tables.limits, tables.inverse_weights, tables.log_table),
        *(num_layers, num_rows, b, k_s, len(tables.inverse_weights)),
        PICK=how,
        ONE_EACH=bool(rules.one_each),
        LAYERS=min(power_of_two(num_layers), LAYER_BLOCK),
        ROWS=min(power_of_two(num_rows), ROW_BLOCK),
        SLOTS=min(power_of_two(k_s), SLOT_BLOCK),
        maxnreg=REGISTERS,
    )


def _place_layers(
    drawn: Any,
    counts: PlacementCounts,
    priorities: PriorityArguments,
    rows: LayerRows,
    targets: Targets,
    sources: Sources,
    tables: DrawTables,
    rules: DrawRules,
    how: int,
) -> None:
    """Choose the slots of all layers, and draw their flips, scales and places."""
    (num_layers, k_s), num_targets = drawn.carried.shape[1:], targets.occupied.shape[1]
    regions = (0, 0, 0) if targets.regions is None else targets.regions.shape[1:]
    entries = len(tables.size_table), len(tables.region_table)
    slots = 1 if rules.one_each else min(power_of_two(k_s), SLOT_BLOCK)
    attempts = 1 if rules.keeps_place else power_of_two(rules.max_attempts)
    launch(
        _layers.place_layers,
        len(drawn.carried) * num_layers,
        drawn,
        count_arguments(counts),
        priorities,
        *rows,
        targets,
        sources,
        tables,
        rule_arguments(rules),
        SizeArguments._make([k_s, num_targets, *entries, *regions, tl.constexpr(k_s > 0)]),
        IS_GIVEN=how == _slots.GIVEN.value,
        SLOTS=slots,
        LAYERS=min(power_of_two(num_layers), LAYER_BLOCK),
        OTHERS=min(power_of_two(num_targets), TARGET_BLOCK),
        ATTEMPTS=min(attempts, TILE // slots),
        BLOCK=min(power_of_two(num_layers * (1 if rules.one_each else k_s)), BLOCK),
        maxnreg=REGISTERS,
    )


def _integers(*shape: int, device: torch.device) -> Tensor:
    return torch.empty(shape, dtype=torch.int64, device=device)


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
        BLOCK=min(power_of_two(max(num_classes, k)), MIX_BLOCK),
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
        BLOCK=min(power_of_two(num_layers * k), MIX_BLOCK),
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
