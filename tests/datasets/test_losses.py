"""Losses of conversions: what is lost is named with its number and reason, and nothing is named that is not lost."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
import yaml
from coco_files import annotation_row, image_row, write_coco
from conversion_world import read_json, read_map, voc_objects
from PIL import Image
from pycocotools import mask as coco_mask

from on_disk import Mask, rectangle, runs
from segpaste import augment_dataset
from segpaste.cli import main
from segpaste.datasets import DatasetError, check_dataset, convert_dataset, find_dataset, open_dataset
from segpaste.datasets.conversion.conversion import Conversion
from segpaste.datasets.conversion.masks import WithPredictedMasks
from segpaste.datasets.formats.instances import EMPTY_REGIONS, UNREAD_REGIONS
from yolo_files import write_yolo

SIZE = (16, 24)
CUT = "objects and regions beyond the image, which are cut at its border"
OTHER_BOXES = "boxes of objects and regions, not those of their masks"
BEYOND = "keypoints beyond the image"
WRITTEN: list[tuple[str, Any]] = [
    ("coco", None), ("yolo", "segment"), ("yolo", "obb"), ("voc", None), ("label-maps", None), ("coco-panoptic", None)
]  # fmt: skip
pytestmark = pytest.mark.filterwarnings("ignore")


class Masker:
    """A model that finds nothing, so that masks are the boxes."""

    name = "none"

    def __call__(self, image: Any, boxes: Any) -> Any:
        return torch.zeros(len(boxes), *image.shape[1:], dtype=torch.bool), torch.zeros(len(boxes))


def document(folder: Path, rows: list[Any], points: list[str] | None = None) -> Path:
    """Write an image with annotations; return the folder, which is recognised. Rows have no boxes but given ones."""
    rows = [{key: value for key, value in row.items() if (key, value) != ("bbox", [0, 0, 1, 1])} for row in rows]
    categories = [{"id": 3, "name": "car", **({"keypoints": points, "skeleton": [[1, 2]]} if points else {})}]
    (folder / "in").mkdir()
    write_coco(folder / "in", [image_row(8, SIZE, "one.png")], rows, categories)
    (folder / "in" / "photos").rename(folder / "in" / "images")
    return folder / "in"


def losses(path: Path, to: str, task: Any = None, number: int = 0, **options: Any) -> dict[str, int]:
    out = path.parent / f"out-{to}-{task}-{number}"
    return dict(convert_dataset(path, out, to, task=task, **options).losses)


def entries(out: Path) -> list[Any]:
    (file,) = out.rglob("*.json")
    rows: list[Any] = read_json(file)["annotations"]
    return rows


def of_box(x: float, y: float, width: float, height: float, **more: Any) -> dict[str, Any]:
    row: dict[str, Any] = annotation_row(1, 8, None, bbox=[x, y, width, height], **more)
    del row["segmentation"]
    return row


class TestBeyondTheImage:
    @pytest.mark.parametrize(("to", "task"), [("coco", None), ("voc", None), ("yolo", "detect")])
    def test_boxes(self, to: str, task: Any, tmp_path: Path) -> None:
        beyond = [[-2.5, 3, 8, 5], [20, 3, 4.25, 5], [2, -0.5, 5, 5], [2, 12, 5, 4.5]]
        boxes = [*beyond, [0, 0, 24, 16], [0.1, 0.2, 23.9, 15.8]]
        path = document(tmp_path, [of_box(*box, id=i) for i, box in enumerate(boxes)])
        assert losses(path, to, task) == ({} if to == "coco" else {CUT: len(beyond)})
        if to == "coco":
            assert [row["bbox"] for row in entries(tmp_path / "out-coco-None-0")] == boxes

    @pytest.mark.parametrize(("to", "task"), WRITTEN)
    def test_outlines(self, to: str, task: Any, tmp_path: Path) -> None:
        beyond = [[-3, 2, 9, 2, 9, 7, -3, 7], [15, 4, 28, 5, 22, 11], [4, 9, 9, 9, 9, 19]]
        inside = [2, 2, 6, 2, 6, 5, 2, 5]
        polygons = [*beyond, [0, 0, 24, 0, 24, 16, 0, 16], [-0.3, 2, 9, 2, 9, 7, -0.3, 7]]
        rows = [
            annotation_row(i, 8, [inside, p], bbox=[min(p[::2]), min(p[1::2]), max(p[::2]) - min(p[::2]), 1])
            for i, p in enumerate(polygons, start=1)
        ]
        assert losses(document(tmp_path, rows), to, task).get(CUT, 0) == (0 if to == "coco" else len(beyond))

    @pytest.mark.parametrize("to", ["voc", "yolo"])
    def test_boxes_beside_masks(self, to: str, tmp_path: Path) -> None:
        rows = [annotation_row(1, 8, runs(rectangle(SIZE, 1, 1, 4, 4)), bbox=[1, 1, 3, 3])]
        rows += [annotation_row(2, 8, [], bbox=[18, 2, 9.5, 4]), annotation_row(3, 8, [], bbox=[8, 9, 3, 3])]
        task = "detect" if to == "yolo" else None
        assert losses(document(tmp_path, rows), to, task)[CUT] == 1

    @pytest.mark.parametrize(("to", "num"), [("voc", 1), ("coco-panoptic", 1), ("coco", 0)])
    def test_regions(self, to: str, num: int, tmp_path: Path) -> None:
        rows = [annotation_row(1, 8, runs(rectangle(SIZE, 1, 1, 4, 4)))]
        rows.append(annotation_row(2, 8, [[18, 8, 30, 8, 30, 12, 18, 12]], ignore=1))
        assert losses(document(tmp_path, rows), to).get(CUT, 0) == num

    @pytest.mark.parametrize(
        ("to", "task", "named"),
        [
            ("coco", None, {}), ("yolo", "pose", {BEYOND: 2}), ("yolo", "detect", {"keypoints of objects": 2}),
            ("voc", None, {"keypoints of objects": 2}),
        ],
    )  # fmt: skip
    def test_keypoints(self, to: str, task: Any, named: dict[str, int], tmp_path: Path) -> None:
        """The first object has one keypoint in the image, the second has none, the third none labelled."""
        points = [[3, 3, 2, -2, 4, 1], [24, 3, 2, 0, 0, 0], [0, 0, 0, -5, 40, 0]]
        rows = [of_box(2, 2, 9, 9, keypoints=own) | {"id": i} for i, own in enumerate(points, start=1)]
        rows = [{**row, "bbox": [2, 2, 9, 6 + row["id"]]} for row in rows]
        found = losses(document(tmp_path, rows, ["nose", "tail"]), to, task)
        assert {key: found[key] for key in (BEYOND, "keypoints of objects") if key in found} == named

    def test_keypoints_of_objects_without_a_mask_in_voc(self, tmp_path: Path) -> None:
        rows = [annotation_row(1, 8, runs(rectangle(SIZE, 1, 1, 4, 4)))]
        rows.append(annotation_row(2, 8, [], bbox=[8, 8, 4, 4], keypoints=[9, 9, 2, 0, 0, 0]))
        assert losses(document(tmp_path, rows, ["nose", "tail"]), "voc")["keypoints of objects"] == 1

    @pytest.mark.parametrize(
        ("label", "to", "task", "num"),
        [
            ("0 0.005 0.5 0.02 0.5", "coco", None, 1), ("0 0.005 0.5 0.02 0.5", "voc", None, 1),
            ("0 0.01 0.5 0.02 0.5", "coco", None, 0), ("0 0.005 0.5 0.02 0.5", "yolo", None, 0),
            ("0 -0.04 0.1 0.4 0.1 0.3 0.9", "voc", None, 1), ("0 -0.04 0.1 0.4 0.1 0.3 0.9", "coco", None, 0),
        ],
    )  # fmt: skip
    def test_label_files(self, label: str, to: str, task: Any, num: int, tmp_path: Path) -> None:
        write_yolo(tmp_path / "in", {"a": f"{label}\n"})
        assert losses(tmp_path / "in", to, task, splits=["train"]).get(CUT, 0) == num


class TestNothingIsNamedThatIsNotLost:
    @pytest.mark.parametrize("by", ["voc", "label-maps", "coco-panoptic"])
    def test_there_and_on(self, by: str, tmp_path: Path) -> None:
        """Maps of these formats have classes that say no more than their objects."""
        masks = rectangle(SIZE, 1, 1, 4, 4), rectangle(SIZE, 6, 9, 14, 20)
        rows = [annotation_row(i, 8, runs(mask)) for i, mask in enumerate(masks, start=1)]
        assert losses(document(tmp_path, rows), by) == {}
        for to, task in WRITTEN:
            assert losses(tmp_path / f"out-{by}-None-0", to, task, 1) == {}, to

    @pytest.mark.parametrize("to", ["coco", "yolo", "coco-panoptic"])
    @pytest.mark.parametrize("value", [0, 255, 2])
    def test_pixels_without_an_object(self, value: int, to: str, tmp_path: Path) -> None:
        """The background says nothing; void and pixels of another class do, if the format has no place for them."""
        rows = [annotation_row(1, 8, runs(rectangle(SIZE, 1, 1, 6, 6)))]
        losses(document(tmp_path, rows), "voc")
        out = tmp_path / "out-voc-None-0"
        (out / "class_names.txt").write_text("_background_\ncar\nroad\n")
        file = out / "SegmentationClass/one.png"
        with Image.open(file) as picture:
            pixels, palette = np.array(picture), picture.getpalette()
        pixels[10:, :] = value
        changed = Image.fromarray(pixels)
        changed.putpalette(palette or [])
        changed.save(file)
        found = losses(out, to, number=1)
        if to == "coco-panoptic":
            assert found == ({"pixels of things without an object, in images": 1} if value == 2 else {})
        else:
            assert found == ({} if value == 0 else {"semantic maps": 1})

    def test_the_background_of_maps_is_stuff(self, tmp_path: Path) -> None:
        """A panoptic map tells it from void, and it comes back."""
        losses(document(tmp_path, [annotation_row(1, 8, runs(rectangle(SIZE, 1, 1, 6, 6)))]), "voc")
        losses(tmp_path / "out-voc-None-0", "coco-panoptic", number=1)
        assert losses(tmp_path / "out-coco-panoptic-None-1", "voc", number=2) == {}
        before, after = (tmp_path / f"out-voc-None-{i}/SegmentationClass/one.png" for i in (0, 2))
        np.testing.assert_array_equal(read_map(before), read_map(after))

    def test_tables_and_categories(self, tmp_path: Path) -> None:
        path = document(tmp_path, [annotation_row(1, 8, runs(rectangle(SIZE, 1, 1, 4, 4)))], ["nose", "tail"])
        file = path / "annotations.json"
        tables = {"info": {}, "licenses": [], **json.loads(file.read_text())}
        tables["categories"][0] |= {"isthing": 1}
        file.write_text(json.dumps(tables))
        assert losses(path, "yolo", "pose") == {
            "key 'skeleton' of categories": 1,
            "masks of objects (the task pose has none)": 1,
        }
        assert losses(path, "yolo", "segment") == {f"key '{key}' of categories": 1 for key in ("keypoints", "skeleton")}
        tables["categories"][0] = {"id": 3, "name": "car", "isthing": 0}
        file.write_text(json.dumps({**tables, "licenses": [{"id": 1}]}))
        for to in ("yolo", "voc", "label-maps"):
            assert losses(path, to) == {"key 'isthing' of categories": 1, "table 'licenses'": 1}

    @pytest.mark.parametrize(
        ("mask", "num"),
        [
            (runs(rectangle(SIZE, 1, 1, 4, 9)), 0), ([[8, 3, 13, 8, 10, 11, 5, 6]], 0),
            ([[8, 3, 13, 8, 10, 11]], 1), ([[2, 2, 4, 2, 4, 4, 2, 4], [8, 2, 9, 2, 9, 4, 8, 4]], 1),
        ],
    )  # fmt: skip
    def test_oriented_boxes_hold_rectangles(self, mask: Any, num: int, tmp_path: Path) -> None:
        found = losses(document(tmp_path, [annotation_row(1, 8, mask)]), "yolo", "obb")
        assert found == ({"masks of objects (the task obb has none)": 1} if num else {})

    @pytest.mark.parametrize("to", ["yolo", "voc"])
    def test_equal_rows_of_a_label_file_are_written_once(self, to: str, tmp_path: Path) -> None:
        write_yolo(tmp_path / "in", {"a": "0 0.5 0.5 0.2 0.2\n0 0.5 0.5 0.2 0.2\n"})
        found = losses(tmp_path / "in", to, splits=["train"])
        assert found["rows equal to another of their label file"] == 1

    @pytest.mark.parametrize(("metres", "is_lost"), [((1.5, 0.001, 65.535, 7.123), False), ((1.5, 2.00025), True)])
    def test_depth_in_whole_millimetres(self, metres: tuple[float, ...], is_lost: bool) -> None:
        from segpaste.datasets.formats.pixel_bytes import has_fractions

        depth = np.array([[*metres, np.nan, 0.33333]], np.float32)
        valid = np.array([[True] * len(metres) + [False] * 2])
        assert has_fractions(depth, valid) == is_lost

    @pytest.mark.parametrize("attributes", [{"occluded": 0}, {"pose": "Left", "truncated": 0}, {"maker": "a"}])
    def test_attributes(self, attributes: dict[str, Any], tmp_path: Path) -> None:
        rows = [annotation_row(1, 8, runs(rectangle(SIZE, 1, 1, 4, 4)), attributes=attributes)]
        assert losses(document(tmp_path, rows), "yolo") == {"key 'attributes' of annotations": 1}


class TestRegions:
    def difficult(self, folder: Path) -> Path:
        """Write a VOC dataset with two masks, the second one difficult."""
        masks = rectangle(SIZE, 1, 1, 6, 6), rectangle(SIZE, 8, 10, 14, 20)
        rows = [annotation_row(i, 8, runs(mask)) for i, mask in enumerate(masks, start=1)]
        losses(document(folder, rows), "voc")
        file = folder / "out-voc-None-0/Annotations/one.xml"
        start, end = file.read_text().rsplit("<difficult>0", 1)
        file.write_text(f"{start}<difficult>1{end}")
        assert [row["difficult"] for row in voc_objects(file)] == ["0", "1"]
        return folder / "out-voc-None-0"

    def test_a_difficult_object_with_a_mask_is_a_crowd_segment(self, tmp_path: Path) -> None:
        path = self.difficult(tmp_path)
        assert losses(path, "coco-panoptic", number=1) == {}
        out = open_dataset(tmp_path / "out-coco-panoptic-None-1")
        (crowd,), (wanted,) = out.crowds(0), open_dataset(path).crowds(0)
        assert (crowd.is_ignored, crowd.label) == (wanted.is_ignored, wanted.label) == (True, 1)
        np.testing.assert_array_equal(crowd.mask, wanted.mask)
        assert out[0].num_instances == 1

    @pytest.mark.parametrize(
        ("regions", "named"),
        [
            ([rectangle(SIZE, 2, 2, 5, 5)], {"wholly covered by other segments": 1}),
            ([rectangle(SIZE, 2, 2, 9, 9)], {"partly covered by other segments": 1}),
            ([rectangle(SIZE, 8, 8, 14, 20), rectangle(SIZE, 9, 9, 11, 12)], {"partly covered by other segments": 1}),
            ([rectangle(SIZE, 8, 8, 9, 9), rectangle(SIZE, 8, 8, 9, 9)], {"wholly covered by other segments": 1}),
            ([rectangle(SIZE, 0, 0, 0, 0)], {"without a pixel": 1}),
        ],
    )
    def test_regions_that_segments_cover(self, regions: list[Mask], named: dict[str, int], tmp_path: Path) -> None:
        rows = [annotation_row(1, 8, runs(rectangle(SIZE, 1, 1, 6, 6)))]
        for number, mask in enumerate(regions, start=2):
            rows.append({**annotation_row(number, 8, runs(mask)), "iscrowd": 1})
        found = losses(document(tmp_path, rows), "coco-panoptic")
        assert found == {f"crowd and ignored regions {what}": num for what, num in named.items()}

    def test_every_region_in_coco_has_a_mask_that_others_read(self, tmp_path: Path) -> None:
        given: list[tuple[Any, list[float], int]] = [
            ([], [8, 8, 4, 3], 12), ([[8, 8, 12, 11]], [8, 8, 4, 3], 12), ([[]], [30, 30, 4, 3], 0),
            ([], [8, 8, 0, 0], 0), ([[8, 8, 8.1, 8, 8.1, 8.1]], [7, 7, 2, 2], 4),
            (runs(rectangle(SIZE, 0, 0, 0, 0)), [8, 8, 4, 3], 12), ([[90, 90, 99, 90, 99, 99]], [90, 90, 9, 9], 0),
        ]  # fmt: skip
        rows = [annotation_row(1, 8, runs(rectangle(SIZE, 1, 1, 6, 6)))]
        for flags in ({"iscrowd": 1}, {"iscrowd": 0, "ignore": 1}):
            rows += [
                {**annotation_row(len(rows) + i, 8, s, bbox=box), **flags} for i, (s, box, _) in enumerate(given, 1)
            ]
        path = document(tmp_path, rows)
        assert losses(path, "coco") == {}
        written = entries(tmp_path / "out-coco-None-0")[1:]
        assert [(row["iscrowd"], row.get("ignore")) for row in written] == [(1, None)] * 7 + [(1, 1)] * 7
        decoded = [coco_mask.decode(row["segmentation"]) for row in written]
        assert [(mask.shape, int(mask.sum())) for mask in decoded] == [(SIZE, area) for *_, area in given] * 2
        before, after = open_dataset(path).crowds(0), open_dataset(tmp_path / "out-coco-None-0").crowds(0)
        np.testing.assert_array_equal([crowd.mask for crowd in before], [crowd.mask for crowd in after])


class TestBoxesBesideMasks:
    """An object with a mask is written with the box of its mask; a box of its own that is another one is named."""

    MASK = rectangle(SIZE, 4, 4, 10, 12)  # box 4, 4, 12, 10

    @pytest.mark.parametrize(("to", "task"), [*WRITTEN, ("yolo", "detect")])
    def test_of_objects(self, to: str, task: Any, tmp_path: Path) -> None:
        others = [[1, 1, 20, 14], [4, 4, 8, 7.1], [2.9, 4, 9.1, 6], [0, 0, 0, 0]]
        same = [[4, 4, 8, 6], [3, 5, 10, 4], [4.9, 4.9, 6.2, 4.2]]
        rows = [annotation_row(i, 8, runs(self.MASK), bbox=box) for i, box in enumerate([*same, *others], start=1)]
        found = losses(document(tmp_path, rows), to, task)
        assert found.get(OTHER_BOXES, 0) == (0 if to == "coco" else len(others))

    @pytest.mark.parametrize("to", ["voc", "coco-panoptic"])
    def test_of_regions(self, to: str, tmp_path: Path) -> None:
        rows = [annotation_row(1, 8, runs(rectangle(SIZE, 1, 1, 3, 3)))]
        rows += [annotation_row(2, 8, runs(self.MASK), iscrowd=1, bbox=[1, 1, 20, 14])]
        assert losses(document(tmp_path, rows), to) == {OTHER_BOXES: 1}

    @pytest.mark.parametrize(("to", "num"), [("coco", 1), ("voc", 1), ("label-maps", 1), ("coco-panoptic", 0)])
    def test_of_panoptic_segments(self, to: str, num: int, tmp_path: Path) -> None:
        losses(document(tmp_path, [annotation_row(1, 8, runs(self.MASK))]), "coco-panoptic")
        out = tmp_path / "out-coco-panoptic-None-0"
        file = next(out.rglob("*.json"))
        tables = read_json(file)
        tables["annotations"][0]["segments_info"][0]["bbox"] = [1, 1, 20, 14]
        file.write_text(json.dumps(tables))
        assert losses(out, to, number=1).get(OTHER_BOXES, 0) == num

    @pytest.mark.parametrize("to", ["coco", "voc", "yolo"])
    def test_of_xml_files(self, to: str, tmp_path: Path) -> None:
        losses(document(tmp_path, [annotation_row(1, 8, runs(self.MASK))]), "voc")
        out = tmp_path / "out-voc-None-0"
        file = out / "Annotations/one.xml"
        assert losses(out, to, number=1) == {}
        file.write_text(file.read_text().replace("<xmin>5<", "<xmin>3<"))
        assert losses(out, to, number=2) == {OTHER_BOXES: 1}

    @pytest.mark.parametrize(("far", "num"), [(12, 0), (13.5, 1)])
    @pytest.mark.parametrize("to", ["coco", "voc"])
    def test_of_a_group_of_shapes(self, to: str, far: float, num: int, tmp_path: Path) -> None:
        outline = {"shape_type": "polygon", "points": [[4, 4], [12, 4], [12, 10], [4, 10]]}
        box = {"shape_type": "rectangle", "points": [[4, 4], [far, 10]]}
        shapes = [{"label": "car", "group_id": 1, "flags": {}, **shape} for shape in (outline, box)]
        facts = {"version": "5.0.1", "flags": {}, "imagePath": "one.png", "imageHeight": 16, "imageWidth": 24}
        (tmp_path / "in").mkdir()
        Image.new("RGB", SIZE[::-1]).save(tmp_path / "in/one.png")
        (tmp_path / "in/one.json").write_text(json.dumps({**facts, "shapes": shapes}))
        assert losses(tmp_path / "in", to).get(OTHER_BOXES, 0) == num


class TestObjectsOfMaps:
    ON_VOID = "objects of maps wholly on void or background, which are left out"
    PARTLY = "objects of maps partly on void or background, whose masks end there"
    OF_CLASSES = "objects of maps with pixels of several classes, which become an object of each"
    OF_STUFF = "objects of maps whose class is stuff, which become pixels of it"

    def folder(self, path: Path, rows: list[int], classes: str = "background\ncar\ncup\nroad\n") -> Path:
        """Write label maps: object 1 is a car, object 2 has these classes, a row of four pixels each."""
        semantic, objects = np.zeros((2, *SIZE), np.uint8)
        semantic[2:6, 2:6] = objects[2:6, 2:6] = 1
        for i, value in enumerate(rows, start=8):
            semantic[i, 8:12], objects[i, 8:12] = value, 2
        for name, pixels in {"images": semantic * 9, "semantic": semantic, "instances": objects}.items():
            (path / name / "train").mkdir(parents=True)
            Image.fromarray(pixels).save(path / name / "train/one.png")
        (path / "classes.txt").write_text(classes)
        return path

    @pytest.mark.parametrize("to", ["coco", "voc", "coco-panoptic"])
    @pytest.mark.parametrize(
        ("rows", "named", "labels"),
        [
            ([255, 255], {ON_VOID: 1}, [1]), ([0, 0], {ON_VOID: 1}, [1]), ([0, 255], {ON_VOID: 1}, [1]),
            ([2, 255], {PARTLY: 1}, [1, 2]), ([2, 0], {PARTLY: 1}, [1, 2]), ([1, 2, 3], {OF_CLASSES: 1}, [1, 1, 2, 3]),
            ([2, 2], {}, [1, 2]),
        ],
    )  # fmt: skip
    def test_that_disagree_with_their_classes(
        self, rows: list[int], named: dict[str, int], labels: list[int], to: str, tmp_path: Path
    ) -> None:
        path = self.folder(tmp_path / "in", rows)
        found = losses(path, to)
        assert {key: num for key, num in found.items() if key != "semantic maps"} == named
        assert open_dataset(path)[0].labels.tolist() == labels

    def test_of_stuff(self, tmp_path: Path) -> None:
        path = self.folder(tmp_path / "in", [3, 3])
        declared: dict[str, Any] = {"photos": "images/train/{name}.png"}
        declared |= {"semantic": {"files": "semantic/train/{name}.png"}}
        declared |= {"instances": {"files": "instances/train/{name}.png", "encoding": "number"}}
        declared |= {"classes": ["background", "car", "cup", "road"], "things": ["car", "cup"]}
        (path / "segpaste.yaml").write_text(json.dumps(declared))
        assert losses(path, "coco-panoptic") == {self.OF_STUFF: 1}

    @pytest.mark.parametrize(("number", "named"), [(1, {}), (255001, {ON_VOID: 1})])
    def test_with_the_class_in_their_number(self, number: int, named: dict[str, int], tmp_path: Path) -> None:
        path = self.folder(tmp_path / "in", [])
        objects = np.zeros(SIZE, np.int32)
        objects[2:6, 2:6], objects[9:12, 9:12] = 1001, number
        np.save(path / "one.npy", objects)
        declared: dict[str, Any] = {"photos": "images/train/{name}.png", "classes": ["background", "car"]}
        declared |= {"instances": {"files": "{name}.npy", "encoding": "class_number", "divisor": 1000, "void": [255]}}
        (path / "segpaste.yaml").write_text(json.dumps(declared))
        assert losses(path, "coco") == named


@pytest.mark.parametrize("to", ["coco", "lvis", "roboflow", "voc", "coco-panoptic"])
def test_two_rows_of_one_image(to: str, tmp_path: Path) -> None:
    """Both rows come out, of one file where a table names the images, else of a copy for each."""
    masks = rectangle(SIZE, 1, 1, 4, 9), rectangle(SIZE, 6, 9, 14, 20), rectangle(SIZE, 1, 1, 4, 4)
    rows = [annotation_row(i, (8, 8, 9)[i], runs(mask)) for i, mask in enumerate(masks)]
    path = document(tmp_path, rows)
    tables = read_json(path / "annotations.json")
    tables["images"].append(image_row(9, SIZE, "one.png"))
    (path / "annotations.json").write_text(json.dumps(tables))
    summary = convert_dataset(path, tmp_path / "out", to)
    is_table = to in ("coco", "lvis", "roboflow")
    assert dict(summary.losses) == ({} if is_table else {"file names of images": 1})
    assert (summary.verified.images, summary.verified.objects) == (2 - is_table, 3)
    out = open_dataset(tmp_path / "out")
    assert [out[i].num_instances for i in range(len(out))] == [2, 1]
    assert len({out.file_name(i) for i in range(len(out))}) == 2 - is_table


class TestKeysOfDataYaml:
    def lost(self, folder: Path, to: str, task: Any, rows: str, facts: Any) -> tuple[set[str], Any]:
        """Convert a dataset with further keys; return the lost keys, and the written YAML."""
        write_yolo(folder / "in", {"a": f"{rows}\n"}, **facts)
        found = losses(folder / "in", to, task, splits=["train"])
        lost = {key.split("'")[1] for key in found if key.endswith("' of the data YAML")}
        file = folder / f"out-{to}-{task}-0/data.yaml"
        return lost, yaml.safe_load(file.read_text()) if file.exists() else None

    @pytest.mark.parametrize(("to", "task"), [("yolo", None), ("yolo", "detect"), ("coco", None)])
    def test_further_ones(self, to: str, task: Any, tmp_path: Path) -> None:
        rows = "0 0.1 0.1 0.3 0.1 0.3 0.3 0.1 0.3"
        true = {"roboflow": {"url": "u"}, "download": "a script", "colors": [[1, 2, 3]], "channels": 3, "empty": []}
        facts = {**true, "task": "obb", "flip_idx": [1, 0], "mini": "images/val"}
        lost, written = self.lost(tmp_path, to, task, rows, facts)
        if to == "yolo":
            assert lost == {"flip_idx", "mini"}
            kept = {key: written[key] for key in written.keys() - {"train", "val", "names", "nc"}}
            assert kept == {**true, "task": task or "obb"}
        else:
            assert lost == {*facts} - {"empty", "task"}

    @pytest.mark.parametrize(
        ("to", "task", "given", "lost"),
        [
            ("yolo", None, [1, 0], set()), ("yolo", None, [0, 1], set()), ("yolo", None, None, set()),
            ("yolo", "detect", [1, 0], {"flip_idx"}), ("coco", None, [1, 0], set()),
            ("coco", None, [0, 1], {"flip_idx"}), ("voc", None, [1, 0], {"flip_idx"}),
        ],
    )  # fmt: skip
    def test_of_keypoints(self, to: str, task: Any, given: Any, lost: set[str], tmp_path: Path) -> None:
        facts = {"kpt_shape": [2, 3], "kpt_names": {0: ["left_eye", "right_eye"]}, "names": ["cat"], "flip_idx": given}
        found, written = self.lost(tmp_path, to, task, "0 0.5 0.5 0.2 0.2 0.5 0.5 2 0.4 0.4 2", facts)
        assert found == lost
        if (to, task) == ("yolo", None):
            assert written.get("flip_idx") == given


class TestDigitsOfBoxes:
    """A box keeps the numbers of its file; samples have float32, in which 7.9 is 7.900000095367432."""

    ROW = "0 0.3 0.3 0.205 0.2"
    BOX = (7.9, 4, 8.2, 4)

    @pytest.mark.parametrize("points", ["", " 0.5 0.5 2"])
    def test_of_label_files(self, points: str, tmp_path: Path) -> None:
        facts = {"kpt_shape": [1, 3]} if points else {}
        write_yolo(tmp_path / "in", {"a": f"{self.ROW}{points}\n1 0.9 0.5 0.3 0.2{points}\n"}, **facts)
        losses(tmp_path / "in", "coco", splits=["train"])
        inside, cut = entries(tmp_path / "out-coco-None-0")
        assert (inside["bbox"], inside["area"]) == ([*self.BOX], 32.8)
        assert (cut["bbox"], cut["area"]) == ([30, 8, 10, 4], 40)
        losses(tmp_path / "in", "voc", splits=["train"])
        assert edges(tmp_path / "out-voc-None-0/Annotations/a.xml")[0] == ["8.9", "5", "16.1", "8"]

    def test_of_entries(self, tmp_path: Path) -> None:
        losses(document(tmp_path, [of_box(1.1, 2.3, 5.7, 3.3)]), "voc")
        assert edges(tmp_path / "out-voc-None-0/Annotations/one.xml") == [["2.1", "3.3", "6.8", "5.6"]]

    def test_of_boxes_with_masks_from_a_model(self, tmp_path: Path) -> None:
        photos = open_dataset(write_yolo(tmp_path / "in", {"a": f"{self.ROW}\n"}), "train")
        (row,) = WithPredictedMasks(photos, Masker()).annotation_rows(0)
        assert row["bbox"] == [*self.BOX]


def edges(xml: Path) -> list[list[str | None]]:
    """Return the texts of the edges of each box."""
    boxes = ElementTree.parse(xml).getroot().iter("bndbox")
    return [[box.findtext(key) for key in ("xmin", "ymin", "xmax", "ymax")] for box in boxes]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"bbox": None, "area": None}, {"bbox": [4, 4, 8, 6], "area": 48}), ({"bbox": None, "area": 7}, {"area": 7}),
        ({"bbox": [3, 3, 9, 9], "area": None, "iscrowd": None}, {"bbox": [3, 3, 9, 9], "area": 48, "iscrowd": 0}),
        ({"bbox": [1, 1, 3, 3], "area": None, "segmentation": []}, {"bbox": [1, 1, 3, 3], "area": 9}),
    ],
)  # fmt: skip
def test_entries_without_values_get_those_of_their_masks(given: Any, wanted: Any, tmp_path: Path) -> None:
    rows = [annotation_row(1, 8, runs(rectangle(SIZE, 4, 4, 10, 12))) | given]
    rows += [annotation_row(2, 8, runs(rectangle(SIZE, 1, 1, 3, 3)))]
    assert losses(document(tmp_path, rows), "coco") == {}
    row = entries(tmp_path / "out-coco-None-0")[0]
    assert {key: row[key] for key in wanted} == wanted
    assert row["bbox"] is not None


class TestBrokenSources:
    """An image at fault is an error about the source, not about what was written."""

    def source(self, folder: Path) -> tuple[Path, Path]:
        path = document(folder, [annotation_row(1, 8, runs(rectangle(SIZE, 1, 1, 4, 4)))])
        return path, path / "images/one.png"

    @pytest.mark.parametrize("to", ["coco", "coco-panoptic"])
    @pytest.mark.parametrize(
        ("pixels", "told"),
        [
            (np.zeros(SIZE, np.uint16), "one.png: expected an image of 8 bits per channel, got mode I;16"),
            (
                np.zeros((20, 24, 3), np.uint8),
                "one.png: expected 24 x 16 pixels as in the annotation file, got 24 x 20",
            ),
        ],
    )
    def test_of_another_kind_than_its_entry(self, pixels: Any, told: str, to: str, tmp_path: Path) -> None:
        path, file = self.source(tmp_path)
        if to == "coco-panoptic":  # whose segments are copied, too
            losses(path, to)
            path = tmp_path / "out-coco-panoptic-None-0"
            file = path / "train/one.png"
        Image.fromarray(pixels).save(file)
        with pytest.raises(DatasetError, match=told) as caught:
            losses(path, to, number=1, verify="off")
        assert str(caught.value).startswith(str(file))

    def test_without_its_end(self, tmp_path: Path) -> None:
        """The message says that the source is broken; once it is replaced, the same command goes on."""
        path, file = self.source(tmp_path)
        whole = file.read_bytes()
        file.write_bytes(whole[:-200])
        with pytest.raises(DatasetError, match=r"their sources cannot: train/one.png: .*could not decode it.*replace"):
            losses(path, "coco")
        file.write_bytes(whole)
        assert losses(path, "coco") == {}
        assert (tmp_path / "out-coco-None-0/train/one.png").read_bytes() == whole


@pytest.mark.parametrize("to", ["coco", "voc", "label-maps"])
def test_further_keys_of_panoptic_maps(to: str, tmp_path: Path) -> None:
    """Keys of images and things are held by entries; those of maps and of stuff are held by panoptic segments alone."""
    path = document(tmp_path, [annotation_row(1, 8, runs(rectangle(SIZE, 1, 1, 6, 6)))])
    losses(path, "voc")
    losses(tmp_path / "out-voc-None-0", "coco-panoptic")
    out = tmp_path / "out-coco-panoptic-None-0"
    file = next(out.rglob("*.json"))
    tables = read_json(file)
    of_map = tables["annotations"][0]
    of_map |= {"reviewer": "a", "nothing": None}
    thing, stuff = sorted(of_map["segments_info"], key=lambda row: int(row["area"]))
    thing["of_thing"], stuff["of_stuff"] = 1, 2
    file.write_text(json.dumps(tables))
    found = losses(out, to, number=1)
    wanted = {"key 'reviewer' of panoptic maps": 1, "key 'of_stuff' of segments of stuff": 1}
    wanted |= {"key 'of_thing' of annotations": 1} if to == "label-maps" else {}
    assert {key: num for key, num in found.items() if key.startswith("key 'of") or "panoptic" in key} == wanted
    assert losses(out, "coco-panoptic", number=1) == {}
    words = ["augment", str(out), "--out", str(tmp_path / "made"), "--num", "2", "--gallery", "0", "min_area_px=1"]
    assert main([*words, "source.kind=same_image"]) == 0
    left_out = read_json(tmp_path / "made/annotations.json")["info"]["segpaste"]["left_out"]
    assert left_out == {"key 'reviewer' of panoptic maps": 2, "key 'of_stuff' of segments of stuff": 2}


class TestAttributesOfVoc:
    """Whatever value an attribute has, and whatever else has its name, it is in the XML, and comes back."""

    def written(self, folder: Path, row: dict[str, Any], image: dict[str, Any] | None = None) -> tuple[Any, Any, Any]:
        """Convert an entry with further keys to VOC; return the losses, and the XML's pairs and object."""
        path = document(folder, [annotation_row(1, 8, runs(rectangle(SIZE, 1, 1, 6, 6))) | row])
        tables = read_json(path / "annotations.json")
        tables["images"][0] |= image or {}
        (path / "annotations.json").write_text(json.dumps(tables))
        found = losses(path, "voc")
        root = ElementTree.parse(folder / "out-voc-None-0/Annotations/one.xml").getroot()
        pairs = [(item.findtext("name"), item.findtext("value")) for item in root.iter("attribute")]
        return found, pairs, root

    @pytest.mark.parametrize(
        ("row", "pairs", "lost"),
        [
            ({"score": 1, "attributes": {"score": 2}}, [("score", "1"), ("score", "2")], []),
            ({"score": 1, "attributes": {"score": 1}}, [("score", "1")], []),
            ({"score": None, "attributes": {"a": None}}, [("score", None), ("a", None)], []),
            ({"attributes": {"id": 5, "bbox": "b"}}, [("id", "5"), ("bbox", "b")], []),
            ({"attributes": {"colour": " red "}}, [("colour", " red ")], []),
            ({"attributes": {"note": "a\n"}}, [], ["note"]), ({"attributes": ["a"]}, [], ["attributes"]),
            ({"attributes": {"pose": {"a b": 1}}}, [], ["pose"]),
            ({"attributes": "text"}, [("attributes", "text")], []),
            ({"pose": "Left", "attributes": {"pose": "Right"}}, [("pose", "Right")], []),
            ({"iscrowd": 1, "attributes": {"ignore": 1}}, [("iscrowd", "1")], ["ignore"]),
        ],
    )  # fmt: skip
    def test_of_objects(self, row: Any, pairs: Any, lost: list[str], tmp_path: Path) -> None:
        found, there, _ = self.written(tmp_path, row)
        assert found == {f"key '{key}' of annotations": 1 for key in lost}
        assert there == pairs
        out = tmp_path / "out-voc-None-0"
        assert losses(out, "voc", number=1) == {}
        xml = [tmp_path / f"out-voc-None-{i}/Annotations/one.xml" for i in (0, 1)]
        assert xml[0].read_bytes() == xml[1].read_bytes()

    def test_of_images(self, tmp_path: Path) -> None:
        attributes = {
            "license": 2,
            "id": 3,
            "none": None,
            "size": 4,
            "blank": " x ",
            "split": "train",
            "scene": "train",
        }
        found, _, root = self.written(tmp_path, {}, {"license": 1, "attributes": attributes})
        assert found == {"key 'size' of images": 1}
        assert [item.text for item in root.findall("license")] == ["1", "2"]
        assert [root.findtext(key) for key in ("id", "none", "blank", "scene")] == ["3", "", " x ", "train"]
        out = tmp_path / "out-voc-None-0"
        assert losses(out, "voc", number=1) == {}
        xml = [tmp_path / f"out-voc-None-{i}/Annotations/one.xml" for i in (0, 1)]
        assert xml[0].read_bytes() == xml[1].read_bytes()

    def test_of_other_tools(self, tmp_path: Path) -> None:
        """Attributes of elements, elements of equal names, and blanks are read; indentation is not."""
        self.written(tmp_path, {})
        file = tmp_path / "out-voc-None-0/Annotations/one.xml"
        more = '<note lang="de"><lang>x</lang></note><value> 1 </value><value>\n  2 \n</value>'
        text = (
            file.read_text()
            .replace("<annotation>", '<annotation verified="yes">')
            .replace("<object>", '<object n="4">')
        )
        file.write_text(text.replace("<bndbox>", f"{more}<bndbox>"))
        photos = open_dataset(tmp_path / "out-voc-None-0")
        assert photos.image_row(0)["attributes"]["verified"] == "yes"
        own = photos.annotation_rows(0)[0]["attributes"]
        assert (own["n"], own["note"], own["value"]) == ("4", {"lang": ["de", "x"]}, [" 1 ", "2"])


