"""Checks of a dataset: each kind of finding by a dataset that has it, and errors exactly where a reader raises."""

from __future__ import annotations

import json
import os
import re
import shutil
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import tv_tensors

from on_disk import noise, rectangle, runs
from samples import make_sample
from segpaste.datasets import (
    CocoDetectionV2,
    CocoPanoptic,
    DatasetError,
    YoloDataset,
    check_dataset,
    create_coco_dataloader,
    find_dataset,
)
from segpaste.datasets.checking.check import check_unopened
from segpaste.datasets.checking.listings.file_listings import list_coco
from segpaste.datasets.checking.objects import NEAR_IOU, Region, near_pairs, region_of
from segpaste.datasets.checking.report import KINDS, Finding, HealthReport
from segpaste.datasets.formats.format import ReadOptions
from segpaste.datasets.formats.image_scan import scan_images
from segpaste.datasets.scenes import SceneConfig, SceneDataset
from segpaste.types import DenseSample, KeypointSchema, PaddedBatchedDenseSample
from yolo_files import BOX, SQUARE, write_yolo

SIZE = (23, 37)
ORIENTATION = 0x0112
Tables = dict[str, list[Any]]
Change = Callable[[Path, Tables], object]


def annotation(number: int, image_id: int, mask: Any, category_id: int = 3, **more: Any) -> dict[str, Any]:
    ys, xs = np.nonzero(mask)
    box = [int(xs.min()), int(ys.min()), int(np.ptp(xs)) + 1, int(np.ptp(ys)) + 1] if len(xs) else [0, 0, 1, 1]
    row = {"id": number, "image_id": image_id, "category_id": category_id, "segmentation": runs(mask), "bbox": box}
    return row | more


def good() -> Tables:
    """Two photos, three objects, one of them with keypoints, and a crowd."""
    points = {"keypoints": [4, 4, 2, 0, 0, 0], "num_keypoints": 1}
    return {
        "images": [{"id": i, "file_name": f"{i}.png", "height": 23, "width": 37} for i in (5, 6)],
        "annotations": [
            annotation(1, 5, rectangle(SIZE, 2, 3, 9, 11), 3, **points),
            annotation(2, 5, rectangle(SIZE, 11, 13, 20, 31), 8),
            annotation(3, 6, rectangle(SIZE, 1, 1, 6, 8), 8),
            annotation(4, 6, rectangle(SIZE, 8, 8, 20, 30), 8, iscrowd=1),
        ],
        "categories": [
            {"id": 3, "name": "cup", "keypoints": ["left", "right"], "skeleton": []},
            {"id": 8, "name": "car"},
        ],
    }


def write(folder: Path, change: Change = lambda folder, tables: None) -> Path:
    """Write the good dataset with a change; return its file."""
    (folder / "photos").mkdir(parents=True)
    for i in (5, 6):
        Image.fromarray(noise(SIZE, i)).save(folder / "photos" / f"{i}.png")
    tables = good()
    change(folder, tables)
    (folder / "labels.json").write_text(json.dumps(tables))
    return folder / "labels.json"


def check(path: Path, **options: Any) -> HealthReport:
    """Return the report of a file as the command makes it: by its reader, or by the checks if the reader rejects it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            photos = CocoDetectionV2(path.parent / "photos", path)
        except DatasetError as error:
            return check_unopened(path, error, None, ReadOptions(images_dir=path.parent / "photos"), **options)
        return check_dataset(photos, **options)


def can_be_read(path: Path) -> bool:
    """Return whether the reader reads all samples."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            photos = CocoDetectionV2(path.parent / "photos", path)
            for i in range(len(photos)):
                assert photos[i].num_instances >= 0
        except DatasetError:
            return False
    return True


def rows(table: str, index: int, **values: Any) -> Change:
    """A change of a row of a table."""
    return lambda folder, tables: tables[table][index].update(values)


def drop(table: str, index: int, key: str) -> Change:
    return lambda folder, tables: tables[table][index].pop(key)


def added(table: str, row: Callable[[], dict[str, Any]]) -> Change:
    return lambda folder, tables: tables[table].append(row())


def photo(save: Callable[[Path], object]) -> Change:
    """A change of the file of the first photo."""
    return lambda folder, tables: save(folder / "photos" / "5.png")


POINT = KeypointSchema(("head",))


class Made:
    """A dataset whose samples are made by functions."""

    def __init__(self, *makers: Callable[[], Any]) -> None:
        self.makers = makers

    def __len__(self) -> int:
        return len(self.makers)

    def __getitem__(self, index: int) -> Any:
        return self.makers[index]()


