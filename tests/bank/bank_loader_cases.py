"""A bank for the loader, and predicates of its crops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from bank_cases import write_bank
from numpy.typing import NDArray

from segpaste.bank import Crop, MemmapBank
from segpaste.types import StagedCrops

COUNTS = (60, 25, 12, 3)
NAMES = ("cup", "chair", "lamp", "wok")


def mixed_bank(path: Path) -> MemmapBank:
    """A hundred crops of four classes, `COUNTS` of them, in any order, each of a photo of its own."""
    ids = np.random.default_rng(4).permutation(np.repeat(np.arange(4), COUNTS)).tolist()
    return write_bank(path, ids, names=NAMES, image_ids=list(range(100)))


def is_even(crop: Crop) -> bool:
    """Return whether the crop's number in the bank, which is in its first pixel, is even."""
    return int(crop.image[0, 0, 0]) % 2 == 0


class EvenPhotos:
    """The same predicate, without pixels."""

    reads = ("image_id",)

    def accept(self, columns: dict[str, NDArray[Any]]) -> NDArray[np.bool_]:
        assert list(columns) == ["image_id"]
        return columns["image_id"] % 2 == 0


def crop_idx(steps: list[StagedCrops]) -> list[int]:
    return [crop for step in steps for crop in step.crop_idx.flatten().tolist()]
