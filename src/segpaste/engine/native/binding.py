"""Functions of the native library on tensors, which fill the records of ``records.hpp`` word by word.

A record is an array of int64: numbers, addresses of row-major tensors, and addresses and strides of planes, whose lines
must be dense unless they are channels-last images. Other tensors are copied first, except those that are written.
"""

from __future__ import annotations

from array import array
from typing import Final

import torch
from torch import Tensor

from segpaste.engine.native import _threads
from segpaste.engine.native._memory import address
from segpaste.engine.native.library import call, workspace, workspaces
from segpaste.engine.planes import (
    PLANES,
    ROWS,
    can_be_written,
    empty_plane,
    present_planes,
    share_memory,
    write_back,
    written_fields,
)
from segpaste.engine.reference import classmix
from segpaste.engine.schema import (
    Classes,
    Drawn,
    DrawRules,
    DrawTables,
    LayerRows,
    Mixture,
    Outcome,
    Pick,
    Placement,
    PlacementCounts,
    Scene,
    Sources,
    Survey,
    Targets,
)
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.check import MAX_FED_BACK_ID, not_none

_KINDS: Final = {torch.uint8: 0, torch.float32: 1, torch.float16: 2, torch.bfloat16: 3}
_PICKS: Final = {"others": 1, "own": 2, "same": 3}
_ERRORS: Final = {
    1: "no memory",
    2: "expected source_idx to be rows of the source batch; mend the strategy",
    3: (
        "expected scale_num and scale_den from 1 to 2**40 in every layer (less on canvases of more than 2**20 lines or "
        "columns); mend the source strategy"
    ),
    4: (
        "expected at most as many carried slots as the target has free ones (num_free of the request); mend the source "
        "strategy"
    ),
    5: "expected translations of at most 2**60 pixels; mend the source strategy",
    6: "expected at most 32767 layers, and beside a panoptic map as many slots in the source; mend the source strategy",
}


def survey(
    batch: PaddedBatchedDenseSample, classes: Classes, ignore_index: int | None = None, *, whole_only: bool = False
) -> Survey:
    """See `segpaste.engine.reference.survey.survey`."""
    b, k = batch.labels.shape
    eligible, occupied, num_free, extent = _flags(b, k), _integers(b, k, 4), _integers(b), _integers(b, 2)
    boxes, labels, valid = batch.boxes.contiguous(), batch.labels.contiguous(), batch.instance_valid.contiguous()
    padding, is_thing = _lined(batch.padding_mask), _dense_or_none(classes.is_thing)
    semantic = is_stuff = present = None
    if ignore_index is not None:
        num_mixed = classmix.NUM_CLASSES if is_thing is None else len(is_thing)
        semantic, is_stuff = _lined(batch.semantic_maps), _dense_or_none(classes.is_stuff)
        present = _flags(b, num_mixed)
    words = [
        *(b, k, *batch.canvas_size, 0 if is_thing is None else len(is_thing)),
        *(address(boxes), address(labels), 0, address(valid)),
        *_plane(padding),
        _address(is_thing),
        *map(_address, (eligible, occupied, num_free, extent)),
        _address(is_stuff),
        *_plane(semantic),
        *(ignore_index or 0, 0 if present is None else present.shape[1], _address(present), whole_only),
    ]
    _call("segpaste_survey", words)
    has_present = None if present is None else present.any(1)
    return Survey(eligible, occupied, num_free, extent, present, has_present)


def choose_rows(candidates: Tensor, seeds: Tensor, num_layers: int) -> LayerRows:
    """See `segpaste.engine.reference.draws.draw.choose_rows`."""
    b = seeds.shape[0]
    rows = LayerRows(_integers(b, num_layers), _flags(b, num_layers))
    known = seeds.contiguous(), candidates.contiguous()
    _call("segpaste_rows", [b, num_layers, *map(_address, (*known, *rows))], workspace())
    return rows


