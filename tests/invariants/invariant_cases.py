"""Random forwards for the tests of the invariants, drawn once per process: 100 for each subset, 200 with everything.

SEGPASTE_INVARIANT_CASES sets another number for the subsets; SEGPASTE_BACKEND says which backend pastes.

Everything that the rules depend on varies: canvas, counts, slots, dtypes, padding, invalid depth, cameras, layers,
scales, thresholds, policies. A case is a pure function of its subset and number, so a failure names what to run again.
`scripts/hostile_batches.py` holds thousands of other batches against all invariants.
"""

from __future__ import annotations

import functools
import os
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from samples import OPTIONAL, SCHEMA, all_modality_subsets, free_boxes, make_batch, paste, subset_id
from segpaste.augmentation import BatchCopyPasteConfig, PanopticConfig, PlacementConfig, SourceConfig
from segpaste.invariants import Case
from segpaste.invariants.case import Check, what_is_missing
from segpaste.invariants.instance import mask_boxes
from segpaste.types import Modality, PaddedBatchedDenseSample

Subset = frozenset[Modality]
EVERYTHING: Subset = frozenset(OPTIONAL)


def num_cases(subset: Subset) -> int:
    """Return how many cases of a subset are drawn."""
    return max(200 if subset == EVERYTHING else 100, int(os.environ.get("SEGPASTE_INVARIANT_CASES", 0)))


def subsets_with(*modalities: Modality) -> list[Any]:
    """Parameters of a test: the legal subsets that hold these modalities, one xdist group each (they share cases)."""
    return [
        pytest.param(subset, id=subset_id(subset), marks=pytest.mark.xdist_group(f"invariants-{subset_id(subset)}"))
        for subset in all_modality_subsets()
        if subset >= set(modalities)
    ]


def assert_holds(check: Check, subset: Subset) -> None:
    """The invariant holds in every case of the subset, and most cases say something about it."""
    num_checked = 0
    for number, case in enumerate(cases(subset)):
        if what_is_missing(check.__name__, case) is None:
            num_checked += 1
            fresh = replace(case)  # what a case caches would add up
            broken = "\n".join(str(violation) for violation in check(fresh))
            assert not broken, f"case {number} of {subset_id(subset)}:\n{broken}"
    assert num_checked >= num_cases(subset) * 3 // 4


@functools.cache
def cases(subset: Subset) -> tuple[Case, ...]:
    """All cases of a subset."""
    return tuple(run(*draw(subset, number)) for number in range(num_cases(subset)))


def run(before: PaddedBatchedDenseSample, config: BatchCopyPasteConfig) -> Case:
    """One forward."""
    return Case(before, *paste(before, config), config)


def draw(subset: Subset, number: int) -> tuple[PaddedBatchedDenseSample, BatchCopyPasteConfig]:
    """The input and the config of one case."""
    rng = np.random.default_rng([number, all_modality_subsets().index(subset)])
    batch = _draw_batch(rng, subset, number)
    return batch, _draw_config(rng, subset, batch.max_instances)


def _draw_batch(rng: np.random.Generator, subset: Subset, number: int) -> PaddedBatchedDenseSample:
    counts = [int(n) for n in rng.integers(0, 6, 4)]
    batch = make_batch(
        int(rng.choice([1, 2, 3, 4], p=[0.05, 0.25, 0.4, 0.3])),
        size=(int(rng.integers(11, 24)), int(rng.integers(11, 24))),
        num_instances=counts,
        max_instances=max(counts) + int(rng.integers(0, 6)),
        modalities=subset,
        seed=number,
        image_dtype=_pick(rng, [torch.uint8, torch.uint8, torch.float32, torch.float16, torch.bfloat16]),
        metric_depth=bool(rng.random() < 0.5),
        padding=_pick(rng, [None, (0, 0), (3, 0), (2, 5)]),
        keypoints=True,
        crowd=True,
    )
    if batch.depth is not None and batch.depth_valid is not None and rng.random() < 0.5:
        batch = replace(batch, depth=torch.where(batch.depth_valid, batch.depth, torch.nan))
    if batch.semantic_maps is not None and rng.random() < 0.5:
        speckles = torch.from_numpy(rng.random(batch.semantic_maps.shape) < 0.1)
        batch = replace(batch, semantic_maps=batch.semantic_maps.masked_fill(speckles, SCHEMA.ignore_index))
    if Modality.PANOPTIC not in subset and rng.random() < 0.4:
        batch = _with_grown_masks(batch)
    if rng.random() < 0.2:
        room = torch.tensor([*batch.canvas_size[::-1]] * 2)
        loose = (batch.boxes + torch.tensor([-1.25, -0.5, 0.75, 2.0])).clamp(min=0).minimum(room)
        batch = replace(batch, boxes=loose * batch.instance_valid[..., None])
    return batch if Modality.INSTANCE in subset else free_boxes(batch, rng)


