"""A paste after placement, where the kernels do all of it at once: `segpaste.augmentation.frame` compiled, on the CPU.

There small torch operations would cost more than the pixels. The result is the same, bit for bit.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from segpaste import engine
from segpaste.augmentation import inputs, slots
from segpaste.augmentation.frame import Frame, pixel_planes
from segpaste.augmentation.placement import Placement, PlacementCounts
from segpaste.augmentation.report import PasteReport
from segpaste.engine import ClassKinds, LayerMaps, Rows, Rules
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.check import MAX_FED_BACK_ID


def paste_at_once(
    frame: Frame, placement: Placement, counts: PlacementCounts, *, with_report: bool, in_place: bool
) -> tuple[PaddedBatchedDenseSample, PasteReport | None]:
    """Everything that a frame does, and its report.

    Args:
        frame: target, source and rules.
        placement: as drawn.
        counts: what became of the pastes that were not carried.
        with_report: make the report; else it is made only where nothing was pasted, without ``visible_layer``.
        in_place: write into the planes of the target.
    """
    target, source = frame.target, frame.source
    maps = LayerMaps(
        source_idx=placement.source_idx,
        scale_num=placement.scale_num,
        scale_den=placement.scale_den,
        translate=placement.translate,
        hflip=placement.hflip,
        carried=placement.carried,
        depth_scale=inputs.depth_scale(target, source, placement, frame.config.perspective_depth),
    )
    planes = pixel_planes(target)
    found = engine.paste(
        planes,
        planes if source is target else pixel_planes(source),
        instance_rows(target),
        instance_rows(source),
        maps,
        _class_kinds(frame),
        rules(frame),
        with_layer=with_report,
        in_place=in_place,
    )
    out = frame.output(found.planes, found.rows)
    if not with_report and (torch.compiler.is_compiling() or found.carried.any()):
        return out, None
    drawn = torch.stack([counts.no_source, counts.no_free_slot, counts.does_not_fit], 1)
    report = PasteReport(
        num_tried=counts.tried,
        num_placed=found.carried.sum((1, 2)),
        num_dropped=torch.cat([drawn, found.num_gone], 1),
        visible_layer=found.layer,
        placement=replace(placement, carried=found.carried),
        slot_layer=found.paste_layer,
        slot_source=found.paste_slot,
        drawn=placement.carried,
    )
    return out, report


def rules(frame: Frame) -> Rules:
    """Return the rules of a whole paste, in integers."""
    config, classes = frame.config, frame.classes
    residual, hidden = slots.as_decimal(config.min_residual_area_frac), slots.as_decimal(config.max_hidden_frac)
    stuff = classes if frame.guards_stuff and classes is not None else None
    return Rules(
        num_taps=frame.num_taps,
        min_area_px=config.min_area_px,
        residual_num=residual.numerator,
        residual_den=residual.denominator,
        stuff_num=0 if stuff is None else stuff.frac[0],
        stuff_den=1 if stuff is None else stuff.frac[1],
        stuff_px=0 if stuff is None else stuff.min_px,
        reverts_stuff=frame.reverts_stuff,
        hidden_num=hidden.numerator,
        hidden_den=hidden.denominator,
        ignore_index=config.ignore_index,
        largest_id=MAX_FED_BACK_ID,
        exclusive=frame.is_panoptic,
        with_owner=frame.needs_owner,
        has_fragment=config.emit_classmix,
    )


def _class_kinds(frame: Frame) -> ClassKinds:
    if frame.classes is None:
        return ClassKinds(None, None, None)
    rank = frame.classes.class_rank if frame.is_panoptic and frame.classes.has_ranks else None
    return ClassKinds(frame.classes.is_thing, frame.classes.is_stuff if frame.guards_stuff else None, rank)


def instance_rows(batch: PaddedBatchedDenseSample) -> Rows:
    """The instances of a batch, as the kernels take them."""
    assert batch.instance_ids is not None
    return Rows(batch.boxes, batch.labels, batch.instance_ids, batch.instance_valid)
