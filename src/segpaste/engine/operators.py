"""Engine for compiled code: custom operators that call the backend of the device.

Eager and compiled code therefore give the same bits, and no backend is compiled. Operators take and return lists of
tensors, because their schemas cannot express records. `extend` is no operator: copies that a compiler fuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from segpaste.engine.crop_operators import stage_crops
from segpaste.engine.planes import ROWS, empty_plane, present_planes, written_fields
from segpaste.engine.reference.classmix import NUM_CLASSES
from segpaste.engine.reference.extend import extend
from segpaste.engine.schema import (
    Classes,
    Drawn,
    DrawRules,
    DrawTables,
    HeldRules,
    LayerRows,
    Mixture,
    Outcome,
    PasteRules,
    Pick,
    Placement,
    PlacementCounts,
    Scene,
    Sources,
    Survey,
    Targets,
)
from segpaste.engine.select import eager_engine
from segpaste.types import FIELDS, PaddedBatchedDenseSample

Tensors = list[Tensor]
Optionals = list[Tensor | None]
Findings = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]

__all__ = ["choose_rows", "compose", "draw", "draw_classes", "extend", "stage_crops", "survey"]

_NAMES = tuple(field.batched_name for field in FIELDS)
_MAPS = ("source_idx", "layer_valid", "scale_num", "scale_den", "translate", "hflip", "carried")
_COUNTS = ("tried", "no_source", "no_free_slot", "does_not_fit", "outside_region", "covers_too_much")
_GIVEN = "given"


def survey(
    batch: PaddedBatchedDenseSample, classes: Classes, ignore_index: int | None = None, *, whole_only: bool = False
) -> Survey:
    """See `segpaste.engine.reference.survey.survey`."""
    return Survey(*_survey(_fields(batch), list(classes), ignore_index, whole_only))


def choose_rows(candidates: Tensor, seeds: Tensor, num_layers: int) -> LayerRows:
    """See `segpaste.engine.reference.draws.draw.choose_rows`."""
    return LayerRows(*_choose_rows(candidates, seeds, num_layers))


def draw(
    targets: Targets, sources: Sources, tables: DrawTables, rules: DrawRules | HeldRules, pick: Pick | LayerRows
) -> Drawn:
    """See `segpaste.engine.reference.draws.draw.draw`."""
    rows, how = (list(pick), _GIVEN) if isinstance(pick, LayerRows) else ([], pick)
    drawn = _draw(list(targets), list(sources), list(tables), *_given(rules), rules.num_layers, rows, how)
    num = len(_COUNTS)
    return Placement(*(rows or drawn[:2]), *drawn[-5 - num : -num]), PlacementCounts(*drawn[-num:])


def draw_classes(
    batch: PaddedBatchedDenseSample, found: Survey, rows: LayerRows, tables: DrawTables
) -> tuple[Placement, PlacementCounts, Mixture]:
    """See `segpaste.engine.reference.classmix.draw_classes`."""
    drawn = _draw_classes(_fields(batch), list(found), list(rows), list(tables))
    placement, counts = Placement(*rows, *drawn[:5]), PlacementCounts(*drawn[5:-1])
    return placement, counts, Mixture(drawn[-1], found.eligible)


def compose(scene: Scene, placement: Placement, *, with_layer: bool, in_place: bool) -> Outcome:
    """See `segpaste.engine.reference.stages.compose`."""
    target, source = scene.target, scene.source
    own = [] if source is target else _fields(source)
    drawn = [getattr(placement, name) for name in _MAPS]
    tables, rules = [*scene.classes, *(scene.mixture or ())], _given(scene.rules)
    metric = [target.metric_depth, source.metric_depth]
    if in_place:
        written = written_fields(target)
        others = [None if name in written else getattr(target, name) for name in _NAMES]
        names = ",".join(written)
        seen = _compose_in_place([*written.values()], names, others, own, metric, drawn, tables, *rules, with_layer)
        return Outcome(target, *seen)
    found = _compose(_fields(target), own, metric, drawn, tables, *rules, with_layer)
    fields = [*present_planes(target), *ROWS]
    return Outcome(target.derived(**dict(zip(fields, found, strict=False))), *found[len(fields) :])


def _given(rules: DrawRules | PasteRules | HeldRules) -> tuple[Tensor | None, list[int]]:
    """Return rules as the arguments of an operator: a tensor of them, or the numbers themselves."""
    return (rules.numbers, []) if isinstance(rules, HeldRules) else (None, list(rules))


def _numbers(held: Tensor | None, rules: list[int]) -> list[int]:
    """Return the numbers that `_given` converted."""
    return rules if held is None else held.tolist()


def _fields(batch: PaddedBatchedDenseSample) -> Optionals:
    """Return the tensors of a batch, None where absent, in the order of the field table."""
    return [getattr(batch, name) for name in _NAMES]


def _batch(tensors: Sequence[Tensor | None], metric_depth: bool = False) -> PaddedBatchedDenseSample:
    """Build a batch from the tensors of `_fields`, without validation, since they come from a valid batch."""
    return PaddedBatchedDenseSample._unchecked(
        {**dict(zip(_NAMES, tensors, strict=True)), "metric_depth": metric_depth}
    )


def _own(found: Sequence[Tensor], *given: Sequence[Tensor | None]) -> Tensors:
    """Return the tensors that an operator found, as copies where it must not return them.

    Its results must be row-major, and share no memory with what it was given or with one another. Backends with kernels
    allocate what they return, so only results of the reference are copied.
    """
    memory = {_memory(tensor) for tensors in given for tensor in tensors if tensor is not None}
    results = []
    for tensor in found:
        if not tensor.is_contiguous() or _memory(tensor) in memory:
            tensor = tensor.clone(memory_format=torch.contiguous_format)
        memory.add(_memory(tensor))
        results.append(tensor)
    return results


def _memory(tensor: Tensor) -> int:
    """Return a number that tensors have in common if they are views of the same memory."""
    number: int = tensor.untyped_storage()._cdata
    return number


def _integers(like: Tensor, *shape: int) -> Tensor:
    return like.new_empty(shape, dtype=torch.int64)


def _flags(like: Tensor, *shape: int) -> Tensor:
    return like.new_empty(shape, dtype=torch.bool)


@torch.library.custom_op("segpaste::survey", mutates_args=())
def _survey(batch: Optionals, classes: Optionals, ignore_index: int | None, whole_only: bool) -> Tensors:
    given = _batch(batch)
    found = eager_engine(given.device).survey(given, Classes(*classes), ignore_index, whole_only=whole_only)
    return _own([table for table in found if table is not None], batch, classes)


@_survey.register_fake
def _(batch: Optionals, classes: Optionals, ignore_index: int | None, whole_only: bool) -> Tensors:
    labels = _batch(batch).labels
    (b, k), is_thing = labels.shape, classes[0]
    tables = [_flags(labels, b, k), _integers(labels, b, k, 4), _integers(labels, b), _integers(labels, b, 2)]
    if ignore_index is not None:
        num_classes = NUM_CLASSES if is_thing is None else is_thing.shape[0]
        tables += [_flags(labels, b, num_classes), _flags(labels, b)]
    return tables


@torch.library.custom_op("segpaste::choose_rows", mutates_args=())
def _choose_rows(candidates: Tensor, seeds: Tensor, num_layers: int) -> Tensors:
    return _own(eager_engine(seeds.device).choose_rows(candidates, seeds, num_layers), [candidates, seeds])


@_choose_rows.register_fake
def _(candidates: Tensor, seeds: Tensor, num_layers: int) -> Tensors:
    return [_integers(seeds, seeds.shape[0], num_layers), _flags(seeds, seeds.shape[0], num_layers)]


@torch.library.custom_op("segpaste::draw", mutates_args=())
def _draw(
    targets: Optionals,
    sources: Optionals,
    tables: Tensors,
    held: Tensor | None,
    rules: list[int],
    num_layers: int,
    rows: Tensors,
    how: str,
) -> Tensors:
    """Return rows unless they are given, then maps and counts."""
    pick: Pick | LayerRows = LayerRows(*rows) if how == _GIVEN else how  # type: ignore[assignment]
    given = Targets(*targets), Sources(*sources), DrawTables(*tables), DrawRules(*_numbers(held, rules))  # type: ignore[arg-type]
    placement, counts = eager_engine(given[0].seeds.device).draw(*given, pick)
    names = _MAPS[2:] if how == _GIVEN else _MAPS
    drawn = [*(getattr(placement, n) for n in names), *(getattr(counts, n) for n in _COUNTS)]
    return _own(drawn, targets, sources, tables, rows)


@_draw.register_fake
def _(
    targets: Optionals,
    sources: Optionals,
    tables: Tensors,
    held: Tensor | None,
    rules: list[int],
    num_layers: int,
    rows: Tensors,
    how: str,
) -> Tensors:
    seeds, eligible = targets[0], sources[0]
    assert seeds is not None
    assert eligible is not None
    b = seeds.shape[0]
    chosen = [] if how == _GIVEN else [_integers(seeds, b, num_layers), _flags(seeds, b, num_layers)]
    return [*chosen, *_empty_maps(seeds, num_layers, eligible.shape[1]), *(_integers(seeds, b) for _ in _COUNTS)]


def _empty_maps(seeds: Tensor, num_layers: int, num_slots: int) -> Tensors:
    b = seeds.shape[0]
    pairs = [_integers(seeds, b, num_layers, 2) for _ in range(3)]
    return [*pairs, _flags(seeds, b, num_layers), _flags(seeds, b, num_layers, num_slots)]


@torch.library.custom_op("segpaste::draw_classes", mutates_args=())
def _draw_classes(batch: Optionals, found: Optionals, rows: Tensors, tables: Tensors) -> Tensors:
    given, known = _batch(batch), Survey(*found)  # type: ignore[arg-type]
    engine = eager_engine(given.device)
    placement, counts, mixture = engine.draw_classes(given, known, LayerRows(*rows), DrawTables(*tables))
    maps = [getattr(placement, name) for name in _MAPS[2:]]
    drawn = [*maps, *(getattr(counts, name) for name in _COUNTS), mixture.classes]
    return _own(drawn, batch, found, rows, tables)


@_draw_classes.register_fake
def _(batch: Optionals, found: Optionals, rows: Tensors, tables: Tensors) -> Tensors:
    seeds, present = rows[0], Survey(*found).present  # type: ignore[arg-type]
    assert present is not None
    (b, num_layers), (_, num_classes) = seeds.shape, present.shape
    counts = [_integers(seeds, b) for _ in _COUNTS]
    num_slots = _batch(batch).labels.shape[1] + 1
    return [*_empty_maps(seeds, num_layers, num_slots), *counts, _flags(seeds, b, num_layers, num_classes)]


def _scene(
    target: PaddedBatchedDenseSample,
    own: Optionals,
    metric: bool,
    tables: Optionals,
    held: Tensor | None,
    rules: list[int],
) -> Scene:
    source = _batch(own, metric) if own else target
    mixture = Mixture(*tables[3:]) if len(tables) > 3 else None  # type: ignore[arg-type]
    return Scene(target, source, Classes(*tables[:3]), PasteRules(*_numbers(held, rules)), mixture)


@torch.library.custom_op("segpaste::compose", mutates_args=())
def _compose(
    target: Optionals,
    own: Optionals,
    metric: list[bool],
    drawn: Tensors,
    tables: Optionals,
    held: Tensor | None,
    rules: list[int],
    with_layer: bool,
) -> Tensors:
    """Return planes, rows and the rest of an `Outcome`; ``own`` holds the source, empty if it is the target."""
    scene = _scene(_batch(target, metric[0]), own, metric[1], tables, held, rules)
    engine = eager_engine(scene.target.device)
    batch, *rest = engine.compose(scene, Placement(*drawn), with_layer=with_layer, in_place=False)
    rows = [getattr(batch, name) for name in ROWS]
    return [*present_planes(batch).values(), *_own([*rows, *_cut(rest, with_layer)], target, own, drawn, tables)]


def _cut(rest: Tensors, with_layer: bool) -> Tensors:
    """Return the tensors of an `Outcome`, without rows in ``visible_layer`` unless it is requested."""
    *others, layer = rest
    return rest if with_layer else [*others, layer.new_empty(0, *layer.shape[1:])]


@_compose.register_fake
def _(
    target: Optionals,
    own: Optionals,
    metric: list[bool],
    drawn: Tensors,
    tables: Optionals,
    held: Tensor | None,
    rules: list[int],
    with_layer: bool,
) -> Tensors:
    batch = _batch(target)
    planes = [empty_plane(name, plane) for name, plane in present_planes(batch).items()]
    rows = [(row := getattr(batch, name)).new_empty(row.shape) for name in ROWS]
    return [*planes, *rows, *_empty_findings(batch, drawn, with_layer)]


def _empty_findings(batch: PaddedBatchedDenseSample, drawn: Tensors, with_layer: bool) -> Tensors:
    labels, carried, (height, width) = batch.labels, drawn[-1], batch.canvas_size
    layer = batch.images.new_empty((labels.shape[0] if with_layer else 0, height, width), dtype=torch.int16)
    small = [carried.new_empty(carried.shape), _integers(labels, labels.shape[0], 3)]
    return [*small, *(_integers(labels, *labels.shape) for _ in range(3)), layer]


@torch.library.custom_op("segpaste::compose_in_place", mutates_args=("written",))
def _compose_in_place(
    written: Tensors,
    names: str,
    others: Optionals,
    own: Optionals,
    metric: list[bool],
    drawn: Tensors,
    tables: Optionals,
    held: Tensor | None,
    rules: list[int],
    with_layer: bool,
) -> Findings:
    """Write the tensors ``written``, the fields ``names`` of the target, and return the rest of an `Outcome`.

    Torch accepts no None in a list that is mutated, and no list as the return value of an operator that mutates one.
    """
    mine = dict(zip(names.split(","), written, strict=True))
    target = _batch([mine.get(name, other) for name, other in zip(_NAMES, others, strict=True)], metric[0])
    scene = _scene(target, own, metric[1], tables, held, rules)
    engine = eager_engine(target.device)
    _, *rest = engine.compose(scene, Placement(*drawn), with_layer=with_layer, in_place=True)
    return cast(Findings, tuple(_own(_cut(rest, with_layer), written, others, own, drawn, tables)))


@_compose_in_place.register_fake
def _(
    written: Tensors,
    names: str,
    others: Optionals,
    own: Optionals,
    metric: list[bool],
    drawn: Tensors,
    tables: Optionals,
    held: Tensor | None,
    rules: list[int],
    with_layer: bool,
) -> Findings:
    mine = dict(zip(names.split(","), written, strict=True))
    target = _batch([mine.get(name, other) for name, other in zip(_NAMES, others, strict=True)])
    return cast(Findings, tuple(_empty_findings(target, drawn, with_layer)))
