"""Ultralytics' NDJSON as its own converter reads it, and as segpaste does; run by `test_trainers`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from ultralytics.data.converter import convert_ndjson_to_yolo

from ndjson_files import TASKS, records_of, write_ndjson, write_records
from samples import assert_same
from segpaste.datasets import open_dataset

pytestmark = pytest.mark.filterwarnings("ignore")


def converted(file: Path, out: Path) -> Path:
    """The data YAML that Ultralytics writes; it reads images in the folder that the first line names."""
    return asyncio.run(convert_ndjson_to_yolo(file, out))


def by_image(photos: Any) -> dict[bytes, int]:
    """The index of each image by its bytes, for Ultralytics gives it another name."""
    return {photos.path_of(i).read_bytes(): i for i in range(len(photos))}


@pytest.mark.parametrize("task", TASKS)
def test_samples_are_those_of_the_converted_dataset(task: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    file = write_ndjson(tmp_path / "in", task, path=".")
    yaml = converted(file, tmp_path / "out")
    for split in ("train", "val"):
        found, wanted = open_dataset(file, split), open_dataset(yaml, split)
        ours, theirs = by_image(found), by_image(wanted)
        assert ours.keys() == theirs.keys()
        assert found.class_names == wanted.class_names
        assert found.keypoint_schema == wanted.keypoint_schema
        for content, i in ours.items():
            assert_same(found[i], wanted[theirs[content]])


def test_names_of_classes_without_one(tmp_path: Path) -> None:
    file = write_ndjson(tmp_path, "segment", path=".", class_names={"0": "car"})
    assert open_dataset(file).class_names == open_dataset(converted(file, tmp_path / "out")).class_names


def test_a_pose_without_its_shape(tmp_path: Path) -> None:
    file = write_ndjson(tmp_path, "pose", path=".", kpt_shape=None, flip_idx=None)
    found, wanted = open_dataset(file), open_dataset(converted(file, tmp_path / "out"))
    assert found.keypoint_schema == wanted.keypoint_schema


@pytest.mark.parametrize("change", [{"split": "training"}, {"file": 3}])
def test_both_refuse(change: dict[str, Any], tmp_path: Path) -> None:
    file = write_ndjson(tmp_path, "segment", path=".")
    records = records_of("segment", path=".")
    records[1] |= change
    write_records(file, records)
    assert json.loads(file.read_text().splitlines()[1])["width"]
    with pytest.raises(ValueError, match="Invalid NDJSON"):
        converted(file, tmp_path / "out")
    with pytest.raises(ValueError, match="line 2: expected"):
        open_dataset(file)
