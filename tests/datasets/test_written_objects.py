"""Objects without a mask, regions, exact boxes, tables, depth and orientations: what is written is read again."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from conversion_world import mask_of, read_json, write_instances
from PIL import Image, ImageOps
from pycocotools import mask as coco_mask

from on_disk import noise, rectangle
from samples import make_sample
from segpaste.cli import main
from segpaste.datasets import DatasetError, convert_dataset, open_dataset
from segpaste.datasets.contract import Crowd
from segpaste.datasets.formats.pixel_bytes import depth_mm, num_too_far
from segpaste.datasets.writers.coco import crowd_rows
from segpaste.datasets.writers.dataset_writer import crowds_left
from segpaste.types import CrowdMask, Modality

SIZE = (48, 64)
WITHOUT_A_MASK: dict[str, Any] = {
    "empty list": [],
    "list of an empty list": [[]],
    "the box": [[30, 24, 12.5, 12]],
    "two points": [[30, 24, 42, 36]],
    "null": None,
    "missing": "missing",
    "no pixel": [[30.1, 24.1, 30.2, 24.1, 30.2, 24.2]],
}
BOX = [30, 24, 12.5, 12]


def write_mixed(folder: Path, segmentation: Any, *, masks: bool = True) -> Path:
    """Write three images as CVAT exports them: each has an object with a polygon, and two with a box."""
    (folder / "photos").mkdir(parents=True)
    images, rows = [], []
    for number in (1, 2, 3):
        Image.fromarray(noise(SIZE, number)).save(folder / f"photos/{number}.png")
        images.append({"id": number, "file_name": f"{number}.png", "height": SIZE[0], "width": SIZE[1]})
        polygon = {
            "category_id": 1,
            "segmentation": [[4, 4, 20, 4, 20, 20, 4, 20]],
            "bbox": [4, 4, 16, 16],
            "area": 256,
        }
        bare = {"category_id": 2, "segmentation": segmentation, "bbox": BOX, "area": 150}
        for row in [polygon, bare, {**bare, "bbox": [46, 24, 12, 12]}] if masks else [bare]:
            rows.append({"id": len(rows) + 1, "image_id": number, "iscrowd": 0, **row})
            if row.get("segmentation") == "missing":
                del rows[-1]["segmentation"]
    categories = [{"id": 1, "name": "cup"}, {"id": 2, "name": "plate"}]
    (folder / "a.json").write_text(json.dumps({"images": images, "annotations": rows, "categories": categories}))
    return folder / "a.json"


def converted(path: Path, out: Path, to: str, **options: Any) -> dict[str, int]:
    with warnings.catch_warnings(action="ignore"):
        return dict(convert_dataset(path, out, to, images_dir=path.parent / "photos", **options).losses)


@pytest.mark.parametrize("segmentation", WITHOUT_A_MASK.values(), ids=WITHOUT_A_MASK)
class TestObjectsWithoutAMask:
    def test_boxes_of_labels(self, tmp_path: Path, segmentation: Any) -> None:
        losses = converted(write_mixed(tmp_path, segmentation), tmp_path / "out", "yolo", task="detect")
        assert losses == {"masks of objects (the task detect has none)": 3}
        found = open_dataset(tmp_path / "out")[1]
        assert found.labels.tolist() == [0, 1, 1]
        np.testing.assert_allclose(found.boxes, [[4, 4, 20, 20], [30, 24, 42.5, 36], [46, 24, 58, 36]], atol=1e-4)

    @pytest.mark.parametrize(("to", "held"), [("yolo", 0), ("label-maps", 0), ("coco-panoptic", 0), ("voc", 2)])
    def test_formats_of_masks_count_them(self, tmp_path: Path, segmentation: Any, to: str, held: int) -> None:
        losses = converted(write_mixed(tmp_path, segmentation), tmp_path / "out", to)
        assert losses == ({} if held else {"objects without a mask": 6})
        photos = open_dataset(tmp_path / "out")
        sample, crowds = photos[0], photos.crowds(0)
        assert (sample.num_instances, len(crowds)) == (1, held)
        if held:
            assert [photos.class_names[crowd.label] for crowd in crowds] == ["plate", "plate"]
            assert [crowd.box for crowd in crowds] == [(30, 24, 42.5, 36), (46, 24, 58, 36)]

    def test_entries_stay_as_they_are(self, tmp_path: Path, segmentation: Any) -> None:
        path = write_mixed(tmp_path, segmentation)
        is_null = segmentation is None
        losses = converted(path, tmp_path / "out", "coco")
        assert losses == ({"segmentation null of objects, written as an empty list": 6} if is_null else {})
        rows = read_json(path)["annotations"]
        rows = [{**row, "segmentation": []} if is_null and row["category_id"] == 2 else row for row in rows]
        assert read_json(tmp_path / "out/annotations.json")["annotations"] == rows

    def test_a_file_of_boxes_alone(self, tmp_path: Path, segmentation: Any) -> None:
        if segmentation == WITHOUT_A_MASK["no pixel"]:
            return  # a polygon, so a file of masks
        path = write_mixed(tmp_path, segmentation, masks=False)
        photos = open_dataset(path, images_dir=tmp_path / "photos")
        assert not photos.has_masks
        assert photos[0].boxes.tolist() == [[30, 24, 42.5, 36]]
        assert photos[0].crowd_mask is None


@pytest.mark.parametrize("layout", ["coco", "yolo", "voc"])
def test_an_augmented_dataset_keeps_them(tmp_path: Path, layout: str) -> None:
    path = write_mixed(tmp_path, [])
    args = ["augment", str(path), "--images", str(tmp_path / "photos"), "--out", str(tmp_path / "out"), "--num", "6"]
    assert main([*args, "--seed", "1", "--layout", layout, "placement.k_range=[1,1]", "--gallery", "0"]) == 0
    rows = read_json(tmp_path / "out/annotations.json")["annotations"]
    boxes = [row for row in rows if row["category_id"] == 2]
    assert len(boxes) >= 8  # of 12; pastes hide some
    for row in boxes:
        assert (row["segmentation"], row["iscrowd"]) == ([], 0)
        _, y, width, height = row["bbox"]
        assert row["area"] == width * height > 0
        assert y >= 24
        assert y + height <= 36
        assert not {*row} & {"ignore", "keypoints"}
    assert [*BOX[:2], *BOX[2:]] in [row["bbox"] for row in boxes]
    if layout == "voc":
        files = [ElementTree.parse(file) for file in (tmp_path / "out/Annotations").iterdir()]
        assert sum(len(file.findall("object")) for file in files) == len(rows)


def test_boxes_follow_the_jitter(tmp_path: Path) -> None:
    path = write_mixed(tmp_path, [])
    args = ["augment", str(path), "--images", str(tmp_path / "photos"), "--out", str(tmp_path / "out"), "--num", "6"]
    assert main([*args, "--size", "32", "--gallery", "0", "placement.k_range=[1,1]"]) == 0
    rows = read_json(tmp_path / "out/annotations.json")["annotations"]
    boxes = [row["bbox"] for row in rows if row["category_id"] == 2]
    assert boxes
    for x, y, width, height in boxes:
        assert min(x, y) >= 0 < min(width, height)
        assert max(x + width, y + height) <= 32


def test_a_box_is_cut_to_what_is_visible() -> None:
    """It stays as it is, to the last bit, if nothing of it is hidden."""
    sample = make_sample(modalities=[Modality.INSTANCE])
    height, width = sample.canvas_size
    box = (2.25, 3.125, 8.75, 9.5)
    crowd = Crowd(5, 0, False, rectangle((height, width), 3, 2, 10, 9), box)
    pixels = torch.ones(1, height, width, dtype=torch.bool)
    for cut, wanted in ((0, box), (5, (5.0, 3.125, 8.75, 9.5)), (width, None)):
        pixels[0, :, :cut] = False
        left = crowds_left(replace(sample, crowd_mask=CrowdMask(pixels.clone())), [(crowd, {})])
        assert [c.box for c, _ in left] == ([] if wanted is None else [wanted])
    rows = crowd_rows(1, [{"id": 7}], [(crowd, {"score": 1})])
    assert rows == [
        {"image_id": 1, "category_id": 7, "segmentation": [], "area": 6.5 * 6.375}
        | {"bbox": [2.25, 3.125, 6.5, 6.375], "iscrowd": 0, "score": 1}
    ]


class TestRegions:
    @pytest.mark.parametrize("segmentation", [[], [[14, 1, 20, 1, 20, 6]]])
    def test_ignored_ones_are_crowds_with_masks(self, tmp_path: Path, segmentation: Any) -> None:
        """COCO's evaluation reads ``iscrowd`` and overwrites ``ignore``."""
        images_dir, path = write_instances(tmp_path)
        document = read_json(path)
        for row in document["annotations"]:
            if row["id"] == 41:
                row["segmentation"] = segmentation
            if row["id"] == 40:
                row["segmentation"] = []
        path.write_text(json.dumps(document))
        convert_dataset(path, tmp_path / "out", "coco", images_dir=images_dir)
        rows = {row["id"]: row for row in read_json(tmp_path / "out/annotations.json")["annotations"]}
        assert [(rows[i]["iscrowd"], rows[i].get("ignore")) for i in (30, 40, 41)] == [(0, None), (1, None), (1, 1)]
        assert coco_mask.decode(rows[40]["segmentation"]).sum() == 30
        if segmentation:
            assert rows[41]["segmentation"] == segmentation
        else:
            assert coco_mask.decode(rows[41]["segmentation"]).sum() == 27
        before, after = open_dataset(path, images_dir=images_dir), open_dataset(tmp_path / "out")
        assert [c.is_ignored for c in after.crowds(0)] == [c.is_ignored for c in before.crowds(0)] == [False, True]
        for one, other in zip(before.crowds(0), after.crowds(0), strict=True):
            np.testing.assert_array_equal(one.mask, other.mask)

    def test_flags_and_masks_come_back_from_voc(self, tmp_path: Path) -> None:
        """The mask of a region is the void in its box, unless objects or other regions are there."""
        images_dir, path = write_instances(tmp_path)
        before = open_dataset(path, images_dir=images_dir)
        document = read_json(path)
        crowd = mask_of(document["annotations"][3])
        crowd[:3, 18:20] = False  # no rectangle
        found = coco_mask.encode(np.asfortranarray(crowd.astype(np.uint8)))
        document["annotations"][3]["segmentation"] = {"size": [*crowd.shape], "counts": found["counts"].decode()}
        del document["annotations"][1]  # the object over the crowd
        path.write_text(json.dumps(document))
        losses = convert_dataset(path, tmp_path / "out", "voc", images_dir=images_dir).losses
        assert "exact masks of crowd and ignored regions" not in losses
        photos = open_dataset(tmp_path / "out")
        crowds = photos.crowds(0)
        assert [(c.is_ignored, photos.class_names[c.label]) for c in crowds] == [(False, "cup"), (True, "car")]
        np.testing.assert_array_equal(crowds[0].mask, crowd)
        np.testing.assert_array_equal(crowds[1].mask, before.crowds(0)[1].mask)
        again = convert_dataset(tmp_path / "out", tmp_path / "coco", "coco")
        rows = read_json(tmp_path / "coco/annotations/instances_train.json")["annotations"]
        assert dict(again.num_crowds) == {"train": 2}
        assert [(row["iscrowd"], row.get("ignore")) for row in rows] == [(0, None), (0, None), (1, None), (1, 1)]

    def test_a_mask_that_voc_does_not_hold_is_counted(self, tmp_path: Path) -> None:
        images_dir, path = write_instances(tmp_path)
        losses = convert_dataset(path, tmp_path / "out", "voc", images_dir=images_dir).losses
        assert losses["exact masks of crowd and ignored regions"] == 1  # an object lies over the crowd


