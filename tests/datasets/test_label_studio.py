"""Label Studio's JSON: kinds of regions, brush strokes, which annotation is read, photos, and broken files."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_files import (
    BAR,
    BAR_POINTS,
    ELL,
    ELL_POINTS,
    SIZE,
    WRITERS,
    pack_brush,
    percents,
    region,
    task,
    write_label_studio,
)
from PIL import Image

from on_disk import Mask, noise
from segpaste.datasets import DatasetError, find_dataset, open_dataset
from segpaste.datasets.formats.label_studio_masks import unpack_brush

CUP = region("c", "polygonlabels", "cup", value={"points": percents(ELL_POINTS)})


def one(folder: Path, *results: Any, **more: Any) -> Any:
    return open_dataset(write_label_studio(folder, [task(1, "a.png", list(results), **more)]))


class TestBrush:
    @pytest.mark.parametrize(
        "mask", [ELL, BAR, np.zeros((3, 5), bool), np.ones((3, 5), bool), noise((7, 11))[..., 0] > 99]
    )
    def test_round_trip(self, mask: Mask) -> None:
        np.testing.assert_array_equal(unpack_brush(pack_brush(mask), mask.shape), mask)

    def test_bits_by_hand(self) -> None:
        """One pixel: a head, three zeros in a row, and one value of 8 bits, 200."""
        head = f"{4:032b}{7:05b}" + f"{2:04b}{3:04b}{7:04b}{15:04b}"
        bits = head + "1" + "00" + f"{2:03b}" + f"{0:08b}" + "0" + "00" + f"{0:03b}" + f"{200:08b}"
        bits += "0" * (-len(bits) % 8)
        packed = [int(bits[i : i + 8], 2) for i in range(0, len(bits), 8)]
        assert unpack_brush(packed, (1, 1)).tolist() == [[True]]

    def test_broken(self) -> None:
        packed = pack_brush(ELL)
        with pytest.raises(ValueError, match="on 5 x 4 pixels, 80 values, got 3200"):
            unpack_brush(packed, (4, 5))
        with pytest.raises(ValueError, match="truncated"):
            unpack_brush(packed[:-4], SIZE)
        with pytest.raises(ValueError, match="a list of bytes, got other values"):
            unpack_brush([*packed[:-1], 256], SIZE)


class TestRegions:
    def test_coordinates_are_percents(self, tmp_path: Path) -> None:
        box = region("r", "rectanglelabels", "cup", value={"x": 10.0, "y": 20, "width": 25, "height": 30})
        assert one(tmp_path, box)[0].boxes.tolist() == [[4, 4, 14, 10]]

    def test_rectangles_rotate_about_their_corner(self, tmp_path: Path) -> None:
        """Clockwise: a box to the right of its corner is below it after a quarter."""
        value = {"x": 50.0, "y": 20, "width": 20, "height": 10, "rotation": 90}
        photos = one(tmp_path, region("r", "rectanglelabels", "cup", value=value))
        np.testing.assert_allclose(photos[0].boxes, [[18, 4, 20, 12]], atol=1e-5)
        assert photos.annotation_rows(0)[0]["attributes"]["rotation"] == 90

    def test_ellipse(self, tmp_path: Path) -> None:
        value = {"x": 30, "y": 45, "radiusX": 15, "radiusY": 17.5, "rotation": 0}
        photos = one(tmp_path, region("e", "ellipselabels", "cup", value=value))
        y, x = np.indices(SIZE) + 0.5
        np.testing.assert_array_equal(photos[0].instance_masks[0], ((x - 12) / 6) ** 2 + ((y - 9) / 3.5) ** 2 <= 1)

    def test_labels_beside_their_shape(self, tmp_path: Path) -> None:
        """The shape and its labels in two results of one id, as ``<Labels>`` gives them; a second label is kept."""
        shape = region("k", "polygon", "", value={"points": percents(BAR_POINTS)})
        del shape["value"]["polygon"]
        labels = region("k", "labels", "zebra", value={"points": percents(BAR_POINTS)})
        labels["value"]["labels"].append("striped")
        photos = one(tmp_path, shape, labels)
        np.testing.assert_array_equal(photos[0].instance_masks, [BAR])
        assert (photos.class_names, photos.annotation_rows(0)[0]["attributes"]) == (
            ("zebra",),
            {"labels": ["zebra", "striped"]},
        )

    def test_keypoints_of_the_region_around_them(self, tmp_path: Path) -> None:
        """COCO's points are pixels, ours edges; a point without a region is no object."""
        points = [
            region(f"p{i}", "keypointlabels", name, value={"x": x, "y": y, "width": 0.5}, parentID=parent)
            for i, (name, x, y, parent) in enumerate([("rim", 20, 30, "c"), ("ear", 35, 55, "c"), ("tip", 1, 1, "")])
        ]
        with pytest.warns(UserWarning, match="1 keypoint without an area"):
            photos = one(tmp_path, CUP, *points)
        assert photos.keypoint_schema.names == ("ear", "rim")
        assert photos[0].keypoints.tolist() == [[[14, 11, 2], [8, 6, 2]]]
        assert photos.image_row(0)["shapes"] == [points[2]["value"]]

    def test_regions_without_a_label(self, tmp_path: Path) -> None:
        bare = region("k", "polygonlabels", "", value={"points": percents(BAR_POINTS)})
        del bare["value"]["polygonlabels"]
        with pytest.warns(UserWarning, match="1 region without a label"):
            assert len(one(tmp_path, CUP, bare)[0].labels) == 1

    def test_answers_about_photos_and_relations_are_kept(self, tmp_path: Path) -> None:
        answer = {"id": "q", "type": "choices", "from_name": "scene", "to_name": "image", "value": {"choices": ["bar"]}}
        relation = {"type": "relation", "from_id": "c", "to_id": "c", "direction": "right"}
        attributes = one(tmp_path, answer, CUP, relation).image_row(0)["attributes"]
        assert (attributes["scene"], attributes["relations"]) == ([["bar"]], [relation])