def test_attributes_of_cvat_with_equal_names(tmp_path: Path) -> None:
    own = "".join(
        f'<attribute name="{name}">{value}</attribute>' for name, value in (("a", " 1 "), ("a", "2"), ("box", "b"))
    )
    shape = f'<box label="car" xtl="2" ytl="2" xbr="9" ybr="9" rotation="30">{own}</box>'
    image = f'<image id="0" name="one.png" width="24" height="16">{shape}</image>'
    Image.new("RGB", SIZE[::-1]).save(tmp_path / "one.png")
    (tmp_path / "annotations.xml").write_text(f"<annotations><version>1.1</version>{image}</annotations>")
    own_attributes = open_dataset(tmp_path / "annotations.xml").annotation_rows(0)[0]["attributes"]
    assert (own_attributes["a"], own_attributes["box"]) == ([" 1 ", "2"], ["b", [2, 2, 9, 9]])


@pytest.mark.parametrize(("xmin", "num"), [(1, 0), (0, 1), (0.5, 1)])
def test_boxes_before_the_first_pixel_of_voc(xmin: float, num: int, tmp_path: Path) -> None:
    losses(document(tmp_path, [of_box(0, 2, 5, 5)]), "voc")
    out = tmp_path / "out-voc-None-0"
    file = out / "Annotations/one.xml"
    file.write_text(file.read_text().replace("<xmin>1<", f"<xmin>{xmin}<"))
    key = "boxes of XML files that begin before the first pixel, which is 1, and are cut there"
    assert losses(out, "coco") == ({key: 1} if num else {})


