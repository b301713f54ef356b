"""Maps of objects of VOC with 16 bits: number 255 is an object like the others, or void, as the map of classes says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from segpaste import convert_dataset
from segpaste.datasets import open_dataset

SIZE = (64, 320)
NUM = 300


def write(folder: Path, *, num: int, void: int | None) -> Path:
    """Write an image of ``num`` objects; a number is void, in a rectangle of its own."""
    objects = np.zeros(SIZE, np.uint16)
    for k in range(num):
        top, left = k // 60 * 10, k % 60 * 5
        objects[top : top + 5, left : left + 3] = k + 1
    classes = (objects > 0).astype(np.uint8)
    if void is not None:
        classes[objects == void] = 255
        objects[60:, 300:], classes[60:, 300:] = void, 255
    for name, values in {"SegmentationObject": objects, "SegmentationClass": classes}.items():
        (folder / name).mkdir(parents=True)
        Image.fromarray(values).save(folder / name / "1.png")
    (folder / "JPEGImages").mkdir()
    Image.fromarray(np.full((*SIZE, 3), 90, np.uint8)).save(folder / "JPEGImages/1.png")
    return folder


@pytest.mark.parametrize(
    ("num", "void", "objects"), [(NUM, None, NUM), (254, None, 254), (NUM, 255, NUM - 1), (NUM, 65535, NUM)]
)
def test_number_255(num: int, void: int | None, objects: int, tmp_path: Path) -> None:
    sample = open_dataset(write(tmp_path / "in", num=num, void=void))[0]
    assert sample.num_instances == objects
    assert sample.instance_masks is not None
    assert sample.instance_masks.sum().item() == 15 * objects
    losses = convert_dataset(tmp_path / "in", tmp_path / "out", "coco").losses
    assert not any("void" in what and "objects" in what for what in losses if void is None)
