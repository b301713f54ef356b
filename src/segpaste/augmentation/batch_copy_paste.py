"""`BatchCopyPaste`: paste objects between the images of a batch, on its device, inside a compiled step."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Literal, overload

import torch
from torch import nn

from segpaste import engine
from segpaste.augmentation import arguments, classmix, draw_scales, geometry, in_place, inputs, source_check
from segpaste.augmentation.at_once import instance_rows, paste_at_once
from segpaste.augmentation.bank_source import BankSource
from segpaste.augmentation.classmix import Mixture
from segpaste.augmentation.config import BatchCopyPasteConfig, SourceConfig
from segpaste.augmentation.crop_pool import BankPool, CropPool, SeededCrops, SourcePool
from segpaste.augmentation.frame import Frame
from segpaste.augmentation.harmonize import harmonized
from segpaste.augmentation.in_stages import PasteRules, mix_in_stages, paste_in_stages
from segpaste.augmentation.loading import AugmentedLoader
from segpaste.augmentation.panoptic import ClassTables
from segpaste.augmentation.placement import PlacementRequest, PlacementText
from segpaste.augmentation.report import PasteReport, nothing_pasted_warning, unchanged_report
from segpaste.augmentation.schedule import Schedule
from segpaste.augmentation.source import IntraBatchSource, RowStrategy, SourceStrategy
from segpaste.engine import Survey
from segpaste.types import BatchedDenseSample, DenseSample, Modality, PaddedBatchedDenseSample, StagedCrops


class BatchCopyPaste(nn.Module):
    """Copy-paste over a padded batch, for every modality that it carries.

    A paste is drawn like a frame in a deferred renderer: small tensors say who goes where, one pass over the pixels
    decides what is seen, small tensors decide which instances live, one pass writes every field.

    Args:
        config: what a paste may do.
        source: where objects come from; by default as ``config.source`` says.
        source_pool: an instance bank (`segpaste.open_bank`). A call without staged crops then draws and reads crops of
            this bank for each target, by the target's seed alone; eager code only. ``config.source`` is of
            ``kind="bank"`` with it, which is also the default.
        inplace: paste into the batch's own tensors. On the CPU only what changes is touched then; in compiled code, on
            other devices, in half precision and where tensors lie in another order than row-major, new tensors are
            made and copied.

    Attributes:
        read_modalities: what every batch must carry; whatever else it carries is composed too. Of the class: whatever
            the config.
        write_modalities: what the output may carry.
        crops: draws from ``source_pool``, a `segpaste.augmentation.crop_pool.SeededCrops`, or None. For a record of a
            call, ``crops.staged(out.sample_seeds)`` are the crops that it drew.

    Raises:
        TypeError: an argument of another class, such as a dict as the config.
        ValueError: the config asks for panoptic output and has no taxonomy, or for ClassMix of a source that does not
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
        inplace: bool = False,
    ) -> None:
        super().__init__()
        if config is None and source_pool is not None:
            config = BatchCopyPasteConfig(source=SourceConfig(kind="bank"))
        self.config = arguments.checked_config(config)
        arguments.check_sources(source, source_pool, self.config)
        arguments.check_flag("inplace", inplace)
        self.inplace = inplace
        self.source = _source_of(self.config) if source is None else source
        self.crops = None if source_pool is None else SeededCrops(source_pool, self.config.num_layers)
        self.read_modalities, self.write_modalities = inputs.modalities_of(self.config)
        self.schedule = Schedule(self.config.placement, chooses_objects=not self.config.emit_classmix)
        self._placement = self.config.placement
        if self.config.source.kind == "bank":  # each crop is a layer of its own
            drawn = {"layers": self.config.num_layers, "grouping": "instance"}
            self._placement = self._placement.model_copy(update=drawn)
        self.classes = None if self.config.panoptic is None else ClassTables(self.config.panoptic)
        self._placement_text = PlacementText(self._placement, self._placement.model_dump_json())
        self._rules = PasteRules(self.config, self.classes, self.config.model_dump_json())
        self._may_warn, self._may_warn_of_scales = True, True
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
        return_report: Literal[False] = False,
    ) -> PaddedBatchedDenseSample: ...

    @overload
    def forward(
        self,
        target: PaddedBatchedDenseSample,
        generator: torch.Generator | None = None,
        *,
        staged: StagedCrops | None = None,
        return_report: Literal[True],
    ) -> tuple[PaddedBatchedDenseSample, PasteReport]: ...

    def forward(
        self,
        target: PaddedBatchedDenseSample,
        generator: torch.Generator | None = None,
        *,
        staged: StagedCrops | None = None,
        return_report: bool = False,
    ) -> PaddedBatchedDenseSample | tuple[PaddedBatchedDenseSample, PasteReport]:
        """Paste into every image of the batch; the input is not changed, unless the module works in place.

        Args:
            target: B images with K instance slots.
            generator: draws the B seeds, instead of ``target.sample_seeds``. Outside of compiled code only.
            staged: crops of an instance bank for each target, on its device, which ``source.kind="bank"`` asks for;
                they come before ``source_pool``.
            return_report: return a `PasteReport` too.

        Returns:
            The augmented batch, with the seeds that were used; and the report if asked for. In place its tensors are
            those of ``target``, all of them rewritten, and ``target`` is the same augmented batch (but for fields that
            the config leaves out, which then no longer fit the others).

        Raises:
            TypeError: an argument of another class.
            ValueError: a modality that the config requires is missing, or a count or flag does not fit the config; in
                place, the config asks for more instance slots than the batch has, or tensors share memory.
            RuntimeError: a field requires grad while grad is enabled: a paste is not differentiated, detach it; in
                place, a tensor is one of inference mode. Nothing has been written then. With ``fullgraph=True`` the
                compiler's own RuntimeError quotes it.
        """
        reads_rows = self.config.emit_classmix or isinstance(self.source, IntraBatchSource)
        arguments.check_forward(target, generator, staged, return_report, takes_crops=not reads_rows)
        batch = inputs.prepared(target, self.config, generator)
        if staged is None and self.crops is not None and batch.sample_seeds is not None:
            staged = self.crops.staged(batch.sample_seeds).to(batch.device, non_blocking=True)
        if self.inplace:
            in_place.check_writable(target, self.config)
        out, report = self._pasted(batch, staged, return_report)
        if self.inplace:
            out = in_place.written_back(batch, out)
        self._warn_once(report)
        out = inputs.emitted(out, target, self.config)
        if return_report:
            assert report is not None
            return out, report
        return out

    @classmethod
    def from_dataloader(
        cls,
        loader: Iterable[PaddedBatchedDenseSample | BatchedDenseSample | Sequence[DenseSample]],
        max_instances: int,
        config: BatchCopyPasteConfig | None = None,
        *,
        source_pool: SourcePool | None = None,
        device: torch.device | str | None = None,
        inplace: bool = False,
    ) -> AugmentedLoader:
        """The short way in: an iterable of augmented batches.

        Args:
            loader: yields padded batches, ragged batches, or lists of samples of one size.
            max_instances: K, the slots of the output; of samples and ragged batches with more instances the largest are
                kept; padded batches must have this many slots.
            config: what a paste may do.
            source_pool: paste objects of this bank, of which crops are drawn and read in this process, or of this
                loader of staged crops; ``config.source`` is then of ``kind="bank"``, which is also the default.
            device: where to paste; by default where the batch is.
            inplace: paste into the batches that the loader yields, where they are padded and on ``device`` already.

        Raises:
            TypeError: an argument of another class.
            ValueError: ``config.source`` is of a bank without ``source_pool``, or the other way round.
        """
        arguments.check_loader(loader, max_instances, device, source_pool)
        if config is None and source_pool is not None:
            config = BatchCopyPasteConfig(source=SourceConfig(kind="bank"))
        module = cls(config, inplace=inplace)
        kind = module.config.source.kind
        if (kind == "bank") != (source_pool is not None):
            raise ValueError(
                "from_dataloader: expected source_pool with source.kind='bank', and only there, got "
                f"{'none' if source_pool is None else 'one'} and kind={kind!r}"
            )
        pool = None if source_pool is None else CropPool(source_pool, module.config.num_layers)
        return AugmentedLoader(loader, module, max_instances, device, pool)

    def _pasted(
        self, batch: PaddedBatchedDenseSample, staged: StagedCrops | None, with_report: bool
    ) -> tuple[PaddedBatchedDenseSample, PasteReport | None]:
        """The batch with what its source gives, harmonised; a report if asked for, needed, or if nothing was pasted."""
        if not self.config.harmonize.is_active:
            return self._composed(batch, staged, with_report)
        assert batch.sample_seeds is not None
        before = batch.images.clone() if self.inplace and in_place.can_be_written(batch) else batch.images
        out, report = self._composed(batch, staged, with_report=True)
        assert report is not None
        seen, padding = report.visible_layer >= 0, batch.padding_mask
        images = harmonized(out.images, before, seen, batch.sample_seeds, self.config.harmonize, padding)
        return out.derived(images=images), report

    def _composed(
        self, batch: PaddedBatchedDenseSample, staged: StagedCrops | None, with_report: bool
    ) -> tuple[PaddedBatchedDenseSample, PasteReport | None]:
        """The batch with what its source gives; a report if asked for, or if nothing was pasted."""
        if self.config.emit_classmix:
            return self._mixed(batch)
        if batch.instance_masks is None or batch.max_instances == 0:
            return inputs.with_finite_depth(batch), unchanged_report(batch, self.config.num_layers)
        self._warn_of_few_scales(batch.canvas_size if staged is None else staged.crop_size)
        found = self._survey(batch)
        request = self._request(batch, found, staged)
        sampled = self.source.sample(batch, found.eligible, request)
        source, placement, counts = source_check.checked_sample(self.source, sampled, batch, request)
        inputs.check_source(batch, source)
        arguments.check_no_grad("source", source)
        frame = Frame(self.config, self.classes, batch, source)
        if frame.settles_at_once:
            writes = self.inplace and in_place.can_be_written(batch)
            return paste_at_once(frame, placement, counts, with_report=with_report, in_place=writes)
        return paste_in_stages(frame, placement, counts)

    def _mixed(self, batch: PaddedBatchedDenseSample) -> tuple[PaddedBatchedDenseSample, PasteReport]:
        """The batch with classes of its sources, and the report."""
        assert isinstance(self.source, RowStrategy)
        found = self._survey(batch)
        request = self._request(batch, found)
        known = None if self.classes is None else self.classes.is_thing | self.classes.is_stuff
        present = classmix.present_classes(batch, known, self.config.ignore_index)
        rows = self.source.rows(batch, present.any(1), request)
        rows = source_check.checked_rows(self.source, rows, batch, request.config.layers)
        mixture = Mixture(*rows, request.seeds, self.schedule.limits, request.num_free, present, found.eligible)
        return mix_in_stages(batch, mixture, self._rules)

    def _survey(self, batch: PaddedBatchedDenseSample) -> Survey:
        """Eligible for a paste are instances with an extent, things only where a taxonomy is given."""
        if engine.pastes_whole(batch.device) and not torch.compiler.is_compiling():
            is_thing = None if self.classes is None else self.classes.is_thing
            return engine.survey(instance_rows(batch), batch.padding_mask, batch.canvas_size, is_thing)
        has_extent = (batch.boxes[..., 2:] > batch.boxes[..., :2]).all(-1)
        eligible = batch.instance_valid & has_extent
        return Survey(
            eligible=eligible if self.classes is None else eligible & self.classes.things(batch.labels),
            occupied=geometry.pixel_boxes(batch.boxes),
            num_free=(~batch.instance_valid).sum(1),
            extent=geometry.valid_extent(batch.padding_mask, batch.batch_size, batch.canvas_size, batch.device),
            labels=batch.labels,
        )

    def _request(
        self, batch: PaddedBatchedDenseSample, found: Survey, staged: StagedCrops | None = None
    ) -> PlacementRequest:
        assert batch.sample_seeds is not None
        return PlacementRequest(
            seeds=batch.sample_seeds,
            extent=found.extent,
            occupied=found.occupied,
            num_free=found.num_free,
            canvas_size=batch.canvas_size,
            config=self._placement,
            schedule=self.schedule,
            classes=self.classes,
            staged=staged,
            text=self._placement_text,
        )

    def _warn_once(self, report: PasteReport | None) -> None:
        """Say so the first time that nothing could be pasted; on an accelerator look at the first batch only.

        Reading a report there waits for the device.
        """
        if torch.compiler.is_compiling() or not self._may_warn or report is None:
            return
        if report.num_placed.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            return
        message = nothing_pasted_warning(report, self.config)
        self._may_warn = message is None and report.num_placed.device.type == "cpu"
        if message is not None:
            warnings.warn(message, stacklevel=5)  # the caller of the module's __call__

    def _warn_of_few_scales(self, canvas_size: tuple[int, int]) -> None:
        """Say once that patches leave few sizes to a paste."""
        if torch.compiler.is_compiling() or not self._may_warn_of_scales:
            return
        message = draw_scales.few_scales_warning(self._placement, canvas_size)
        if message is not None:
            self._may_warn_of_scales = False
            warnings.warn(message, stacklevel=7)  # the caller of the module's __call__


def _source_of(config: BatchCopyPasteConfig) -> SourceStrategy:
    return BankSource(config.source) if config.source.kind == "bank" else IntraBatchSource()
