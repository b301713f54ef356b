"""COCO files of some images, in place: read again they give the same samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from segpaste.datasets import CocoDetectionV2, open_dataset
from segpaste.datasets.conversion.subsets import EntryFile
from segpaste.workspace import write_whole


def write_boxes(folder: Path) -> dict[str, Any]:
    from cli_world import write_instances

    labels, images = write_instances(folder)
    return {"path": labels, "images_dir": images}


def write_polygons(folder: Path) -> dict[str, Any]:
    from yolo_files import write_yolo

    return {"path": write_yolo(folder), "task": "segment"}


@pytest.mark.parametrize("write", [write_boxes, write_polygons])
def test_same_samples(write: Any, tmp_path: Path) -> None:
    photos = open_dataset(**write(tmp_path / "data"))
    entries = EntryFile(photos, tmp_path / "entries.jsonl")
    picked = [0, 2]
    path = write_whole(tmp_path / "some.json", entries.coco(picked))
    again = CocoDetectionV2(photos.images_dir, path)
    assert len(again) == len(picked)
    assert again.class_names == tuple(photos.class_names)
    for position, index in enumerate(picked):
        before, after = photos[index], again[position]
        assert torch.equal(before.image, after.image)
        assert before.labels.tolist() == after.labels.tolist()
        assert before.instance_masks is not None
        assert after.instance_masks is not None
        assert np.array_equal(before.instance_masks.numpy(), after.instance_masks.numpy())
        assert (before.crowd_mask is None) == (after.crowd_mask is None)
    ids = [row["id"] for row in json.loads(path.read_bytes())["annotations"]]
    assert len(set(ids)) == len(ids) > 0


def test_entries_are_written_once(tmp_path: Path) -> None:
    photos = open_dataset(**write_polygons(tmp_path / "data"))
    EntryFile(photos, tmp_path / "entries.jsonl")
    before = (tmp_path / "entries.jsonl").stat().st_mtime_ns
    content = EntryFile(photos, tmp_path / "entries.jsonl").coco([1])
    assert len(json.loads(b"".join(content))["images"]) == 1  # type: ignore[arg-type]
    assert (tmp_path / "entries.jsonl").stat().st_mtime_ns == before
