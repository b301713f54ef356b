"""Hidden files and folders, which archives of macOS and notebooks add to all folders, change nothing in any format."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from drawn_files import write_voc
from health_files import FORMATS, write

from segpaste.datasets import check_dataset, convert_dataset, open_dataset
from segpaste.datasets.formats.registry import find_dataset
from yolo_files import write_yolo

APPLE_DOUBLE = b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X        \xff\xfe\x00"
pytestmark = pytest.mark.filterwarnings("ignore")


def add_hidden(root: Path) -> None:
    """Add a hidden file to each file, and a hidden folder with copies of all files to each folder."""
    folders = [root, *(path for path in root.rglob("*") if path.is_dir())]
    for folder in folders:
        files = [path for path in folder.iterdir() if path.is_file()]
        (folder / ".ipynb_checkpoints").mkdir()
        for file in files:
            shutil.copy(file, folder / ".ipynb_checkpoints" / file.name)
            file.with_name(f"._{file.name}").write_bytes(APPLE_DOUBLE)


def assert_unchanged(root: Path, out: Path) -> None:
    before = find_dataset(root).splits
    first = convert_dataset(root, out / "first", "coco")
    findings = {split: check_dataset(find_dataset(root).open(split or None)).findings for split in before}
    add_hidden(root)
    assert find_dataset(root).splits == before
    second = convert_dataset(root, out / "second", "coco")
    assert (second.num_photos, second.num_objects) == (first.num_photos, first.num_objects)
    assert second.losses == first.losses
    for split in before:
        assert check_dataset(find_dataset(root).open(split or None)).findings == findings[split]


@pytest.mark.parametrize("name", FORMATS)
def test_all_formats(tmp_path: Path, name: str) -> None:
    write(tmp_path / "in", name)
    assert_unchanged(tmp_path / "in", tmp_path)


@pytest.mark.parametrize("to", ["coco", "coco-panoptic", "lvis", "roboflow", "voc", "label-maps", "yolo"])
def test_written_formats(tmp_path: Path, to: str) -> None:
    """Splits in folders and in lists."""
    write_voc(tmp_path / "in")
    (tmp_path / "in/ImageSets/Segmentation").mkdir(parents=True)
    for split, names in (("train", "a\nb\n"), ("val", "c\n")):
        (tmp_path / f"in/ImageSets/Segmentation/{split}.txt").write_text(names)
    convert_dataset(tmp_path / "in", tmp_path / "written", to)
    assert_unchanged(tmp_path / "written", tmp_path)


@pytest.mark.parametrize("file", [None, "data.yaml", "other.yaml"])
def test_yolo_without_and_with_a_data_yaml(tmp_path: Path, file: str | None) -> None:
    path = write_yolo(tmp_path / "in")
    if file is None:
        path.unlink()
    else:
        path.rename(path.with_name(file))
    assert_unchanged(tmp_path / "in", tmp_path)


@pytest.mark.parametrize("name", ["labelme", "voc"])
def test_folders_of_splits(tmp_path: Path, name: str) -> None:
    write(tmp_path / "in/train", name)
    write(tmp_path / "in/val", name)
    if name == "voc":
        for split in ("train", "val"):
            for file in [
                *(tmp_path / f"in/{split}/JPEGImages").iterdir(),
                *(tmp_path / f"in/{split}/Annotations").iterdir(),
            ]:
                file.rename(tmp_path / f"in/{split}/{file.name}")
            for folder in ("JPEGImages", "Annotations"):
                (tmp_path / f"in/{split}/{folder}").rmdir()
    assert_unchanged(tmp_path / "in", tmp_path)


def test_a_pattern_may_name_hidden_files(tmp_path: Path) -> None:
    write_voc(tmp_path / "in")
    (tmp_path / "in/SegmentationClass").rename(tmp_path / "in/.maps")
    text = "photos: JPEGImages/{name}.png\nclasses: [none, cup, zebra]\n"
    (tmp_path / "in/segpaste.yaml").write_text(f"{text}semantic: {{files: '.maps/{{name}}.png', void: [255]}}\n")
    assert len(open_dataset(tmp_path / "in")) == 3