class TestTasks:
    def test_which_annotation_is_read(self, tmp_path: Path) -> None:
        zebra = region("z", "polygonlabels", "zebra", value={"points": percents(BAR_POINTS)})
        rows = [
            {"id": 1, "was_cancelled": True, "result": [CUP]},
            {"id": 2, "was_cancelled": False, "result": [zebra]},
            {"id": 3, "ground_truth": True, "result": [CUP]},
        ]
        with pytest.warns(UserWarning, match="1 further annotations"):
            photos = one(tmp_path, annotations=rows)
        np.testing.assert_array_equal(photos[0].instance_masks, [ELL])
        attributes = photos.image_row(0)["attributes"]
        assert (attributes["annotation"]["id"], attributes["other_annotations"]) == (3, rows[:2])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_array_equal(one(tmp_path, annotations=rows[:2])[0].instance_masks, [BAR])

    def test_the_file_alone(self, tmp_path: Path) -> None:
        folder = WRITERS["label-studio"](tmp_path)
        (folder / "images").rename(folder / "photos")
        path = folder / "project-1.json"
        assert len(open_dataset(path, images_dir=folder / "photos")[0].labels) == 2

    @pytest.mark.parametrize(
        "address",
        [
            "s3://bucket/in/a.png",
            "/data/local-files/?d=in%2Fa.png",
            "https://host/a.png?sign=x.y",
            "/data/upload/1/a.png",
        ],
    )
    def test_addresses_of_photos(self, tmp_path: Path, address: str) -> None:
        photos = one(tmp_path, CUP, data={"note": "of a.png", "picture": address})
        assert photos.file_name(0) == "images/a.png"

    def test_two_exports_in_a_folder(self, tmp_path: Path) -> None:
        folder = WRITERS["label-studio"](tmp_path)
        write_label_studio(folder, name="project-2.json")
        with pytest.raises(DatasetError, match="expected a dataset of"):
            find_dataset(folder)
        assert len(open_dataset(folder / "project-2.json")) == 3

    @pytest.mark.parametrize(
        ("tasks", "message"),
        [
            (
                [{"image": "a.png", "annotator": 1}],
                "task 1: expected the keys 'data' and 'annotations', got image, annotator",
            ),
            ([{"annotations": [], "data": {"text": 3}}], "expected the address of an image in 'data'"),
            ([task(1, "a.png", [], annotations=[3])], "task 1: expected the keys 'data' and 'annotations'"),
            ([task(4, "a.png", 3)], "task 4: expected results with a 'type', got 3"),
            ([task(4, "a.png", [3])], "task 4: expected results with a 'type', got 3"),
            ([task(4, "a.png", [{**CUP, "original_width": "40"}])], "region 'c': expected the size of the image"),
            ([task(4, "a.png", [{**CUP, "image_rotation": 90}])], r"not rotated \(image_rotation\), got 90"),
            ([task(4, "a.png", [CUP, {**CUP, "id": "d", "original_width": 9}])], "regions on images of several sizes"),
            ([task(4, "a.png", [region("v", "videolabels", "cup", value={"sequence": []})])], "got 'videolabels'"),
            ([task(4, "a.png", [region("p", "polygonlabels", "cup", value={"points": [[1]]})])], "points of a polygon"),
            (
                [task(4, "a.png", [region("b", "brushlabels", "cup", value={"rle": [1, 2]})])],
                "region 'b': expected packed brush strokes, got truncated ones",
            ),
            (
                [
                    task(
                        4,
                        "a.png",
                        [region("r", "rectanglelabels", "cup", value={"x": "1", "y": 1, "width": 1, "height": 1})],
                    )
                ],
                "expected x and y and width and height of a rectangle in percent",
            ),
        ],
    )
    def test_broken(self, tmp_path: Path, tasks: Any, message: str) -> None:
        with pytest.raises(DatasetError, match=r"project-1\.json: .*" + message):
            open_dataset(write_label_studio(tmp_path, tasks))


