"""Unchanged pixels of an output in Triton, and the second step of a paste in place.

Out of place all planes but the masks are copied, 16 bytes a store. Pixels that are pasted over are copied too;
`segpaste.engine.triton._paste` writes them afterwards. A look has copied the labels
(`segpaste.engine.triton.visibility._resolve`). Lost labels are cleared here, in images that a flag marks. In place the
gathered pixels are written, and dropped instances are cleared.

`segpaste.engine.triton._tiles` describes the arguments that kernels share.
"""

from __future__ import annotations

import triton
import triton.language as tl

from segpaste.engine.triton import _packed_slots
from segpaste.engine.triton._interpolation import colours_at, is_number
from segpaste.engine.triton._tiles import in_box, next_of, on_canvas, pixel_offsets, tile_at, touching


@triton.jit
def keep(
    out,
    target,
    plan,
    slots,
    num_classes,
    ignore_index,
    num_pixels,
    num_values,
    num_images,
    num_labels,
    num_depths,
    IMAGE_CHUNK: tl.constexpr,
    LABEL_CHUNK: tl.constexpr,
    DEPTH_CHUNK: tl.constexpr,
    CLASSES: tl.constexpr,
    SLOTS: tl.constexpr,
):
    """Copy one stretch of one plane; a plane of all images is one flat array.

    The first programs copy the images, the next ones clear labels, then the depth is copied, and then the normals.

    Own arguments:
        num_classes: size of the table of ignored classes.
        ignore_index: semantic class of pixels that lose their label.
        num_pixels: B * H * W.
        num_values: values of all images.
        num_images, num_labels, num_depths: programs of each kind; no labels where none can be lost.
        IMAGE_CHUNK: values of a stretch of the images.
        LABEL_CHUNK: values of a stretch of the labels.
        DEPTH_CHUNK: values of a stretch of any other plane.
        CLASSES: a power of two, at least ``num_classes``; 0 where no class may be ignored.
        SLOTS: a power of two, at least the slots of the target.
    """
    chunk = tl.program_id(0)
    if chunk < num_images:
        _copy(out.images, target.images, chunk.to(tl.int64) * IMAGE_CHUNK, num_values, IMAGE_CHUNK)
    elif chunk < num_images + num_labels:
        if out.semantic is not None:
            first = (chunk - num_images).to(tl.int64) * LABEL_CHUNK
            if CLASSES > 0 or out.panoptic is not None:
                _clear_labels(
                    out,
                    target,
                    plan,
                    slots,
                    num_classes,
                    ignore_index,
                    first,
                    num_pixels,
                    LABEL_CHUNK,
                    CLASSES,
                    SLOTS,
                )
    elif chunk < num_images + num_labels + num_depths:
        if out.depth is not None:
            first = (chunk - num_images - num_labels).to(tl.int64) * DEPTH_CHUNK
            if first + DEPTH_CHUNK <= num_pixels:
                _keep_depth(out, target, first, num_pixels, DEPTH_CHUNK, True)
            else:
                _keep_depth(out, target, first, num_pixels, DEPTH_CHUNK, False)
    elif out.normals is not None:
        first = (chunk - num_images - num_labels - num_depths).to(tl.int64) * DEPTH_CHUNK
        _copy(out.normals, target.normals, first, tl.cast(num_pixels, tl.int64) * 3, DEPTH_CHUNK)


@triton.jit
def _copy(to, source, first, total, CHUNK: tl.constexpr):
    """Copy a stretch of a flat array that begins at ``first``; no mask where it is whole, so that accesses are wide."""
    place = first + tl.arange(0, CHUNK)
    if first + CHUNK <= total:
        tl.store(to + place, tl.load(source + place))
    else:
        tl.store(to + place, tl.load(source + place, mask=place < total), mask=place < total)


@triton.jit
def _keep_depth(out, target, first, total, CHUNK: tl.constexpr, IS_WHOLE: tl.constexpr):
    """Copy depth and its validity; depth that is NaN or infinite becomes 0 and invalid."""
    place = first + tl.arange(0, CHUNK)
    there = None if IS_WHOLE else place < total
    depth = tl.load(target.depth + place, mask=there)
    valid = tl.load(target.depth_valid + place, mask=there)
    tl.store(out.depth + place, tl.where(is_number(depth), depth, 0.0), mask=there)
    is_bad = ~is_number(depth)
    if not IS_WHOLE:
        is_bad &= there
    if tl.max(is_bad.to(tl.int32)) != 0:
        valid = tl.where(is_bad, 0, valid)
    tl.store(out.depth_valid + place, valid, mask=there)


