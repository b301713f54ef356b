"""Composition on CUDA devices: tables and looks, then the pixels. The host never waits for the device."""

from __future__ import annotations

import torch
from torch import Tensor

from segpaste.engine.planes import ROWS, write_back
from segpaste.engine.schema import Outcome, Placement, Scene
from segpaste.engine.triton import pixels
from segpaste.engine.triton.looks import settle
from segpaste.engine.triton.packed_slots import has_room_for_visible
from segpaste.types import PaddedBatchedDenseSample


def compose(scene: Scene, placement: Placement, *, with_layer: bool, in_place: bool) -> Outcome:
    """See `segpaste.engine.reference.stages.compose`."""
    target = scene.target
    rows, writes = _room_for_rows(target, in_place), in_place and pixels.can_write(scene)
    hides = writes and not with_layer and has_room_for_visible(scene, *placement.carried.shape[1:])
    room = pixels.room_in_place(scene, placement, hides) if writes else pixels.room_out_of_place(target)
    settled = settle(scene, placement, rows, hides, room.planes)
    plan, slots, visible = settled.plan, settled.slots, settled.visible
    out = target.derived(**pixels.render(scene, plan, visible, slots, room), **rows)
    written = write_back(target, out) if in_place else out
    found = slots.paste_layer, slots.paste_slot, settled.lost
    return Outcome(written, plan.carried, settled.num_gone, *found, visible.layer)


def _room_for_rows(target: PaddedBatchedDenseSample, in_place: bool) -> dict[str, Tensor]:
    """Return tensors for the merged instances by name: in place those of the target, where a kernel may write them."""
    rows = {name: getattr(target, name) for name in ROWS}
    if in_place and all(row.is_contiguous() and not row.requires_grad for row in rows.values()):
        torch.autograd.graph.increment_version([*rows.values()])  # autograd does not see the kernels write
        return rows
    return {name: torch.empty_like(row, memory_format=torch.contiguous_format) for name, row in rows.items()}