def test_boxes_come_back_from_voc_to_the_last_bit(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (640, 480)).save(tmp_path / "photos/a.png")
    starts = np.random.default_rng(5).uniform(0, 300, (40, 2))
    sides = np.random.default_rng(6).uniform(0.01, 170, (40, 2))
    boxes = [[0, 0, 640, 480], [3, 4, 5, 6], *np.concatenate([starts, sides], 1).tolist()]
    rows = [
        {"id": i + 1, "image_id": 1, "category_id": 1, "bbox": box, "area": 1, "iscrowd": 0}
        for i, box in enumerate(boxes)
    ]
    image = {"id": 1, "file_name": "a.png", "height": 480, "width": 640}
    tables = {"images": [image], "annotations": rows, "categories": [{"id": 1, "name": "cup"}]}
    (tmp_path / "a.json").write_text(json.dumps(tables))
    before = open_dataset(tmp_path / "a.json", images_dir=tmp_path / "photos")[0]
    assert not converted(tmp_path / "a.json", tmp_path / "voc", "voc")
    after = open_dataset(tmp_path / "voc")[0]
    assert after.boxes.equal(before.boxes)
    texts = [edge.text for edge in ElementTree.parse(tmp_path / "voc/Annotations/a.xml").iter("xmin")]
    assert texts[:2] == ["1", "4"]  # whole numbers, for readers that know no others


