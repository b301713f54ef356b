"""Annotations of COCO without an id of their own: an error, or new ids, or left out; each is told and counted."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from coco_files import annotation_row, image_row, write_coco

from segpaste.cli import main
from segpaste.datasets import DatasetError, check_dataset, convert_dataset, open_dataset
from segpaste.datasets.checking.check import check_unopened
from segpaste.datasets.formats.format import ReadOptions
from segpaste.datasets.large_json import text
from segpaste.datasets.repeated_ids import DROPPED, RENUMBERED, RepeatedIds

SQUARES = [[[x, 2, x + 8, 2, x + 8, 10, x, 10]] for x in (2, 12, 22, 32)]
RULES: tuple[RepeatedIds, ...] = ("renumber", "drop")


def rows(*ids: Any) -> list[dict[str, Any]]:
    """Return annotations with these ids, two on each image; None is one without an id."""
    found = [annotation_row(7, 1 + number // 2, SQUARES[number]) for number in range(len(ids))]
    return [
        {key: value for key, value in row.items() if key != "id"} | ({} if number is None else {"id": number})
        for row, number in zip(found, ids, strict=True)
    ]


def write(folder: Path, *ids: Any) -> Path:
    folder.mkdir()
    write_coco(folder, [image_row(number, (20, 48)) for number in (1, 2)], rows(*ids))
    (folder / "photos").rename(folder / "images")
    return folder


@pytest.fixture(params=["held", "indexed"])
def folder(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with an id twice and one without, read whole or through an index in the cache folder."""
    monkeypatch.setenv("SEGPASTE_CACHE", str(tmp_path / "cache"))
    if request.param == "indexed":
        monkeypatch.setattr(text, "HELD_BYTES", 0)
    return write(tmp_path / "in", 5, 9, 5, None)


def test_is_an_error_with_advice(tmp_path: Path) -> None:
    for number, (ids, message) in enumerate(
        [((5, 9, 5), "expected unique ids in 'annotations', got 5 twice"), ((5, None), "'id' is missing")]
    ):
        folder = write(tmp_path / f"in{number}", *ids)
        with pytest.raises(DatasetError, match=rf"{message}; .*segpaste convert --repeated-ids renumber\)$"):
            open_dataset(folder)


class TestRules:
    def test_renumber(self, folder: Path) -> None:
        with pytest.warns(UserWarning, match="2 annotations have no id, or that of another one, and get new ones"):
            photos = open_dataset(folder, repeated_ids="renumber")
        assert [[row["id"] for row in photos.annotation_rows(index)] for index in (0, 1)] == [[5, 9], [10, 11]]
        assert [photos.annotation_ids(index) for index in (0, 1)] == [(5, 9), (10, 11)]
        assert photos[1].instance_masks[0].any(0).nonzero()[[0, -1]].flatten().tolist() == [22, 29]
        assert [dict(photos.unread(index)) for index in (0, 1)] == [{}, {RENUMBERED: 2}]

    def test_drop(self, folder: Path) -> None:
        with pytest.warns(UserWarning, match="2 annotations have no id, or that of another one, and are left out"):
            photos = open_dataset(folder, repeated_ids="drop")
        assert [[row["id"] for row in photos.annotation_rows(index)] for index in (0, 1)] == [[5, 9], []]
        assert photos[1].num_instances == 0
        assert [dict(photos.unread(index)) for index in (0, 1)] == [{}, {DROPPED: 2}]

    @pytest.mark.filterwarnings("ignore:.*annotations have no id")
    def test_rows_after_dropped_ones_keep_their_places(self, tmp_path: Path) -> None:
        photos = open_dataset(write(tmp_path / "in", 5, 5, None, 9), repeated_ids="drop")
        assert [[row["id"] for row in photos.annotation_rows(index)] for index in (0, 1)] == [[5], [9]]
        assert photos[1].boxes[:, 0].tolist() == [32]

    @pytest.mark.filterwarnings("ignore:.*annotations have no id")
    def test_workers_and_digests(self, folder: Path) -> None:
        opened = {rule: open_dataset(folder, repeated_ids=rule) for rule in RULES}
        assert len({photos.digest for photos in opened.values()}) == 2
        for photos in opened.values():
            again = pickle.loads(pickle.dumps(photos))
            assert again.annotation_ids(1) == photos.annotation_ids(1)
            np.testing.assert_array_equal(again[1].instance_masks, photos[1].instance_masks)

    @pytest.mark.filterwarnings("ignore:.*annotations have no id")
    @pytest.mark.parametrize(("rule", "reason", "num"), [("renumber", RENUMBERED, 4), ("drop", DROPPED, 2)])
    def test_what_is_written_is_whole(
        self, folder: Path, tmp_path: Path, rule: RepeatedIds, reason: str, num: int
    ) -> None:
        summary = convert_dataset(folder, tmp_path / "out", "coco", repeated_ids=rule)
        assert summary.losses == {reason: 2}
        photos = open_dataset(tmp_path / "out")
        assert sum(photos[index].num_instances for index in (0, 1)) == num
        assert not [found for found in check_dataset(photos).findings if found.severity == "error"]

    def test_a_sound_file_is_the_same(self, tmp_path: Path) -> None:
        folder = write(tmp_path / "in", 5, 9, 8, 1)
        photos, plain = open_dataset(folder, repeated_ids="renumber"), open_dataset(folder)
        for index in (0, 1):
            assert photos.annotation_rows(index) == plain.annotation_rows(index)
            assert not photos.unread(index)


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = write(tmp_path / "in", 5, 9, 5, 6), tmp_path / "out"
    convert = ["convert", str(folder), "--to", "coco", "--out", str(out)]
    assert main(convert) == 2
    assert "--repeated-ids renumber" in capsys.readouterr().err
    assert main([*convert, "--repeated-ids", "renumber"]) == 0
    assert f"{RENUMBERED} " in capsys.readouterr().out
    found = json.loads((out / "annotations/instances_train.json").read_text())
    assert [row["id"] for row in found["annotations"]] == [5, 9, 10, 6]


