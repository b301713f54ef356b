"""Draws of ClassMix in Triton: `segpaste.engine.reference.classmix.draw_classes`.

Common arguments of the kernels:
    mixed: `segpaste.engine.triton.draws.draw.MixedArguments`.
    counts: fields of `segpaste.engine.schema.PlacementCounts`.
    source_idx: [B, L] int64.
    num_layers, num_slots, num_classes: L, K and number of classes.
"""

from __future__ import annotations

import triton
import triton.language as tl

from segpaste.engine import schema
from segpaste.engine.triton._numbers import CLASS, PASTE, SLOT, bits_62, indexed, is_known, keyed, upper_32
from segpaste.engine.triton.draws._slots import TOP_BIT, highest, is_highest

_SCALE_DEN = tl.constexpr(schema.SCALE_DEN)


@triton.jit
def choose_classes(
    mixed,
    counts,
    source_idx,
    layer_valid,
    seeds,
    present,
    eligible,
    labels,
    limits,
    num_layers,
    num_slots,
    num_classes,
    LAYERS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Choose the classes of one layer, and draw the priorities of their instances.

    Own arguments:
        layer_valid: [B, L] bytes.
        seeds, eligible, labels: of the batch.
        present: [B, num_classes] bytes.
        limits: of `segpaste.engine.schema.DrawTables`.
        LAYERS, BLOCK: sizes of blocks of layers, and of classes and slots.
    """
    at = tl.program_id(0).to(tl.int64)
    b, layer = at // num_layers, at % num_layers
    source, seed = tl.load(source_idx + at), tl.load(seeds + b)
    tries = upper_32(keyed(seed, PASTE)) < tl.load(limits)
    is_shown = tries & (tl.load(layer_valid + at) != 0)
    num_chosen = _choose_half(mixed, present, source, seed, at, layer, is_shown, num_classes, BLOCK)
    tl.debug_barrier()  # classes are read by other threads
    state = indexed(keyed(seed, SLOT), layer)
    for first in range(0, num_slots, BLOCK):
        slots = first + tl.arange(0, BLOCK)
        asked = slots < num_slots
        usable = tl.load(eligible + source * num_slots + slots, mask=asked, other=0) != 0
        label = tl.load(labels + source * num_slots + slots, mask=asked, other=-1)
        wanted = is_known(mixed.classes + at * num_classes, label, usable, num_classes)
        priority = tl.where(wanted, bits_62(indexed(state, slots)), -1)
        tl.store(mixed.slot_order + at * num_slots + slots, priority, mask=asked)
    tl.store(mixed.is_done + at, (num_chosen == 0).to(tl.int32))
    tl.store(mixed.carried + at * (num_slots + 1) + num_slots, 0)
    _write_map(mixed, at)
    if layer == 0:
        _write_counts(counts, layer_valid, tries, b, num_layers, LAYERS)


@triton.jit
def _choose_half(mixed, present, source, seed, at, layer, is_shown, num_classes, BLOCK: tl.constexpr):
    """Choose half of the classes of the source, rounded up, none if the layer is not shown; return their number."""
    order = mixed.class_order + at * num_classes
    state = indexed(keyed(seed, CLASS), layer)
    num = at * 0
    for first in range(0, num_classes, BLOCK):
        classes = first + tl.arange(0, BLOCK)
        asked = classes < num_classes
        known = is_shown & (tl.load(present + source * num_classes + classes, mask=asked, other=0) != 0)
        tl.store(order + classes, tl.where(known, bits_62(indexed(state, classes)), -1), mask=asked)
        num += tl.sum(known.to(tl.int64))
    tl.debug_barrier()  # priorities are read by other threads
    num = (num + 1) >> 1
    threshold, end = highest(order, num_classes, num, TOP_BIT, BLOCK)
    for first in range(0, num_classes, BLOCK):
        classes = first + tl.arange(0, BLOCK)
        asked = classes < num_classes
        chosen = is_highest(tl.load(order + classes, mask=asked, other=-1), classes, threshold, end)
        tl.store(mixed.classes + at * num_classes + classes, chosen.to(tl.uint8), mask=asked)
    return num


@triton.jit
def _write_map(mixed, at):
    """Put a layer at the same position as in its source."""
    axes = 2 * at + tl.arange(0, 2)
    one = tl.full([2], _SCALE_DEN, tl.int64)
    tl.store(mixed.scale_num + axes, one)
    tl.store(mixed.scale_den + axes, one)
    tl.store(mixed.translate + axes, tl.zeros([2], tl.int64))
    tl.store(mixed.hflip + at, 0)
    tl.store(mixed.vflip + at, 0)
    tl.store(mixed.swap_axes + at, 0)


@triton.jit
def _write_counts(counts, layer_valid, tries, b, num_layers, LAYERS: tl.constexpr):
    """Write the counts of a target; `find_fragments` adds to them."""
    has_source = tl.zeros([LAYERS], tl.uint8)
    for first in range(0, num_layers, LAYERS):
        layers = first + tl.arange(0, LAYERS)
        has_source |= tl.load(layer_valid + b * num_layers + layers, mask=layers < num_layers, other=0)
    no_source = (tries & (tl.max(has_source.to(tl.int32)) == 0)).to(tl.int64)
    tl.store(counts.tried + b, no_source)
    tl.store(counts.no_source + b, no_source)
    tl.store(counts.no_free_slot + b, 0)
    tl.store(counts.does_not_fit + b, 0)
    tl.store(counts.outside_region + b, 0)
    tl.store(counts.covers_too_much + b, 0)


@triton.jit
def find_fragments(
    mixed,
    counts,
    source_idx,
    num_free,
    boxes,
    planes,
    height,
    width,
    num_strips,
    strip_size,
    num_layers,
    num_slots,
    num_classes,
    PIXELS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Look for pixels of a layer's classes that belong to no instance, in one strip of its source.

    The program of the first strip also keeps as many instances as the target has free slots.

    Own arguments:
        num_free: [B] int64.
        boxes: [B, K, 4] int64, boxes of the instances, rounded outwards.
        planes: `segpaste.engine.triton.draws.draw.PixelArguments`.
        strip_size: pixels of a strip, in row-major order.
        PIXELS, BLOCK: sizes of blocks of pixels, and of slots.
    """
    at = (tl.program_id(0) // num_strips).to(tl.int64)
    strip = tl.program_id(0) % num_strips
    if strip == 0:
        _keep_instances(mixed, counts, num_free, at, num_layers, num_slots, BLOCK)
    source = tl.load(source_idx + at)
    first, found = strip * strip_size, tl.load(mixed.is_done + at)
    end = tl.minimum(first + strip_size, height * width)
    while (first < end) & (found == 0):
        pixels = first + tl.arange(0, PIXELS)
        free = pixels < end
        label = tl.load(planes.semantic + source * height * width + pixels, mask=free, other=-1)
        free = is_known(mixed.classes + at * num_classes, label, free, num_classes)
        if planes.padding is not None:
            free &= tl.load(planes.padding + source * height * width + pixels, mask=free, other=1) == 0
        if planes.panoptic is not None:
            free &= tl.load(planes.panoptic + source * height * width + pixels, mask=free, other=1) == 0
        else:
            order = mixed.slot_order + at * num_slots
            free = _uncovered(planes.masks, boxes, order, source, pixels, free, height, width, num_slots)
        found = tl.max(free.to(tl.int32))
        if found != 0:
            before = tl.atomic_xchg(mixed.is_done + at, 1)
            if before == 0:
                tl.store(mixed.carried + at * (num_slots + 1) + num_slots, 1)
                tl.atomic_add(counts.tried + at // num_layers, at * 0 + 1)
        first += PIXELS


@triton.jit
def _keep_instances(mixed, counts, num_free, at, num_layers, num_slots, BLOCK: tl.constexpr):
    """Keep the wanted instances of one layer that the target has free slots for, and count them."""
    b, layer = at // num_layers, at % num_layers
    size = num_layers * num_slots
    threshold, end = highest(mixed.slot_order + b * size, size, tl.load(num_free + b), TOP_BIT, BLOCK)
    num_wanted, num_kept = at * 0, at * 0
    for first in range(0, num_slots, BLOCK):
        slots = first + tl.arange(0, BLOCK)
        asked = slots < num_slots
        priority = tl.load(mixed.slot_order + at * num_slots + slots, mask=asked, other=-1)
        kept = is_highest(priority, layer * num_slots + slots, threshold, end)
        tl.store(mixed.carried + at * (num_slots + 1) + slots, kept.to(tl.uint8), mask=asked)
        num_wanted += tl.sum((priority >= 0).to(tl.int64))
        num_kept += tl.sum(kept.to(tl.int64))
    tl.atomic_add(counts.tried + b, num_wanted)
    tl.atomic_add(counts.no_free_slot + b, num_wanted - num_kept)


@triton.jit
def _uncovered(masks, boxes, order, source, pixels, free, height, width, num_slots):
    """Return the free pixels that no wanted instance covers within its box."""
    rows, cols = pixels // width, pixels % width
    for k in range(num_slots):
        if tl.load(order + k) >= 0:
            box = boxes + (source * num_slots + k) * 4
            inside = (cols >= tl.load(box)) & (cols < tl.load(box + 2))
            inside &= (rows >= tl.load(box + 1)) & (rows < tl.load(box + 3))
            mask = masks + (source * num_slots + k) * height * width + pixels
            free &= tl.load(mask, mask=free & inside, other=0) == 0
    return free
