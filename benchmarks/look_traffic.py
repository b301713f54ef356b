"""Bytes moved by the tables and the looks of the Triton backend, for `benchmarks.traffic`.

Counted as there: a source pixel once, and a box once for each tile. Not counted are the tables of the axes where a look
reads them, and its counters, a few words for each tile and instance: they stay in the caches. Nor are the draws: they
read padding masks, for ClassMix semantic maps, and otherwise a few bytes for each slot of each layer.

All images take pastes. A look that no row needs reads a word in each program; one that a row needs moves for that row
what the first one does, without its copies and without the classes and ids of tiles where no layer is seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from segpaste.engine.triton.visibility import settling

from .traffic import Change, Moved, Shape, clone, in_place, out_of_place, total

_LABEL, _DEPTH, _VALID, _LAYER = 8, 4, 1, 2
_EDGE, _BOX, _WORD, _TAP = 8, 32, 4, 8
_LOOKS, _ROUND, _NUM_MEASURES, _SLOT = 3, 16, 5, 55


@dataclass(frozen=True)
class Looked:
    """Pixels and boxes that a first look reads.

    Attributes:
        boxes: pixels in the boxes of the target's instances.
        tried: pixels at which the masks of the pastes are read: those of their boxes, up to the first mask of their
            layer that covers them.
        covered: pixels that a mask of a layer covers, added up over the layers.
        open: those of them that may be pasted over.
        shown: those of them that have a class in the source.
        source: source pixels at which depth is read for them; about ``shown`` over the square of the scale.
        instances: the target's instances.
        pastes: the pastes that were drawn.
        num_layers: L.
        source_slots: slots of a source.
        taps: taps of the image filter.
        touched: pairs of a tile and a layer some of whose pastes may touch it.
        counts_classes: a taxonomy says which classes are stuff, and the batch is panoptic.
        guards: classes or instances may be guarded, which takes a look of its own.
    """

    boxes: int
    tried: int
    covered: int
    open: int
    shown: int
    source: int
    instances: int
    pastes: int
    num_layers: int
    source_slots: int
    taps: int
    touched: int
    counts_classes: bool = False
    guards: bool = False


def shares(pasted_fracs: Sequence[float] = (0, 0.05, 0.2)) -> list[dict[str, Any]]:
    """Return the bytes of pastes as multiples of a clone's: 8 images of 1024^2, float32, these shares of them pasted.

    All instances fill two canvases, and those of a paste twice its visible pixels. Half the slots hold an instance. One
    layer pastes as many as a quarter of the slots, all over the canvas. An instance of each image loses its row.
    """
    found = []
    for num_slots, fields in product((32, 100), ((), ("semantic", "panoptic", "depth", "normals"))):
        classes = 20 if fields else 0
        shape = Shape(8, num_slots, 1024, 1024, **dict.fromkeys(fields, True), num_classes=classes)
        for pasted in (int(frac * shape.num_pixels) for frac in pasted_fracs):
            row = {"slots": num_slots, "planes": "five modalities" if fields else "image and masks"}
            row |= {"pasted": pasted / shape.num_pixels, "clone_bytes": clone(shape).total}
            found.append({**row, **_share(shape, pasted)})
    return found


def _share(shape: Shape, pasted: int) -> dict[str, float]:
    pixels, b, k = shape.num_pixels, shape.batch_size, shape.num_slots
    change = Change(pasted, pasted, 2 * pixels, 2 * pasted, pasted, hidden=pasted, dropped=b)
    tiles, panoptic = _num_tiles(shape, settling.TILE), shape.panoptic
    looked = Looked(
        boxes=2 * pixels,
        tried=2 * pasted,
        covered=pasted,
        open=pasted,
        shown=pasted,
        source=pasted,
        instances=b * k // 2,
        pastes=b * k // 4,
        num_layers=1,
        source_slots=k,
        taps=4,
        touched=tiles if pasted else 0,
        counts_classes=panoptic,
        guards=panoptic,
    )
    whole, found = clone(shape).total, {}
    for name, kernels in (("out_of_place", out_of_place(shape, change)), ("in_place", in_place(shape, change))):
        seen = looks(shape, looked, inplace=name == "in_place")
        found |= {name: (total(kernels) + total(seen)) / whole, f"pixels_{name}": total(kernels) / whole}
    return found


def looks(shape: Shape, looked: Looked, *, inplace: bool) -> dict[str, Moved]:
    """Return the bytes of the tables, and of the first look; the later ones find that no row needs them."""
    idle = _num_tiles(shape, settling.TILE) * _WORD
    return {
        "tables": Moved(0, _tables(shape, looked)),
        "look": _look(shape, looked, inplace),
        "later looks": Moved(idle * (1 + looked.guards), 0),
    }


def plane_reads(shape: Shape, looked: Looked, *, inplace: bool) -> dict[str, int]:
    """Return the bytes that the first look reads of each plane, by the names of the kernels' arguments."""
    copied = shape.num_pixels * _LABEL
    counts = copied if shape.semantic and (looked.counts_classes or not inplace) else 0
    return {
        "target.masks": looked.boxes,
        "target.semantic": counts + _LABEL * looked.covered * shape.semantic,
        "target.panoptic": copied * shape.panoptic,
        "target.depth": _DEPTH * looked.shown * shape.depth,
        "target.depth_valid": _VALID * looked.shown * shape.depth,
        "source.masks": looked.tried,
        "source.semantic": _LABEL * looked.open * shape.semantic,
        "source.depth": _DEPTH * looked.source * shape.depth,
        "source.depth_valid": _VALID * looked.source * shape.depth,
    }


