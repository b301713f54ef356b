"""Banks of subsets and concatenations of torch, at any depth: as of the images themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from build_cases import ALL, build
from photo_folder import NAMES, open_photos, write_photos
from torch.utils.data import ConcatDataset, Subset, random_split

from segpaste import BatchCopyPaste, open_bank
from segpaste.bank import BankError, DatasetBank
from segpaste.datasets import JoinedPhotos
from segpaste.datasets.scenes import SceneConfig, SceneDataset
from segpaste.types import BatchedDenseSample

Views = dict[str, tuple[Callable[[Any, Any], Any], list[tuple[int, int]]]]
VIEWS: Views = {  # the dataset and the index of each image
    "subset": (lambda a, b: Subset(a, [3, 1]), [(0, 3), (0, 1)]),
    "from the end": (lambda a, b: Subset(a, [-1, 0]), [(0, 4), (0, 0)]),
    "tensor": (lambda a, b: Subset(a, torch.tensor([2, 4])), [(0, 2), (0, 4)]),
    "array": (lambda a, b: Subset(a, np.array([2, 4])), [(0, 2), (0, 4)]),
    "nested": (lambda a, b: Subset(Subset(a, [4, 3, 2]), [2, 0]), [(0, 2), (0, 4)]),
    "split": (lambda a, b: random_split(Subset(a, [1, 2]), [2, 0])[0], [(0, 1), (0, 2)]),
    "concat": (lambda a, b: ConcatDataset([Subset(a, [0]), b]), [(0, 0), *((1, i) for i in range(5))]),
    "subset of concat": (lambda a, b: Subset(ConcatDataset([a, b]), [6, 1, 9]), [(1, 1), (0, 1), (1, 4)]),
    "concat of joined": (
        lambda a, b: ConcatDataset([Subset(JoinedPhotos([a, a]), [1]), Subset(b, [2])]),
        [(0, 1), (2, 2)],
    ),
}


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Two datasets of five images with the same ids."""
    root = tmp_path_factory.mktemp("parts")
    return [open_photos(write_photos(root / name, 5)) for name in "ab"]


def crops_of(bank: Any) -> set[tuple[int, int, bytes]]:
    columns = bank.read(np.arange(len(bank)))
    numbers = columns.get("dataset_idx", np.zeros(len(bank), np.int64))
    rows = zip(numbers.tolist(), columns["image_id"].tolist(), columns["image"], strict=True)
    return {(number, image_id, pixels.tobytes()) for number, image_id, pixels in rows}


@pytest.mark.parametrize("name", VIEWS)
def test_a_bank_has_the_objects_of_the_images(name: str, parts: list[Any], tmp_path: Path) -> None:
    make, images = VIEWS[name]
    dataset = make(*parts)
    whole = [Subset(part, [i]) for part in parts for i in range(5)]
    expected = set()
    for number, index in images:
        part = 1 if (number and "joined" in name) or number == 1 else 0
        build(whole[part * 5 + index], tmp_path / f"{number}-{index}")
        of_image = crops_of(open_bank(tmp_path / f"{number}-{index}"))
        expected |= {(number, image_id, pixels) for _, image_id, pixels in of_image}
    assert build(dataset, tmp_path / "bank").num_photos == len(images)
    assert crops_of(open_bank(tmp_path / "bank")) == expected
    bank = DatasetBank(dataset, selection=ALL, crop_size=(11, 8))
    assert bank.class_names == tuple(NAMES)
    assert {row[:2] for row in crops_of(bank)} == {row[:2] for row in expected}


def test_classes_that_differ_are_told(parts: list[Any]) -> None:
    with pytest.raises(BankError, match=r"equal class_names in a ConcatDataset.*JoinedPhotos"):
        DatasetBank(ConcatDataset([parts[0], SceneDataset(2, SceneConfig(height=32, width=32))]))


def test_other_images_are_another_version(parts: list[Any]) -> None:
    whole = ConcatDataset(parts)
    made = [
        Subset(whole, [0, 5]),
        Subset(whole, [5, 0]),
        Subset(Subset(whole, [0, 5]), [0, 1]),
        whole,
        Subset(whole, [0, 5]),
    ]
    versions = [DatasetBank(dataset, selection=ALL).version for dataset in made]
    assert len(set(versions)) == 4
    assert versions[0] == versions[4]


def test_from_dataloader_of_a_subset_of_a_concatenation() -> None:
    scenes = [
        SceneDataset(3, SceneConfig(height=32, width=32), seed=s, modalities=["image", "instance"]) for s in (0, 1)
    ]
    pool = Subset(ConcatDataset(scenes), [1, 4])
    samples = [BatchedDenseSample.from_samples([scenes[0][0], scenes[1][0]])]
    (out,) = BatchCopyPaste.from_dataloader(samples, 24, source_pool=pool)
    assert int(out.instance_valid.sum()) > sum(map(len, samples[0].labels))
