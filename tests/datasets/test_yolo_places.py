"""Locations of the photos, labels and names of YOLO datasets: YAMLs, folders, lists, links, turned photos."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from segpaste.datasets import YoloDataset
from segpaste.datasets.formats.image_files import upright_size
from segpaste.datasets.formats.image_pixels import read_upright
from segpaste.datasets.formats.yolo.data import label_path
from yolo_files import NAMES, SQUARE, TRIANGLE, photo, write_split, write_yaml, write_yolo

ORIENTATION = 0x0112


class TestPlaces:
    def test_label_files_mirror_the_last_images(self) -> None:
        assert label_path(Path("images/a/images/b/c.d.JPG")) == Path("images/a/labels/b/c.d.txt")
        assert label_path(Path("data/images.jpg")) == Path("data/images.txt")

    def test_folders_inside_and_other_suffixes(self, tmp_path: Path) -> None:
        path = write_yolo(tmp_path, {"x/b": SQUARE, "a": TRIANGLE})
        photo(tmp_path / "images/train/z.JPG")
        photo(tmp_path / "elsewhere/c.png")
        for hidden in ("._a.png", ".ipynb_checkpoints/a.png"):
            photo(tmp_path / "images/train" / hidden)
            photo(tmp_path / "labels/train" / hidden).with_suffix(".txt").write_text(SQUARE)
        (tmp_path / "images/train/y").symlink_to(tmp_path / "elsewhere")
        (tmp_path / "images/train/notes.md").write_text("not a photo")
        dataset = YoloDataset(path)
        assert dataset.stray_labels == ()
        names = [dataset.file_name(i) for i in range(len(dataset))]
        assert names == [f"images/train/{name}" for name in ("a.png", "x/b.png", "y/c.png", "z.JPG")]
        assert [dataset.instance_labels(i) for i in range(4)] == [(2,), (1,), (), ()]

    def test_lists_of_photos_and_lists_of_sources(self, tmp_path: Path) -> None:
        write_yolo(tmp_path)
        (tmp_path / "some.txt").write_text(f"./images/train/b.png\n\n{tmp_path}/images/val/a.png\nimages/train/b.png\n")
        dataset = YoloDataset(write_yaml(tmp_path, train=["some.txt", "images/train/"]))
        names = [dataset.file_name(i) for i in range(len(dataset))]
        assert names == [f"images/train/{name}.png" for name in "abcde"] + ["images/val/a.png"]
        assert dataset.stray_labels == ()

    def test_label_files_that_no_photo_has(self, tmp_path: Path) -> None:
        path = write_yolo(tmp_path)
        for name in ("y", "z"):
            (tmp_path / f"labels/train/{name}.txt").write_text(SQUARE)
        (tmp_path / "labels/train/classes.txt").write_text("car\n")
        with pytest.warns(UserWarning, match=r"y\.txt: expected an image of this name, found none; 2 label files have"):
            dataset = YoloDataset(path)
        assert [stray.name for stray in dataset.stray_labels] == ["y.txt", "z.txt"]

    def test_labels_beside_the_photos(self, tmp_path: Path) -> None:
        photo(tmp_path / "obj_train_data/a.png")
        (tmp_path / "obj_train_data/a.txt").write_text(SQUARE)
        dataset = YoloDataset(write_yaml(tmp_path, train="obj_train_data", val=None))
        assert dataset[0].num_instances == 1

    @pytest.mark.parametrize("given", ["root", "../moved/root", None])
    def test_the_root(self, tmp_path: Path, given: str | None) -> None:
        """The root is relative to the YAML; a YAML may lie in the folder that it names by another path."""
        path = write_yolo(tmp_path / "root", path=given)
        if given == "root":
            path = path.rename(tmp_path / "root.yaml")
        assert len(YoloDataset(path)) == 5

    def test_exported_yamls_go_up_a_folder_too_many(self, tmp_path: Path) -> None:
        write_split(tmp_path, ".", {"a": SQUARE})
        (tmp_path / "train").mkdir()
        for name in ("images", "labels"):
            (tmp_path / name).rename(tmp_path / "train" / name)
        dataset = YoloDataset(write_yaml(tmp_path, train="../train/images", val=None))
        assert dataset[0].num_instances == 1

    def test_class_names(self, tmp_path: Path) -> None:
        write_yolo(tmp_path)
        names = {"as a mapping": {"2": "c", 0: "a", 1: "b"}, "as a list": ["a", "b", "c"]}
        for value in names.values():
            assert YoloDataset(write_yaml(tmp_path, names=value, nc=3)).class_names == ("a", "b", "c")
        assert YoloDataset(write_yaml(tmp_path, names=None, nc=4)).class_names[3] == "class_3"

    def test_folders_without_a_yaml(self, tmp_path: Path) -> None:
        write_yolo(tmp_path).unlink()
        dataset = YoloDataset(tmp_path, "val")
        assert (len(dataset), dataset.class_names) == (2, ("class_0", "class_1", "class_2"))
        (tmp_path / "classes.txt").write_text("car\ncup\nzebra\n")
        assert YoloDataset(tmp_path).class_names == tuple(NAMES)

    @pytest.mark.parametrize("orientation", range(1, 9))
    def test_the_size_of_a_turned_photo(self, tmp_path: Path, orientation: int) -> None:
        exif = Image.Exif()
        exif[ORIENTATION] = orientation
        path = photo(tmp_path / "a.png", (20, 40), exif=exif)
        assert upright_size(path) == read_upright(path).shape[1:] == ((20, 40) if orientation < 5 else (40, 20))