@pytest.mark.parametrize("names", [("background", "cup", "cup", ""), ("cup", "background", "mug ", "#")])
@pytest.mark.parametrize("to", ["voc", "label-maps", "coco-panoptic"])
def test_semantic_maps_alone(tmp_path: Path, to: str, names: tuple[str, ...]) -> None:
    """Classes keep their places, after the background that VOC adds if it is not the first one."""
    for folder in ("images", "semantic"):
        (tmp_path / "in" / folder).mkdir(parents=True)
    values = np.repeat(np.arange(4, dtype=np.uint8), 8)[None].repeat(SIZE[0], 0)
    values[0] = 255
    Image.fromarray(noise((SIZE[0], 32), 3)).save(tmp_path / "in/images/a.png")
    Image.fromarray(values).save(tmp_path / "in/semantic/a.png")
    declared = {"photos": "images/{name}.png", "classes": [{"name": name} for name in names]}
    declared["semantic"] = {"files": "semantic/{name}.png", "void": [255]}
    (tmp_path / "in/segpaste.yaml").write_text(json.dumps(declared))
    assert not convert_dataset(tmp_path / "in", tmp_path / "out", to).losses
    photos = open_dataset(tmp_path / "out")
    num_more = int(to == "voc" and names[0] != "background")
    assert photos.class_names[num_more:] == names
    wanted = np.where(values == 255, 255, values + num_more)
    np.testing.assert_array_equal(photos[0].semantic_map, wanted)