def test_shapes_of_labelme_that_are_no_objects(tmp_path: Path) -> None:
    shape = {"shape_type": "polygon", "points": [[4, 4], [12, 4], [12, 10]]}
    shapes = [{"label": label, **shape} for label in ("car", "_background_")]
    facts = {"version": "5.0.1", "imagePath": "one.png", "imageHeight": 16, "imageWidth": 24, "shapes": shapes}
    (tmp_path / "in").mkdir()
    Image.new("RGB", SIZE[::-1]).save(tmp_path / "in/one.png")
    (tmp_path / "in/one.json").write_text(json.dumps(facts))
    assert losses(tmp_path / "in", "coco") == {"shapes of the class '_background_', which are no objects": 1}


def test_outlines_that_are_read_as_boxes_are_named(tmp_path: Path) -> None:
    data = write_yolo(tmp_path / "in", {"a": "0 0.1 0.1 0.5 0.1 0.5 0.5 0.3 0.7\n", "b": "1 0.5 0.5 0.2 0.2\n"})
    summary = convert_dataset(data, tmp_path / "out", "yolo", splits=["train"], task="detect")
    assert summary.losses["outlines and keypoints of label rows, read as boxes"] == 1


class TestNullSegmentations:
    """No reader of COCO but ours takes ``null`` for an object without a mask; an empty list is what tools export."""

    NAMED = "segmentation null of objects, written as an empty list"

    def written(self, folder: Path, to: str, *given: Any) -> tuple[dict[str, int], list[Any]]:
        rows = [annotation_row(i, 8, g, bbox=[1 + 6 * i, 1, 5, 5]) for i, g in enumerate(given)]
        rows.append(annotation_row(7, 8, runs(rectangle(SIZE, 8, 8, 12, 12)), bbox=[8, 8, 4, 4]))
        found = losses(document(folder, rows), to)
        return found, entries(folder / f"out-{to}-None-0")

    @pytest.mark.parametrize("to", ["coco", "roboflow", "lvis"])
    def test_of_objects(self, to: str, tmp_path: Path) -> None:
        found, rows = self.written(tmp_path, to, None, [], None)
        assert found == {self.NAMED: 2}
        assert [row["segmentation"] for row in rows[:3]] == [[], [], []]
        assert [row["bbox"] for row in rows[:3]] == [[1, 1, 5, 5], [7, 1, 5, 5], [13, 1, 5, 5]]

    def test_nothing_is_named_without_any(self, tmp_path: Path) -> None:
        assert self.written(tmp_path, "coco", [])[0] == {}

    def test_regions_have_masks(self, tmp_path: Path) -> None:
        rows = [annotation_row(1, 8, None, bbox=[1, 1, 5, 5], iscrowd=1)]
        rows.append(annotation_row(2, 8, runs(rectangle(SIZE, 8, 8, 12, 12)), bbox=[8, 8, 4, 4]))
        assert losses(document(tmp_path, rows), "coco") == {}
        assert coco_mask.decode(entries(tmp_path / "out-coco-None-0")[0]["segmentation"]).sum() == 25


