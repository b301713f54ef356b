"""Single objects that are drawn for each target: crops of a bank, or objects of the whole dataset."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from segpaste.augmentation import BatchCopyPasteConfig
from segpaste.augmenting.inputs import Inputs, WithBoxMasks
from segpaste.augmenting.options import AnyPath, AugmentError
from segpaste.augmenting.photos import PhotoPick
from segpaste.bank import BankSampler, DatasetBank, StoredBank, open_bank, stage_bank_batch
from segpaste.bank.building.dataset_bank import objects_to_paste
from segpaste.bank.read.class_draws import DrawReport, report_draws
from segpaste.bank.read.own_size import NO_CROP
from segpaste.types import StagedCrops
from segpaste.types.sampling import Size


@dataclass(frozen=True, slots=True)
class CropSequence:
    """Endless sequence of crops: target i gets the draws ``i * n`` to ``(i + 1) * n - 1``, n for each target.

    Attributes:
        bank: bank that crops are drawn from.
        sampler: sampler of the draws.
        class_map: the class in the dataset of each class of the bank.
    """

    bank: StoredBank
    sampler: BankSampler
    class_map: tuple[int, ...]

    def staged(self, first: int, num: int, crops_per_target: int) -> StagedCrops:
        """Return the crops of ``num`` targets."""
        drawn = self.sampler.draws(first * crops_per_target, num * crops_per_target).crops
        return stage_bank_batch(self.bank, drawn.reshape(num, crops_per_target), self.class_map)

    def expected(self, num_pastes: float) -> DrawReport:
        """Return the expected classes of ``num_pastes`` pastes."""
        return report_draws(
            self.bank.class_names, self.sampler.crops.counts, self.sampler.probabilities, round(num_pastes)
        )

    def ids(self, crop: int) -> tuple[int | None, int | None]:
        """Return the ids of the image and the annotation of a crop, None if the bank does not keep them."""
        if "provenance" not in self.bank.layout.groups:
            return None, None
        columns = self.bank.read([crop], ["image_id", "annotation_id"])
        return int(columns["image_id"][0]), int(columns["annotation_id"][0])


def open_sequence(path: AnyPath, class_names: Sequence[str], seed: int, **options: Any) -> CropSequence:
    """Open the crops of the bank at a path, for a dataset of these classes; the options are those of `BankSampler`.

    Raises:
        AugmentError: the bank is empty, or its classes do not match those of the dataset unambiguously.
    """
    bank = open_bank(path)
    if not len(bank):
        raise AugmentError(f"{path}: expected a bank with crops, got an empty one")
    sampler = BankSampler(bank, **options, base_seed=seed, rank=0, num_replicas=1)
    return CropSequence(bank, sampler, match_classes(bank, class_names))


def match_classes(bank: StoredBank, class_names: Sequence[str]) -> tuple[int, ...]:
    """Return the class in the dataset of each class of a bank, by name; 0 for unknown classes without crops.

    If both have the same names in the same order, classes keep their numbers, and names may occur twice.

    Raises:
        AugmentError: a class with crops is not in the dataset, or its name is not unique in the bank or the dataset.
    """
    if tuple(bank.class_names) == tuple(class_names):
        return tuple(range(len(class_names)))
    index = {name: label for label, name in enumerate(class_names)}
    used = [name for name, num in zip(bank.class_names, bank.class_frequencies, strict=True) if num]
    for owner, names in (("bank", used), ("dataset", class_names)):
        if repeated := [name for name in dict.fromkeys(used) if names.count(name) > 1]:
            raise AugmentError(
                f"{bank.where}: the {owner}: expected a unique name for each class, since classes are matched by name, "
                f"got {', '.join(repeated):.200} several times; rename them, or build the bank from the dataset itself"
            )
    unknown = [name for name in used if name not in index]
    if unknown:
        raise AugmentError(
            f"{bank.where}: expected classes of the dataset ({', '.join(class_names):.200}), got "
            f"{', '.join(unknown):.200}; build the bank from a dataset of these classes"
        )
    return tuple(index.get(name, 0) for name in bank.class_names)


_DRAWS_FOR_ONE = 4
"""Objects that are drawn for each that is staged, since those of the target itself are skipped."""
_MOST_TURNS = 16
"""Largest number of further draws until there are enough objects."""
_FURTHER = 1 << 40
"""Offset of the further draws in the sampler's sequence."""


