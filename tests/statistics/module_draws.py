"""Pastes of `BatchCopyPaste` into the pictures of the population, seen from outside: only its output is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import population
import torch
from histograms import Counts
from population import HEIGHT, NUM_SLOTS, STUFF, WIDTH, Rules
from torch import Tensor

from samples import EVERY_OBJECT
from segpaste import BatchCopyPaste, BatchCopyPasteConfig, derive_seed
from segpaste.augmentation import PanopticConfig, PlacementConfig, SourceStrategy
from segpaste.augmentation.config.paste import PanopticTaxonomy
from segpaste.seeding import to_int64
from segpaste.types import PaddedBatchedDenseSample, StagedCrops

SEED = 7
NUM_IMAGES = 5_000


def make_module(modality: str, source: SourceStrategy | None = None) -> BatchCopyPaste:
    """A module that obeys the rules of a modality."""
    options = config_options(population.RULES[modality], has_taxonomy=modality == "panoptic")
    return BatchCopyPaste(BatchCopyPasteConfig(source=EVERY_OBJECT, **options), source)


def config_options(rules: Rules, *, has_taxonomy: bool) -> dict[str, Any]:
    """Options of a `BatchCopyPasteConfig` that say what the rules say."""
    names = ("layers", "paste_prob", "k_range", "scale_range", "hflip_probability", "max_attempts")
    panoptic = None
    if has_taxonomy:
        things = (c for c in range(population.NUM_CLASSES) if c != population.UNKNOWN_CLASS)
        kinds = {**dict.fromkeys(things, "thing"), **dict.fromkeys(STUFF, "stuff")}
        panoptic = PanopticConfig(
            taxonomy=PanopticTaxonomy.model_validate({"classes": kinds}),
            tau_stuff_frac=rules.tau_stuff_frac,
            tau_stuff_px=rules.tau_stuff_px,
        )
    placement = PlacementConfig(**{name: getattr(rules, name) for name in names}, scale_to_fit=False)
    return {"min_area_px": rules.min_area_px, "placement": placement, "panoptic": panoptic}


def population_batch(modality: str) -> PaddedBatchedDenseSample:
    """All pictures of the population in one batch, without seeds."""
    pictures = population.pictures(modality)
    num = len(pictures)
    boxes, labels = torch.zeros(num, NUM_SLOTS, 4), torch.zeros(num, NUM_SLOTS, dtype=torch.int64)
    masks = torch.zeros(num, NUM_SLOTS, HEIGHT, WIDTH, dtype=torch.bool)
    valid = torch.zeros(num, NUM_SLOTS, dtype=torch.bool)
    padding = torch.ones(num, 1, HEIGHT, WIDTH, dtype=torch.bool)
    for b, picture in enumerate(pictures):
        for k, (box, label) in enumerate(zip(picture.boxes, picture.labels, strict=True)):
            boxes[b, k], labels[b, k], valid[b, k] = torch.tensor(box), label, True
            masks[b, k] = torch.from_numpy(picture.masks[k])
        padding[b, 0, : picture.size[1], : picture.size[0]] = False
    ids = torch.arange(1, NUM_SLOTS + 1, dtype=torch.int32) * valid
    panoptic = (masks * ids[:, :, None, None]).sum(1) if modality == "panoptic" else None
    return PaddedBatchedDenseSample(
        images=torch.zeros(num, 3, HEIGHT, WIDTH, dtype=torch.uint8),
        boxes=boxes,
        labels=labels,
        instance_valid=valid,
        instance_ids=ids.to(torch.int32),
        instance_masks=masks,
        semantic_maps=_stacked([p.classes for p in pictures]),
        panoptic_maps=panoptic,
        depth=_stacked([p.depth for p in pictures], channels=1),
        depth_valid=_stacked([p.depth_valid for p in pictures], channels=1),
        padding_mask=padding,
    )


def _stacked(planes: list[population.Array | None], channels: int | None = None) -> Tensor | None:
    if any(plane is None for plane in planes):
        return None
    stacked = torch.from_numpy(np.stack(planes))  # type: ignore[arg-type]
    return stacked if channels is None else stacked[:, None]


def module_counts(module: BatchCopyPaste, modality: str, num_images: int = NUM_IMAGES, seed: int = SEED) -> Counts:
    """Counts over ``num_images`` images, every picture equally often the target."""
    return Counts.of(module_images(module, population_batch(modality), num_images, seed))


def module_images(
    module: BatchCopyPaste,
    batch: PaddedBatchedDenseSample,
    num_images: int,
    seed: int,
    stage: Callable[[int], StagedCrops | None] = lambda _: None,
) -> Iterator[list[tuple[int, int]]]:
    """The label and the visible pixels of every paste: rows whose id is larger than all of the target's.

    ``stage`` gives the crops of a batch by the number of its first image.
    """
    largest = batch.instance_ids.amax(1, keepdim=True)
    for first in range(0, num_images, batch.batch_size):
        seeds = [to_int64(derive_seed(seed, 0, 0, 0, i)) for i in range(first, first + batch.batch_size)]
        out = module(batch.derived(sample_seeds=torch.tensor(seeds)), staged=stage(first))
        is_paste = out.instance_ids > largest
        areas = out.instance_masks.sum((2, 3))
        for row in range(batch.batch_size):
            taken = is_paste[row]
            yield list(zip(out.labels[row][taken].tolist(), areas[row][taken].tolist(), strict=True))
