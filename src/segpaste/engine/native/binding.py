"""The functions of the native library on tensors: what each record of ``records.hpp`` holds, word for word.

A record is an array of int64: numbers, and addresses of tensors that lie in row-major order. Whatever lies otherwise is
copied first, but for images in channels-last order, and never where it is written.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from segpaste.engine.native.library import load, workspace
from segpaste.engine.native.threads import on_threads
from segpaste.engine.operands import Planes, empty_plane
from segpaste.engine.whole_operands import (
    ClassKinds,
    DrawRanges,
    Draws,
    DrawTables,
    LayerMaps,
    Outcome,
    Rows,
    Rules,
    Survey,
)

_KINDS: Final = {torch.uint8: 0, torch.float32: 1, torch.float16: 2, torch.bfloat16: 3}
_ERRORS: Final = {
    1: "no memory",
    2: "expected source_idx to be rows of the source batch; mend the strategy",
    3: "expected scales above 0 in every layer; mend the source strategy",
    4: (
        "expected at most as many carried slots as the target has free ones (num_free of the request); mend the source "
        "strategy"
    ),
}
_ABSENT: Final = (0, 0, 0, 0, 0)


def survey(rows: Rows, padding_mask: Tensor | None, canvas_size: tuple[int, int], is_thing: Tensor | None) -> Survey:
    """Find what a placement must know of a batch.

    Args:
        rows: the instances; boxes, labels and validity are read.
        padding_mask: [B, 1, H, W] bool, or None.
        canvas_size: (H, W).
        is_thing: [num_classes] bool, the classes that may be pasted, or None for all.
    """
    b, k = rows.labels.shape
    eligible, occupied = torch.empty(b, k, dtype=torch.bool), torch.empty(b, k, 4, dtype=torch.int64)
    num_free, extent = torch.empty(b, dtype=torch.int64), torch.empty(b, 2, dtype=torch.int64)
    given = Rows(*map(_dense, rows))
    padding, kinds = _lined(padding_mask), _dense_or_none(is_thing)
    words = [
        *(b, k, *canvas_size, 0 if kinds is None else len(kinds)),
        *(t.data_ptr() for t in given),
        *_plane(padding),
        *map(_address, (kinds, eligible, occupied, num_free, extent)),
    ]
    job = _record(words)
    load().segpaste_survey(job.ctypes.data)
    return Survey(eligible, occupied, num_free, extent, labels=rows.labels)


def draw(
    seeds: Tensor, found: Survey, tables: DrawTables, num_layers: int, ranges: DrawRanges
) -> tuple[Tensor, Tensor, Draws]:
    """Choose sources among the other rows, and draw slots, scales, flips and places.

    Args:
        seeds: [B] int64.
        found: of the batch, whose rows are targets and sources.
        tables: the numbers of `segpaste.augmentation.schedule.Schedule`.
        num_layers: L.
        ranges: see there.

    Returns:
        The sources' rows [B, L] int64, whether there is one [B, L] bool, and the draws.

    Raises:
        ValueError: the survey's boxes or labels are not those of its slots.
    """
    b, k = found.eligible.shape
    shapes = tuple(found.occupied.shape), tuple(found.labels.shape)
    if shapes != ((b, k, 4), (b, k)):  # the library does not look where it reads
        raise ValueError(f"draw: expected occupied of shape {(b, k, 4)}, and labels, as eligible, got {shapes}")

    def integers(*shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.int64)

    def flags(*shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.bool)

    source_idx, layer_valid = integers(b, num_layers), flags(b, num_layers)
    maps = (integers(b, num_layers, 2), integers(b, num_layers, 2), integers(b, num_layers, 2), flags(b, num_layers))
    out = Draws(*maps, flags(b, num_layers, k), *(integers(b) for _ in range(4)))
    seeds, known = _dense(seeds), Survey(*map(_dense, found))
    limits, sizes, weights, logs = map(_dense, tables)
    of_survey = known.eligible, known.occupied, known.num_free, known.extent, known.labels
    words = [
        *(b, k, num_layers, seeds.data_ptr()),
        *(t.data_ptr() for t in of_survey),
        *(limits.data_ptr(), sizes.data_ptr(), len(sizes), weights.data_ptr(), len(weights), logs.data_ptr()),
        *map(int, ranges),
        *(t.data_ptr() for t in (source_idx, layer_valid, *out)),
    ]
    job = _record(words)
    _expect(load().segpaste_draw(job.ctypes.data, workspace()))
    return source_idx, layer_valid, out


def paste(
    target: Planes,
    source: Planes,
    target_rows: Rows,
    source_rows: Rows,
    maps: LayerMaps,
    kinds: ClassKinds,
    rules: Rules,
    with_layer: bool,
    in_place: bool,
) -> Outcome:
    """Do a whole paste: what `segpaste.augmentation.frame.Frame` does stage by stage.

    Args:
        target: planes of the batch that is pasted into.
        source: planes of the source batch, maybe the same.
        target_rows: its instances.
        source_rows: those of the source; boxes and labels are read.
        maps: what was drawn.
        kinds: things, stuff and priorities.
        rules: see there.
        with_layer: give ``Outcome.layer``.
        in_place: write into the target's planes and rows, all of them in row-major order (images may be channels last).

    Raises:
        ValueError: a layer's source row, scale or slots are out of range.
        MemoryError: there is none.
    """
    (b, layers, k_s), (channels, height, width) = maps.carried.shape, target.images.shape[1:]
    if k_s != source.instance_masks.shape[1]:
        raise ValueError(f"expected a placement of {source.instance_masks.shape[1]} slots, the source's, got {k_s}")
    k = target.instance_masks.shape[1]
    reads_itself = source is target
    given = _lined_planes(target)
    origin = given if reads_itself else _lined_planes(source)
    out = target if in_place else _room_for(target)
    rows = target_rows if in_place else Rows(*map(_dense, target_rows))
    new_rows = Rows(*(torch.empty(t.shape, dtype=t.dtype) for t in target_rows))
    source_boxes, source_labels = _dense(source_rows.boxes), _dense(source_rows.labels)
    drawn = [_dense(t) for t in maps[:6]]
    depth_scale = _dense_or_none(maps.depth_scale)
    tables = [_dense_or_none(t) for t in kinds]
    carried = torch.empty(maps.carried.shape, dtype=torch.bool)
    dropped = torch.empty(b, 3, dtype=torch.int64)
    slots = [torch.empty(b, k, dtype=torch.int64) for _ in range(2)]
    layer = torch.empty(b if with_layer else 0, height, width, dtype=torch.int16)
    num_threads = max(1, min(torch.get_num_threads(), b))
    words = [
        *(b, layers, k, k_s, len(source.images), height, width, *source.images.shape[2:], channels),
        _KINDS[target.images.dtype],
        *(word for planes in (given, origin, out) for plane in planes for word in _plane(plane)),
        *(t.data_ptr() for t in rows),
        *(source_boxes.data_ptr(), source_labels.data_ptr(), 0, 0),
        *(t.data_ptr() for t in new_rows),
        *(t.data_ptr() for t in drawn),
        _address(depth_scale),
        *(word for table in tables for word in (_address(table), 0 if table is None else len(table))),
        *map(int, rules),
        *(in_place, reads_itself, in_place and not reads_itself and _share_memory(target, source)),
        *(carried.data_ptr(), dropped.data_ptr(), slots[0].data_ptr(), slots[1].data_ptr()),
        layer.data_ptr() if with_layer else 0,
        *(num_threads, 0, 0, 0, 0),
    ]
    job = _record(words)
    address, function = job.ctypes.data, load().segpaste_compose
    for error in on_threads(num_threads, lambda: function(address, workspace())):
        _expect(error)
    written = target_rows if in_place else new_rows
    return Outcome(out, written, carried, dropped, slots[0], slots[1], layer)


def _share_memory(one: Planes, other: Planes) -> bool:
    """Tell whether some plane of one lies in the memory of some plane of the other."""
    places = [{p.untyped_storage().data_ptr() for p in planes if p is not None} for planes in (one, other)]
    return not places[0].isdisjoint(places[1])


def _record(words: list[int]) -> NDArray[np.int64]:
    """Lay out a record as ``records.hpp`` has it; it must outlive the call."""
    return np.array(words, np.int64)


def _expect(error: int) -> None:
    if error == 1:
        raise MemoryError("BatchCopyPaste: no memory for a paste; paste smaller batches, or into fewer slots")
    if error:
        raise ValueError(f"BatchCopyPaste: {_ERRORS[error]}")


def _dense(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous()


def _dense_or_none(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else _dense(tensor)


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def _lined(plane: Tensor | None) -> Tensor | None:
    """Return a plane whose lines are dense: itself, or a copy."""
    return plane if plane is None or plane.stride(-1) == 1 else plane.contiguous()


def _lined_planes(planes: Planes) -> Planes:
    """Return planes whose lines are dense; images may be channels last."""
    images = planes.images
    is_last = images.is_contiguous(memory_format=torch.channels_last)
    return Planes(images if is_last else _lined(images), *map(_lined, planes[1:]))  # type: ignore[arg-type]


def _plane(plane: Tensor | None) -> tuple[int, ...]:
    """The words of a plane [B, H, W] or [B, C, H, W]: its address and four strides."""
    if plane is None:
        return _ABSENT
    strides = plane.stride()
    if len(strides) == 3:
        strides = (strides[0], 0, *strides[1:])
    return plane.data_ptr(), *strides


def _room_for(target: Planes) -> Planes:
    """Planes of the output, not filled."""
    planes = target._replace(padding_mask=None)._asdict().items()
    return Planes(*(None if plane is None else empty_plane(name, plane) for name, plane in planes))  # type: ignore[arg-type]
