"""Options that need additional launches, for `benchmarks.launches`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from segpaste.augmentation import BatchCopyPasteConfig, OriginalsConfig
from segpaste.types import FIELDS, KeypointSchema, Modality, PaddedBatchedDenseSample

Config, Batch = BatchCopyPasteConfig, PaddedBatchedDenseSample

INSTANCES = frozenset({Modality.INSTANCE})
EVERYTHING = frozenset(Modality) - {Modality.IMAGE}
MAPLESS = EVERYTHING - {Modality.INSTANCE, Modality.PANOPTIC}
NUM_POINTS, NUM_SLOTS, MULTIPLE = 17, 12, 14


@dataclass(frozen=True)
class Option:
    """One documented option, on batches with a padding mask.

    Attributes:
        config: change of the config.
        batch: change of the batch.
        arguments: further arguments of a forward, for a batch.
        presets: presets that are counted with it.
        fewest: modalities of the smaller of two batches.
        most: modalities of the larger one.
        works_in_place: the option can be had in place.
    """

    config: Callable[[Config], Config] = lambda config: config
    batch: Callable[[Batch], Batch] = lambda batch: batch
    arguments: Callable[[Batch], dict[str, Any]] = lambda batch: {}
    presets: tuple[str, ...] = ("random_place",)
    fewest: frozenset[Modality] = INSTANCES
    most: frozenset[Modality] = field(default=EVERYTHING)
    works_in_place: bool = True


def _placed(**changes: Any) -> Callable[[Config], Config]:
    """Change the config of the draws."""
    return lambda config: config.model_copy(update={"placement": config.placement.model_copy(update=changes)})


def _sourced(**changes: Any) -> Callable[[Config], Config]:
    """Change the config of the source."""
    return lambda config: config.model_copy(update={"source": config.source.model_copy(update=changes)})


def _changed(**changes: Any) -> Callable[[Config], Config]:
    return lambda config: config.model_copy(update=changes)


def _cropped(batch: Batch) -> Batch:
    """Take away the last row and column, so that no side is a multiple of a patch."""
    planes = {f.batched_name: getattr(batch, f.batched_name) for f in FIELDS if f.resample is not None}
    cut = {name: plane[..., :-1, :-1].contiguous() for name, plane in planes.items() if plane is not None}
    return batch.derived(**cut)


def _with_keypoints(batch: Batch) -> Batch:
    schema = KeypointSchema(names=tuple(f"point {i}" for i in range(NUM_POINTS)))
    points = torch.empty(*batch.labels.shape, NUM_POINTS, 3, device=batch.device)
    return replace(batch, keypoints=points, keypoint_schema=schema)


def _with_crowd(batch: Batch) -> Batch:
    return replace(batch, crowd_mask=_bools(batch, 1))


def _bools(batch: Batch, *shape: int) -> torch.Tensor:
    return torch.empty(batch.batch_size, *shape, *batch.canvas_size, dtype=torch.bool, device=batch.device)


MANY = {
    "presets": ("random_place", "classmix", "xpaste", "ultralytics_flip", "ultralytics_mixup"),
    "fewest": INSTANCES | {Modality.SEMANTIC},
}
"""A preset of few launches, and those of the most, for options that add one to all of them."""

OPTIONS = {
    "padded canvas": Option(_placed(pad_to_multiple=MULTIPLE), _cropped, works_in_place=False, **MANY),
    "more slots": Option(_changed(max_instances=NUM_SLOTS), works_in_place=False, **MANY),
    "no seeds": Option(batch=lambda batch: replace(batch, sample_seeds=None), **MANY),
    "report": Option(
        arguments=lambda batch: {"return_report": True},
        presets=("random_place", "xpaste", "classmix"),
        fewest=INSTANCES | {Modality.SEMANTIC},
    ),
    "candidate fraction": Option(
        config=_placed(originals=OriginalsConfig(candidate_frac=0.5)), presets=("random_place", "xpaste")
    ),
    "hidden objects": Option(config=_changed(max_hidden_frac=0.5)),
    "crowd": Option(batch=_with_crowd),
    "region": Option(arguments=lambda batch: {"region": _bools(batch)}),
    "region of classes": Option(config=_placed(region={1: (2, 3), 4: (5,)}), fewest=INSTANCES | {Modality.SEMANTIC}),
    "scale of the photo": Option(config=_sourced(relative_to="photo"), presets=("xpaste",)),
    "masks from boxes": Option(config=_sourced(mask_from="boxes"), fewest=MAPLESS, most=MAPLESS),
    "masks from ellipses": Option(config=_sourced(mask_from="ellipse"), fewest=MAPLESS, most=MAPLESS),
    "fixed share": Option(config=_placed(paste_prob=0.5, fixed_share=True)),
    "keypoints": Option(batch=_with_keypoints, presets=("random_place", "xpaste")),
}
"""By the names that the table has."""