class TestImagesOfATask:
    """``to_name`` and ``item_index`` decide on which image a region is."""

    LEFT, RIGHT = "/data/upload/1/left.png", "/data/upload/1/right.png"

    def objects(self, tmp_path: Path, *tasks: tuple[dict[str, Any], list[dict[str, Any]]]) -> dict[str, list[str]]:
        """The classes on each image file of the tasks."""
        for name in ("left", "right"):
            Image.new("RGB", (SIZE[1], SIZE[0])).save(tmp_path / f"{name}.png")
        rows = [{"id": i, "data": data, "annotations": [{"result": found}]} for i, (data, found) in enumerate(tasks)]
        (tmp_path / "project.json").write_text(json.dumps(rows))
        photos = open_dataset(tmp_path)
        return {
            photos.file_name(i): [photos.class_names[label] for label in photos[i].labels.tolist()]
            for i in range(len(photos))
        }

    def on(self, tag: str, label: str, **more: Any) -> dict[str, Any]:
        found = region(f"{tag}{label}", "polygonlabels", label, value={"points": percents(BAR_POINTS)})
        return {**found, "to_name": tag, **more}

    @pytest.mark.parametrize(
        ("data", "first", "second"),
        [
            ({"a": LEFT, "b": RIGHT}, ("a", {}), ("b", {})),
            ({"b": RIGHT, "a": LEFT}, ("a", {}), ("b", {})),
            ({"image": LEFT, "image2": RIGHT}, ("image", {}), ("image2", {})),
            ({"image": [LEFT, RIGHT]}, ("image", {"item_index": 0}), ("image", {"item_index": 1})),
            ({"pages": [LEFT, RIGHT]}, ("image", {"item_index": 0}), ("image", {"item_index": 1})),
            ({"pages": [LEFT, RIGHT], "image": LEFT}, ("image", {"item_index": 0}), ("image", {"item_index": 1})),
            ({"image": [LEFT, RIGHT]}, ("image", {}), ("image", {"item_index": 1})),
        ],
    )
    def test_two_images(self, tmp_path: Path, data: Any, first: Any, second: Any) -> None:
        regions = [self.on(second[0], "mug", **second[1]), self.on(first[0], "cup", **first[1])]
        assert self.objects(tmp_path, (data, regions)) == {"left.png": ["cup"], "right.png": ["mug"]}

    def test_images_without_regions(self, tmp_path: Path) -> None:
        """Images of known tags are images without objects; those of other keys are not shown."""
        pages = {"image": [self.LEFT, self.RIGHT]}
        assert self.objects(tmp_path, (pages, [self.on("image", "cup")])) == {"left.png": ["cup"], "right.png": []}
        masks = {"photo": self.LEFT, "mask_url": self.RIGHT}
        assert self.objects(tmp_path, (masks, [self.on("photo", "cup")])) == {"left.png": ["cup"]}
        thumbnail_first = {"thumbnail": self.RIGHT, "photo": self.LEFT}
        assert self.objects(tmp_path, (thumbnail_first, [self.on("photo", "cup")])) == {"left.png": ["cup"]}
        tasks = [({"a": self.LEFT}, [self.on("a", "cup")]), ({"b": "x", "a": self.RIGHT}, [])]
        assert self.objects(tmp_path, *tasks) == {"left.png": ["cup"], "right.png": []}

    @pytest.mark.parametrize("data", [{"image": LEFT}, {"$undefined$": LEFT}, {"image": LEFT, "old": RIGHT}])
    def test_a_tag_of_another_name_than_its_key(self, tmp_path: Path, data: Any) -> None:
        assert self.objects(tmp_path, (data, [self.on("img", "cup")])) == {"left.png": ["cup"]}

    def test_what_is_ambiguous(self, tmp_path: Path) -> None:
        data = {"a": self.LEFT, "b": self.RIGHT}
        with pytest.raises(DatasetError, match=r"task 0: .* of its tag 'img' \(to_name\), got a, b; add it as"):
            self.objects(tmp_path, (data, [self.on("img", "cup")]))
        assert self.objects(tmp_path, ({**data, "img": self.LEFT}, [self.on("img", "cup")])) == {"left.png": ["cup"]}
        two = [self.on("img1", "cup"), self.on("img2", "mug")]
        with pytest.raises(DatasetError, match="of its tag 'img1'"):
            self.objects(tmp_path, ({"image": self.LEFT, "old": self.RIGHT}, two))
        with pytest.raises(DatasetError, match="'item_index' of a region from 0 to 1, got 2"):
            self.objects(tmp_path, ({"image": [self.LEFT, self.RIGHT]}, [self.on("image", "cup", item_index=2)]))

    def test_predictions_alone_are_told(self, tmp_path: Path) -> None:
        Image.new("RGB", (SIZE[1], SIZE[0])).save(tmp_path / "left.png")
        row = {"id": 1, "data": {"image": self.LEFT}, "annotations": [], "predictions": [{"result": [CUP]}]}
        (tmp_path / "project.json").write_text(json.dumps([row]))
        with pytest.warns(UserWarning, match="1 tasks have predictions or drafts but no annotation"):
            assert open_dataset(tmp_path)[0].num_instances == 0
