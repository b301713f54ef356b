"""The stages of a paste into a prepared batch: in one call of the engine where it can, else one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import torch
from torch import Tensor

from segpaste.augmentation import arguments, prepare
from segpaste.augmentation.config.paste import BatchCopyPasteConfig
from segpaste.augmentation.harmonize import Harmonizer
from segpaste.augmentation.masks import Spared, spared
from segpaste.augmentation.modes import SwitchedModule
from segpaste.augmentation.rules import ModuleRules, RegionSets, fixed_rules, on_canvas, paste_rules, region_classes
from segpaste.augmentation.schedule import Schedule, without_images
from segpaste.augmentation.sources import source_check
from segpaste.augmentation.sources.bank_source import BankSource
from segpaste.augmentation.sources.strategies import (
    IntraBatchSource,
    OfferingSource,
    PlacementRequest,
    RowStrategy,
    SourceStrategy,
)
from segpaste.augmentation.tables import ClassTables
from segpaste.augmentation.warned import ModuleWarnings
from segpaste.engine import Classes, Drawn, Engine, Scene, Survey, derived, engine_for
from segpaste.engine.dispatch import stepping
from segpaste.engine.planes import write_back
from segpaste.engine.select import SteppingEngine
from segpaste.engine.steps import Pasted
from segpaste.types import PaddedBatchedDenseSample, StagedCrops
from segpaste.types.check import not_none


class StagedModule(SwitchedModule):
    """Module that pastes into prepared batches.

    Args:
        config: options of the paste.
        source: source of the objects; by default the one that ``config.source`` names.
        inplace: paste into the batch's own tensors.
    """

    def __init__(self, config: BatchCopyPasteConfig, source: SourceStrategy | None, *, inplace: bool) -> None:
        super().__init__()
        self.config, self.inplace = config, inplace
        kind, whole_only = config.source.kind, config.source.whole_only
        if source is None:
            source = BankSource(config.source) if kind == "bank" else IntraBatchSource(kind)
        self.source = source
        self.schedule = Schedule(config.placement, chooses_objects=not config.emit_classmix)
        self._placement = config.placement
        if kind == "bank":  # each crop is a layer of its own
            drawn = {"layers": config.num_layers, "grouping": "instance"}
            self._placement = self._placement.model_copy(update=drawn)
        self._rules = ModuleRules(fixed_rules(self._placement, whole_only=whole_only), paste_rules(config))
        self._harmonizer = Harmonizer(config.harmonize)
        self._regions = RegionSets(region_classes(self._placement))
        self._needs_whole = whole_only and self._placement.position == "random"
        self.classes = None if config.panoptic is None else ClassTables(config.panoptic)
        self.warnings = ModuleWarnings(config)

    @property
    def _tables(self) -> Classes:
        return Classes() if self.classes is None else self.classes.tables

    def _tables_on(self, device: torch.device) -> Classes:
        return Classes() if self.classes is None else self.classes.tables_on(device)

    def _pasted(
        self,
        batch: PaddedBatchedDenseSample,
        target: PaddedBatchedDenseSample,
        staged: StagedCrops | None,
        region: Tensor | None,
        *,
        with_layer: bool,
    ) -> Pasted:
        """Paste into a batch.

        Args:
            batch: the prepared batch.
            target: the batch as it was given.
            staged: crops of a bank.
            region: pixels that may be pasted on.
            with_layer: return the visible layer, too.
        """
        self.warnings.of_inputs(self.schedule, self._placement, staged, batch)
        kept = spared(target, batch, self.config, copied=self.inplace)
        before = batch.images.clone() if self.inplace and self._harmonizer.is_active else batch.images
        with_layer = with_layer or self._harmonizer.is_active
        engine = engine_for(batch.device)
        at_once = stepping(engine) if kept is None and self._draws_by_rule else None
        if at_once is not None:
            scene, pasted = self._at_once(at_once, batch, target, staged, region, with_layer)
        else:
            scene, pasted = self._one_by_one(engine, batch, target, kept, staged, region, with_layer)
        return self._finished(scene, pasted, kept, before)

    @property
    def _draws_by_rule(self) -> bool:
        """True if the draws need nothing that is known after the survey only, and nothing changes them."""
        is_own = source_check.is_trusted(self.source)
        return is_own and not (self.config.emit_classmix or self._placement.fixed_share)

    @property
    def _keeps_upright(self) -> bool:
        """True if no layer is flipped vertically or turned; a user's source may do so, whatever the config says."""
        draws_upright = not (self._placement.vflip_probability or self._placement.quarter_turn_probability)
        return self.config.emit_classmix or (draws_upright and source_check.is_trusted(self.source))

    def _at_once(
        self,
        engine: SteppingEngine,
        batch: PaddedBatchedDenseSample,
        target: PaddedBatchedDenseSample,
        staged: StagedCrops | None,
        region: Tensor | None,
        with_layer: bool,
    ) -> tuple[Scene, Pasted]:
        """Survey, draw and compose in one call of the engine."""
        source, sources, pick = cast(OfferingSource, self.source).offer(batch, staged, self.classes)
        scene = self._scene(batch, source)
        scene = prepare.with_given_boxes(scene, target, self.config, in_place=self.inplace)
        pasted = engine.step(
            scene,
            sources,
            self.schedule.tables_on(batch.device),
            on_canvas(self._rules.draw(batch.device), self._placement, source.canvas_size),
            pick,
            prepare.regions_of(batch, region, self._regions.on(batch.device)),
            whole_only=self._needs_whole,
            with_layer=with_layer or derived.needs_layer(scene),
            in_place=self.inplace,
        )
        return scene, pasted

    def _one_by_one(
        self,
        engine: Engine,
        batch: PaddedBatchedDenseSample,
        target: PaddedBatchedDenseSample,
        kept: Spared | None,
        staged: StagedCrops | None,
        region: Tensor | None,
        with_layer: bool,
    ) -> tuple[Scene, Pasted]:
        """Survey, ask the source for a placement, and compose."""
        found = self._surveyed(engine, batch)
        found = found if kept is None else kept.without_room(found)
        scene, (placement, counts) = self._sampled(engine, batch, found, staged, region)
        scene = prepare.with_given_boxes(scene, target, self.config, in_place=self.inplace)
        with_layer = with_layer or derived.needs_layer(scene)
        outcome = engine.compose(scene, placement, with_layer=with_layer, in_place=self.inplace)
        return scene, Pasted.of(placement, counts, outcome)

    def _scene(self, batch: PaddedBatchedDenseSample, source: PaddedBatchedDenseSample) -> Scene:
        """Return the scene of a batch and a source that can be pasted into it."""
        if source is not batch:
            prepare.check_source(batch, source, self.config)
            arguments.check_no_grad("source", source)
        tables, rules = self._tables_on(batch.device), self._rules.paste(batch.device)
        return Scene(batch, source, tables, rules, upright=self._keeps_upright)

    def _surveyed(self, engine: Engine, batch: PaddedBatchedDenseSample) -> Survey:
        """Find the instances that may be pasted, with ClassMix the classes, too."""
        if self.config.emit_classmix:
            return engine.survey(batch, self._tables_on(batch.device), self.config.ignore_index)
        return engine.survey(batch, self._tables_on(batch.device), whole_only=self._needs_whole)

    def _sampled(
        self,
        engine: Engine,
        batch: PaddedBatchedDenseSample,
        found: Survey,
        staged: StagedCrops | None,
        region: Tensor | None = None,
    ) -> tuple[Scene, Drawn]:
        """Ask the source for objects and their placement, and return the scene and the placement."""
        where = found.extent, found.occupied, found.num_free, batch.canvas_size
        request = PlacementRequest(
            not_none(batch.sample_seeds),
            *where,
            self._placement,
            self.schedule,
            self.classes,
            staged,
            self._rules.draw(batch.device),
            prepare.regions_of(batch, region, self._regions.on(batch.device)),
        )
        if self.config.emit_classmix:
            return self._mixed(engine, batch, found, request)
        sampled = self.source.sample(batch, found.eligible, request)
        source, placement, counts = source_check.checked_sample(self.source, sampled, batch, request)
        scene = self._scene(batch, source)
        return scene, self._chosen((placement, counts), batch)

    def _mixed(
        self, engine: Engine, batch: PaddedBatchedDenseSample, found: Survey, request: PlacementRequest
    ) -> tuple[Scene, Drawn]:
        """Draw classes of the rows that the source names, and return the scene and the placement."""
        strategy = cast(RowStrategy, self.source)
        rows = strategy.rows(batch, not_none(found.has_present), request)
        rows = source_check.checked_rows(strategy, rows, batch, request.config.layers)
        placement, counts, mixture = engine.draw_classes(batch, found, rows, request.tables)
        return replace(self._scene(batch, batch), mixture=mixture), self._chosen((placement, counts), batch)

    def _chosen(self, drawn: Drawn, batch: PaddedBatchedDenseSample) -> Drawn:
        """Return the draws without those of images beyond ``fixed_share``."""
        return without_images(drawn, self.schedule.beyond_share(not_none(batch.sample_seeds)))

    def _finished(self, scene: Scene, pasted: Pasted, kept: Spared | None, before: Tensor) -> Pasted:
        """Complete the fields that no backend writes, and harmonise the images, which were ``before``."""
        target, harmonizes = scene.target, self._harmonizer.is_active
        if kept is None and not harmonizes and not derived.needs_layer(scene):
            return pasted
        placement, counts, outcome = pasted.records()
        outcome = derived.with_derived(scene, placement, outcome, self.inplace)
        outcome = outcome if kept is None else kept.restored(outcome, in_place=self.inplace)
        if harmonizes:
            seen, composed = outcome.visible_layer >= 0, outcome.batch
            seeds = not_none(target.sample_seeds)
            images = self._harmonizer(composed.images, before, seen, seeds, target.padding_mask)
            fitted = composed.derived(images=images)
            outcome = outcome._replace(batch=write_back(target, fitted) if self.inplace else fitted)
        return Pasted.of(placement, counts, outcome)
