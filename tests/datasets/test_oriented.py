"""Oriented boxes of YOLO, rows of a class and four corners: read as polygons, and written with the same corners."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from segpaste.datasets import DatasetError, YoloDataset, convert_dataset, open_dataset
from segpaste.datasets.formats.yolo.outlines import given_corners
from yolo_files import BOX, SIZE, SQUARE, TRIANGLE, write_yolo

TURNED = "2 0.31234 0.212345 0.51234 0.412345 0.41234 0.612345 0.21234 0.412345"
"""A parallelogram in fractions: a rectangle of 45 degrees in an image of half the width in height."""
QUAD = "0 0.1 0.1 0.42 0.2 0.33 0.6 0.05 0.5"
"""Corners as annotators of aerial images draw them, not quite a rectangle."""


def labels(folder: Path) -> list[str]:
    return [path.read_text() for path in sorted((folder / "labels/train").iterdir())]


@pytest.mark.parametrize("task", [None, "obb"])
def test_corners_are_those_of_the_file(tmp_path: Path, task: str | None) -> None:
    texts = [f"{TURNED}\n{QUAD}\n", f"{SQUARE}\n"]
    data = write_yolo(tmp_path / "in", dict(zip("ab", texts, strict=True)))
    photos = YoloDataset(data)
    assert (photos.task, photos.is_oriented, photos.written_task, photos.has_masks) == ("segment", True, "obb", True)
    convert_dataset(data, tmp_path / "out", "yolo", task=task)  # type: ignore[arg-type]
    assert labels(tmp_path / "out") == texts


def test_corners_survive_coco(tmp_path: Path) -> None:
    """To six decimals, and only those of rectangles, since a polygon of four points is not always an oriented box."""
    size = SIZE[::-1]
    corners = np.array([(8, 6), (14, 12), (12, 14), (6, 8)]) / size
    text = "1 " + " ".join(f"{value:g}" for value in corners.ravel())
    data = write_yolo(tmp_path / "in", {"a": text, "b": SQUARE})
    convert_dataset(data, tmp_path / "coco", "coco")
    convert_dataset(tmp_path / "coco", tmp_path / "out", "yolo", task="obb")
    for written, given in zip(labels(tmp_path / "out"), (text, SQUARE), strict=True):
        np.testing.assert_allclose([*map(float, written.split())][1:], [*map(float, given.split())][1:], atol=1e-6)


def test_which_polygons_are_rectangles() -> None:
    square = [2.0, 2, 6, 2, 6, 6, 2, 6]
    assert given_corners([square], (9, 9)) is not None
    rejected: list[object] = [
        None,
        {"counts": "x", "size": [9, 9]},
        [],
        [square, square],
        [[*square, 1.0, 1.0]],
        [[2.0, 2, 6, 2, 6, 6, 3, 6]],  # no parallelogram
        [[2.0, 2, 6, 2, 8, 6, 4, 6]],  # no right angle
        [[2.0, 2, 2, 2, 2, 2, 2, 2]],
        [[2.0, 2, 9.5, 2, 9.5, 6, 2, 6]],  # beyond the image
    ]
    assert [given_corners(polygon, (9, 9)) for polygon in rejected] == [None] * len(rejected)


def test_rows_of_other_lengths(tmp_path: Path) -> None:
    """One polygon of another length makes all of them polygons; so does the task segment."""
    mixed = YoloDataset(write_yolo(tmp_path / "mixed", {"a": SQUARE, "b": TRIANGLE}))
    assert (mixed.is_oriented, mixed.written_task) == (False, "segment")
    data = write_yolo(tmp_path / "asked", {"a": SQUARE})
    assert not YoloDataset(data, task="segment").is_oriented
    assert not YoloDataset(data, task="detect").is_oriented
    tabs = YoloDataset(write_yolo(tmp_path / "tabs", {"a": SQUARE.replace(" ", "\t")}))
    assert tabs.is_oriented
    cases = {
        f"{BOX} 0.9": "expected a class and a box of 4 numbers, or a class and a polygon .*, got 6 numbers",
        SQUARE.removeprefix("1 "): "expected a class from 0 to 2, got 0.1",
        "1 " + SQUARE.removeprefix("1 ").rpartition(" ")[0]: "got 8 numbers",
        SQUARE.replace(" ", ","): "expected numbers, got '1,0.1",
        f"{SQUARE}\n{BOX}": "expected one of them in all rows",
    }
    for number, (row, message) in enumerate(cases.items()):
        with pytest.raises(DatasetError, match=message):
            open_dataset(write_yolo(tmp_path / str(number), {"a": row}))
