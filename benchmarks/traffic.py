"""Bytes that the kernels of the triton backend move, from shapes, grids and tiles, next to those of a clone.

Counted is what kernels ask of memory, and a source pixel once for all pixels and taps that read it: caches are large
enough for that, and for nothing else. In particular:

- zeros of masks, and then each pixel in the box of a survivor or a paste once more, which is one byte a store;
- pixels that are pasted over, once as they are kept and once as they are pasted;
- the layer seen at each pixel, once for each kernel that goes over all tiles;
- the flags, boxes and slots of each program.

Not counted are the tables of the axes, a few KiB of a layer that stay in the caches. This file has the kernels of the
pixels; `benchmarks.look_traffic` has the tables and the looks before them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from segpaste.engine.triton.pixels import rendering

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


def out_of_place(shape: Shape, change: Change) -> dict[str, Moved]:
    """Return the bytes of each kernel of a paste out of place."""
    return {"fill_masks": _fill_masks(shape, change), "keep": _keep(shape, change), "paste": _paste(shape, change)}


def in_place(shape: Shape, change: Change, *, own_source: bool = True) -> dict[str, Moved]:
    """Return the bytes of each kernel of a paste in place; ``own_source`` is False where sources are other memory."""
    paste, tiles = _paste(shape, change), _num_tiles(shape, _paste_tile(shape))
    slots = tiles * shape.num_slots * 8 + change.mask_pixels * (_LAYER if shape.panoptic else 1) + change.mask_pixels
    return {
        "paste": Moved(paste.read + slots, paste.written + change.mask_pixels),
        "write": _write(shape, change, own_source),
    }


def total(kernels: Mapping[str, Moved]) -> int:
    """Return all bytes of some kernels."""
    return sum(moved.total for moved in kernels.values())


def _fill_masks(shape: Shape, change: Change) -> Moved:
    size = shape.num_pixels * shape.num_slots
    programs = -(-size // rendering.MASK_CHUNK)
    of_slots = (programs + shape.batch_size * shape.num_slots) * (1 + 16 + _BOX)  # a slot may begin within a stretch
    kept = change.kept_boxes * (_LAYER + 1)
    pasted = change.paste_boxes * (_LAYER + (_LAYER if shape.panoptic else 1))
    return Moved(of_slots + kept + pasted, size + change.kept_boxes + change.paste_boxes)


def _keep(shape: Shape, change: Change) -> Moved:
    """Return the bytes of a copy of all planes but masks and labels, and of clearing lost labels."""
    pixels, num_labels = shape.num_pixels, shape.semantic + shape.panoptic
    copied = pixels * (shape.plane_bytes - _LABEL * num_labels)
    flags = shape.num_classes + (shape.num_slots if shape.panoptic else 0)
    programs = -(-pixels // rendering.LABEL_CHUNK) if shape.semantic and flags else 0
    masks = change.dropped * shape.height * shape.width if shape.panoptic else 0  # at most: only within their boxes
    lost = _LABEL * (change.lost * num_labels * shape.panoptic + change.ignored)
    return Moved(copied + programs * flags + masks + _LABEL * change.marked, copied + lost)


def _paste(shape: Shape, change: Change) -> Moved:
    owner = change.pasted * (_LAYER + _LABEL) if shape.panoptic else 0
    validity = change.pasted * (_DEPTH + _VALID) * shape.depth
    of_source = shape.plane_bytes - _LABEL * shape.panoptic
    read = shape.num_pixels * _LAYER + owner + validity + change.source * of_source
    return Moved(read, change.pasted * shape.plane_bytes)


def _write(shape: Shape, change: Change, own_source: bool) -> Moved:
    tiles, plane = _num_tiles(shape, rendering.TILE), shape.height * shape.width
    flags = tiles * (2 * shape.num_slots + shape.num_classes)
    waiting = change.pasted * shape.plane_bytes * own_source
    looked_at = change.dropped * plane + shape.num_pixels * _DEPTH * shape.depth + change.marked * _LABEL
    lost = _LABEL * (change.orphans * (shape.semantic + shape.panoptic) + change.ignored)
    written = waiting + change.hidden + change.dropped_pixels + lost
    return Moved(shape.num_pixels * _LAYER + flags + waiting + looked_at, written)


def _paste_tile(shape: Shape) -> tuple[int, int]:
    return rendering.SURFACE_TILE if shape.depth or shape.normals else rendering.TILE


def _num_tiles(shape: Shape, tile: tuple[int, int]) -> int:
    return shape.batch_size * -(-shape.height // tile[0]) * -(-shape.width // tile[1])
