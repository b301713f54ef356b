"""Engine for compiled code: custom operators that call the backend of the device.

Eager and compiled code therefore give the same bits, and no backend is compiled. Operators take and return lists of
tensors, because their schemas cannot express records. `extend` is no operator: copies that a compiler fuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from segpaste.engine.planes import ROWS, empty_plane, present_planes, written_fields
from segpaste.engine.record_fields import empty, names_of
from segpaste.engine.reference.classmix import NUM_CLASSES
from segpaste.engine.reference.inputs import extend
from segpaste.engine.schema import (
    Classes,
    CropRows,
    Crops,
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

__all__ = ["choose_rows", "compose", "draw", "draw_classes", "extend", "stage_crops", "survey"]

_NAMES = tuple(field.batched_name for field in FIELDS)
_MAPS, _COUNTS, _FINDINGS = map(names_of, (Placement, PlacementCounts, Outcome))
_GIVEN = "given"

if TYPE_CHECKING:
    Findings = tuple[Tensor, ...]
else:  # an operator returns a fixed number of tensors
    Findings = tuple[(Tensor,) * len(_FINDINGS)]


def survey(
    batch: PaddedBatchedDenseSample, classes: Classes, ignore_index: int | None = None, *, whole_only: bool = False
) -> Survey:
    """See `segpaste.engine.reference.inputs.survey`."""
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
    return _placement([*rows, *drawn[: -len(_COUNTS)]]), PlacementCounts(*drawn[-len(_COUNTS) :])


def draw_classes(
    batch: PaddedBatchedDenseSample, found: Survey, rows: LayerRows, tables: DrawTables
) -> tuple[Placement, PlacementCounts, Mixture]:
    """See `segpaste.engine.reference.classmix.draw_classes`."""
    *drawn, classes = _draw_classes(_fields(batch), list(found), list(rows), list(tables))
    placement = _placement([*rows, *drawn[: -len(_COUNTS)]])
    return placement, PlacementCounts(*drawn[-len(_COUNTS) :]), Mixture(classes, found.eligible)


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


def stage_crops(crops: Crops, classes: Classes, dtype: torch.dtype, scale: float) -> CropRows:
    """See `segpaste.engine.reference.inputs.stage_crops`."""
    found = _stage_crops(list(crops), list(classes), dtype, scale)
    return CropRows(*(found if dtype != torch.uint8 else [crops.images, *found]))


def _placement(drawn: Sequence[Tensor | None]) -> Placement:
    """Build a placement from its tensors, of which the rows are the first."""
    return Placement(**dict(zip(_MAPS, drawn, strict=True)))  # type: ignore[arg-type]


def _drawn(placement: Placement, counts: PlacementCounts, rows: Sequence[Tensor]) -> Tensors:
    """Return the tensors that are drawn, without the rows if they are given."""
    drawn = [getattr(placement, name) for name in _MAPS[len(rows) :]]
    return [*drawn, *(getattr(counts, name) for name in _COUNTS)]


def _empty_drawn(seeds: Tensor, num_layers: int, num_slots: int, rows: Sequence[Tensor]) -> Tensors:
    """Return tensors without values for those of `_drawn`."""
    sizes = {"B": seeds.shape[0], "L": num_layers, "K_s": num_slots}
    placement = empty(Placement, seeds.device, sizes, **dict(zip(_MAPS, rows, strict=False)))
    return _drawn(placement, empty(PlacementCounts, seeds.device, sizes), rows)


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
    """Return the results of an operator, copied if they are views or share memory with an input.

    Custom operators must not return those. Backends with kernels allocate their results, so only results of the
    reference are copied.
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


@torch.library.custom_op("segpaste::survey", mutates_args=())
def _survey(batch: Optionals, classes: Optionals, ignore_index: int | None, whole_only: bool) -> Tensors:
    given = _batch(batch)
    found = eager_engine(given.device).survey(given, Classes(*classes), ignore_index, whole_only=whole_only)
    return _own([table for table in found if table is not None], batch, classes)


@_survey.register_fake
def _(batch: Optionals, classes: Optionals, ignore_index: int | None, whole_only: bool) -> Tensors:
    labels, is_thing = _batch(batch).labels, classes[0]
    num_classes = NUM_CLASSES if is_thing is None else is_thing.shape[0]
    sizes = {"B": labels.shape[0], "K": labels.shape[1], "num_classes": num_classes}
    absent = {} if ignore_index is not None else dict.fromkeys(("present", "has_present"))
    return [table for table in empty(Survey, labels.device, sizes, **absent) if table is not None]


@torch.library.custom_op("segpaste::choose_rows", mutates_args=())
def _choose_rows(candidates: Tensor, seeds: Tensor, num_layers: int) -> Tensors:
    return _own(eager_engine(seeds.device).choose_rows(candidates, seeds, num_layers), [candidates, seeds])


@_choose_rows.register_fake
def _(candidates: Tensor, seeds: Tensor, num_layers: int) -> Tensors:
    return list(empty(LayerRows, seeds.device, {"B": seeds.shape[0], "L": num_layers}))


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
    drawn = _drawn(*eager_engine(given[0].seeds.device).draw(*given, pick), rows)
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
    return _empty_drawn(seeds, num_layers, eligible.shape[1], rows)


