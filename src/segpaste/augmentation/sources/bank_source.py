"""Source that takes objects from an instance bank: each layer is one of the crops that are staged for its target."""

from __future__ import annotations

import torch
from torch import Tensor

from segpaste._reprs import changed_keys, described
from segpaste.augmentation.config.paste import SourceConfig
from segpaste.augmentation.sources.crop_pool import is_bank
from segpaste.augmentation.sources.strategies import Offer, PlacementRequest, Sampled, drawn
from segpaste.augmentation.tables import ClassTables
from segpaste.engine import Classes, CropRows, Crops, Sources, engine_for
from segpaste.engine.schema import SCALE_DEN
from segpaste.types import FIELDS, Field, PaddedBatchedDenseSample, StagedCrops
from segpaste.types.check import not_none


class BankSource:
    """Source that pastes ``config.crops_per_target`` of the crops staged for a target, each as a separate layer.

    They are drawn uniformly among the crops that can be pasted: those with an object, of a thing class if there is a
    taxonomy. Rare classes are balanced by `segpaste.BankSampler`.

    Args:
        config: config with ``kind="bank"``.

    Raises:
        TypeError: ``config`` is not a `SourceConfig`. A bank is given as ``BatchCopyPaste(source_pool=bank)``.
        ValueError: it is of another kind.

    After Zhao et al., "X-Paste: Revisiting Scalable Copy-Paste for Instance Segmentation using CLIP and
    StableDiffusion", ICML 2023, https://arxiv.org/abs/2212.03863.
    """

    def __init__(self, config: SourceConfig) -> None:
        if not isinstance(config, SourceConfig):
            instead = (
                "write BatchCopyPaste(source_pool=bank), or BatchCopyPaste(BatchCopyPasteConfig(source=SourceConfig("
                "kind='bank'))) and call it with staged=crops"
                if is_bank(config)
                else "give SourceConfig(kind='bank')"
            )
            raise TypeError(f"BankSource: expected a SourceConfig, got {type(config).__name__}; {instead}")
        if config.kind != "bank":
            raise ValueError(f"BankSource: expected a SourceConfig of kind='bank', got {config.kind!r}")
        self.config = config

    def __repr__(self) -> str:
        return described(self, lambda: changed_keys(self.config))

    def sample(self, target: PaddedBatchedDenseSample, eligible: Tensor, request: PlacementRequest) -> Sampled:
        """See `segpaste.SourceStrategy.sample`; row ``b * K + k`` of the source batch is crop k of target b."""
        return drawn(self.offer(target, request.staged, request.classes), target, eligible, request)

    def offer(self, target: PaddedBatchedDenseSample, staged: StagedCrops | None, classes: ClassTables | None) -> Offer:
        """See `OfferingSource.offer`."""
        staged = self._checked(staged, target)
        if target.semantic_maps is not None and classes is None:
            raise ValueError(
                "BatchCopyPaste: expected config.panoptic because source.kind='bank' and the batch has semantic maps, "
                "got None; give PanopticConfig(taxonomy=...), which gives the semantic class of the crops' pixels"
            )
        needs_depth = target.depth is not None and self.config.without_depth == "skip"
        tables = Classes() if classes is None else classes.tables_on(target.device)
        rows = crop_rows(staged, target, self.config, tables, needs_depth=needs_depth)
        usable = rows.eligible & False if needs_depth and staged.depth_valid is None else rows.eligible
        boxes, labels = staged.boxes.reshape(-1, 1, 4), staged.class_ids.reshape(-1, 1)
        sources = Sources(usable, boxes, labels, rows.extent, self._shrunk(staged))
        return Offer(_batch_of(rows, staged, target), sources, "own")

    def _checked(self, staged: StagedCrops | None, target: PaddedBatchedDenseSample) -> StagedCrops:
        """Check that staged crops are given and fit the target, and return them."""
        if staged is None:
            raise ValueError(
                "BatchCopyPaste: expected staged crops because source.kind='bank', got none; call it as "
                "augment(batch, staged=crops), with crops from stage_bank_batch or create_bank_dataloader"
            )
        if staged.batch_size != target.batch_size or staged.num_crops < self.config.crops_per_target:
            raise ValueError(
                f"BatchCopyPaste: expected staged crops for {target.batch_size} targets, at least "
                f"crops_per_target={self.config.crops_per_target} for each, got {staged.batch_size} x "
                f"{staged.num_crops}; give the loader or the data module this batch_size and crops_per_target"
            )
        if staged.device != target.device:
            raise ValueError(
                f"BatchCopyPaste: expected staged crops on {target.device}, the target's device, got {staged.device}; "
                "move them with .to(device)"
            )
        return staged

    def _shrunk(self, staged: StagedCrops) -> Tensor | None:
        """Return the scales of the crops, [B * K] int64 over `SCALE_DEN`; None if scales are relative to the crop."""
        if self.config.relative_to == "crop":
            return None
        if staged.scales is None:
            raise ValueError(
                "BatchCopyPaste: expected a bank with provenance because source.relative_to='photo', got crops without "
                "their scale; build the bank with provenance"
            )
        return (staged.scales * SCALE_DEN).round().to(torch.int64).clamp(min=1).flatten()


