"""Composition on CUDA devices: tables and looks, then the pixels. The host never waits for the device.

Pixels are masks, unchanged pixels and pasted pixels; in place only changed pixels, in two steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from segpaste.engine.planes import ROWS, can_be_written, empty_plane, present_planes, share_memory, write_back
from segpaste.engine.reference.plan import LayerPlan, SlotPlan, Visible
from segpaste.engine.schema import Outcome, Placement, Scene
from segpaste.engine.triton import _paste, _write
from segpaste.engine.triton.launching import (
    PlaneArguments,
    launch,
    plain,
    plan_arguments,
    plane_arguments,
    power_of_two,
)
from segpaste.engine.triton.packed_slots import (
    HELD,
    HeldArguments,
    first_visible_slot,
    has_room_for_visible,
    held_arguments,
    visible_arguments,
)
from segpaste.engine.triton.visibility.settling import settle
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.check import not_none

TILE = (8, 64)
"""Rows and columns of a tile of pixels, 2 for each of 256 threads."""

SURFACE_TILE = (4, 64)
"""Rows and columns of a tile with depth or normals: the taps of more pixels need more than `MAX_REGISTERS`."""

MAX_REGISTERS = 128
"""Largest number of registers of a thread, so that two programs fit on a multiprocessor.

Without a limit the assembler aims at fewer, to run more programs at once, and spills some.
"""

MASK_CHUNK = 1 << 14
"""Bytes of masks that one program fills, 8 stores of 16 bytes for each of 128 threads."""

BOX_TILE = (8, 64)
"""Rows and columns of the tiles of boxes that the program writes after that."""

COPY_CHUNK = 1 << 13
"""Bytes of the images that one program copies, 2 stores of 16 bytes for each of 256 threads."""

LABEL_CHUNK = 1 << 10
"""Pixels of which one program clears lost classes and ids."""

DEPTH_CHUNK = 1 << 12
"""Pixels of which one program copies depth and its validity, 16 bytes of them for each of 256 threads."""


def compose(scene: Scene, placement: Placement, *, with_layer: bool, in_place: bool) -> Outcome:
    """See `segpaste.engine.reference.stages.compose`."""
    target = scene.target
    rows, writes = _room_for_rows(target, in_place), in_place and can_write(scene)
    hides = writes and not with_layer and has_room_for_visible(scene, *placement.carried.shape[1:])
    room = room_in_place(scene, placement, hides) if writes else room_out_of_place(target)
    settled = settle(scene, placement, rows, hides, room.planes)
    plan, slots, visible = settled.plan, settled.slots, settled.visible
    out = target.derived(**render(scene, plan, visible, slots, room), **rows)
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


def can_write(scene: Scene) -> bool:
    """Return whether the target's planes can be written in place; planes that have other strides are copied."""
    return can_be_written(scene.target) and (scene.source is scene.target or not _shares(scene))


class Room(NamedTuple):
    """Memory of the pixels of an output; all of it is allocated before the target is written.

    Attributes:
        planes: planes of the output by name, or None to write those of the target.
        waiting: in place, planes by name for pasted values that do not fit into spare bits.
        first: in place, first slots of the values that do; None if no value has to wait.
    """

    planes: dict[str, Tensor] | None
    waiting: Mapping[str, Tensor]
    first: HeldArguments | None


def room_out_of_place(target: PaddedBatchedDenseSample) -> Room:
    """Allocate the planes of an output."""
    return Room({name: empty_plane(name, plane) for name, plane in present_planes(target).items()}, {}, None)


def room_in_place(scene: Scene, placement: Placement, hides: bool) -> Room:
    """Allocate the memory of a paste into the target itself.

    The host does not know the number of pasted pixels, only the number of unused mask bits of each pixel. No pixel is
    pasted twice, so these bits hold the pasted values. Values that do not fit wait in planes of the target's size,
    which are accessed only at pasted pixels. With another source than the target nothing has to wait.

    Args:
        scene: scene to paste in.
        placement: draws of the paste.
        hides: spare bits keep the visibility buffer, too.
    """
    if scene.source is not scene.target:
        return Room(None, {}, None)
    end = first_visible_slot(scene, *placement.carried.shape[1:]) if hides else scene.target.max_instances
    first, without_room = held_arguments(scene.target, end)
    planes = present_planes(scene.target)
    return Room(None, {name: empty_plane(name, planes[name]) for name in without_room}, first)


def render(scene: Scene, plan: LayerPlan, visible: Visible, slots: SlotPlan, room: Room) -> dict[str, Tensor]:
    """Write the planes of an output, into which the target's labels are copied already, or those of the target.

    See `segpaste.engine.reference.pixels.render` and `can_write`.
    """
    arguments = _Arguments(scene, plan, visible, slots)
    if room.planes is None:
        _render_in_place(scene, arguments, room)
        torch.autograd.graph.increment_version([*present_planes(scene.target).values()])
        return present_planes(scene.target)
    out = plane_arguments(scene.target.derived(**room.planes, padding_mask=None))
    _fill_masks(arguments, out)
    _keep_pixels(scene, arguments, out)
    _paste_pixels(arguments, out)
    return room.planes


