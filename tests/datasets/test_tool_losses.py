"""Values of labelling tools that no object has are losses by name: points, grouped boxes, shapes beyond the image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_files import (
    CVAT_LABELS,
    ELL,
    ELL_POINTS,
    SIZE,
    cvat_mask,
    cvat_points,
    element,
    labelme_mask,
    labelme_shape,
    percents,
    region,
    task,
    write_cvat,
    write_label_studio,
    write_labelme,
)

from segpaste.cli import main
from segpaste.datasets import check_dataset, convert_dataset, open_dataset
from segpaste.datasets.formats.tool_shapes import (
    CUT_SHAPES,
    FURTHER_POINTS,
    FURTHER_REGIONS,
    JOINED_BOXES,
    OTHER_BOXES,
    OUTSIDE_POINTS,
    POINT_VALUES,
)

pytestmark = pytest.mark.filterwarnings("ignore")
PERSON = CVAT_LABELS + "<label><name>person</name><type>skeleton</type></label>"
PERSON += "".join(
    f"<label><name>{name}</name><type>points</type><parent>person</parent></label>" for name in ("nose", "eye")
)


def assert_lost(folder: Path, lost: dict[str, int]) -> None:
    """The losses of a conversion, also of a strict one, and the remarks of a check are these."""
    out = folder.parent / f"{folder.name}-out"
    assert convert_dataset(folder, out, "coco").losses == lost
    assert main(["convert", str(folder), "--out", f"{out}-strict", "--to", "coco", "--strict"]) == int(bool(lost))
    findings = [one.message for one in check_dataset(open_dataset(folder)).findings]
    for what, num in lost.items():
        assert what == OTHER_BOXES or any(f"{num} {what}" in message for message in findings)


def cvat(folder: Path, *shapes: str) -> Path:
    return write_cvat(folder, {"a": "".join(shapes)}, PERSON)


def label_studio(folder: Path, *results: Any) -> Path:
    write_label_studio(folder, [task(1, "a.png", list(results))])
    for name in "bc":  # no task has them
        (folder / f"images/{name}.png").unlink()
    return folder


def labelme(folder: Path, *shapes: Any) -> Path:
    return write_labelme(folder, {"a": list(shapes)})


class TestPoints:
    NOSE = element("points", label="nose", points="10,10", occluded=0, source="manual")
    EYE = element("points", label="eye", points="14,10", occluded=0, source="manual")

    @pytest.mark.parametrize(
        ("points", "lost"),
        [
            ((NOSE, EYE), {}),
            ((NOSE.replace("</points>", element("attribute", "yes", name="blur") + "</points>"),), {POINT_VALUES: 1}),
            ((NOSE.replace("manual", "auto"), EYE), {POINT_VALUES: 1}),
            ((NOSE, EYE, element("points", label="nose", points="20,12", source="manual")), {FURTHER_POINTS: 1}),
            ((NOSE, element("points", label="eye", points="14,10", outside=1, source="manual")), {OUTSIDE_POINTS: 1}),
        ],
    )
    def test_cvat(self, tmp_path: Path, points: tuple[str, ...], lost: dict[str, int]) -> None:
        skeleton = element("skeleton", "".join(points), label="person", source="manual")
        assert_lost(cvat(tmp_path / "in", skeleton), lost)

    BOX = region("r", "rectanglelabels", "man", value={"x": 10, "y": 10, "width": 60, "height": 60}, origin="manual")

    def point(self, key: str, label: str, x: float = 20, **more: Any) -> dict[str, Any]:
        value = {"x": x, "y": 20, "width": 1}
        return region(key, "keypointlabels", label, value=value, parentID="r", origin="manual", **more)

    def test_label_studio(self, tmp_path: Path) -> None:
        nose, eye = self.point("k1", "nose"), self.point("k2", "eye")
        hidden = {**nose, "type": "choices", "from_name": "vis", "value": {"x": 20, "y": 20, "choices": ["hidden"]}}
        two = {**nose, "value": {**nose["value"], "keypointlabels": ["nose", "tip"]}}
        cases: list[tuple[list[Any], dict[str, int]]] = [
            ([nose, eye], {}),
            ([self.point("k1", "nose", meta={"text": ["blurred"]}, score=0.5)], {POINT_VALUES: 2}),
            ([nose, hidden], {POINT_VALUES: 1}),
            ([two], {POINT_VALUES: 1}),
            ([nose, self.point("k3", "nose", 30)], {FURTHER_POINTS: 1}),
            ([nose, self.point("k1", "nose", 30)], {FURTHER_REGIONS: 1}),
        ]
        for i, (points, lost) in enumerate(cases):
            assert_lost(label_studio(tmp_path / f"in{i}", self.BOX, *points), lost)

    def test_points_without_a_region_keep_their_values(self, tmp_path: Path) -> None:
        """One without a label, in a region with points, too."""
        nameless = self.point("k2", "", meta={"text": ["?"]})
        nameless["value"]["keypointlabels"] = []
        photos = open_dataset(label_studio(tmp_path, self.BOX, self.point("k1", "nose"), nameless))
        shapes = photos.image_row(0)["shapes"]
        assert [shape["attributes"] for shape in shapes] == [{"origin": "manual", "meta": {"text": ["?"]}}]


class TestShapesOfOneId:
    def test_of_label_studio(self, tmp_path: Path) -> None:
        cup = region("c", "polygonlabels", "cup", value={"points": percents(ELL_POINTS)})
        other = region("c", "polygonlabels", "cup", value={"points": percents(ELL_POINTS[::-1])})
        box = region("c", "rectanglelabels", "cup", value={"x": 10, "y": 10, "width": 60, "height": 60})
        said = {**cup, "type": "choices", "from_name": "vis", "value": {"choices": ["x"]}}
        placed = {**said, "value": {"points": percents(ELL_POINTS), "choices": ["x"]}}
        for i, (results, num) in enumerate(
            [((cup, said), 0), ((cup, placed), 0), ((cup, other), 1), ((cup, box, other), 2)]
        ):
            assert_lost(label_studio(tmp_path / f"in{i}", *results), {FURTHER_REGIONS: num} if num else {})


class TestGroupedBoxes:
    def test_labelme(self, tmp_path: Path) -> None:
        corners = [(2, 2), (12, 12)], [(20, 10), (30, 15)]
        boxes = [labelme_shape("cup", points, "rectangle", group_id=1) for points in corners]
        assert_lost(labelme(tmp_path / "in", *boxes), {JOINED_BOXES: 2})
        other = labelme_shape("zebra", corners[1], "rectangle", group_id=1)
        assert_lost(labelme(tmp_path / "labels", boxes[0], other), {})
        inside = labelme_shape("cup", [(3, 3), (5, 5)], "rectangle", group_id=1)
        assert_lost(labelme(tmp_path / "inside", boxes[0], inside), {JOINED_BOXES: 1})
        outline = labelme_shape("cup", ELL_POINTS, group_id=1)
        assert_lost(labelme(tmp_path / "outline", *boxes, outline), {OTHER_BOXES: 1})

    def test_cvat(self, tmp_path: Path) -> None:
        boxes = [element("box", label="cup", xtl=x, ytl=2, xbr=x + 5, ybr=9, group_id=3) for x in (3, 20)]
        assert_lost(cvat(tmp_path / "in", *boxes), {JOINED_BOXES: 2})
        point = element("points", label="nose", points="30,12")
        skeleton = element("skeleton", point, label="person", group_id=4)
        box = element("box", label="person", xtl=3, ytl=2, xbr=9, ybr=9, group_id=4)
        assert_lost(cvat(tmp_path / "points", skeleton, box), {JOINED_BOXES: 1})


class TestBeyondTheImage:
    def shapes(self, folder: Path, tool: str, kind: str, x: float) -> Path:
        """An outline about the middle of the image, or moved to the left by x pixels."""
        cx, cy = SIZE[1] / 2 - x, SIZE[0] / 2
        if tool == "labelme":
            circle = labelme_shape("cup", [(cx, cy), (cx + 5, cy)], "circle")
            mask = labelme_mask("cup", np.ones((4, 6), bool))
            mask["points"] = [[int(cx) + dx, int(cy) + dy] for dx, dy in ((0, 0), (5, 3))]
            return labelme(folder, circle if kind == "circle" else mask)
        if tool == "cvat":
            ellipse = element("ellipse", label="cup", cx=cx, cy=cy, rx=3, ry=5, rotation=90)
            mask_text = cvat_mask("cup", ELL).replace(f'left="{np.flatnonzero(ELL.any(0))[0]}"', f'left="{int(cx)}"')
            return cvat(folder, ellipse if kind == "circle" else mask_text)
        value = {"x": 100 * cx / SIZE[1], "y": 50, "radiusX": 500 / SIZE[1], "radiusY": 500 / SIZE[0]}
        return label_studio(folder, region("e", "ellipselabels", "cup", value=value))

    @pytest.mark.parametrize(
        ("tool", "kind"),
        [("labelme", "circle"), ("labelme", "mask"), ("cvat", "circle"), ("cvat", "mask"), ("label-studio", "circle")],
    )
    def test_cut_at_the_left(self, tmp_path: Path, tool: str, kind: str) -> None:
        half = SIZE[1] / 2
        assert_lost(self.shapes(tmp_path / "cut", tool, kind, half + 2), {CUT_SHAPES: 1})
        assert_lost(self.shapes(tmp_path / "edge", tool, kind, half - 5), {})

    def test_a_thin_ellipse_that_ends_beside_the_image_loses_nothing(self, tmp_path: Path) -> None:
        """It reaches 0.6 pixels beyond, between the centres of the pixels there."""
        thin = element("ellipse", label="cup", cx=10, cy=10, rx=10.6, ry=0.6)
        assert_lost(cvat(tmp_path / "in", thin), {})
        assert_lost(cvat(tmp_path / "cut", thin.replace('cy="10"', 'cy="10.5"')), {CUT_SHAPES: 1})

    def test_half_a_pixel_is_none(self, tmp_path: Path) -> None:
        assert_lost(self.shapes(tmp_path / "in", "labelme", "circle", SIZE[1] / 2 - 4.6), {})

    def test_polygons_are_kept_whole(self, tmp_path: Path) -> None:
        polygon = element("polygon", label="cup", points=cvat_points([(-10, 2), (10, 2), (10, 10)]))
        assert_lost(cvat(tmp_path / "in", polygon), {})


def test_rotated_boxes_of_label_studio_keep_their_values(tmp_path: Path) -> None:
    value = {"x": 30, "y": 20, "width": 30, "height": 20}
    straight = region("s", "rectanglelabels", "cup", value={**value, "rotation": 0})
    rotated = region("r", "rectanglelabels", "cup", value={**value, "rotation": 30})
    photos = open_dataset(label_studio(tmp_path, straight, rotated))
    assert [row.get("attributes") for row in photos.annotation_rows(0)] == [None, {"rotation": 30, **value}]


def test_answers_about_one_region_of_label_studio_are_all_kept(tmp_path: Path) -> None:
    """Two of one control, and what results say beside their value."""
    cup = region("c", "polygonlabels", "cup", value={"points": percents(ELL_POINTS)}, origin="manual", score=0.5)
    said = {"id": "c", "type": "choices", "from_name": "vis", "to_name": "image", "origin": "manual"}
    first = {**said, "value": {"choices": ["hidden"]}, "score": 0.25}
    second = {**said, "value": {"choices": ["cut"]}, "meta": {"text": ["left"]}}
    photos = open_dataset(label_studio(tmp_path, cup, first, second))
    assert photos.annotation_rows(0)[0]["attributes"] == {
        "origin": "manual",
        "score": [0.5, 0.25],
        "vis": [["hidden"], ["cut"]],
        "meta": {"text": ["left"]},
    }
