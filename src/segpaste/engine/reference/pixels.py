"""Functions that resolve, measure and render in torch operations, on any device, tile by tile.

They are written for readability: gather through the look-up tables, decide, select. Tiles bound the memory and change
no bit.
"""

from __future__ import annotations

import torch
from torch import Tensor

from segpaste.engine.planes import empty_plane, present_planes
from segpaste.engine.reference.plan import (
    LayerPlan,
    LayerView,
    Measures,
    Region,
    SlotPlan,
    Visible,
    empty_visible,
    in_boxes,
    tiles,
)
from segpaste.engine.schema import Scene
from segpaste.types import PaddedBatchedDenseSample, sampling
from segpaste.types.check import not_none

Planes = dict[str, Tensor]


def resolve(scene: Scene, plan: LayerPlan, protected: Tensor) -> Visible:
    """Find the visible layer, and its instance, at each pixel: the effective mask M_eff.

    Layers are processed in order. Of the slots of a layer that cover a pixel, the one of the highest rank owns it, of
    equal ones the lowest. It is visible if padding, ignored and protected classes, and depth allow it, and its rank is
    at least that of the pixel's previous owner.

    Args:
        scene: target, source and rules.
        plan: the layers.
        protected: [B, num_classes] bool, semantic classes of the target that nothing may hide.
    """
    target, source, ignore_index = scene.target, scene.source, scene.rules.ignore_index
    visible = empty_visible(scene)
    for plane in visible:
        plane.fill_(-1)
    ranks = slot_ranks(scene)
    for tile in tiles(*target.canvas_size, scene.rules.tile_size):
        seen, owner = (plane[:, tile.rows, tile.cols] for plane in visible)
        is_open = _open_pixels(target, protected, None if scene.rules.covers_void else ignore_index, tile)
        depth, depth_ok = _target_depth(target, tile, by_value=bool(scene.rules.orders_by_value))
        front = _target_ranks(target, scene.rank, tile)
        for layer in range(plan.source_idx.shape[1]):
            view = LayerView(source, plan, layer, tile)
            masks = view.masks()
            shown = masks.any(1) & is_open
            if front is not None and ranks is not None:
                masks, layer_front = _foremost(masks, ranks[view.row])
                shown &= layer_front >= front
            if source.padding_mask is not None:
                shown &= ~view.nearest(source.padding_mask)[:, 0]
            if source.semantic_maps is not None:
                shown &= view.nearest(source.semantic_maps[:, None])[:, 0] != ignore_index
            if depth is not None and depth_ok is not None and source.depth is not None:
                layer_depth, layer_ok = view.depth(by_value=bool(scene.rules.orders_by_value))
                shown &= ~depth_ok | (layer_ok & (layer_depth < depth))
                depth = torch.where(shown, layer_depth, depth)
                depth_ok = torch.where(shown, layer_ok, depth_ok)
            if front is not None:
                front = torch.where(shown, layer_front, front)
            seen[shown] = layer
            if scene.needs_owner:
                owner[shown] = _lowest_slot(masks)[shown]
    return visible


def slot_ranks(scene: Scene) -> Tensor | None:
    """Return the priorities of the source's instances, [S, K_s] int16; None if all classes are equal."""
    return None if scene.rank is None else looked_up(scene.rank, scene.source.labels)


def _lowest_slot(masks: Tensor) -> Tensor:
    """Return the first of K masks [B, K, h, w] that covers each pixel, [B, h, w] int16; K where none does."""
    num_slots = masks.shape[1]
    slots = torch.arange(num_slots, device=masks.device, dtype=torch.int16)[:, None, None]
    return torch.where(masks, slots, num_slots).amin(1)


def _foremost(masks: Tensor, ranks: Tensor) -> tuple[Tensor, Tensor]:
    """Return masks [B, K, h, w] less pixels that a higher rank [B, K] covers, and the highest, [B, h, w] int16."""
    covering = torch.where(masks, ranks[:, :, None, None], torch.iinfo(ranks.dtype).min)
    highest = covering.amax(1)
    return masks & (covering == highest[:, None]), highest


