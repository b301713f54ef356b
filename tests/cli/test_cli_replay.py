"""`segpaste replay`: every image of an augmented dataset comes out again; what does not is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_world import check_instances, one_error, read_json, write_instances, write_panoptic
from PIL import Image

from on_disk import tree
from segpaste.augmenting import remaking
from segpaste.cli import main
from segpaste.replay import read_records

NUM = 11


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos of unequal sizes, and what `segpaste augment` makes of them."""
    folder = tmp_path_factory.mktemp("world")
    write_instances(folder)
    words = ["--images", str(folder / "photos"), "--num", str(NUM), "--seed", "1"]
    words += ["placement.layers=2", "min_area_px=4", "--gallery", "0"]
    assert main(["augment", str(folder / "labels.json"), "--out", str(folder / "out"), *words]) == 0
    return folder


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("scenes") / "out"
    words = ["--num", "5", "--seed", "7", "--size", "64", "--gallery", "0"]
    assert main(["augment", "scenes", "--out", str(out), *words]) == 0
    return out


def replay(folder: Path, *words: str) -> int:
    start = ["replay", str(folder / "out"), "--dataset", str(folder / "labels.json")]
    return main([*start, "--images", str(folder / "photos"), *words])


def check(folder: Path, *words: str) -> int:
    return replay(folder, "--check", str(folder / "out"), *words)


class TestRecordsOfAugment:
    def test_one_for_every_image(self, world: Path) -> None:
        records = read_records(world / "out" / "replay.jsonl")
        images = read_json(world / "out" / "annotations.json")["images"]
        assert [record.name for record in records] == [row["file_name"] for row in images]
        for record, row in zip(records, images, strict=True):
            assert record.sample_keys[0].seed == row["segpaste"]["seed"]
            assert record.target == (1, row["segpaste"]["epoch"], 0, 0, row["segpaste"]["position"])
        assert any(len(record.layers) == 2 for record in records)

    def test_no_path_in_them(self, world: Path) -> None:
        assert str(world) not in (world / "out" / "replay.jsonl").read_text()

    def test_they_do_not_depend_on_how_many_there_are(self, world: Path, tmp_path: Path) -> None:
        words = ["--images", str(world / "photos"), "--num", "6", "--seed", "1"]
        words += ["placement.layers=2", "min_area_px=4", "--gallery", "0"]
        assert main(["augment", str(world / "labels.json"), "--out", str(tmp_path / "out"), *words]) == 0
        all_lines = (world / "out" / "replay.jsonl").read_text().splitlines()
        assert (tmp_path / "out" / "replay.jsonl").read_text().splitlines() == all_lines[:6]