@triton.jit
def any_flag(flags, first, count, BLOCK: tl.constexpr):
    """Return whether one of ``count`` bytes from ``first`` on is set; ``BLOCK`` is a power of two, at least that."""
    place = tl.arange(0, BLOCK)
    return tl.max(tl.load(flags + first + place, mask=place < count, other=0).to(tl.int32)) != 0


@triton.jit
def _clear_labels(
    out,
    target,
    plan,
    slots,
    num_classes,
    ignore_index,
    first,
    total,
    CHUNK: tl.constexpr,
    CLASSES: tl.constexpr,
    SLOTS: tl.constexpr,
):
    """Clear the lost labels of the images of a stretch: a look has copied them all."""
    first_image = first // out.size
    end_image = (tl.minimum(first + CHUNK, total) - 1) // out.size + 1
    for b in range(first_image, end_image):
        num_marked = 0
        if CLASSES > 0:
            num_marked += any_flag(slots.ignored_class, b * num_classes, num_classes, CLASSES).to(tl.int32)
        if out.panoptic is not None:
            num_marked += any_flag(slots.dropped, b * target.num_slots, target.num_slots, SLOTS).to(tl.int32)
        if num_marked > 0:
            _clear_marked(
                out, target, plan, slots, num_classes, ignore_index, tl.cast(b, tl.int64), first, CHUNK, CLASSES, SLOTS
            )


@triton.jit
def _clear_marked(
    out,
    target,
    plan,
    slots,
    num_classes,
    ignore_index,
    b,
    first,
    CHUNK: tl.constexpr,
    CLASSES: tl.constexpr,
    SLOTS: tl.constexpr,
):
    """Clear the lost labels of one image in a stretch: they become ignore, and no id."""
    start = first - b * out.size
    place = start + tl.arange(0, CHUNK)
    there = (place >= 0) & (place < out.size)
    here = b * out.size + place
    lost = there & False
    if out.panoptic is not None:
        lost = _orphans(target, plan, slots, b, start, place, there, CHUNK, SLOTS)
        tl.store(out.panoptic + here, tl.zeros([CHUNK], tl.int64), mask=lost)
    if CLASSES > 0:
        is_marked = any_flag(slots.ignored_class, b * num_classes, num_classes, CLASSES)
        if is_marked:
            label = tl.load(target.semantic + here, mask=there, other=0)
            known = there & (label >= 0) & (label < num_classes)
            lost |= tl.load(slots.ignored_class + b * num_classes + label, mask=known, other=0) != 0
    tl.store(out.semantic + here, tl.full([CHUNK], ignore_index, tl.int64), mask=lost)


@triton.jit
def _orphans(target, plan, slots, b, start, place, there, CHUNK: tl.constexpr, SLOTS: tl.constexpr):
    """Return the pixels at some places of an image whose instance lost its row."""
    rows, cols = place // target.width, place % target.width
    top, lower = start // target.width, (start + CHUNK - 1) // target.width + 1
    orphan = there & False
    number = tl.arange(0, SLOTS)
    box = plan.target_box + (b * target.num_slots + number) * 4
    wanted = number < target.num_slots
    wanted &= tl.load(slots.dropped + b * target.num_slots + number, mask=wanted, other=0) != 0
    wanted &= (tl.load(box + 1, mask=wanted, other=0) < lower) & (tl.load(box + 3, mask=wanted, other=0) > top)
    number = tl.where(wanted, number, target.num_slots)
    k = next_of(number, -1, target.num_slots)
    while k < target.num_slots:
        edge = plan.target_box + (b * target.num_slots + k) * 4
        inside = there & (cols >= tl.load(edge)) & (cols < tl.load(edge + 2))
        inside &= (rows >= tl.load(edge + 1)) & (rows < tl.load(edge + 3))
        mask = target.masks + (b * target.num_slots + k) * target.size
        orphan |= tl.load(mask + place, mask=inside, other=0) != 0
        k = next_of(number, k, target.num_slots)
    return orphan