def _look(shape: Shape, looked: Looked, inplace: bool) -> Moved:
    tiles = _num_tiles(shape, settling.TILE)
    of_layers = tiles * looked.num_layers * 6 * _WORD
    of_instances = tiles * (shape.num_slots + _BOX * looked.instances // shape.batch_size)
    carried = looked.pastes // (shape.batch_size * looked.num_layers)
    of_pastes = looked.touched * (looked.source_slots + _BOX * carried)
    read = sum(plane_reads(shape, looked, inplace=inplace).values())
    layers = shape.num_pixels * _LAYER * (1 + shape.panoptic)
    labels = 0 if inplace else shape.num_pixels * _LABEL * (shape.semantic + shape.panoptic)
    return Moved(of_layers + of_instances + of_pastes + read, layers + labels + _decisions(shape, looked))


def _decisions(shape: Shape, looked: Looked) -> int:
    """Return the bytes that the last programs of the rows write, if no row is looked at again."""
    num_pastes = looked.num_layers * looked.source_slots
    guards = (_WORD + _WORD * shape.num_classes) * looked.guards
    classes = shape.num_classes * (1 if looked.counts_classes else 0)
    of_row = _WORD + guards + 3 * _EDGE + _EDGE * num_pastes + _SLOT * shape.num_slots + classes
    return shape.batch_size * of_row + _WORD * looked.pastes


def _tables(shape: Shape, looked: Looked) -> int:
    """Return the bytes of the tables of the axes, of the boxes and labels of the slots, and of the zeros."""
    layers, sides = shape.batch_size * looked.num_layers, shape.height + shape.width
    linear = 2 if shape.depth or shape.normals else 0
    axes = layers * sides * (_WORD + _TAP * (looked.taps + linear))
    of_layers = layers * (4 * _WORD + _WORD + looked.source_slots * (_BOX + 1 + 2 * _EDGE))
    slots = shape.batch_size * shape.num_slots * _BOX
    kept, pasted = _rounded(shape.num_slots), _rounded(looked.num_layers * looked.source_slots)
    classes = _rounded(shape.num_classes)
    words = _LOOKS * (_NUM_MEASURES * (kept + pasted) + classes + _ROUND) + kept + classes + 3 * _ROUND
    return axes + of_layers + slots + shape.batch_size * words * _WORD


def _rounded(size: int) -> int:
    return -(-size // _ROUND) * _ROUND


def _num_tiles(shape: Shape, tile: tuple[int, int]) -> int:
    return shape.batch_size * -(-shape.height // tile[0]) * -(-shape.width // tile[1])