@pytest.mark.parametrize("grouping", ["image", "instance"])
def test_replayed_objects_keep_their_keys(grouping: str, tmp_path: Path, capsys: Any) -> None:
    """Objects of the target, pasted ones and crowds have the keys that `segpaste augment` gave them."""
    masks = [rectangle(SIZE, 1, 1, 6, 8), rectangle(SIZE, 8, 10, 14, 20)]
    rows = [
        annotation_row(10 * image + i, image, runs(mask), score=10 * image + i, attributes={"n": i})
        for image in (8, 9)
        for i, mask in enumerate(masks)
    ]
    rows.append(annotation_row(5, 8, runs(rectangle(SIZE, 0, 18, 4, 23)), iscrowd=1, note="crowd"))
    images_dir, path = write_coco(tmp_path, [image_row(8, SIZE, "one.png"), image_row(9, SIZE, "two.png")], rows)
    words = ["augment", str(path), "--images", str(images_dir), "--num", "6", "--gallery", "0", "min_area_px=1"]
    words += ["placement.k_range=[1,2]", f"placement.grouping={grouping}"]
    assert main([*words, "--out", str(tmp_path / "one")]) == 0
    again = ["replay", str(tmp_path / "one"), "--dataset", str(path), "--out", str(tmp_path / "two")]
    again += ["--images", str(images_dir)]
    assert main(again) == 0
    assert "left out" not in capsys.readouterr().out.rpartition("replayed")[2]
    one, two = (read_json(tmp_path / name / "annotations.json")["annotations"] for name in ("one", "two"))
    assert sum(row["segpaste"]["pasted"] for row in one) > 2
    assert [{key: row[key] for key in row if key != "segpaste"} for row in one] == two
    assert {row.get("score") or row.get("note") for row in two} == {80, 81, 90, 91, "crowd"}