@triton.jit
def write(
    target,
    held,
    plan,
    slots,
    visible,
    first,
    num_classes,
    ignore_index,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    SLOTS: tl.constexpr,
    CLASSES: tl.constexpr,
    WAITS: tl.constexpr,
):
    """Write the pixels of one tile of the target that change, and no other pixel.

    Own arguments:
        held: planes in which pasted pixels wait; unless they do, `paste` has written the target.
        first: `segpaste.engine.triton.packed_slots.HeldArguments`, for the planes that ``held`` lacks.
        num_classes: size of the table of ignored classes.
        ignore_index: semantic class of pixels that lose their label.
        SLOTS: a power of two, at least the slots of the target.
        CLASSES: a power of two, at least ``num_classes``; 0 where no class may be ignored.
        WAITS: True if pixels wait.
    """
    height, width = target.height, target.width
    b, top, left = tile_at(tl.program_id(0), height, width, ROWS, COLS)
    b, rows, cols = b.to(tl.int64), top + tl.arange(0, ROWS), left + tl.arange(0, COLS)
    there = on_canvas(rows, cols, height, width)
    place = pixel_offsets(rows, cols, width)
    here = b * target.size + place
    seen, whose = _packed_slots.load_visible(visible, target, b, place, there)
    shown, kept = seen >= 0, there & (seen < 0)
    any_shown = tl.max(shown.to(tl.int32)) != 0
    if any_shown:
        if WAITS:
            _write_labels(target, held, plan, slots, first, b, place, seen, whose, shown)
            _write_colours(target, held, first, b, rows, cols, place, shown)
            _write_surfaces(target, held, first, b, place, shown)
        if visible.layer is None:
            _packed_slots.clear_visible(visible, target, b, place, shown)
        tl.debug_barrier()  # no digits are left in the masks
    orphan = kept & _clear_dropped(target, plan, slots, b, rows, cols, there, SLOTS)
    if any_shown:
        _clear_survivors(target, plan, slots, b, top, left, shown, ROWS, COLS, SLOTS)
    if target.semantic is not None:
        lost = orphan
        if target.panoptic is not None:
            tl.store(target.panoptic + here, tl.zeros([ROWS, COLS], tl.int64), mask=orphan)
        if CLASSES > 0:
            is_marked = any_flag(slots.ignored_class, b * num_classes, num_classes, CLASSES)
            if is_marked:
                label = tl.load(target.semantic + here, mask=kept, other=-1)
                known = (label >= 0) & (label < num_classes)
                lost |= tl.load(slots.ignored_class + b * num_classes + label, mask=known, other=0) != 0
        if target.panoptic is not None or CLASSES > 0:
            tl.store(target.semantic + here, tl.full([ROWS, COLS], ignore_index, tl.int64), mask=lost)
    if target.depth is not None:
        is_bad = kept & ~is_number(tl.load(target.depth + here, mask=kept, other=0.0))
        tl.store(target.depth + here, tl.zeros([ROWS, COLS], tl.float32), mask=is_bad)
        tl.store(target.depth_valid + here, tl.zeros([ROWS, COLS], tl.uint8), mask=is_bad)


@triton.jit
def _clear_dropped(target, plan, slots, b, rows, cols, there, SLOTS: tl.constexpr):
    """Move the second bit of dropped slots to the first one, and return the pixels of these slots.

    Pixels that are not pasted belonged to the dropped instance. Bytes that are 0 stay. Whole planes are read, including
    pixels outside of boxes, so that an empty slot has no pixels.
    """
    number, first = tl.arange(0, SLOTS), b * target.num_slots
    asked = number < target.num_slots
    asked &= tl.load(slots.dropped + first + number, mask=asked, other=0) != 0
    number = tl.where(asked, number, target.num_slots)
    orphan = there & False
    k = next_of(number, -1, target.num_slots)
    while k < target.num_slots:
        to = target.masks + (first + k) * target.size + pixel_offsets(rows, cols, target.width)
        before = tl.load(to, mask=there, other=0)
        tl.store(to, before >> 1, mask=before != 0)
        orphan |= (before != 0) & in_box(plan.target_box, first + k, rows, cols)
        k = next_of(number, k, target.num_slots)
    return orphan