def _target_ranks(target: PaddedBatchedDenseSample, rank: Tensor | None, tile: Region) -> Tensor | None:
    """Return the rank of each pixel's class, [B, h, w] int16, 0 for unknown ones; None if all classes are equal."""
    if rank is None:
        return None
    if target.semantic_maps is None:
        return torch.zeros_like(target.images[:, 0, tile.rows, tile.cols], dtype=rank.dtype)
    return looked_up(rank, target.semantic_maps[:, tile.rows, tile.cols])


def _open_pixels(target: PaddedBatchedDenseSample, protected: Tensor, closed: int | None, tile: Region) -> Tensor:
    """Return the pixels of the target that may be pasted over, [B, h, w] bool; none of the class ``closed``."""
    is_open = torch.ones_like(target.images[:, 0, tile.rows, tile.cols], dtype=torch.bool)
    if target.padding_mask is not None:
        is_open &= ~target.padding_mask[:, 0, tile.rows, tile.cols]
    if target.semantic_maps is not None:
        semantic = target.semantic_maps[:, tile.rows, tile.cols]
        is_open &= ~in_classes(semantic, protected)
        if closed is not None:
            is_open &= semantic != closed
    return is_open


def _target_depth(
    target: PaddedBatchedDenseSample, tile: Region, *, by_value: bool
) -> tuple[Tensor | None, Tensor | None]:
    if target.depth is None or target.depth_valid is None:
        return None, None
    depth, valid = (plane[:, 0, tile.rows, tile.cols] for plane in (target.depth, target.depth_valid))
    return depth, sampling.usable_depth(depth, torch.ones_like(valid) if by_value else valid)


def looked_up(table: Tensor, classes: Tensor) -> Tensor:
    """Return the entries of a table [num_classes] for classes of any shape; zero, or False, for unknown classes."""
    known = (classes >= 0) & (classes < len(table))
    return table.to(classes.device)[classes.clamp(0, len(table) - 1)].masked_fill(~known, 0)


def in_classes(semantic: Tensor, classes: Tensor) -> Tensor:
    """Return whether each pixel's class [B, h, w] is marked in a table [B, num_classes]; unknown classes are not."""
    num_classes = classes.shape[1]
    if num_classes == 0:
        return torch.zeros_like(semantic, dtype=torch.bool)
    known = (semantic >= 0) & (semantic < num_classes)
    index = semantic.clamp(0, num_classes - 1)
    return known & classes.gather(1, index.flatten(1)).view_as(index)


def target_masks(target: PaddedBatchedDenseSample, plan: LayerPlan, tile: Region) -> Tensor:
    """Return the target's masks within their boxes, [B, K_t, h, w] bool."""
    return not_none(target.instance_masks)[:, :, tile.rows, tile.cols] & in_boxes(plan.target_box, tile)


def pasted_masks(view: LayerView, visible: Visible, layer: int, tile: Region, exclusive: bool) -> Tensor:
    """Return the visible part of each mask that the layer carries, [B, K_s, h, w] bool."""
    shown = (visible.layer[:, tile.rows, tile.cols] == layer)[:, None]
    if not exclusive:
        return view.masks() & shown
    slots = torch.arange(view.carried.shape[1], device=shown.device)
    return (visible.owner[:, tile.rows, tile.cols][:, None] == slots[:, None, None]) & shown


