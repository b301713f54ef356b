"""Conversions between COCO's formats: every entry, key and table comes along, and photos keep their bytes."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import health_files
import pytest
from coco_files import compressed
from conversion_world import OTHERS, SIZES, mask_of, read_json, write_instances, xywh
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pycocotools.coco import COCO

from on_disk import rectangle
from segpaste.datasets import DatasetError, convert_dataset, open_dataset
from yolo_files import BOX, SQUARE, TRIANGLE, write_roboflow, write_yolo

DATA = os.environ.get("SEGPASTE_TEST_DATA")
on_data = pytest.mark.skipif(DATA is None, reason="SEGPASTE_TEST_DATA names no folder of photo sets")

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
unknown = st.dictionaries(st.text(max_size=4).map("x_{}".format), values, max_size=3)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the tables of a file, whose ids have no order, with unknown keys everywhere."""
    ids = st.integers(0, 2**40)
    categories = [
        {"name": f"class {i}", "id": number, **draw(unknown)}
        for i, number in enumerate(draw(st.lists(ids, min_size=1, max_size=3, unique=True)))
    ]
    images = [
        {"width": 7, **draw(unknown), "height": 5, "id": number, "file_name": f"{i}.png"}
        for i, number in enumerate(draw(st.lists(ids, min_size=1, max_size=3, unique=True)))
    ]
    rows = []
    for number in draw(st.lists(ids, max_size=4, unique=True)):
        mask = rectangle((5, 7), 1, 1, draw(st.integers(2, 5)), draw(st.integers(2, 7)))
        row = {"id": number, "image_id": draw(st.sampled_from(images))["id"], "segmentation": compressed(mask)}
        row |= {"category_id": draw(st.sampled_from(categories))["id"], "iscrowd": draw(st.integers(0, 1))}
        rows.append({**row, "area": draw(st.floats(0, 99)), "bbox": [0, 0, 1, 1], **draw(unknown)})
    return {**draw(unknown), "images": images, "annotations": rows, "categories": categories}


def by_image(document: Any) -> dict[Any, Any]:
    """The annotations of each image in the order of the file: that of different images may change."""
    return {
        image["id"]: [a for a in document["annotations"] if a["image_id"] == image["id"]]
        for image in document["images"]
    }


def check_same(before: Any, after: Any) -> None:
    """All tables say the same, and annotations are in the order of their images."""
    assert {**after, "annotations": None} == {**before, "annotations": None}
    assert by_image(after) == by_image(before)
    assert len(after["annotations"]) == len(before["annotations"])


@given(document=documents())
@settings(settings.get_profile("few"))
def test_nothing_is_lost_between_formats_of_entries(document: dict[str, Any]) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "photos").mkdir()
        for row in document["images"]:
            Image.new("RGB", (7, 5)).save(folder / "photos" / row["file_name"])
        (folder / "a.json").write_text(json.dumps(document))
        first = convert_dataset(folder / "a.json", folder / "1", "coco", images_dir=folder / "photos")
        second = convert_dataset(folder / "1", folder / "2", "roboflow")
        assert not first.losses
        assert not second.losses
        check_same(document, read_json(folder / "1" / "annotations.json"))
        check_same(document, read_json(folder / "2" / "train" / "_annotations.coco.json"))