def test_depth_that_millimetres_do_not_hold() -> None:
    """Small valid depth stays valid, and depth beyond 16 bits is counted."""
    depth = np.array([[0.0001, 0.0004, 0.0006, 65.535, 65.5354, 65.5356, 80, np.inf, np.nan, 0, -1]], np.float32)
    valid = np.ones_like(depth, bool)
    assert depth_mm(depth, valid).tolist() == [[1, 1, 1, 65535, 65535, 0, 0, 0, 0, 0, 0]]
    assert num_too_far(depth, valid) == 6
    assert num_too_far(depth, ~valid) == 0


@pytest.mark.parametrize(
    ("to", "kind", "upright"),
    [
        *((to, "jpg", True) for to in ("coco", "yolo", "voc", "label-maps", "coco-panoptic", "lvis", "roboflow")),
        *((to, "tiff", True) for to in ("coco", "yolo")),
        *((to, kind, False) for to in ("coco", "yolo", "voc") for kind in ("jpg", "webp", "tiff")),
    ],
)
def test_no_written_image_has_an_orientation(tmp_path: Path, to: str, kind: str, upright: bool) -> None:
    """Every reader sees the labelled pixels, whether it applies orientations or not."""
    (tmp_path / "photos").mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6
    name = f"a.{kind}"
    other = "a.png" if to in ("coco", "lvis") else "b.png"
    Image.fromarray(noise(SIZE, 3)).save(tmp_path / "photos" / name, exif=exif)
    Image.fromarray(noise(SIZE, 4)).save(tmp_path / "photos" / other)
    height, width = SIZE[::-1] if upright else SIZE
    images = [
        {"id": 1, "file_name": name, "height": height, "width": width},
        {"id": 2, "file_name": other, "height": SIZE[0], "width": SIZE[1]},
    ]
    row = {"category_id": 1, "segmentation": [[4, 4, 20, 4, 20, 20]], "bbox": [4, 4, 16, 16], "area": 128, "iscrowd": 0}
    rows = [{"id": i, "image_id": i, **row} for i in (1, 2)]
    tables = {"images": images, "annotations": rows, "categories": [{"id": 1, "name": "cup"}]}
    (tmp_path / "a.json").write_text(json.dumps(tables))
    before = open_dataset(tmp_path / "a.json", images_dir=tmp_path / "photos")
    losses = converted(tmp_path / "a.json", tmp_path / "out", to)
    assert losses["files of images, which are encoded again as PNG: EXIF orientation"] == 1
    after = open_dataset(tmp_path / "out")
    seen = set()
    for i in range(2):
        path = after.photo_file(i)[0]
        with Image.open(path) as picture:
            assert picture.getexif().get(0x0112, 1) == 1
            stored = np.array(picture.convert("RGB"))
            turned = np.array(ImageOps.exif_transpose(picture).convert("RGB"))
        np.testing.assert_array_equal(stored, turned)
        seen |= {k for k in range(2) if np.array_equal(stored, before[k].image.permute(1, 2, 0).numpy())}
    assert seen == {0, 1}
    assert Counter(after[i].num_instances for i in range(2)) == {1: 2}