def measure(scene: Scene, plan: LayerPlan, visible: Visible) -> Measures:
    """Measure areas and boxes of everything visible, and count the pixels of each class before and after the paste.

    Classes are counted only if some of them are watched.

    Args:
        scene: target, source and rules.
        plan: the layers.
        visible: from `resolve`.
    """
    target, source, device = scene.target, scene.source, scene.target.device
    (batch_size, num_slots), (height, width) = target.labels.shape, target.canvas_size
    num_layers, num_source_slots = plan.carried.shape[1:]
    num_classes = 0 if scene.watched is None else len(scene.watched)
    before = Extents((batch_size, num_slots), height, width, device)
    after = Extents((batch_size, num_slots), height, width, device)
    pasted = [Extents((batch_size, num_source_slots), height, width, device) for _ in range(num_layers)]
    class_before = torch.zeros(batch_size, num_classes, dtype=torch.int64, device=device)
    class_after = torch.zeros_like(class_before)
    for tile in tiles(height, width, scene.rules.tile_size):
        masks = target_masks(target, plan, tile)
        uncovered = visible.layer[:, tile.rows, tile.cols] < 0
        before.add(masks, tile)
        after.add(masks & uncovered[:, None], tile)
        for layer in range(num_layers):
            view = LayerView(source, plan, layer, tile)
            pasted[layer].add(pasted_masks(view, visible, layer, tile, scene.is_panoptic), tile)
        if num_classes and target.semantic_maps is not None:
            semantic = target.semantic_maps[:, tile.rows, tile.cols]
            class_before += _class_counts(semantic, torch.ones_like(uncovered), num_classes)
            class_after += _class_counts(semantic, uncovered, num_classes)
    paste_area = torch.stack([p.area for p in pasted], 1)
    paste_box = torch.stack([p.box() for p in pasted], 1)
    return Measures(before.area, after.area, after.box(), paste_area, paste_box, class_before, class_after)


def _class_counts(semantic: Tensor, counted: Tensor, num_classes: int) -> Tensor:
    known = counted & (semantic >= 0) & (semantic < num_classes)
    index = semantic.clamp(0, num_classes - 1).flatten(1)
    zeros = torch.zeros(semantic.shape[0], num_classes, dtype=torch.int64, device=semantic.device)
    return zeros.scatter_add_(1, index, known.flatten(1).to(torch.int64))


def render(scene: Scene, plan: LayerPlan, visible: Visible, slots: SlotPlan, in_place: bool = False) -> Planes:
    """Render every plane of the output.

    Args:
        scene: target, source and rules.
        plan: the layers.
        visible: from `resolve`.
        slots: the instance that each output slot holds.
        in_place: True if the planes may be those of the target; here they never are.

    Returns:
        New planes by name, which share no memory with the input; ``instance_masks`` has a slot for each of ``slots``.
        Depth that is not finite is 0 and invalid, in target and source alike.
    """
    target = scene.target
    height, width = target.canvas_size
    out = {name: empty_plane(name, plane).copy_(plane) for name, plane in present_planes(target).items()}
    shape = target.batch_size, slots.paste_layer.shape[1], height, width
    out["instance_masks"] = torch.zeros(shape, dtype=torch.bool, device=target.device)
    if "depth" in out:
        out["depth_valid"].logical_and_(out["depth"].isfinite())
        out["depth"].masked_fill_(~out["depth"].isfinite(), 0.0)
    for tile in tiles(height, width, scene.rules.tile_size):
        _render_target(out, scene, plan, visible, slots, tile)
        for layer in range(plan.source_idx.shape[1]):
            view = LayerView(scene.source, plan, layer, tile)
            _render_layer(out, scene, view, visible, slots, layer, tile)
    return out


def _render_target(out: Planes, scene: Scene, plan: LayerPlan, visible: Visible, slots: SlotPlan, tile: Region) -> None:
    """Write the target's part of a tile: masks of survivors outside of all layers, and lost labels."""
    uncovered = visible.layer[:, tile.rows, tile.cols] < 0
    masks = target_masks(scene.target, plan, tile)
    kept = masks & slots.survives[:, :, None, None] & uncovered[:, None]
    out["instance_masks"][:, : masks.shape[1], tile.rows, tile.cols] = kept
    if "semantic_maps" not in out:
        return
    semantic = out["semantic_maps"][:, tile.rows, tile.cols]
    ignored = in_classes(semantic, slots.ignored_class) & uncovered
    if "panoptic_maps" in out:
        orphan = (masks & slots.dropped[:, :, None, None]).any(1) & uncovered
        out["panoptic_maps"][:, tile.rows, tile.cols].masked_fill_(orphan, 0)
        ignored = ignored | orphan
    semantic.masked_fill_(ignored, scene.rules.ignore_index)


