"""The augmentation module: it pastes objects between the images of a batch, on its device, also in a compiled step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, cast, overload

import torch
from torch import Tensor

from segpaste._reprs import changed_keys
from segpaste.augmentation import arguments, prepare
from segpaste.augmentation.config.paste import BatchCopyPasteConfig
from segpaste.augmentation.harmonize import Harmonizer
from segpaste.augmentation.loading import AugmentedLoader
from segpaste.augmentation.masks import Spared, spared
from segpaste.augmentation.modes import SwitchedModule
from segpaste.augmentation.report import PasteReport, report_of, unchanged_report
from segpaste.augmentation.rules import (
    ModuleRules,
    RegionSets,
    fixed_rules,
    paste_rules,
    pastes_per_image,
    region_classes,
)
from segpaste.augmentation.schedule import Schedule, without_images
from segpaste.augmentation.sources import source_check
from segpaste.augmentation.sources.bank_source import BankSource
from segpaste.augmentation.sources.crop_pool import Balance, BankPool, CropPool, Report, SeededCrops, SourcePool
from segpaste.augmentation.sources.strategies import IntraBatchSource, PlacementRequest, RowStrategy, SourceStrategy
from segpaste.augmentation.tables import ClassTables
from segpaste.augmentation.warned import ModuleWarnings
from segpaste.engine import (
    Classes,
    Drawn,
    Engine,
    Outcome,
    Placement,
    Scene,
    Survey,
    derived,
    engine_for,
)
from segpaste.engine.planes import write_back
from segpaste.types import BatchedDenseSample, DenseSample, Modality, PaddedBatchedDenseSample, StagedCrops
from segpaste.types.check import not_none
from segpaste.types.tracing import is_traced


class BatchCopyPaste(SwitchedModule):
    """Copy-paste augmentation of a padded batch, for every modality that it carries.

    A paste works like a frame in a deferred renderer: computations on small tensors decide what is pasted where, one
        pass over the pixels decides what is visible, computations on small tensors decide which instances remain, and
        one pass writes every field.

    Args:
        config: options of the paste.
        source: source of the objects; by default the one that ``config.source`` names.
        source_pool: an instance bank (`segpaste.open_bank`), or a dataset, whose objects are cut out when they are
            drawn (`segpaste.bank.DatasetBank`). A call without staged crops then draws and reads its crops; those of a
            target depend only on the target's seed. A compiled module has a graph break there. With it,
            ``config.source.kind`` ``intra_batch``, the default, becomes ``bank``; ``same_image`` is an error.
        balance: how the classes of ``source_pool`` are drawn, see `segpaste.BankSampler`; by default by its repeat
            factors. `expected_pastes` returns the resulting counts.
        inplace: paste into the batch's own tensors. On the CPU and on CUDA devices only the values that change are
            written. On other devices, and if tensors are neither row-major nor channels-last images, the result is
            computed in new tensors and copied into the batch.
        always: paste in eval mode, too. By default ``eval()`` switches the paste off, as that of dropout: the batch is
            padded and its fields are emitted as in training, and everything else stays equal.

    Attributes:
        read_modalities: modalities that every batch must carry; all others that it carries are composed too. The class
            attribute holds for any config.
        write_modalities: modalities that the output may carry.
        crops: draws from ``source_pool``, a `segpaste.augmentation.sources.crop_pool.SeededCrops`, or None. To record a
            call, ``crops.staged(out.sample_seeds)`` returns the crops that it drew.

    Raises:
        TypeError: an argument is of another class, such as a dict as the config.
        ValueError: the config asks for panoptic output without a taxonomy, or for ClassMix with a source that does not
            name rows of the batch; or source and config are of different kinds.

    After Ghiasi et al., "Simple Copy-Paste is a Strong Data Augmentation Method for Instance Segmentation",
    CVPR 2021, extended to panoptic, semantic, depth and normals.
    """

    read_modalities: frozenset[Modality] = frozenset({Modality.IMAGE})
    write_modalities: frozenset[Modality] = frozenset(Modality)

    def __init__(
        self,
        config: BatchCopyPasteConfig | None = None,
        source: SourceStrategy | None = None,
        *,
        source_pool: BankPool | None = None,
        balance: Balance | None = None,
        inplace: bool = False,
        always: bool = False,
    ) -> None:
        super().__init__()
        self.config = arguments.checked_config(config, source_pool)
        arguments.check_sources(source, source_pool, self.config)
        arguments.check_balance("BatchCopyPaste", balance, source_pool)
        arguments.check_flag("inplace", inplace)
        arguments.check_flag("always", always)
        self.inplace, self.always = inplace, always
        is_bank = self.config.source.kind == "bank"
        if source is None:
            kind = self.config.source.kind
            source = BankSource(self.config.source) if kind == "bank" else IntraBatchSource(kind)
        self.source = source
        self.crops: SeededCrops | None = None
        if source_pool is not None:
            whole_only = self.config.source.whole_only
            self.crops = SeededCrops(source_pool, self.config.num_layers, balance, whole_only=whole_only)
        self.read_modalities, self.write_modalities = prepare.modalities_of(self.config)
        self.schedule = Schedule(self.config.placement, chooses_objects=not self.config.emit_classmix)
        self._placement = self.config.placement
        if is_bank:  # each crop is a layer of its own
            drawn = {"layers": self.config.num_layers, "grouping": "instance"}
            self._placement = self._placement.model_copy(update=drawn)
        fixed = fixed_rules(self._placement, whole_only=self.config.source.whole_only)
        self._rules = ModuleRules(fixed, paste_rules(self.config))
        self._harmonizer = Harmonizer(self.config.harmonize)
        self._regions = RegionSets(region_classes(self._placement))
        self._needs_whole = self.config.source.whole_only and self._placement.position == "random"
        self.classes = None if self.config.panoptic is None else ClassTables(self.config.panoptic)
        self._is_new = True
        self.warnings = ModuleWarnings(self.config)
        if self.config.emit_panoptic and self.config.panoptic is None:
            raise ValueError(
                "BatchCopyPaste: expected config.panoptic because emit_panoptic=True, got None; "
                "give PanopticConfig(taxonomy=...), it is never inferred from data"
            )

    @overload
    def forward(
        self,
        target: PaddedBatchedDenseSample,
        generator: torch.Generator | None = None,
        *,
        staged: StagedCrops | None = None,
        region: Tensor | None = None,
        return_report: Literal[False] = False,
    ) -> PaddedBatchedDenseSample: ...

    @overload
    def forward(
        self,
        target: PaddedBatchedDenseSample,
        generator: torch.Generator | None = None,
        *,
        staged: StagedCrops | None = None,
        region: Tensor | None = None,
        return_report: Literal[True],
    ) -> tuple[PaddedBatchedDenseSample, PasteReport]: ...

    def forward(
        self,
        target: PaddedBatchedDenseSample,
        generator: torch.Generator | None = None,
        *,
        staged: StagedCrops | None = None,
        region: Tensor | None = None,
        return_report: bool = False,
    ) -> PaddedBatchedDenseSample | tuple[PaddedBatchedDenseSample, PasteReport]:
        """Paste into every image of the batch; the input is not changed, unless the module works in place.

        In eval mode nothing is pasted, unless the module was made with ``always``; then gradients of the images pass
        through, unless the module works in place.

        Args:
            target: B images with K instance slots.
            generator: draws the B seeds, instead of ``target.sample_seeds``. Outside of compiled code only.
            staged: crops of an instance bank for each target, on its device, for ``source.kind="bank"``; they take
                precedence over ``source_pool``.
            region: [B, H, W] or [B, 1, H, W] bool, pixels of each image that may be pasted on; at least
                ``placement.region_frac`` of the box of every paste lies there.
            return_report: return a `PasteReport`, too.

        Returns:
            The augmented batch, with the seeds that were used; and the report if ``return_report``. In place, its
            tensors are those of ``target``, so ``target`` holds the same augmented batch (except for fields that the
            config leaves out, which then no longer fit the others).

        Raises:
            TypeError: an argument is of another class.
            ValueError: a modality that the config requires is missing, or a count or flag does not fit the config; in
                place, the config asks for more instance slots than the batch has, or tensors share memory.
            RuntimeError: a field requires grad while grad is enabled and pastes are on (a paste is not differentiable;
                detach the field); in place, a tensor was made in inference mode. Nothing has been written then. With
                ``fullgraph=True`` the compiler's own RuntimeError quotes it.
        """
        self._check(target, generator, staged, region, return_report)
        batch = self._prepared(target, generator)
        if not self.is_on or not prepare.can_be_pasted(batch, self.config):
            return self._unchanged(batch, target, return_report)
        staged = self._crops_for(batch) if staged is None else staged
        engine = engine_for(batch.device)
        found, kept = self._surveyed(engine, batch, target)
        scene, (placement, counts) = self._sampled(engine, batch, found, staged, region)
        scene = prepare.with_given_boxes(scene, target, self.config, in_place=self.inplace)
        outcome = self._composed(engine, scene, placement, kept, with_layer=return_report)
        self.warnings.of_nothing_pasted(placement, counts, outcome)
        out = prepare.emitted(outcome.batch, target, self.config)
        return (out, report_of(placement, counts, outcome)) if return_report else out

    @classmethod
    def from_dataloader(
        cls,
        loader: Iterable[PaddedBatchedDenseSample | BatchedDenseSample | Sequence[DenseSample]],
        max_instances: int,
        config: BatchCopyPasteConfig | None = None,
        *,
        source_pool: SourcePool | None = None,
        balance: Balance | None = None,
        device: torch.device | str | None = None,
        inplace: bool = False,
    ) -> AugmentedLoader:
        """Wrap a loader into an iterable of augmented batches.

        It yields no reports. For these, call the module on the batches of the loader, with ``return_report=True``.

        Args:
            loader: yields padded batches, ragged batches, or lists of samples of one size.
            max_instances: K, the slots of the output. Samples and ragged batches with more instances keep the largest
                ones; padded batches must have this many slots.
            config: options of the paste.
            source_pool: a bank or a dataset, from which crops are drawn and read in this process, or a loader of staged
                crops. With it, ``config.source.kind`` ``intra_batch``, the default, becomes ``bank``; ``same_image`` is
                an error.
            balance: how the classes of a bank or dataset are drawn, see `segpaste.BankSampler`. The expected draws of
                an epoch are then printed before the first batch.
            device: device to paste on; by default that of the batch.
            inplace: paste into the batches that the loader yields, if they are padded and on ``device`` already.

        Raises:
            TypeError: an argument is of another class.
            ValueError: ``config.source.kind`` is ``bank`` without ``source_pool``, or ``same_image`` with it.
        """
        arguments.check_loader(loader, max_instances, device, source_pool)
        arguments.check_balance("from_dataloader", balance, source_pool)
        module = cls(arguments.checked_config(config, source_pool), inplace=inplace)
        arguments.check_pool("from_dataloader", source_pool, module.config)
        if source_pool is None and module.config.source.kind == "bank":
            raise ValueError(
                "from_dataloader: expected source_pool because source.kind='bank', got none; give a bank, a dataset or "
                "a loader of staged crops"
            )
        pool = None
        if source_pool is not None:
            whole_only = module.config.source.whole_only
            pool = CropPool(source_pool, module.config.num_layers, balance, whole_only=whole_only)
        return AugmentedLoader(loader, module, max_instances, device, pool)

    @property
    def pastes_per_image(self) -> float:
        """Expected number of objects drawn for an image under the current schedule; some may not fit."""
        schedule, num_layers = self.schedule, self.config.num_layers
        return pastes_per_image(self.config.placement, num_layers, schedule.paste_prob, schedule.k_range)

    def expected_pastes(self, num_images: int) -> Report | None:
        """Return the pastes of each class of ``source_pool`` to expect in ``num_images`` images, also unfit ones."""
        return None if self.crops is None else self.crops.report(round(num_images * self.pastes_per_image))

    @property
    def _takes_crops(self) -> bool:
        return not self.config.emit_classmix and not isinstance(self.source, IntraBatchSource)

    @property
    def _tables(self) -> Classes:
        return Classes() if self.classes is None else self.classes.tables

    def _tables_on(self, device: torch.device) -> Classes:
        return Classes() if self.classes is None else self.classes.tables_on(device)

    def _check(self, target: object, generator: object, staged: object, region: object, return_report: object) -> None:
        """Check the arguments of a forward pass."""
        takes_crops, writes = self._takes_crops, self.is_on or self.inplace
        batch = arguments.check_forward(
            target, generator, staged, return_report, takes_crops=takes_crops, writes=writes
        )
        arguments.check_region(region, batch, takes_region=not self.config.emit_classmix)

    def _prepared(
        self, target: PaddedBatchedDenseSample, generator: torch.Generator | None
    ) -> PaddedBatchedDenseSample:
        """Add seeds, slots and masks to the batch and remove closed modalities; in place, check that it is writable."""
        if not is_traced() and self._is_new:  # compiled code guards what it reads
            arguments.check_bytes(target)
            self._is_new = False
        batch = prepare.prepared(target, self.config, generator)
        if self.inplace:
            arguments.check_writable(target, self.config)
        return batch

    def _crops_for(self, batch: PaddedBatchedDenseSample) -> StagedCrops | None:
        """Draw the crops of a batch from ``source_pool``, if there is one."""
        return None if self.crops is None else self.crops.staged(not_none(batch.sample_seeds))

    def _unchanged(
        self, batch: PaddedBatchedDenseSample, target: PaddedBatchedDenseSample, return_report: bool
    ) -> PaddedBatchedDenseSample | tuple[PaddedBatchedDenseSample, PasteReport]:
        """Return the output for a batch that cannot take pastes, or of eval mode."""
        out = prepare.with_finite_depth(batch)
        out = prepare.emitted(write_back(batch, out) if self.inplace else out, target, self.config)
        if self.is_on:
            self.warnings.of_nothing_there(batch.batch_size)
        else:
            self.warnings.of_mode()
        reason = "no_source" if self.is_on else "eval_mode"
        return (out, unchanged_report(batch, self.config.num_layers, reason)) if return_report else out

    def _surveyed(
        self, engine: Engine, batch: PaddedBatchedDenseSample, target: PaddedBatchedDenseSample
    ) -> tuple[Survey, Spared | None]:
        """Find the instances that may be pasted (with ClassMix, the classes), and the images that take no paste."""
        if self.config.emit_classmix:
            return engine.survey(batch, self._tables_on(batch.device), self.config.ignore_index), None
        found = engine.survey(batch, self._tables_on(batch.device), whole_only=self._needs_whole)
        kept = spared(target, batch, self.config, copied=self.inplace)
        return (found if kept is None else kept.without_room(found)), kept

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
        self.warnings.of_fading(self.schedule)
        if self.config.emit_classmix:
            return self._mixed(engine, batch, found, request)
        self.warnings.of_few_scales(self._placement, batch.canvas_size if staged is None else staged.crop_size)
        self.warnings.of_sizes(staged, batch)
        sampled = self.source.sample(batch, found.eligible, request)
        source, placement, counts = source_check.checked_sample(self.source, sampled, batch, request)
        prepare.check_source(batch, source, self.config)
        arguments.check_no_grad("source", source)
        scene = Scene(batch, source, self._tables_on(batch.device), self._rules.paste(batch.device))
        return scene, self._chosen((placement, counts), batch)

    def _mixed(
        self, engine: Engine, batch: PaddedBatchedDenseSample, found: Survey, request: PlacementRequest
    ) -> tuple[Scene, Drawn]:
        """Draw classes of the rows that the source names, and return the scene and the placement."""
        strategy = cast(RowStrategy, self.source)
        rows = strategy.rows(batch, not_none(found.has_present), request)
        rows = source_check.checked_rows(strategy, rows, batch, request.config.layers)
        placement, counts, mixture = engine.draw_classes(batch, found, rows, request.tables)
        scene = Scene(batch, batch, self._tables_on(batch.device), self._rules.paste(batch.device), mixture)
        return scene, self._chosen((placement, counts), batch)

    def _chosen(self, drawn: Drawn, batch: PaddedBatchedDenseSample) -> Drawn:
        """Return the draws without those of images beyond ``fixed_share``."""
        return without_images(drawn, self.schedule.beyond_share(not_none(batch.sample_seeds)))

    def _composed(
        self, engine: Engine, scene: Scene, placement: Placement, kept: Spared | None, *, with_layer: bool
    ) -> Outcome:
        """Compose the paste, and harmonise it if the config asks for it."""
        target, harmonizes = scene.target, self._harmonizer.is_active
        assert target.sample_seeds is not None
        before = target.images.clone() if self.inplace and harmonizes else target.images
        with_layer = with_layer or harmonizes or derived.needs_layer(scene)
        outcome = engine.compose(scene, placement, with_layer=with_layer, in_place=self.inplace)
        outcome = derived.with_derived(scene, placement, outcome, self.inplace)
        outcome = outcome if kept is None else kept.restored(outcome, in_place=self.inplace)
        if not harmonizes:
            return outcome
        seen, pasted = outcome.visible_layer >= 0, outcome.batch
        images = self._harmonizer(pasted.images, before, seen, target.sample_seeds, target.padding_mask)
        fitted = pasted.derived(images=images)
        return outcome._replace(batch=write_back(target, fitted) if self.inplace else fitted)

    def extra_repr(self) -> str:
        """Return the keys of the config that are not the defaults."""
        return ", ".join(
            [*changed_keys(self.config), *(f"{name}=True" for name in ("inplace", "always") if getattr(self, name))]
        )