@triton.jit
def _clear_survivors(
    target, plan, slots, b, top, left, shown, ROWS: tl.constexpr, COLS: tl.constexpr, SLOTS: tl.constexpr
):
    """Clear pasted pixels from the masks of the target's instances that stay."""
    rows, cols = top + tl.arange(0, ROWS), left + tl.arange(0, COLS)
    first = b * target.num_slots
    number = touching(slots.survives, plan.target_box, first, target.num_slots, top, left, ROWS, COLS, SLOTS)
    k = next_of(number, -1, target.num_slots)
    while k < target.num_slots:
        to = target.masks + (first + k) * target.size + pixel_offsets(rows, cols, target.width)
        gone = shown & in_box(plan.target_box, first + k, rows, cols)
        tl.store(to, tl.zeros([ROWS, COLS], tl.uint8), mask=gone)
        k = next_of(number, k, target.num_slots)


@triton.jit
def _write_labels(target, held, plan, slots, first, b, place, seen, whose, shown):
    """Write classes and ids; where there is a panoptic map, the classes wait in it."""
    here = b * target.size + place
    if target.panoptic is not None:
        label = tl.load(target.panoptic + here, mask=shown, other=0)
        tl.debug_barrier()  # all classes are read
        at = (b * plan.num_layers + seen) * plan.num_slots + whose
        tl.store(target.panoptic + here, tl.load(slots.fresh_id + at, mask=shown, other=0), mask=shown)
        tl.store(target.semantic + here, label, mask=shown)
    elif target.semantic is not None:
        if held.semantic is not None:
            label = tl.load(held.semantic + here, mask=shown, other=0)
        else:
            num = first.word_digits
            at = _packed_slots.slot_at(target, b, first.semantic, place)
            low = _packed_slots.take(at, target.size, shown, num)
            high = _packed_slots.take(at + num * tl.cast(target.size, tl.int64), target.size, shown, num)
            label = (high.to(tl.int64) << 32) | low.to(tl.uint32, bitcast=True).to(tl.int64)
        tl.store(target.semantic + here, label, mask=shown)


@triton.jit
def _write_colours(target, held, first, b, rows, cols, place, shown):
    to = colours_at(target, b, rows, cols)
    if held.images is not None:
        source = colours_at(held, b, rows, cols)
        for c in range(target.num_channels):
            step = tl.cast(c, tl.int64)
            colour = tl.load(source + step * held.channel_stride, mask=shown, other=0)
            tl.store(to + step * target.channel_stride, colour, mask=shown)
    else:
        for c in range(0, target.num_channels, 3):
            more = tl.full(shown.shape, target.num_channels - 1 - c, tl.int32)
            also = shown & (more > 0), shown & (more > 1)
            at = _packed_slots.slot_at(target, b, first.images + c * first.colour_digits, place)
            one, two, three = _packed_slots.take_three(at, target.size, shown, also, first.colour_digits)
            channel = to + tl.cast(c, tl.int64) * target.channel_stride
            tl.store(channel, _packed_slots.from_bits(one, target.images.dtype.element_ty), mask=shown)
            channel += target.channel_stride
            tl.store(channel, _packed_slots.from_bits(two, target.images.dtype.element_ty), mask=also[0])
            channel += target.channel_stride
            tl.store(channel, _packed_slots.from_bits(three, target.images.dtype.element_ty), mask=also[1])


@triton.jit
def _write_surfaces(target, held, first, b, place, shown):
    here = b * target.size + place
    if target.depth is not None:
        if held.depth is not None:
            bits = tl.load(held.depth + here, mask=shown, other=0.0).to(tl.int32, bitcast=True)
        else:
            bits = _packed_slots.take(
                _packed_slots.slot_at(target, b, first.depth, place), target.size, shown, first.word_digits
            )
        depth, is_valid = _packed_slots.unsigned(bits)
        tl.store(target.depth + here, depth, mask=shown)
        tl.store(target.depth_valid + here, is_valid.to(tl.uint8), mask=shown)
    if target.normals is not None:
        at = here + 2 * b * target.size
        size = tl.cast(target.size, tl.int64)
        if held.normals is not None:
            for i in tl.static_range(3):
                value = tl.load(held.normals + at + i * size, mask=shown, other=0.0)
                tl.store(target.normals + at + i * size, value, mask=shown)
        else:
            digits = _packed_slots.slot_at(target, b, first.normals, place)
            x, y, z = _packed_slots.take_three(digits, target.size, shown, (shown, shown), first.word_digits)
            tl.store(target.normals + at, _packed_slots.from_bits(x, tl.float32), mask=shown)
            tl.store(target.normals + at + size, _packed_slots.from_bits(y, tl.float32), mask=shown)
            tl.store(target.normals + at + 2 * size, _packed_slots.from_bits(z, tl.float32), mask=shown)
