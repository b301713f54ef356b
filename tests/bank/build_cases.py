"""A build with the arguments of the tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from photo_folder import NAMES, open_photos, write_photos

from cutout_files import write_cutouts
from segpaste.bank import BuildSummary, Selection, build_bank
from segpaste.bank.format import WRITERS
from segpaste.datasets import CutOuts, DatasetError, JoinedPhotos
from segpaste.types import DenseSample

FORMATS = pytest.mark.parametrize("kind", WRITERS)
SIZE = (11, 8)
ALL = Selection(min_area_px=1)


def build(photos: Any, out: Path, **options: Any) -> BuildSummary:
    return build_bank(photos, out, **{"class_names": NAMES, "crop_size": SIZE, "selection": ALL, **options})


def with_a_stray(index: int, sample: DenseSample) -> DenseSample:
    """A square of 60 x 60 pixels, and in every other photo 3 pixels far away."""
    import torch

    mask = torch.zeros(1, 300, 200, dtype=torch.bool)
    mask[0, 20:80, 30:90] = True
    mask[0, 290, 190:193] = index % 2 == 1
    image = torch.full((3, 300, 200), index, dtype=torch.uint8)
    return DenseSample.from_masks(image, mask, torch.tensor([0]))


def fails_late(index: int, sample: DenseSample) -> DenseSample:
    if index == 60:
        raise DatasetError("not now")
    return with_a_stray(index, sample)


def write_parts(root: Path) -> list[Path]:
    """Photos in two folders, with the same ids, and cut-outs."""
    return [write_photos(root / "a", 5), write_photos(root / "b", 40, shuffled=True), write_cutouts(root / "cutouts")]


def joined(parts: list[Path], order: tuple[int, ...] = (0, 1, 2)) -> JoinedPhotos:
    """The parts as one dataset with one class, a cup."""
    opened = [open_photos(parts[0]), open_photos(parts[1]), CutOuts(parts[2], sizes={"*": (0.1, 0.3)})]
    names, class_map = ["a", "b", "cutouts"], {"car": "cup", "zebra": None}
    return JoinedPhotos([opened[n] for n in order], class_map=class_map, names=[names[n] for n in order])


class Listed:
    """Photos from memory, each with one line of one pixel's width; what a photo becomes can be changed."""

    def __init__(self, num: int, change: Callable[[int, DenseSample], DenseSample] | None = None) -> None:
        self.num = num
        self.change = change

    def __len__(self) -> int:
        return self.num

    def __getitem__(self, index: int) -> DenseSample:
        import torch

        mask = torch.zeros(1, 40, 40, dtype=torch.bool)
        mask[0, 20, 15:30] = True
        image = torch.full((3, 40, 40), index % 256, dtype=torch.uint8)
        sample = DenseSample.from_masks(image, mask, torch.tensor([0]))
        return self.change(index, sample) if self.change else sample

    def image_id(self, index: int) -> int:
        return index

    def annotation_ids(self, index: int) -> list[int]:
        return [100 * index]

    def left_out(self, index: int) -> dict[str, int]:
        return {}
