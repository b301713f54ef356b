"""A paste stage by stage, and its report, where no backend does it at once; and ClassMix.

In compiled code on the CPU, ClassMix is one custom operator around the same functions: traced there, its small tensors
would be C++ files of index arithmetic, which take minutes to compile. Elsewhere it is traced, and fused with what is
around it.
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from segpaste import engine
from segpaste.augmentation import classmix
from segpaste.augmentation.at_once import instance_rows, paste_at_once
from segpaste.augmentation.classmix import Mixture
from segpaste.augmentation.config import BatchCopyPasteConfig
from segpaste.augmentation.frame import Frame, pixel_planes
from segpaste.augmentation.panoptic import ClassTables
from segpaste.augmentation.placement import Placement, PlacementCounts
from segpaste.augmentation.report import DROP_REASONS, PasteReport, tally
from segpaste.engine import Rows
from segpaste.engine.operands import empty_plane
from segpaste.types import FIELDS, PaddedBatchedDenseSample

_COUNTS = ("num_tried", "num_placed", "num_dropped", "visible_layer")
"""The first fields of a `PasteReport`."""

_MAPS = tuple(field.name for field in fields(Placement))


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


def paste_in_stages(frame: Frame, placement: Placement, counts: PlacementCounts) -> Pasted:
    """Return the output of a frame, and its report."""
    settled = frame.settle(frame.plan(placement))
    slot_plan = frame.assign(settled)
    report = tally(placement, counts, settled, slot_plan, frame.config.min_area_px)
    return frame.render(settled, slot_plan), report


def mix_in_stages(target: PaddedBatchedDenseSample, mixture: Mixture, rules: PasteRules) -> Pasted:
    """Return the batch with classes of its sources, and the report, which names rows of the batch."""
    if torch.compiler.is_compiling() and engine.pastes_whole(target.device):
        return _as_operator(target, mixture, rules)
    return _mix(target, mixture, rules.config, rules.classes)


def _mix(
    target: PaddedBatchedDenseSample, mixture: Mixture, config: BatchCopyPasteConfig, classes: ClassTables | None
) -> Pasted:
    source, placement, counts = classmix.mixed_layers(target, mixture, config.ignore_index)
    frame = Frame(config, classes, target, source)
    if frame.settles_at_once:
        out, report = paste_at_once(frame, placement, counts, with_report=True, in_place=False)
        assert report is not None
    else:
        out, report = paste_in_stages(frame, placement, counts)
    return out, replace(report, placement=replace(report.placement, source_idx=mixture.source_idx))


def _as_operator(target: PaddedBatchedDenseSample, mixture: Mixture, rules: PasteRules) -> Pasted:
    written = iter(_mix_operator(_fields(target), target.metric_depth, list(mixture), rules.text))
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


@torch.library.custom_op("segpaste::mix", mutates_args=())
def _mix_operator(target: list[Tensor | None], metric_depth: bool, mixture: list[Tensor], text: str) -> list[Tensor]:
    """Mix classes into the target; return planes, rows and report."""
    config, classes = _rules_of(text)
    batch = _batch(target, metric_depth)
    out, report = _mix(batch, Mixture(*mixture), config, classes)
    planes = [getattr(out, name) for name, plane in _written_planes(batch).items() if plane is not None]
    maps = [getattr(report.placement, name) for name in _MAPS]
    counts = [getattr(report, name) for name in _COUNTS]
    small = [*(getattr(out, name) for name in Rows._fields), *counts, *maps, report.slot_layer, report.slot_source]
    # An operator returns nothing that it was given.
    return [*planes, *(t.clone(memory_format=torch.contiguous_format) for t in (*small, report.drawn))]


@_mix_operator.register_fake
def _(target: list[Tensor | None], metric_depth: bool, mixture: list[Tensor], text: str) -> list[Tensor]:
    batch = _batch(target, metric_depth)
    b, k = batch.labels.shape
    layers, num_slots = mixture[0].shape[1], k + 1  # one slot more for what belongs to no instance

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
