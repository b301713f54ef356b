"""A step in one call of the native library: the survey, the draws and the composition.

Their results lie in one block of memory, and become tensors only if somebody asks for them. The words of the record are
packed once for a shape and a config; each step fills in the addresses.
"""

from __future__ import annotations

from array import array
from functools import lru_cache
from itertools import count, islice
from typing import NamedTuple

import torch
from torch import Tensor

from segpaste.engine.native import jobs, library
from segpaste.engine.native.binding import PICKS
from segpaste.engine.native.composing import CPU, Surfaces, check, composed_sizes
from segpaste.engine.native.jobs import Blank, Form
from segpaste.engine.native.layout import Layout
from segpaste.engine.native.library import addresses, load, workspaces
from segpaste.engine.planes import can_be_written, write_back
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
    target, classes = scene.target, scene.classes
    writes = in_place and can_be_written(target)
    sizes, surfaces = composed_sizes(scene, rules.num_layers, with_layer), Surfaces(scene, in_place=writes)
    numbers, structs = surfaces.numbers(scene), surfaces.words()
    packed = _packed(
        tuple(sizes.items()), tuple(numbers.items()), rules, scene.rules, PICKS[pick], whole_only, sources is not None
    )
    block = torch.empty(packed.layout.num_words, dtype=torch.int64, device=CPU)
    layer = torch.empty((sizes["V"], sizes["H"], sizes["W"]), dtype=torch.int16, device=CPU)
    offered = _NO_SOURCES if sources is None else [t if t is None else t.contiguous() for t in sources]
    tensors = [
        *(block, layer, not_none(target.sample_seeds).contiguous(), regions),
        *(classes.is_thing, scene.watched, scene.rank),
        *tables,
        *offered,
        *(surfaces.cameras or _NO_CAMERAS),
    ]
    values = addresses(tensors)
    base, shared = values[0], surfaces.shared.buffer_info()[0]
    values += [0 if t is None else t.shape[0] for t in (*tensors[4:7], *_sized(tables))]
    values += (0, 0, 0) if regions is None else regions.shape[1:]
    values += (shared, shared + 8 * sizes["B"])
    values += [0 if offset is None else base + offset for offset in packed.layout.offsets]
    for name in packed.structs:
        values += structs[name]
    given, threads = array("q", values), workspaces(numbers["num_threads"])
    of_threads = threads.buffer_info()[0], library.parallel()
    num_carried: int = load().segpaste_step(packed.form.address, given.buffer_info()[0], *of_threads)
    check(-min(num_carried, 0))
    surfaces.tell_autograd()
    batch = write_back(target, surfaces.batch) if in_place and not writes else surfaces.batch

    def records() -> Records:
        of = packed.layout.record
        return of(Placement, block), of(PlacementCounts, block), of(Outcome, block, batch=batch, visible_layer=layer)

    return Pasted(batch, num_carried, records)


class _Packed(NamedTuple):
    """What steps of one kind have in common.

    Attributes:
        form: the words of the record.
        layout: places of the results in the block.
        structs: names of the structs whose words are the last values.
    """

    form: Form
    layout: Layout
    structs: tuple[str, ...]


@lru_cache(maxsize=64)
def _packed(
    sizes_given: tuple[tuple[str, int], ...],
    numbers_given: tuple[tuple[str, int], ...],
    rules: DrawRules,
    paste_rules: PasteRules,
    pick: int,
    whole_only: bool,
    has_sources: bool,
) -> _Packed:
    """Pack the words of a step; the values come in the order in which `step` lists them."""
    sizes, numbers, blanks = dict(sizes_given), dict(numbers_given), map(Blank, count())

    def take(num: int) -> list[int]:
        return [*islice(blanks, num)]

    _, layer, seeds, regions = take(4)
    is_thing, *classes = take(3)
    tables, offered, cameras = take(5), take(5), take(2)
    sizes |= dict(zip((*_OF_TABLES, *_OF_REGIONS), take(9), strict=True))
    sizes["K_t"] = sizes["K"]
    readers, is_taken = take(2)
    layout = Layout({name: sizes[name] for name in ("B", "L", "K", "K_s")}, *_RECORDS)
    found, placed, counts, outcome = take(5), take(7), take(6), take(6)
    rows = {name: take(jobs.ROWS_WORDS) for name in ("target_rows", "source_rows", "out_rows")}
    target = take(jobs.PLANES_WORDS)
    source = target if numbers["reads_itself"] else take(jobs.PLANES_WORDS)
    out = target if numbers["in_place"] else take(jobs.PLANES_WORDS)
    eligible, occupied, num_free, extent, _ = found
    survey = jobs.SURVEY.words(
        sizes=sizes,
        ignore_index=0,
        whole_only=whole_only,
        found=found,
        classes=[is_thing, 0],
        rows=rows["target_rows"],
        padding=target[-jobs.PLANE_WORDS :],
        semantic=jobs.plane_words([None]),
    )
    draw = jobs.DRAW.words(
        sizes=sizes,
        pick=pick,
        targets=[seeds, occupied, num_free, extent, regions],
        sources=offered if has_sources else [eligible, occupied, rows["target_rows"][1], extent, 0],
        tables=tables,
        rules=rules,
        placement=placed,
        counts=counts,
    )
    compose = jobs.COMPOSE.words(
        **numbers,
        sizes=sizes,
        readers=readers,
        is_taken=is_taken,
        placement=[placed[0], *placed[2:]],  # all but ``layer_valid``
        rules=paste_rules,
        classes=[is_thing, *classes],
        mixture=None,
        cameras=cameras,
        outcome=[*outcome[:-1], layer],
        target=target,
        source=source,
        out=out,
        **rows,
    )
    form = Form(jobs.STEP.words(sizes=sizes, survey=survey, draw=draw, compose=compose))
    new = [name for name, words in (("source", source), ("out", out)) if words is not target]
    return _Packed(form, layout, (*rows, "target", *new))


def _sized(tables: DrawTables) -> tuple[Tensor, ...]:
    """Return the tables whose sizes the library is told."""
    return tables.size_table, tables.inverse_weights, tables.region_table
