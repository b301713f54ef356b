"""Boxes in all digits of their entries: of augmented images, and of images that are converted."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torchvision import tv_tensors

from segpaste.datasets import AnnotatedDataset
from segpaste.datasets.formats import kept_shapes
from segpaste.types import DenseSample

SIZE = (20, 30)
INSIDE = {"bbox": [3.123456789, 2.3, 9.1, 4.7], "area": 31.5}
BEYOND = {"bbox": [-3.7, 2.3, 9.123456789, 40.1], "area": 31.5}
CUT = [0.0, 2.3, -3.7 + 9.123456789, 20.0 - 2.3]
OTHER = {"bbox": [3.5, 2.3, 9.1, 4.7]}


class OneBox(AnnotatedDataset):
    """One image with a box as in its sample, and its entry."""

    class_names = ("cup",)
    has_masks = False

    def __init__(self, row: dict[str, Any], box: list[float]) -> None:
        self.row, self.box = {"id": 7, **row}, box

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> DenseSample:
        boxes = tv_tensors.BoundingBoxes(torch.tensor([self.box]), format="XYXY", canvas_size=SIZE)
        image = tv_tensors.Image(torch.zeros(3, *SIZE, dtype=torch.uint8))
        return DenseSample(image, boxes, torch.zeros(1, dtype=torch.int64))

    def annotation_rows(self, index: int) -> list[dict[str, Any]]:
        return [self.row]

    def annotation_ids(self, index: int) -> list[int]:
        return [7]


def inside(x: float, y: float, width: float, height: float) -> list[float]:
    return [max(x, 0), max(y, 0), min(x + width, SIZE[1]), min(y + height, SIZE[0])]


@pytest.mark.parametrize(
    ("row", "entry"),
    [(INSIDE, INSIDE), (BEYOND, {"bbox": CUT, "area": CUT[2] * CUT[3]})],
    ids=["inside", "beyond"],
)
def test_an_untouched_box(row: dict[str, Any], entry: dict[str, Any]) -> None:
    photos = OneBox(row, inside(*row["bbox"]))
    sample = photos[0]
    (kept,) = kept_shapes.kept_shapes(photos, 0, [7], sample, sample, "detect")
    assert kept.entry == entry
    (given,) = kept_shapes.given_shapes(photos, 0, sample)
    assert given.entry["bbox"] == entry["bbox"]


def test_a_box_that_is_not_that_of_the_sample() -> None:
    photos = OneBox(OTHER, inside(*INSIDE["bbox"]))
    (kept,) = kept_shapes.kept_shapes(photos, 0, [7], photos[0], photos[0], "detect")
    (given,) = kept_shapes.given_shapes(photos, 0, photos[0])
    assert kept.entry == given.entry == {}
