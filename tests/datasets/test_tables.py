"""Tables of COCO files that refer to images or annotations: their references hold in the written dataset, or are named.

The original has the images 5 (``a.png``), 8 (``b/c.png``) and 9 (``d.png``, of which no image is made); the written
images 1 and 3 are made of 5, and 2 of 8. Annotation 30 is in image 8, and was pasted into image 3, too; 31 and 32 are
in image 5, but 32 is hidden in image 3.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from conversion_world import read_json
from PIL import Image

from on_disk import noise
from segpaste.cli import main
from segpaste.datasets import convert_dataset
from segpaste.datasets.formats import copied_tables as of
from segpaste.datasets.formats.copied_tables import CopiedTables
from segpaste.datasets.formats.references import Copy, WrittenAnnotation

NAMES = {5: "a.png", 8: "b/c.png", 9: "d.png"}
COPIES = [Copy(5, 1, "000001.png"), Copy(8, 2, "000002.png"), Copy(5, 3, "000003.png")]
ANNOTATIONS = {30: 8, 31: 5, 32: 5}
MADE = {
    30: [WrittenAnnotation(COPIES[1], 101), WrittenAnnotation(COPIES[2], 104, is_pasted=True)],
    31: [WrittenAnnotation(COPIES[0], 102), WrittenAnnotation(COPIES[2], 103)],
    32: [WrittenAnnotation(COPIES[0], 105)],
}


def copied(value: Any, name: str = "table") -> tuple[Any, dict[str, int]]:
    """Return a table after it was copied, "left out" without one, and the number of each reason."""
    tables = CopiedTables(NAMES, COPIES, lambda: ANNOTATIONS, lambda: MADE)
    found = tables.copied({name: value})
    reasons = dict(tables.left_out)
    assert all(what.startswith(f"table '{name}") for what in reasons)
    return found.get(name, "left out"), {what.split(": ")[1]: num for what, num in reasons.items()}


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        pytest.param(
            [{"image_id": 8, "w": [1]}, {"image_id": 5, "w": [2, 3]}, {"note": "all"}],
            [
                {"note": "all"},
                {"image_id": 1, "w": [2, 3]},
                {"image_id": 2, "w": [1]},
                {"image_id": 3, "w": [2, 3]},
            ],
            id="rows",
        ),
        pytest.param(
            [{"id": 70, "image_id": 8, "text": "x"}, {"id": 71, "image_id": 8, "text": "y"}],
            [{"id": 1, "image_id": 2, "text": "x"}, {"id": 2, "image_id": 2, "text": "y"}],
            id="numbered rows",
        ),
        *(pytest.param([{key: 8}], [{key: 2}], id=key) for key in ("img_id", "imageId", "imgid", "image", "Image-ID")),
        pytest.param([{"image_id": "8"}], [{"image_id": "2"}], id="digits"),
        pytest.param([{"image_id": "0008"}], [{"image_id": "0002"}], id="padded"),
        pytest.param([{"image_id": 8.0}], [{"image_id": 2}], id="a whole float"),
        *(
            pytest.param([{key: "b/c.png", "w": 1}], [{key: "000002.png", "w": 1}], id=f"name in {key}")
            for key in ("file_name", "image", "source")
        ),
        pytest.param([{"f": "c.png"}], [{"f": "000002.png"}], id="name without its folder"),
        pytest.param([{"image_id": 8, "file": "b/c.png"}], [{"image_id": 2, "file": "000002.png"}], id="id and name"),
        pytest.param([["b/c.png", 0.5]], [["000002.png", 0.5]], id="rows that are lists"),
        pytest.param({"val": ["b/c.png", "d.png"], "n": 2}, {"val": ["000002.png"], "n": 2}, id="names of splits"),
        pytest.param({"image_ids": [8, 5]}, {"image_ids": [1, 2, 3]}, id="ids of images"),
        pytest.param({"b/c.png": {"x": 1}, "d.png": {"x": 2}}, {"000002.png": {"x": 1}}, id="keys are names"),
        pytest.param({"a": [1, 2]}, {"000001": [1, 2], "000003": [1, 2]}, id="keys are stems"),
        pytest.param({"8": {"image_id": 8}}, {"2": {"image_id": 2}}, id="keys that the entries repeat"),
        pytest.param({"by_image": {"8": "x"}}, {"by_image": {"2": "x"}}, id="by image"),
        pytest.param(
            {"scenes": {"rows": [{"img_id": 8}]}, "v": 2}, {"scenes": {"rows": [{"img_id": 2}]}, "v": 2}, id="nested"
        ),
        pytest.param(
            [{"id": 4, "frames": [{"image_id": 8}, {"image_id": 9}]}],
            [{"id": 4, "frames": [{"image_id": 2}]}],
            id="in rows",
        ),
        pytest.param([{"image_id": 8, "of": {"image_id": 8}}], [{"image_id": 2, "of": {"image_id": 2}}], id="twice"),
        *(
            pytest.param(
                [{key: 30, "image_id": 8, "w": 1}, {"x": 1}],
                [{"x": 1}, {key: 101, "image_id": 2, "w": 1}, {key: 104, "image_id": 3, "w": 1}],
                id=key,
            )
            for key in ("annotation_id", "ann_id", "annotationIds")
        ),
        pytest.param([{"annotation_id": "030"}], [{"annotation_id": "101"}, {"annotation_id": "104"}], id="of digits"),
        pytest.param(
            {"v": 1, "by_annotation": {"30": "x", "31": "y"}},
            {"v": 1, "by_annotation": {"101": "x", "104": "x", "102": "y", "103": "y"}},
            id="by annotation",
        ),
        pytest.param(
            {"b/c.png": {"annotation_ids": [30]}}, {"000002.png": {"annotation_ids": [101]}}, id="within an image"
        ),
        pytest.param({"cover": "b/c.png"}, {"cover": "000002.png"}, id="an image with one copy"),
        *(
            pytest.param(
                [{"image_id": 8, "prev_image_id": none}], [{"image_id": 2, "prev_image_id": none}], id=f"{none}"
            )
            for none in (None, 0, -1)
        ),
        pytest.param([{"prev_image_id": 5, "w": 1}], [{"prev_image_id": n, "w": 1} for n in (1, 3)], id="one before"),
    ],
)
def test_references_are_those_of_the_copies(table: Any, expected: Any) -> None:
    assert copied(table) == (expected, {})
    assert copied({"k": table}, "info") == ({"k": expected}, {})


@pytest.mark.parametrize(
    ("table", "kept", "reasons"),
    [
        ([{"annotation_id": 77}, {"x": 1}], [{"x": 1}], {of.OF_ANNOTATIONS: 1}),
        ([{"annotation_id": 32}], [{"annotation_id": 105}], {of.NO_ANNOTATION: 1}),
        ([{"annotation_ids": [31, 32]}], [{"annotation_ids": [102, 105]}], {of.NO_ANNOTATION: 1}),
        ([{"annotation_ids": [30, 31]}], "left out", {of.OF_SEVERAL: 1}),
        (
            {"by_annotation": {"32": "x", "77": "y"}},
            {"by_annotation": {"105": "x"}},
            {of.NO_ANNOTATION: 1, of.OF_ANNOTATIONS: 1},
        ),
        (
            {"a.png": {"annotation_ids": [31, 32]}},
            {"000001.png": {"annotation_ids": [102, 105]}},
            {of.NO_ANNOTATION: 1},
        ),
        ({"best": {"annotation_id": 30}, "v": 1}, {"best": {"annotation_id": 101}, "v": 1}, {}),
        ({"best": {"annotation_id": 31}, "v": 1}, {"best": {}, "v": 1}, {of.ALONE: 1}),
        ([{"id": 1, "instance_ids": [30, 31]}], "left out", {of.OF_ANNOTATIONS: 1}),
        ({"pairs": [{"objectId": 30}], "v": 1}, {"v": 1}, {of.OF_ANNOTATIONS: 1}),
        ([{"image_ids": [5, 8]}], "left out", {of.OF_SEVERAL: 1}),
        ([{"image_id": 5, "image_id_2": 8}, {"image_id": 8}], [{"image_id": 2}], {of.OF_SEVERAL: 1}),
        ([["a.png", "d.png"]], "left out", {of.OF_SEVERAL: 1}),
        ([{"image_id": 8, "next": "a.png"}], "left out", {of.OF_SEVERAL: 1}),
        ({"5": "x", "8": "y"}, "left out", {of.UNCLEAR: 2}),
        ({"30": "x"}, "left out", {of.UNCLEAR: 1}),
        ([{"image_id": 8, "votes": {"31": 2}}], "left out", {of.UNCLEAR: 1}),
        ({"val_ids": [5, 8], "v": 1}, {"v": 1}, {of.UNCLEAR: 2}),
        ({"images": [5]}, {}, {of.UNCLEAR: 1}),
        ([{"source_image_id": 5}], "left out", {of.UNCLEAR: 1}),
        ([{"image_id": 8, "prev_image_id": 5}], "left out", {of.OF_SEVERAL: 1}),
        ([{"image_id": 8, "prev_image_id": 9}], "left out", {of.OF_SEVERAL: 1}),
        ([{"image_id": 8, "prev_image_id": 77}], "left out", {of.UNKNOWN: 1}),
        ([{"image_index": 5}], "left out", {of.UNCLEAR: 1}),
        ([{"image_id": 77}], "left out", {of.UNKNOWN: 1}),
        ({"a.png": 1, "e.png": 2}, {"000001.png": 1, "000003.png": 1}, {of.UNKNOWN: 1}),
        ([{"path": "/data/b/c.png"}], "left out", {of.PATHS: 1}),
        ({"cover": "a.png", "v": 1}, {"v": 1}, {of.ALONE: 1}),
        ({"cover": {"image_id": 5, "by": "x"}}, {"cover": {"by": "x"}}, {of.ALONE: 1}),
    ],
)
def test_others_are_left_out_by_name(table: Any, kept: Any, reasons: dict[str, int]) -> None:
    assert copied(table) == (kept, reasons)


@pytest.mark.parametrize(
    "table",
    [
        [{"id": 5, "name": "CC BY", "url": "http://x/b/c.png"}],
        {"year": "5", "version": "8", "num_images": 5, "images": 8, "contributor": "a", "size": [5, 8]},
        {"1": "kitchen", "2": "street"},
        {"categories": {"5": "cup", "8": "plate"}},
        [{"id": 5, "background_ids": [5, 8], "video_id": 8, "category_id": 5}],
        [{"box": [5, 8, 30, 31], "color": [5, 8, 9]}],
        "a text",
        None,
        [],
        {},
    ],
)
def test_the_rest_is_unchanged(table: Any) -> None:
    assert copied(table, "about") == (table, {})


IN_PAIRS = [
    ([{"image_id": 8, "prev_image_id": 5, "w": 1}], [{"image_id": 2, "prev_image_id": 1, "w": 1}]),
    ([{"image_id": 8, "neighbour_image_ids": ["5", 8]}], [{"image_id": 2, "neighbour_image_ids": ["1", 2]}]),
    (
        [{"image_id": 8, "prev_image_id": 5, "annotation_id": 30, "prev_annotation_id": 31}],
        [{"image_id": 2, "prev_image_id": 1, "annotation_id": 101, "prev_annotation_id": 102}],
    ),
    ([{"annotation_id": 30, "prev_annotation_id": 31}], [{"annotation_id": 101, "prev_annotation_id": 102}]),
    ([{"prev_image_id": 5, "next": "b/c.png"}], [{"prev_image_id": 1, "next": "000002.png"}]),
    ({"b/c.png": {"prev_image_id": 5}}, {"000002.png": {"prev_image_id": 1}}),
    (
        {"by_annotation": {"30": {"image_id": 8, "prev": "a.png"}}},
        {"by_annotation": {"101": {"image_id": 2, "prev": "000001.png"}}},
    ),
]


@pytest.mark.parametrize(("table", "expected"), IN_PAIRS)
def test_rows_of_several_images_with_one_copy_each(table: Any, expected: Any) -> None:
    """Annotation 30 was pasted into image 1, too, where the row is not repeated."""
    pasted = WrittenAnnotation(COPIES[0], 104, is_pasted=True)
    made = {30: [MADE[30][0], pasted], 31: [MADE[31][0]]}
    tables = CopiedTables(NAMES, COPIES[:2], lambda: ANNOTATIONS, lambda: made)
    assert tables.copied({"table": table}) == {"table": expected}
    assert not tables.left_out


def test_names_of_two_images_are_no_references() -> None:
    tables = CopiedTables({1: "x/a.png", 2: "y/a.png"}, [Copy(1, 1, "000001.png")], dict, dict)
    assert tables.copied({"t": [{"f": "a.png"}, {"f": "x/a.png"}]}) == {"t": [{"f": "a.png"}, {"f": "000001.png"}]}


TABLES: dict[str, Any] = {
    "info": {"year": 2020, "by_image": {"1": "one", "2": "two", "3": "three"}, "cover": "img (1).png"},
    "scene_annotations": [{"image_id": n, "background_ids": [n * 10]} for n in (1, 2, 3)],
    "tags": {f"img ({n}).png": n for n in (1, 2, 3)},
    "tracks": [{"annotation_id": n, "track": 100 + n} for n in (1, 2)],
    "objects": [{"object_id": n} for n in (1, 2)],
}


def _write(folder: Path) -> Path:
    (folder / "photos").mkdir()
    images, rows = [], []
    for number in (1, 2, 3):
        name = f"img ({number}).png"
        Image.fromarray(noise((48, 64), number)).save(folder / "photos" / name)
        images.append({"id": number, "file_name": name, "height": 48, "width": 64})
        polygon = {"segmentation": [[4, 4, 20, 4, 20, 20, 4, 20]], "bbox": [4, 4, 16, 16], "area": 256, "iscrowd": 0}
        rows.append({"id": number, "image_id": number, "category_id": 1, **polygon})
    document = {**TABLES, "images": images, "annotations": rows, "categories": [{"id": 1, "name": "cup"}]}
    (folder / "a.json").write_text(json.dumps(document))
    return folder / "a.json"


def test_an_augmented_dataset_and_its_replay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(_write(tmp_path)), "--images", str(tmp_path / "photos")]
    out, again = tmp_path / "out", tmp_path / "again"
    assert main(["augment", *words, "--out", str(out), "--num", "5", "--gallery", "0"]) == 0
    lines = capsys.readouterr().out
    written, log = read_json(out / "annotations.json"), (tmp_path / "out.log").read_text()
    left_out = {f"table 'objects': {of.OF_ANNOTATIONS}": 2, f"table 'info.cover': {of.ALONE}": 1}
    assert written["info"]["segpaste"]["left_out"] == left_out
    assert all(what in lines and what in log for what in left_out)
    originals = {row["id"]: row["segpaste"]["source_image_id"] for row in written["images"]}
    names = {row["file_name"]: originals[row["id"]] for row in written["images"]}
    assert {row["image_id"]: row["background_ids"] for row in written["scene_annotations"]} == {
        number: [original * 10] for number, original in originals.items()
    }
    assert written["tags"] == names
    texts = TABLES["info"]["by_image"]
    expected = {str(number): texts[str(original)] for number, original in originals.items()}
    assert written["info"]["source_info"] == {"year": 2020, "by_image": expected}
    expected = {
        row["id"]: 100 + number
        for row in written["annotations"]
        if (number := row["segpaste"]["source_annotation_id"]) in (1, 2)
    }
    assert any(row["segpaste"]["pasted"] for row in written["annotations"] if row["id"] in expected)
    assert {row["annotation_id"]: row["track"] for row in written["tracks"]} == expected

    assert main(["replay", str(out), "--dataset", *words, "--out", str(again)]) == 0
    lines = capsys.readouterr().out
    assert all(what in lines for what in left_out)
    remade = read_json(again / "annotations.json")
    for name in ("scene_annotations", "tags", "tracks"):
        assert remade[name] == written[name]


class TestConverted:
    def test_ids_and_names_stay(self, tmp_path: Path) -> None:
        path = _write(tmp_path)
        assert not convert_dataset(path, tmp_path / "out", "coco", images_dir=tmp_path / "photos").losses
        found = read_json(tmp_path / "out/annotations.json")
        assert {name: found[name] for name in TABLES} == TABLES

    def test_images_with_new_names(self, tmp_path: Path) -> None:
        """An image with an orientation is encoded again under another name."""
        path, exif = _write(tmp_path), Image.Exif()
        exif[0x0112] = 3
        text = path.read_text().replace("img (2).png", "img (2).jpg")
        path.write_text(text)
        Image.fromarray(np.array(Image.open(tmp_path / "photos/img (2).png"))).save(
            tmp_path / "photos/img (2).jpg", exif=exif
        )
        found = convert_dataset(path, tmp_path / "out", "coco", images_dir=tmp_path / "photos")
        assert list(found.losses.values()) == [1]
        written = read_json(tmp_path / "out/annotations.json")
        new = written["images"][1]["file_name"]
        assert new != "img (2).jpg"
        assert written["tags"] == {"img (1).png": 1, new: 2, "img (3).png": 3}
        assert written["tracks"] == TABLES["tracks"]

    def test_keys_of_images_with_ids_of_annotations(self, tmp_path: Path) -> None:
        """They are left out where annotations are numbered again; ids of images stay."""
        path = _write(tmp_path)
        tables = json.loads(path.read_text())
        tables["images"][0] |= {"main_annotation_id": 3, "next_image_id": 2}
        path.write_text(json.dumps(tables))
        found = convert_dataset(path, tmp_path / "out", "coco-panoptic", images_dir=tmp_path / "photos")
        assert found.losses[f"key 'main_annotation_id' of images: {of.OF_ANNOTATIONS}"] == 1
        image = read_json(tmp_path / "out/panoptic.json")["images"][0]
        assert "main_annotation_id" not in image
        assert image["next_image_id"] == 2
        convert_dataset(tmp_path / "out", tmp_path / "back", "coco")
        (file,) = (tmp_path / "back").rglob("*.json")
        assert read_json(file)["images"][0]["next_image_id"] == 2

    def test_annotations_with_new_ids(self, tmp_path: Path) -> None:
        found = convert_dataset(_write(tmp_path), tmp_path / "out", "coco-panoptic", images_dir=tmp_path / "photos")
        assert found.losses[f"table 'tracks': {of.OF_ANNOTATIONS}"] == 2
        written = read_json(tmp_path / "out/panoptic.json")
        assert {name: written.get(name) for name in TABLES} == {**TABLES, "tracks": None, "objects": None}


class TestKeysThatNameImages:
    """Images get other names if they are encoded again, or if some file system takes their names for one."""

    OLD: ClassVar[Any] = {"prev_file_name": "x/1.jpg", "of": {"pair": ["1.jpg", "a.png"]}, "note": "see a.png"}
    NEW: ClassVar[Any] = {"prev_file_name": "x/1.png", "of": {"pair": ["1.png", "a_2.png"]}, "note": "see a.png"}

    def write(self, folder: Path) -> Path:
        (folder / "photos/x").mkdir(parents=True)
        exif = Image.Exif()
        exif[0x0112] = 3
        images: list[Any] = [
            {"id": n, "file_name": name, "height": 48, "width": 64}
            for n, name in enumerate(("x/1.jpg", "A.png", "a.png"), start=1)
        ]
        for row in images:
            turned = {"exif": exif} if row["id"] == 1 else {}
            Image.fromarray(noise((48, 64), row["id"])).save(folder / "photos" / row["file_name"], **turned)
        images[1] |= {**self.OLD, "prev_image_id": 1, "coco_url": "http://images/a.png"}
        row = {"id": 7, "image_id": 2, "category_id": 1, "segmentation": [[4, 4, 20, 4, 20, 20, 4, 20]]}
        row |= {"bbox": [4, 4, 16, 16], "area": 256, "iscrowd": 0, **self.OLD}
        tables = {
            "images": images,
            "annotations": [row],
            "categories": [{"id": 1, "name": "a.png", "example": "a.png"}],
        }
        (folder / "a.json").write_text(json.dumps(tables))
        return folder / "a.json"

    @pytest.mark.parametrize("by", [("coco",), ("roboflow",), ("lvis",), ("coco-panoptic",), ("coco-panoptic", "coco")])
    def test_they_name_the_written_ones(self, by: tuple[str, ...], tmp_path: Path) -> None:
        path: Path = self.write(tmp_path)
        for number, to in enumerate(by):
            options: Any = {} if number else {"images_dir": tmp_path / "photos"}
            convert_dataset(path, tmp_path / to, to, **options)
            path = tmp_path / to
        (file,) = path.rglob("*.json")
        tables = read_json(file)
        images = {row["id"]: row for row in tables["images"]}
        assert [images[n]["file_name"] for n in (1, 2, 3)] == ["x/1.png", "A.png", "a_2.png"]
        rows = tables["annotations"]
        (row,) = rows if "segments_info" not in rows[0] else [s for of in rows for s in of["segments_info"]]
        for found in (images[2], row):
            assert {key: found[key] for key in self.NEW} == self.NEW
        assert images[2]["coco_url"] == "http://images/a.png"
        assert images[2]["prev_image_id"] == 1
        assert tables["categories"][0]["name"] == "a.png"
        assert tables["categories"][0]["example"] == "a_2.png"

    def test_those_of_panoptic_maps(self, tmp_path: Path) -> None:
        out = tmp_path / "first"
        convert_dataset(self.write(tmp_path), out, "coco-panoptic", images_dir=tmp_path / "photos")
        text = (out / "panoptic.json").read_text()
        tables = json.loads(text)
        of_map = next(row for row in tables["annotations"] if row["image_id"] == 2)
        of_map |= {"prev_file_name": "a.png", "reviewer": "x"}
        Image.open(out / "images/a_2.png").save(out / "images/a.png")
        tables["images"][2]["file_name"] = "a.png"
        (out / "panoptic.json").write_text(json.dumps(tables))
        convert_dataset(out, tmp_path / "second", "coco-panoptic")
        rows = read_json(tmp_path / "second/annotations/panoptic_train.json")["annotations"]
        found = next(row for row in rows if row["image_id"] == 2)
        assert (found["prev_file_name"], found["reviewer"]) == ("a_2.png", "x")

    def test_in_voc(self, tmp_path: Path) -> None:
        """Whose images are in one folder."""
        convert_dataset(self.write(tmp_path), tmp_path / "out", "voc", images_dir=tmp_path / "photos")
        text = (tmp_path / "out/Annotations/A.xml").read_text()
        assert text.count(">x_1.png<") >= 2
        assert "x/1.jpg" not in text