def _render_layer(
    out: Planes, scene: Scene, view: LayerView, visible: Visible, slots: SlotPlan, layer: int, tile: Region
) -> None:
    """Write the visible part of one layer into a tile."""
    shown = visible.layer[:, tile.rows, tile.cols] == layer
    pasted = pasted_masks(view, visible, layer, tile, scene.is_panoptic)
    holds = (slots.paste_layer == layer)[:, :, None, None]
    slot = slots.paste_slot.clamp(min=0)[:, :, None, None].expand(-1, -1, *shown.shape[1:])
    out["instance_masks"][:, :, tile.rows, tile.cols] |= pasted.gather(1, slot) & holds

    def put(plane: Tensor, value: Tensor) -> None:
        here = plane[:, :, tile.rows, tile.cols]
        here.copy_(torch.where(shown[:, None], value, here))

    put(out["images"], view.image())
    target, source = scene.target, scene.source
    owner = visible.owner[:, tile.rows, tile.cols].long().clamp(min=0)  # of length 0 if no field needs it

    def of_owner(values: Tensor) -> Tensor:
        """Look up the layer's values [B, L, K_s] at each pixel's owner, [B, 1, h, w]."""
        return values[:, layer].gather(1, owner.flatten(1)).view_as(owner)[:, None]

    if "semantic_maps" in out:
        semantic = None if source.semantic_maps is None else view.nearest(source.semantic_maps[:, None])
        put(out["semantic_maps"][:, None], of_owner(slots.paste_class) if semantic is None else semantic)
    if "panoptic_maps" in out:
        put(out["panoptic_maps"][:, None], of_owner(slots.fresh_id))
    if "depth" in out:
        here = (slice(None), slice(None), tile.rows, tile.cols)
        target_ok = not_none(target.depth_valid)[here] & not_none(target.depth)[here].isfinite()
        depth, ok = view.depth() if source.depth is not None else (torch.zeros_like(shown, dtype=torch.float32), ~shown)
        put(out["depth"], depth[:, None])
        put(out["depth_valid"], ok[:, None] & target_ok)
    if "normals" in out:
        none = torch.zeros_like(out["normals"][:1, :, :1, :1])
        put(out["normals"], none if source.normals is None else view.normals())


class Extents:
    """Areas and bounding boxes of [B, K, H, W] masks, accumulated tile by tile."""

    def __init__(self, shape: tuple[int, int], height: int, width: int, device: torch.device) -> None:
        self.area = torch.zeros(shape, dtype=torch.int64, device=device)
        self.cols = torch.zeros(*shape, width, dtype=torch.bool, device=device)
        self.rows = torch.zeros(*shape, height, dtype=torch.bool, device=device)

    def add(self, masks: Tensor, tile: Region) -> None:
        """Add the masks [B, K, h, w] of a tile."""
        pixels = masks.view(torch.uint8)  # torch reduces bytes many times faster than bools
        sums = [mask.sum() for row in pixels for mask in row]
        if sums:
            self.area += torch.stack(sums).view_as(self.area)
            self.cols[..., tile.cols] |= pixels.amax(2).bool()
            self.rows[..., tile.rows] |= pixels.amax(3).bool()

    def box(self) -> Tensor:
        """Return the bounding boxes, [B, K, 4] int64 xyxy, zero where nothing was added."""
        (x1, x2), (y1, y2) = _first_and_end(self.cols), _first_and_end(self.rows)
        return torch.stack([x1, y1, x2, y2], -1)


def _first_and_end(hits: Tensor) -> tuple[Tensor, Tensor]:
    """Return the index of the first True and one past the last along the last axis; 0, 0 where there is none."""
    size = hits.shape[-1]
    index = torch.arange(size, device=hits.device)
    end = (hits * (index + 1)).amax(-1)
    first = torch.where(hits, index, size).amin(-1)
    return torch.minimum(first, end), end
