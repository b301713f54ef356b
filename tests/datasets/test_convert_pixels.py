"""Conversions into maps, XML and segments, read again by plain readers."""

from __future__ import annotations

import json
import os
import warnings
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from conversion_world import SIZES, mask_of, read_json, read_map, voc_objects, write_instances, xywh
from numpy.typing import NDArray
from PIL import Image

from on_disk import rectangle
from samples import SCHEMA, make_sample
from segpaste.datasets import DatasetError, convert_dataset, open_dataset
from segpaste.datasets.formats.pixel_bytes import DepthFormat, depth_mm, geometry_files, intrinsics_text, num_too_far
from segpaste.datasets.writers.coco_panoptic import segments_of
from segpaste.datasets.writers.expectation import geometry_values
from segpaste.datasets.writers.format import LabelledImage, Losses, View, WrittenSplit
from segpaste.datasets.writers.label_maps import LabelMaps
from segpaste.datasets.writers.layouts import WrittenLayout
from segpaste.datasets.writers.ledger import checksum
from segpaste.datasets.writers.voc import PascalVoc, voc_palette
from segpaste.types import Modality
from written import write_image, write_rest
from yolo_files import BOX, write_roboflow, write_yolo

DATA = os.environ.get("SEGPASTE_TEST_DATA")
on_data = pytest.mark.skipif(DATA is None, reason="SEGPASTE_TEST_DATA names no folder of photo sets")
NAMES = ["car", "cup", "zebra"]


def painted(document: dict[str, list[dict[str, object]]], size: tuple[int, int]) -> NDArray[np.int64]:
    """The position of the object at each pixel of the first photo, from 1; the smaller is on top."""
    owners = np.zeros(size, np.int64)
    rows = [row for row in document["annotations"] if not row.get("iscrowd") and not row.get("ignore")]
    masks = [mask_of(row) for row in rows]
    for y in range(size[0]):
        for x in range(size[1]):
            here = [(int(mask.sum()), -n) for n, mask in enumerate(masks, start=1) if mask[y, x]]
            owners[y, x] = -min(here)[1] if here else 0
    return owners