class TestDataYaml:
    """Further keys of a data YAML are written where they can be; the others are named, as in a conversion."""

    FACTS: ClassVar[dict[str, Any]] = {"licence": "mine", "names_of": {"a": 1}, "download": "images/train"}

    def run(self, folder: Path, capsys: Any, *words: str) -> tuple[str, Any]:
        path = write_yolo(folder / "in", **self.FACTS)
        command = ["augment", str(path), "--num", "2", "--gallery", "0", "min_area_px=1", *words]
        assert main([*command, "--out", str(folder / "out")]) == 0
        again = ["replay", str(folder / "out"), "--dataset", str(path), "--out", str(folder / "again")]
        first = capsys.readouterr().out
        assert main(again) == 0
        second = capsys.readouterr().out
        for key in self.FACTS:
            told = f"key '{key}' of the data YAML"
            assert (told in first) == (told in second)
        return first, folder

    def test_of_the_same_format(self, tmp_path: Path, capsys: Any) -> None:
        said, folder = self.run(tmp_path, capsys)
        for out in ("out", "again"):
            written = yaml.safe_load((folder / out / "data.yaml").read_text())
            assert (written["licence"], written["names_of"]) == ("mine", {"a": 1})
            assert "download" not in written
        assert "key 'download' of the data YAML" in said
        assert "licence" not in said

    def test_of_another_format(self, tmp_path: Path, capsys: Any) -> None:
        said, folder = self.run(tmp_path, capsys, "--layout", "coco")
        assert all(f"key '{key}' of the data YAML" in said for key in self.FACTS)
        left_out = read_json(folder / "out/annotations.json")["info"]["segpaste"]["left_out"]
        lost = {f"key '{key}' of the data YAML": 1 for key in self.FACTS}
        assert left_out == {**lost, "split 'val', which is not copied": 1}

    def test_of_a_dataset_with_masks_from_a_model(self, tmp_path: Path) -> None:
        path = write_yolo(tmp_path / "in", {"a": "0 0.5 0.5 0.25 0.25\n"}, **self.FACTS)
        adapt = lambda photos: WithPredictedMasks(photos, Masker())  # noqa: E731
        summary = Conversion(find_dataset(path), "yolo", ["train"], adapt=adapt).run(tmp_path / "out")
        assert yaml.safe_load((tmp_path / "out/data.yaml").read_text())["licence"] == "mine"
        lost = {"key 'download' of the data YAML": 1, "key 'mask_quality' of annotations": 1}
        assert summary.losses == lost