@dataclass(frozen=True, slots=True, eq=False)
class ObjectSequence:
    """Objects of the whole dataset for each position of a sequence.

    Attributes:
        bank: bank of all objects.
        sampler: sampler that balances classes.
    """

    bank: DatasetBank
    sampler: BankSampler

    def drawn(self, target: PhotoPick, num: int, skipped: Sequence[int] = ()) -> list[int]:
        """Return objects of other images for a target, filled up with `NO_CROP` if too few are found."""
        size = num * _DRAWS_FOR_ONE
        turns = (_FURTHER + (target.position * _MOST_TURNS + turn) * size for turn in range(_MOST_TURNS))
        found: list[int] = []
        for first in itertools.chain([target.position * size], turns):
            draws = self.sampler.draws(first, size).crops
            images = self.bank.image_of(draws)
            found += draws[~np.isin(images, [*skipped, target.index])].tolist()
            if len(found) >= num:
                break
        return [*found, *[NO_CROP] * num][:num]


def open_objects(
    inputs: Inputs, config: BatchCopyPasteConfig, seed: int, *, skips_unreadable: bool = False, **options: Any
) -> ObjectSequence:
    """Open the objects of a dataset; the options are those of `BankSampler`.

    Raises:
        AugmentError: the dataset has no objects.
    """
    return sequence_of(objects_of(inputs, config, skips_unreadable=skips_unreadable), seed, **options)


def sequence_of(bank: DatasetBank, seed: int, **options: Any) -> ObjectSequence:
    """Return the sequence of a seed; the options are `BankSampler`'s."""
    return ObjectSequence(bank, BankSampler(bank, **options, base_seed=seed, rank=0, num_replicas=1))


def objects_of(inputs: Inputs, config: BatchCopyPasteConfig, *, skips_unreadable: bool = False) -> DatasetBank:
    """Return all objects of a dataset that may be pasted: ``source.mask_from`` and ``source.whole_only`` say which.

    Raises:
        AugmentError: there are none.
    """
    mask_from = config.source.mask_from
    photos = inputs.photos if mask_from is None else WithBoxMasks(inputs.photos, mask_from)
    selection = objects_to_paste(whole_only=config.source.whole_only)
    return DatasetBank(
        photos,
        class_names=inputs.class_names,
        crop_size=(1, 1),
        selection=selection,
        cache_bytes=0,
        skips_unreadable=skips_unreadable,
    )


def draws_objects(inputs: Inputs, config: BatchCopyPasteConfig) -> bool:
    """Return whether each layer is one object that is drawn from the whole dataset.

    Otherwise whole images are drawn. This is so for a dataset that does not list its labels, such as scenes, since it
    would have to be read completely first; and for one with semantic maps if the config has no taxonomy,
    since cut-outs have no semantic maps. With ``source.kind=same_image`` nothing is drawn from
    the dataset.
    """
    has_maps = inputs.photos.has_semantic_maps and config.panoptic is None
    if has_maps or not inputs.photos.lists_labels:
        return False
    place = config.placement
    is_on_canvas = place.patch_aligned_paste and place.align == "canvas"
    is_instance = place.grouping == "instance" and config.source.kind == "intra_batch"
    return is_instance and not is_on_canvas and not config.emit_classmix


def default_balance(config: BatchCopyPasteConfig) -> dict[str, Any]:
    """Return the default balance of the draws: uniform over objects, or the one of ``class_temperature``."""
    temperature = config.placement.class_temperature
    return {"mode": "tempered", "temperature": temperature} if temperature else {"mode": "natural"}


def object_config(config: BatchCopyPasteConfig) -> BatchCopyPasteConfig:
    """Return a configuration that pastes staged objects as ``config`` pastes those of other images.

    Scales are relative to the image. Classes are balanced when objects are drawn, not when they are placed.
    """
    place = config.placement
    source = {"kind": "bank", "crops_per_target": place.layers}
    source |= {name: getattr(config.source, name) for name in ("mask_from", "whole_only")}  # a replay needs them
    if not place.draws_sizes:
        source["relative_to"] = "photo"
    values = config.model_dump()
    values["source"] = source
    values["placement"] |= {"layers": 1, "class_temperature": 0.0}
    return BatchCopyPasteConfig.model_validate(values)


def crop_limit(config: BatchCopyPasteConfig, target_size: Size) -> Size:
    """Return the largest crop (h, w) that fits the target at the lowest scale; larger ones are never wholly visible."""
    low = config.placement.scale_range[0]
    return int(target_size[0] / low) + 1, int(target_size[1] / low) + 1