class TestVoc:
    def test_boxes_maps_and_attributes(self, tmp_path: Path) -> None:
        images_dir, path = write_instances(tmp_path)
        document = read_json(path)
        document["images"][0] |= {"attributes": {"source": {"database": "mine"}}, "a key": 1}
        path.write_text(json.dumps(document))
        summary = convert_dataset(path, tmp_path / "out", "voc", images_dir=images_dir)
        root = ElementTree.parse(tmp_path / "out/Annotations/a_one.xml").getroot()
        texts = [root.findtext(key) for key in ("filename", "folder", "license", "source/database", "size/depth")]
        assert texts == ["a_one.png", "VOC", "4", "mine", "3"]
        assert dict(summary.losses) == {
            "exact masks of crowd and ignored regions": 1,  # objects lie over the crowd
            "file names of images": 1,
            "key 'a key' of images": 1,
            "key 'parts' of annotations": 1,
            "objects partly covered by another": 1,
            "table 'info'": 1,
            "table 'licenses'": 1,
            "table 'type'": 1,
        }
        assert (tmp_path / "out/JPEGImages/a_one.png").read_bytes() == (images_dir / "a/one.png").read_bytes()
        found = voc_objects(tmp_path / "out/Annotations/a_one.xml")
        rows = read_json(path)["annotations"]
        assert [item["name"] for item in found] == ["car", "zebra", "cup", "cup", "car"]
        for item, row in zip(found, rows, strict=True):
            ys, xs = np.nonzero(mask_of(row))
            assert item["box"] == [xs.min() + 1, ys.min() + 1, xs.max() + 1, ys.max() + 1]
        assert [item["difficult"] for item in found] == ["0", "0", "0", "1", "1"]
        assert found[0]["occluded"] == "1"
        assert found[0]["attributes"] == {"score": "0.25", "maker": "é <&>"}
        assert (found[3]["attributes"], found[4]["attributes"]) == ({"iscrowd": "1"}, {"ignore": "1"})
        assert voc_objects(tmp_path / "out/Annotations/two.xml") == []

        owners = painted(read_json(path), SIZES[0])
        regions = (mask_of(rows[3]) | mask_of(rows[4])) & (owners == 0)
        objects = read_map(tmp_path / "out/SegmentationObject/a_one.png")
        classes = read_map(tmp_path / "out/SegmentationClass/a_one.png")
        np.testing.assert_array_equal(objects, np.where(regions, 255, owners))
        np.testing.assert_array_equal(classes, np.where(regions, 255, np.array([0, 1, 3, 2])[owners]))
        assert (tmp_path / "out/ImageSets/Segmentation/train.txt").read_text() == "a_one\ntwo\n"
        assert (tmp_path / "out/class_names.txt").read_text().split() == ["_background_", *NAMES]

    def test_attributes_that_were_read_from_such_a_file(self) -> None:
        sample = make_sample(num_instances=2, modalities=[Modality.INSTANCE])
        inner = {"attribute": [{"name": "maker", "value": "x"}, {"name": "age", "value": "3"}]}
        rows = [
            {"attributes": {"pose": "Left", "truncated": 1, "attributes": inner}},
            {"attributes": {"attributes": 5}},
        ]
        losses = Losses()
        image = LabelledImage("a.png", {}, sample, rows)
        content = dict(PascalVoc().label_files(image, View("voc", "train", NAMES * 9), losses))["Annotations/a.xml"]
        assert isinstance(content, bytes)
        first, second = ElementTree.fromstring(content).iter("object")
        assert (first.findtext("pose"), first.findtext("truncated")) == ("Left", "1")
        found = {a.findtext("name"): a.findtext("value") for a in first.iter("attribute")}
        assert found == {"maker": "x", "age": "3"}
        assert [a.findtext("name") for a in second.iter("attribute")] == ["attributes"]
        assert not [what for what in losses if "annotations" in what]

    def test_a_class_that_is_the_background(self) -> None:
        """Readers of VOC give the background class 0; it is no further class when it is written again."""
        sample = make_sample(modalities=[Modality.INSTANCE, Modality.SEMANTIC])
        assert sample.semantic_map is not None
        image = LabelledImage("a.png", {}, sample, [{}] * sample.num_instances)
        names = ["_background_", *(f"class {i}" for i in range(1, max(SCHEMA.classes) + 1))]
        views = [View("voc", "train", n, has_semantic_maps=True) for n in (names, [*names[1:], "more"])]
        found = [dict(PascalVoc().label_files(image, view, Losses())) for view in views]
        maps = []
        for files in found:
            content = files["SegmentationClass/a.png"]
            assert isinstance(content, bytes)
            with Image.open(BytesIO(content)) as picture:
                maps.append(np.array(picture).astype(int))
        assert set(np.unique(maps[1] - maps[0])) <= {0, 1}
        np.testing.assert_array_equal(maps[0] + (maps[0] != 255), maps[1])
        for n, first in ((names, "_background_"), (names[1:], "_background_")):
            split = WrittenSplit(View("voc", "train", n, has_semantic_maps=True), {}, [], list)
            closing = dict(PascalVoc().closing_files([split], Losses()))
            assert closing["class_names.txt"] == "".join(f"{name}\n" for name in names).encode(), first

    def test_the_colours_of_the_development_kit(self) -> None:
        """The first colours, void's, and that no two are the same."""
        palette = voc_palette().tolist()
        assert palette[:5] == [[0, 0, 0], [128, 0, 0], [0, 128, 0], [128, 128, 0], [0, 0, 128]]
        assert palette[255] == [224, 224, 192]
        assert len({tuple(colour) for colour in palette}) == 256

    def test_boxes_alone(self, tmp_path: Path) -> None:
        data = write_yolo(tmp_path / "in", {"a": BOX})
        convert_dataset(data, tmp_path / "out", "voc", splits=["train"])
        assert [item["box"] for item in voc_objects(tmp_path / "out/Annotations/a.xml")] == [[5, 5, 12, 12]]
        assert not (tmp_path / "out/SegmentationClass").exists()
        with pytest.raises(DatasetError, match=r"a\.png: expected masks for label maps, got boxes only; add"):
            convert_dataset(data, tmp_path / "maps", "label-maps")

    @on_data
    def test_the_colours_of_a_real_set(self) -> None:
        assert DATA is not None
        folder = Path(DATA) / "labelme_voc/instance_segmentation/data_dataset_voc/SegmentationClass"
        with Image.open(folder / "2011_000003.png") as picture:
            stored = picture.getpalette()
        assert stored is not None
        assert voc_palette().ravel().tolist()[: len(stored)] == stored


