"""COCO and LVIS as they are published: files of versions beside the folders of COCO 2017, given as one folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from coco_files import annotation_row, image_row
from PIL import Image

from on_disk import noise
from segpaste.cli import main
from segpaste.datasets import DatasetError, check_dataset, convert_dataset, find_dataset, open_dataset

SIZE = (16, 24)
OUTLINE = [2.0, 3.0, 12.0, 3.0, 12.0, 9.0]
TRAIN, VAL = ("train2017/1.png", "train2017/2.png"), ("train2017/3.png", "val2017/4.png")


def write_file(file: Path, names: tuple[str, ...], *, is_lvis: bool) -> None:
    """Write an annotation file; that of LVIS has its images after the annotations, named by urls alone."""
    images = [image_row(number, SIZE, Path(name).name) for number, name in enumerate(names, start=1)]
    rows = [annotation_row(row["id"], row["id"], [OUTLINE], 3, bbox=[2, 3, 10, 6]) for row in images]
    tables = {"annotations": rows, "images": images, "categories": [{"id": 3, "name": "car"}]}
    if is_lvis:
        for row, name in zip(images, names, strict=True):
            del row["file_name"]
            row |= {"coco_url": f"http://images.example.org/{name}", "neg_category_ids": [], "license": 1}
            row["not_exhaustive_category_ids"] = []
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(tables))


def write_photos(folder: Path) -> None:
    for number, name in enumerate((*TRAIN, *VAL)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(noise(SIZE, number)).save(folder / name)


def write_lvis(folder: Path, annotations: str = "", images: str = "", version: str = "v1_") -> Path:
    write_photos(folder / images)
    for split, names in (("train", TRAIN), ("val", VAL)):
        write_file(folder / annotations / f"lvis_{version}{split}.json", names, is_lvis=True)
    return folder


@pytest.mark.parametrize("annotations", ["", "annotations"])
@pytest.mark.parametrize("images", ["", "images"])
@pytest.mark.parametrize("version", ["v1_", "v0.5_", ""])
def test_lvis(annotations: str, images: str, version: str, tmp_path: Path) -> None:
    folder = write_lvis(tmp_path / "lvis", annotations, images, version)
    found = find_dataset(folder)
    assert (found.format.name, found.splits, found.chosen_split()) == ("lvis", ("train", "val"), "train")
    for split, names in (("train", TRAIN), ("val", VAL)):
        photos = open_dataset(folder, split)
        assert tuple(photos.file_name(index) for index in range(2)) == names
        assert photos.federated(0) is not None
        assert [sample.num_instances for sample in photos] == [1, 1]
        assert {finding.kind for finding in check_dataset(photos).findings} == {"unlisted_photo"}  # of the other split
        for given in ("train2017", "val2017"):
            file = next(folder.glob(f"**/lvis_{version}{split}.json"))
            assert len([*open_dataset(file, images_dir=folder / images / given)]) == 2
        assert photos.unread_paths() == {}
    assert convert_dataset(folder, tmp_path / "out", "lvis").num_photos == {"train": 2, "val": 2}
    assert find_dataset(tmp_path / "out").splits == ("train", "val")
    assert main(["check", str(folder)]) == 0


def test_files_of_two_versions(tmp_path: Path) -> None:
    """The advice works."""
    folder = write_lvis(tmp_path / "lvis")
    shutil.copy(folder / "lvis_v1_train.json", folder / "lvis_v0.5_train.json")
    words = (
        r"expected one file of the split train, got lvis_v0\.5_train\.json and lvis_v1_train\.json; give one of them"
    )
    with pytest.raises(DatasetError, match=words):
        open_dataset(folder)
    assert len(open_dataset(folder / "lvis_v1_train.json", images_dir=folder / "train2017")) == 2


def test_coco_beside_its_images(tmp_path: Path) -> None:
    write_photos(tmp_path / "coco")
    write_file(tmp_path / "coco/instances_train2017.json", TRAIN, is_lvis=False)
    write_file(tmp_path / "coco/instances_val2017.json", VAL[1:], is_lvis=False)
    found = find_dataset(tmp_path / "coco")
    assert (found.format.name, found.splits) == ("coco", ("train2017", "val2017"))
    assert [len(found.open(split)) for split in found.splits] == [2, 1]
    assert found.open("val2017")[0].num_instances == 1


def test_files_in_annotations_are_those_of_the_dataset(tmp_path: Path) -> None:
    """A copy beside the images is not read, and named."""
    write_photos(tmp_path / "coco")
    for folder in ("", "annotations"):
        write_file(tmp_path / "coco" / folder / "instances_train2017.json", TRAIN, is_lvis=False)
    photos = open_dataset(tmp_path / "coco")
    assert photos.annotations_file == tmp_path / "coco/annotations/instances_train2017.json"
    assert tmp_path / "coco/instances_train2017.json" in photos.unread_paths()