def raised(error: BaseException) -> None:
    raise error


def own_sample(**fields: Any) -> DenseSample:
    """A sample with one square, and other fields."""
    masks = torch.zeros(1, 48, 64, dtype=torch.bool)
    masks[0, 10:30, 20:40] = True
    image = torch.zeros(3, 48, 64, dtype=torch.uint8)
    return DenseSample.from_masks(**{"image": image, "masks": masks, "labels": torch.tensor([0]), **fields})


def batch_of(samples: list[DenseSample]) -> PaddedBatchedDenseSample:
    """The samples in one batch of the loader."""
    dataset: Any = samples
    return next(iter(create_coco_dataloader(dataset=dataset, batch_size=len(samples), size=48, shuffle=False)))


def turned(path: Path, size: tuple[int, int], orientation: int) -> None:
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    Image.fromarray(noise(size, 5)).save(path, "JPEG", exif=exif)


def sixteen_bits(path: Path) -> None:
    Image.fromarray(np.zeros(SIZE, np.uint16)).save(path)


def copied(folder: Path, tables: Tables) -> None:
    shutil.copy(folder / "photos" / "5.png", folder / "photos" / "6.png")


def boxes_alone(folder: Path, tables: Tables) -> None:
    for row in tables["annotations"]:
        row["segmentation"] = []


def near(folder: Path, tables: Tables) -> None:
    tables["annotations"].append(annotation(9, 5, rectangle(SIZE, 11, 13, 20, 30), 8))


