"""Launches of the tables and of the looks, equal to `segpaste.engine.reference.stages` bit for bit.

Arguments of their kernels are bools as bytes, absent tensors as None, and sizes as plain integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from segpaste.engine.planes import PLANES, ROWS, SHORT_NAMES
from segpaste.engine.record_fields import empty, fields_of, names_of
from segpaste.engine.reference.plan import AxisTable, LayerPlan, SlotPlan, Visible, empty_visible
from segpaste.engine.schema import Classes, Mixture, PasteRules, Placement, Scene
from segpaste.engine.triton.launching import argument_tuple, launch, plain, plan_arguments, power_of_two
from segpaste.engine.triton.packed_slots import visible_arguments
from segpaste.engine.triton.visibility._passes import look, look_until_settled
from segpaste.engine.triton.visibility._tables import tables
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.check import not_none

TILE = (8, 128)
"""Rows and columns of a tile: a row of bytes fills a cache line, and each of 512 threads has 2 pixels."""

MIX_TILE = (4, 128)
"""The same for a look of ClassMix that also reads depth: with twice as many pixels a thread would spill registers."""

LAST_TILE = (2, 128)
"""The same for `look_until_settled`, which also keeps values for all tiles of a row in registers."""

PARTS = 4
"""Number of programs that share the tables of a layer."""

BLOCK = 256
"""Number of pixels of an axis that one of them takes at once."""

BINS = 128
"""Number of classes that are counted at once."""

CHUNK = 512
"""Number of slots that are decided at once."""

MAX_REGISTERS = 128
"""Largest number of registers of a thread: as many as each of the 512 threads of a look can have.

Without a limit the assembler uses more for a look, and the kernel of the tables spills some.
"""

NUM_LOOKS = 3
"""Looks that have counters of their own: without guards, with guards, after a removal."""

_PLANES = [name for name in (*PLANES, "padding_mask") if name not in ("images", "normals")]

BatchArguments = argument_tuple(
    "BatchArguments",
    *(SHORT_NAMES.get(name, name) for name in (*_PLANES, *ROWS)),
    *("num_slots", "height", "width", "size"),
)
"""Planes and instances of the target or of the source; of the source only what is read of it."""

_MAPS = [name for name in names_of(Placement, "triton") if name not in (*LayerPlan._fields, "layer_valid")]

MapArguments = argument_tuple("MapArguments", *_MAPS, "drawn")
"""What a placement has beyond its plan: the maps of the layers, and the pastes that were drawn."""

MixArguments = argument_tuple("MixArguments", *names_of(Mixture, "triton"), "num_classes")
"""`segpaste.engine.schema.Mixture`; None without ClassMix."""

RuleArguments = argument_tuple("RuleArguments", *names_of(PasteRules, "triton"))

LabelArguments = argument_tuple(
    "LabelArguments", "of_slot", "paste_class", *names_of(Classes), *(str(f.shape[0]) for f in fields_of(Classes))
)
"""Labels of the layers' slots, tables of classes as bytes or int16, or None, and their lengths.

``of_slot``, [B, L, K] int64, is written by the tables. In place a row's own labels may be gone when another is read.
``is_stuff`` are the classes that are watched.
"""

_SLOTS = [name for name in names_of(SlotPlan) if name != "paste_class"]

OutArguments = argument_tuple(
    "OutArguments",
    *(*_SLOTS, *(SHORT_NAMES.get(name, name) for name in ROWS)),
    *("num_gone", "lost", "semantic", "panoptic"),
)
"""Results of the last decision of a row: of `SlotPlan`, the merged instances, and the counts of the report.

