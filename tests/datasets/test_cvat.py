"""CVAT's XML: kinds of shapes, skeletons, subsets, labels and broken files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_files import (
    BAR,
    BAR_POINTS,
    CVAT_LABELS,
    ELL,
    SIZE,
    SPOT,
    WRITERS,
    cvat_mask,
    cvat_points,
    element,
    write_cvat,
)

from segpaste.datasets import DatasetError, find_dataset, open_dataset

SKELETON = (
    "<label><name>person</name><type>skeleton</type><attributes></attributes><svg>"
    '&lt;line x1="1" y1="2" data-type="edge" data-node-from="2" data-node-to="1"&gt;&lt;/line&gt;'
    '&lt;circle data-element-id="1" data-node-id="1" data-label-name="left eye"&gt;&lt;/circle&gt;'
    '&lt;circle data-element-id="2" data-node-id="2" data-label-name="right eye"&gt;&lt;/circle&gt;'
    "</svg></label>"
    "<label><name>left eye</name><type>points</type><parent>person</parent></label>"
    "<label><name>right eye</name><type>points</type><parent>person</parent></label>"
    "<label><name>nose</name><type>points</type><parent>person</parent></label>"
)


def one(folder: Path, *shapes: str, **options: Any) -> Any:
    return open_dataset(write_cvat(folder, {"a": "".join(shapes)}, **options))


class TestShapes:
    def test_ellipse(self, tmp_path: Path) -> None:
        photos = one(tmp_path, element("ellipse", label="cup", cx=12, cy=9, rx=6, ry=3.5))
        y, x = np.indices(SIZE) + 0.5
        np.testing.assert_array_equal(photos[0].instance_masks[0], ((x - 12) / 6) ** 2 + ((y - 9) / 3.5) ** 2 <= 1)

    def test_masks_go_along_the_rows_of_their_box(self, tmp_path: Path) -> None:
        """Four pixels by hand, in a box of 3 x 2 at (5, 1); and one with a hole."""
        by_hand = element("mask", label="cup", rle="1, 3, 1, 1", left=5, top=1, width=3, height=2)
        ring = BAR.copy()
        ring[6:8, 25:30] = False
        masks = one(tmp_path, by_hand, cvat_mask("cup", ring))[0].instance_masks.numpy()
        assert np.argwhere(masks[0]).tolist() == [[1, 6], [1, 7], [2, 5], [2, 7]]
        np.testing.assert_array_equal(masks[1], ring)

    def test_boxes(self, tmp_path: Path) -> None:
        """Pixel edges; a rotated box becomes the box around it, and its own is kept."""
        straight = element("box", label="cup", xtl=3.5, ytl=2, xbr=9, ybr=8.25)
        rotated = element("box", label="zebra", xtl=10, ytl=6, xbr=18, ybr=10, rotation=90, z_order=2)
        photos = one(tmp_path, straight, rotated)
        np.testing.assert_allclose(photos[0].boxes, [[3.5, 2, 9, 8.25], [12, 4, 16, 12]], atol=1e-5)
        assert photos.annotation_rows(0)[1]["attributes"] == {"rotation": 90, "z_order": 2, "box": [10, 6, 18, 10]}

    def test_what_encloses_nothing(self, tmp_path: Path) -> None:
        line = element("polyline", label="road", points="1,1;5,5")
        with pytest.warns(UserWarning, match="1 polyline without an area"):
            photos = one(tmp_path, line, cvat_mask("cup", ELL))
        assert photos.image_row(0)["shapes"] == [{"polyline": {"label": "road", "points": "1,1;5,5"}}]
        assert photos.class_names == ("zebra", "cup")

    def test_skeletons(self, tmp_path: Path) -> None:
        """Points by their label, hidden or not labelled, and the box around those that are."""
        points = element("points", label="right eye", points="12.00,4.00", occluded=1)
        points += element("points", label="left eye", points="20.5,8.25", occluded=0)
        points += element("points", label="nose", points="1,1", outside=1)
        photos = one(tmp_path, element("skeleton", points, label="person", occluded=0), labels=CVAT_LABELS + SKELETON)
        assert photos.class_names == ("zebra", "cup", "person")
        assert photos.keypoint_schema.names == ("left eye", "right eye", "nose")
        assert photos.keypoint_schema.skeleton == ((1, 0),)
        assert photos.keypoint_schema.flip_pairs == ((0, 1),)
        sample = photos[0]
        assert sample.keypoints.tolist() == [[[20.5, 8.25, 2], [12, 4, 1], [0, 0, 0]]]
        assert sample.boxes.tolist() == [[12, 4, 20.5, 8.25]]
        row = photos.annotation_rows(0)[0]
        assert (row["keypoints"], row["num_keypoints"]) == ([20, 7.75, 2, 11.5, 3.5, 1, 0, 0, 0], 2)

    @pytest.mark.parametrize(("yes", "no"), [("1", "0"), ("True", "False"), (" true ", "false"), ("1.0", "0.0")])
    def test_flags_in_any_spelling(self, tmp_path: Path, yes: str, no: str) -> None:
        points = element("points", label="right eye", points="12,4", occluded=yes, outside=no)
        points += element("points", label="left eye", points="20,8", occluded=no)
        points += element("points", label="nose", points="1,1", outside=yes)
        striped = f'<attribute name="striped">{yes}</attribute>'
        shapes = (
            element("skeleton", points, label="person", occluded=yes),
            element("polygon", striped, label="zebra", occluded=no, points=cvat_points(BAR_POINTS)),
        )
        folder = write_cvat(tmp_path, {"a": "".join(shapes)}, labels=CVAT_LABELS + SKELETON)
        photos = open_dataset(folder, task="detect")
        person, zebra = photos.annotation_rows(0)
        assert person["keypoints"][2::3] == [2, 1, 0]
        assert person["attributes"]["occluded"] is True
        assert zebra["attributes"] == {"occluded": False, "striped": True}

    @pytest.mark.parametrize("key", ["occluded", "outside"])
    def test_what_is_no_flag_is_refused(self, tmp_path: Path, key: str) -> None:
        points = element("points", label="nose", points="22,5", **{key: "yes"})
        with pytest.raises(DatasetError, match=f"expected '{key}' as 0 or 1, got 'yes'"):
            one(tmp_path, element("skeleton", points, label="person"), labels=SKELETON)

    def test_a_skeleton_grouped_with_an_outline(self, tmp_path: Path) -> None:
        """One object with a mask and keypoints."""
        points = element("points", label="nose", points="22,5", occluded=0)
        outline = element("polygon", label="person", points=cvat_points(BAR_POINTS), group_id=3)
        photos = one(tmp_path, element("skeleton", points, label="person", group_id=3), outline, labels=SKELETON)
        np.testing.assert_array_equal(photos[0].instance_masks, [BAR])
        assert photos[0].keypoints[0, 2].tolist() == [22, 5, 2]

    def test_the_group_0_is_none(self, tmp_path: Path) -> None:
        parts = [cvat_mask("cup", mask, group_id=0) for mask in (ELL, SPOT)]
        np.testing.assert_array_equal(one(tmp_path, *parts)[0].instance_masks, [ELL, SPOT])

    def test_attributes_by_their_kind(self, tmp_path: Path) -> None:
        said = element("attribute", "false", name="striped") + element("attribute", "7", name="age")
        photos = one(tmp_path, cvat_mask("zebra", SPOT).replace("</mask>", said + "</mask>"))
        assert photos.annotation_rows(0)[0]["attributes"] == {"striped": False, "age": "7"}


class TestFiles:
    def test_subsets(self, tmp_path: Path) -> None:
        folder = WRITERS["cvat"](tmp_path)
        path = folder / "annotations.xml"
        path.write_text(
            path.read_text().replace('id="1"', 'id="1" subset="val"').replace('id="0"', 'id="0" subset="train"')
        )
        found = find_dataset(folder)
        assert found.splits == ("default", "train", "val")
        assert [len(found.open(split)) for split in found.splits] == [1, 1, 1]

    def test_the_file_alone(self, tmp_path: Path) -> None:
        folder = WRITERS["cvat"](tmp_path)
        (folder / "images").rename(tmp_path / "elsewhere")
        path = folder / "annotations.xml"
        assert len(open_dataset(path, images_dir=tmp_path / "elsewhere")) == 3
        np.testing.assert_array_equal(open_dataset(path, images_dir=tmp_path / "elsewhere")[1].instance_masks, [BAR])

    def test_exports_as_coco_are_read_as_coco(self, tmp_path: Path) -> None:
        """annotations/instances_default.json beside images/default/."""
        write_cvat(tmp_path, {"a": ""})
        (tmp_path / "annotations.xml").unlink()
        (tmp_path / "images").rename(tmp_path / "default")
        (tmp_path / "images").mkdir()
        (tmp_path / "default").rename(tmp_path / "images" / "default")
        (tmp_path / "annotations").mkdir()
        image = {"id": 1, "file_name": "a.png", "height": SIZE[0], "width": SIZE[1]}
        tables = {"images": [image], "annotations": [], "categories": []}
        (tmp_path / "annotations" / "instances_default.json").write_text(json.dumps(tables))
        assert (find_dataset(tmp_path).format.name, find_dataset(tmp_path).splits) == ("coco", ("default",))

    @pytest.mark.parametrize(
        ("inside", "message"),
        [
            ("<track/>", "expected <annotations> of images, got tracks of a video"),
            ("<image id='1' width='3' height='2'/>", "image '': expected the name of its file"),
            (
                "<image name='a.png' width='x' height='2'/>",
                "image 'a.png': expected 'width', a number of pixels, got 'x'",
            ),
            ("<image name='a.png' width='3' height='0'/>", "expected the size of the image in pixels, got 3 x 0"),
            ("<polygon points='1,2;3,4;5,6'/>", "shape 1 <polygon>: expected a label, got none"),
            ("<polygon label='cup' points='1,2;3'/>", "shape 1 <polygon>: expected points 'x,y;x,y;...'"),
            ("<polygon label='cup' points='1,2;3,nan;4,5'/>", "expected points"),
            ("<box label='cup' xtl='1' ytl='2' xbr='3'/>", "expected 'ybr', a number of pixels, got None"),
            ("<mask label='cup' rle='1, 2' left='0' top='0' width='2' height='2'/>", "fill 2 x 2 pixels, got '1, 2'"),
            ("<mask label='cup' rle='a' left='0' top='0' width='2' height='2'/>", "fill 2 x 2 pixels, got 'a'"),
            (
                f"<mask label='cup' rle='{10**30}' left='0' top='0' width='2' height='2'/>",
                "expected run lengths that fill 2 x 2 pixels",
            ),
            ("<star label='cup'/>", "shape 1 <star>: expected a polygon, ellipse, mask, box or skeleton"),
            ("<skeleton label='cup'><points label='toe' points='1,2'/></skeleton>", "of its label, got 'toe'"),
        ],
    )
    def test_broken(self, tmp_path: Path, inside: str, message: str) -> None:
        if not inside.startswith(("<image", "<track")):
            inside = element("image", inside, name="a.png", width=SIZE[1], height=SIZE[0])
        (tmp_path / "annotations.xml").write_text(f"<annotations>{inside}</annotations>")
        with pytest.raises(DatasetError, match=r"annotations\.xml: .*" + message + r"|annotations\.xml: " + message):
            open_dataset(tmp_path)
