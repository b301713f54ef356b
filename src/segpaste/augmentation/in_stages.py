"""A paste stage by stage, and its report: what `segpaste.augmentation.at_once` does not do in one call of the kernels.

In compiled code on the CPU all stages are one custom operator around the same functions. Traced there, the small
tensors between the kernels would be a dozen C++ files of index arithmetic, which take two minutes to compile and then
no less time to run. Elsewhere they are traced, and fused with what is around them.
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from segpaste import kernels
from segpaste.augmentation import classmix
from segpaste.augmentation.at_once import instance_rows, paste_at_once
from segpaste.augmentation.classmix import Mixture
from segpaste.augmentation.config import BatchCopyPasteConfig
from segpaste.augmentation.frame import Frame, pixel_planes
from segpaste.augmentation.panoptic import ClassTables
from segpaste.augmentation.placement import Placement, PlacementCounts
from segpaste.augmentation.report import DROP_REASONS, PasteReport, tally
from segpaste.kernels import Rows
from segpaste.kernels.operands import empty_plane
from segpaste.types import FIELDS, PaddedBatchedDenseSample

_COUNTS = ("num_tried", "num_placed", "num_dropped", "visible_layer")
"""The first fields of a `PasteReport`."""

_MAPS = tuple(field.name for field in fields(Placement))
_DRAWN_COUNTS = tuple(field.name for field in fields(PlacementCounts))


class PasteRules(NamedTuple):
    """What a paste goes by.

    Attributes:
        config: all of it.
        classes: things and stuff, if the config has a taxonomy.
        text: the config as JSON, which an operator takes in its place.
    """

    config: BatchCopyPasteConfig
    classes: ClassTables | None
    text: str


Pasted = tuple[PaddedBatchedDenseSample, PasteReport]


def paste_in_stages(frame: Frame, placement: Placement, counts: PlacementCounts, rules: PasteRules) -> Pasted:
    """Everything that a frame does, and its report."""
    if not _is_one_operator(frame.target.device):
        return _paste(frame, placement, counts)
    drawn = [getattr(placement, name) for name in _MAPS] + [getattr(counts, name) for name in _DRAWN_COUNTS]
    return _as_operator(frame.target, frame.source, drawn, rules)


def mix_in_stages(target: PaddedBatchedDenseSample, mixture: Mixture, rules: PasteRules) -> Pasted:
    """The batch with classes of its sources, and the report, which names rows of the batch."""
    if not _is_one_operator(target.device):
        return _mix(target, mixture, rules.config, rules.classes)
    return _as_operator(target, None, list(mixture), rules)


def _is_one_operator(device: torch.device) -> bool:
    return torch.compiler.is_compiling() and kernels.pastes_whole(device)


def _paste(frame: Frame, placement: Placement, counts: PlacementCounts) -> Pasted:
    settled = frame.settle(frame.plan(placement))
    slot_plan = frame.assign(settled)
    report = tally(placement, counts, settled, slot_plan, frame.config.min_area_px)
    return frame.render(settled, slot_plan), report


def _mix(
    target: PaddedBatchedDenseSample, mixture: Mixture, config: BatchCopyPasteConfig, classes: ClassTables | None
) -> Pasted:
    source, placement, counts = classmix.mixed_layers(target, mixture, config.ignore_index)
    frame = Frame(config, classes, target, source)
    if frame.settles_at_once:
        out, report = paste_at_once(frame, placement, counts, with_report=True, in_place=False)
        assert report is not None
    else:
        out, report = _paste(frame, placement, counts)
    return out, replace(report, placement=replace(report.placement, source_idx=mixture.source_idx))


def _as_operator(
    target: PaddedBatchedDenseSample, source: PaddedBatchedDenseSample | None, drawn: list[Tensor], rules: PasteRules
) -> Pasted:
    metric = [target.metric_depth, source is not None and source.metric_depth]
    written = iter(_stages(_fields(target), [] if source is None else _fields(source), metric, drawn, rules.text))
    planes = {name: None if plane is None else next(written) for name, plane in _written_planes(target).items()}
    rows = {name: next(written) for name in Rows._fields}
    counts = [next(written) for _ in _COUNTS]
    placement = Placement(*(next(written) for _ in _MAPS))
    num_tried, num_placed, num_dropped, visible_layer = counts
    report = PasteReport(num_tried, num_placed, num_dropped, visible_layer, placement, *written)
    return target.derived(**planes, **rows), report


def _written_planes(target: PaddedBatchedDenseSample) -> dict[str, Tensor | None]:
    return {name: plane for name, plane in pixel_planes(target)._asdict().items() if name != "padding_mask"}


def _fields(batch: PaddedBatchedDenseSample) -> list[Tensor | None]:
    """All tensors of a batch, in the order of the field table."""
    return [getattr(batch, field.batched_name) for field in FIELDS]


def _batch(tensors: list[Tensor | None], metric_depth: bool) -> PaddedBatchedDenseSample:
    """The inverse of `_fields`, not validated: it was a batch."""
    batch = object.__new__(PaddedBatchedDenseSample)
    for field, tensor in zip(FIELDS, tensors, strict=True):
        object.__setattr__(batch, field.batched_name, tensor)
    object.__setattr__(batch, "metric_depth", metric_depth)
    return batch


@lru_cache(maxsize=64)
def _rules_of(text: str) -> tuple[BatchCopyPasteConfig, ClassTables | None]:
    config = BatchCopyPasteConfig.model_validate_json(text)
    return config, None if config.panoptic is None else ClassTables(config.panoptic)


@torch.library.custom_op("segpaste::stages", mutates_args=())
def _stages(
    target: list[Tensor | None], source: list[Tensor | None], metric: list[bool], drawn: list[Tensor], text: str
) -> list[Tensor]:
    """Paste as drawn from a source, or where there is none mix classes of the target; planes, rows and report."""
    config, classes = _rules_of(text)
    batch = _batch(target, metric[0])
    if source:
        frame = Frame(config, classes, batch, _batch(source, metric[1]))
        out, report = _paste(frame, Placement(*drawn[: len(_MAPS)]), PlacementCounts(*drawn[len(_MAPS) :]))
    else:
        out, report = _mix(batch, Mixture(*drawn), config, classes)
    planes = [getattr(out, name) for name, plane in _written_planes(batch).items() if plane is not None]
    maps = [getattr(report.placement, name) for name in _MAPS]
    counts = [getattr(report, name) for name in _COUNTS]
    small = [*(getattr(out, name) for name in Rows._fields), *counts, *maps, report.slot_layer, report.slot_source]
    # An operator returns nothing that it was given.
    return [*planes, *(t.clone(memory_format=torch.contiguous_format) for t in (*small, report.drawn))]


@_stages.register_fake
def _(
    target: list[Tensor | None], source: list[Tensor | None], metric: list[bool], drawn: list[Tensor], text: str
) -> list[Tensor]:
    batch = _batch(target, metric[0])
    b, k = batch.labels.shape
    layers, num_slots = drawn[0].shape[1], k + 1  # ClassMix has a slot for what belongs to no instance
    if source:
        num_slots = _batch(source, metric[1]).max_instances

    def integers(*shape: int) -> Tensor:
        return batch.labels.new_empty(shape)

    def flags(*shape: int) -> Tensor:
        return batch.instance_valid.new_empty(shape)

    planes = [empty_plane(name, plane) for name, plane in _written_planes(batch).items() if plane is not None]
    rows = [row.new_empty(row.shape) for row in instance_rows(batch)]
    seen = batch.images.new_empty((b, *batch.images.shape[2:]), dtype=torch.int16)
    counts = [integers(b), integers(b), integers(b, len(DROP_REASONS)), seen]
    pairs = [integers(b, layers, 2) for _ in range(3)]
    carried = [flags(b, layers, num_slots) for _ in range(2)]
    maps = [integers(b, layers), flags(b, layers), *pairs, flags(b, layers), carried[0]]
    return [*planes, *rows, *counts, *maps, integers(b, k), integers(b, k), carried[1]]
