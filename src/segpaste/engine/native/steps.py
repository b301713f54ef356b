"""A step in one call of the native library: the survey, the draws and the composition.

Their results lie in one block of memory, and become tensors only if somebody asks for them. The words of the record are
packed once for a shape and a config; each step fills in the addresses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import count, islice
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from segpaste.engine.native import jobs, library
from segpaste.engine.native.binding import PICKS
from segpaste.engine.native.composing import CPU, Kind, Surfaces, check, composed_numbers, composed_sizes
from segpaste.engine.native.jobs import Blank, Form
from segpaste.engine.native.library import addresses, load, workspaces
from segpaste.engine.planes import can_be_written, write_back
from segpaste.engine.record_fields import fields_of
from segpaste.engine.schema import (
    DrawRules,
    DrawTables,
    Outcome,
    PasteRules,
    Pick,
    Placement,
    PlacementCounts,
    Scene,
    Sources,
    Survey,
)
from segpaste.engine.steps import Pasted, Records
from segpaste.types.check import not_none

T = TypeVar("T")

_RECORDS = Survey, Placement, PlacementCounts, Outcome
_NO_SOURCES, _NO_CAMERAS = (None,) * len(Sources._fields), (None,) * len(jobs.Cameras._fields)
_OF_TABLES = "num_things", "num_stuff", "num_ranks", "num_sizes", "num_weights", "num_region_classes"
_OF_REGIONS = "R", "H + 1", "W + 1"
"""Symbols of the sizes that are read from tensors."""


def step(
    scene: Scene,
    sources: Sources | None,
    tables: DrawTables,
    rules: DrawRules,
    pick: Pick,
    regions: Tensor | None,
    *,
    whole_only: bool,
    with_layer: bool,
    in_place: bool,
) -> Pasted:
    """Survey the target of a scene, draw and compose, as the three functions do one by one.

    Args:
        scene: target and source.
        sources: instances of the source that may be pasted; None for those that the survey finds in the target.
        tables: see `segpaste.engine.reference.draws.draw.draw`, as the next three.
        rules: parameters of the draws.
        pick: rule by which layers choose rows.
        regions: regions of the targets.
        whole_only: see `segpaste.engine.reference.inputs.survey`.
        with_layer: see `segpaste.engine.reference.stages.compose`, as the next.
        in_place: write into the tensors of the target.
    """
    target, writes = scene.target, in_place and can_be_written(scene.target)
    surfaces, source = Surfaces(scene, in_place=writes), scene.source
    kind = surfaces.kind(scene)
    shapes = target.images.shape, target.labels.shape, source.images.shape, source.labels.shape
    drawn = rules, scene.rules, PICKS[pick], whole_only, sources is not None
    packed = _packed(shapes, kind, with_layer, *drawn)
    block = torch.empty(packed.layout.num_words, dtype=torch.int64, device=CPU)
    layer = None
    if with_layer:
        layer = torch.empty((target.batch_size, *target.canvas_size), dtype=torch.int16, device=CPU)
    tensors = [  # that the library reads or writes; they exist until it is done
        *(block, layer, not_none(target.sample_seeds).contiguous(), regions),
        *(scene.classes.is_thing, scene.watched, scene.rank),
        *tables,
        *(_NO_SOURCES if sources is None else (t if t is None else t.contiguous() for t in sources)),
        *(surfaces.cameras or _NO_CAMERAS),
    ]
    values = library.packed(packed.values(tensors, surfaces.words()))
    threads = workspaces(kind.num_threads).buffer_info()[0], library.parallel()
    num_carried: int = load().segpaste_step(packed.form.address, values.buffer_info()[0], *threads)
    check(-min(num_carried, 0))
    surfaces.tell_autograd()
    batch = write_back(target, surfaces.batch) if in_place and not writes else surfaces.batch

    def records() -> Records:
        of = packed.layout.record
        seen = layer if layer is not None else torch.empty((0, *target.canvas_size), dtype=torch.int16, device=CPU)
        return of(Placement, block), of(PlacementCounts, block), of(Outcome, block, batch=batch, visible_layer=seen)

    return Pasted(batch, num_carried, records)


class _Packed(NamedTuple):
    """Packed record of the steps of one kind, and the places of their results.

    Attributes:
        form: the words of the record.
        layout: places of the results, and of what else the library writes, in the block.
        structs: names of the structs whose words are the last values.
    """

    form: Form
    layout: Layout
    structs: tuple[str, ...]

    def values(self, tensors: Sequence[Tensor | None], structs: Mapping[str, list[int]]) -> list[int]:
        """Return the values of the blanks, of the tensors that `step` lists and of the structs of the composition."""
        values = addresses(tensors)
        base, regions, (*classes, _, sizes, weights, _, of_regions) = values[0], tensors[3], tensors[4:12]
        values += [0 if t is None else t.shape[0] for t in (*classes, sizes, weights, of_regions)]
        values += (0, 0, 0) if regions is None else regions.shape[1:]
        values += [0 if offset is None else base + offset for offset in self.layout.offsets]
        for name in self.structs:
            values += structs[name]
        return values


class _Blanks:
    """Blanks of a step, in the order in which `step` lists their values."""

    def __init__(self, kind: Kind) -> None:
        blanks = map(Blank, count())

        def take(num: int) -> list[int]:
            return [*islice(blanks, num)]

        _, self.layer, self.seeds, self.regions = take(4)
        self.classes, self.tables, self.offered, self.cameras = take(3), take(5), take(5), take(2)
        self.sizes = dict(zip((*_OF_TABLES, *_OF_REGIONS), take(9), strict=True))
        self.found, self.placed, self.counts, self.outcome, self.shared = take(5), take(9), take(6), take(6), take(2)
        new_rows = take(jobs.ROWS_WORDS if kind.in_place else 0)
        given = {"target": take(jobs.PLANES_WORDS), "target_rows": take(jobs.ROWS_WORDS)}
        for name, is_other in (("source", not kind.is_own), ("out", not kind.in_place)):
            if is_other:
                given |= {name: take(jobs.PLANES_WORDS), f"{name}_rows": take(jobs.ROWS_WORDS)}
        self.names = tuple(given)
        self.target, self.rows = given["target"], given["target_rows"]
        same = {"source": self.target, "source_rows": [*self.rows[:2], 0, 0], "out": self.target, "out_rows": new_rows}
        self.structs = {**same, **given}


@lru_cache(maxsize=64)
def _packed(
    shapes: tuple[torch.Size, torch.Size, torch.Size, torch.Size],
    kind: Kind,
    with_layer: bool,
    rules: DrawRules,
    paste_rules: PasteRules,
    pick: int,
    whole_only: bool,
    has_sources: bool,
) -> _Packed:
    """Pack the words of a step."""
    sizes, blanks = composed_sizes(*shapes, rules.num_layers, with_layer), _Blanks(kind)
    placed_sizes = {name: sizes[name] for name in ("B", "L", "K", "K_s")}
    layout = Layout(placed_sizes, *_RECORDS, jobs.Shared, *[jobs.NewRows] * kind.in_place)
    sizes |= {**blanks.sizes, "K_t": sizes["K"]}
    survey = jobs.SURVEY.words(
        sizes=sizes,
        ignore_index=0,
        whole_only=whole_only,
        found=blanks.found,
        classes=[blanks.classes[0], 0],
        rows=blanks.rows,
        padding=blanks.target[-jobs.PLANE_WORDS :],
        semantic=jobs.plane_words([None]),
    )
    draw = _draw_words(sizes, blanks, rules, pick, has_sources)
    compose = jobs.COMPOSE.words(
        **composed_numbers(kind),
        sizes=sizes,
        readers=blanks.shared[0],
        is_taken=blanks.shared[1],
        placement=[blanks.placed[0], *blanks.placed[2:]],  # all but ``layer_valid``
        rules=paste_rules,
        classes=blanks.classes,
        mixture=None,
        cameras=blanks.cameras,
        outcome=[*blanks.outcome[:-1], blanks.layer],
        **blanks.structs,
    )
    return _Packed(Form(jobs.STEP.words(sizes=sizes, survey=survey, draw=draw, compose=compose)), layout, blanks.names)


def _draw_words(sizes: dict[str, int], blanks: _Blanks, rules: DrawRules, pick: int, has_sources: bool) -> list[int]:
    eligible, occupied, num_free, extent, _ = blanks.found
    own = [eligible, occupied, blanks.rows[1], extent, 0]
    return jobs.DRAW.words(
        sizes=sizes,
        pick=pick,
        targets=[blanks.seeds, occupied, num_free, extent, blanks.regions],
        sources=blanks.offered if has_sources else own,
        tables=blanks.tables,
        rules=rules,
        placement=blanks.placed,
        counts=blanks.counts,
    )


_WORD = 8


class _Place(NamedTuple):
    """Place of one field: its first word, and the shape and dtype of the tensor there."""

    name: str
    first: int
    shape: tuple[int, ...]
    dtype: torch.dtype


class Layout:
    """Places of the tensors of some records, for given sizes.

    Args:
        sizes: values of the symbols in the shapes; fields with another symbol have no place.
        records: classes of the records.

    Attributes:
        num_words: int64 words of the block.
        offsets: where each native field of each record begins in the block, bytes; None without a place.
    """

    def __init__(self, sizes: Mapping[str, int], *records: type) -> None:
        self.num_words = 0
        self.offsets: list[int | None] = []
        self._places: dict[Any, list[_Place]] = {record: [] for record in records}
        for record in records:
            for field in (field for field in fields_of(record) if "native" in field.backends):
                shape = tuple(sizes.get(size, -1) if isinstance(size, str) else size for size in field.shape)
                has_place = field.dtype is not None and min(shape) >= 0
                self.offsets.append(self.num_words * _WORD if has_place else None)
                if has_place and field.dtype is not None:
                    self._places[record].append(_Place(field.name, self.num_words, shape, field.dtype))
                    self.num_words += -(-math.prod(shape) * field.dtype.itemsize // _WORD)

    def record(self, record: Callable[..., T], block: Tensor, **others: Any) -> T:
        """Return a record of the values in the block, each tensor in memory of its own, so that it can be saved.

        Args:
            record: its class.
            block: [num_words] int64.
            others: fields without a place.
        """
        values = {}
        for name, first, shape, dtype in self._places[record]:
            values[name] = block[first:].view(dtype)[: math.prod(shape)].view(shape).clone()
        return record(**values, **others)
