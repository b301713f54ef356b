"""Functions of the native library on tensors, by the jobs that `segpaste.engine.native.jobs` declares.

Lines of planes must be dense unless they are channels-last images. Other tensors are copied first, except those that
are written.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from segpaste.engine.native import jobs
from segpaste.engine.native.composing import CPU, check, instances, lined, lined_planes
from segpaste.engine.native.library import addresses, workspace
from segpaste.engine.record_fields import empty
from segpaste.engine.reference import classmix
from segpaste.engine.schema import (
    Classes,
    Drawn,
    DrawRules,
    DrawTables,
    LayerRows,
    Mixture,
    Pick,
    Placement,
    PlacementCounts,
    Sources,
    Survey,
    Targets,
)
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.check import not_none

_GIVEN: Final = 0
PICKS: Final = {"others": 1, "own": 2, "same": 3}
"""Numbers of the rules by which layers choose rows."""


def survey(
    batch: PaddedBatchedDenseSample, classes: Classes, ignore_index: int | None = None, *, whole_only: bool = False
) -> Survey:
    """See `segpaste.engine.reference.inputs.survey`."""
    (b, k), is_thing, asks = batch.labels.shape, classes.is_thing, ignore_index is not None
    sizes = {"B": b, "K": k, "num_classes": classmix.NUM_CLASSES if is_thing is None else len(is_thing)}
    sizes["H"], sizes["W"] = batch.canvas_size
    found = empty(Survey, CPU, sizes, has_present=None, **({} if asks else {"present": None}))
    rows = batch.boxes.contiguous(), batch.labels.contiguous(), None, batch.instance_valid.contiguous()
    padding, semantic = lined(batch.padding_mask), lined(batch.semantic_maps) if asks else None
    jobs.SURVEY.run(
        sizes=sizes,
        ignore_index=ignore_index or 0,
        whole_only=whole_only,
        found=found,
        classes=Classes(is_thing, classes.is_stuff if asks else None),
        rows=addresses(rows),
        padding=jobs.plane_words([padding]),
        semantic=jobs.plane_words([semantic]),
    )
    return found if found.present is None else found._replace(has_present=found.present.any(1))


def choose_rows(candidates: Tensor, seeds: Tensor, num_layers: int) -> LayerRows:
    """See `segpaste.engine.reference.draws.draw.choose_rows`."""
    sizes = {"B": len(seeds), "L": num_layers}
    rows = empty(LayerRows, CPU, sizes)
    check(jobs.CHOOSE_ROWS.run(workspace(), sizes=sizes, candidates=jobs.Candidates(seeds, candidates), rows=rows))
    return rows


def draw(targets: Targets, sources: Sources, tables: DrawTables, rules: DrawRules, pick: Pick | LayerRows) -> Drawn:
    """See `segpaste.engine.reference.draws.draw.draw`.

    Raises:
        ValueError: the tables of the sources differ in shape; the library does not check bounds.
    """
    b, (s, k_s) = len(targets.seeds), sources.eligible.shape
    if sources.boxes.shape != (s, k_s, 4) or sources.labels.shape != (s, k_s) or sources.extent.shape != (s, 2):
        raise ValueError(
            f"draw: expected boxes {[s, k_s, 4]}, labels {[s, k_s]} and extent {[s, 2]}, as eligible, got "
            f"{[*sources.boxes.shape]}, {[*sources.labels.shape]} and {[*sources.extent.shape]}"
        )
    rows = {name: row.contiguous() for name, row in pick._asdict().items()} if isinstance(pick, LayerRows) else {}
    sizes = {"B": b, "L": rules.num_layers, "K_s": k_s}
    placement, counts = empty(Placement, CPU, sizes, **rows), empty(PlacementCounts, CPU, sizes)
    how = _GIVEN if isinstance(pick, LayerRows) else PICKS[pick]
    inputs = {"targets": targets, "sources": sources, "tables": tables, "rules": rules}
    check(jobs.DRAW.run(workspace(), pick=how, sizes=sizes, **inputs, placement=placement, counts=counts))
    return placement, counts


def draw_classes(
    batch: PaddedBatchedDenseSample, found: Survey, rows: LayerRows, tables: DrawTables
) -> tuple[Placement, PlacementCounts, Mixture]:
    """See `segpaste.engine.reference.classmix.draw_classes`."""
    (b, num_layers), k, num_classes = rows.source_idx.shape, batch.max_instances, not_none(found.present).shape[1]
    sizes = {"B": b, "L": num_layers, "K": k, "num_classes": num_classes}
    sizes["H"], sizes["W"] = batch.canvas_size
    placement = classmix.where_they_stand(rows, torch.empty(b, num_layers, k + 1, dtype=torch.bool, device=CPU))
    mixture = empty(Mixture, CPU, sizes, eligible=found.eligible)
    zeros = {name: torch.zeros(b, dtype=torch.int64, device=CPU) for name in classmix.NOT_COUNTED}
    counts = empty(PlacementCounts, CPU, sizes, **zeros)
    planes, own = lined_planes(batch), instances(batch)
    error = jobs.DRAW_CLASSES.run(
        workspace(),
        sizes=sizes,
        chances=jobs.Chances(not_none(batch.sample_seeds), tables.limits),
        found=found,
        layer_rows=rows,
        mixture=mixture,
        placement=placement,
        counts=counts,
        planes=jobs.plane_words(planes),
        rows=addresses(own),
    )
    check(error)
    return placement, counts, mixture
