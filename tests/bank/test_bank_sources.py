"""Banks of several datasets and of cut-outs: the same bytes whoever builds them, and the origin of each crop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from build_cases import SIZE, build, joined, write_parts
from photo_folder import open_photos, write_photos

from on_disk import tree
from segpaste.bank import BankError, DatasetBank, open_bank
from segpaste.datasets import JoinedPhotos


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_parts(tmp_path_factory.mktemp("parts"))


@pytest.fixture(scope="module")
def expected(parts: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("expected") / "bank"
    build(joined(parts), out, class_names=["cup"])
    return out


def test_a_second_build_and_two_workers(parts: list[Path], expected: Path, tmp_path: Path) -> None:
    build(joined(parts), tmp_path / "bank", class_names=["cup"], workers=2)
    assert tree(tmp_path / "bank") == tree(expected)


def test_another_order_is_another_bank(parts: list[Path], expected: Path, tmp_path: Path) -> None:
    build(joined(parts, (1, 0, 2)), tmp_path / "bank", class_names=["cup"])
    other, bank = open_bank(tmp_path / "bank"), open_bank(expected)
    assert other.version != bank.version
    rows, others = (b.read(range(len(b)), ["dataset_idx", "annotation_id"]) for b in (bank, other))
    assert rows["dataset_idx"].tolist() == sorted(rows["dataset_idx"])
    swapped = np.array([1, 0, 2])[others["dataset_idx"]]
    order = np.argsort(swapped, kind="stable")
    assert others["annotation_id"][order].tolist() == rows["annotation_id"].tolist()


def test_where_each_crop_is_of(parts: list[Path], tmp_path: Path) -> None:
    """Ids are those of the crop's dataset, which the bank names by number; dropped classes are counted."""
    photos = joined(parts)
    summary = build(photos, tmp_path / "bank", class_names=["cup"])
    bank, pool = open_bank(tmp_path / "bank"), DatasetBank(photos, crop_size=SIZE)
    assert bank.layout.groups == pool.layout.groups == ("core", "provenance", "dataset")
    found, wanted = [], []
    for crop in map(bank.__getitem__, range(len(bank))):
        found.append((crop.dataset_idx, crop.image_id, crop.annotation_id))
    num_dropped = 0
    for n, dataset in enumerate(photos.datasets):
        for i in range(len(dataset)):
            names = [dataset.class_names[label] for label in dataset[i].labels.tolist()]
            ids = dataset.annotation_ids(i)
            wanted += [(n, dataset.image_id(i), ids[k]) for k, name in enumerate(names) if name != "zebra"]
            num_dropped += names.count("zebra")
    assert found == sorted(wanted)
    assert len({found[0][1:]} & {(a, b) for n, a, b in found if n == 1}) == 1  # the same ids in both
    assert summary.skipped["unmapped"] == num_dropped > 10
    rows = pool.read(range(len(pool)), ["dataset_idx", "image_id"])
    assert set(zip(rows["dataset_idx"].tolist(), rows["image_id"].tolist(), strict=True)) == {row[:2] for row in found}


def test_ids_are_unique_in_each_dataset(parts: list[Path], tmp_path: Path) -> None:
    class Twice(JoinedPhotos):
        def image_id(self, index: int) -> int:
            return 7

    one = open_photos(write_photos(tmp_path / "one", 1))
    assert build(JoinedPhotos([one, one]), tmp_path / "twice").num_photos == 2
    with pytest.raises(BankError, match="expected unique image ids, got 7 twice"):
        build(Twice([open_photos(parts[0])]), tmp_path / "bank")