class TestMapsOfAugmentedDatasets:
    """What no file of a layout holds is named, as in a conversion."""

    def run(self, folder: Path, capsys: Any, value: int, *words: str) -> tuple[int, str]:
        rows = [annotation_row(1, 8, runs(rectangle(SIZE, 1, 1, 6, 6)))]
        losses(document(folder, rows), "voc")
        source = folder / "out-voc-None-0"
        (source / "class_names.txt").write_text("_background_\ncar\nroad\n")
        with Image.open(file := source / "SegmentationClass/one.png") as picture:
            pixels, palette = np.array(picture), picture.getpalette()
        pixels[10:, :] = value
        changed = Image.fromarray(pixels)
        changed.putpalette(palette or [])
        changed.save(file)
        command = ["augment", str(source), "--num", "3", "--gallery", "0", "source.kind=same_image", "min_area_px=1"]
        code = main([*command, "--out", str(folder / "made"), *words])
        return code, capsys.readouterr().out

    @pytest.mark.parametrize(
        ("layout", "value", "is_named"), [("coco", 2, True), ("yolo", 2, True), ("coco", 0, False), ("voc", 2, False)]
    )
    def test_it_is_named(self, layout: str, value: int, is_named: bool, tmp_path: Path, capsys: Any) -> None:
        code, said = self.run(tmp_path, capsys, value, "--layout", layout)
        assert code == 0
        assert ("  semantic maps" in said) == is_named
        left_out = read_json(tmp_path / "made/annotations.json")["info"]["segpaste"].get("left_out")
        assert left_out == ({"semantic maps": 3} if is_named else None)

    @pytest.mark.parametrize("layout", ["coco", "yolo", "lvis", "roboflow"])
    def test_maps_alone_are_refused(self, layout: str, tmp_path: Path, capsys: Any) -> None:
        (tmp_path / "in/images/train").mkdir(parents=True)
        (tmp_path / "in/semantic/train").mkdir(parents=True)
        for name in "ab":
            Image.new("RGB", (16, 12), (9, 9, 9)).save(tmp_path / f"in/images/train/{name}.png")
            Image.fromarray(np.full((12, 16), 1, np.uint8)).save(tmp_path / f"in/semantic/train/{name}.png")
        (tmp_path / "in/classes.txt").write_text("sky\nroad\n")
        words = ["augment", str(tmp_path / "in"), "--num", "1", "emit_classmix=true", "--out", str(tmp_path / "out")]
        assert main([*words, "--layout", layout]) == 2
        assert f"--layout {layout}: expected objects in in" in capsys.readouterr().err
        assert not (tmp_path / "out").exists()