@torch.library.custom_op("segpaste::draw_classes", mutates_args=())
def _draw_classes(batch: Optionals, found: Optionals, rows: Tensors, tables: Tensors) -> Tensors:
    given, known = _batch(batch), Survey(*found)  # type: ignore[arg-type]
    engine = eager_engine(given.device)
    placement, counts, mixture = engine.draw_classes(given, known, LayerRows(*rows), DrawTables(*tables))
    return _own([*_drawn(placement, counts, rows), mixture.classes], batch, found, rows, tables)


@_draw_classes.register_fake
def _(batch: Optionals, found: Optionals, rows: Tensors, tables: Tensors) -> Tensors:
    seeds, present = rows[0], Survey(*found).present  # type: ignore[arg-type]
    assert present is not None
    sizes = {"B": seeds.shape[0], "L": seeds.shape[1], "num_classes": present.shape[1]}
    drawn = _empty_drawn(seeds, sizes["L"], _batch(batch).labels.shape[1] + 1, rows)
    return [*drawn, empty(Mixture, seeds.device, sizes, eligible=None).classes]


def _scene(
    target: PaddedBatchedDenseSample,
    own: Optionals,
    metric: bool,
    tables: Optionals,
    held: Tensor | None,
    rules: list[int],
) -> Scene:
    source = _batch(own, metric) if own else target
    num = len(Classes._fields)
    mixture = Mixture(*tables[num:]) if len(tables) > num else None  # type: ignore[arg-type]
    return Scene(target, source, Classes(*tables[:num]), PasteRules(*_numbers(held, rules)), mixture)


@torch.library.custom_op("segpaste::compose", mutates_args=())
def _compose(
    target: Optionals,
    own: Optionals,
    metric: list[bool],
    drawn: Optionals,
    tables: Optionals,
    held: Tensor | None,
    rules: list[int],
    with_layer: bool,
) -> Tensors:
    """Return planes, rows and the rest of an `Outcome`; ``own`` holds the source, empty if it is the target."""
    scene = _scene(_batch(target, metric[0]), own, metric[1], tables, held, rules)
    engine = eager_engine(scene.target.device)
    batch, *rest = engine.compose(scene, _placement(drawn), with_layer=with_layer, in_place=False)
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
    drawn: Optionals,
    tables: Optionals,
    held: Tensor | None,
    rules: list[int],
    with_layer: bool,
) -> Tensors:
    batch = _batch(target)
    planes = [empty_plane(name, plane) for name, plane in present_planes(batch).items()]
    rows = [(row := getattr(batch, name)).new_empty(row.shape) for name in ROWS]
    return [*planes, *rows, *_empty_findings(batch, drawn, with_layer)]


def _empty_findings(batch: PaddedBatchedDenseSample, drawn: Optionals, with_layer: bool) -> Tensors:
    (b, num_layers, num_slots), (height, width) = _placement(drawn).carried.shape, batch.canvas_size
    sizes = {"B": b, "L": num_layers, "K_s": num_slots, "K": batch.labels.shape[1], "H": height, "W": width}
    _, *findings = empty(Outcome, batch.labels.device, {**sizes, "V": b if with_layer else 0}, batch=batch)
    return findings


@torch.library.custom_op("segpaste::compose_in_place", mutates_args=("written",))
def _compose_in_place(
    written: Tensors,
    names: str,
    others: Optionals,
    own: Optionals,
    metric: list[bool],
    drawn: Optionals,
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
    _, *rest = engine.compose(scene, _placement(drawn), with_layer=with_layer, in_place=True)
    return cast(Findings, tuple(_own(_cut(rest, with_layer), written, others, own, drawn, tables)))


@_compose_in_place.register_fake
def _(
    written: Tensors,
    names: str,
    others: Optionals,
    own: Optionals,
    metric: list[bool],
    drawn: Optionals,
    tables: Optionals,
    held: Tensor | None,
    rules: list[int],
    with_layer: bool,
) -> Findings:
    mine = dict(zip(names.split(","), written, strict=True))
    target = _batch([mine.get(name, other) for name, other in zip(_NAMES, others, strict=True)])
    return cast(Findings, tuple(_empty_findings(target, drawn, with_layer)))


@torch.library.custom_op("segpaste::stage_crops", mutates_args=())
def _stage_crops(crops: Optionals, classes: Optionals, dtype: torch.dtype, scale: float) -> Tensors:
    """Return the rows; uint8 images are not among them, because the caller uses its own."""
    given = Crops(*crops)  # type: ignore[arg-type]
    rows = eager_engine(given.labels.device).stage_crops(given, Classes(*classes), dtype, scale)
    return list(rows[1:] if dtype == torch.uint8 else rows)


@_stage_crops.register_fake
def _(crops: Optionals, classes: Optionals, dtype: torch.dtype, scale: float) -> Tensors:
    given = Crops(*crops)  # type: ignore[arg-type]
    images = given.images.new_empty(given.images.shape, dtype=dtype)
    rows = empty(CropRows, images.device, {"S": given.labels.shape[0]}, images=images)
    return list(rows[1:] if dtype == torch.uint8 else rows)
