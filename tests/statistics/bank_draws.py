"""Pastes of `BatchCopyPaste` from a bank on disk into the pictures of the population, seen from outside."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import bank_population
import numpy as np
import population
from bank_population import CROP_HEIGHT, CROP_WIDTH, MODALITY, NUM_STAGED
from histograms import Counts
from module_draws import NUM_IMAGES, SEED, config_options, module_images, population_batch
from painting import Array

from segpaste import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.augmentation import SourceConfig
from segpaste.bank import BankSampler, Crop, InstanceBank, Layout, MemmapBank, MemmapWriter, stage_bank_batch
from segpaste.types import PaddedBatchedDenseSample, StagedCrops

BATCH_SIZE = 10 * population.NUM_PICTURES


def open_bank(path: str | os.PathLike[str]) -> MemmapBank:
    """A new bank in the folder ``path``, which must not exist, with the objects of the population."""
    names = [f"class {label}" for label in range(population.NUM_CLASSES)]
    with MemmapWriter(Path(path), Layout((CROP_HEIGHT, CROP_WIDTH)), names) as writer:
        for crop in bank_population.crops():
            image = np.full((3, CROP_HEIGHT, CROP_WIDTH), 255, np.uint8)
            everything = np.array([0, 0, CROP_WIDTH, CROP_HEIGHT], np.int32)
            writer.add(Crop(image, crop.masks, crop.labels[0], everything))
        return MemmapBank(writer.finish())


def make_bank_module() -> BatchCopyPaste:
    """A module that obeys the rules."""
    rules = bank_population.RULES
    options = config_options(replace(rules, layers=1), has_taxonomy=True)  # a source says how many layers there are
    source = SourceConfig(kind="bank", crops_per_target=rules.layers)
    return BatchCopyPaste(BatchCopyPasteConfig(source=source, **options))


def drawn_crops(bank: InstanceBank, num_images: int = NUM_IMAGES, seed: int = SEED, **options: Any) -> Array:
    """The crops that are staged, [num_images, NUM_STAGED], drawn as ``options`` of `BankSampler` say.

    Those of an image stand as they do in the bank, as if it was read from front to back: which of them are pasted must
    not depend on their order.
    """
    sampler = BankSampler(bank, num_images * NUM_STAGED, base_seed=seed, **{"mode": "class_uniform", **options})
    return np.sort(np.fromiter(sampler, np.int64).reshape(num_images, NUM_STAGED), axis=1)


def make_bank_batch() -> PaddedBatchedDenseSample:
    """All pictures of the population, several times."""
    repeats = BATCH_SIZE // population.NUM_PICTURES
    return population_batch(MODALITY).map_tensors(lambda t: t.repeat(repeats, *[1] * (t.ndim - 1)))


def bank_images(bank: InstanceBank, crop_idx: Array, seed: int = SEED) -> Iterator[list[tuple[int, int]]]:
    """The label and the visible pixels of every paste; image i is given the crops ``crop_idx[i]``."""
    num_images = len(crop_idx)
    assert num_images % BATCH_SIZE == 0

    def stage(first: int) -> StagedCrops:
        return stage_bank_batch(bank, crop_idx[first : first + BATCH_SIZE])

    return module_images(make_bank_module(), make_bank_batch(), num_images, seed, stage)


def bank_counts(bank: InstanceBank, crop_idx: Array, seed: int = SEED) -> Counts:
    """Counts over as many images as crops were drawn for, every picture equally often the target."""
    return Counts.of(bank_images(bank, crop_idx, seed))