SIXTY = [1, 1, 30, 1, 30, 20, 1, 20]
CASES: dict[str, tuple[Change, dict[str, int]]] = {
    "good": (lambda folder, tables: None, {}),
    "no file": (photo(Path.unlink), {"missing_file": 1}),
    "empty file": (photo(lambda path: path.write_bytes(b"")), {"broken_file": 1}),
    "text": (photo(lambda path: path.write_text("none")), {"broken_file": 1}),
    "folder": (photo(lambda path: (path.unlink(), path.mkdir())), {"broken_file": 1}),
    "other size": (photo(lambda path: Image.new("RGB", (3, 3)).save(path)), {"wrong_size": 1}),
    "16 bits": (photo(sixteen_bits), {"many_bits": 1}),
    "null in a name": (rows("images", 0, file_name="a\0b.png"), {"missing_file": 1, "unlisted_photo": 1}),
    "long name": (rows("images", 0, file_name="x" * 999), {"missing_file": 1, "unlisted_photo": 1}),
    "turned": (photo(lambda path: turned(path, SIZE[::-1], 6)), {"orientation_applied": 1}),
    "not turned": (photo(lambda path: turned(path, SIZE, 6)), {"orientation_ignored": 1}),
    "upside down": (photo(lambda path: turned(path, SIZE, 3)), {"orientation_ignored": 1}),
    "turned, other size": (photo(lambda path: turned(path, (9, 9), 6)), {"wrong_size": 1}),
    "id of text": (rows("annotations", 2, id="3"), {"broken_entry": 1}),
    "id of a fraction": (rows("images", 1, id=6.0), {"broken_entry": 1, "unknown_reference": 2, "unlisted_photo": 1}),
    "no width": (
        drop("images", 0, "width"),
        {"broken_entry": 1, "unknown_reference": 2, "unlisted_photo": 1, "unused_category": 1},
    ),
    "no file name": (
        drop("images", 0, "file_name"),
        {"broken_entry": 1, "unknown_reference": 2, "unlisted_photo": 1, "unused_category": 1},
    ),
    "negative size": (rows("images", 0, height=-23), {"broken_entry": 1, "wrong_size": 1}),
    "no category name": (drop("categories", 1, "name"), {"broken_entry": 1, "unknown_reference": 3}),
    "list of classes": (rows("images", 0, neg_category_ids=8), {"broken_entry": 1}),
    "unknown class in a list": (rows("images", 0, neg_category_ids=[77]), {"unknown_reference": 1}),
    "unknown class": (rows("annotations", 2, category_id=77), {"unknown_reference": 1}),
    "unknown photo": (rows("annotations", 2, image_id=77), {"unknown_reference": 1}),
    "crowd of text": (rows("annotations", 3, iscrowd="0"), {"broken_entry": 1}),
    "id twice": (rows("annotations", 2, id=1), {"duplicate_id": 1}),
    "category twice": (rows("categories", 1, id=3), {"duplicate_id": 1, "unknown_reference": 3}),
    "photo listed twice": (rows("images", 1, file_name="5.png"), {"duplicate_entry": 1, "unlisted_photo": 1}),
    "name twice": (rows("categories", 1, name="cup"), {"duplicate_name": 1}),
    "runs too short": (rows("annotations", 2, segmentation={"size": [23, 37], "counts": [4, 5]}), {"broken_mask": 1}),
    "runs of text": (rows("annotations", 2, segmentation={"size": [23, 37], "counts": "\x01"}), {"broken_mask": 1}),
    "runs of another photo": (
        rows("annotations", 2, segmentation=runs(rectangle((5, 5), 1, 1, 2, 2))),
        {"broken_mask": 1},
    ),
    "polygon of NaN": (rows("annotations", 2, segmentation=[[1, 1, float("nan"), 5, 6, 7]]), {"broken_mask": 1}),
    "polygon of text": (rows("annotations", 2, segmentation=[["a", "b"] * 3]), {"broken_mask": 1}),
    "half a point": (rows("annotations", 2, segmentation=[SIXTY[:-1]]), {"broken_mask": 1}),
    "no mask": (rows("annotations", 2, segmentation=None), {"boxed_object": 1}),
    "neither mask nor box": (rows("annotations", 2, segmentation=None, bbox=None), {"missing_mask": 1}),
    "broken crowd": (rows("annotations", 3, segmentation="x"), {"broken_crowd": 1}),
    "points too few": (rows("annotations", 0, keypoints=[1, 1, 2]), {"broken_keypoints": 1}),
    "points of v 3": (rows("annotations", 0, keypoints=[1, 1, 3, 1, 1, 1]), {"broken_keypoints": 1}),
    "points by one name": (rows("categories", 0, keypoints="left"), {"broken_entry": 1}),
    "boxes alone": (boxes_alone, {"boxes_alone": 1}),
    "no points": (rows("annotations", 2, segmentation=[[]]), {"empty_mask": 1, "empty_polygon": 1}),
    "a polygon without points": (
        rows("annotations", 2, segmentation=[SIXTY, []], bbox=[1, 1, 29, 19]),
        {"empty_polygon": 1},
    ),
    "id 0": (rows("annotations", 2, id=0), {"zero_id": 1}),
    "id 0 of a crowd": (rows("annotations", 3, id=0), {}),
    "empty polygons": (rows("annotations", 2, segmentation=[]), {"empty_mask": 1}),
    "empty mask": (rows("annotations", 2, segmentation=runs(np.zeros(SIZE, bool))), {"empty_mask": 1}),
    "tiny mask": (added("annotations", lambda: annotation(9, 6, rectangle(SIZE, 2, 20, 4, 23), 8)), {"tiny_mask": 1}),
    "other box": (rows("annotations", 2, bbox=[1, 1, 20, 5]), {"box_disagrees": 1}),
    "box outside": (rows("annotations", 2, bbox=[-3, 1, 10, 5]), {"box_disagrees": 1, "outside_photo": 1}),
    "twice": (
        added("annotations", lambda: {**good()["annotations"][1], "id": 9}),
        {"duplicate_annotation": 1},
    ),
    "two classes": (
        added("annotations", lambda: {**good()["annotations"][1], "id": 9, "category_id": 3}),
        {"near_identical_masks": 1},
    ),
    "near": (near, {"near_identical_masks": 1}),
    "copied photo": (copied, {"duplicate_photo": 1}),
    "no annotation": (
        lambda folder, tables: tables["images"].append({"id": 7, "file_name": "../6.png", "height": 23, "width": 37}),
        {"missing_file": 1, "no_annotation": 1},
    ),
    "another photo": (photo(lambda path: Image.new("L", (2, 2)).save(path.with_name("x.PNG"))), {"unlisted_photo": 1}),
    "unused": (added("categories", lambda: {"id": 1, "name": "cat"}), {"unused_category": 1}),
}


