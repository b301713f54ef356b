"""Launches of the tables and of the looks, equal to `segpaste.engine.reference.stages` bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from segpaste.engine.record_fields import empty
from segpaste.engine.reference.plan import AxisTable, LayerPlan, SlotPlan, Visible, empty_visible
from segpaste.engine.schema import Placement, Scene
from segpaste.engine.triton.arguments import plan_arguments
from segpaste.engine.triton.launching import launch, power_of_two
from segpaste.engine.triton.looks import arguments as args
from segpaste.engine.triton.looks._look import look, look_until_settled
from segpaste.engine.triton.looks._tables import tables
from segpaste.engine.triton.packed_slots import visible_arguments

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
    work = args.work_arguments(scene, placement)
    target = args.batch_arguments(scene.target)
    source = target if scene.source is scene.target else args.batch_arguments(scene.source)
    flat, maps, mix = plan_arguments(plan), args.map_arguments(placement), args.mix_arguments(scene)
    labels = args.label_arguments(scene, slots)
    launch(
        tables,
        len(work.words) * (flat.num_layers * PARTS + 1),
        *(target, source, flat, maps, mix, _axis(plan.x), _axis(plan.y)),
        *(labels, args.camera_arguments(scene), work, scene.rules.ignore_index),
        PARTS=PARTS,
        BLOCK=BLOCK,
        num_warps=8,
        maxnreg=MAX_REGISTERS,
    )
    seen = visible_arguments(scene, plan, settled.visible)
    copied = [None if planes is None else planes.get(name) for name in ("semantic_maps", "panoptic_maps")]
    out = args.out_arguments(slots, rows, settled.num_gone, settled.lost, *copied)
    _look(scene, (seen, target, source, flat, maps, mix, labels, work, out, args.rule_arguments(scene.rules)))
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

    given = {"source_idx": placement.source_idx, "hflip": placement.hflip, "x": axis(width), "y": axis(height)}
    plan, slots = empty(LayerPlan, device, sizes, **given), empty(SlotPlan, device, sizes)
    none = torch.empty(0, height, width, dtype=torch.int16, device=device)
    visible = Visible(none, none) if hides else empty_visible(scene)
    num_gone = torch.empty(b, 3, dtype=torch.int64, device=device)
    return Settled(plan, visible, slots, rows, num_gone, torch.empty_like(slots.paste_layer))