class TestCheck:
    def test_instances(self, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
        before = tree(world)
        assert check(world) == 0
        captured = capsys.readouterr()
        assert captured.out == f"{NUM} of {NUM} identical\n"
        assert captured.err == ""
        assert tree(world) == before

    def test_scenes(self, scenes: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["replay", str(scenes / "replay.jsonl"), "--dataset", "scenes", "--check", str(scenes)]) == 0
        assert capsys.readouterr().out == "5 of 5 identical\n"

    @pytest.mark.parametrize("policy", ["revert", "ignore"])
    def test_panoptic(self, tmp_path: Path, policy: str, capsys: pytest.CaptureFixture[str]) -> None:
        labels, images_dir, maps_dir = write_panoptic(tmp_path)
        dataset = ["--images", str(images_dir), "--panoptic-dir", str(maps_dir)]
        out, words = tmp_path / "out", ["--num", "7", "--gallery", "0", f"panoptic.stuff_policy={policy}"]
        words += ["panoptic.tau_stuff_frac=0.9"]
        assert main(["augment", str(labels), *dataset, "--out", str(out), *words]) == 0
        capsys.readouterr()
        assert main(["replay", str(out), "--dataset", str(labels), *dataset, "--check", str(out)]) == 0
        assert capsys.readouterr().out == "7 of 7 identical\n"

    def test_jpg(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_instances(tmp_path)
        words = ["--images", str(tmp_path / "photos"), "--out", str(tmp_path / "out"), "--num", "3", "--gallery", "0"]
        words += ["--format", "jpg"]
        assert main(["augment", str(tmp_path / "labels.json"), *words]) == 0
        capsys.readouterr()
        assert check(tmp_path) == 0
        assert capsys.readouterr().out == "3 of 3 identical\n"

    def test_some(self, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert check(world, "--index", "3") == 0
        assert check(world, "--image", "000004.png") == 0
        assert capsys.readouterr().out == "1 of 1 identical\n" * 2


def change_pixel(out: Path) -> None:
    path = out / "images" / "000003.png"
    pixels = np.array(Image.open(path))
    pixels[-1, -1, 2] ^= 1
    Image.fromarray(pixels).save(path)


def edit_tables(change: Callable[[Any], Any]) -> Callable[[Path], None]:
    def edit(out: Path) -> None:
        tables = read_json(out / "annotations.json")
        change(tables)
        (out / "annotations.json").write_text(json.dumps(tables))

    return edit


def edit_record(change: Callable[[Any], Any]) -> Callable[[Path], None]:
    """Change the third record."""

    def edit(out: Path) -> None:
        lines = (out / "replay.jsonl").read_text().splitlines()
        values = json.loads(lines[2])
        change(values)
        (out / "replay.jsonl").write_text("\n".join([*lines[:2], json.dumps(values), *lines[3:]]) + "\n")

    return edit


def drop_record(out: Path) -> None:
    lines = (out / "replay.jsonl").read_text().splitlines()
    (out / "replay.jsonl").write_text("\n".join(lines[:2] + lines[3:]))


def change_photo(out: Path) -> None:
    """Another photo of the same size, under the same annotations."""
    shown = read_json(out / "annotations.json")["images"][2]["segpaste"]["source_file_name"]
    path = out.parent / "photos" / shown
    Image.fromarray(255 - np.array(Image.open(path))).save(path)


def annotation_of_third(tables: Any) -> Any:
    return next(row for row in tables["annotations"] if row["image_id"] == 3)


DIFFERENT: dict[str, tuple[Callable[[Path], Any], str]] = {
    "pixel": (change_pixel, "000003.png: images/000003.png differs"),
    "missing image": (lambda o: (o / "images" / "000003.png").unlink(), "000003.png: images/000003.png is missing"),
    "box": (edit_tables(lambda t: annotation_of_third(t)["bbox"].reverse()), "000003.png: its annotations differ"),
    "class": (
        edit_tables(lambda t: annotation_of_third(t).update(category_id=1)),
        "000003.png: its annotations differ",
    ),
    "one row less": (
        edit_tables(lambda t: t["annotations"].remove(annotation_of_third(t))),
        "000003.png: its annotations differ",
    ),
    "size": (edit_tables(lambda t: t["images"][2].update(width=99)), "000003.png: its row in annotations.json differs"),
    "no row": (edit_tables(lambda t: t["images"].pop(2)), "000003.png: is not in annotations.json"),
    "no record": (drop_record, "000003.png: has no record"),
    "another digest": (edit_record(lambda v: v.update(digest="0" * 64)), "is not the recorded one"),
    "another photo": (change_photo, "is not the recorded one"),
}


class TestDifferences:
    @pytest.mark.parametrize("case", DIFFERENT)
    def test_are_named(self, world: Path, tmp_path: Path, case: str, capsys: pytest.CaptureFixture[str]) -> None:
        change, message = DIFFERENT[case]
        shutil.copytree(world, tmp_path / "world")
        change(tmp_path / "world" / "out")
        assert check(tmp_path / "world") == 1
        captured = capsys.readouterr()
        assert message in captured.out
        num_same = int(captured.out.splitlines()[-1].removesuffix(f" of {NUM} identical"))
        assert num_same == NUM - 1 if case != "another photo" else 0 < num_same < NUM
        assert captured.err == ""

    def test_of_depth_and_normals(self, scenes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        out = tmp_path / "out"
        shutil.copytree(scenes, out)
        for kind, place in (("depth", (0, 0)), ("normals", (5, 5, 1))):
            values = np.load(out / kind / "000002.npy")
            values[place] = np.nextafter(values[place], np.float32(9))
            np.save(out / kind / "000002.npy", values)
        (out / "panoptic" / "000004.png").unlink()
        assert main(["replay", str(out), "--dataset", "scenes", "--check", str(out)]) == 1
        lines = capsys.readouterr().out.splitlines()
        assert lines == [
            "000002.png: depth/000002.npy differs, normals/000002.npy differs",
            "000004.png: panoptic/000004.png is missing",
            "3 of 5 identical",
        ]


class TestOut:
    def test_all(self, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert replay(world, "--out", str(tmp_path / "again")) == 0
        captured = capsys.readouterr()
        assert captured.out.startswith(f"replayed {NUM} images\n")
        assert captured.err == ""
        before, after = tree(world / "out"), tree(tmp_path / "again")
        assert {name for name in before if before[name] == after.get(name)} == {
            "replay.jsonl",
            *(f"images/{i:06d}.png" for i in range(1, NUM + 1)),
        }
        check_instances(tmp_path / "again")
        assert check(world, "--check", str(tmp_path / "again")) == 0
        assert not (tmp_path / "again.partial").exists()

    @pytest.mark.parametrize("words", [["--index", "6"], ["--image", "000007.png"]], ids=str)
    def test_one(self, world: Path, tmp_path: Path, words: list[str]) -> None:
        assert replay(world, "--out", str(tmp_path / "again"), *words) == 0
        assert [p.name for p in (tmp_path / "again" / "images").iterdir()] == ["000007.png"]
        (row,) = read_json(tmp_path / "again" / "annotations.json")["images"]
        assert row["id"] == 7

    def test_interrupted_and_gone_on(self, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        remade, asked = remaking.Remaker._remade, []

        def interrupted(remaker: Any, record: Any, lost: Any) -> Any:
            asked.append(record.name)
            if len(asked) == 4:
                raise KeyboardInterrupt
            return remade(remaker, record, lost)

        monkeypatch.setattr(remaking.Remaker, "_remade", interrupted)
        assert replay(world, "--out", str(tmp_path / "again")) == 130
        assert not (tmp_path / "again").exists()
        assert replay(world, "--out", str(tmp_path / "again")) == 0
        assert len(asked) == NUM + 1
        assert check(world, "--check", str(tmp_path / "again")) == 0


def other_annotations(folder: Path) -> None:
    tables = read_json(folder / "labels.json")
    tables["annotations"].pop()
    (folder / "labels.json").write_text(json.dumps(tables))


def cut_a_line(folder: Path) -> None:
    path = folder / "out" / "replay.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:4], lines[4][:-40], *lines[5:]]))


def on_out(change: Callable[[Path], None]) -> Callable[[Path], None]:
    return lambda folder: change(folder / "out")


def nothing(folder: Path) -> None:
    pass


BAD: dict[str, tuple[Callable[[Path], Any], list[str], str]] = {
    "missing file": (lambda f: (f / "out" / "replay.jsonl").unlink(), [], "replay.jsonl: No such file"),
    "empty file": (lambda f: (f / "out" / "replay.jsonl").write_text(""), [], "at least one replay record, got none"),
    "broken line": (cut_a_line, [], "replay.jsonl: line 5: expected a replay record in JSON"),
    "another form": (
        on_out(edit_record(lambda v: v.update(adr_version="0002"))),
        [],
        "replay.jsonl: line 3: expected a replay record of adr_version '0001', got '0002'",
    ),
    "bad configuration": (
        on_out(edit_record(lambda v: v["config"].update(min_area_px=-1))),
        [],
        "replay.jsonl: line 3: config.min_area_px: expected at least 1, got -1",
    ),
    "another dataset": (other_annotations, [], "expected records of labels.json"),
    "missing photo": (lambda f: (f / "photos" / "p3.png").unlink(), [], "p3.png: expected an image, found no such"),
    "missing dataset": (lambda f: (f / "labels.json").unlink(), [], "labels.json: expected a dataset, found neither"),
    "record of a loader": (on_out(edit_record(lambda v: v.update(dataset=None))), [], "with segpaste.replay"),
    "nameless record": (on_out(edit_record(lambda v: v.update(name="../../x.png"))), [], "got '../../x.png'"),
    "two seeds": (on_out(edit_record(lambda v: v["target"].__setitem__(0, 2))), [], "of one seed"),
    "beyond the last": (nothing, ["--index", str(NUM)], f"--index: expected a number below {NUM}"),
    "unknown image": (nothing, ["--image", "x.png"], "--image: expected one record of x.png"),
    "index and image": (
        nothing,
        ["--image", "x.png", "--index", "1"],
        "--index: expected no --image beside it, got both; leave one",
    ),
    "configuration": (
        nothing,
        ["min_area_px=1"],
        "expected options only, got min_area_px=...",
    ),
}


class TestBadInput:
    @pytest.mark.parametrize("case", BAD)
    @pytest.mark.parametrize("what", ["--out", "--check"])
    def test_one_clear_line_and_nothing_left(
        self, world: Path, tmp_path: Path, case: str, what: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        prepare, words, message = BAD[case]
        folder = tmp_path / "world"
        shutil.copytree(world, folder)
        prepare(folder)
        before = tree(folder)
        assert replay(folder, what, str(tmp_path / "again" if what == "--out" else folder / "out"), *words) == 2
        assert message in one_error(capsys)
        assert tree(folder) == before
        assert not (tmp_path / "again").exists()

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ([], "expected RECORDS"),
            (["r", "--dataset", "scenes"], "expected --out or --check, got none"),
            (
                ["r", "--dataset", "scenes", "--out", "o", "--check", "c"],
                "--check: expected no --out beside it, got both; leave one",
            ),
            (["r", "--dataset", "scenes", "--check", "c", "--index", "-1"], "--index: expected an integer of at least"),
        ],
    )
    def test_command_line(self, words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["replay", *words]) == 2
        assert message in one_error(capsys)

    def test_other_datasets(self, world: Path, scenes: Path, capsys: pytest.CaptureFixture[str]) -> None:
        records = str(world / "out")
        for words, message in (
            (["--dataset", "scenes"], "expected records of scenes"),
            (["--dataset", "scenes", "--images", "x"], "scenes: expected no --images"),
            (["--dataset", str(world / "labels.json")], "expected the folder of the images"),
        ):
            assert main(["replay", records, *words, "--check", records]) == 2
            assert message in capsys.readouterr().err

    def test_an_occupied_place(self, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "mine.txt").write_text("mine")
        assert replay(world, "--out", str(tmp_path)) == 2
        assert "expected --out to be new or an empty folder" in capsys.readouterr().err

    def test_a_check_against_nothing(self, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert replay(world, "--check", str(tmp_path)) == 2
        assert "annotations.json: expected an annotation file" in capsys.readouterr().err


@pytest.mark.parametrize("layout", ["coco", "voc"])
def test_keys_of_images_are_written_again(layout: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keys of images and of objects are written."""
    write_instances(tmp_path)
    tables = read_json(tmp_path / "labels.json")
    for row in tables["images"]:
        row |= {"license": 4, "attributes": {"scene": "street"}}
    for row in tables["annotations"]:
        row["attributes"] = {"colour": "red"}
    (tmp_path / "labels.json").write_text(json.dumps(tables))
    words = ["--images", str(tmp_path / "photos"), "--num", "2", "--gallery", "0"]
    words += ["--layout", layout, "min_area_px=4"]
    assert main(["augment", str(tmp_path / "labels.json"), "--out", str(tmp_path / "out"), *words]) == 0
    assert check(tmp_path) == 0
    assert replay(tmp_path, "--out", str(tmp_path / "again")) == 0
    assert "key 'attributes' of annotations" not in capsys.readouterr().out
    tables = read_json(tmp_path / "again/annotations.json")
    assert {row["attributes"]["colour"] for row in tables["annotations"]} == {"red"}
    rows = tables["images"]
    assert [(row["license"], row["attributes"]["scene"]) for row in rows] == [(4, "street")] * 2
