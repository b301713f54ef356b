"""labelme: kinds of shapes, groups, class lists, broken files, and real files against an independent reader."""

from __future__ import annotations

import json
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
    SPOT,
    SPOT_POINTS,
    labelme_mask,
    labelme_shape,
    write_labelme,
)
from PIL import Image
from pycocotools import mask as coco_mask

from segpaste.datasets import DatasetError, find_dataset, open_dataset


def one(folder: Path, *shapes: Any, **facts: Any) -> Any:
    return open_dataset(write_labelme(folder, {"a": list(shapes)}, **facts))


class TestShapes:
    def test_points_are_pixel_edges(self, tmp_path: Path) -> None:
        """Edges at .5 go through pixel centres: half of the pixels of a border belong to neither side twice."""
        left = labelme_shape("cup", [(3, 2), (9.5, 2), (9.5, 8), (3, 8)])
        right = labelme_shape("cup", [(9.5, 2), (15, 2), (15, 8), (9.5, 8)])
        masks = one(tmp_path, left, right)[0].instance_masks.numpy()
        assert masks.any(0).sum() == 12 * 6
        assert np.flatnonzero(masks[0].any(0)).tolist()[0] == 3
        assert np.flatnonzero(masks[1].any(0)).tolist()[-1] == 14

    def test_circle(self, tmp_path: Path) -> None:
        """The centre and a point of the circle; a pixel belongs to it if its centre does."""
        sample = one(tmp_path, labelme_shape("cup", [(10, 10), (13, 14)], "circle"))[0]
        y, x = np.indices(SIZE)
        np.testing.assert_array_equal(sample.instance_masks[0], (x - 9.5) ** 2 + (y - 9.5) ** 2 <= 25)

    def test_mask(self, tmp_path: Path) -> None:
        """The points of a mask are its first and its last pixel; what is outside of the photo is cut off."""
        cut = labelme_mask("cup", ELL)
        cut["points"] = [[x - 6, y - 4] for x, y in cut["points"]]
        photos = one(tmp_path, labelme_mask("cup", ELL), cut)
        np.testing.assert_array_equal(photos[0].instance_masks[0], ELL)
        np.testing.assert_array_equal(photos[0].instance_masks[1, :16, :34], ELL[4:, 6:])

    def test_groups(self, tmp_path: Path) -> None:
        """Shapes of one label and group are one object, also polygons with masks; other labels are others."""
        shapes = [
            labelme_shape("cup", ELL_POINTS, group_id=0),
            labelme_shape("zebra", BAR_POINTS, group_id=0),
            labelme_shape("cup", SPOT_POINTS, group_id=0),
            labelme_mask("zebra", SPOT, group_id=0),
        ]
        sample = one(tmp_path, *shapes)[0]
        np.testing.assert_array_equal(sample.instance_masks, [ELL | SPOT, BAR | SPOT])

    def test_rotated_rectangle(self, tmp_path: Path) -> None:
        shape = labelme_shape("cup", [(10, 2), (14, 6), (10, 10), (6, 6)], "oriented_rectangle")
        photos = one(tmp_path, shape)
        assert photos[0].boxes.tolist() == [[6, 2, 14, 10]]
        assert photos.annotation_rows(0)[0]["attributes"]["points"] == shape["points"]

    def test_what_encloses_nothing_is_kept_in_the_entry_of_the_photo(self, tmp_path: Path) -> None:
        strip = labelme_shape("road", [(1, 1), (9, 9), (12, 3)], "linestrip")
        point = labelme_shape("eye", [(5, 5)], "point")
        with pytest.warns(UserWarning, match="1 linestrip, 1 point without an area are not objects"):
            photos = one(tmp_path, strip, labelme_shape("cup", ELL_POINTS), point)
        assert photos.class_names == ("cup",)
        assert photos.image_row(0)["shapes"] == [strip, point]

    def test_ignored_regions_and_background(self, tmp_path: Path) -> None:
        shapes = [labelme_shape("__ignore__", BAR_POINTS), labelme_shape("_background_", SPOT_POINTS)]
        photos = one(tmp_path, *shapes, labelme_shape("zebra", ELL_POINTS))
        assert photos.class_names == ("zebra", "__ignore__")
        np.testing.assert_array_equal(photos[0].crowd_mask, [BAR])
        np.testing.assert_array_equal(photos[0].instance_masks, [ELL])
        assert [row.get("ignore") for row in photos.annotation_rows(0)] == [1, None]

    def test_all_that_a_file_says_is_kept(self, tmp_path: Path) -> None:
        """Keys that labelme does not know are kept too."""
        shape = labelme_shape("cup", ELL_POINTS, group_id=4, flags={"chipped": False}, description="old", score=0.5)
        photos = one(tmp_path, shape, flags={"night": True}, camera="left")
        wanted = {"group_id": 4, "flags": {"chipped": False}, "description": "old", "score": 0.5}
        assert photos.annotation_rows(0)[0]["attributes"] == wanted
        assert photos.image_row(0)["attributes"] == {"version": "5.5.0", "flags": {"night": True}, "camera": "left"}


