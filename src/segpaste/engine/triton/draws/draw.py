"""Draws of a placement in two launches, or three if a candidate fraction is set."""

from __future__ import annotations

from typing import Any, Final

import torch
import triton.language as tl
from torch import Tensor

from segpaste.engine.record_fields import empty
from segpaste.engine.schema import (
    Drawn,
    DrawRules,
    DrawTables,
    LayerRows,
    Pick,
    Placement,
    PlacementCounts,
    Sources,
    Targets,
)
from segpaste.engine.triton.draws import _layers, _rows, _slots
from segpaste.engine.triton.draws.arguments import (
    REGISTERS,
    DrawnArguments,
    PriorityArguments,
    SizeArguments,
    count_arguments,
    empty_counts,
    map_arguments,
    plain_arguments,
    rule_arguments,
)
from segpaste.engine.triton.launching import launch, plain, power_of_two

PICKS: Final = {"others": _rows.OTHERS.value, "same": _rows.SAME.value, "own": _rows.OWN.value}
"""Rules by which rows are chosen, as the kernels name them."""

SLOT_BLOCK = 32
"""Largest number of slots that are compared with as many others at once."""

LAYER_BLOCK = 16
"""Largest number of layers whose source rows are chosen at once."""

ROW_BLOCK = 32
"""Largest number of source rows that are compared at once."""

BLOCK = 1024
"""Largest number of priorities that are compared with a number at once."""

TARGET_BLOCK = 128
"""Largest number of slots of a target that are looked at at once."""

TILE = 128
"""Largest number of objects times places that are judged at once."""


def choose_rows(candidates: Tensor, seeds: Tensor, num_layers: int) -> LayerRows:
    """See `segpaste.engine.reference.draws.draw.choose_rows`."""
    b, layers = len(seeds), min(power_of_two(num_layers), LAYER_BLOCK)
    rows = empty(LayerRows, seeds.device, {"B": b, "L": num_layers})
    launch(
        _rows.choose_rows,
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
    how = _rows.GIVEN.value if isinstance(pick, LayerRows) else PICKS[pick]
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
        IS_GIVEN=how == _rows.GIVEN.value,
        SLOTS=slots,
        LAYERS=min(power_of_two(num_layers), LAYER_BLOCK),
        OTHERS=min(power_of_two(num_targets), TARGET_BLOCK),
        ATTEMPTS=min(attempts, TILE // slots),
        BLOCK=min(power_of_two(num_layers * (1 if rules.one_each else k_s)), BLOCK),
        maxnreg=REGISTERS,
    )


def _integers(*shape: int, device: torch.device) -> Tensor:
    return torch.empty(shape, dtype=torch.int64, device=device)