def source_batch(
    staged: StagedCrops, target: PaddedBatchedDenseSample, config: SourceConfig
) -> PaddedBatchedDenseSample:
    """Convert staged crops to a batch of B * K rows with one instance slot, and images of the target's dtype."""
    return _batch_of(crop_rows(staged, target, config, Classes(), needs_depth=False), staged, target)


def crop_rows(
    staged: StagedCrops,
    target: PaddedBatchedDenseSample,
    config: SourceConfig,
    classes: Classes,
    *,
    needs_depth: bool,
) -> CropRows:
    """Convert staged crops to rows with images of the target's dtype, and find those that may be pasted.

    Args:
        staged: B x K crops.
        target: batch that they are pasted into.
        config: source config, whose ``value_range`` is the value of white in float images.
        classes: the taxonomy.
        needs_depth: leave out crops without depth, if any of the crops has depth.

    Raises:
        ValueError: ``config.value_range`` is missing, or does not fit the dtype of the images.
    """
    dtype, white = target.images.dtype, config.value_range
    if dtype != torch.uint8:
        if white is None:
            raise ValueError(
                f"BatchCopyPaste: expected source.value_range, the value of white in {dtype} images, since the crops "
                "of a bank are uint8, got None; set it to 1 or 255"
            )
        fits = torch.finfo(dtype)
        if not fits.tiny <= white <= fits.max:
            raise ValueError(
                f"BatchCopyPaste: expected source.value_range from {fits.tiny:.4g} to {fits.max:.4g}, since the images "
                f"are {dtype}, got {white:.4g}; set it to 1 or 255, or give float32 images"
            )
    depth_valid = staged.depth_valid if needs_depth else None
    flat = [None if t is None else t.flatten(0, 1) for t in (staged.images, staged.alphas, staged.boxes, depth_valid)]
    images, alphas, boxes, depth_valid = flat
    crops = Crops(not_none(images), not_none(alphas), not_none(boxes), staged.class_ids.flatten(), depth_valid)
    return engine_for(target.device).stage_crops(crops, classes, dtype, (white or 255.0) / 255)


def _batch_of(rows: CropRows, staged: StagedCrops, target: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
    """Return rows of crops as a batch, with those other fields of the target that the crops have."""
    others = {f.batched_name: _carried(f, staged, target) for f in FIELDS}
    own = {
        "images": rows.images,
        "boxes": rows.boxes,
        "labels": rows.labels,
        "instance_valid": rows.instance_valid,
        "instance_ids": rows.instance_ids,
        "instance_masks": staged.alphas.flatten(0, 1),
        "metric_depth": staged.metric_depth and others["depth"] is not None,
        "keypoint_schema": None if others["keypoints"] is None else staged.keypoint_schema,
    }
    return target.derived(**{**others, **own})


def _carried(field: Field, staged: StagedCrops, target: PaddedBatchedDenseSample) -> Tensor | None:
    """Return a field of staged crops as rows of a batch with one slot; None if the target does not have the field."""
    value: Tensor | None = getattr(staged, field.batched_name, None)
    if value is None or (field.layout != "image" and getattr(target, field.batched_name) is None):
        return None
    return value.flatten(0, 1).unsqueeze(1) if field.layout == "instance" else value.flatten(0, 1)