def edited(folder: Path, rows: list[dict[str, Any]], segmentation: Any = (), **tables: Any) -> Path:
    """Write the images of `write_mixed`, with keys added to the annotations of the first one."""
    path = write_mixed(folder, list(segmentation))
    document = read_json(path)
    for row, more in zip(document["annotations"], rows, strict=False):
        row.update(more)
        for key in [key for key, value in more.items() if value is None]:
            del row[key]
    path.write_text(json.dumps({**document, **tables}))
    return path


def test_a_box_that_voc_rounds_is_as_it_was(tmp_path: Path) -> None:
    """x + 1 - 1 is not x in binary fractions."""
    assert not converted(edited(tmp_path, [{}, {"bbox": [0.35, 20.25, 11.5, 9.5]}]), tmp_path / "out", "voc")


@pytest.mark.parametrize("value", [True, 1, "1", 1.0, 2, "false", False, 0, "0"])
def test_difficult_is_a_region_in_voc_only_if_it_was_one(tmp_path: Path, value: Any) -> None:
    given = {"attributes": {"difficult": value, "shade": "dark"}}
    path = edited(tmp_path, [given, given, {**given, "iscrowd": 1, "segmentation": [[46, 24, 58, 24, 58, 36, 46, 36]]}])
    assert not converted(path, tmp_path / "out", "voc")
    assert not convert_dataset(tmp_path / "out", tmp_path / "again", "voc").losses
    for folder in ("out", "again"):
        objects = ElementTree.parse(tmp_path / folder / "Annotations/1.xml").findall("object")
        assert [item.findtext("difficult") for item in objects] == ["0", "0", "1"]
        kept = {a.findtext("name"): a.findtext("value") for a in objects[0].iter("attribute")}
        assert kept.get("difficult", "0") == (str(value) if value else "0")
        assert kept["shade"] == "dark"


@pytest.mark.parametrize("segmentation", [[[]], [[30, 24, 12.5, 12]]])
@pytest.mark.parametrize("to", ["coco", "roboflow", "lvis"])
def test_an_object_without_a_mask_and_area(tmp_path: Path, segmentation: Any, to: str) -> None:
    path = edited(tmp_path, [{}, {"area": None}], segmentation)
    assert not converted(path, tmp_path / "out", to)


def test_an_area_that_is_nan_is_refused(tmp_path: Path) -> None:
    path = edited(tmp_path, [{"area": np.nan}])
    with pytest.raises(DatasetError, match=r"expected finite numbers as 'area', since others are not JSON, got NaN"):
        converted(path, tmp_path / "out", "coco")


@pytest.mark.parametrize(("to", "num"), [("coco-panoptic", 256), ("yolo", 0)])
def test_a_number_of_classes_that_a_format_cannot_hold(tmp_path: Path, to: str, num: int) -> None:
    path = write_mixed(tmp_path, [])
    document = {**read_json(path), "categories": [{"id": i, "name": f"c{i}"} for i in range(1, num + 1)]}
    path.write_text(json.dumps({**document, "annotations": document["annotations"] if num else []}))
    with pytest.raises(DatasetError, match=r"a\.json: expected at .*, got .*; (write label-maps|add a category)"):
        converted(path, tmp_path / "out", to)
    assert not (tmp_path / "out.partial").exists()