class TestKinds:
    @pytest.mark.parametrize("name", CASES)
    def test_findings_are_those_and_errors_are_what_the_reader_refuses(self, tmp_path: Path, name: str) -> None:
        change, expected = CASES[name]
        path = write(tmp_path, change)
        report = check(path)
        assert report.counts() == expected, report.findings
        assert report.is_healthy == (can_be_read(path) or name == "boxes alone")

    def test_every_finding_names_its_file(self, tmp_path: Path) -> None:
        """As the text and the JSON do."""
        for name, (change, _) in CASES.items():
            report = check(write(tmp_path / name.replace(" ", "_"), change))
            for found in report.to_dict()["findings"]:
                assert found["file"].startswith(str(tmp_path)), found
                assert found["message"].startswith(found["file"]), found

    def test_names_of_two_categories(self, tmp_path: Path) -> None:
        path = write(tmp_path, rows("categories", 1, name="cup"))
        (found,) = check(path).of_kind("duplicate_name")
        assert found.message == f"{path}: categories 3, 8 have the name 'cup'"

    def test_all_problems_are_listed(self, tmp_path: Path) -> None:
        """Not only the first one, at which the reader stops."""

        def spoil(folder: Path, tables: Tables) -> None:
            (folder / "photos" / "5.png").unlink()
            (folder / "photos" / "6.png").write_bytes(b"")
            tables["annotations"][0]["category_id"] = 99
            tables["annotations"][1]["segmentation"] = {"size": [23, 37], "counts": [4]}
            tables["annotations"][2]["id"] = True

        report = check(write(tmp_path, spoil))
        assert report.counts("error") == {
            "missing_file": 1,
            "broken_file": 1,
            "broken_entry": 1,
            "unknown_reference": 1,
            "broken_mask": 1,
        }
        assert [found.annotation for found in report.of_kind("broken_mask")] == [2]
        assert [found.photo for found in report.of_kind("missing_file")] == ["5.png"]

    def test_every_kind_has_a_case(self) -> None:
        seen = {kind for _, expected in CASES.values() for kind in expected}
        of_samples = {"broken_box", "sample_mismatch", "unknown_class", "unreadable"}
        of_formats = {"broken_map", "invalid_surface", "left_out"}  # test_health_formats.py
        assert {*KINDS} - seen == {"map_mismatch", "stray_labels", "repeated_id"} | of_samples | of_formats

    def test_an_unknown_kind_is_refused(self) -> None:
        with pytest.raises(ValueError, match="expected a kind of missing_file"):
            Finding("odd", "text")


class TestReport:
    def test_numbers_of_the_good_one(self, tmp_path: Path) -> None:
        report = check(write(tmp_path))
        assert (report.num_photos, report.num_objects, report.num_crowds, report.num_with_keypoints) == (2, 3, 1, 1)
        assert [(c.name, c.num_objects, c.num_photos, c.num_crowds) for c in report.classes] == [
            ("cup", 1, 1, 0),
            ("car", 2, 2, 1),
        ]
        assert (report.photo_width_px.min, report.photo_height_px.max) == (37, 23)
        assert report.photo_modes == {"RGB": 2}
        assert (report.object_area_px.min, report.object_area_px.median, report.object_area_px.max) == (35, 56, 162)
        assert report.object_area_frac.max == 162 / (23 * 37)
        assert report.object_sizes == {"small": 3, "medium": 0, "large": 0}
        assert (report.objects_per_photo.min, report.objects_per_photo.max) == (1, 2)

    def test_text(self, tmp_path: Path) -> None:
        """Printed reports read like the command's output."""
        text = str(check(write(tmp_path, CASES["no file"][0])))
        assert text.startswith("2 images, 3 objects of 2 classes\n\nerrors\n  missing_file ")
        assert "decode=True reads their pixels" in text
        assert "Finding(" not in text

    def test_unlisted_images_of_a_folder_are_one_remark(self, tmp_path: Path) -> None:
        path = write(tmp_path)
        for name in "abcde":
            Image.new("L", (2, 2)).save(tmp_path / "photos" / f"{name}.png")
        (found,) = check(path).findings
        assert found.kind == "unlisted_photo"
        assert found.message == f"{tmp_path / 'photos'}: 5 images, a.png, b.png, c.png, ..."

    def test_json(self, tmp_path: Path) -> None:
        document = json.loads(json.dumps(check(write(tmp_path, CASES["no file"][0])).to_dict()))
        assert document["schema"] == 1
        assert not document["healthy"]
        assert document["errors"] == {"missing_file": 1}
        (found,) = document["findings"]
        assert (found["severity"], found["kind"], found["photo"]) == ("error", "missing_file", "5.png")
        assert document["classes"][0] == {"name": "cup", "num_objects": 1, "num_photos": 1, "num_crowds": 0}

    def test_pixels_are_read_on_request(self, tmp_path: Path) -> None:
        """A file that breaks off after its head."""
        path = write(tmp_path, photo(lambda p: p.write_bytes(p.read_bytes()[:900])))
        assert check(path).is_healthy
        assert check(path, decode=True).counts() == {"broken_file": 1}
        assert not can_be_read(path)

    @pytest.mark.parametrize("num_threads", [1, 3])
    def test_any_number_of_threads(self, tmp_path: Path, num_threads: int) -> None:
        seen: list[None] = []
        path = write(tmp_path, CASES["no file"][0])
        report = check_dataset(
            CocoDetectionV2(tmp_path / "photos", path), num_threads=num_threads, advance=lambda: seen.append(None)
        )
        assert report == check(path)
        assert len(seen) == 2

    def test_nothing_is_written(self, tmp_path: Path) -> None:
        path = write(tmp_path)
        before = {p: os.stat(p).st_mtime_ns for p in tmp_path.rglob("*")}
        check(path, decode=True)
        assert {p: os.stat(p).st_mtime_ns for p in tmp_path.rglob("*")} == before