BROKEN: dict[str, dict[str, Any]] = {
    "no run lengths": {"segmentation": {}},
    "another size": {"segmentation": {"size": [3, 4], "counts": [12]}},
    "too few pixels": {"segmentation": {"size": list(SIZE), "counts": [3, 4]}},
    "truncated text": {"segmentation": {"size": list(SIZE), "counts": "~~~"}},
    "odd numbers": {"segmentation": [[1, 1, 5, 1, 5, 5, 1]]},
    "text": {"segmentation": [["1", 1, 5, 1, 5, 5]]},
    "no number as coordinate": {"segmentation": [[math.nan, 1, 5, 1, 5, 5]]},
    "no number as area": {"area": math.nan},
    "no number in a box": {"bbox": [1, 1, math.inf, 5]},
}


@pytest.mark.parametrize("name", BROKEN)
def test_entries_that_no_reader_can_open_are_not_copied(name: str, tmp_path: Path) -> None:
    good = annotation_row(7, 8, runs(rectangle(SIZE, 8, 8, 12, 12)), 3, bbox=[8, 8, 4, 4])
    row = annotation_row(8, 8, runs(rectangle(SIZE, 1, 1, 5, 5)), 3, bbox=[1, 1, 4, 4])
    path = document(tmp_path, [good, {**row, **BROKEN[name]}])
    for to in ("coco", "lvis", "roboflow"):
        with pytest.raises(DatasetError, match=r"annotation 8 of image 8 \(.*\): expected .*; correct or remove it"):
            losses(path, to)
    report = check_dataset(open_dataset(path))
    kinds = {"broken_entry"} if name.startswith(("no number as a", "no number in a")) else {"broken_mask"}
    assert {finding.kind for finding in report.findings if finding.annotation == 8} >= kinds
    assert not report.is_healthy


