"""Functions of the native library on tensors, by the jobs that `segpaste.engine.native.jobs` declares.

Lines of planes must be dense unless they are channels-last images. Other tensors are copied first, except those that
are written.
"""

from __future__ import annotations

from array import array
from typing import Final

import torch
from torch import Tensor

from segpaste.engine.native import jobs, library
from segpaste.engine.native.library import workspace, workspaces
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
from segpaste.engine.record_fields import empty
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

CPU = torch.device("cpu")

_KINDS: Final = {torch.uint8: 0, torch.float32: 1, torch.float16: 2, torch.bfloat16: 3}
_GIVEN: Final = 0
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
    """See `segpaste.engine.reference.inputs.survey`."""
    (b, k), is_thing, asks = batch.labels.shape, classes.is_thing, ignore_index is not None
    sizes = {"B": b, "K": k, "num_classes": classmix.NUM_CLASSES if is_thing is None else len(is_thing)}
    sizes["H"], sizes["W"] = batch.canvas_size
    found = empty(Survey, CPU, sizes, has_present=None, **({} if asks else {"present": None}))
    rows = batch.boxes.contiguous(), batch.labels.contiguous(), None, batch.instance_valid.contiguous()
    padding, semantic = _lined(batch.padding_mask), _lined(batch.semantic_maps) if asks else None
    jobs.SURVEY.run(
        sizes=sizes,
        ignore_index=ignore_index or 0,
        whole_only=whole_only,
        found=found,
        classes=Classes(is_thing, classes.is_stuff if asks else None),
        rows=jobs.row_words(rows),
        padding=jobs.plane_words([padding]),
        semantic=jobs.plane_words([semantic]),
    )
    return found if found.present is None else found._replace(has_present=found.present.any(1))


def choose_rows(candidates: Tensor, seeds: Tensor, num_layers: int) -> LayerRows:
    """See `segpaste.engine.reference.draws.draw.choose_rows`."""
    sizes = {"B": len(seeds), "L": num_layers}
    rows = empty(LayerRows, CPU, sizes)
    _check(jobs.CHOOSE_ROWS.run(workspace(), sizes=sizes, candidates=jobs.Candidates(seeds, candidates), rows=rows))
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
    how = _GIVEN if isinstance(pick, LayerRows) else _PICKS[pick]
    inputs = {"targets": targets, "sources": sources, "tables": tables, "rules": rules}
    _check(jobs.DRAW.run(workspace(), pick=how, sizes=sizes, **inputs, placement=placement, counts=counts))
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
    planes, instances = _lined_planes(batch), _instances(batch)
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
        rows=jobs.row_words(instances),
    )
    _check(error)
    return placement, counts, mixture


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
    target, source = scene.target, scene.source
    (b, num_layers, k_s), (height, width), k = placement.carried.shape, target.canvas_size, target.max_instances
    if k_s != source.max_instances + (scene.mixture is not None):
        raise ValueError(f"expected a placement of {source.max_instances} slots, the source's, got {k_s}")
    planes = present_planes(target)
    new = {} if in_place else {name: empty_plane(name, plane) for name, plane in planes.items()}
    given, rows = _lined_planes(target), _instances(target)
    origin = given if source is target else _lined_planes(source)
    boxes, labels = source.boxes.contiguous(), source.labels.contiguous()
    new_rows = [torch.empty(row.shape, dtype=row.dtype, device=CPU) for row in rows]
    batch = target if in_place else target.derived(**new, **dict(zip(ROWS, new_rows, strict=True)))
    sizes = {"B": b, "L": num_layers, "K_s": k_s, "K": k, "V": b if with_layer else 0, "H": height, "W": width}
    sizes["S"], sizes["C"], (sizes["H_s"], sizes["W_s"]) = source.batch_size, target.images.shape[1], source.canvas_size
    outcome = empty(Outcome, CPU, sizes, batch=batch)
    is_metric = target.metric_depth and target.depth is not None and source.depth is not None
    cameras = jobs.Cameras(target.camera_intrinsics, source.camera_intrinsics) if is_metric else None
    num_threads, shared = library.num_threads(b, _num_bytes(target)), array("q", bytes(16 * b))
    own = jobs.plane_words(given)
    error = jobs.COMPOSE.run(
        workspaces(num_threads).buffer_info()[0],
        library.parallel(),
        sizes=sizes,
        pixel_kind=_KINDS[target.images.dtype],
        largest_id=MAX_FED_BACK_ID,
        exclusive=scene.is_panoptic,
        with_owner=scene.needs_owner,
        has_fragment=scene.mixture is not None,
        in_place=in_place,
        reads_itself=source is target,
        shares_memory=in_place and source is not target and share_memory([*given, *rows], [*origin, boxes, labels]),
        num_threads=num_threads,
        readers=shared.buffer_info()[0],
        is_taken=shared.buffer_info()[0] + 8 * b,
        placement=placement,
        rules=scene.rules,
        classes=Classes(scene.classes.is_thing, scene.watched, scene.rank),
        mixture=scene.mixture,
        cameras=cameras,
        outcome=outcome,
        target=own,
        source=own if source is target else jobs.plane_words(origin),
        out=own if in_place else jobs.plane_words([*map(new.get, PLANES), None]),
        target_rows=jobs.row_words(rows),
        source_rows=jobs.row_words([boxes, labels, None, None]),
        out_rows=jobs.row_words(new_rows),
    )
    _check(error)
    if in_place:  # autograd did not see the library write
        torch.autograd.graph.increment_version([*written_fields(target).values()])
    return outcome


def _num_bytes(batch: PaddedBatchedDenseSample) -> int:
    return batch.images.nbytes + (0 if batch.instance_masks is None else batch.instance_masks.nbytes)


def _check(error: int) -> None:
    """Raise the error that a job returns."""
    if error == 1:
        raise MemoryError("BatchCopyPaste: no memory for a paste; paste smaller batches, or into fewer slots")
    if error:
        raise ValueError(f"BatchCopyPaste: {_ERRORS[error]}")


def _instances(batch: PaddedBatchedDenseSample) -> list[Tensor]:
    """Return the instances of a batch as row-major tensors."""
    return [getattr(batch, name).contiguous() for name in ROWS]


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