class TestFiles:
    def test_folders_are_splits(self, tmp_path: Path) -> None:
        write_labelme(tmp_path / "train")
        write_labelme(tmp_path / "val", {"d": []})
        assert find_dataset(tmp_path).splits == ("train", "val")
        assert (len(open_dataset(tmp_path)), len(open_dataset(tmp_path, "val"))) == (3, 1)

    def test_class_list(self, tmp_path: Path) -> None:
        (tmp_path / "labels.txt").write_text("__ignore__\n_background_\nzebra\n")
        with pytest.warns(UserWarning, match="found others: cup"):
            photos = open_dataset(write_labelme(tmp_path / "photos"))
        assert photos.class_names == ("zebra", "cup")

    def test_photos_elsewhere(self, tmp_path: Path) -> None:
        """They are found by the path in the file, with the slashes of Windows, or by name in a folder that is given."""
        folder = write_labelme(tmp_path / "json", {"a": []}, imagePath="..\\photos\\a.png")
        (tmp_path / "photos").mkdir()
        (folder / "a.png").rename(tmp_path / "photos" / "a.png")
        assert open_dataset(folder)[0].canvas_size == SIZE
        (tmp_path / "photos").rename(tmp_path / "moved")
        assert open_dataset(folder, images_dir=tmp_path / "moved")[0].canvas_size == SIZE

    def test_names_too_long_for_a_file(self, tmp_path: Path) -> None:
        photos = open_dataset(write_labelme(tmp_path, {"a": []}, imagePath="9" * 300))
        with pytest.raises(DatasetError, match="expected an image"):
            photos[0]

    def test_size_of_the_photo_where_the_file_has_none(self, tmp_path: Path) -> None:
        photos = one(tmp_path, labelme_shape("cup", ELL_POINTS), imageHeight=None, imageWidth=None)
        np.testing.assert_array_equal(photos[0].instance_masks, [ELL])

    @pytest.mark.parametrize(
        ("facts", "message"),
        [
            ({"imagePath": 3}, "expected the image's file as 'imagePath', got 3"),
            ({"imageHeight": "20"}, "expected the size of the image in pixels, got 40 x '20'"),
            ({"imageHeight": 10**9}, "expected the size of the image in pixels, got 40 x 1000000000"),
            (
                {"shapes": [labelme_shape("cup", ELL_POINTS, group_id=[])]},
                r"shape 1: expected a number as 'group_id', got \[\]",
            ),
            ({"shapes": {}}, "expected the key 'shapes' of labelme with a list"),
            ({"shapes": [3]}, "shape 1: expected an object with a 'label', got 3"),
            ({"shapes": [{"label": "cup"}]}, r"shape 1: expected 'points' \[\[x, y\], ...\] in pixels, got None"),
            ({"shapes": [labelme_shape("cup", [(1, float("inf"))])]}, "expected 'points'"),
            ({"shapes": [labelme_shape("cup", [(1, 1)], "circle")]}, "got a circle of 1"),
            ({"shapes": [labelme_shape("cup", [(1, 1)], "star")]}, "got a star of 1; draw it as a polygon"),
            (
                {"shapes": [labelme_shape("cup", [(1, 1), (2, 2)], "mask", mask="!")]},
                "expected 'mask', a PNG in base64",
            ),
            ({"shapes": [{**labelme_mask("cup", ELL), "points": [[0, 0], [1, 1]]}]}, "mask of 2 x 2 .*, got 12 x 10"),
        ],
    )
    def test_broken(self, tmp_path: Path, facts: Any, message: str) -> None:
        path = write_labelme(tmp_path, {"a": []}) / "a.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **facts}))
        with pytest.raises(DatasetError, match=rf"a\.json: (.*: )?{message}|a\.json: .*{message}"):
            open_dataset(tmp_path)


def test_real_files(test_data: Path) -> None:
    """Objects, classes, groups and masks of labelme's own example, by a reader of a dozen lines."""
    folder = test_data / "labelme_voc" / "instance_segmentation" / "data_annotated"
    listed = (folder.parent / "labels.txt").read_text().split("\n")
    photos = open_dataset(folder)
    assert photos.class_names[:-1] == tuple(name for name in listed if name and not name.startswith("_"))
    for i, path in enumerate(sorted(folder.glob("*.json"))):
        document = json.loads(path.read_text())
        size = document["imageHeight"], document["imageWidth"]
        wanted: dict[Any, Any] = {}
        for number, shape in enumerate(document["shapes"]):
            key = shape["label"], number if shape["group_id"] is None else f"group {shape['group_id']}"
            flat = [value for point in shape["points"] for value in point]
            mask = coco_mask.decode(coco_mask.frPyObjects([flat], *size)[0]) > 0
            wanted[key] = mask | wanted.get(key, False)
        ignored = sum(mask for (label, _), mask in wanted.items() if label == "__ignore__")
        objects = [(label, mask) for (label, _), mask in wanted.items() if label != "__ignore__"]
        sample = photos[i]
        assert [photos.class_names[label] for label in sample.labels] == [label for label, _ in objects]
        np.testing.assert_array_equal(sample.instance_masks, [mask for _, mask in objects])
        np.testing.assert_array_equal(sample.crowd_mask, [np.zeros(size, bool) | ignored])
        with Image.open(folder / document["imagePath"]) as picture:
            np.testing.assert_array_equal(sample.image.permute(1, 2, 0), np.array(picture))
