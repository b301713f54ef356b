"""The augmentation module: it pastes objects between the images of a batch, on its device, also in a compiled step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, overload

import torch
from torch import Tensor

from segpaste._reprs import changed_keys
from segpaste.augmentation import arguments, prepare
from segpaste.augmentation.config.paste import BatchCopyPasteConfig
from segpaste.augmentation.loading import AugmentedLoader
from segpaste.augmentation.report import PasteReport, report_of, unchanged_report
from segpaste.augmentation.rules import pastes_per_image
from segpaste.augmentation.sources.crop_pool import Balance, BankPool, CropPool, Report, SeededCrops, SourcePool
from segpaste.augmentation.sources.strategies import IntraBatchSource, SourceStrategy
from segpaste.augmentation.stages import StagedModule
from segpaste.engine.planes import write_back
from segpaste.types import BatchedDenseSample, DenseSample, Modality, PaddedBatchedDenseSample, StagedCrops
from segpaste.types.check import not_none
from segpaste.types.tracing import is_traced


class BatchCopyPaste(StagedModule):
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
        config = arguments.checked_config(config, source_pool)
        arguments.check_sources(source, source_pool, config)
        arguments.check_balance("BatchCopyPaste", balance, source_pool)
        arguments.check_flag("inplace", inplace)
        arguments.check_flag("always", always)
        super().__init__(config, source, inplace=inplace)
        self.always = always
        self.crops: SeededCrops | None = None
        if source_pool is not None:
            whole_only = config.source.whole_only
            self.crops = SeededCrops(source_pool, config.num_layers, balance, whole_only=whole_only)
        self.read_modalities, self.write_modalities = prepare.modalities_of(config)
        self._is_new = True
        if config.emit_panoptic and config.panoptic is None:
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
        pasted = self._pasted(batch, target, staged, region, with_layer=return_report)
        self.warnings.of_nothing_pasted(pasted)
        out = prepare.emitted(pasted.batch, target, self.config)
        return (out, report_of(*pasted.records())) if return_report else out

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

    def extra_repr(self) -> str:
        """Return the keys of the config that are not the defaults."""
        return ", ".join(
            [*changed_keys(self.config), *(f"{name}=True" for name in ("inplace", "always") if getattr(self, name))]
        )
