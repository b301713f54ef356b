"""Objects that have a box only: what `augment_dataset` does with them is named, and boxes keep their digits."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from coco_files import annotation_row, image_row, write_coco
from torchvision import tv_tensors

from on_disk import rectangle, runs
from segpaste import augment_dataset, convert_dataset, replay_dataset
from segpaste.augmenting import AugmentSummary
from segpaste.datasets import AnnotatedDataset
from segpaste.datasets.formats import kept_shapes
from segpaste.datasets.formats.tool_shapes import OTHER_BOXES
from segpaste.types import DenseSample

SIZE = (32, 40)
NUM = 6
BOXES = [[2.3 + 9 * i, 24.7, 4.2, 4.6] for i in range(4)]
CATEGORIES = [{"id": 1, "name": "cup"}, {"id": 2, "name": "plate"}]
UNMASKED = "objects without a mask"


def dataset(folder: Path, *, boxes: list[list[float]] = BOXES, **more: Any) -> dict[str, Any]:
    """Write images with a mask of a cup, and boxes of plates; return the arguments for it."""
    rows = []
    for image in range(1, NUM + 1):
        cup = runs(rectangle(SIZE, 2, 2, 20, 30))
        rows.append(annotation_row(100 * image, image, cup, 1, bbox=[2, 2, 28, 18]))
        for i, box in enumerate(boxes):
            rows.append(annotation_row(100 * image + 1 + i, image, [], 2, bbox=box, **more))
    images_dir, path = write_coco(folder, [image_row(i, SIZE) for i in range(1, NUM + 1)], rows, CATEGORIES)
    return {"dataset": path, "images_dir": images_dir}


def augmented(given: dict[str, Any], out: Path, prob: float, layout: str = "coco") -> AugmentSummary:
    overrides = {"placement.paste_prob": prob, "min_area_px": 1}
    return augment_dataset(**given, out=out, num=NUM, seed=1, layout=layout, gallery=0, overrides=overrides)


def rows_of(out: Path) -> list[Any]:
    rows: list[Any] = json.loads((out / "annotations.json").read_text())["annotations"]
    return rows


@pytest.mark.parametrize("layout", ["coco", "lvis", "voc", "yolo", "label-maps"])
def test_files_without_boxes_are_named(layout: str, tmp_path: Path) -> None:
    given, out = dataset(tmp_path), tmp_path / "out"
    summary = augmented(given, out, 0, layout)
    is_held = layout in ("coco", "lvis", "voc")
    told = f"{UNMASKED} (only in annotations.json)"
    assert summary.left_out == ({} if is_held else {told: NUM * len(BOXES)})
    texts = "\n".join(summary.lines()), (out / "report.html").read_text(), Path(f"{out}.log").read_text()
    assert [told in text for text in texts] == [not is_held] * 3
    again = replay_dataset(out, given["dataset"], tmp_path / "again", images_dir=given["images_dir"])
    assert again.left_out == summary.left_out
    converted = convert_dataset(given["dataset"], tmp_path / "c", layout, images_dir=given["images_dir"])
    assert converted.losses.get(UNMASKED, 0) == (0 if is_held else NUM * len(BOXES))


def test_boxes_that_pastes_hide_are_counted(tmp_path: Path) -> None:
    summary = augmented(dataset(tmp_path), tmp_path / "out", 1)
    kept = Counter(row["category_id"] for row in rows_of(tmp_path / "out") if not row["segpaste"]["pasted"])
    assert 0 < kept[2] < NUM * len(BOXES)
    assert summary.before == {"cup": NUM, "plate": NUM * len(BOXES)}
    assert summary.after["plate"] == kept[2]
    assert summary.lost["plate"] == NUM * len(BOXES) - kept[2]
    assert summary.lost_reasons["hidden"] >= summary.lost["plate"]
    assert summary.after.total() == summary.num_instances == len(rows_of(tmp_path / "out"))
    assert any(line.split()[:2] == ["plate", str(NUM * len(BOXES))] for line in summary.lines())


@pytest.mark.parametrize("flag", ["crowd", "ignored"])
def test_regions_that_pastes_hide_are_counted(flag: str, tmp_path: Path) -> None:
    """As other originals are; small regions that pastes cover are gone, and one without a pixel is named."""
    given, name = dataset(tmp_path, boxes=[]), f"plate ({flag} region)"
    tables = json.loads(given["dataset"].read_text())
    flags = {"iscrowd": 1} if flag == "crowd" else {"ignore": 1, "iscrowd": 0}
    for image in range(1, NUM + 1):
        for i, box in enumerate(BOXES):
            left, top = (int(edge) for edge in box[:2])
            mask = rectangle(SIZE, top, left, top + 3, left + 3)
            tables["annotations"].append(annotation_row(1000 * image + i, image, runs(mask), 2, **flags))
    given["dataset"].write_text(json.dumps(tables))
    summary = augmented(given, tmp_path / "out", 1)
    kept = sum(row["category_id"] == 2 for row in rows_of(tmp_path / "out"))
    num = NUM * len(BOXES)
    assert 0 < kept < num
    assert (summary.before[name], summary.after[name], summary.lost[name]) == (num, kept, num - kept)
    assert summary.num_instances == sum(row["category_id"] == 1 for row in rows_of(tmp_path / "out"))
    texts = "\n".join(summary.lines()), (tmp_path / "out/report.html").read_text()
    assert all(f"plate ({flag} region)" in text for text in texts)

    blank = runs(rectangle(SIZE, 0, 0, 0, 0))
    tables["annotations"].append(annotation_row(9999, 1, blank, 2, bbox=[0, 0, 0, 0], **flags))
    given["dataset"].write_text(json.dumps(tables))
    summary = augmented(given, tmp_path / "other", 0)
    assert (summary.lost, summary.before[name]) == ({}, num)
    assert summary.left_out == {"annotations without a pixel": 1, OTHER_BOXES: num}


@pytest.mark.parametrize("beside", [False, True])
def test_objects_without_a_pixel_are_named(beside: bool, tmp_path: Path) -> None:
    """Polygons too thin for a pixel: a conversion keeps their boxes; an augmented dataset leaves them out by name."""
    given = dataset(tmp_path, boxes=BOXES[:1] if beside else [])
    tables = json.loads(given["dataset"].read_text())
    for image in range(1, NUM + 1):
        for i, box in enumerate(([20.6, 26.6, 4.6, 0.3], [2, 2, 0, 0])):
            x, y, width, height = box
            outline = [[x, y, x + width, y, x + width, y + height, x, y + height]]
            tables["annotations"].append(annotation_row(1000 * image + i, image, outline, 2, bbox=box))
    given["dataset"].write_text(json.dumps(tables))
    converted = convert_dataset(given["dataset"], tmp_path / "c", "voc", images_dir=given["images_dir"])
    assert converted.losses == {"annotations without a pixel": NUM}
    summary = augmented(given, tmp_path / "out", 0)
    assert summary.left_out == {"objects with a box whose mask has no pixel": NUM, "annotations without a pixel": NUM}
    assert len(rows_of(tmp_path / "out")) == NUM * (2 if beside else 1)
    again = replay_dataset(tmp_path / "out", given["dataset"], tmp_path / "again", images_dir=given["images_dir"])
    assert again.left_out == summary.left_out


@pytest.mark.parametrize("masks", [True, False])
@pytest.mark.parametrize("layout", ["coco", "lvis", "voc"])
def test_boxes_keep_their_digits(layout: str, masks: bool, tmp_path: Path) -> None:
    """Boxes beside masks and boxes alone have the numbers of the file, in JSON and in XML."""
    boxes = [[10.3, 20.7, 12.2, 8.6], [0.1, 0.2, 5.7, 9.9]]
    given = dataset(tmp_path, boxes=boxes)
    if not masks:
        tables = json.loads(given["dataset"].read_text())
        tables["annotations"] = [row | {"segmentation": []} for row in tables["annotations"] if row["category_id"] == 2]
        given["dataset"].write_text(json.dumps(tables))
    overrides = {"placement.paste_prob": 0, **({} if masks else {"source.mask_from": "boxes"})}
    augment_dataset(**given, out=tmp_path / "out", num=NUM, layout=layout, gallery=0, overrides=overrides)
    rows = [row for row in rows_of(tmp_path / "out") if row["category_id"] == 2]
    assert [row["bbox"] for row in rows] == boxes * NUM
    assert {row["area"] for row in rows} == {width * height for *_, width, height in boxes}
    if layout == "voc":
        texts = [path.read_text() for path in (tmp_path / "out/Annotations").glob("*.xml")]
        assert all(text.count(f"<xmax>{edge}<") == 1 for text in texts for edge in (22.5, 5.8))
        assert all(text.count(f"<ymax>{edge}<") == 1 for text in texts for edge in (29.3, 10.1))
        found = convert_dataset(tmp_path / "out", tmp_path / "again", "voc")
        again = [path.read_text() for path in (found.out / "Annotations").glob("*.xml")]
        assert [text.count("<ymax>29.3<") + text.count("<xmax>5.8<") for text in again] == [2] * NUM


FRAME = (20, 30)
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
        boxes = tv_tensors.BoundingBoxes(torch.tensor([self.box]), format="XYXY", canvas_size=FRAME)
        image = tv_tensors.Image(torch.zeros(3, *FRAME, dtype=torch.uint8))
        return DenseSample(image, boxes, torch.zeros(1, dtype=torch.int64))

    def annotation_rows(self, index: int) -> list[dict[str, Any]]:
        return [self.row]

    def annotation_ids(self, index: int) -> list[int]:
        return [7]


def inside(x: float, y: float, width: float, height: float) -> list[float]:
    return [max(x, 0), max(y, 0), min(x + width, FRAME[1]), min(y + height, FRAME[0])]


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
