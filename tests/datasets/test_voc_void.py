"""Void of VOC's maps of objects: conversion and augmentation keep it, or name it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from on_disk import noise
from segpaste import augment_dataset, convert_dataset, replay_dataset
from segpaste.datasets import DatasetError, open_dataset
from segpaste.datasets.formats.voc.files import OTHER_VOID, VOID_OF_CLASSES
from segpaste.datasets.writers import voc

SIZE, NUM, VOID = (24, 32), 3, 255


def dataset(folder: Path, *, void_of: tuple[str, ...] = ("Class", "Object")) -> Path:
    """Write images of VOC with two objects, each with a contour of void, in the maps of these kinds."""
    for name in ("JPEGImages", "SegmentationClass", "SegmentationObject", "ImageSets/Segmentation"):
        (folder / name).mkdir(parents=True)
    (folder / "class_names.txt").write_text("_background_\ncup\n")
    (folder / "ImageSets/Segmentation/train.txt").write_text("".join(f"{i}\n" for i in range(NUM)))
    for i in range(NUM):
        Image.fromarray(noise(SIZE, i)).save(folder / f"JPEGImages/{i}.jpg")
        for kind in ("Class", "Object"):
            values = np.zeros(SIZE, np.uint8)
            for number, left in enumerate((3, 18), start=1):
                values[6:18, left : left + 11] = VOID if kind in void_of else 0
                values[8:16, left + 2 : left + 9] = 1 if kind == "Class" else number
            picture = Image.fromarray(values)
            picture.putpalette(voc.voc_palette().ravel().tolist())
            picture.save(folder / f"Segmentation{kind}/{i}.png")
    return folder


def maps(folder: Path, kind: str) -> list[NDArray[Any]]:
    return [np.array(Image.open(path)) for path in sorted((folder / f"Segmentation{kind}").glob("*.png"))]


def test_converted(tmp_path: Path) -> None:
    given = dataset(tmp_path / "in")
    assert convert_dataset(given, tmp_path / "out", "voc").losses == {}
    for kind in ("Class", "Object"):
        for one, other in zip(maps(given, kind), maps(tmp_path / "out", kind), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("prob", [0, 1])
def test_augmented(prob: float, tmp_path: Path) -> None:
    given, out = dataset(tmp_path / "in"), tmp_path / "out"
    overrides = {"placement.paste_prob": prob, "min_area_px": 1}
    summary = augment_dataset(given, out, num=NUM, gallery=0, overrides=overrides)
    assert summary.left_out == {}
    for classes, objects in zip(maps(out, "Class"), maps(out, "Object"), strict=True):
        assert (classes == VOID).any()
        np.testing.assert_array_equal(classes == VOID, objects == VOID)
    assert replay_dataset(out, given, check=out).is_identical


@pytest.mark.parametrize("void_of", [("Class",), ("Object",)])
def test_other_void_is_named(void_of: tuple[str, ...], tmp_path: Path) -> None:
    given, told = dataset(tmp_path / "in", void_of=void_of), OTHER_VOID if void_of == ("Object",) else VOID_OF_CLASSES
    assert convert_dataset(given, tmp_path / "out", "voc").losses == {told: NUM}
    other = convert_dataset(given, tmp_path / "other", "label-maps").losses
    assert other == ({told: NUM} if void_of == ("Object",) else {})
    assert augment_dataset(given, tmp_path / "made", num=NUM, gallery=0, overrides={"min_area_px": 1}).left_out == {
        told: NUM
    }


def test_lost_void_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = voc._maps

    def without_void(*given: Any) -> Any:
        classes, objects = made(*given)
        return classes, np.where(objects == VOID, 0, objects).astype(np.uint8)

    monkeypatch.setattr(voc, "_maps", without_void)
    with pytest.raises(DatasetError, match="SegmentationObject"):
        convert_dataset(dataset(tmp_path / "in"), tmp_path / "out", "voc")


WIDE, MANY = (64, 320), 300


def write_many(folder: Path, *, num: int, void: int | None) -> Path:
    """Write an image of ``num`` objects with maps of 16 bits; a number is void, in a rectangle of its own."""
    objects = np.zeros(WIDE, np.uint16)
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
    Image.fromarray(np.full((*WIDE, 3), 90, np.uint8)).save(folder / "JPEGImages/1.png")
    return folder


@pytest.mark.parametrize(
    ("num", "void", "objects"), [(MANY, None, MANY), (254, None, 254), (MANY, 255, MANY - 1), (MANY, 65535, MANY)]
)
def test_number_255_is_an_object_or_void_as_the_map_of_classes_says(
    num: int, void: int | None, objects: int, tmp_path: Path
) -> None:
    sample = open_dataset(write_many(tmp_path / "in", num=num, void=void))[0]
    assert sample.num_instances == objects
    assert sample.instance_masks is not None
    assert sample.instance_masks.sum().item() == 15 * objects
    losses = convert_dataset(tmp_path / "in", tmp_path / "out", "coco").losses
    assert not any("void" in what and "objects" in what for what in losses if void is None)
