"""Arguments of the kernels of the looks: bools as bytes, absent tensors as None, sizes as plain integers."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from segpaste.engine.record_fields import names_of
from segpaste.engine.reference.plan import LayerPlan, SlotPlan
from segpaste.engine.schema import Mixture, PasteRules, Placement, Scene
from segpaste.engine.triton.launching import argument_tuple, plain
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.check import not_none

NUM_LOOKS = 3
"""Looks that have counters of their own: without guards, with guards, after a removal."""


class BatchArguments(NamedTuple):
    """Planes and instances of the target or of the source; of the source only what is read of it."""

    masks: Tensor
    semantic: Tensor | None
    panoptic: Tensor | None
    depth: Tensor | None
    depth_valid: Tensor | None
    padding: Tensor | None
    boxes: Tensor
    labels: Tensor
    ids: Tensor
    valid: Tensor
    num_slots: int
    height: int
    width: int
    size: int


class AxisArguments(NamedTuple):
    """Table of one axis, written; ``linear_idx`` and ``linear_weight`` are None where nothing is interpolated."""

    nearest: Tensor
    linear_idx: Tensor | None
    linear_weight: Tensor | None
    filter_idx: Tensor
    filter_weight: Tensor


_MAPS = [name for name in names_of(Placement, "triton") if name not in (*LayerPlan._fields, "layer_valid")]

MapArguments = argument_tuple("MapArguments", *_MAPS, "drawn")
"""What a placement has beyond its plan: the maps of the layers, and the pastes that were drawn."""

MixArguments = argument_tuple("MixArguments", *names_of(Mixture, "triton"), "num_classes")
"""`segpaste.engine.schema.Mixture`; None without ClassMix."""

RuleArguments = argument_tuple("RuleArguments", *names_of(PasteRules, "triton"))


class LabelArguments(NamedTuple):
    """Labels of the layers' slots, and tables of classes.

    Attributes:
        of_slot: [B, L, K] int64, written by the tables. In place a row's own labels may be gone when another is read.
        paste_class: `SlotPlan.paste_class`.
        is_thing: [num_things] bytes, or None.
        is_stuff: [num_stuff] bytes, the classes that are watched, or None.
        rank: [num_ranks] int16, or None.
        num_things: see ``is_thing``.
        num_stuff: see ``is_stuff``.
        num_ranks: see ``rank``.
    """

    of_slot: Tensor
    paste_class: Tensor
    is_thing: Tensor | None
    is_stuff: Tensor | None
    rank: Tensor | None
    num_things: int
    num_stuff: int
    num_ranks: int


class CameraArguments(NamedTuple):
    """Intrinsics of both sides, [B, 4] float32, or None where depth is not metric; 1 if depth is scaled, else 0."""

    target: Tensor | None
    source: Tensor | None
    perspective: int


class OutArguments(NamedTuple):
    """Results of the last decision of a row: `SlotPlan`, the merged instances, and the counts of the report.

    ``semantic`` and ``panoptic`` are maps of the output, which the first look copies while it counts; None in place.
    """

    survives: Tensor
    dropped: Tensor
    paste_layer: Tensor
    paste_slot: Tensor
    fresh_id: Tensor
    ignored_class: Tensor
    boxes: Tensor
    labels: Tensor
    ids: Tensor
    valid: Tensor
    num_gone: Tensor
    lost: Tensor
    semantic: Tensor | None
    panoptic: Tensor | None


class WorkArguments(NamedTuple):
    """Words of int32 that belong to one row, and where each table of them begins.

    A look has counters of its own: areas, then the farthest edges of the target's instances and, from ``pasted`` on, of
    the pastes; the pixels of each class that are hidden; the programs that have arrived. The tables of a look are
    ``look_size`` apart. All sizes are multiples of 16, so that Triton compiles the kernels once for all of them.

    Attributes:
        words: [B, size].
        size: words of a row.
        look_size: words of a look.
        kept_size: words between the areas, and each kind of edges, of the target's instances.
        pasted: first word of the pastes in a look.
        pasted_size: words between the areas, and each kind of edges, of the pastes.
        hidden: first word of the hidden pixels of each class in a look.
        arrived: word of a look.
        before: areas before the paste.
        class_before: pixels of each class before the paste.
        last_id: largest id that has a pixel.
        state: look that the row needs next, 0 if none.
        guarded: 1 if anything must not be hidden.
        zeroed: end of the words that the tables set to zero.
        layer_box: box around the pastes of each layer, xyxy.
        order: paste that takes each free slot.
        protected: classes that must not be hidden.
        closed: instances that must not be hidden.
        wanted: instances of a layer's source that ClassMix wants.
    """

    words: Tensor
    size: int
    look_size: int
    kept_size: int
    pasted: int
    pasted_size: int
    hidden: int
    arrived: int
    before: int
    class_before: int
    last_id: int
    state: int
    guarded: int
    zeroed: int
    layer_box: int
    order: int
    protected: int
    closed: int
    wanted: int


def work_arguments(scene: Scene, placement: Placement) -> WorkArguments:
    """Allocate the words of all rows."""
    (b, num_layers, num_slots), num_kept = placement.carried.shape, scene.target.max_instances
    num_classes = 0 if scene.watched is None else len(scene.watched)
    kept, pasted, classes, one = map(_rounded, (num_kept, num_layers * num_slots, num_classes, 1))
    hidden = 5 * (kept + pasted)
    look_size = hidden + classes + one
    starts = [NUM_LOOKS * look_size]
    for size in (kept, classes, one, one, one, 0, _rounded(4 * num_layers), kept, classes, kept, pasted):
        starts.append(starts[-1] + size)
    words = torch.empty(b, starts[-1], dtype=torch.int32, device=scene.target.device)
    *starts, size = starts
    return WorkArguments(words, size, look_size, kept, 5 * kept, pasted, hidden, hidden + classes, *starts)


def _rounded(size: int) -> int:
    return -(-size // 16) * 16


def batch_arguments(batch: PaddedBatchedDenseSample) -> BatchArguments:
    """Return the planes and the instances of a batch, in row-major order."""
    names = "instance_masks", "semantic_maps", "panoptic_maps", "depth", "depth_valid", "padding_mask"
    rows = "boxes", "labels", "instance_ids", "instance_valid"
    tensors = [getattr(batch, name) for name in (*names, *rows)]
    lined = [None if tensor is None else plain(tensor) for tensor in tensors]
    height, width = batch.canvas_size
    sizes = not_none(batch.instance_masks).shape[1], height, width, height * width
    return BatchArguments._make([*lined, *sizes])


def map_arguments(placement: Placement) -> Any:
    """Return the maps of the layers."""
    return MapArguments(*(plain(getattr(placement, name)) for name in _MAPS), plain(placement.carried))


def rule_arguments(rules: PasteRules) -> Any:
    """Return the rules that kernels read."""
    return RuleArguments._make(getattr(rules, name) for name in RuleArguments._fields)


def mix_arguments(scene: Scene) -> Any:
    """Return the classes that ClassMix pastes."""
    if scene.mixture is None:
        return MixArguments(*(None for _ in Mixture._fields), 0)
    return MixArguments(*map(plain, scene.mixture), scene.mixture.classes.shape[2])


def label_arguments(scene: Scene, slots: SlotPlan) -> LabelArguments:
    """Return tables of classes, and room for labels."""
    of_slot = torch.empty_like(slots.paste_class)
    given = scene.classes.is_thing, scene.watched, scene.rank
    lined = [None if table is None else plain(table.to(of_slot.device)) for table in given]
    sizes = [0 if table is None else len(table) for table in lined]
    return LabelArguments._make([of_slot, slots.paste_class, *lined, *sizes])


def camera_arguments(scene: Scene) -> CameraArguments:
    """Return the cameras, from which the factors on depth are computed."""
    target, source = scene.target, scene.source
    if target.depth is None or source.depth is None:
        return CameraArguments(None, None, 0)
    cameras = target.camera_intrinsics, source.camera_intrinsics
    if not target.metric_depth or cameras[0] is None or cameras[1] is None:
        return CameraArguments(None, None, scene.rules.perspective)
    return CameraArguments(plain(cameras[0]), plain(cameras[1]), scene.rules.perspective)