def _with_grown_masks(batch: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
    """Masks that overlap, of distinct classes in each image, and one that is empty though its row is valid."""
    if batch.instance_masks is None or batch.max_instances == 0:
        return batch
    picture = torch.ones_like(batch.images[:, :1], dtype=torch.bool)
    if batch.padding_mask is not None:
        picture = ~batch.padding_mask
    grown = torch.nn.functional.max_pool2d(batch.instance_masks.float(), 5, stride=1, padding=2) > 0
    grown &= batch.instance_valid[..., None, None] & picture
    grown[0, 0] = False
    labels = torch.arange(1, batch.max_instances + 1) * batch.instance_valid
    return replace(batch, instance_masks=grown, boxes=mask_boxes(grown), labels=labels)


def _draw_config(rng: np.random.Generator, subset: Subset, num_slots: int) -> BatchCopyPasteConfig:
    panoptic = PanopticConfig(
        taxonomy=SCHEMA,
        stuff_policy=_pick(rng, ["revert", "ignore"]),
        tau_stuff_frac=_pick(rng, [0.0, 0.1, 0.5, 0.8]),
        tau_stuff_px=_pick(rng, [0, 8, 64]),
    )
    has_taxonomy = rng.random() < (0.9 if Modality.PANOPTIC in subset else 0.2)
    config = BatchCopyPasteConfig(
        max_instances=_pick(rng, [None, max(num_slots, 1) + 3]),
        tile_size=_pick(rng, [512, 512, 512, 512, 512, 11]),
        antialias=bool(rng.random() < 0.15),
        min_area_px=_pick(rng, [1, 2, 8]),
        min_residual_area_frac=_pick(rng, [0.0, 0.1, 0.3, 0.6]),
        source=SourceConfig(
            mask_from=None if Modality.INSTANCE in subset else _pick(rng, ["ellipse", "boxes"]), whole_only=False
        ),
        panoptic=panoptic if has_taxonomy else None,
        placement=PlacementConfig(
            scale_range=_pick(rng, [(0.5, 2.0), (1.0, 1.0), (0.7, 0.9), (1.5, 2.5), (0.2, 3.0)]),
            hflip_probability=_pick(rng, [0.0, 0.5, 1.0]),
            vflip_probability=_pick(rng, [0.0, 0.5, 1.0]),
            quarter_turn_probability=_pick(rng, [0.0, 0.75, 1.0]),
            paste_prob=_pick(rng, [1.0, 1.0, 0.5]),
            k_range=_pick(rng, [(1, 256), (1, 256), (1, 1), (2, 4)]),
            layers=_pick(rng, [1, 1, 2, 3]),
            max_attempts=int(rng.integers(1, 4)),
        ),
    )
    if config.panoptic is not None and rng.random() < 0.3:
        priorities = _pick(rng, [{1: 1}, {2: -1}, {3: 2, 1: 1, 12: 1}])
        panoptic = PanopticConfig.model_validate({**dict(config.panoptic), "contact_priority": priorities})
        config = config.model_copy(update={"panoptic": panoptic})
    config = config.model_copy(update={"max_hidden_frac": _pick(rng, [1.0, 1.0, 1.0, 0.5, 0.2])})
    if Modality.SEMANTIC in subset and rng.random() < 0.2:
        region = {"region": {1: [11], 2: [1, 12]}, "region_frac": _pick(rng, [0.1, 0.5, 1.0])}
        placement = PlacementConfig.model_validate({**config.placement.model_dump(), **region})
        config = config.model_copy(update={"placement": placement})
    if rng.random() < 0.1:
        placement = PlacementConfig.model_validate({**config.placement.model_dump(), "max_cover_frac": 0.3})
        config = config.model_copy(update={"placement": placement})
    return config


def _pick(rng: np.random.Generator, options: list[Any]) -> Any:
    return options[int(rng.integers(len(options)))]
