"""Source of objects from an instance bank: each layer is one of the crops that are staged for its target."""

from __future__ import annotations

import torch
from torch import Tensor

from segpaste.augmentation.config.paste import SourceConfig
from segpaste.augmentation.sources.crop_pool import is_bank
from segpaste.augmentation.sources.placement import PlacementRequest, Sampled
from segpaste.engine import Classes, Sources, engine_for
from segpaste.engine.records import SCALE_DEN
from segpaste.types import FIELDS, Field, PaddedBatchedDenseSample, StagedCrops


class BankSource:
    """Source that pastes ``config.crops_per_target`` of the crops staged for a target, each as a layer of its own.

    They are drawn uniformly among the crops that can be pasted: those with an object, of a thing class if there is a
    taxonomy. Rare classes are balanced by `segpaste.BankSampler`.

    Args:
        config: config with ``kind="bank"``.

    Raises:
        TypeError: ``config`` is not a `SourceConfig`; a bank goes to ``BatchCopyPaste(source_pool=bank)``.
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

    def sample(self, target: PaddedBatchedDenseSample, eligible: Tensor, request: PlacementRequest) -> Sampled:
        """See `segpaste.SourceStrategy.sample`; row ``b * K + k`` of the source batch is crop k of target b."""
        staged = self._checked(request.staged, target)
        if target.semantic_maps is not None and request.classes is None:
            raise ValueError(
                "BatchCopyPaste: expected config.panoptic because source.kind='bank' and the batch has semantic maps, "
                "got None; give PanopticConfig(taxonomy=...), which says of which classes the crops' pixels become"
            )
        source, engine = source_batch(staged, target, self.config), engine_for(target.device)
        classes = Classes() if request.classes is None else request.classes.tables_on(target.device)
        found = engine.survey(source, classes)
        usable = found.eligible if request.classes is not None else found.eligible & (source.labels >= 0)
        if target.depth is not None and self.config.without_depth == "skip":
            usable = usable & self._has_depth(staged)
        sources = Sources(usable, found.occupied, source.labels, found.extent, self._shrunk(staged))
        return source, *engine.draw(request.targets, sources, request.tables, request.rules(staged.crop_size), "own")

    def _checked(self, staged: StagedCrops | None, target: PaddedBatchedDenseSample) -> StagedCrops:
        """Return the staged crops if they fit the target."""
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

    def _has_depth(self, staged: StagedCrops) -> Tensor | bool:
        """Return the crops whose object has depth, [B * K, 1] bool; False if none has."""
        if staged.depth_valid is None:
            return False
        return (staged.depth_valid & staged.alphas).flatten(2).any(2).view(-1, 1)

    def _shrunk(self, staged: StagedCrops) -> Tensor | None:
        """Return the scales of the crops, [B * K] int64 over `SCALE_DEN`; None if scales are relative to the crop."""
        if self.config.relative_to == "crop":
            return None
        if staged.scales is None:
            raise ValueError(
                "BatchCopyPaste: expected a bank that keeps provenance because source.relative_to='photo', got crops "
                "without their scale; build one with it"
            )
        return (staged.scales * SCALE_DEN).round().to(torch.int64).clamp(min=1).flatten()


def source_batch(
    staged: StagedCrops, target: PaddedBatchedDenseSample, config: SourceConfig
) -> PaddedBatchedDenseSample:
    """Convert staged crops to a batch of B * K rows with one instance slot, and images of the target's dtype."""
    images, masks = staged.images.flatten(0, 1), staged.alphas.flatten(0, 1)
    if target.images.dtype != torch.uint8:
        if config.value_range is None:
            raise ValueError(
                f"BatchCopyPaste: expected source.value_range, the value of white in {target.images.dtype} images, for "
                "the crops of a bank are uint8, got None; set it to 1 or 255"
            )
        fits = torch.finfo(target.images.dtype)
        if not fits.tiny <= config.value_range <= fits.max:
            raise ValueError(
                f"BatchCopyPaste: expected source.value_range from {fits.tiny:.4g} to {fits.max:.4g}, for the images "
                f"are {target.images.dtype}, got {config.value_range:.4g}; set it to 1 or 255, or give float32 images"
            )
        images = (images.to(torch.float32) * (config.value_range / 255)).to(target.images.dtype)
    others = {f.batched_name: _carried(f, staged, target) for f in FIELDS}
    has_object = (staged.boxes[..., 2:] > staged.boxes[..., :2]).all(-1).view(-1, 1)
    own = {
        "images": images,
        "boxes": staged.boxes.view(-1, 1, 4).to(torch.float32),
        "labels": staged.class_ids.view(-1, 1) * has_object,
        "instance_valid": has_object,
        "instance_ids": has_object.to(torch.int32),
        "instance_masks": masks,
        "metric_depth": staged.metric_depth and others["depth"] is not None,
        "keypoint_schema": None if others["keypoints"] is None else staged.keypoint_schema,
    }
    return target.derived(**{**others, **own})


def _carried(field: Field, staged: StagedCrops, target: PaddedBatchedDenseSample) -> Tensor | None:
    """Return what staged crops have of a field, as rows of a batch with one slot; None where the target has none."""
    value: Tensor | None = getattr(staged, field.batched_name, None)
    if value is None or (field.layout != "image" and getattr(target, field.batched_name) is None):
        return None
    return value.flatten(0, 1).unsqueeze(1) if field.layout == "instance" else value.flatten(0, 1)