class TestCoco:
    def test_pycocotools_reads_the_same(self, tmp_path: Path) -> None:
        images_dir, path = write_instances(tmp_path)
        summary = convert_dataset(path, tmp_path / "out", "coco", images_dir=images_dir)
        assert (dict(summary.losses), dict(summary.num_photos)) == ({}, {"": 2})
        assert (dict(summary.num_objects), dict(summary.num_crowds)) == ({"": 3}, {"": 2})
        before, after = COCO(str(path)), COCO(str(tmp_path / "out" / "annotations.json"))
        before.anns[41]["iscrowd"] = 1  # an ignored region
        for row in before.anns.values():
            row.setdefault("iscrowd", 0)
        assert (after.anns, after.imgs, after.cats) == (before.anns, before.imgs, before.cats)
        for key in OTHERS:
            assert after.dataset[key] == OTHERS[key]
        for row in before.imgs.values():
            photo = (tmp_path / "out" / "images" / row["file_name"]).read_bytes()
            assert photo == (images_dir / row["file_name"]).read_bytes()

    def test_what_readers_need_is_added(self, tmp_path: Path) -> None:
        images_dir, path = write_instances(tmp_path)
        document = read_json(path)
        for row in document["annotations"]:
            for key in ("iscrowd", "area", "bbox"):
                row.pop(key)
        path.write_text(json.dumps(document))
        convert_dataset(path, tmp_path / "out", "coco", images_dir=images_dir)
        for row in read_json(tmp_path / "out" / "annotations.json")["annotations"]:
            mask = mask_of(row)
            is_crowd = int(row["id"] == 41)  # the ignored region; the flag of the crowd was removed
            assert (row["area"], row["bbox"], row["iscrowd"]) == (mask.sum(), xywh(mask), is_crowd)

    def test_splits(self, tmp_path: Path) -> None:
        write_roboflow(tmp_path / "in")
        summary = convert_dataset(tmp_path / "in", tmp_path / "out", "coco")
        assert dict(summary.num_photos) == {"test": 3, "train": 3, "valid": 3}
        for split in summary.num_photos:
            after = read_json(tmp_path / "out" / "annotations" / f"instances_{split}.json")
            assert [row.pop("area") for row in after["annotations"]] == [56, 56, 56]
            check_same(read_json(tmp_path / "in" / split / "_annotations.coco.json"), after)
            assert len(open_dataset(tmp_path / "out", split)) == 3
        convert_dataset(tmp_path / "in", tmp_path / "one", "coco", splits=["valid"])
        assert sorted(path.name for path in (tmp_path / "one").iterdir()) == ["annotations", "valid"]

    def test_names_stay_inside(self, tmp_path: Path) -> None:
        images_dir, path = write_instances(tmp_path)
        document = read_json(path)
        document["images"][0]["file_name"] = "../photos/a/one.png"
        path.write_text(json.dumps(document))
        convert_dataset(path, tmp_path / "out", "coco", images_dir=images_dir)
        assert read_json(tmp_path / "out/annotations.json")["images"][0]["file_name"] == "photos/a/one.png"
        assert (tmp_path / "out/images/photos/a/one.png").is_file()


class TestLvis:
    def test_lists_counts_and_crowds(self, tmp_path: Path) -> None:
        images_dir, path = write_instances(tmp_path)
        document = read_json(path)
        document["images"][0]["neg_category_ids"] = [7]
        document["images"][1]["not_exhaustive_category_ids"] = [90]
        path.write_text(json.dumps(document))
        summary = convert_dataset(path, tmp_path / "out", "lvis", images_dir=images_dir)
        assert dict(summary.losses) == {"crowd regions": 1, "ignored regions": 1}
        written = read_json(tmp_path / "out" / "annotations" / "lvis_train.json")
        lists = [(row["neg_category_ids"], row["not_exhaustive_category_ids"]) for row in written["images"]]
        assert lists == [([], [3, 7]), ([], [90])]
        counts = {
            row["id"]: (row["image_count"], row["instance_count"], row["frequency"]) for row in written["categories"]
        }
        assert counts == {90: (1, 1, "r"), 3: (1, 1, "r"), 7: (1, 1, "r")}
        assert [row["id"] for row in written["annotations"]] == [30, 31, 32]
        assert open_dataset(tmp_path / "out").federated(1) is not None

    @pytest.mark.parametrize(("num", "frequency"), [(10, "r"), (11, "c"), (100, "c"), (101, "f")])
    def test_frequencies(self, num: int, frequency: str) -> None:
        from segpaste.datasets.writers.format import SampleRows, View, WrittenSplit
        from segpaste.datasets.writers.lvis import lvis_categories

        rows = [SampleRows({"id": i}, [{"category_id": 1}] * 2) for i in range(num)]
        category = lvis_categories(
            WrittenSplit(View("lvis", "train", ()), {}, [{"id": 1, "name": "cup"}], lambda: rows)
        )[0]
        assert (category["frequency"], category["image_count"], category["instance_count"]) == (frequency, num, 2 * num)

    @on_data
    def test_a_file_of_lvis_comes_back(self, tmp_path: Path) -> None:
        """The photos are not there; empty ones of their size stand for them."""
        assert DATA is not None
        path = Path(DATA) / "lvis_val_100/split/lvis_val_100_dev.json"
        document = read_json(path)
        (tmp_path / "photos").mkdir()
        for row in document["images"]:
            Image.new("1", (row["width"], row["height"])).save(tmp_path / "photos" / row["file_name"], "PNG")
        summary = convert_dataset(path, tmp_path / "out", "lvis", images_dir=tmp_path / "photos")
        assert not summary.losses
        check_same(document, read_json(tmp_path / "out/annotations/lvis_train.json"))


