"""A step in one call of the native library: the survey, the draws and the composition.

Their results lie in one block of memory, and become tensors only if somebody asks for them.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from segpaste.engine.native import jobs, library
from segpaste.engine.native.binding import PICKS
from segpaste.engine.native.composing import CPU, Composition, check
from segpaste.engine.native.layout import Layout
from segpaste.engine.native.library import address, workspaces
from segpaste.engine.planes import can_be_written, write_back
from segpaste.engine.schema import (
    Classes,
    DrawRules,
    DrawTables,
    Outcome,
    Pick,
    Placement,
    PlacementCounts,
    Scene,
    Sources,
    Survey,
)
from segpaste.engine.steps import Pasted, Records
from segpaste.types.check import not_none


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
    target = scene.target
    writes = in_place and can_be_written(target)
    composition = Composition(scene, rules.num_layers, with_layer=with_layer, in_place=writes)
    sizes, seeds = {**composition.sizes, "K_t": target.max_instances}, not_none(target.sample_seeds).contiguous()
    layout = _layout(sizes["B"], sizes["L"], sizes["K"], sizes["K_s"])
    block = torch.empty(layout.num_words, dtype=torch.int64, device=CPU)
    layer = torch.empty((sizes["V"], sizes["H"], sizes["W"]), dtype=torch.int16, device=CPU)
    base, offered = address(block), None if sources is None else [t if t is None else t.contiguous() for t in sources]
    found, placed, counts, outcome = (layout.addresses(record, base) for record in _RECORDS)
    eligible, occupied, num_free, extent, _ = found
    given = composition.given([placed[0], *placed[2:]], [*outcome[:-1], address(layer)])
    rows, planes = given["target_rows"], given["target"]
    num_carried = jobs.STEP.run(
        workspaces(composition.num_threads).buffer_info()[0],
        library.parallel(),
        sizes=sizes,
        survey=jobs.SURVEY.words(
            sizes=sizes,
            ignore_index=0,
            whole_only=whole_only,
            found=found,
            classes=Classes(scene.classes.is_thing),
            rows=rows,
            padding=planes[-jobs.PLANE_WORDS :],
            semantic=jobs.plane_words([None]),
        ),
        draw=jobs.DRAW.words(
            sizes=sizes,
            pick=PICKS[pick],
            targets=[seeds, occupied, num_free, extent, regions],
            sources=[eligible, occupied, rows[1], extent, None] if offered is None else offered,
            tables=tables,
            rules=rules,
            placement=placed,
            counts=counts,
        ),
        compose=jobs.COMPOSE.words(**given),
    )
    check(-min(num_carried, 0))
    composition.finish()
    batch = write_back(target, composition.batch) if in_place and not writes else composition.batch

    def records() -> Records:
        of = layout.record
        return of(Placement, block), of(PlacementCounts, block), of(Outcome, block, batch=batch, visible_layer=layer)

    return Pasted(batch, num_carried, records)


_RECORDS = Survey, Placement, PlacementCounts, Outcome


@lru_cache(maxsize=64)
def _layout(b: int, num_layers: int, k: int, k_s: int) -> Layout:
    """Return the places of the results of a step, which depend on nothing but these sizes."""
    return Layout({"B": b, "L": num_layers, "K": k, "K_s": k_s}, *_RECORDS)