class _Arguments:
    """Arguments of all kernels, and what follows from them."""

    def __init__(self, scene: Scene, plan: LayerPlan, visible: Visible, slots: SlotPlan) -> None:
        self.target = plane_arguments(scene.target)
        self.source = self.target if scene.source is scene.target else plane_arguments(scene.source)
        self.plan = plan_arguments(plan)
        self.slots = SlotPlan(*(plain(t) for t in slots))
        self.visible = visible_arguments(scene, plan, visible)
        self.is_exclusive = scene.is_panoptic
        self.num_listed = slots.paste_layer.shape[1]
        self.num_rows, self.ignore_index = scene.target.batch_size, scene.rules.ignore_index
        self.num_classes = slots.ignored_class.shape[1]
        may_ignore = self.num_classes and not scene.rules.reverts_stuff
        self.class_block = power_of_two(self.num_classes) if may_ignore else 0
        self.slot_block = power_of_two(self.target.num_slots)

    @property
    def num_pixels(self) -> int:
        return self.num_rows * int(self.target.size)

    def num_tiles(self, tile: tuple[int, int]) -> int:
        rows, cols = tile
        return int(self.num_rows * -(-self.target.height // rows) * -(-self.target.width // cols))


def _shares(scene: Scene) -> bool:
    """Return whether some plane of the source lies in memory of the target's; both live on one device."""
    source = (*present_planes(scene.source).values(), scene.source.padding_mask)
    return share_memory(present_planes(scene.target).values(), source)


def _fill_masks(given: _Arguments, out: Any) -> None:
    num_bytes = given.num_pixels * out.num_slots
    rows, cols = BOX_TILE
    launch(
        _paste.fill_masks,
        -(-num_bytes // MASK_CHUNK),
        out,
        given.target,
        given.source,
        given.plan,
        given.slots,
        given.visible.layer,
        given.visible.owner if given.is_exclusive else None,
        given.num_listed,
        num_bytes,
        CHUNK=MASK_CHUNK,
        ROWS=rows,
        COLS=cols,
        maxnreg=MAX_REGISTERS,
    )


def _keep_pixels(scene: Scene, given: _Arguments, out: Any) -> None:
    images, num_pixels = scene.target.images, given.num_pixels
    image_chunk = COPY_CHUNK // images.element_size()
    num_images = -(-images.numel() // image_chunk)
    if not _is_dense(images):  # strides of all kinds are torch's
        not_none(out.images).copy_(images)
        num_images = 0
    may_lose = out.panoptic is not None or given.class_block > 0
    num_labels = -(-num_pixels // LABEL_CHUNK) if out.semantic is not None and may_lose else 0
    num_depths = 0 if out.depth is None else -(-num_pixels // DEPTH_CHUNK)
    num_normals = 0 if out.normals is None else -(-3 * num_pixels // DEPTH_CHUNK)
    launch(
        _write.keep,
        num_images + num_labels + num_depths + num_normals,
        out,
        given.target,
        given.plan,
        given.slots,
        given.num_classes,
        given.ignore_index,
        num_pixels,
        images.numel(),
        num_images,
        num_labels,
        num_depths,
        IMAGE_CHUNK=image_chunk,
        LABEL_CHUNK=LABEL_CHUNK,
        DEPTH_CHUNK=DEPTH_CHUNK,
        CLASSES=given.class_block,
        SLOTS=given.slot_block,
        num_warps=8,
        maxnreg=MAX_REGISTERS,
    )


def _is_dense(images: Tensor) -> bool:
    return images.is_contiguous() or images.is_contiguous(memory_format=torch.channels_last)


def _paste_pixels(given: _Arguments, out: Any, held: HeldArguments | None = None, num_slots: int = 0) -> None:
    """Write pasted pixels into ``out``, or into spare bits; with a number of slots, also the masks of the target."""
    has_surfaces = given.target.depth is not None or given.target.normals is not None
    rows, cols = tile = SURFACE_TILE if has_surfaces else TILE
    launch(
        _paste.paste,
        given.num_tiles(tile),
        out,
        given.target,
        given.source,
        given.plan,
        given.slots,
        given.visible,
        held or _NOT_HELD,
        given.num_listed,
        ROWS=rows,
        COLS=cols,
        TAPS=power_of_two(given.plan.num_taps),
        SLOTS=power_of_two(num_slots) if num_slots else 0,
        IS_EXCLUSIVE=given.is_exclusive,
        WAITS=held is not None,
        num_warps=8,
        maxnreg=MAX_REGISTERS,
    )


def _render_in_place(scene: Scene, given: _Arguments, room: Room) -> None:
    """Write the planes of the target.

    If the source is the target, all pasted pixels are gathered before any of them is written. Masks wait in a separate
    bit. Without panoptic maps a pixel may belong to several masks.
    """
    waits, first = room.first is not None, room.first or _NOT_HELD
    out = _waiting(scene.target, room.waiting) if waits else given.target
    _paste_pixels(given, out, first if waits else None, given.target.num_slots)
    rows, cols = TILE
    launch(
        _write.write,
        given.num_tiles(TILE),
        given.target,
        out,
        given.plan,
        given.slots,
        given.visible,
        first,
        given.num_classes,
        given.ignore_index,
        ROWS=rows,
        COLS=cols,
        SLOTS=given.slot_block,
        CLASSES=given.class_block,
        WAITS=waits,
        num_warps=8,
        maxnreg=MAX_REGISTERS,
    )


def _waiting(target: PaddedBatchedDenseSample, waiting: Mapping[str, Tensor]) -> Any:
    """Return the planes in which pasted values wait, None where they wait in spare bits."""
    held = plane_arguments(target.derived(**waiting))._asdict()
    absent = {short: None for name, short in HELD.items() if name not in waiting}
    return PlaneArguments(**{**held, **absent})


_NOT_HELD = HeldArguments(0, 0, 0, 0, 0, 0)
