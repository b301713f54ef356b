"""Draws of the rows, slots, scales, turns, flips and places of all layers, without access to pixels.

Each draw is a pure function of the target's seed, a name and an index (`segpaste.seeding`), so it does not depend on
the position of a sample in the batch.
"""

from __future__ import annotations

import torch
from torch import Tensor

from segpaste import seeding
from segpaste.engine.orientation import Orientation
from segpaste.engine.reference import geometry
from segpaste.engine.reference.draws import _places, slots
from segpaste.engine.reference.draws.slots import Draw
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


def draw(targets: Targets, sources: Sources, tables: DrawTables, rules: DrawRules, pick: Pick | LayerRows) -> Drawn:
    """Draw rows, slots, scale, flip and place for every layer.

    Args:
        targets: B images.
        sources: S rows.
        tables: parameters that may change between steps.
        rules: fixed parameters.
        pick: rows that the layers take: ``others``, other rows of the batch, which is target and source; ``same``, the
            target's own row of that batch; ``own``, some of the S / B rows that belong to the target; or given rows,
            with one row of ``sources`` for each layer, S = B * L, so that ``source_idx`` only shows which of them are
            equal.

    Returns:
        The placement, whose ``carried`` holds the slots that fit, and the counts of the tries.
    """
    if isinstance(pick, LayerRows):
        rows, shape = pick, pick.source_idx.shape
        index = torch.arange(shape.numel(), device=targets.seeds.device).view(shape)
    elif pick == "others":
        rows = choose_rows(sources.eligible.any(1), targets.seeds, rules.num_layers)
        index = rows.source_idx
    elif pick == "same":
        rows = same_rows(sources.eligible.any(1), rules.num_layers)
        index = rows.source_idx
    else:
        rows = _choose_own(sources.eligible[:, 0], targets.seeds, rules.num_layers)
        index = rows.source_idx
    of_layers = Sources(*(None if table is None else table[index] for table in sources))  # type: ignore[arg-type]
    return _draw(Draw(targets, of_layers, rows, tables, rules))


def _draw(draw: Draw) -> Drawn:
    rules, rows, seeds = draw.rules, draw.rows, draw.targets.seeds[:, None]
    layers = torch.arange(rules.num_layers, device=seeds.device)
    orientation = _orientation(seeds, layers, rules)
    choice = slots.choose(draw)
    boxes = geometry.oriented(draw.sources.boxes, draw.sources.extent, orientation)
    scale_num, scale_den = _places.draw_scales(draw, choice.chosen, boxes)
    scaled = geometry.scaled_boxes(boxes, scale_num[:, :, None], scale_den[:, :, None])
    cut = _places.oriented_sides(geometry.cut_sides(draw.sources.boxes, draw.sources.extent[:, :, None]), orientation)
    region = _places.region_of(draw.tables.region_table, draw.sources.labels)
    objects = _places.Objects(choice.chosen, boxes, scaled, cut, region)
    places = _places.draw_places(draw.targets, rules, objects)
    carried, num_wanted = places.carried, places.carried.sum((1, 2))
    num_candidates = num_wanted
    if rules.takes_part:
        num_wanted = _places.part_of(num_candidates, rules)
        carried = _places.least_covering(places, torch.minimum(num_wanted, draw.targets.num_free))
    drawn = rows.source_idx, rows.layer_valid, scale_num, scale_den, places.translate, orientation.hflip, carried
    placement = Placement(*drawn, orientation.vflip, orientation.swap_axes)
    counts = PlacementCounts(
        tried=choice.num_tried + choice.no_source - num_candidates + num_wanted,
        no_source=choice.no_source,
        no_free_slot=choice.num_tried - choice.num_chosen + num_wanted - carried.sum((1, 2)),
        does_not_fit=choice.num_chosen - places.fits.sum((1, 2)),
        outside_region=(places.fits & ~places.in_region).sum((1, 2)),
        covers_too_much=(places.in_region & ~places.carried).sum((1, 2)),
    )
    return placement, counts


def _orientation(seeds: Tensor, layers: Tensor, rules: DrawRules) -> Orientation:
    """Draw how layers are turned, and then flipped.

    One quarter, anticlockwise, swaps the axes and then flips vertically; two flip both; three swap and then flip
    horizontally.
    """
    hflip = seeding.random_u32(seeds, "hflip", layers) < rules.flip_threshold
    vflip = seeding.random_u32(seeds, "vflip", layers) < rules.vflip_threshold
    turns = seeding.random_u32(seeds, "turn", layers) < rules.turn_threshold
    quarters = seeding.random_integers(seeds, "quarters", 1, 3, layers) * turns
    return Orientation(hflip ^ (quarters >= 2), vflip ^ ((quarters == 1) | (quarters == 2)), quarters % 2 == 1)


def choose_rows(candidates: Tensor, seeds: Tensor, num_layers: int) -> LayerRows:
    """Choose another row of the batch for each layer of each target, uniformly among the ``candidates`` [B] bool.

    The choice compares random numbers keyed by the seeds of both rows, so it does not depend on the order of the batch
    (rows of equal seeds are distinguished by their order).
    """
    batch_size, device = len(seeds), seeds.device
    layers = torch.arange(num_layers, device=device)[:, None]
    rows = torch.arange(batch_size, device=device)
    candidate = candidates & (rows[:, None] != rows)  # [B, S]
    same_seed = seeds[:, None] == seeds
    earlier_twins = (same_seed & (rows < rows[:, None])).sum(1)  # [S], zero where seeds are unique
    keys = seeds[:, None, None], "source", layers, seeds, earlier_twins
    priority = slots.random_where(candidate[:, None], *keys)  # [B, L, S]
    has_source = candidate.any(1, keepdim=True).expand(-1, num_layers)
    if batch_size == 0:
        return LayerRows(torch.zeros(0, num_layers, dtype=torch.int64, device=device), has_source)
    return LayerRows(torch.where(has_source, priority.argmax(2), 0), has_source.clone())


def same_rows(candidates: Tensor, num_layers: int) -> LayerRows:
    """Return each target's own row for all its layers, valid where it is one of the ``candidates`` [B] bool."""
    own = torch.arange(len(candidates), device=candidates.device)
    layer_valid = candidates[:, None].repeat(1, num_layers)
    return LayerRows(torch.where(layer_valid, own[:, None], 0), layer_valid)


def _choose_own(usable: Tensor, seeds: Tensor, num_layers: int) -> LayerRows:
    """Choose ``num_layers`` of the N rows that belong to each target, uniformly among the ``usable`` [B * N] bool."""
    batch_size, device = len(seeds), seeds.device
    if batch_size == 0:
        return LayerRows(seeds.new_zeros(0, num_layers), usable.new_zeros(0, num_layers))
    usable = usable.view(batch_size, -1)
    num_rows = usable.shape[1]
    priority = slots.random_where(usable, seeds[:, None], "crop", torch.arange(num_rows, device=device))
    order = priority.argsort(dim=1, descending=True, stable=True)[:, :num_layers]
    first = torch.arange(batch_size, device=device)[:, None] * num_rows
    return LayerRows(first + order, usable.gather(1, order))