class TestLabelMaps:
    def test_instances(self, tmp_path: Path) -> None:
        images_dir, path = write_instances(tmp_path)
        summary = convert_dataset(path, tmp_path / "out", "label-maps", images_dir=images_dir)
        assert summary.losses["crowd regions"] == summary.losses["ignored regions"] == 1
        document = read_json(path)
        owners = painted(document, SIZES[0])
        regions = (mask_of(document["annotations"][3]) | mask_of(document["annotations"][4])) & (owners == 0)
        objects = read_map(tmp_path / "out/instances/train/a/one.png")
        semantic = read_map(tmp_path / "out/semantic/train/a/one.png")
        np.testing.assert_array_equal(objects, owners)
        np.testing.assert_array_equal(semantic, np.where(regions, 255, np.array([0, 1, 3, 2])[owners]))
        assert (tmp_path / "out/classes.txt").read_text().split() == ["background", *NAMES]

    def test_more_classes_than_a_byte_holds(self) -> None:
        sample = make_sample(modalities=[Modality.INSTANCE])
        image = LabelledImage("a.png", {}, sample, [{}] * sample.num_instances)
        view = View("label-maps", "train", [f"class {i}" for i in range(255)])
        files = dict(LabelMaps().label_files(image, view, Losses()))
        content = files["semantic/train/a.png"]
        assert isinstance(content, bytes)
        with Image.open(BytesIO(content)) as picture:
            assert picture.mode.startswith("I;16")

    def test_more_classes_than_a_byte_holds_come_back(self, tmp_path: Path) -> None:
        """Values around 255 are classes like any other, and 65535 is void."""
        images_dir, path = write_instances(tmp_path)
        document = read_json(path)
        document["categories"] = [{"id": i, "name": f"class {i}"} for i in range(300)]
        category_ids = (253, 254, 255)  # values 254 to 256
        for row, category_id in zip(document["annotations"], category_ids, strict=False):
            row["category_id"] = category_id
        path.write_text(json.dumps(document))
        convert_dataset(path, tmp_path / "out", "label-maps", images_dir=images_dir)
        stored = read_map(tmp_path / "out/semantic/train/a/one.png")
        assert set(np.unique(stored)) == {0, 254, 255, 256, 65535}
        photos = open_dataset(tmp_path / "out")
        sample = next(photos[i] for i in range(2) if photos.file_name(i).endswith("one.png"))
        assert not photos.has_semantic_maps
        assert sample.semantic_map is None
        assert [photos.class_names[label] for label in sample.labels.tolist()] == [f"class {i}" for i in category_ids]
        owners = painted(document, SIZES[0])
        for k, mask in enumerate(sample.instance_masks):
            np.testing.assert_array_equal(mask.numpy(), owners == k + 1)

    def test_semantic_maps_have_no_background(self) -> None:
        sample = make_sample(modalities=[Modality.INSTANCE, Modality.SEMANTIC, Modality.PANOPTIC], camera=True)
        assert sample.semantic_map is not None
        names = [str(i) for i in range(max(SCHEMA.classes) + 1)]
        image = LabelledImage("b/a.jpg", {}, sample, [{}] * sample.num_instances)
        files = dict(LabelMaps().label_files(image, View("label-maps", "val", names, has_semantic_maps=True), Losses()))
        assert set(files) == {"semantic/val/b/a.png", "instances/val/b/a.png"}
        content = files["semantic/val/b/a.png"]
        assert isinstance(content, bytes)
        with Image.open(BytesIO(content)) as picture:
            semantic = np.array(picture)
        np.testing.assert_array_equal(semantic, sample.semantic_map.numpy())

    def test_depth_in_millimetres(self) -> None:
        depth = np.array([[0.0004, 1.2344, 1.2346, 65.535, 65.54, np.nan, 2.0]], np.float32)
        valid = np.array([[True, True, True, True, True, False, False]])
        assert depth_mm(depth, valid).tolist() == [[1, 1234, 1235, 65535, 0, 0, 0]]
        assert num_too_far(depth, valid) == 1

    def test_geometry_of_a_sample(self) -> None:
        sample = make_sample(modalities=[Modality.DEPTH, Modality.NORMALS], camera=True)
        names = [name for name, _ in geometry_files("train/a", sample, "png")]
        assert names == ["depth/train/a.png", "normals/train/a.npy", "intrinsics/train/a.txt"]
        text, camera = intrinsics_text(sample), sample.camera_intrinsics
        assert text is not None
        assert camera is not None
        matrix = [[float(word) for word in line.split()] for line in text.decode().splitlines()]
        assert matrix == [[camera.fx, 0, camera.cx], [0, camera.fy, camera.cy], [0, 0, 1]]

    @pytest.mark.parametrize("depth_format", ["npy", "png"])
    def test_geometry_is_as_expected_where_depth_is_invalid(self, depth_format: DepthFormat) -> None:
        """Values at pixels without a valid depth, as a paste leaves them, are not written, and not expected."""
        sample = make_sample(modalities=[Modality.DEPTH, Modality.NORMALS])
        assert sample.depth is not None
        assert sample.depth_valid is not None
        for column, value in enumerate((3.0, float("nan"), float("inf"), -1.0)):
            sample.depth[0, :, column], sample.depth_valid[0, :, column] = value, False
        found = {}
        for name, content in geometry_files("a", sample, depth_format):
            opened = BytesIO(content)
            found[name] = checksum(np.load(opened) if name.endswith(".npy") else np.array(Image.open(opened)))
        assert found == geometry_values("a", sample, depth_format)