class TestYolo:
    def test_polygons_are_kept(self, tmp_path: Path) -> None:
        data = write_yolo(tmp_path / "in")
        with warnings.catch_warnings(action="ignore"):
            convert_dataset(data, tmp_path / "out", "coco")
        written = COCO(str(tmp_path / "out/annotations/instances_train.json"))
        square, triangle = written.loadAnns(written.getAnnIds(imgIds=[1]))
        assert square["segmentation"] == [[4.0, 4.0, 12.0, 4.0, 12.0, 12.0, 4.0, 12.0]]
        assert (square["bbox"], square["area"], square["category_id"]) == ([4, 4, 8, 8], 64, 2)
        assert triangle["category_id"] == 3
        before, after = open_dataset(data), open_dataset(tmp_path / "out")
        for index in range(len(before)):
            assert before[index].instance_masks.equal(after[index].instance_masks)  # type: ignore[union-attr]

    def test_labels_stay_as_they_are(self, tmp_path: Path) -> None:
        data = write_yolo(tmp_path / "in", download="never", kpt_shape=None)
        summary = convert_dataset(data, tmp_path / "out", "yolo")
        assert not summary.losses
        for path in (tmp_path / "in" / "labels").rglob("*.txt"):
            assert (tmp_path / "out/labels" / path.relative_to(tmp_path / "in/labels")).read_text() == path.read_text()
        assert "download: never" in (tmp_path / "out/data.yaml").read_text()

    def test_other_tasks_say_what_is_lost(self, tmp_path: Path) -> None:
        data = write_yolo(tmp_path / "in", {"a": f"{SQUARE}\n{TRIANGLE}\n", "b": ""})
        summary = convert_dataset(data, tmp_path / "out", "yolo", task="detect")
        assert dict(summary.losses) == {"masks of objects (the task detect has none)": 4}
        assert (tmp_path / "out/labels/train/a.txt").read_text().splitlines()[0] == "1 0.2 0.4 0.2 0.4"
        convert_dataset(data, tmp_path / "obb", "yolo", task="obb")
        square = (tmp_path / "obb/labels/train/a.txt").read_text().splitlines()[0]
        assert square == "1 0.1 0.2 0.3 0.2 0.3 0.6 0.1 0.6"

    def test_boxes_and_polygons_in_one_dataset_are_read_as_boxes_on_request(self, tmp_path: Path) -> None:
        data = write_yolo(tmp_path / "in", {"a": f"{SQUARE}\n{BOX}\n", "b": ""})
        with pytest.raises(DatasetError, match="boxes give no masks"):
            convert_dataset(data, tmp_path / "out", "coco")
        convert_dataset(data, tmp_path / "out", "coco", task="detect")
        rows = read_json(tmp_path / "out/annotations/instances_train.json")["annotations"]
        assert [row.get("segmentation") for row in rows] == [None] * len(rows)

    def test_two_photos_that_differ_in_their_suffix(self, tmp_path: Path) -> None:
        images_dir, path = write_instances(tmp_path)
        document = read_json(path)
        document["images"].append({"id": 9, "file_name": "two.bmp", "height": SIZES[1][0], "width": SIZES[1][1]})
        Image.new("RGB", SIZES[1][::-1]).save(images_dir / "two.bmp")
        path.write_text(json.dumps(document))
        with warnings.catch_warnings(action="ignore"):
            summary = convert_dataset(path, tmp_path / "out", "yolo", images_dir=images_dir)
        assert summary.losses["key 'license' of images"] == 1
        names = sorted(p.name for p in (tmp_path / "out/images/train").rglob("*.*"))
        assert names == ["one.png", "two.png", "two_2.bmp"]

    def test_a_photo_whose_labels_are_drawn_unturned(self, tmp_path: Path) -> None:
        images_dir, path = write_instances(tmp_path)
        exif = Image.Exif()
        exif[0x0112] = 6
        before = open_dataset(path, images_dir=images_dir)[0]
        with Image.open(images_dir / "a/one.png") as photo:
            photo.load()
        photo.save(images_dir / "a/one.png", exif=exif)
        with warnings.catch_warnings(action="ignore"):
            convert_dataset(path, tmp_path / "out", "yolo", images_dir=images_dir)
        after = open_dataset(tmp_path / "out")[0]
        assert after.image.equal(before.image)
        assert after.instance_masks.equal(before.instance_masks)  # type: ignore[union-attr]