def draw(targets: Targets, sources: Sources, tables: DrawTables, rules: DrawRules, pick: Pick | LayerRows) -> Drawn:
    """See `segpaste.engine.reference.draws.draw.draw`.

    Raises:
        ValueError: the tables of the sources differ in shape; the library does not check bounds.
    """
    (b, k), (s, k_s), num_layers = targets.occupied.shape[:2], sources.eligible.shape, rules.num_layers
    if sources.boxes.shape != (s, k_s, 4) or sources.labels.shape != (s, k_s) or sources.extent.shape != (s, 2):
        raise ValueError(
            f"draw: expected boxes {[s, k_s, 4]}, labels {[s, k_s]} and extent {[s, 2]}, as eligible, got "
            f"{[*sources.boxes.shape]}, {[*sources.labels.shape]} and {[*sources.extent.shape]}"
        )
    if isinstance(pick, LayerRows):
        chosen, how = LayerRows(*map(Tensor.contiguous, pick)), 0
    else:
        chosen, how = LayerRows(_integers(b, num_layers), _flags(b, num_layers)), _PICKS[pick]
    pairs = [_integers(b, num_layers, 2) for _ in range(3)]
    hflip, carried = _flags(b, num_layers), _flags(b, num_layers, k_s)
    counts = [_integers(b) for _ in range(6)]
    known = [*map(_dense_or_none, (*targets, *sources)), *map(Tensor.contiguous, tables)]
    regions = (0, 0, 0) if targets.regions is None else targets.regions.shape[1:]
    words = [
        *(b, num_layers, k, s, k_s, how),
        *map(_address, known),
        *(tables.size_table.shape[0], tables.inverse_weights.shape[0], tables.region_table.shape[0], *regions),
        *rules[1:],
        *map(_address, (*chosen, *pairs, hflip, carried, *counts)),
    ]
    _call("segpaste_draw", words, workspace())
    scale_num, scale_den, translate = pairs
    placement = Placement(*chosen, scale_num, scale_den, translate, hflip, carried)
    return placement, PlacementCounts(*counts)


def draw_classes(
    batch: PaddedBatchedDenseSample, found: Survey, rows: LayerRows, tables: DrawTables
) -> tuple[Placement, PlacementCounts, Mixture]:
    """See `segpaste.engine.reference.classmix.draw_classes`."""
    (b, num_layers), k = rows.source_idx.shape, batch.max_instances
    present = not_none(found.present)
    num_classes = present.shape[1]
    classes, carried = _flags(b, num_layers, num_classes), _flags(b, num_layers, k + 1)
    tried, no_source, no_free_slot = (_integers(b) for _ in range(3))
    planes, instances = _lined_planes(batch), [getattr(batch, name).contiguous() for name in ROWS]
    given = not_none(batch.sample_seeds), found.num_free, found.eligible, present, *rows, tables.limits
    known = [*map(Tensor.contiguous, given)]
    words = [
        *(b, num_layers, k, num_classes, *batch.canvas_size),
        *(word for plane in planes for word in _plane(plane)),
        *map(_address, (*instances, *known, classes, carried, tried, no_source, no_free_slot)),
    ]
    _call("segpaste_draw_classes", words, workspace())
    counts = PlacementCounts(tried, no_source, no_free_slot, *(torch.zeros_like(tried) for _ in range(3)))
    return classmix.where_they_stand(rows, carried), counts, Mixture(classes, found.eligible)


def compose(scene: Scene, placement: Placement, *, with_layer: bool, in_place: bool) -> Outcome:
    """See `segpaste.engine.reference.stages.compose`.

    Raises:
        ValueError: a layer's source row, scale or slots are out of range.
        MemoryError: there is not enough memory.
    """
    target = scene.target
    if in_place and not can_be_written(target):
        found = _compose(scene, placement, with_layer=with_layer, in_place=False)
        return found._replace(batch=write_back(target, found.batch))
    return _compose(scene, placement, with_layer=with_layer, in_place=in_place)