class TestSegments:
    def test_from_instances(self, tmp_path: Path) -> None:
        images_dir, path = write_instances(tmp_path)
        summary = convert_dataset(path, tmp_path / "out", "coco-panoptic", images_dir=images_dir)
        covered = {"crowd and ignored regions partly covered by other segments": 1}
        assert dict(summary.losses) == {"objects partly covered by another": 1, **covered}
        written = read_json(tmp_path / "out/panoptic.json")
        assert [row["isthing"] for row in written["categories"]] == [1, 1, 1]
        segments = written["annotations"][0]["segments_info"]
        rgb = read_map(tmp_path / "out/panoptic/a/one.png")
        ids = rgb[..., 0] + 256 * rgb[..., 1] + 65536 * rgb[..., 2]
        assert {segment["id"] for segment in segments} == set(np.unique(ids).tolist()) - {0}
        for segment in segments:
            assert segment["area"] == (ids == segment["id"]).sum()
            assert segment["bbox"] == xywh(ids == segment["id"])
        assert [(s["category_id"], s["iscrowd"]) for s in segments] == [(3, 0), (90, 0), (7, 0), (7, 1), (3, 1)]
        assert segments[0]["attributes"]["occluded"] is True
        owners = painted(read_json(path), SIZES[0])
        for number in (1, 2, 3):
            np.testing.assert_array_equal(ids == segments[number - 1]["id"], owners == number)
        assert open_dataset(tmp_path / "out").schema is not None

    @on_data
    def test_things_of_a_panoptic_set(self, tmp_path: Path) -> None:
        """The entries of instances agree with the file that its authors made of the same segments."""
        assert DATA is not None
        folder = Path(DATA) / "coco_panoptic_samples"
        path = folder / "split/panoptic_examples_142238.json"
        dirs = {"images_dir": folder / "input_images", "panoptic_dir": folder / "panoptic_examples"}
        summary = convert_dataset(path, tmp_path / "out", "coco", **dirs)
        assert dict(summary.losses) == {"segments of stuff, in images": 1}
        written = read_json(tmp_path / "out/annotations.json")
        theirs = read_json(folder / "split/panoptic_coco_detection_format_142238.json")["annotations"]
        assert len(written["annotations"]) == 15

        def facts(rows: list[dict[str, object]]) -> list[tuple[object, ...]]:
            return sorted((row["category_id"], row["iscrowd"], row["area"], row["bbox"]) for row in rows)  # type: ignore[type-var]

        things = {row["id"] for row in written["categories"] if row["isthing"]}
        assert facts(written["annotations"]) == facts([row for row in theirs if row["category_id"] in things])
        assert written["licenses"] == read_json(path)["licenses"]


