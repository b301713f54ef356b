"""Datasets in memory without the libraries: what names them, and a dataset of Python that is written.

`tests/trainers` has the tests beside supervision, Datumaro and FiftyOne.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from samples import assert_same
from segpaste import convert_dataset, datasets
from segpaste.datasets import DatasetError, SceneConfig, SceneDataset, check_dataset, open_dataset
from segpaste.datasets.formats.outlined import AnnotatedImage
from segpaste.datasets.formats.rle import encode_mask
from segpaste.datasets.formats.tool_shapes import Shape
from segpaste.datasets.in_memory.tool_images import NO_CLASS, ToolTable
from segpaste.extras import REQUIREMENT_OF, MissingPackageError

SIZE = (20, 30)
SCENES = SceneDataset(3, SceneConfig(height=48, width=64), modalities=["image", "instance"], seed=4)


@pytest.mark.parametrize("library", ["supervision", "datumaro", "fiftyone"])
@pytest.mark.parametrize("direction", ["from", "to"])
def test_a_missing_library_is_named(library: str, direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(
        MissingPackageError, match=f"{library} is not installed: pip install '{REQUIREMENT_OF[library]}"
    ):
        getattr(datasets, f"{direction}_{library}")(SCENES)


def mask(x: int) -> Any:
    found = np.zeros(SIZE, bool)
    found[2:6, x : x + 5] = True
    return encode_mask(found)


def table_of(
    *images: list[Shape], ids: tuple[Any, ...] = (), categories: tuple[str, ...] = ("cat", "dog")
) -> ToolTable:
    rows = [{"file_name": f"{i}.png", "height": SIZE[0], "width": SIZE[1]} for i in range(len(images))]
    rows = [{**row, **({"id": ids[i]} if ids else {})} for i, row in enumerate(rows)]
    table = ToolTable("Tool", [{"name": name} for name in categories])
    table.images = [AnnotatedImage(row, shapes) for row, shapes in zip(rows, images, strict=True)]
    table.pixels = lambda index: np.full((*SIZE, 3), index, np.uint8)
    return table


def test_ids_are_kept_if_they_are_unique() -> None:
    kept = table_of([Shape("cat", mask(1), id=9)], [Shape("dog", mask(3), id=4)], ids=(70, 3)).dataset(None)
    assert [kept.image_id(0), kept.image_id(1)] == [70, 3]
    assert [kept.annotation_ids(0), kept.annotation_ids(1)] == [(9,), (4,)]
    assert kept.annotation_rows(1)[0]["image_id"] == 3
    assert kept[1].image.unique().tolist() == [1]
    again = table_of([Shape("cat", mask(1), id=9)], [Shape("dog", mask(3), id=9)], ids=(70, 70)).dataset(None)
    assert [again.image_id(0), again.image_id(1)] == [1, 2]
    assert [again.annotation_ids(0), again.annotation_ids(1)] == [(1,), (2,)]


def test_a_region_without_a_class_gets_the_first() -> None:
    found = table_of([Shape(NO_CLASS, mask(1), crowd=True), Shape("dog", mask(9))]).dataset(None)
    assert [(crowd.label, crowd.is_ignored) for crowd in found.crowds(0)] == [(0, False)]
    assert int(found[0].crowd_mask.sum()) == 20
    assert len(table_of([Shape(NO_CLASS, mask(1), crowd=True)], categories=()).dataset(None).crowds(0)) == 0


def test_what_is_not_read_is_told() -> None:
    table = table_of([])
    table.not_read = Counter({"captions": 2, "lines": 0})
    with pytest.warns(UserWarning, match="^Tool: 2 captions are not read, since samples do not hold them$"):
        table.dataset(None)
    with pytest.raises(DatasetError, match="expected a name for each class, each once, got 'cat' twice; rename one"):
        table_of([], categories=("cat", "cat")).dataset(None)


def test_pixels_of_another_size_are_refused() -> None:
    table = table_of([Shape("cat", mask(1))])
    table.pixels = lambda index: np.zeros((9, 9, 3), np.uint8)
    with pytest.raises(DatasetError, match=r"0.png: expected pixels \[20, 30, 3\] uint8, got \[9, 9, 3\] uint8"):
        table.dataset(None)[0]


@pytest.mark.parametrize("to", ["coco", "yolo", "voc"])
def test_a_dataset_of_python_is_converted(to: str, tmp_path: Path) -> None:
    summary = convert_dataset(SCENES, tmp_path / "out", to, verify="full")
    assert sum(summary.num_objects.values()) == sum(SCENES[i].num_instances for i in range(3))
    assert not summary.losses
    written = open_dataset(tmp_path / "out")
    for index in range(3):
        assert torch.equal(written[index].image, SCENES[index].image)
        if to == "coco":
            assert torch.equal(written[index].instance_masks, SCENES[index].instance_masks)
    assert check_dataset(written, decode=True).is_healthy


def test_a_dataset_of_files_is_copied_and_resumed_by_its_content(tmp_path: Path) -> None:
    convert_dataset(SCENES, tmp_path / "one", "coco")
    opened = open_dataset(tmp_path / "one")
    convert_dataset(opened, tmp_path / "two", "coco")
    again = open_dataset(tmp_path / "two")
    assert again.path_of(0).read_bytes() == opened.path_of(0).read_bytes()
    assert_same(again[1], opened[1])
    assert again.annotation_rows(1) == opened.annotation_rows(1)


def test_what_conversion_does_not_follow_is_refused(tmp_path: Path) -> None:
    convert_dataset(SCENES, tmp_path / "one", "coco")
    moved = open_dataset(tmp_path / "one", transforms=lambda sample: sample)
    with pytest.raises(DatasetError, match="CocoDetectionV2: expected a dataset without transforms"):
        convert_dataset(moved, tmp_path / "two", "coco")
    with pytest.raises(DatasetError, match="splits: expected a path with this option, got SceneDataset; leave it out"):
        convert_dataset(SCENES, tmp_path / "two", "coco", splits=["train"])
    assert not (tmp_path / "two").exists()
