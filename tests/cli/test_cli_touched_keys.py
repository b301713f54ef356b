"""Keypoints and other geometry in entries: kept where nothing touches an object, else left out by name and count.

The numbers of an entry hold for the image that they were read with. `segpaste augment` and `segpaste replay` move
objects and images, and hide parts of them.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_world import noise, read_json
from PIL import Image

from segpaste import augment_dataset, convert_dataset
from segpaste.augmenting import replay_dataset
from segpaste.datasets import open_dataset
from segpaste.datasets.formats.geometry_keys import GEOMETRY
from segpaste.datasets.formats.kept_shapes import POINTS_OF_ENTRIES
from segpaste.datasets.formats.tool_shapes import OTHER_BOXES

SIZE = (48, 64)
POINTS = {"keypoints": [15, 15, 2, 16, 16, 2, 17, 17, 1], "num_keypoints": 3}
NAMES = ["nose", "left_eye", "right_eye"]
Rows = list[dict[str, Any]]


def square(number: int, image: int, x: int, y: int, side: int, **more: Any) -> dict[str, Any]:
    corners = [x, y, x + side, y, x + side, y + side, x, y + side]
    row = {"id": number, "image_id": image, "category_id": 1, "bbox": [x, y, side, side], "area": side * side}
    return {**row, "iscrowd": 0, "segmentation": [corners], **more}


def write(folder: Path, rows: Rows, categories: Rows | None = None, **of_images: Any) -> dict[str, Any]:
    """Write two images, and return the arguments that name them."""
    (folder / "photos").mkdir(parents=True)
    images = []
    for i in (1, 2):
        Image.fromarray(noise(SIZE, i)).save(folder / f"photos/{i}.png")
        images.append({"id": i, "file_name": f"{i}.png", "height": SIZE[0], "width": SIZE[1], **of_images})
    categories = categories or [{"id": 1, "name": "person", "keypoints": NAMES}]
    tables = {"images": images, "annotations": rows, "categories": categories}
    (folder / "in.json").write_text(json.dumps(tables))
    return {"dataset": folder / "in.json", "images_dir": folder / "photos"}


def augment(
    given: dict[str, Any], out: Path, *words: str, num: int = 2, **options: Any
) -> tuple[Rows, Counter[str], dict[str, Any]]:
    """Augment; return the written annotations, what is left out, and all tables."""
    overrides = {"min_area_px": 4, **dict(word.split("=") for word in words)}
    done = augment_dataset(out=out, num=num, seed=1, gallery=0, overrides=overrides, **given, **options)
    tables = read_json(out / "annotations.json")
    return tables["annotations"], Counter(done.left_out), tables


def replayed(given: dict[str, Any], out: Path, again: Path) -> Rows:
    """Check a dataset, write it again, and return the annotations."""
    assert replay_dataset(out, check=out, **given).is_identical
    replay_dataset(out, out=again, **given)
    return read_json(again / "annotations.json")["annotations"]


def of(rows: Rows, number: int) -> Rows:
    return [row for row in rows if row["segpaste"]["source_annotation_id"] == number]


def points(row: dict[str, Any]) -> dict[str, Any]:
    return {key: row[key] for key in POINTS if key in row}


BOXED = square(1, 1, 10, 10, 12, segmentation=[], **POINTS)
CROWD = square(1, 1, 10, 10, 12, iscrowd=1, **POINTS)
MASKED = square(2, 2, 30, 20, 12, keypoints=[35, 25, 2, 0, 0, 0, 0, 0, 0], num_keypoints=1)
UNNAMED = [{"id": 1, "name": "person"}]
OTHERS = [{"id": 1, "name": "person", "keypoints": NAMES}, {"id": 2, "name": "dog", "keypoints": ["tail"]}]


@pytest.mark.parametrize("layout", ["coco", "lvis", "yolo"])
@pytest.mark.parametrize(
    ("first", "categories"),
    [
        (BOXED, None),
        (CROWD, None),
        (square(1, 1, 10, 10, 12, **POINTS), UNNAMED),
        (square(1, 1, 10, 10, 12, **POINTS), OTHERS),
    ],
    ids=["box", "crowd", "no names", "other names"],
)
@pytest.mark.filterwarnings("ignore:.*expected one list of keypoints")
def test_untouched_keypoints_stay(first: dict[str, Any], categories: Rows, layout: str, tmp_path: Path) -> None:
    """Samples do not hold these keypoints, so they are written as they were read."""
    given = write(tmp_path, [first, MASKED], categories)
    rows, left_out, _ = augment(given, tmp_path / "out", "placement.paste_prob=0", layout=layout)
    assert [points(row) for row in of(rows, 1)] == [POINTS]
    assert POINTS_OF_ENTRIES not in left_out
    again = replayed(given, tmp_path / "out", tmp_path / "again")
    assert sorted(str(points(row)) for row in again) == sorted(str(points(row)) for row in rows)


@pytest.mark.parametrize("first", [BOXED, CROWD, square(1, 1, 10, 10, 12, **POINTS)], ids=["box", "crowd", "no names"])
def test_keypoints_that_do_not_hold_are_counted(first: dict[str, Any], tmp_path: Path) -> None:
    """A jitter moves them, and a paste hides them."""
    categories = UNNAMED if first["segmentation"] and not first["iscrowd"] else None
    given = write(tmp_path, [first, MASKED], categories)
    rows, left_out, _ = augment(given, tmp_path / "moved", "placement.paste_prob=0", size=(96, 96), num=9)
    assert all(not any(row.get("keypoints", ())) for row in of(rows, 1))
    assert left_out[POINTS_OF_ENTRIES] >= len(of(rows, 1)) > 0
    rows, left_out, _ = augment(given, tmp_path / "hidden", "placement.scale_range=[2,2]", num=12)
    own, found = of(rows, 1), Counter(str(points(row)) for row in of(rows, 1))
    num_touched = len(own) - found[str(POINTS)]
    assert num_touched > 0
    assert left_out[POINTS_OF_ENTRIES] >= num_touched


def test_keypoints_of_panoptic_segments_stay(tmp_path: Path) -> None:
    first, second = square(1, 1, 10, 10, 12, **POINTS), MASKED
    given = write(tmp_path, [first, second])
    convert_dataset(given["dataset"], tmp_path / "panoptic", "coco-panoptic", images_dir=given["images_dir"])
    rows, left_out, _ = augment({"dataset": tmp_path / "panoptic"}, tmp_path / "out", "placement.paste_prob=0")
    assert sorted(str(points(row)) for row in rows) == sorted(str(points(row)) for row in (first, second))
    segments = [row for one in read_json(tmp_path / "out/panoptic.json")["annotations"] for row in one["segments_info"]]
    assert sorted(str(points(row)) for row in segments) == sorted(str(points(row)) for row in (first, second))
    assert not left_out[POINTS_OF_ENTRIES]
    rows, left_out, _ = augment({"dataset": tmp_path / "panoptic"}, tmp_path / "pasted", num=6)
    pasted = [row for row in rows if row["segpaste"]["pasted"]]
    assert not any("keypoints" in row for row in pasted)
    assert left_out[POINTS_OF_ENTRIES] >= len(pasted) > 0


def test_points_of_label_files_are_counted(tmp_path: Path) -> None:
    given = write(tmp_path, [square(1, 1, 10, 10, 12, **POINTS), MASKED], UNNAMED)
    _, left_out, _ = augment(given, tmp_path / "out", "placement.paste_prob=0", layout="yolo")
    assert left_out["keypoints of objects (only in annotations.json)"] == 2


@pytest.mark.parametrize("wrong", ["abc", [1, 2], [1, 2, None], [1, 2, float("nan")], {}])
def test_keypoints_that_are_none_are_left_out(wrong: Any, tmp_path: Path) -> None:
    given = write(tmp_path, [square(1, 1, 10, 10, 12, keypoints=wrong, num_keypoints="x"), MASKED], UNNAMED)
    rows, _, _ = augment(given, tmp_path / "out", "placement.paste_prob=0")
    assert [points(row) for row in of(rows, 1)] == [{}]


def test_other_boxes_are_counted(tmp_path: Path) -> None:
    """Boxes are those of the masks; `convert` names the others in the same words."""
    given = write(tmp_path, [{**CROWD, "bbox": [0, 0, 40, 40]}, {**MASKED, "bbox": [1, 1, 60, 40]}])
    _, left_out, _ = augment(given, tmp_path / "out", "placement.paste_prob=0")
    assert left_out[OTHER_BOXES] == 2


KEYS: dict[str, Any] = {
    "face_box": [11, 11, 3, 3],
    "face_kpts": [12, 12, 2],
    "attributes": {"rotation": 30.0, "box": [[1, 2, 3, 4]], "colour": "red",
        "part": [{"name": "head", "bndbox": {"xmin": "3"}}]},
    "points": [[1, 2], [3, 4], [5, 6], [7, 8]],
    "center": {"x": 3, "y": 4},
    "mask": {"size": [48, 64], "counts": "abc", "x": 1, "y": 2},
    "x": 1.5, "y": 2.5, "width": 3,
}  # fmt: skip
STAY: dict[str, Any] = {
    "attributes": {"colour": "red", "height": 1.8, "part": [{"name": "head"}]},
    "face_valid": True,
    "line": "L1",
    "bounding": [1, 2],
    "triangle": 1, "rectangle": "0", "product_line": [3], "shape": ["round", 1], "region": {"id": 7},
    "text_lines": ["12", "Main"],
    "score": 0.5,
}  # fmt: skip


def is_still(row: dict[str, Any]) -> bool:
    """Return whether the keys stay that hold wherever an object is, and no others."""
    return {key: value for key, value in row.items() if key in {*KEYS, *STAY}} == STAY


@pytest.mark.parametrize("kind", [{}, {"iscrowd": 1}, {"segmentation": []}], ids=["object", "crowd", "box"])
def test_geometry_in_keys(kind: dict[str, Any], tmp_path: Path) -> None:
    keys = {**STAY, **KEYS, "attributes": {**STAY["attributes"], **KEYS["attributes"]}}
    given = write(tmp_path, [{**square(1, 1, 10, 10, 12, **kind), **keys}, MASKED])
    rows, left_out, _ = augment(given, tmp_path / "still", "placement.paste_prob=0")
    assert [{key: row[key] for key in keys} for row in of(rows, 1)] == [keys]
    assert not any(GEOMETRY in what for what in left_out)
    rows, left_out, _ = augment(given, tmp_path / "moved", "placement.paste_prob=0", size=(96, 96), num=9)
    assert all(map(is_still, of(rows, 1)))
    names = {what.split("'")[1] for what in left_out if GEOMETRY in what}
    assert names == {*KEYS.keys() - {"attributes"}, "rotation", "box", "bndbox"}
    again = replayed(given, tmp_path / "moved", tmp_path / "again")
    assert any(map(is_still, again))
    assert not any("face_box" in row for row in again)


def test_geometry_of_pasted_and_hidden_objects(tmp_path: Path) -> None:
    given = write(tmp_path, [square(1, 1, 10, 10, 12, face_box=[11, 11, 3, 3]), square(2, 2, 30, 20, 12)])
    rows, left_out, _ = augment(given, tmp_path / "out", "placement.scale_range=[2,2]", num=12)
    pasted = [row for row in of(rows, 1) if row["segpaste"]["pasted"]]
    assert pasted
    assert not any("face_box" in row for row in pasted)
    told = f"key 'face_box' of objects: {GEOMETRY}"
    own = [row for row in of(rows, 1) if not row["segpaste"]["pasted"]]
    assert left_out[told] == len(pasted) + sum("face_box" not in row for row in own)
    for row in own:  # kept with the whole mask only
        assert ("face_box" in row) == (row["area"] == 144)


def test_keys_that_voc_does_not_hold(tmp_path: Path) -> None:
    """The tables beside the XML files hold them."""
    parts = {"part": [{"name": "head", "bndbox": {"xmin": "3"}}], "point": {"x": "1", "y": "2"}, "pose": "Left"}
    given = write(tmp_path, [square(1, 1, 10, 10, 12, attributes=parts), MASKED], UNNAMED)
    rows, left_out, _ = augment(given, tmp_path / "out", "placement.paste_prob=0", layout="voc")
    assert [row["attributes"] for row in of(rows, 1)] == [parts]
    told = {what: num for what, num in left_out.items() if what.startswith("key ")}
    assert told == {f"key '{key}' of annotations (only in annotations.json)": 1 for key in ("part", "point")}


CAMERA = {"fx": 50, "fy": 50, "cx": 32, "cy": 24}
SHAPES = [{"label": "lane", "points": [[1, 2], [60, 40]], "shape_type": "line"}]


def test_geometry_of_images(tmp_path: Path) -> None:
    of_images = {"camera_intrinsics": CAMERA, "shapes": SHAPES, "roi": [0, 0, 64, 48], "license": 3}
    given = write(tmp_path, [square(1, 1, 10, 10, 12), MASKED], **of_images)
    _, _, tables = augment(given, tmp_path / "still")
    assert all(of_images.items() <= row.items() for row in tables["images"])
    _, left_out, tables = augment(given, tmp_path / "moved", size=(128, 128))
    assert all(
        row["license"] == 3 and not row.keys() & {"camera_intrinsics", "shapes", "roi"} for row in tables["images"]
    )
    assert {left_out[f"key '{key}' of images: {GEOMETRY}"] for key in ("camera_intrinsics", "shapes", "roi")} == {2}


def test_the_camera_of_a_sample_moves_with_its_image(tmp_path: Path) -> None:
    write(tmp_path, [square(1, 1, 10, 10, 12), MASKED], camera_intrinsics=CAMERA)
    for i in (1, 2):
        for name in ("depth", "depth_valid"):
            (tmp_path / name).mkdir(exist_ok=True)
        np.save(tmp_path / f"depth/{i}.npy", np.full(SIZE, 1.5, np.float32))
        Image.fromarray(np.full(SIZE, 255, np.uint8)).save(tmp_path / f"depth_valid/{i}.png")
    (tmp_path / "in.json").rename(tmp_path / "annotations.json")
    (tmp_path / "photos").rename(tmp_path / "images")
    _, left_out, tables = augment({"dataset": tmp_path}, tmp_path / "out", size=(128, 128))
    assert not any(GEOMETRY in what for what in left_out)
    for index, row in enumerate(tables["images"]):
        camera = open_dataset(tmp_path / "out")[index].camera_intrinsics
        assert camera is not None
        assert row["camera_intrinsics"] == {name: getattr(camera, name) for name in CAMERA}
        assert row["camera_intrinsics"]["fx"] != CAMERA["fx"]
