"""Compute the bytes that the kernels of the Triton backend move, from shapes, grids and tiles, relative to a clone.

Counted is what kernels ask of memory, and a source pixel once for all pixels and taps that read it: caches are large
enough for that, and for nothing else. In particular:

- zeros of masks, and then each pixel in the box of a survivor or a paste once more, which is one byte a store;
- pixels that are pasted over, once as they are kept and once as they are pasted;
- the layer seen at each pixel, once for each kernel that goes over all tiles;
- the flags, boxes and slots of each program.

Not counted are the tables of the axes, a few KiB of a layer that stay in the caches. This file has the kernels of the
pixels; `benchmarks.look_traffic` has the tables and the looks before them. A value that waits in the masks takes a byte
for every `segpaste.engine.triton.packed_slots.SPARE_BITS` of its bits, which is read and written twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from segpaste.engine.triton import composing, packed_slots

_LABEL, _DEPTH, _NORMAL, _VALID, _LAYER, _BOX = 8, 4, 12, 1, 2, 32


class Moved(NamedTuple):
    """Bytes that are read, and written."""

    read: int
    written: int

    @property
    def total(self) -> int:
        """All bytes."""
        return self.read + self.written


@dataclass(frozen=True)
class Shape:
    """Shape of a batch.

    Attributes:
        batch_size: B.
        num_slots: K.
        height: H.
        width: W.
        pixel_bytes: bytes of one value of an image.
        num_channels: C.
        semantic: the batch has semantic maps, and its sources too.
        panoptic: the batch has panoptic maps.
        depth: the batch has depth, and its sources too.
        normals: the batch has normals, and its sources too.
        num_classes: classes that may become ignore; 0 for none.
        num_layers: L.
    """

    batch_size: int
    num_slots: int
    height: int
    width: int
    pixel_bytes: int = 4
    num_channels: int = 3
    semantic: bool = False
    panoptic: bool = False
    depth: bool = False
    normals: bool = False
    num_classes: int = 0
    num_layers: int = 1

    @property
    def num_pixels(self) -> int:
        """B * H * W."""
        return self.batch_size * self.height * self.width

    @property
    def plane_bytes(self) -> int:
        """Bytes of a pixel in all planes but the masks."""
        labels = _LABEL * (self.semantic + self.panoptic)
        return self.num_channels * self.pixel_bytes + labels + (_DEPTH + _VALID) * self.depth + _NORMAL * self.normals


@dataclass(frozen=True)
class Change:
    """Changes that a paste makes to a batch.

    Attributes:
        pasted: pixels at which a layer is seen.
        source: source pixels that are read; about ``pasted`` over the square of the scale.
        kept_boxes: pixels in the boxes of the instances that stay.
        paste_boxes: pixels in the boxes of the pastes that have a slot.
        mask_pixels: pixels of the pastes' masks; more than ``pasted`` where masks overlap.
        hidden: pixels of the boxes of instances that stay at which a layer is seen, added up over the instances.
        dropped: instances that lose their row.
        dropped_pixels: pixels of their masks, and of the pastes that take their slots.
        lost: pixels of dropped instances, each once.
        orphans: those of them at which no layer is seen.
        ignored: other kept pixels whose class becomes ignore.
        marked: kept pixels of the images that have such a class.
    """

    pasted: int
    source: int
    kept_boxes: int
    paste_boxes: int
    mask_pixels: int
    hidden: int = 0
    dropped: int = 0
    dropped_pixels: int = 0
    lost: int = 0
    orphans: int = 0
    ignored: int = 0
    marked: int = 0


def clone(shape: Shape) -> Moved:
    """Return the bytes of a copy of all planes."""
    size = shape.num_pixels * (shape.plane_bytes + shape.num_slots)
    return Moved(size, size)


def extension(shape: Shape, new: Shape) -> Moved:
    """Return the bytes of a copy of the planes into a larger canvas, or of the masks into more slots; all are new."""
    read, written = shape.num_pixels * shape.num_slots, new.num_pixels * new.num_slots
    if shape.num_pixels == new.num_pixels:
        return Moved(read, written)
    images = new.num_pixels * shape.num_channels * shape.pixel_bytes  # padding mirrors them
    others = shape.plane_bytes - shape.num_channels * shape.pixel_bytes
    padding_mask = new.num_pixels
    return Moved(read + images + shape.num_pixels * others, written + images + new.num_pixels * others + padding_mask)


def out_of_place(shape: Shape, change: Change) -> dict[str, Moved]:
    """Return the bytes of each kernel of a paste out of place."""
    return {"fill_masks": _fill_masks(shape, change), "keep": _keep(shape, change), "paste": _paste(shape, change)}


def in_place(shape: Shape, change: Change, *, own_source: bool = True, reports: bool = False) -> dict[str, Moved]:
    """Return the bytes of each kernel of a paste in place.

    Args:
        shape: of the batch.
        change: by the paste.
        own_source: False where sources are other memory, so that no pixel waits.
        reports: the visibility buffer is returned, and not kept in spare bits of the masks.
    """
    waiting = _waiting(shape, reports)
    return {
        "paste": _paste_in_place(shape, change, waiting, own_source),
        "write": _write(shape, change, waiting, own_source),
    }


class Waiting(NamedTuple):
    """Bytes of a pixel: of masks in which values wait, of other planes, and of masks that keep what is seen or 0."""

    digits: int
    plane_bytes: int
    seen: int


def _waiting(shape: Shape, reports: bool) -> Waiting:
    seen = packed_slots.num_visible_digits(shape.num_layers, shape.num_slots, has_owner=shape.panoptic)
    seen = 0 if reports or seen > shape.num_slots else seen
    bits = {"images": [8 * shape.pixel_bytes] * shape.num_channels}
    bits |= {"normals": [packed_slots.WORD] * 3} if shape.normals else {}
    bits |= {"depth": [packed_slots.WORD]} if shape.depth else {}
    bits |= {"semantic": [packed_slots.WORD] * 2} if shape.semantic and not shape.panoptic else {}
    places = packed_slots.places_of(bits, shape.num_slots - seen)
    plane_bytes = sum(sum(each) // 8 for name, each in bits.items() if name not in places)
    digits = sum(packed_slots.num_digits(*bits[name]) for name in places)
    return Waiting(digits, plane_bytes + _LABEL * (shape.semantic and shape.panoptic), seen)


def total(kernels: Mapping[str, Moved]) -> int:
    """Return all bytes of some kernels."""
    return sum(moved.total for moved in kernels.values())


def _fill_masks(shape: Shape, change: Change) -> Moved:
    size = shape.num_pixels * shape.num_slots
    programs = -(-size // composing.MASK_CHUNK)
    of_slots = (programs + shape.batch_size * shape.num_slots) * (1 + 16 + _BOX)  # a slot may begin within a stretch
    kept = change.kept_boxes * (_LAYER + 1)
    pasted = change.paste_boxes * (_LAYER + (_LAYER if shape.panoptic else 1))
    return Moved(of_slots + kept + pasted, size + change.kept_boxes + change.paste_boxes)


def _keep(shape: Shape, change: Change) -> Moved:
    """Return the bytes of a copy of all planes but masks and labels, and of clearing lost labels."""
    pixels, num_labels = shape.num_pixels, shape.semantic + shape.panoptic
    copied = pixels * (shape.plane_bytes - _LABEL * num_labels)
    flags = shape.num_classes + (shape.num_slots if shape.panoptic else 0)
    programs = -(-pixels // composing.LABEL_CHUNK) if shape.semantic and flags else 0
    masks = change.dropped * shape.height * shape.width if shape.panoptic else 0  # at most: only within their boxes
    lost = _LABEL * (change.lost * num_labels * shape.panoptic + change.ignored)
    return Moved(copied + programs * flags + masks + _LABEL * change.marked, copied + lost)


def _paste(shape: Shape, change: Change) -> Moved:
    owner = change.pasted * (_LAYER + _LABEL) if shape.panoptic else 0
    read = shape.num_pixels * _LAYER + owner + _of_source(shape, change)
    return Moved(read, change.pasted * shape.plane_bytes)


def _of_source(shape: Shape, change: Change) -> int:
    """Bytes of the source that are pasted, and of the target's validity."""
    of_source = shape.plane_bytes - _LABEL * shape.panoptic
    return change.pasted * (_DEPTH + _VALID) * shape.depth + change.source * of_source


