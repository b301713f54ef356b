"""Ultralytics' NDJSON: the samples of the equal label files, splits, places of images, broken files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ndjson_files import BOXES, SPLITS, TASKS, records_of, write_ndjson, write_records
from on_disk import noise
from samples import assert_same
from segpaste.cli import main
from segpaste.datasets import DatasetError, check_dataset, convert_dataset, find_dataset, open_dataset
from segpaste.datasets.formats.yolo.ndjson import EQUAL_ROWS, OTHER_ROWS
from yolo_files import NAMES, SIZE, write_yaml

pytestmark = pytest.mark.filterwarnings("ignore:.*left out 1 row:UserWarning")


def of_label_files(folder: Path, task: str) -> Path:
    """Write the label files of the dataset beside its images."""
    _, labels, facts = TASKS[task]
    for name, split in SPLITS.items():
        path = folder / "labels" / split / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(labels[name])
    return write_yaml(folder, **facts)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return write_ndjson(tmp_path / "in")


def rewrite(path: Path, line: int, /, **values: Any) -> Path:
    """Change values of a line, from 1; None removes one."""
    records = [json.loads(text) for text in path.read_text().splitlines()]
    changed = {**records[line - 1], **values}
    records[line - 1] = {key: value for key, value in changed.items() if value is not None}
    return write_records(path, records)


class TestLabels:
    @pytest.mark.parametrize("task", TASKS)
    def test_samples_are_those_of_label_files(self, task: str, tmp_path: Path) -> None:
        file = write_ndjson(tmp_path, task)
        yaml = of_label_files(tmp_path, task)
        assert find_dataset(file).splits == ("train", "val")
        for split, num in (("train", 3), ("val", 1)):
            found, wanted = open_dataset(file, split), open_dataset(yaml, split)
            assert len(found) == len(wanted) == num
            assert found.class_names == wanted.class_names == tuple(NAMES)
            assert found.keypoint_schema == wanted.keypoint_schema
            for i in range(num):
                assert_same(found[i], wanted[i])
                assert found[i].num_instances == len({*TASKS[task][1][Path(found.file_name(i)).stem].splitlines()})

    def test_equal_rows_and_rows_of_other_tasks_are_lost(self, file: Path, tmp_path: Path) -> None:
        labels = json.loads(file.read_text().splitlines()[1])["annotations"]
        rewrite(file, 2, annotations={**labels, "boxes": [[0, 0.5, 0.5, 0.1, 0.1]]})
        losses = convert_dataset(file, tmp_path / "out", "coco", splits=["train"]).losses
        assert {name: losses[name] for name in (EQUAL_ROWS, OTHER_ROWS)} == {EQUAL_ROWS: 1, OTHER_ROWS: 1}

    @pytest.mark.parametrize("task", ["detect", "pose"])
    def test_written_as_label_files(self, task: Any, tmp_path: Path) -> None:
        """A conversion keeps the numbers of boxes and poses."""
        file = write_ndjson(tmp_path, task)
        convert_dataset(file, tmp_path / "out", "yolo", task=task)
        written = (tmp_path / "out/labels/train/a.txt").read_text().split()
        wanted = TASKS[task][1]["a"].split()
        np.testing.assert_allclose([*map(float, written)], [*map(float, wanted)], atol=1e-6)

    @pytest.mark.parametrize(
        ("names", "wanted"),
        [
            ({"0": "car", "2": "cup"}, ("car", "class1", "cup")),
            ({"0": "car"}, ("car", "class1", "class2")),
            ({"0": "car", "4": "pot"}, ("car", "class1", "class2", "class3", "pot")),
            (None, ("class_0", "class_1", "class_2")),
        ],
    )
    def test_names(self, file: Path, names: Any, wanted: tuple[str, ...]) -> None:
        """Classes without a name are those that a row of any split has; Ultralytics gives them the same names."""
        rewrite(file, 1, class_names=names)
        assert open_dataset(file).class_names == open_dataset(file, "val").class_names == wanted

    def test_a_pose_without_its_shape(self, tmp_path: Path) -> None:
        """Of numbers that three divides, each third is a visibility; else a point has two."""
        file = write_ndjson(tmp_path, "pose", kpt_shape=None, flip_idx=None)
        schema = open_dataset(file).keypoint_schema
        assert schema is not None
        assert schema.num_points == 3
        head = records_of("pose", kpt_shape=None, flip_idx=None)[0]
        row = [0, 0.5, 0.5, 0.2, 0.2, 0.4, 0.5, 0.6, 0.5]
        write_records(file, [head, {"file": "a.png", "annotations": {"pose": [row]}}])
        shutil.copy(tmp_path / "images/train/a.png", tmp_path)
        assert open_dataset(file)[0].keypoints.tolist() == [[[16, 10, 2], [24, 10, 2]]]
        write_records(file, [head, {"file": "a.png", "annotations": {"pose": [[*row, 0.5, 0.5]]}}])
        with pytest.raises(DatasetError, match="line 1: expected the key 'kpt_shape' of a pose dataset"):
            open_dataset(file)

    def test_what_the_file_says_is_kept(self, file: Path) -> None:
        rewrite(file, 2, tags=["dim"])
        photos = open_dataset(file)
        assert photos.image_row(0)["attributes"] == {"tags": ["dim"]}
        assert photos.tables() == {"ndjson": {"name": "five"}}
        rewrite(file, 1, name=None)
        assert open_dataset(file).tables() == {}

    def test_size_of_the_image_where_the_file_has_none(self, file: Path) -> None:
        wanted = open_dataset(file)[0]
        rewrite(file, 2, width=None)
        assert_same(open_dataset(file)[0], wanted)


class TestFiles:
    def test_the_only_file_of_a_folder(self, file: Path) -> None:
        assert find_dataset(file.parent).format.name == "ndjson"
        shutil.copy(file, file.with_name("other.ndjson"))
        with pytest.raises(DatasetError, match="expected a dataset of one of the formats"):
            find_dataset(file.parent)

    def test_other_lines_of_json(self, tmp_path: Path) -> None:
        (tmp_path / "log.ndjson").write_text('{"loss": 3}\n{"task": 3}\n')
        with pytest.raises(DatasetError, match="expected a dataset of one of the formats"):
            find_dataset(tmp_path / "log.ndjson")

    def test_without_splits(self, tmp_path: Path) -> None:
        records = records_of("detect")
        for i, record in enumerate(records[1:]):
            del record["split"]
            shutil.copy(write_ndjson(tmp_path).parent / "images" / SPLITS["abcd"[i]] / f"{'abcd'[i]}.png", tmp_path)
        file = write_records(tmp_path / "five.ndjson", records)
        shutil.rmtree(tmp_path / "images")
        assert find_dataset(file).splits == ("",)
        photos = open_dataset(file)
        assert [photos[i].num_instances for i in range(4)] == [len(text.splitlines()) for text in BOXES.values()]

    @pytest.mark.parametrize("place", ["images/train", "train", ".", "images", "far/images/train"])
    def test_images_elsewhere(self, file: Path, place: str) -> None:
        """``path`` of the first line is a folder with ``images/SPLIT``, as in Ultralytics."""
        rewrite(file, 1, path="far" if place.startswith("far") else None)
        images = file.parent / "images/train"
        images.rename(file.parent / "moved")
        (file.parent / place).mkdir(parents=True, exist_ok=True)
        for path in (file.parent / "moved").iterdir():
            path.rename(file.parent / place / path.name)
        np.testing.assert_array_equal(open_dataset(file)[0].image.permute(1, 2, 0), noise(SIZE, 0))

    def test_addresses(self, file: Path, tmp_path: Path) -> None:
        """An image is found by the end of its address, or by its name, in the folder that is given."""
        for line, name in enumerate("abcd", start=2):
            rewrite(file, line, url=f"https://host/0{name}.png?key=1")
        photos = open_dataset(file)
        assert photos.image_row(0)["attributes"] == {"url": "https://host/0a.png?key=1"}
        (file.parent / "images").rename(tmp_path / "images")
        with pytest.raises(DatasetError, match=r"line 2: .* got only its address 'https://host/0a.png.*; download the"):
            open_dataset(file)
        assert main(["check", str(file)]) == 1
        for path in (tmp_path / "images").rglob("*.png"):
            path.rename(tmp_path / f"0{path.name}")
        photos = open_dataset(file, images_dir=tmp_path)
        assert [*map(photos.file_name, range(3))] == ["0a.png", "0c.png", "0d.png"]

    def test_addresses_tell_images_of_one_name_apart(self, file: Path) -> None:
        images = file.parent / "images/train"
        for line, name in ((4, "c"), (5, "d")):
            rewrite(file, line, url=f"https://host/0{name}.png", file="a.png")
            (images / f"{name}.png").rename(images / f"0{name}.png")
        photos = open_dataset(file)
        assert [*map(photos.file_name, range(3))] == [f"images/train/{name}.png" for name in ("a", "0c", "0d")]

    def test_two_images_of_one_file(self, file: Path) -> None:
        for path in [*file.parent.glob("images/train/*.png")]:
            path.rename(file.parent / path.name)
        rewrite(file, 3, file="a.png")
        with pytest.raises(DatasetError, match=r"line 3: .* each image, got a.png for 'line 2' and 'line 3'"):
            open_dataset(file)

    @pytest.mark.parametrize(
        ("line", "values", "message"),
        [
            (1, {"task": "classify"}, "line 1: expected the task detect, segment, obb, pose, got 'classify'"),
            (1, {"task": "depth"}, "line 1: expected the task .*, got 'depth'"),
            (1, {"task": []}, "line 1: expected the task"),
            (1, {"class_names": ["a"]}, "line 1: expected 'class_names', a name for each number of a class, got"),
            (1, {"class_names": {"a": "b"}}, "line 1: expected 'class_names'"),
            (1, {"class_names": {"9" * 5000: "b"}}, "line 1: expected 'class_names'"),
            (1, {"class_names": {"0": 3}}, "line 1: expected 'class_names'"),
            (1, {"class_names": {"0": "a", "1": "a"}}, "line 1: expected a name for each class, got 'a' twice"),
            (2, {"file": None}, "line 2: expected the name of the image as 'file', got None"),
            (2, {"file": "\0", "width": None}, "expected an image"),
            (2, {"split": "training"}, "line 2: expected the split train, val, test, got 'training'"),
            (2, {"width": "40"}, "line 2: expected the size of the image in pixels, got '40' x 20"),
            (2, {"annotations": 3}, "line 2: expected 'annotations' with rows of numbers under 'segments', got 3"),
            (2, {"annotations": {"segments": 3}}, "line 2: expected 'annotations' with rows of numbers"),
            (2, {"annotations": {"segments": [[1, "a"]]}}, "line 2: expected 'annotations' with rows of numbers"),
            (2, {"annotations": {"segments": [[], [1]]}}, "line 2: row 1: expected"),
            (
                2,
                {"annotations": {"segments": [[1, 0.5, 0.5, 0.1, 0.1]]}},
                "line 2: row 1: expected a class and a polygon",
            ),
            (
                2,
                {"annotations": {"segments": [[1.5, *[0.5] * 6]]}},
                "line 2: row 1: expected a class from 0 to 2, got 1.5",
            ),
            (2, {"annotations": {"segments": [[10**300, *[0.5] * 6]]}}, "line 2: row 1: expected a class from 0 to 2"),
            (2, {"annotations": {"segments": [[10**400, *[0.5] * 6]]}}, "line 2: row 1: expected"),
            (2, {"annotations": {"segments": [[1, *[float("nan")] * 6]]}}, "line 2: row 1: expected coordinates"),
            (2, {"annotations": {"segments": [[1, *[30] * 6]]}}, "line 2: row 1: expected coordinates from 0 to 1"),
        ],
    )
    def test_broken(self, file: Path, line: int, values: Any, message: str) -> None:
        rewrite(file, line, **values)
        with pytest.raises(DatasetError, match=message) as caught:
            open_dataset(file, "train")
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 500

    @pytest.mark.parametrize(
        ("task", "row", "message"),
        [
            ("obb", [1, *[0.5] * 6], "expected a class and the 4 corners of a box, got 7 numbers"),
            ("detect", [1, *[0.5] * 6], "expected a class and a box of 4 numbers, got 7 numbers"),
            ("detect", [1, 0.5, 0.5, -0.005, 0.1], "expected a width and a height of at least 0"),
            ("pose", [1, *[0.5] * 4], "expected a class, a box of 4 numbers and 3 keypoints of 3, 14 numbers in total"),
            ("pose", [1, *[0.5] * 13], "expected a visibility 0, 1 or 2 of each keypoint, got 0.5"),
        ],
    )
    def test_broken_rows(self, tmp_path: Path, task: str, row: Any, message: str) -> None:
        rewrite(write_ndjson(tmp_path, task), 2, annotations={TASKS[task][0]: [row]})
        with pytest.raises(DatasetError, match=rf"five\.ndjson: line 2: row 1: {message}"):
            open_dataset(tmp_path)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('{"task": "detect"', "line 1: expected JSON, got text that does not parse"),
            ('{"task": "detect"}\n[]', r"line 2: expected a JSON object, got \[\]"),
            ('{"task": "detect"}\n' + "[" * 100_000, "line 2: expected JSON, got text that does not parse"),
            ('{"task": "detect"}\n\n\n{"file": "\udcff"}', "expected text in UTF-8"),
        ],
    )
    def test_broken_files(self, tmp_path: Path, text: str, message: str) -> None:
        (tmp_path / "five.ndjson").write_text(text, errors="surrogateescape")
        with pytest.raises(DatasetError, match=rf"five\.ndjson: {message}") as caught:
            open_dataset(tmp_path)
        assert len(str(caught.value)) < 500

    def test_a_check_finds_every_broken_line(self, file: Path) -> None:
        for line in (2, 5):
            rewrite(file, line, annotations={"segments": [[1, 3]]})
        assert main(["check", str(file)]) == 1
        with pytest.raises(DatasetError):
            check_dataset(open_dataset(file))
