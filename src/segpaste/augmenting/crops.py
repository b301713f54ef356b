"""The crops that `segpaste augment --bank` pastes: an endless, seeded sequence, balanced over classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from segpaste.augmenting.errors import AugmentError
from segpaste.bank import BankSampler, StoredBank, open_bank, stage_bank_batch
from segpaste.bank.read.sampler import DrawReport, report_draws
from segpaste.types import StagedCrops


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


def open_sequence(path: str, class_names: Sequence[str], seed: int, **options: Any) -> CropSequence:
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