def _seen(shape: Shape, change: Change, waiting: Waiting) -> int:
    """Bytes that tell what is seen: at each pixel the layer, at pasted ones the owner."""
    if waiting.seen:
        return shape.num_pixels * waiting.seen
    return shape.num_pixels * _LAYER + change.pasted * _LAYER * shape.panoptic


def _paste_in_place(shape: Shape, change: Change, waiting: Waiting, own_source: bool) -> Moved:
    tiles, ids = _num_tiles(shape, _paste_tile(shape)), change.pasted * _LABEL * shape.panoptic
    slots = tiles * shape.num_slots * 8 + change.mask_pixels * (1 if shape.panoptic else 2)
    digits = change.pasted * waiting.digits
    read = _seen(shape, change, waiting) + _of_source(shape, change) + slots + (digits if own_source else ids)
    pasted = digits + change.pasted * waiting.plane_bytes if own_source else change.pasted * shape.plane_bytes
    return Moved(read, pasted + change.mask_pixels)


def _write(shape: Shape, change: Change, waiting: Waiting, own_source: bool) -> Moved:
    tiles, plane = _num_tiles(shape, composing.TILE), shape.height * shape.width
    flags = tiles * (2 * shape.num_slots + shape.num_classes)
    looked_at = change.dropped * plane + shape.num_pixels * _DEPTH * shape.depth + change.marked * _LABEL
    cleared = change.pasted * (waiting.seen + waiting.digits * own_source)
    read = _seen(shape, change, waiting) + flags + looked_at + cleared
    lost = _LABEL * (change.orphans * (shape.semantic + shape.panoptic) + change.ignored)
    written = cleared + change.hidden + change.dropped_pixels + lost
    if own_source:
        read += change.pasted * (waiting.plane_bytes + _LABEL * shape.panoptic)
        written += change.pasted * shape.plane_bytes
    return Moved(read, written)


def _paste_tile(shape: Shape) -> tuple[int, int]:
    return composing.SURFACE_TILE if shape.depth or shape.normals else composing.TILE


def _num_tiles(shape: Shape, tile: tuple[int, int]) -> int:
    return shape.batch_size * -(-shape.height // tile[0]) * -(-shape.width // tile[1])
