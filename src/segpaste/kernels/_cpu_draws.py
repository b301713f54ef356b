"""The draws of a placement, compiled by Numba: those of `segpaste.seeding` and `segpaste.augmentation.placement`.

Equal to them bit for bit: what is drawn does not depend on where it is drawn.
"""

from __future__ import annotations

import numpy as np

from segpaste.kernels._cpu_compile import compiled, entry
from segpaste.kernels._cpu_maps import draw_place, draw_scale
from segpaste.kernels._cpu_random import COUNT, HFLIP, LAYER, PASTE, SLOT, SOURCE, happens, indexed, integer, keyed
from segpaste.kernels._cpu_weights import count_alike, weighted


@entry
def _choose_rows(seeds, eligible, source_idx, layer_valid):
    """Another row of the batch for each layer, uniform over those that have an eligible instance.

    Args:
        seeds: [B] int64.
        eligible: [B, K] bool.
        source_idx: [B, L] int64, written.
        layer_valid: [B, L] bool, written.
    """
    num_rows, num_layers = source_idx.shape
    offers, twins = np.zeros(num_rows, np.bool_), np.zeros(num_rows, np.int64)
    for s in range(num_rows):
        for k in range(eligible.shape[1]):
            offers[s] |= eligible[s, k]
        for other in range(s):
            twins[s] += seeds[other] == seeds[s]
    for b in range(num_rows):
        for j in range(num_layers):
            best, chosen = np.int64(-1), 0
            for s in range(num_rows):
                if not offers[s] or s == b:
                    continue
                state = indexed(indexed(indexed(keyed(seeds[b], SOURCE), j), seeds[s]), twins[s])
                priority = np.int64(state >> np.uint64(2))
                if priority > best:
                    best, chosen = priority, s
            source_idx[b, j] = chosen
            layer_valid[b, j] = best >= 0


@entry
def draw_rows(seeds, found, tables, ranges, source_idx, layer_valid, out):
    """A source among the other rows, slots, scale, flip and place for every layer of every row.

    Args:
        seeds: [B] int64.
        found: `segpaste.kernels.whole_operands.Survey` of arrays.
        tables: `segpaste.kernels.whole_operands.DrawTables` of arrays.
        ranges: `segpaste.kernels.whole_operands.DrawRanges`.
        source_idx: [B, L] int64, written.
        layer_valid: [B, L] bool, written.
        out: `segpaste.kernels.whole_operands.Draws` of arrays, written.
    """
    _choose_rows(seeds, found.eligible, source_idx, layer_valid)
    num_layers, num_slots = out.carried.shape[1], out.carried.shape[2]
    priority = np.empty((num_layers, num_slots), np.int64)
    boxes = np.empty((num_slots, 4), np.int64)
    num_alike = np.empty(found.labels.shape, np.int64)
    count_alike(found.eligible, found.labels, tables.limits[3], num_alike)
    for b in range(len(seeds)):
        _prioritise(b, seeds[b], source_idx, layer_valid, num_alike, tables, ranges.one_each, priority)
        _choose_slots(b, seeds[b], layer_valid, found.num_free[b], tables.limits, priority, out)
        num_fitting = 0
        for j in range(num_layers):
            s = source_idx[b, j]
            flip = happens(indexed(keyed(seeds[b], HFLIP), j), ranges.flip_threshold)
            out.hflip[b, j] = flip
            for k in range(num_slots):
                for i in range(4):
                    boxes[k, i] = found.occupied[s, k, i]
                if flip:
                    left, right = boxes[k, 0], boxes[k, 2]
                    boxes[k, 0], boxes[k, 2] = found.extent[s, 0] - right, found.extent[s, 0] - left
            draw_scale(b, j, seeds[b], boxes, found.labels[s], found.extent[b], tables.size_table, ranges, out)
            draw_place(b, j, seeds[b], boxes, found.extent[b], found.occupied[b], ranges, out)
            for k in range(num_slots):
                num_fitting += out.carried[b, j, k]
        out.does_not_fit[b] -= num_fitting


@compiled
def _prioritise(b, seed, source_idx, layer_valid, num_alike, tables, one_each, priority):
    """A random number for each slot that may be chosen, -1 for the others, into ``priority`` [L, K].

    Where each layer carries ``one_each``, layers of one source take its slots in random order, each another one.
    """
    num_layers, num_slots = priority.shape
    for j in range(num_layers):
        first, turn = j, 0
        if one_each:
            first, turn = _turn(b, j, seed, source_idx, layer_valid, tables.limits[3])
        for k in range(num_slots):
            priority[j, k] = -1
            if layer_valid[b, j] and num_alike[source_idx[b, j], k] > 0:
                state = indexed(indexed(keyed(seed, SLOT), first), k)
                priority[j, k] = weighted(np.int64(state >> np.uint64(2)), num_alike[source_idx[b, j], k], tables)
        if one_each:
            order = _descending(priority[j])
            kept = order[turn] if turn < num_slots else -1
            for k in range(num_slots):
                if k != kept or priority[j, k] < 0:
                    priority[j, k] = -1
                else:
                    priority[j, k] = np.int64(indexed(keyed(seed, LAYER), j) >> np.uint64(2))


@compiled
def _turn(b, j, seed, source_idx, layer_valid, temperature):
    """The first of the layers that have the source of layer ``j``, and how many of them take a slot before it."""
    first, turn = j, 0
    own = np.int64(indexed(keyed(seed, LAYER), j) >> np.uint64(2))
    for i in range(source_idx.shape[1]):
        if source_idx[b, i] == source_idx[b, j]:
            first = min(first, i)
            other = np.int64(indexed(keyed(seed, LAYER), i) >> np.uint64(2)) if layer_valid[b, i] else -1
            is_before = i < j if temperature == 0 or other == own else other > own
            turn += is_before
    return first, turn


@compiled
def _choose_slots(b, seed, layer_valid, num_free, limits, priority, out):
    """The eligible slots of highest priority: into ``carried``, counted in ``does_not_fit`` for now."""
    num_slots, flat = priority.shape[1], priority.reshape(priority.size)
    available, has_source = 0, False
    for i in range(len(flat)):
        available += flat[i] >= 0
    for j in range(layer_valid.shape[1]):
        has_source |= layer_valid[b, j]
    tries = happens(keyed(seed, PASTE), limits[0])
    wanted = integer(keyed(seed, COUNT), limits[1], limits[2]) if tries else 0
    num_tried = min(wanted, available)
    num_chosen = min(num_tried, num_free)
    if num_chosen >= available:
        for i in range(len(flat)):
            out.carried[b, i // num_slots, i % num_slots] = flat[i] >= 0
    else:
        order = _descending(flat)
        out.carried[b] = False
        for i in order[:num_chosen]:
            out.carried[b, i // num_slots, i % num_slots] = True
    no_source = 1 if tries and not has_source else 0
    out.tried[b], out.no_source[b] = num_tried + no_source, no_source
    out.no_free_slot[b], out.does_not_fit[b] = num_tried - num_chosen, num_chosen


@compiled
def _descending(priority):
    """The order of the priorities, the highest first, of equal ones the first."""
    return np.argsort(-priority, kind="mergesort")