``semantic`` and ``panoptic`` are maps of the output, which the first look copies while it counts; None in place.
"""


class Settled(NamedTuple):
    """Plan whose pastes are all visible, and the instance of each slot.

    Attributes:
        plan: the layers; ``carried`` holds the pastes that stay.
        visible: the visibility buffer.
        slots: the instance that each output slot holds.
        rows: the merged instances, by the names of `segpaste.engine.planes.ROWS`.
        num_gone: [B, 3] int64, as in `segpaste.engine.schema.Outcome`.
        lost: [B, K] int64, `segpaste.engine.schema.Outcome.slot_lost`.
    """

    plan: LayerPlan
    visible: Visible
    slots: SlotPlan
    rows: dict[str, Tensor]
    num_gone: Tensor
    lost: Tensor


def settle(
    scene: Scene,
    placement: Placement,
    rows: dict[str, Tensor],
    hides: bool = False,
    planes: Mapping[str, Tensor] | None = None,
) -> Settled:
    """Do all steps of a paste before the pixels, in at most four launches.

    Args:
        scene: target, source and rules.
        placement: rows of the source, and their maps.
        rows: row-major tensors for the merged instances, written; they may be those of the target.
        hides: keep the visibility buffer in spare bits of the target's masks; its planes have no rows then.
        planes: row-major planes of the output, into which the target's semantic and panoptic maps are copied.
    """
    settled = _empty(scene, placement, rows, hides)
    plan, slots = settled.plan, settled.slots
    work = work_arguments(scene, placement)
    target = batch_arguments(scene.target)
    source = target if scene.source is scene.target else batch_arguments(scene.source)
    flat, maps, mix = plan_arguments(plan), map_arguments(placement), mix_arguments(scene)
    labels = label_arguments(scene, slots)
    launch(
        tables,
        len(work.words) * (flat.num_layers * PARTS + 1),
        *(target, source, flat, maps, mix, _axis(plan.x), _axis(plan.y)),
        *(labels, camera_arguments(scene), work, scene.rules.ignore_index),
        PARTS=PARTS,
        BLOCK=BLOCK,
        num_warps=8,
        maxnreg=MAX_REGISTERS,
    )
    seen = visible_arguments(scene, plan, settled.visible)
    copied = [None if planes is None else planes.get(name) for name in ("semantic_maps", "panoptic_maps")]
    out = out_arguments(slots, rows, settled.num_gone, settled.lost, *copied)
    _look(scene, (seen, target, source, flat, maps, mix, labels, work, out, rule_arguments(scene.rules)))
    return settled


def _axis(axis: AxisTable) -> Any:
    """Return a table to write, with None where nothing is interpolated."""
    absent: Any = {} if axis.linear_idx.numel() else dict.fromkeys(("linear_idx", "linear_weight"))
    return axis._replace(**absent)


def _look(scene: Scene, arguments: tuple[Any, ...]) -> None:
    (height, width), rules = scene.target.canvas_size, scene.rules
    plan, work = arguments[3], arguments[7]
    guards_classes = scene.watched is not None and bool(rules.reverts_stuff)
    guards_objects = rules.hidden_num < rules.hidden_den

    def run(kernel: Any, tile: tuple[int, int], argument: int) -> None:
        rows, cols = tile
        launch(
            kernel,
            len(work.words) * -(-height // rows) * -(-width // cols),
            *arguments,
            argument,
            CLASSES=guards_classes,
            OBJECTS=guards_objects,
            EXCLUSIVE=scene.is_panoptic,
            ROWS=rows,
            COLS=cols,
            SLOTS=power_of_two(max(scene.target.max_instances, plan.num_slots)),
            LAYERS=power_of_two(plan.num_layers),
            BINS=BINS,
            CHUNK=CHUNK,
            num_warps=16,
            maxnreg=MAX_REGISTERS,
        )

    num_removals = _num_removals(scene, plan.num_layers)
    tile = MIX_TILE if scene.mixture is not None and _has_depth(scene) else TILE
    for stage in (0, 1) if guards_classes or guards_objects else (0,):
        run(look, tile, stage)
    if num_removals == 1:
        run(look, tile, 2)
    else:
        run(look_until_settled, LAST_TILE, num_removals)


def _num_removals(scene: Scene, num_layers: int) -> int:
    """Return how many rounds of removal may be needed; see `segpaste.engine.reference.stages`."""
    return (num_layers + 1) // 2 if _has_depth(scene) and scene.rank is not None else 1


def _has_depth(scene: Scene) -> bool:
    """Return whether depth decides which layer is visible."""
    return scene.target.depth is not None and scene.source.depth is not None


def _empty(scene: Scene, placement: Placement, rows: dict[str, Tensor], hides: bool) -> Settled:
    """Allocate the tensors that the kernels write."""
    target, device = scene.target, scene.target.device
    (b, num_layers, num_slots), num_kept = placement.carried.shape, target.max_instances
    (height, width), has_linear = target.canvas_size, target.depth is not None or target.normals is not None
    sizes = {"B": b, "L": num_layers, "K_s": num_slots, "K_t": num_kept, "K": num_kept, "T": scene.rules.num_taps}
    sizes["num_classes"] = 0 if scene.watched is None else len(scene.watched)

    def axis(size: int) -> AxisTable:
        return empty(AxisTable, device, {**sizes, "out": size, "linear": size if has_linear else 0})

    given = {"source_idx": placement.source_idx, "x": axis(width), "y": axis(height), **placement.orientation._asdict()}
    plan, slots = empty(LayerPlan, device, sizes, **given), empty(SlotPlan, device, sizes)
    none = torch.empty(0, height, width, dtype=torch.int16, device=device)
    visible = Visible(none, none) if hides else empty_visible(scene)
    num_gone = torch.empty(b, 3, dtype=torch.int64, device=device)
    return Settled(plan, visible, slots, rows, num_gone, torch.empty_like(slots.paste_layer))


class CameraArguments(NamedTuple):
    """Intrinsics of both sides, [B, 4] float32, or None where depth is not metric; 1 if depth is scaled, else 0."""

    target: Tensor | None
    source: Tensor | None
    perspective: int


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


def batch_arguments(batch: PaddedBatchedDenseSample) -> Any:
    """Return the planes and the instances of a batch, in row-major order."""
    tensors = [getattr(batch, name) for name in (*_PLANES, *ROWS)]
    lined = [None if tensor is None else plain(tensor) for tensor in tensors]
    height, width = batch.canvas_size
    return BatchArguments(*lined, not_none(batch.instance_masks).shape[1], height, width, height * width)


def out_arguments(slots: SlotPlan, rows: Mapping[str, Tensor], *others: Tensor | None) -> Any:
    """Return the tensors that the last decision writes; ``others`` are those after the rows."""
    written = *(getattr(slots, name) for name in _SLOTS), *(rows[name] for name in ROWS), *others
    return OutArguments(*(None if tensor is None else plain(tensor) for tensor in written))


def map_arguments(placement: Placement) -> Any:
    """Return the maps of the layers."""
    maps = [getattr(placement, name) for name in (*_MAPS, "carried")]
    return MapArguments._make(None if tensor is None else plain(tensor) for tensor in maps)


def rule_arguments(rules: PasteRules) -> Any:
    """Return the rules that kernels read."""
    return RuleArguments._make(getattr(rules, name) for name in RuleArguments._fields)


def mix_arguments(scene: Scene) -> Any:
    """Return the classes that ClassMix pastes."""
    if scene.mixture is None:
        return MixArguments(*(None for _ in Mixture._fields), 0)
    return MixArguments(*map(plain, scene.mixture), scene.mixture.classes.shape[2])


def label_arguments(scene: Scene, slots: SlotPlan) -> Any:
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
