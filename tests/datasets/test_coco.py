"""COCO photos and their annotations as samples, as the COCO API reads them; errors for broken files."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from coco_files import annotation_row, compressed, image_row, write_coco, write_many
from PIL import Image
from pycocotools.coco import COCO

from on_disk import noise, rectangle, runs
from samples import assert_same, plain, tight_boxes
from segpaste.datasets import CocoDetectionV2, DatasetError
from segpaste.datasets.formats.coco import annotations
from segpaste.datasets.formats.coco.annotations import CocoRecords

SIZE = (17, 11)
ORIENTATION = 0x0112


def single(folder: Path, *annotations: Any, size: tuple[int, int] = SIZE, **image: Any) -> CocoDetectionV2:
    """A dataset of one photo."""
    return CocoDetectionV2(*write_coco(folder, [{**image_row(5, size), **image}], list(annotations)))


class TestSample:
    def test_masks_boxes_labels_ids(self, tmp_path: Path) -> None:
        shapes = [rectangle(SIZE, 2, 1, 9, 4), rectangle(SIZE, 0, 0, 17, 11), rectangle(SIZE, 16, 10, 17, 11)]
        shapes[0][5, 8] = True
        rows = [
            annotation_row(31, 5, runs(shapes[0]), 90),
            annotation_row(12, 5, compressed(shapes[1]), 3),
            annotation_row(77, 5, runs(shapes[2]), 7),
        ]
        dataset = single(tmp_path, *rows)
        sample = dataset[0]
        np.testing.assert_array_equal(plain(sample.instance_masks), shapes)
        np.testing.assert_array_equal(plain(sample.boxes), [[1, 2, 9, 9], [0, 0, 11, 17], [10, 16, 11, 17]])
        assert (dataset.class_names, dataset.category_ids) == (("car", "cup", "zebra"), (3, 7, 90))
        assert [dataset.class_names[i] for i in sample.labels] == ["zebra", "car", "cup"]
        assert sample.instance_ids.tolist() == [1, 2, 3]
        assert dataset.annotation_ids(0) == (31, 12, 77)
        np.testing.assert_array_equal(plain(sample.image), noise(SIZE, 5).transpose(2, 0, 1))
        assert (dataset.image_id(0), dataset.file_name(0)) == (5, "5.png")

    def test_crowds_and_ignored_regions_are_no_instances(self, tmp_path: Path) -> None:
        dataset = single(
            tmp_path,
            annotation_row(1, 5, runs(rectangle(SIZE, 0, 0, 3, 3)), iscrowd=1),
            annotation_row(2, 5, runs(rectangle(SIZE, 4, 4, 9, 9))),
            annotation_row(3, 5, [[0, 12, 5, 12, 5, 17, 0, 17]], ignore=1),
        )
        assert dataset.annotation_ids(0) == (2,)
        assert dataset[0].num_instances == 1
        expected = rectangle(SIZE, 0, 0, 3, 3) | rectangle(SIZE, 12, 0, 17, 5)
        np.testing.assert_array_equal(dataset.crowd_mask(0).numpy(), expected)

    def test_photo_without_annotations(self, tmp_path: Path) -> None:
        sample = single(tmp_path)[0]
        assert sample.num_instances == 0
        assert sample.boxes.shape == (0, 4)
        assert sample.instance_masks.shape == (0, *SIZE)

    def test_empty_masks_are_left_out_and_counted(self, tmp_path: Path) -> None:
        dataset = single(
            tmp_path,
            annotation_row(1, 5, runs(np.zeros(SIZE, bool))),
            annotation_row(2, 5, runs(rectangle(SIZE, 4, 4, 9, 9)), 7),
            annotation_row(3, 5, [], bbox=None),
            annotation_row(4, 5, [[400, 400, 500, 400, 500, 500]]),
        )
        assert dataset.num_empty_masks == 0
        with pytest.warns(UserWarning, match="annotation 1 has no pixel"):
            sample = dataset[0]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert dataset.annotation_ids(0) == (2,)
        assert (sample.num_instances, sample.instance_ids.tolist(), sample.labels.tolist()) == (1, [1], [1])
        assert dataset.num_empty_masks == 3

    def test_transforms_are_called(self, tmp_path: Path) -> None:
        paths = write_many(tmp_path)
        dataset = CocoDetectionV2(*paths, transforms=lambda sample: CocoDetectionV2(*paths)[sample.num_instances])
        assert dataset[3].num_instances == 3
        assert dataset[2].canvas_size == CocoDetectionV2(*paths)[2].canvas_size

    def test_is_a_sequence(self, tmp_path: Path) -> None:
        dataset = CocoDetectionV2(*write_many(tmp_path))
        assert len(dataset) == 7
        assert [dataset.image_id(i) for i in range(7)] == list(range(100, 107))
        assert [sample.num_instances for sample in dataset] == [0, 1, 2, 3, 0, 1, 2]
        assert_same(dataset[-1], dataset[6])
        with pytest.raises(IndexError):
            dataset[7]


class TestPhoto:
    def test_cmyk_keeps_its_colours(self, tmp_path: Path) -> None:
        (tmp_path / "photos").mkdir()
        Image.new("CMYK", SIZE[::-1], (0, 255, 255, 0)).save(tmp_path / "photos" / "a.jpg", quality=100)
        red, green, blue = plain(single(tmp_path, file_name="a.jpg")[0].image).mean((1, 2))
        assert red > 200
        assert max(green, blue) < 60

    def rotated(self, folder: Path, size: tuple[int, int], orientation: int, suffix: str = "png") -> CocoDetectionV2:
        """Write a photo of ``SIZE`` as stored whose EXIF rotates it, annotated on ``size``."""
        (folder / "photos").mkdir()
        exif = Image.Exif()
        exif[ORIENTATION] = orientation
        Image.fromarray(noise(SIZE)).save(folder / "photos" / f"a.{suffix}", exif=exif)
        return single(folder, size=size, file_name=f"a.{suffix}")

    def test_jpeg_annotated_as_shown(self, tmp_path: Path) -> None:
        dataset = self.rotated(tmp_path, SIZE[::-1], 6, "jpg")
        stored = np.array(Image.open(tmp_path / "photos" / "a.jpg"))
        np.testing.assert_array_equal(plain(dataset[0].image), np.rot90(stored, -1).transpose(2, 0, 1))

    @pytest.mark.parametrize(("size", "orientation"), [((18, 11), 6), (SIZE[::-1], 1), (SIZE[::-1], 3)])
    def test_neither_size_fits(self, tmp_path: Path, size: tuple[int, int], orientation: int) -> None:
        with pytest.raises(DatasetError, match=r"a\.png: expected .* got 11 x 17"):
            self.rotated(tmp_path, size, orientation)[0]

    @pytest.mark.parametrize("damage", ["missing", "truncated", "no image", "empty", "folder"])
    @pytest.mark.parametrize("suffix", ["jpg", "png"])
    def test_broken_file_is_named(self, tmp_path: Path, damage: str, suffix: str) -> None:
        dataset = single(tmp_path, size=(40, 50), file_name=f"a.{suffix}")
        path = tmp_path / "photos" / f"a.{suffix}"
        whole = path.read_bytes()
        path.unlink()
        if damage == "folder":
            path.mkdir()
        elif damage != "missing":
            path.write_bytes({"truncated": whole[: len(whole) // 2], "no image": b"hello" * 40, "empty": b""}[damage])
        with pytest.raises(DatasetError, match=rf"a\.{suffix}: expected an image") as caught:
            dataset[0]
        assert "\n" not in str(caught.value)


class TestBrokenAnnotations:
    def read(self, folder: Path, text: str | bytes) -> CocoDetectionV2:
        path = folder / "annotations.json"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return CocoDetectionV2(folder, path)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "expected JSON"),
            ('{"images": [', "expected JSON"),
            (b"\xff\xfe\x00", "expected text in UTF-8, got UTF-16"),
            ("[" * 100_000, "expected JSON"),
            ("[]", "JSON object with the keys images, annotations, categories"),
            ("{}", "a list under the key 'images'"),
            ('{"images": [], "annotations": []}', "key 'categories'.*has the keys annotations, images"),
            ('{"images": {}, "annotations": [], "categories": []}', "key 'images', got dict"),
            ('{"images": [3], "annotations": [], "categories": []}', r"images\[0\]: expected an object"),
        ],
        ids=lambda value: str(value)[:30],
    )
    def test_not_a_dataset(self, tmp_path: Path, text: str, message: str) -> None:
        with pytest.raises(
            DatasetError, match=rf"annotations\.json: .*{message}|annotations\.json.*{message}"
        ) as caught:
            self.read(tmp_path, text)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"images": [{"id": 5, "file_name": "a"}]}, r"images\[0\].*'height' is missing"),
            ({"images": [image_row(True, SIZE)]}, "'id' of type int, got True"),
            ({"images": [{**image_row(5, SIZE), "width": 11.0}]}, "'width' of type int, got 11.0"),
            ({"images": [image_row(5, (0, 3))]}, "size of image 5 > 0"),
            ({"images": [image_row(5, SIZE)] * 2}, "unique ids in 'images', got 5 twice"),
            ({"annotations": [annotation_row(1, 5, [])] * 2}, "unique ids in 'annotations', got 1 twice"),
            ({"annotations": [annotation_row(1, 6, [])]}, "annotation 1 refers to in 'images', got 6"),
            ({"annotations": [annotation_row(1, 5, [], 8)]}, "annotation 1 refers to in 'categories', got 8"),
            ({"categories": [{"id": 1, "name": "a"}, {"id": 1, "name": "b"}]}, "'categories', got 1 twice"),
            ({"categories": [{"id": 1}]}, "'name' is missing"),
        ],
        ids=lambda value: str(value)[:40],
    )
    def test_inconsistent_tables(self, tmp_path: Path, change: dict[str, Any], message: str) -> None:
        whole = {"images": [image_row(5, SIZE)], "annotations": [], "categories": [{"id": 3, "name": "car"}]}
        assert len(self.read(tmp_path, json.dumps(whole))) == 1
        with pytest.raises(DatasetError, match=message) as caught:
            self.read(tmp_path, json.dumps({**whole, **change}))
        assert str(caught.value).startswith(str(tmp_path / "annotations.json"))
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        "segmentation", [None, [[1, 2, 3, 4, 5, float("nan")]], {"size": [17, 11], "counts": "00"}]
    )
    def test_undecodable_annotation_is_named(self, tmp_path: Path, segmentation: Any) -> None:
        dataset = single(tmp_path, annotation_row(41, 5, segmentation))
        with pytest.raises(
            DatasetError, match=r"annotations\.json: annotation 41 of image 5 \(5\.png\): exp"
        ) as caught:
            dataset[0]
        assert "\n" not in str(caught.value)

    def test_missing_paths(self, tmp_path: Path) -> None:
        images_dir, path = write_many(tmp_path)
        with pytest.raises(DatasetError, match="no such file"):
            CocoDetectionV2(images_dir, tmp_path / "none.json")
        with pytest.raises(DatasetError, match="readable annotation file"):
            CocoDetectionV2(images_dir, tmp_path)
        with pytest.raises(DatasetError, match="expected a folder"):
            CocoDetectionV2(tmp_path / "none", path)


def test_real_photos_equal_the_coco_api(test_data: Path) -> None:
    path = test_data / "tiny_coco" / "annotations" / "instances_val2017.json"
    dataset = CocoDetectionV2(test_data / "tiny_coco" / "val2017", path)
    api = COCO(path)
    assert len(dataset) == 50
    assert len(dataset.class_names) == 80
    num_crowds = 0
    for index, sample in enumerate(dataset):
        rows = api.loadAnns(api.getAnnIds(imgIds=dataset.image_id(index)))
        rows_by_id = {row["id"]: row for row in rows if not row["iscrowd"]}
        assert set(dataset.annotation_ids(index)) == set(rows_by_id)
        own = [rows_by_id[i] for i in dataset.annotation_ids(index)]
        assert [dataset.category_ids[label] for label in sample.labels] == [row["category_id"] for row in own]
        for mask, row in zip(plain(sample.instance_masks), own, strict=True):
            np.testing.assert_array_equal(mask, api.annToMask(row).astype(bool))
        assert torch.equal(sample.boxes.as_subclass(torch.Tensor), tight_boxes(plain(sample.instance_masks)))
        crowd = np.zeros(sample.canvas_size, bool)
        for row in rows:
            crowd |= api.annToMask(row).astype(bool) & bool(row["iscrowd"])
        np.testing.assert_array_equal(dataset.crowd_mask(index).numpy(), crowd)
        num_crowds += sum(row["iscrowd"] for row in rows)
        with Image.open(dataset.photo_file(index)[0]) as photo:
            np.testing.assert_array_equal(plain(sample.image), np.array(photo.convert("RGB")).transpose(2, 0, 1))
    assert num_crowds > 0


@pytest.mark.parametrize("size", [(0, 3), (3, 0)])
def test_a_photo_without_pixels(size: tuple[int, int], tmp_path: Path) -> None:
    row = {"id": 5, "file_name": "a.png", "height": size[0], "width": size[1]}
    (tmp_path / "a.json").write_text(json.dumps({"images": [row], "annotations": [], "categories": []}))
    with pytest.raises(DatasetError, match="size of image 5 > 0"):
        CocoDetectionV2(tmp_path, tmp_path / "a.json")


def test_a_file_is_no_folder_and_no_folder_holds_the_annotations(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text("{}")
    with pytest.raises(DatasetError, match="expected a folder"):
        CocoDetectionV2(file, file)
    with pytest.raises(DatasetError, match="readable annotation file"):
        CocoDetectionV2(tmp_path, file / "b.json")


def test_a_record_is_decoded_once_for_several_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last images only, and none with very many annotations, which are large."""
    dataset = CocoDetectionV2(*write_many(tmp_path, 20))
    decoded: list[int] = []
    one = CocoRecords._record
    monkeypatch.setattr(CocoRecords, "_record", lambda records, index: decoded.append(index) or one(records, index))
    for index in (3, 3, -17, *range(20), 3):
        assert len(dataset.annotation_ids(index)) == index % 4
    assert decoded == [3, 0, 1, 2, *range(4, 20), 3]
    decoded.clear()
    monkeypatch.setattr(annotations, "_FEW_ENTRIES", 2)
    for index in (7, 7, 6, 6):
        dataset.crowd_mask(index)
    assert decoded == [7, 7, 6]