class TestCheck:
    def test_annotations_are_remarks_with_what_becomes_of_them(self, folder: Path) -> None:
        with pytest.warns(UserWarning, match="annotations have no id"):
            reports = {rule: check_dataset(open_dataset(folder, repeated_ids=rule)) for rule in RULES}
        for rule, report in reports.items():
            assert report.is_healthy
            found = [one for one in report.findings if one.kind == "repeated_id"]
            assert [one.photo for one in found] == ["2.png", "2.png"]
            ends = ("it gets the id 10", "it gets the id 11") if rule == "renumber" else ("it is left out",) * 2
            assert [one.message.partition("; ")[2] for one in found] == [*ends]
            assert [one.annotation for one in found] == ([10, 11] if rule == "renumber" else [None, None])
            assert "annotations[2] of image 2: expected an id of its own" in found[0].message
        assert [reports[rule].num_objects for rule in RULES] == [4, 2]
        assert reports["renumber"].object_area_px.max == 64  # masks of new ids are read, too

    def test_on_the_command_line(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        def run(*words: str) -> tuple[int, Any]:
            code = main(["check", str(folder), "--json", *words])
            return code, json.loads(capsys.readouterr().out)

        code, plain = run()
        errors = [one["kind"] for one in plain["findings"] if one["severity"] == "error"]
        assert (code, sorted(errors)) == (1, ["broken_entry", "duplicate_id"])
        for rule in RULES:
            code, told = run("--repeated-ids", rule)
            assert (code, told["healthy"]) == (0, True)
            code, told = run("--repeated-ids", rule, "--for", "pycocotools")
            assert code == 1  # the tool reads the file itself
            assert told["tools"][0]["errors"] == 2

    @pytest.mark.parametrize("rule", RULES)
    def test_other_errors_are_told_once(self, folder: Path, rule: RepeatedIds) -> None:
        file = folder / "annotations.json"
        tables = json.loads(file.read_text())
        del tables["annotations"][0]["image_id"]
        tables["annotations"].append({**tables["annotations"][1], "id": 9, "category_id": 99})
        file.write_text(json.dumps(tables))
        options = ReadOptions(repeated_ids=rule)
        with pytest.raises(DatasetError, match="image_id") as raised:
            open_dataset(folder, repeated_ids=rule)
        report = check_unopened(folder, raised.value, options=options)
        unknown = {} if rule == "drop" else {"unknown_reference": 1}
        assert report.counts("error") == {"broken_entry": 1, **unknown}
        assert report.counts()["repeated_id"] == 2

    def test_panoptic_segments_have_no_such_ids(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        from health_files import write as write_format

        write_format(tmp_path / "in", "panoptic")
        file = next((tmp_path / "in/annotations").glob("panoptic_*.json"))
        words = ["check", str(file), "--images", str(tmp_path / "in"), "--repeated-ids", "drop"]
        assert main(words) == 2
        assert "expected no repeated_ids (--repeated-ids) with panoptic segments" in capsys.readouterr().err


def test_where_it_is_not_taken(tmp_path: Path) -> None:
    folder = write(tmp_path / "in", 5, 9)
    with pytest.raises(DatasetError, match="repeated_ids: expected one of renumber, drop, got 'keep'"):
        open_dataset(folder, repeated_ids="keep")  # type: ignore[arg-type]
    (tmp_path / "yolo" / "images").mkdir(parents=True)
    (tmp_path / "yolo" / "labels").mkdir()
    with pytest.raises(DatasetError, match=r"expected no repeated_ids \(--repeated-ids\) with YOLO"):
        open_dataset(tmp_path / "yolo", repeated_ids="drop")


@pytest.mark.parametrize("value", [True, False, 1])
def test_things_as_bool(tmp_path: Path, value: object) -> None:
    """A flag of panoptic categories may be a bool; any other type is an error."""
    from health_files import write as write_format

    write_format(tmp_path / "in", "panoptic")
    file = next((tmp_path / "in/annotations").glob("panoptic_*.json"))
    tables = json.loads(file.read_text())
    tables["categories"][0]["isthing"] = value
    file.write_text(json.dumps(tables))
    photos = open_dataset(tmp_path / "in")
    assert photos.schema is not None
    assert photos.schema.classes[0] == ("thing" if value else "stuff")
    tables["categories"][0]["isthing"] = "yes"
    file.write_text(json.dumps(tables))
    with pytest.raises(DatasetError, match=r"expected 'isthing' of type int, got 'yes'"):
        open_dataset(tmp_path / "in")
