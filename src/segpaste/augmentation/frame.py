"""The stages of one paste after placement: plan, settle (resolve, keep stuff, measure), assign, render.

`segpaste.augmentation.at_once` does the same where the kernels do a whole paste.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from segpaste import engine
from segpaste.augmentation import geometry, inputs, slots
from segpaste.augmentation.config import BatchCopyPasteConfig
from segpaste.augmentation.draw_scales import smallest_scale
from segpaste.augmentation.panoptic import ClassTables
from segpaste.augmentation.placement import Placement
from segpaste.engine import LayerPlan, Measures, Planes, Ranks, Rows, SlotPlan, Visible, no_ranks
from segpaste.types import PaddedBatchedDenseSample


class Settled(NamedTuple):
    """A plan whose every paste is seen, and what is seen of it.

    Attributes:
        plan: ``carried`` holds the pastes that stay.
        visible: the visibility buffer.
        measures: of that buffer.
        area_free: [B, L, K_s] int64, visible pixels of the plan's pastes as first resolved.
        area_protected: [B, L, K_s] int64, after stuff and objects were given pixels back, before small pastes went.
    """

    plan: LayerPlan
    visible: Visible
    measures: Measures
    area_free: Tensor
    area_protected: Tensor


class Guards(NamedTuple):
    """Classes and pixels of the target that must not be hidden.

    Attributes:
        classes: [B, num_classes] bool, semantic classes.
        pixels: [B, H, W] bool, or None where no object is guarded.
    """

    classes: Tensor
    pixels: Tensor | None


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A target, a source, and the rules by which one is pasted over the other.

    Attributes:
        config: the rules.
        classes: things and stuff, if the config has a taxonomy.
        target: the batch that is pasted into, with masks, ids and seeds.
        source: the batch that is pasted from.
    """

    config: BatchCopyPasteConfig
    classes: ClassTables | None
    target: PaddedBatchedDenseSample
    source: PaddedBatchedDenseSample

    @property
    def is_panoptic(self) -> bool:
        """Each pixel belongs to exactly one instance."""
        return self.target.panoptic_maps is not None

    @property
    def needs_owner(self) -> bool:
        """Some field depends on whose a pasted pixel is."""
        names_classes = self.target.semantic_maps is not None and self.source.semantic_maps is None
        return self.is_panoptic or names_classes

    @property
    def guards_stuff(self) -> bool:
        """Stuff classes are watched."""
        return self.is_panoptic and self.classes is not None

    @property
    def num_classes(self) -> int:
        """Size of the class tables, 0 where no class is watched."""
        return self.classes.num_classes if self.guards_stuff and self.classes is not None else 0

    @property
    def settles_at_once(self) -> bool:
        """Whether the kernels can do all that the rules ask for in one call."""
        return engine.pastes_whole(self.target.device)

    @property
    def ranks(self) -> Ranks:
        """Priorities of classes, which need an owner of each pixel."""
        if self.classes is None or not self.is_panoptic:
            return no_ranks(self.target.device)
        return self.classes.ranks(self.source.labels)

    @property
    def num_taps(self) -> int:
        """Taps per axis of the image filter."""
        return geometry.num_filter_taps(smallest_scale(self.config.placement), self.config.antialias)

    @property
    def source_extent(self) -> Tensor:
        """(width, height) of the sources' pictures, [S, 2] int64."""
        source = self.source
        return geometry.valid_extent(source.padding_mask, source.batch_size, source.canvas_size, source.device)

    def plan(self, placement: Placement) -> LayerPlan:
        """The look-up tables and depth factors of all layers."""
        target, source = self.target, self.source
        extent, hflip = self.source_extent[placement.source_idx], placement.hflip
        depth_scale = inputs.depth_scale(target, source, placement, self.config.perspective_depth)
        height, width = target.canvas_size
        with_linear = target.depth is not None or target.normals is not None
        boxes = geometry.pixel_boxes(source.boxes)[placement.source_idx]
        boxes = geometry.mirrored(boxes, extent[:, :, None, 0], hflip[:, :, None])
        boxes = geometry.scaled_boxes(boxes, placement.scale_num[:, :, None], placement.scale_den[:, :, None])
        boxes = boxes + placement.translate.repeat(1, 1, 2)[:, :, None]
        return LayerPlan(
            source_idx=placement.source_idx,
            carried=placement.carried,
            hflip=hflip,
            depth_scale=torch.ones(hflip.shape, device=hflip.device) if depth_scale is None else depth_scale,
            paste_box=geometry.clipped(boxes, target.canvas_size),
            target_box=geometry.clipped(geometry.pixel_boxes(target.boxes), target.canvas_size),
            x=geometry.axis_table(placement, 0, width, extent[..., 0], self.num_taps, with_linear),
            y=geometry.axis_table(placement, 1, height, extent[..., 1], self.num_taps, with_linear),
        )

    def settle(self, plan: LayerPlan) -> Settled:
        """Resolve until every paste that is left is seen and nothing is hidden that must not be.

        Stuff that was wiped out, and objects of which too much was hidden, get their pixels back first; then pastes of
        too few pixels go, which only enlarges what is left, unless priorities and depth both decide: then it may
        uncover what outranks a third paste, so that one goes in turn.
        """
        nothing = torch.zeros(self.target.batch_size, self.num_classes, dtype=torch.bool, device=self.target.device)
        guards = Guards(nothing, None)
        visible, measures = self._look(plan, guards)
        area_free = measures.paste_area
        if self.reverts_stuff or self.config.max_hidden_frac < 1:
            guards = self._guards(measures, nothing)
            if _may_hold(guards.classes) or (guards.pixels is not None and _may_hold(guards.pixels)):
                visible, measures = self._look(plan, guards)
        area_protected = measures.paste_area
        for _ in range(self._num_removals(plan)):
            carried = plan.carried & (measures.paste_area >= self.config.min_area_px)
            if not _may_hold(carried != plan.carried):
                break
            plan = plan._replace(carried=carried)
            visible, measures = self._look(plan, guards)
        return Settled(plan, visible, measures, area_free, area_protected)

    def assign(self, settled: Settled) -> SlotPlan:
        """Which instance sits in which output slot."""
        measures, config = settled.measures, self.config
        survives = slots.survivors(
            self.target.instance_valid, measures, config.min_area_px, config.min_residual_area_frac
        )
        ignored_class = torch.zeros_like(measures.class_before, dtype=torch.bool)
        if self.guards_stuff and not self.reverts_stuff and self.classes is not None:
            ignored_class = self.classes.wiped_out(measures)
        labels = self.source.labels[settled.plan.source_idx]
        known = torch.zeros_like(labels, dtype=torch.bool) if self.classes is None else self.classes.things(labels)
        paste_class = torch.where(known, labels, config.ignore_index)
        placed = settled.plan.carried
        if self.config.emit_classmix:  # what belongs to no instance takes no row
            placed = placed & self.source.instance_valid[settled.plan.source_idx]
        return slots.assign_slots(self.target, survives, placed, paste_class, ignored_class)

    def render(self, settled: Settled, slot_plan: SlotPlan) -> PaddedBatchedDenseSample:
        """Every field of the output."""
        painted = slots.with_rest(slot_plan, settled.plan.carried) if self.config.emit_classmix else slot_plan
        planes = engine.render(
            pixel_planes(self.target),
            pixel_planes(self.source),
            settled.plan,
            settled.visible,
            painted,
            self.is_panoptic,
            self.config.ignore_index,
            self.config.tile_size,
        )
        if painted is not slot_plan:
            num_rows = slot_plan.paste_layer.shape[1]
            planes = planes._replace(instance_masks=planes.instance_masks[:, :num_rows].contiguous())
        source_labels = self.source.labels[settled.plan.source_idx]
        rows = slots.merge_rows(self.target, source_labels, slot_plan, settled.measures)
        return self.output(planes, rows)

    def output(self, planes: Planes, rows: Rows) -> PaddedBatchedDenseSample:
        """The target with other pixels and other instances."""
        return self.target.derived(**planes._replace(padding_mask=self.target.padding_mask)._asdict(), **rows._asdict())

    @property
    def reverts_stuff(self) -> bool:
        """A stuff class that is wiped out gets its pixels back."""
        panoptic = self.config.panoptic
        return self.guards_stuff and panoptic is not None and panoptic.stuff_policy == "revert"

    def _guards(self, measures: Measures, nothing: Tensor) -> Guards:
        """Find what must not be hidden, from the measures of a look without guards."""
        classes, pixels = nothing, None
        if self.reverts_stuff and self.classes is not None:
            classes = self.classes.wiped_out(measures)
        if self.config.max_hidden_frac < 1:
            hides_too_much = slots.over_hidden(self.target.instance_valid, measures, self.config.max_hidden_frac)
            pixels = geometry.covered(self.target, hides_too_much)
        return Guards(classes, pixels)

    def _num_removals(self, plan: LayerPlan) -> int:
        """How often pastes may have to be taken out until all that are left are seen.

        What one uncovers lies in a later layer, what that hides in a later one again: once for every second layer.
        """
        has_depth = self.target.depth is not None and self.source.depth is not None
        has_ranks = self.is_panoptic and self.classes is not None and self.classes.has_ranks
        return (plan.carried.shape[1] + 1) // 2 if has_depth and has_ranks else 1

    def _look(self, plan: LayerPlan, guards: Guards) -> tuple[Visible, Measures]:
        """Resolve and measure a plan."""
        target, source, config = pixel_planes(self.target), pixel_planes(self.source), self.config
        shown = target
        if guards.pixels is not None:  # as padding they are not pasted over
            closed = guards.pixels[:, None]
            closed = closed if target.padding_mask is None else closed | target.padding_mask
            shown = target._replace(padding_mask=closed)
        ignore_index, tile_size = config.ignore_index, config.tile_size
        visible = engine.resolve(
            shown, source, plan, guards.classes, self.ranks, self.needs_owner, ignore_index, tile_size
        )
        measures = engine.measure(target, source, plan, visible, self.is_panoptic, self.num_classes, tile_size)
        return visible, measures


def _may_hold(conditions: Tensor) -> bool:
    """Whether a condition may be true somewhere: asked where the answer is at hand, else yes.

    Looking again at what has not changed finds the same, so this saves time and changes nothing.
    """
    if torch.compiler.is_compiling() or conditions.device.type != "cpu":
        return True
    return bool(conditions.any())


def pixel_planes(batch: PaddedBatchedDenseSample) -> Planes:
    """The pixel fields of a batch, as the kernels read them."""
    return Planes(*(getattr(batch, name) for name in Planes._fields))