def test_outlines_are_not_held(tmp_path: Path) -> None:
    """Memory follows the number of annotations, not the length of their outlines."""
    outline = [round(x * 0.37, 2) for x in range(600)]
    tables = good()
    tables["annotations"] = [
        {"id": i, "image_id": 5 + i % 2, "category_id": 8, "bbox": [0, 0, 9, 9], "segmentation": [outline]}
        for i in range(1, 1001)
    ]
    path = tmp_path / "annotations.json"
    path.write_text(json.dumps(tables))
    del tables
    tracemalloc.start()
    try:
        listing = list_coco(path, tmp_path)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(listing.objects) == 1000
    assert held < path.stat().st_size / 4
    assert listing.objects[7].segmentation is not None
    assert listing.objects[7].segmentation(SIZE) == [outline]


class TestRegions:
    @pytest.mark.parametrize("seed", range(5))
    def test_area_box_and_pairs_are_those_of_the_pixels(self, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("segpaste.datasets.checking.objects._BLOCK_SIZE", 40)  # two masks at once
        draws = np.random.default_rng(seed)
        corners = draws.integers(0, 12, (9, 2))
        masks = [rectangle(SIZE, y, x, y + 9, x + 9) for y, x in corners] * 2
        masks = [mask & (draws.random(SIZE) < 0.98) for mask in masks]
        regions = [region_of(runs(mask), SIZE) for mask in masks]
        for mask, region in zip(masks, regions, strict=True):
            ys, xs = np.nonzero(mask)
            assert region.area_px == mask.sum()
            assert region.box == (xs.min(), ys.min(), xs.max() + 1, ys.max() + 1)
        expected = {
            (i, j): (masks[i] & masks[j]).sum() / (masks[i] | masks[j]).sum()
            for j in range(len(masks))
            for i in range(j)
        }
        found = {(i, j): iou for i, j, iou in near_pairs(regions, NEAR_IOU)}
        assert found == pytest.approx({pair: iou for pair, iou in expected.items() if iou >= NEAR_IOU})
        assert found

    def test_more_masks_than_a_block(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("segpaste.datasets.checking.objects._BLOCK_SIZE", 8)
        regions = [region_of(runs(rectangle(SIZE, 1, 1, 9, 9 + i % 3)), SIZE) for i in range(7)]
        pairs = {(i, j) for i, j, _ in near_pairs(regions, 0.99)}
        assert pairs == {(i, j) for j in range(7) for i in range(j) if i % 3 == j % 3}

    def test_an_empty_mask(self) -> None:
        assert region_of([[1, 1, 2, 2]], SIZE) == Region(SIZE, b"", 0, (0, 0, 0, 0))

    def test_a_photo_of_too_many_pixels(self) -> None:
        with pytest.raises(ValueError, match="fewer than 4,294,967,296 pixels"):
            region_of([SIXTY], (1 << 16, 1 << 16))


class TestOtherFormats:
    def panoptic(self, folder: Path, ids: Any, segments: list[dict[str, Any]]) -> CocoPanoptic:
        for name in ("photos", "maps"):
            (folder / name).mkdir()
        Image.fromarray(noise(SIZE)).save(folder / "photos" / "a.png")
        Image.fromarray(np.stack([ids % 256, ids // 256, ids * 0], -1).astype(np.uint8)).save(folder / "maps" / "m.png")
        tables = {
            "images": [{"id": 1, "file_name": "a.png", "height": 23, "width": 37}],
            "annotations": [{"image_id": 1, "file_name": "m.png", "segments_info": segments}],
            "categories": [{"id": 4, "name": "car", "isthing": 1}, {"id": 6, "name": "sky", "isthing": 0}],
        }
        (folder / "labels.json").write_text(json.dumps(tables))
        return CocoPanoptic(folder / "photos", folder / "labels.json", folder / "maps")

    def test_panoptic_maps(self, tmp_path: Path) -> None:
        ids = np.full(SIZE, 300)
        ids[3:9, 2:7] = 9
        segments = [
            {"id": 300, "category_id": 6, "bbox": [0, 0, 37, 23]},
            {"id": 9, "category_id": 4, "bbox": [2, 3, 5, 6]},
        ]
        photos = self.panoptic(tmp_path, ids, segments)
        report = check_dataset(photos, decode=True)
        assert report.findings == ()
        assert (report.num_objects, report.num_stuff, report.object_area_px.max) == (1, 1, 30)
        segments[1]["id"] = 10
        shutil.rmtree(tmp_path / "photos")
        shutil.rmtree(tmp_path / "maps")
        photos = self.panoptic(tmp_path, ids, segments)
        assert check_dataset(photos).is_healthy
        (found,) = check_dataset(photos, decode=True).findings
        text = "segments of a.png: 1 only in the map (9), 1 only in the table (10)"
        assert found.message == f"{tmp_path / 'maps' / 'm.png'}: {text}"
        (tmp_path / "maps" / "m.png").unlink()
        assert check_dataset(photos, decode=True).counts() == {"missing_file": 1}

    def test_yolo(self, tmp_path: Path) -> None:
        path = write_yolo(tmp_path, {"a": f"{SQUARE}\n{SQUARE}\n", "b": ""}, val=None)
        (tmp_path / "labels/train/stray.txt").write_text("")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            photos = YoloDataset(path)
        report = check_dataset(photos)
        assert {kind: num for kind, num in report.counts().items() if kind != "unused_category"} == {
            "duplicate_annotation": 1,
            "no_annotation": 1,
            "stray_labels": 1,
        }
        assert report.object_area_px.min == 64

    def test_broken_yolo(self, tmp_path: Path) -> None:
        """Each broken line is listed; the reader stops at the first."""
        path = write_yolo(tmp_path, {"a": f"0 x\n{SQUARE}\n99 {BOX}\n", "b": "0 5 5 5 5"}, val=None)
        with pytest.raises(DatasetError) as refused:
            YoloDataset(path)
        report = check_unopened(path, refused.value)
        places = [(found.photo, found.annotation) for found in report.of_kind("broken_entry")]
        assert places == [("images/train/a.png", 1), ("images/train/a.png", 3), ("images/train/b.png", 1)]
        assert "a.txt: line 3: expected" in report.findings[1].message

    @pytest.mark.parametrize(("labels", "names", "got"), [([0, 2], ["a", "b"], 2), ([1, -1], [], -1)])
    def test_labels_without_a_class(self, labels: list[int], names: list[str], got: int) -> None:
        """The samples are made by hand: readers of files have classes for all labels."""
        sample = make_sample((48, 48), num_instances=2, modalities={"instance"})

        class Samples(list[DenseSample]):
            class_names = names

        report = check_dataset(Samples([replace(sample, labels=torch.tensor(labels))]), decode=True)
        assert not report.is_healthy
        (found,) = report.of_kind("unknown_class")
        number = int(sample.instance_ids[1])
        assert (
            found.message
            == f"annotation {number} of sample 0: expected a label from 0{' to 1' if names else ''}, got {got}"
        )
        assert found.annotation == number

    @pytest.mark.parametrize(
        ("made", "message"),
        [
            (lambda: raised(ValueError("nine bits")), "ValueError: nine bits"),
            (lambda: raised(DatasetError("sample 1: no file")), "no file"),  # its message names the file
            (lambda: raised(OSError("two\n  lines")), "OSError: two lines"),
            (lambda: raised(AssertionError()), "AssertionError"),
            (lambda: {"a": 1}["b"], "KeyError: 'b'"),
            (
                lambda: own_sample(masks=torch.zeros(1, 48, 64, dtype=torch.uint8)),
                "TypeError: .* dtype bool, got uint8",
            ),
            (lambda: own_sample(labels=torch.zeros(1, dtype=torch.int32)), "TypeError: .* dtype int64, got int32"),
            (lambda: own_sample(crowd=torch.zeros(1, 48, 64)), "TypeError: .* the nearest is 'crowd_mask'"),
            (lambda: (1, 2), "expected a DenseSample, got tuple; convert it in the dataset"),
            (lambda: None, "expected a DenseSample, got NoneType; convert it in the dataset"),
        ],
    )
    def test_a_sample_that_cannot_be_read(self, made: Callable[[], Any], message: str) -> None:
        """It is not an image without annotations, and the samples around it are checked."""
        report = check_dataset(Made(own_sample, made, own_sample), decode=True)
        assert report.counts() == {"unreadable": 1}
        (found,) = report.findings
        assert re.fullmatch(f"sample 1: {message}.*", found.message), found.message
        assert found.photo == "sample 1"
        assert (report.num_photos, report.num_objects) == (3, 2)

    @pytest.mark.parametrize(("name", "values"), [("annotation_ids", [[7]]), ("crowds", [[]])])
    def test_a_method_of_the_dataset_that_fails(self, name: str, values: list[Any]) -> None:
        photos = Made(own_sample, own_sample)
        setattr(photos, name, values.__getitem__)
        (found,) = check_dataset(photos, decode=True).of_kind("unreadable")
        assert found.message == "sample 1: IndexError: list index out of range"

    def test_a_folder_of_images_without_file_names(self, tmp_path: Path) -> None:
        """Many datasets have such an attribute; without names its files are unknown."""
        photos = Made(own_sample)
        photos.images_dir = tmp_path  # type: ignore[attr-defined]
        assert check_dataset(photos, decode=True).findings == ()

    def test_an_interruption_is_no_finding(self) -> None:
        with pytest.raises(KeyboardInterrupt):
            check_dataset(Made(lambda: raised(KeyboardInterrupt())), decode=True)

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"crowd_mask": torch.zeros(1, 48, 64, dtype=torch.bool)}, "expected no crowd_mask, got some"),
            ({"image": torch.zeros(3, 48, 64)}, r"expected an image of uint8 \[3, H, W\], got float32 \[3, H, W\]"),
            (
                {"image": torch.zeros(1, 48, 64, dtype=torch.uint8), "semantic_map": torch.zeros(48, 64).long()},
                r"expected an image of uint8 \[3, H, W\], got uint8 \[1, H, W\]; expected no semantic_map, got some",
            ),
            ({"metric_depth": True}, "expected metric_depth=False, got True"),
            ({"keypoint_schema": POINT, "keypoints": torch.zeros(1, 1, 3)}, "expected no keypoints, got some"),
        ],
    )
    def test_samples_that_cannot_share_a_batch(self, fields: dict[str, Any], message: str) -> None:
        """They are compared with the first sample that can be read."""
        plain, other = own_sample(), own_sample(**fields)
        report = check_dataset(Made(lambda: {}["a"], lambda: plain, lambda: plain, lambda: other), decode=True)
        assert report.counts() == {"sample_mismatch": 1, "unreadable": 1}
        (found,) = report.of_kind("sample_mismatch")
        assert re.fullmatch(f"sample 3 differs from sample 1: {message}", found.message), found.message
        assert found.photo == "sample 3"
        with pytest.raises(ValueError, match="expected"):
            batch_of([plain, other])
        backwards = check_dataset([other, plain, plain], decode=True)
        assert [found.photo for found in backwards.of_kind("sample_mismatch")] == ["sample 1", "sample 2"]

    def test_other_keypoints(self) -> None:
        points = torch.zeros(1, 1, 3)
        samples = [
            own_sample(keypoints=points, keypoint_schema=schema) for schema in (POINT, KeypointSchema(("tail",)))
        ]
        (found,) = check_dataset(samples, decode=True).of_kind("sample_mismatch")
        assert re.fullmatch(r".* expected keypoint_schema=.*head.*, got .*tail.*", found.message), found.message

    def test_what_the_loader_makes_equal_is_no_mismatch(self) -> None:
        """Sizes, and a padding mask, which its jitter adds."""
        padding = torch.zeros(1, 48, 64, dtype=torch.bool)
        smaller = {"image": torch.zeros(3, 32, 40, dtype=torch.uint8), "masks": torch.ones(1, 32, 40, dtype=torch.bool)}
        samples = [own_sample(), own_sample(padding_mask=padding), own_sample(**smaller)]
        assert check_dataset(samples, decode=True).findings == ()
        assert batch_of(samples).batch_size == 3

    def test_any_dataset_of_samples(self) -> None:
        scenes = SceneDataset(2, SceneConfig(height=48, width=48), seed=3)
        report = check_dataset(scenes, decode=True)
        assert report.is_healthy
        assert report.num_objects == sum(len(scenes[i].labels) for i in range(2)) > 0
        assert report.object_area_px.max == max(scenes[i].instance_masks.sum((1, 2)).max() for i in range(2))  # type: ignore[union-attr]
        assert check_dataset(scenes).num_objects == 0

    def test_sizes_and_modes_of_samples_without_files(self) -> None:
        samples = [make_sample((48, 64), modalities={"instance"}), make_sample((32, 40), modalities={"instance"})]
        report = check_dataset(samples, decode=True)
        assert (report.photo_height_px.min, report.photo_width_px.max) == (32, 64)
        assert report.photo_modes == {"uint8 [3, H, W]": 2}
        assert check_dataset(samples).photo_width_px.max is None

    def test_crowds_of_samples_are_counted_by_image(self) -> None:
        sample = make_sample((48, 64), 2, modalities={"instance"})
        crowd = torch.zeros(1, 48, 64, dtype=torch.bool)
        crowd[0, :9, :9] = crowd[0, 20:29, 20:29] = True
        fields = sample.image, sample.instance_masks, sample.labels
        samples = [DenseSample.from_masks(*fields, crowd_mask=mask) for mask in (crowd, crowd, crowd & False)]
        report = check_dataset(samples, decode=True)
        assert (report.num_crowds, report.num_objects) == (2, 6)

    @pytest.mark.parametrize(
        ("change", "kinds"),
        [
            (lambda boxes: boxes, {}),
            (lambda boxes: boxes + torch.tensor([0.5, 0.5, -0.5, -0.5]), {}),
            (lambda boxes: boxes * 255, {"broken_box": 1, "outside_photo": 1}),
            (lambda boxes: boxes + torch.tensor([1, 0, 0, 0]), {"broken_box": 1}),
            (lambda boxes: boxes + torch.tensor([0, 1, 0, 0]), {"broken_box": 1}),
            (lambda boxes: boxes - torch.tensor([0, 0, 1, 0]), {"broken_box": 1}),
            (lambda boxes: boxes - torch.tensor([0, 0, 0, 1]), {"broken_box": 1}),
            (lambda boxes: boxes + torch.tensor([0, 0, 0, 9]), {"box_disagrees": 1}),
            (lambda boxes: boxes + torch.tensor([0, 0, 0, 900]), {"box_disagrees": 1, "outside_photo": 1}),
        ],
    )
    def test_boxes_of_samples(self, change: Callable[[torch.Tensor], torch.Tensor], kinds: dict[str, int]) -> None:
        """Also where nothing is read from a file."""
        masks = torch.zeros(1, 48, 64, dtype=torch.bool)
        masks[0, 10:30, 20:40] = True
        sample = DenseSample.from_masks(torch.zeros(3, 48, 64, dtype=torch.uint8), masks, torch.tensor([0]))
        boxes = tv_tensors.BoundingBoxes(
            change(sample.boxes.as_subclass(torch.Tensor)), format="XYXY", canvas_size=(48, 64)
        )
        report = check_dataset([replace(sample, boxes=boxes)], decode=True)
        assert report.counts() == kinds
        assert report.is_healthy == ("broken_box" not in kinds)

    def test_a_path_that_is_no_dataset(self, tmp_path: Path) -> None:
        error = DatasetError("as the reader said")
        with pytest.raises(DatasetError, match="as the reader said"):
            check_unopened(tmp_path, error)

    def test_a_reason_that_the_check_does_not_know(self, tmp_path: Path) -> None:
        report = check_unopened(write(tmp_path), DatasetError("odd"), None, ReadOptions(images_dir=tmp_path / "photos"))
        assert [(found.kind, found.message) for found in report.findings] == [("unreadable", "odd")]


def test_scan_of_photos(tmp_path: Path) -> None:
    def spoil(folder: Path, tables: Tables) -> None:
        (folder / "photos" / "5.png").unlink()
        Image.new("RGB", (5, 5)).save(folder / "photos" / "6.png")

    photos = CocoDetectionV2(tmp_path / "photos", write(tmp_path, spoil))
    first, second = scan_images(photos, num_threads=2).problems
    assert (first.index, second.index) == (0, 1)
    assert first.path.name == "5.png"
    assert "found no such file" in first.reason
    assert "expected 37 x 23 pixels" in second.reason


@pytest.mark.parametrize("name", ["tiny_coco", "coco128_seg"])
def test_real_photos_are_healthy(test_data: Path, name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name == "tiny_coco":
            photos: Any = CocoDetectionV2(
                test_data / name / "train2017", test_data / name / "annotations" / "instances_train2017.json"
            )
        else:
            photos = find_dataset(test_data / name).open()
    report = check_dataset(photos)
    assert report.is_healthy
    labels = [label for i in range(len(photos)) for label in photos.instance_labels(i)]
    assert report.num_objects == len(labels)
    assert [found.num_objects for found in report.classes] == [labels.count(i) for i in range(len(report.classes))]
