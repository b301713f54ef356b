"""Errors in YOLO datasets are reported in one line: the file and line, what was expected, what came."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from segpaste.datasets import DatasetError, YoloDataset
from yolo_files import BOX, NAMES, SQUARE, photo, write_yaml, write_yolo

# The label file's text, further arguments, the message after the file's name.
LINES: dict[str, tuple[str, dict[str, Any], str]] = {
    "no number": ("0 a b c d", {}, "line 1: expected numbers, got '0 a b c d'; correct the line"),
    "class too large": (f"{SQUARE}\n3{SQUARE[1:]}", {}, "line 2: expected a class from 0 to 2, got 3; correct it, or"),
    "class below 0": (f"-1{BOX[1:]}", {}, "line 1: expected a class from 0 to 2, got -1"),
    "class no integer": (f"1.5{BOX[1:]}", {}, "line 1: expected a class from 0 to 2, got 1.5"),
    "class not finite": (f"inf{BOX[1:]}", {}, "line 1: expected a class from 0 to 2, got inf"),
    "too few numbers": (
        "0 0.1 0.2",
        {},
        "line 1: expected a class and a box of 4 numbers, or a class and a polygon of at least 3 points, x and y each, "
        "got 3 numbers; correct the line",
    ),
    "half a point": ("0 0.1 0.2 0.3 0.2 0.3 0.6 0.1", {}, "line 1: expected a class and a box of 4 numbers, or"),
    "a confidence": (f"\n{BOX} 0.97", {}, "line 2: expected a class and a box of 4 numbers, or"),
    "pixels": (
        "0 10 20 30 20 30 60",
        {},
        "line 1: expected coordinates from 0 to 1, fractions of the image's width and height, got 60; divide pixels by "
        "the image's size",
    ),
    "far outside": ("0 -0.9 0.2 0.3 0.2 0.3 0.6", {}, "line 1: expected coordinates from 0 to 1, fractions of"),
    "not finite": (
        "0 nan 0.2 0.3 0.2 0.3 0.6",
        {},
        "line 1: expected coordinates from 0 to 1, fractions of the image's",
    ),
    "a negative width": ("0 0.2 0.2 -0.005 0.2", {}, "line 1: expected a width and a height of at least 0, got -0.005"),
    "a box for masks": (
        BOX,
        {"task": "segment"},
        "line 1: expected a class and a polygon of at least 3 points, x and y",
    ),
    "a box for points": (
        BOX,
        {"kpt_shape": [2, 3]},
        "line 1: expected a class, a box of 4 numbers and 2 keypoints of 3, 11 numbers in total, got 5 numbers",
    ),
    "points of another number": (f"{BOX} 0.1 0.2 2", {"kpt_shape": [2, 3]}, "line 1: expected a class, a box of 4"),
    "a visibility": (
        f"{BOX} 0.1 0.2 0.5",
        {"kpt_shape": [1, 3]},
        "line 1: expected a visibility 0, 1 or 2 of each keypoint, got 0.5; correct it",
    ),
    "a point outside": (f"{BOX} 0.1 1.2 2", {"kpt_shape": [1, 3]}, "line 1: expected coordinates from 0 to 1"),
}

# What the YAML says, the message after its name.
YAMLS: dict[str, tuple[dict[str, Any], str]] = {
    "no split": ({"train": None, "val": None}, "expected at least one of the keys train, val, test, got none; add it"),
    "a split that is a number": (
        {"train": 3},
        "expected a folder, a list of images in a text file, or several of",
    ),
    "no names": ({"names": None}, "expected the key 'names', or 'nc', the number of classes, got neither; add one"),
    "names with gaps": (
        {"names": {0: "a", 2: "b"}},
        "expected 'names' of the classes 0 to 1, got the keys [0, 2]; numb",
    ),
    "names that are text": ({"names": "car"}, "expected a list of names under the key 'names', got 'car'; correct it"),
    "names of names": (
        {"names": [["car"]]},
        "expected a list of names under the key 'names', got [['car']]; corr",
    ),
    "another number": ({"nc": 2}, "expected as many names as 'nc' says, 2, got 3; correct one of them"),
    "no number": ({"nc": "three"}, "expected 'nc', the number of classes, got 'three'; correct it"),
    "a root that is a list": ({"path": ["a"]}, "expected a folder under the key 'path', got ['a']; correct it"),
    "no root": (
        {"path": "/nowhere/set"},
        "expected the folder that 'path: /nowhere/set' names, found none at /now",
    ),
    "no shape": (
        {"kpt_shape": [17]},
        "expected 'kpt_shape: [P, 2]' or '[P, 3]', P points of x, y and optionally v, got [1",
    ),
    "a shape of four": ({"kpt_shape": [17, 4]}, "expected 'kpt_shape: [P, 2]' or '[P, 3]'"),
    "too few to flip": (
        {"kpt_shape": [2, 3], "flip_idx": [0]},
        "expected 'flip_idx', for each of 2 points the point th",
    ),
    "a turn and no flip": ({"kpt_shape": [3, 3], "flip_idx": [1, 2, 0]}, "expected 'flip_idx', for each of 3 points"),
    "names of points": (
        {"kpt_shape": [2, 3], "kpt_names": {0: ["a"]}},
        "expected 'kpt_names' of 2 points, each name",
    ),
}


class TestBroken:
    @pytest.mark.parametrize("case", LINES)
    def test_lines(self, tmp_path: Path, case: str) -> None:
        text, options, message = LINES[case]
        options = dict(options)
        task = options.pop("task", None)
        path = write_yolo(tmp_path, {"a": text}, **options)
        with pytest.raises(DatasetError, match=re.escape(f"{tmp_path}/labels/train/a.txt: {message}")):
            YoloDataset(path, task=task)

    @pytest.mark.parametrize("case", YAMLS)
    def test_yamls(self, tmp_path: Path, case: str) -> None:
        facts, message = YAMLS[case]
        path = write_yolo(tmp_path, **facts)
        with pytest.raises(DatasetError, match=re.escape(f"{path}: {message}")):
            YoloDataset(path)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("[1, 2]", "expected keys such as train, val and names, got a list; is this a data YAML?"),
            ("a: [", "expected YAML, got text that does not parse"),
        ],
    )
    def test_text_that_is_no_data_yaml(self, tmp_path: Path, text: str, message: str) -> None:
        (tmp_path / "data.yaml").write_text(text)
        with pytest.raises(DatasetError, match=re.escape(f"{tmp_path}/data.yaml: {message}")):
            YoloDataset(tmp_path)

    def test_boxes_and_polygons_in_one_dataset(self, tmp_path: Path) -> None:
        """Boxes for all would take the masks away without a word; it has to be asked for."""
        path = write_yolo(tmp_path, {"a": SQUARE, "b": f"{SQUARE}\n{BOX}"})
        message = "b.txt: line 2 has a box, .*a.txt: line 1 a polygon: expected one of them in all rows.* the task det"
        with pytest.raises(DatasetError, match=message):
            YoloDataset(path)
        assert YoloDataset(path, task="detect").instance_labels(1) == (1, 1)

    def test_splits_and_tasks_that_are_not_there(self, tmp_path: Path) -> None:
        path = write_yolo(tmp_path)
        with pytest.raises(DatasetError, match="expected one of the splits train, val, got 'valid'"):
            YoloDataset(path, "valid")
        with pytest.raises(DatasetError, match="expected the key 'kpt_shape', for task='pose', got none; add it"):
            YoloDataset(path, task="pose")
        with pytest.raises(ValueError, match="task: expected one of detect, segment, pose, got 'obb'"):
            YoloDataset(path, task="obb")  # type: ignore[arg-type]

    def test_folders_lists_and_photos_that_are_missing(self, tmp_path: Path) -> None:
        write_yolo(tmp_path)
        missing = write_yaml(tmp_path, train="images/gone")
        with pytest.raises(DatasetError, match=r"images/gone: expected a folder or a list of images, found neither"):
            YoloDataset(missing)
        (tmp_path / "images/empty").mkdir()
        with pytest.raises(DatasetError, match=r"images/empty: expected at least one image of 'train', got none"):
            YoloDataset(write_yaml(tmp_path, train="images/empty"))
        (tmp_path / "list.txt").write_text("images/train/a.png\nimages/train/gone.png\n")
        message = r"list\.txt: line 2: expected the path of an image, from the folder of this file, got 'images/train/g"
        with pytest.raises(DatasetError, match=message):
            YoloDataset(write_yaml(tmp_path, train="list.txt"))

    def test_paths_that_lead_to_no_dataset(self, tmp_path: Path) -> None:
        with pytest.raises(DatasetError, match="gone: expected the data YAML or the folder of a YOLO dataset, found"):
            YoloDataset(tmp_path / "gone")
        with pytest.raises(DatasetError, match="expected a data YAML, or folders such as images/train and labels/t"):
            YoloDataset(tmp_path)
        for name in ("one.yaml", "two.yml"):
            write_yaml(tmp_path, name)
        with pytest.raises(DatasetError, match=r"expected one data YAML, got one\.yaml, two\.yml; give the right one"):
            YoloDataset(tmp_path)

    def test_files_that_cannot_be_read(self, tmp_path: Path) -> None:
        path = write_yolo(tmp_path, {"a": SQUARE, "b": SQUARE})
        (tmp_path / "images/train/a.png").write_text("no photo")
        dataset = YoloDataset(path)
        with pytest.raises(DatasetError, match=r"a\.png: expected an image, got another file; replace it"):
            dataset[0]
        with pytest.raises(DatasetError, match=r"a\.png: expected an image, got another file"):
            dataset.annotation_ids(0)
        (tmp_path / "labels/train/b.txt").write_bytes(b"\xff\xfe\x00")
        with pytest.raises(DatasetError, match=r"b\.txt: expected text in UTF-8, got UTF-16"):
            YoloDataset(path)

    def test_numbered_classes_of_broken_labels(self, tmp_path: Path) -> None:
        photo(tmp_path / "images/a.png")
        (tmp_path / "labels").mkdir()
        (tmp_path / "labels/a.txt").write_text(f"{len(NAMES)} 1 2 3")
        with pytest.raises(DatasetError, match=r"labels/a\.txt: line 1: expected a class and a box"):
            YoloDataset(tmp_path)