def test_classes_of_splits_are_joined_by_name(tmp_path: Path) -> None:
    write_roboflow(tmp_path / "in", ("train", "valid"))
    path = tmp_path / "in/valid/_annotations.coco.json"
    document = read_json(path)
    document["categories"] = [{"id": 1, "name": "cup"}, {"id": 2, "name": "spoon"}]
    path.write_text(json.dumps(document))
    with warnings.catch_warnings(action="ignore"):
        convert_dataset(tmp_path / "in", tmp_path / "out", "yolo")
    names = open_dataset(tmp_path / "out").class_names
    assert names == ("things", "car", "cup", "zebra", "spoon")
    found = [[names[i] for i in open_dataset(tmp_path / "out", "val").instance_labels(n)] for n in range(3)]
    assert found == [[], ["cup"], ["cup", "spoon"]]
    document["categories"] = [{"id": 1, "name": "cup"}, {"id": 2, "name": "cup"}]
    path.write_text(json.dumps(document))
    with pytest.raises(
        DatasetError, match="expected a unique name for each class, since splits with different classes"
    ):
        convert_dataset(tmp_path / "in", tmp_path / "two", "yolo")


def test_rectangles_of_tests_are_as_they_seem() -> None:
    assert xywh(rectangle((9, 9), 1, 2, 4, 8)) == [2, 1, 6, 3]


def test_a_layout_of_semantic_maps_alone(tmp_path: Path) -> None:
    sample = make_sample(num_instances=0, modalities=[Modality.SEMANTIC])
    assert sample.semantic_map is not None
    categories = [{"id": i + 1, "name": f"class {i}"} for i in range(max(SCHEMA.classes) + 1)]
    layout = WrittenLayout("label-maps")
    facts = {"layout": layout, "has_semantic_maps": True}
    write_rest(tmp_path, [write_image(tmp_path, 1, sample, categories, **facts)], categories, **facts)
    np.testing.assert_array_equal(read_map(tmp_path / "semantic/train/000001.png"), sample.semantic_map.numpy())
    assert not (tmp_path / "instances").exists()
    assert (tmp_path / "classes.txt").read_text().splitlines() == [row["name"] for row in categories]


def test_semantic_maps_alone_are_segments_of_stuff() -> None:
    sample = make_sample(num_instances=0, modalities=[Modality.SEMANTIC])
    assert sample.semantic_map is not None
    categories = [{"id": i + 1, "isthing": 0} for i in range(max(SCHEMA.classes) + 1)]
    png, segments = segments_of(LabelledImage("a.png", {}, sample), categories, Losses())
    with Image.open(BytesIO(png)) as picture:
        rgb = np.array(picture).astype(int)
    ids = rgb[..., 0] + 256 * rgb[..., 1] + 65536 * rgb[..., 2]
    values = {segment["id"]: segment["category_id"] - 1 for segment in segments} | {0: 255}
    np.testing.assert_array_equal(np.vectorize(values.get)(ids), sample.semantic_map.numpy())