@on_data
@pytest.mark.parametrize("name", ["tiny_coco", "fruits_nuts", "panoptic", "coco128_seg"])
def test_real_sets_come_back(tmp_path: Path, name: str) -> None:
    assert DATA is not None
    data = Path(DATA)
    if name == "tiny_coco":
        summary = convert_dataset(data / name, tmp_path / "out", "coco")
        for split in ("train2017", "val2017"):
            file = f"annotations/instances_{split}.json"
            check_same(read_json(data / name / file), read_json(tmp_path / "out" / file))
        photos = sorted((data / name / "train2017").iterdir())
        assert all((tmp_path / "out/train2017" / p.name).read_bytes() == p.read_bytes() for p in photos)
    elif name == "fruits_nuts":
        path = data / name / "trainval.json"
        summary = convert_dataset(path, tmp_path / "out", "coco", images_dir=data / name / "images")
        check_same(read_json(path), read_json(tmp_path / "out/annotations.json"))
    elif name == "panoptic":
        folder = data / "coco_panoptic_samples"
        path = folder / "split/panoptic_examples_142238.json"
        dirs = {"images_dir": folder / "input_images", "panoptic_dir": folder / "panoptic_examples"}
        summary = convert_dataset(path, tmp_path / "out", "coco-panoptic", **dirs)
        check_same(read_json(path), read_json(tmp_path / "out/panoptic.json"))
        png = "000000142238.png"
        assert (tmp_path / "out/panoptic" / png).read_bytes() == (folder / "panoptic_examples" / png).read_bytes()
    else:
        with warnings.catch_warnings(action="ignore"):
            summary = convert_dataset(data / name, tmp_path / "out", "yolo")
        for path in (data / name / "images").rglob("*.jpg"):
            written = tmp_path / "out" / path.relative_to(data / name)
            assert written.read_bytes() == path.read_bytes()
            labels = Path(str(path).replace("/images/", "/labels/")).with_suffix(".txt")
            text = labels.read_text() if labels.exists() else ""
            assert (tmp_path / "out/labels/train2017" / labels.name).read_text() == text
    assert dict(summary.losses) == ({"label files without an image": 1} if name == "coco128_seg" else {})


def test_crowds_of_copied_segments_are_counted_apart(tmp_path: Path) -> None:
    health_files.write(tmp_path / "in", "panoptic")
    file = next((tmp_path / "in").rglob("panoptic*.json"))
    tables = read_json(file)
    things = {row["id"] for row in tables["categories"] if row["isthing"]}
    segment = next(row for row in tables["annotations"][0]["segments_info"] if row["category_id"] in things)
    segment["iscrowd"] = 1
    file.write_text(json.dumps(tables))
    summary = convert_dataset(tmp_path / "in", tmp_path / "out", "coco-panoptic")
    num = len(tables["annotations"])
    assert (sum(summary.num_objects.values()), sum(summary.num_crowds.values())) == (num - 1, 1)


class TestRuns:
    def test_an_interrupted_run_resumes(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from segpaste.datasets.conversion import conversion

        images_dir, path = write_instances(tmp_path)
        monkeypatch.setattr(conversion, "_PHOTOS_AT_ONCE", 1)
        shutil.move(images_dir / "two.png", tmp_path / "away.png")
        with pytest.raises(DatasetError, match=r"two\.png: expected an image, found no such file.*resumes from there"):
            convert_dataset(path, tmp_path / "out", "coco", images_dir=images_dir)
        assert not (tmp_path / "out").exists()
        written = tmp_path / "out.partial/files/images/a/one.png"
        time = written.stat().st_mtime_ns
        shutil.move(tmp_path / "away.png", images_dir / "two.png")
        convert_dataset(path, tmp_path / "out", "coco", images_dir=images_dir)
        assert (tmp_path / "out/images/a/one.png").stat().st_mtime_ns == time
        assert not (tmp_path / "out.partial").exists()
        written = {row["id"]: row["iscrowd"] for row in read_json(tmp_path / "out/annotations.json")["annotations"]}
        assert written == {30: 0, 31: 0, 32: 0, 40: 1, 41: 1}

    def test_a_link_and_a_taken_name_are_refused(self, tmp_path: Path) -> None:
        images_dir, path = write_instances(tmp_path)
        (tmp_path / "there").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "there")
        with pytest.raises(DatasetError, match="link: expected --out to be new or an empty folder, got a link"):
            convert_dataset(path, tmp_path / "link", "coco", images_dir=images_dir)
        with pytest.raises(DatasetError, match="photos: expected --out to be new or an empty folder"):
            convert_dataset(path, images_dir, "coco", images_dir=images_dir)
        with pytest.raises(DatasetError, match=r"format \(--to\): expected one of coco, coco-panoptic, lvis"):
            convert_dataset(path, tmp_path / "out", "tfrecord", images_dir=images_dir)