class TestRegionsThatCannotBeRead:
    BROKEN: ClassVar[dict[str, Any]] = {
        "run lengths of another size": {"size": [24, 16], "counts": [384]},
        "truncated text": {"size": [16, 24], "counts": "zz~~\x01"},
        "too few pixels": {"size": [16, 24], "counts": [100, 20]},
        "an odd polygon": [[1, 1, 9, 1, 9, 9, 5]],
    }

    @pytest.mark.parametrize("flag", ["iscrowd", "ignore"])
    @pytest.mark.parametrize("name", BROKEN)
    def test_the_box_that_stands_for_a_mask_is_named(self, name: str, flag: str, tmp_path: Path) -> None:
        rows = [
            annotation_row(1, 8, runs(rectangle(SIZE, 1, 1, 4, 4)), bbox=[1, 1, 3, 3]),
            annotation_row(2, 8, self.BROKEN[name], bbox=[10, 5, 6, 6], **{flag: 1}),
        ]
        path = document(tmp_path, rows)
        assert losses(path, "voc")[UNREAD_REGIONS] == 1
        with pytest.raises(DatasetError, match="annotation 2 of image 8"):
            convert_dataset(path, tmp_path / "out-coco", "coco")

    @pytest.mark.parametrize("box", [[12, 8, 6, 6, 90], None])
    @pytest.mark.parametrize("to", ["coco", "voc", "yolo"])
    def test_regions_with_neither_mask_nor_box(self, to: str, box: Any, tmp_path: Path) -> None:
        rows = [
            annotation_row(1, 8, runs(rectangle(SIZE, 1, 1, 4, 4)), bbox=[1, 1, 3, 3]),
            annotation_row(2, 8, [], bbox=box, iscrowd=1),
        ]
        assert losses(document(tmp_path, rows), to)[EMPTY_REGIONS] == 1


@pytest.mark.parametrize("box", [[1, 2, 3], [1, 2, 3, 4, 90], "1 2 3 4", ["1", "2", "3", "4"], {"x": 1}, None])
def test_boxes_that_the_reader_refuses_are_findings(box: Any, tmp_path: Path) -> None:
    rows = [annotation_row(1, 8, [], bbox=[1, 1, 3, 3]), annotation_row(2, 8, [], bbox=box)]
    path = document(tmp_path, rows)
    with pytest.raises(DatasetError, match="expected a 'bbox' of four numbers") as raised:
        open_dataset(path)[0]
    (finding,) = (found for found in check_dataset(open_dataset(path)).findings if found.kind == "broken_entry")
    assert finding.message == str(raised.value)
    assert (finding.annotation, finding.photo) == (2, "one.png")


def test_regions_that_an_lvis_file_lacks_are_named_by_augment_as_by_convert(tmp_path: Path) -> None:
    mask = runs(rectangle(SIZE, 1, 1, 4, 4))
    rows = [
        annotation_row(1, 8, mask, bbox=[1, 1, 3, 3]),
        annotation_row(2, 8, runs(rectangle(SIZE, 6, 6, 9, 9)), bbox=[6, 6, 3, 3], iscrowd=1),
        annotation_row(3, 8, runs(rectangle(SIZE, 10, 10, 13, 13)), bbox=[10, 10, 3, 3], ignore=1),
    ]
    path = document(tmp_path, rows)
    assert losses(path, "lvis") == {"crowd regions": 1, "ignored regions": 1}
    summary = augment_dataset(
        path, tmp_path / "augmented", num=2, layout="lvis", overrides={"source.kind": "same_image"}
    )
    only = "(only in annotations.json)"
    assert dict(summary.left_out) == {f"crowd regions {only}": 2, f"ignored regions {only}": 2}
