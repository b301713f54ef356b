"""The stages of one paste after placement: plan, settle (resolve, keep stuff, measure), assign, render."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from segpaste import kernels
from segpaste.augmentation import geometry, inputs, slots
from segpaste.augmentation.config import BatchCopyPasteConfig
from segpaste.augmentation.panoptic import ClassTables
from segpaste.augmentation.placement import Placement
from segpaste.kernels import LayerPlan, Measures, Planes, SlotPlan, Visible
from segpaste.types import PaddedBatchedDenseSample


class Settled(NamedTuple):
    """A plan whose every paste is seen, and what is seen of it.

    Attributes:
        plan: ``carried`` holds the pastes that stay.
        visible: the visibility buffer.
        measures: of that buffer.
        area_free: [B, L, K_s] int64, visible pixels of the plan's pastes as first resolved.
        area_protected: [B, L, K_s] int64, after stuff classes were given pixels back, before small pastes went.
    """

    plan: LayerPlan
    visible: Visible
    measures: Measures
    area_free: Tensor
    area_protected: Tensor


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
    def guards_stuff(self) -> bool:
        """Stuff classes are watched."""
        return self.is_panoptic and self.classes is not None

    @property
    def num_classes(self) -> int:
        """Size of the class tables, 0 where no class is watched."""
        return self.classes.num_classes if self.guards_stuff and self.classes is not None else 0

    def plan(self, placement: Placement) -> LayerPlan:
        """The look-up tables and depth factors of all layers."""
        target, source = self.target, self.source
        extent = geometry.valid_extent(source.padding_mask, source.batch_size, source.canvas_size, source.device)
        extent = extent[placement.source_idx]
        num_taps = geometry.num_filter_taps(self.config.placement.scale_range[0], self.config.antialias)
        height, width = target.canvas_size
        return LayerPlan(
            source_idx=placement.source_idx,
            carried=placement.carried,
            hflip=placement.hflip,
            depth_scale=inputs.depth_scale(target, source, placement.source_idx),
            x=geometry.axis_table(placement, 0, width, extent[..., 0], num_taps),
            y=geometry.axis_table(placement, 1, height, extent[..., 1], num_taps),
        )

    def settle(self, plan: LayerPlan) -> Settled:
        """Resolve until every paste that is left is seen and no stuff class is wiped out.

        Stuff gets its pixels back first; then pastes of too few pixels go, which only enlarges what is left.
        """
        batch_size = self.target.batch_size
        protected = torch.zeros(batch_size, self.num_classes, dtype=torch.bool, device=self.target.device)
        measures = self._measure(plan, self._resolve(plan, protected))
        area_free = measures.paste_area
        if self._reverts_stuff and self.classes is not None:
            protected = self.classes.wiped_out(measures)
            measures = self._measure(plan, self._resolve(plan, protected))
        area_protected = measures.paste_area
        plan = plan._replace(carried=plan.carried & (area_protected >= self.config.min_area_px))
        visible = self._resolve(plan, protected)
        return Settled(plan, visible, self._measure(plan, visible), area_free, area_protected)

    def assign(self, settled: Settled) -> SlotPlan:
        """Which instance sits in which output slot."""
        measures, config = settled.measures, self.config
        survives = slots.survivors(
            self.target.instance_valid, measures, config.min_area_px, config.min_residual_area_frac
        )
        ignored_class = torch.zeros_like(measures.class_before, dtype=torch.bool)
        if self.guards_stuff and not self._reverts_stuff and self.classes is not None:
            ignored_class = self.classes.wiped_out(measures)
        labels = self.source.labels[settled.plan.source_idx]
        known = torch.zeros_like(labels, dtype=torch.bool) if self.classes is None else self.classes.things(labels)
        paste_class = torch.where(known, labels, config.ignore_index)
        return slots.assign_slots(self.target, survives, settled.plan.carried, paste_class, ignored_class)

    def render(self, settled: Settled, slot_plan: SlotPlan) -> PaddedBatchedDenseSample:
        """Every field of the output."""
        planes = kernels.render(
            pixel_planes(self.target),
            pixel_planes(self.source),
            settled.plan,
            settled.visible,
            slot_plan,
            self.is_panoptic,
            self.config.ignore_index,
            self.config.tile_size,
        )
        source_labels = self.source.labels[settled.plan.source_idx]
        rows = slots.merge_rows(self.target, source_labels, slot_plan, settled.measures)
        return self.target.derived(
            images=planes.images,
            boxes=rows.boxes,
            labels=rows.labels,
            instance_valid=rows.instance_valid,
            instance_ids=rows.instance_ids,
            instance_masks=planes.instance_masks,
            semantic_maps=planes.semantic_maps,
            panoptic_maps=planes.panoptic_maps,
            depth=planes.depth,
            depth_valid=planes.depth_valid,
            normals=planes.normals,
        )

    @property
    def _reverts_stuff(self) -> bool:
        panoptic = self.config.panoptic
        return self.guards_stuff and panoptic is not None and panoptic.stuff_policy == "revert"

    def _resolve(self, plan: LayerPlan, protected: Tensor) -> Visible:
        return kernels.resolve(
            pixel_planes(self.target),
            pixel_planes(self.source),
            plan,
            protected,
            self.config.ignore_index,
            self.config.tile_size,
        )

    def _measure(self, plan: LayerPlan, visible: Visible) -> Measures:
        return kernels.measure(
            pixel_planes(self.target),
            pixel_planes(self.source),
            plan,
            visible,
            self.is_panoptic,
            self.num_classes,
            self.config.tile_size,
        )


def pixel_planes(batch: PaddedBatchedDenseSample) -> Planes:
    """The pixel fields of a batch, as the kernels read them."""
    return Planes(*(getattr(batch, name) for name in Planes._fields))