def _compose(scene: Scene, placement: Placement, *, with_layer: bool, in_place: bool) -> Outcome:
    target, source, rules = scene.target, scene.source, scene.rules
    (b, layers, k_s), (height, width) = placement.carried.shape, target.canvas_size
    if k_s != source.max_instances + (scene.mixture is not None):
        raise ValueError(f"expected a placement of {source.max_instances} slots, the source's, got {k_s}")
    mixed = [None, None] if scene.mixture is None else [*map(Tensor.contiguous, scene.mixture)]
    planes = present_planes(target)
    new = {} if in_place else {name: empty_plane(name, plane) for name, plane in planes.items()}
    given = _lined_planes(target)
    origin = given if source is target else _lined_planes(source)
    out = given if in_place else [new.get(name) for name in PLANES] + [None]
    rows = [getattr(target, name).contiguous() for name in ROWS]
    new_rows = [torch.empty(row.shape, dtype=row.dtype, device="cpu") for row in rows]
    drawn = [getattr(placement, name).contiguous() for name in _MAPS]
    k = target.max_instances
    seen = [_flags(b, layers, k_s), _integers(b, 3), *(_integers(b, k) for _ in range(3))]
    layer = torch.empty(b if with_layer else 0, height, width, dtype=torch.int16, device="cpu")
    boxes, labels = source.boxes.contiguous(), source.labels.contiguous()
    is_foreign = in_place and source is not target
    cameras: list[Tensor | None] = [None, None]
    if target.metric_depth and target.depth is not None and source.depth is not None:
        cameras = [_dense_or_none(side.camera_intrinsics) for side in (target, source)]
    tables = [_dense_or_none(t) for t in (scene.classes.is_thing, scene.watched, scene.rank)]
    num_threads, shared = _threads.num_threads(b, _num_bytes(target)), array("q", bytes(16 * b))
    words = [
        *(b, layers, k, k_s, source.batch_size, height, width, *source.canvas_size),
        *(target.images.shape[1], _KINDS[target.images.dtype]),
        *(word for side in (given, origin, out) for plane in side for word in _plane(plane)),
        *map(_address, rows),
        *(address(boxes), address(labels), 0, 0),
        *map(_address, new_rows),
        *map(_address, drawn),
        *map(_address, cameras),
        *(word for table in tables for word in (_address(table), 0 if table is None else len(table))),
        *(_address(mixed[0]), 0 if mixed[0] is None else mixed[0].shape[2], _address(mixed[1])),
        *rules,
        *(MAX_FED_BACK_ID, scene.is_panoptic, scene.needs_owner, scene.mixture is not None),
        *(in_place, source is target, is_foreign and share_memory([*given, *rows], [*origin, boxes, labels])),
        *map(_address, seen),
        address(layer) if with_layer else 0,
        *(num_threads, 0, 0, 0, 0, shared.buffer_info()[0], shared.buffer_info()[0] + 8 * b),
    ]
    _call("segpaste_compose", words, workspaces(num_threads).buffer_info()[0], _threads.parallel())
    if in_place:  # autograd did not see the library write
        torch.autograd.graph.increment_version([*written_fields(target).values()])
        return Outcome(target, *seen, layer)  # type: ignore[call-arg]
    return Outcome(target.derived(**new, **dict(zip(ROWS, new_rows, strict=True))), *seen, layer)  # type: ignore[call-arg]


_MAPS = ("source_idx", "scale_num", "scale_den", "translate", "hflip", "carried")


def _num_bytes(batch: PaddedBatchedDenseSample) -> int:
    return batch.images.nbytes + (0 if batch.instance_masks is None else batch.instance_masks.nbytes)


def _call(name: str, words: list[int], *arguments: int) -> None:
    """Call a function of the library on a record, and raise the error that it returns."""
    error = call(name, words, *arguments)
    if error == 1:
        raise MemoryError("BatchCopyPaste: no memory for a paste; paste smaller batches, or into fewer slots")
    if error:
        raise ValueError(f"BatchCopyPaste: {_ERRORS[error]}")


def _integers(*shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.int64, device="cpu")


def _flags(*shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.bool, device="cpu")


def _dense_or_none(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.contiguous()


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else address(tensor)


def _lined(plane: Tensor | None) -> Tensor | None:
    """Return a plane whose lines are dense: itself, or a copy."""
    return plane if plane is None or plane.stride(-1) == 1 else plane.contiguous()


def _lined_planes(batch: PaddedBatchedDenseSample) -> list[Tensor | None]:
    """Return the planes of a batch with dense lines, the padding mask last; images may be channels-last."""
    images = batch.images
    is_last = images.is_contiguous(memory_format=torch.channels_last)
    return [
        images if is_last else _lined(images),
        *(_lined(getattr(batch, name)) for name in (*PLANES[1:], "padding_mask")),
    ]


def _plane(plane: Tensor | None) -> tuple[int, ...]:
    """Return the words of a plane [B, H, W] or [B, C, H, W]: its address and four strides."""
    if plane is None:
        return (0,) * 5
    strides = plane.stride()
    if len(strides) == 3:
        strides = (strides[0], 0, *strides[1:])
    return address(plane), *strides
