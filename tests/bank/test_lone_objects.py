"""Objects that are cut out of a dataset without the others of their image."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from photo_folder import open_photos, write_photos
from PIL import Image
from torch.utils.data import ConcatDataset, Subset

from segpaste.bank import DatasetBank
from segpaste.bank.building.dataset_bank import objects_to_paste
from segpaste.datasets import CocoDetectionV2, DatasetError, JoinedPhotos
from segpaste.datasets.contract import DatasetWrapper
from segpaste.datasets.formats import drawn_masks
from segpaste.datasets.formats.yolo.dataset import YoloDataset
from segpaste.datasets.lone_objects import LoneObjects
from segpaste.datasets.views import annotated
from segpaste.engine.select import use_backend
from segpaste.types import DenseSample


class WholeSamples(CocoDetectionV2):
    """Reads whole samples only."""

    def lone_objects(self, index: int) -> LoneObjects | None:
        return None


def rows_of(dataset: Any, **options: Any) -> dict[str, Any]:
    bank = DatasetBank(dataset, crop_size=(9, 8), cache_bytes=0, **options)
    return bank.read(range(len(bank)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_photos(tmp_path_factory.mktemp("photos") / "here", 20)


@pytest.mark.parametrize("whole_only", [True, False])
@pytest.mark.filterwarnings("ignore:.*has no pixel")
def test_crops_are_those_of_whole_samples(folder: Path, whole_only: bool) -> None:
    selection = objects_to_paste(whole_only=whole_only)
    found = rows_of(open_photos(folder), selection=selection)
    expected = rows_of(WholeSamples(folder, folder / "labels.json"), selection=selection)
    for name, rows in expected.items():
        assert np.array_equal(found[name], rows), name


def test_crops_of_photos_with_polygons_and_keypoints_are_those_of_whole_samples(test_data: Path) -> None:
    paths = test_data / "tiny_coco" / "val2017", test_data / "tiny_coco" / "annotations" / "instances_val2017.json"
    banks = [DatasetBank(kind(*paths), cache_bytes=0) for kind in (CocoDetectionV2, WholeSamples)]
    chosen = np.arange(0, len(banks[0]), 9)
    found, expected = (bank.read(chosen) for bank in banks)
    assert all(np.array_equal(found[name], rows) for name, rows in expected.items())


class WholeLabelled(YoloDataset):
    """Reads whole samples only."""

    def lone_objects(self, index: int) -> LoneObjects | None:
        return None


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """A YOLO dataset: an upright image, a turned one, a row without a pixel, an image without objects."""
    rng = np.random.default_rng(4)
    for folder in ("images/train", "labels/train"):
        (tmp_path / folder).mkdir(parents=True)
    for number, orientation in enumerate((1, 6, 3, 1)):
        exif = Image.Exif()
        exif[0x0112] = orientation
        image = Image.fromarray(rng.integers(0, 256, (48, 64, 3), np.uint8))
        image.save(tmp_path / f"images/train/{number}.jpg", exif=exif)
        rows = [f"{i % 2} {' '.join(f'{value:.4f}' for value in rng.uniform(0.1, 0.9, 10))}" for i in range(5)]
        rows.insert(2, "1 0.5 0.5 0.5001 0.5 0.5 0.5001")
        (tmp_path / f"labels/train/{number}.txt").write_text("\n".join(rows if number < 3 else []))
    (tmp_path / "data.yaml").write_text("train: images/train\nval: images/train\nnames: [a, b]\n")
    return tmp_path


@pytest.mark.parametrize("whole_only", [True, False])
@pytest.mark.filterwarnings("ignore:.*has no pixel")
def test_crops_of_label_files_are_those_of_whole_samples(labelled: Path, whole_only: bool) -> None:
    selection = objects_to_paste(whole_only=whole_only)
    found, expected = (rows_of(kind(labelled), selection=selection) for kind in (YoloDataset, WholeLabelled))
    assert expected["alpha"].any()
    for name, rows in expected.items():
        assert np.array_equal(found[name], rows), name


def test_only_masks_of_unchanged_label_files_are_read_alone(labelled: Path) -> None:
    assert YoloDataset(labelled).lone_objects(0) is not None
    assert WholeLabelled(labelled).lone_objects(0) is None
    assert YoloDataset(labelled, task="detect").lone_objects(0) is None
    assert YoloDataset(labelled, transforms=lambda sample: sample).lone_objects(0) is None
    with use_backend("reference"):
        assert YoloDataset(labelled).lone_objects(0) is None


@pytest.mark.filterwarnings("ignore:.*has no pixel")
def test_masks_are_the_same_without_the_native_library(labelled: Path, folder: Path) -> None:
    for dataset in (YoloDataset(labelled), open_photos(folder)):
        for index in range(3):
            found = dataset[index]
            with use_backend("reference"):
                expected = dataset[index]
            assert torch.equal(found.instance_masks, expected.instance_masks)
            assert torch.equal(found.boxes, expected.boxes)
            made = DenseSample.from_masks(expected.image, expected.instance_masks.clone(), expected.labels)
            assert torch.equal(found.boxes, made.boxes)
            assert found.boxes.dtype == made.boxes.dtype
            assert found.num_instances == made.num_instances > 0


@pytest.mark.filterwarnings("ignore:.*has no pixel")
@pytest.mark.parametrize("kind", ["coco", "yolo"])
def test_lone_objects_are_those_of_the_sample(folder: Path, labelled: Path, kind: str) -> None:
    dataset = open_photos(folder) if kind == "coco" else YoloDataset(labelled)
    for index in range(3):
        sample, lone = dataset[index], dataset.lone_objects(index)
        assert lone is not None
        assert lone.labels == tuple(sample.labels.tolist())
        assert sample.instance_masks is not None
        assert sample.instance_ids is not None
        assert sample.instance_ids.tolist() == [*range(1, sample.num_instances + 1)]
        height, width = sample.canvas_size
        part = width // 3, height // 4, width - 1, height - 2
        here = slice(part[1], part[3]), slice(part[0], part[2])
        assert lone.size == (height, width)
        assert torch.equal(lone.pixels(part), sample.image[:, *here])
        assert torch.equal(lone.image(), sample.image)
        assert torch.equal(lone.pixels(part), sample.image[:, *here])
        for position, (_, area, box) in enumerate(lone.measures):
            mask = sample.instance_masks[position]
            assert torch.equal(lone.mask(position), mask)
            assert torch.equal(lone.mask(position, part), mask[here])
            assert (area, list(box)) == (int(mask.sum()), sample.boxes[position].tolist())
        assert len(lone.measures) == sample.num_instances


@pytest.mark.filterwarnings("ignore:.*has no pixel")
def test_a_rejected_object_is_judged_before_its_image_is_decoded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bank = DatasetBank(open_photos(folder), crop_size=(9, 8), cache_bytes=0)
    read, num = drawn_masks.read_part, [0]

    def counted(*args: Any, **options: Any) -> Any:
        num[0] += 1
        return read(*args, **options)

    monkeypatch.setattr(drawn_masks, "read_part", counted)
    border = next(i for i in range(len(bank)) if next(bank.found(i)).index != i)
    num[0] = 0
    bank.read([border])
    assert num == [1]  # of the object that replaces it


class Inverted(DatasetWrapper):
    """A dataset of other pixels."""

    def __getitem__(self, index: int) -> DenseSample:
        return self.dataset[index]


@pytest.mark.filterwarnings("ignore:.*has no pixel")
def test_who_changes_samples_reads_them_whole(folder: Path) -> None:
    dataset = open_photos(folder)
    parts = annotated(Subset(dataset, [1, 2])), annotated(ConcatDataset([dataset, dataset]))
    assert all(part.lone_objects(1) is not None for part in parts)
    assert Inverted(dataset).lone_objects(1) is None
    assert JoinedPhotos([dataset, dataset]).lone_objects(1) is None
    assert CocoDetectionV2(folder, folder / "labels.json", transforms=lambda s: s).lone_objects(1) is None
    with use_backend("reference"):
        assert dataset.lone_objects(1) is None


@pytest.mark.filterwarnings("ignore:.*has no pixel")
def test_a_broken_neighbour_is_an_error(folder: Path, tmp_path: Path) -> None:
    tables = json.loads((folder / "labels.json").read_text())
    own = [row for row in tables["annotations"] if row["image_id"] == 1000 - 2]
    own[-1]["segmentation"]["counts"] = [5]
    (tmp_path / "labels.json").write_text(json.dumps(tables))
    bank = DatasetBank(CocoDetectionV2(folder, tmp_path / "labels.json"), crop_size=(9, 8))
    crops = np.flatnonzero(bank.image_of(np.arange(len(bank))) == 2)
    with pytest.raises(DatasetError, match=r"expected run lengths that fill .* correct or remove it"):
        bank.read(crops[:1])
