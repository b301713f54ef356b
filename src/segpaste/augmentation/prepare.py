"""Preparation of the caller's batch for the stages (gates, slots, seeds, masks), and of the output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from segpaste.augmentation.config.paste import BatchCopyPasteConfig
from segpaste.augmentation.masks import checked_slots, with_box_masks, with_empty_masks, with_masks_for_crops
from segpaste.engine import GivenBoxes, Scene, engine_for
from segpaste.engine.regions import region_sums
from segpaste.types import FIELDS, Modality, PaddedBatchedDenseSample

GATES = {
    Modality.INSTANCE: "emit_instance",
    Modality.PANOPTIC: "emit_panoptic",
    Modality.DEPTH: "emit_depth",
}
_FIELDS = {
    marking.modality: (marking.batched_name, *(f.batched_name for f in FIELDS if marking.name in f.needs))
    for marking in FIELDS
    if marking.modality in GATES
}


def modalities_of(config: BatchCopyPasteConfig) -> tuple[frozenset[Modality], frozenset[Modality]]:
    """Return the modalities that every batch must carry, and those that the output may carry."""
    mixed = {Modality.SEMANTIC} if config.emit_classmix or config.placement.region else set()
    asked = {m for m, gate in GATES.items() if getattr(config, gate)}
    closed = {m for m, gate in GATES.items() if getattr(config, gate) is False}
    return frozenset({Modality.IMAGE, *asked, *mixed}), frozenset(Modality) - closed


def check_modalities(target: PaddedBatchedDenseSample, config: BatchCopyPasteConfig) -> None:
    """Check that the batch has every modality that the config requires, and that the slots fit the taxonomy."""
    for modality, gate in GATES.items():
        if getattr(config, gate) and modality not in target.modalities:
            raise ValueError(
                f"BatchCopyPaste: expected {' and '.join(_FIELDS[modality])} in the batch because {gate}=True, got "
                f"a batch with {sorted(m.value for m in target.modalities)}"
            )
    if (config.emit_classmix or config.placement.region) and target.semantic_maps is None:
        why = "emit_classmix=True" if config.emit_classmix else "placement.region names semantic classes"
        raise ValueError(
            f"BatchCopyPaste: expected semantic_maps in the batch because {why}, got a batch with "
            f"{sorted(m.value for m in target.modalities)}"
        )
    if config.panoptic is not None and target.panoptic_maps is not None:
        num_slots = max(target.max_instances, config.max_instances or 0)
        limit = config.panoptic.taxonomy.max_instances_per_image
        if num_slots > limit:
            raise ValueError(
                f"BatchCopyPaste: expected at most max_instances_per_image={limit} instance slots, got {num_slots}; "
                "pad to fewer slots, or raise it in the taxonomy"
            )


def without_closed_gates(batch: PaddedBatchedDenseSample, config: BatchCopyPasteConfig) -> PaddedBatchedDenseSample:
    """Remove the maps that the config keeps out of the output; instance masks are removed last, in `emitted`."""
    closed: dict[str, Any] = {}
    for modality in (Modality.PANOPTIC, Modality.DEPTH):
        if getattr(config, GATES[modality]) is False:
            closed.update(dict.fromkeys(_FIELDS[modality]))
            if modality is Modality.DEPTH:
                closed["metric_depth"] = False
    return batch.derived(**closed) if closed else batch


def seeded(batch: PaddedBatchedDenseSample, generator: torch.Generator | None) -> PaddedBatchedDenseSample:
    """Return the batch with a seed per image, drawn from ``generator`` if given, else its own, else drawn by torch."""
    if generator is None and batch.sample_seeds is not None:
        return batch
    low, high, size = -(1 << 63), (1 << 63) - 1, (batch.batch_size,)
    if generator is None:  # not as an argument: that overload takes no symbolic size
        return batch.derived(sample_seeds=torch.randint(low, high, size, device=batch.device))
    seeds = torch.randint(low, high, size, generator=generator, device=generator.device)
    return batch.derived(sample_seeds=seeds.to(batch.device, non_blocking=True))


def prepared(
    target: PaddedBatchedDenseSample,
    config: BatchCopyPasteConfig,
    generator: torch.Generator | None,
) -> PaddedBatchedDenseSample:
    """Check a batch, remove its closed modalities, and add output slots, seeds and, if possible, instance masks."""
    check_modalities(target, config)
    batch = seeded(without_closed_gates(target, config), generator)
    multiple = config.placement.pad_to_multiple
    if multiple is not None or config.max_instances is not None:
        num_slots = checked_slots(batch, config.max_instances)
        batch = engine_for(batch.device).extend(batch, padded_size(batch, multiple or 1), num_slots)
    if batch.instance_masks is not None:
        return batch
    batch = with_masks_for_crops(with_masks(batch, config), config)
    return with_empty_masks(batch) if config.emit_classmix and batch.instance_masks is None else batch


def with_masks(batch: PaddedBatchedDenseSample, config: BatchCopyPasteConfig) -> PaddedBatchedDenseSample:
    """Add the masks that ``source.mask_from`` names to a batch that has boxes only.

    Raises:
        ValueError: the batch has panoptic maps.
    """
    if batch.instance_masks is not None or config.source.mask_from is None:
        return batch
    if batch.panoptic_maps is not None:
        raise ValueError(
            "BatchCopyPaste: expected instance masks with the panoptic maps, got none; boxes overlap, so they do not "
            "assign pixels to instances: give the masks, or leave the panoptic maps out with emit_panoptic=False"
        )
    return with_box_masks(batch, config.source.mask_from)


def prepared_sources(rows: PaddedBatchedDenseSample, config: BatchCopyPasteConfig) -> PaddedBatchedDenseSample:
    """Prepare sources from outside of the target's batch like its rows: gated and padded.

    Args:
        rows: S sources with K_s slots.
        config: config of the paste.
    """
    rows = without_closed_gates(rows, config)
    multiple = config.placement.pad_to_multiple
    return rows if multiple is None else padded_to_multiple(rows, multiple)


def with_given_boxes(
    scene: Scene, target: PaddedBatchedDenseSample, config: BatchCopyPasteConfig, *, in_place: bool
) -> Scene:
    """Add masks to a source that has boxes only, and to the scene the boxes that masks of the target were made from.

    Args:
        scene: target and source.
        target: input of the module, in whose tensors a paste in place writes.
        config: config of the paste.
        in_place: whether it does.
    """
    is_own, has_masks = scene.source is scene.target, scene.source.instance_masks is not None
    if not has_masks:
        scene = replace(scene, source=with_masks(scene.source, config))
    if target.instance_masks is not None or config.source.mask_from is None:
        return scene
    own, others = (batch.boxes.clone() if in_place else batch.boxes for batch in (scene.target, scene.source))
    return replace(scene, given_boxes=GivenBoxes(own, others if is_own or not has_masks else None))


def regions_of(
    batch: PaddedBatchedDenseSample, region: Tensor | None, class_sets: Sequence[Sequence[int] | Tensor]
) -> Tensor | None:
    """Return the regions that may be pasted on, see `segpaste.engine.regions.region_sums`.

    Args:
        batch: prepared batch.
        region: [B, H, W] or [B, 1, H, W] bool, on the canvas before padding; None for all pixels.
        class_sets: semantic classes of each region.
    """
    if region is None and not class_sets:
        return None
    if region is not None:
        height, width = batch.canvas_size
        region = region.reshape(region.shape[0], *region.shape[-2:])
        if region.shape[1:] != (height, width):
            region = F.pad(region, [0, width - region.shape[2], 0, height - region.shape[1]])
    return region_sums(region, batch.semantic_maps, class_sets)


def check_source(
    target: PaddedBatchedDenseSample, source: PaddedBatchedDenseSample, config: BatchCopyPasteConfig
) -> None:
    """Check that a source batch can be pasted into the target: it has masks, and images and depth of the same kind."""
    if source.instance_masks is None and config.source.mask_from is None:
        raise ValueError("BatchCopyPaste: expected instance masks in the source batch, got none; give it masks")
    kinds = [(images.shape[1], images.dtype) for images in (target.images, source.images)]
    if kinds[0] != kinds[1]:
        (channels, dtype), (source_channels, source_dtype) = kinds
        raise ValueError(
            f"BatchCopyPaste: expected source images of {channels} channels, {dtype}, like the target's, got "
            f"{source_channels} channels, {source_dtype}; convert them (mind the range of their values)"
        )
    check_depths(target, source)
    own, other = target.keypoint_schema, source.keypoint_schema
    if own is not None and source.keypoints is not None and not own.fits(other):
        raise ValueError(
            f"BatchCopyPaste: expected the keypoints of the target, {', '.join(own.names)}, in the source, got "
            f"{'no keypoint_schema' if other is None else ', '.join(other.names)}; put the points of both in one "
            "order, with the same flip_pairs"
        )


def can_be_pasted(batch: PaddedBatchedDenseSample, config: BatchCopyPasteConfig) -> bool:
    """Return whether a prepared batch can take pastes: it has instance slots with masks, or classes are mixed."""
    return config.emit_classmix or (batch.instance_masks is not None and batch.max_instances > 0)


def with_finite_depth(batch: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
    """Set depth to 0, and mark it invalid, where it is NaN or infinite, as rendering does."""
    if batch.depth is None or batch.depth_valid is None:
        return batch
    depth = batch.depth.nan_to_num(0.0, 0.0, 0.0)
    return batch.derived(depth=depth, depth_valid=batch.depth_valid & (depth == batch.depth))


def emitted(
    out: PaddedBatchedDenseSample, target: PaddedBatchedDenseSample, config: BatchCopyPasteConfig
) -> PaddedBatchedDenseSample:
    """Remove instance masks from the output if the input had none or the config leaves them out."""
    if target.instance_masks is None or config.emit_instance is False:
        return out.derived(instance_masks=None, instance_ids=None)
    return out


def unpasted(target: PaddedBatchedDenseSample, config: BatchCopyPasteConfig) -> PaddedBatchedDenseSample:
    """Return the output of a paste with this config that pastes nothing; the slots stay."""
    batch = without_closed_gates(target, config)
    if config.placement.pad_to_multiple is not None:
        batch = padded_to_multiple(batch, config.placement.pad_to_multiple)
    return emitted(with_finite_depth(batch), target, config)


def check_depths(target: PaddedBatchedDenseSample, source: PaddedBatchedDenseSample) -> None:
    """Check that the source's depth can be converted to the target's scale."""
    if target.depth is None or source.depth is None:
        return
    if target.metric_depth != source.metric_depth:
        raise ValueError(
            f"BatchCopyPaste: expected one metric_depth on both sides of a paste, got {target.metric_depth} in the "
            f"target and {source.metric_depth} in the source; convert one of them"
        )
    for batch, side in ((target, "target"), (source, "source")):
        if target.metric_depth and batch.camera_intrinsics is None:
            raise ValueError(
                f"BatchCopyPaste: expected camera_intrinsics in the {side} because metric_depth=True, got None; crops "
                "of a bank have them if its groups name intrinsics"
            )


def padded_to_multiple(batch: PaddedBatchedDenseSample, multiple: int) -> PaddedBatchedDenseSample:
    """Pad the batch to a canvas whose sides are multiples of ``multiple`` pixels; return it as is if they are already.

    See `segpaste.engine.reference.inputs.extend`.
    """
    return engine_for(batch.device).extend(batch, padded_size(batch, multiple), batch.max_instances)


def padded_size(batch: PaddedBatchedDenseSample, multiple: int) -> tuple[int, int]:
    """Return the (H, W) of the canvas that the batch is padded to."""
    height, width = batch.canvas_size
    return height + -height % multiple, width + -width % multiple
