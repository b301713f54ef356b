"""The unchanged pixels of an output in Triton: a plain copy of all planes but the masks, 16 bytes a store.

Pixels that are pasted over are copied too; `segpaste.engine.triton.pixels._paste` writes them afterwards. A look has
copied the labels (`segpaste.engine.triton.looks._counting`). Lost labels are cleared here, in images that a flag marks.

`segpaste.engine.triton._tiles` describes the arguments that kernels share.
"""

from __future__ import annotations

import triton
import triton.language as tl

from segpaste.engine.triton._surfaces import is_number
from segpaste.engine.triton._tiles import next_of


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
