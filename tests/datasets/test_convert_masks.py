"""Masks made of the boxes of a dataset, by a stand-in; `tests/trainers/checks_transformers_masks.py` has a model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from coco_files import annotation_row, image_row, write_coco
from conversion_world import read_json, read_map, write_instances
from pycocotools.coco import COCO
from torch import Tensor

from segpaste.datasets import CocoDetectionV2, DatasetError, find_dataset, open_dataset
from segpaste.datasets.conversion.conversion import Conversion
from segpaste.datasets.conversion.masks import with_masks_from
from segpaste.datasets.formats.format import ReadOptions
from segpaste.datasets.formats.pixel_bytes import DepthFormat
from segpaste.datasets.writers.dataset_writer import UNREAD_DEPTH
from segpaste.types import DenseSample
from yolo_files import BOX, SQUARE, write_yolo

SIZE = (17, 23)


class Slopes:
    """Everything above the photo's diagonal; nothing for boxes that start in the first column."""

    name = "slopes"

    def __call__(self, image: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
        height, width = image.shape[1:]
        above = torch.arange(width) >= torch.arange(height)[:, None]
        masks = above.expand(len(boxes), height, width) & (boxes[:, 0] > 0)[:, None, None]
        return masks, torch.linspace(0.5, 1, len(boxes))


def convert(found: Any, to: str, out: Path, **options: Any) -> Any:
    return Conversion(found, to, adapt=with_masks_from(Slopes()), adapted_by="slopes", **options).run(out)


def test_boxes_of_coco(tmp_path: Path) -> None:
    boxes = [[2, 1, 5, 6], [0, 3, 4, 4], [3.5, 0.5, 2, 2.25]]
    rows = [{**annotation_row(7 + i, 4, None, 90), "bbox": box, "note": i} for i, box in enumerate(boxes)]
    rows.append({**annotation_row(20, 4, None), "bbox": [10, 10, 3, 3], "iscrowd": 1})
    for row in rows:
        row.pop("segmentation")
    images_dir, path = write_coco(tmp_path, [image_row(4, SIZE)], rows)
    found = find_dataset(path)
    convert(found, "coco", tmp_path / "out", options=ReadOptions(images_dir=images_dir))
    written = COCO(str(tmp_path / "out/annotations.json"))
    for row, (x, y, width, height) in zip(rows[:3], boxes, strict=True):
        new = written.anns[row["id"]]
        assert {key: new[key] for key in row} == row
        ys, xs = np.mgrid[: SIZE[0], : SIZE[1]]
        inside = (xs + 1 > x) & (xs < x + width) & (ys + 1 > y) & (ys < y + height)
        expected = inside if x == 0 else inside & (xs >= ys)
        np.testing.assert_array_equal(written.annToMask(new), expected)
        quality = new["mask_quality"]
        assert (quality["model"], new["area"]) == ("slopes", expected.sum())
        assert quality.get("is_box", False) == (x == 0)
        share = 0 if x == 0 else expected.sum() / inside.sum()
        assert quality["box_covered_frac"] == pytest.approx(share, abs=1e-6)
    assert [written.anns[7 + i]["mask_quality"]["predicted_iou"] for i in range(3)] == [0.5, 0.75, 1.0]
    assert "mask_quality" not in written.anns[20]


def test_boxes_of_yolo_into_polygons(tmp_path: Path) -> None:
    data = write_yolo(tmp_path / "in", {"a": BOX, "b": ""})
    convert(find_dataset(data), "yolo", tmp_path / "out")
    before, after = open_dataset(data)[0], open_dataset(tmp_path / "out")[0]
    assert after.instance_masks is not None
    ys, xs = torch.meshgrid(torch.arange(20), torch.arange(40), indexing="ij")
    x1, y1, x2, y2 = before.boxes[0].tolist()
    assert torch.equal(after.instance_masks[0].bool(), (xs >= x1) & (xs < x2) & (ys >= y1) & (ys < y2) & (xs >= ys))


def test_masks_are_not_replaced(tmp_path: Path) -> None:
    data = write_yolo(tmp_path / "in", {"a": SQUARE, "b": ""})
    with pytest.raises(DatasetError, match="expected a dataset with boxes only for --masks-from, got masks"):
        convert(find_dataset(data), "coco", tmp_path / "out")


def test_without_a_model_boxes_stay_boxes(tmp_path: Path) -> None:
    images_dir, path = write_coco(tmp_path, [image_row(4, SIZE)], [annotation_row(7, 4, [])])
    Conversion(find_dataset(path), "coco", options=ReadOptions(images_dir=images_dir)).run(tmp_path / "out")
    (row,) = read_json(tmp_path / "out/annotations.json")["annotations"]
    assert row == {**json.loads(path.read_text())["annotations"][0], "area": 1}
    with pytest.raises(DatasetError, match="expected masks for the task segment, got boxes only; write"):
        Conversion(find_dataset(path), "yolo", options=ReadOptions(images_dir=images_dir), task="segment")


class WithDepth(CocoDetectionV2):
    """Samples have depth, of which entries do not tell."""

    def __getitem__(self, index: int) -> DenseSample:
        sample = super().__getitem__(index)
        depth = torch.full((1, *sample.canvas_size), 1.5004)
        return replace(sample, depth=depth, depth_valid=depth > 1)


@pytest.mark.parametrize("depth_format", ["npy", "png"])
def test_depth_comes_along_beside_entries(tmp_path: Path, depth_format: DepthFormat) -> None:
    images_dir, path = write_instances(tmp_path)
    conversion = Conversion(
        find_dataset(path),
        "coco",
        options=ReadOptions(images_dir=images_dir),
        adapt=lambda photos: WithDepth(photos.images_dir, photos.annotations_file),
        depth_format=depth_format,
    )
    summary = conversion.run(tmp_path / "out")
    rows = read_json(path)["annotations"]
    assert read_json(tmp_path / "out/annotations.json")["annotations"] == [*rows[:-1], {**rows[-1], "iscrowd": 1}]
    depth = tmp_path / f"out/depth/a/one.{depth_format}"
    if depth_format == "npy":
        assert (np.load(depth) == np.float32(1.5004)).all()
        assert (read_map(tmp_path / "out/depth_valid/a/one.png") == 255).all()
        assert not summary.losses
    else:
        assert (read_map(depth) == 1500).all()
        assert dict(summary.losses) == {"depth below a millimetre, in images": 2, UNREAD_DEPTH: 2}
