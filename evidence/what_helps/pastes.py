"""The pasted batches of a run, by its settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from segpaste import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.augmentation import HarmonizeConfig, PlacementConfig, SourceConfig
from segpaste.datasets import EpochDataLoader, make_large_scale_jittering
from segpaste.datasets.scenes import SceneDataset
from segpaste.types import DenseSample, PaddedBatchedDenseSample
from segpaste.types.check import not_none

from ..samples import Memory, shuffled_order
from ..scenes import SIZE

_MAX_INSTANCES = 24
_VALID = 0.999  # of a paste's validity between pixels: all of them are valid


def batches(
    settings: Mapping[str, Any], scenes: SceneDataset, samples: list[DenseSample]
) -> Iterable[PaddedBatchedDenseSample]:
    """Return the augmented batches of a run, one for each step."""
    num, seed = settings["steps"] * settings["batch_size"], settings["seed"]
    targets = EpochDataLoader(
        Memory(samples, scenes.class_names, shuffled_order(len(samples), num, seed)),
        batch_size=settings["batch_size"],
        max_instances=_MAX_INSTANCES,
        jitter=make_large_scale_jittering(SIZE, scale_range=(0.8, 1.25)),
        base_seed=seed,
        shuffle=False,
    )
    if settings["paste"]["paste_prob"] == 0:
        return targets
    augment = BatchCopyPaste(config_of(settings["paste"]))
    if settings["paste"].get("depth") == "in_front":
        return (pasted_in_front(augment, batch) for batch in targets)
    return BatchCopyPaste.from_dataloader(targets, _MAX_INSTANCES, augment.config)


def config_of(paste: Mapping[str, Any]) -> BatchCopyPasteConfig:
    """Return the config of a paste: objects of other images of the batch, each with its own size and place."""
    num, patch = paste["objects"], paste.get("patch")
    low, high = paste["scale_range"]
    aligned: dict[str, Any] = {"pad_to_multiple": patch, "patch_aligned_paste": True, "align": "instance"}
    is_aware = paste.get("depth") == "aware"
    return BatchCopyPasteConfig(
        placement=PlacementConfig(
            paste_prob=paste["paste_prob"],
            layers=num,
            k_range=(num, num),
            grouping="instance",
            scale_range=(low, high),
            max_attempts=paste["max_attempts"],
            **(aligned if patch else {}),
        ),
        source=SourceConfig(whole_only=paste["whole_only"]),
        harmonize=HarmonizeConfig(**paste.get("harmonize", {})),
        emit_depth=True if is_aware else False if "depth" in paste else None,
        perspective_depth=is_aware,
    )


def pasted_in_front(augment: BatchCopyPaste, batch: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
    """Paste in front of everything, and carry the depth along like colours, as a paste that knows no depth does."""
    depth, valid = not_none(batch.depth), not_none(batch.depth_valid)
    images = torch.cat([batch.images.float(), depth, valid.float()], 1)
    known = {"depth": None, "depth_valid": None, "camera_intrinsics": None, "metric_depth": False}
    out: PaddedBatchedDenseSample = augment(batch.derived(images=images, **known))
    pixels = out.images.as_subclass(Tensor)
    is_valid = pixels[:, 4:] > _VALID
    return out.derived(images=pixels[:, :3], depth=torch.where(is_valid, pixels[:, 3:4], 0.0), depth_valid=is_valid)
