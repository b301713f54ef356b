"""`segpaste bank build` of cut-outs and of several datasets, and images without objects in `segpaste augment`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_world import one_error, write_instances, write_panoptic

from cutout_files import cutout, write, write_backgrounds, write_cutouts
from on_disk import tree
from segpaste.bank import open_bank
from segpaste.cli import main


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two datasets of the classes car, cup and zebra, cut-outs of cup and zebra, rooms, and a bank of the cut-outs."""
    folder = tmp_path_factory.mktemp("world")
    for name in ("a", "b"):
        (folder / name).mkdir()
        write_instances(folder / name)
    write_cutouts(folder / "cutouts")
    write_backgrounds(folder / "rooms", 4)
    assert main(["bank", "build", "--cutouts", str(folder / "cutouts"), "--out", str(folder / "bank")]) == 0
    return folder


def build(world: Path, out: Path, *words: str) -> int:
    """Build with words in which ``@`` is the world."""
    given = [word.replace("@", str(world)) for word in words]
    return main(["bank", "build", *given, "--out", str(out), "--crop-size", "16", "--min-area", "1"])


class TestCutouts:
    def test_a_bank(self, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
        bank = open_bank(world / "bank")
        assert (bank.class_names, bank.class_frequencies) == (("cup", "zebra"), (3, 3))
        assert bank.meta.built_from["dataset"] == "cutouts"
        assert main(["bank", "verify", str(world / "bank")]) == 0

    def test_sizes(self, world: Path, tmp_path: Path) -> None:
        (tmp_path / "sizes.yaml").write_text("cup: 0.1\n'*': [0.2, 0.3]\n")
        prior = ["--cutouts", "@/cutouts", "--size-prior", str(tmp_path / "sizes.yaml")]
        assert build(world, tmp_path / "bank", *prior, "--image-size", "100x400") == 0
        rows = open_bank(tmp_path / "bank").read(range(6), ["source_size", "source_box"])
        assert (rows["source_size"] == [100, 400]).all()
        x1, y1, x2, y2 = rows["source_box"].T
        longer = np.maximum(x2 - x1, y2 - y1)
        assert longer[:3].tolist() == [20] * 3
        assert ((longer[3:] >= 40) & (longer[3:] <= 60)).all()

    def test_sizes_of_a_dataset(self, world: Path, tmp_path: Path) -> None:
        tables = json.loads((world / "a" / "labels.json").read_text())
        for row in tables["annotations"]:
            row["bbox"] = [0, 0, 9, 5]
        (tmp_path / "labels.json").write_text(json.dumps(tables))
        words = ["--cutouts", "@/cutouts", "--sizes-from", str(tmp_path / "labels.json")]
        assert build(world, tmp_path / "bank", *words) == 0
        sizes = open_bank(tmp_path / "bank").read(range(6), ["source_size"])["source_size"]
        assert (sizes == [np.median([row[key] for row in tables["images"]]) for key in ("height", "width")]).all()

    def test_skipped(self, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        folder = write_cutouts(tmp_path / "cutouts")
        write(folder / "cup" / "photo.jpg", cutout()[..., :3])
        assert build(world, tmp_path / "bank", "--cutouts", str(folder)) == 2
        assert "cup/photo.jpg has no transparency (mode RGB); remove them, or skip" in capsys.readouterr().err
        assert build(world, tmp_path / "bank", "--cutouts", str(folder), "--skip-unreadable") == 0
        said = capsys.readouterr()
        assert "skipped 1: cup/photo.jpg has no transparency" in said.err
        assert re.search(r"^  unreadable images +1$", said.out, re.MULTILINE)

    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            (
                ["@/a/labels.json", "--sizes-from", "x.json"],
                "--sizes-from: expected this option with --cutouts only; leave it out",
            ),
            (
                ["--cutouts", "@/cutouts", "--image-size", "9"],
                "--image-size: expected this option with --size-prior or",
            ),
            (["--cutouts", "@/cutouts", "--size-prior", "a", "--sizes-from", "b"], "expected one of them, got both"),
            (["--cutouts", "@/cutouts", "--alpha-threshold", "0"], "expected a number above 0, up to 1, got '0'"),
            (["--cutouts", "@/none"], "none: expected a folder of images, found none"),
            (["--cutouts", "@/cutouts", "--num", "3"], "--num: expected this option with scenes only"),
            ([], "expected a dataset, or --cutouts FOLDER, got neither"),
        ],
    )
    def test_bad_words(
        self, words: list[str], expected: str, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert build(world, tmp_path / "bank", *words) == 2
        assert expected in one_error(capsys)
        assert not (tmp_path / "bank").exists()


class TestSeveral:
    def test_joined(self, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Two datasets and cut-outs under one map; workers give the same bytes, another order gives others."""
        (tmp_path / "map.yaml").write_text("zebra: animal\ncar: null\n")
        rest = ["--cutouts", "@/cutouts", "--class-map", str(tmp_path / "map.yaml")]
        datasets = ["@/a/labels.json", "@/b/labels.json", "--images", "@/a/photos", "--images", "@/b/photos"]
        assert build(world, tmp_path / "one", *datasets, *rest) == 0
        assert "of classes that the class map drops" in capsys.readouterr().out
        assert build(world, tmp_path / "two", *datasets, *rest, "--workers", "2") == 0
        assert tree(tmp_path / "one") == tree(tmp_path / "two")
        bank = open_bank(tmp_path / "one")
        assert set(bank.class_names) == {"cup", "animal"}
        assert [part["name"] for part in bank.meta.built_from["datasets"]] == [
            "labels.json 1",
            "labels.json 2",
            "cutouts",
        ]
        assert bank.meta.built_from["class_map"] == {"zebra": "animal", "car": None}
        numbers = bank.read(range(len(bank)), ["dataset_idx"])["dataset_idx"]
        assert np.bincount(numbers)[0] == np.bincount(numbers)[1] > np.bincount(numbers)[2] // 2
        swapped = ["@/b/labels.json", "@/a/labels.json", "--images", "@/b/photos", "--images", "@/a/photos"]
        assert build(world, tmp_path / "other", *swapped, *rest) == 0

    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            (["@/a/labels.json", "@/b/labels.json"], "labels.json: expected "),
            (["@/a/labels.json", "scenes", "--images", "@", "--images", "@"], "once for each of 1 annotation files"),
            (["@/a/labels.json", "@/none.json", "--images", "@/a/photos"], "none.json: expected a dataset, found nei"),
            (["@/a/labels.json", "--images", "@/a/photos", "--class-map", "@/none.yaml"], "expected a class map in"),
        ],
    )
    def test_bad_words(
        self, words: list[str], expected: str, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert build(world, tmp_path / "bank", *words) == 2
        assert expected in one_error(capsys)

    def test_unknown_names(self, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "map.json").write_text('{"cow": "car", "dog": null}')
        assert build(world, tmp_path / "bank", "--cutouts", "@/cutouts", "--class-map", str(tmp_path / "map.json")) == 2
        assert "classes of the datasets (cup, zebra), got cow, dog; correct" in capsys.readouterr().err


def augment(world: Path, out: Path, *words: str) -> tuple[int, Any]:
    """The exit code, and for every image its row and the number of its annotations."""
    given = [word.replace("@", str(world)) for word in words]
    code = main(["augment", *given, "--out", str(out), "--gallery", "0"])
    if code:
        return code, None
    tables = json.loads((out / "annotations.json").read_text())
    ids = [row["image_id"] for row in tables["annotations"]]
    return code, [(row, ids.count(row["id"])) for row in tables["images"]]


class TestBackgrounds:
    def test_of_a_bank(self, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """No dataset at all: every image is a room with an object of the bank's classes in it."""
        words = ["--backgrounds", "@/rooms", "--bank", "@/bank"]
        small = ["placement.scale_range=[0.5,0.8]"]
        code, found = augment(world, tmp_path / "out", *words, "--num", "9", *small)
        assert code == 0
        assert [num for _, num in found] == [1] * 9
        assert {row["segpaste"]["source_file_name"] for row, _ in found} == {f"{i}.png" for i in range(4)}
        tables = json.loads((tmp_path / "out" / "annotations.json").read_text())
        assert [row["name"] for row in tables["categories"]] == ["cup", "zebra"]
        again = [word.replace("@", str(world)) for word in words]
        assert main(["replay", str(tmp_path / "out"), *again, "--check", str(tmp_path / "out")]) == 0
        assert "9 of 9 identical" in capsys.readouterr().out

    def test_beside_a_dataset(self, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Objects come from the dataset's photos, and rooms get them too."""
        words = ["@/a/labels.json", "--images", "@/a/photos", "--backgrounds", "@/rooms", "--num", "18"]
        small = ["placement.scale_range=[0.3,0.5]", "placement.grouping=instance"]
        code, found = augment(world, tmp_path / "out", *words, *small)
        assert code == 0
        rooms = [num for row, num in found if row["segpaste"]["source_file_name"].startswith("rooms/")]
        assert len(rooms) == 8
        assert sum(num > 0 for num in rooms) >= 6
        tables = json.loads((tmp_path / "out" / "annotations.json").read_text())
        sources = {row["segpaste"]["source_annotation_id"] for row in tables["annotations"]}
        labels = json.loads((world / "a" / "labels.json").read_text())
        assert sources <= {row["id"] for row in labels["annotations"]}
        replay = [word.replace("@", str(world)) for word in ("--dataset", *words[:5])]
        assert main(["replay", str(tmp_path / "out"), *replay, "--check", str(tmp_path / "out")]) == 0
        assert main(["replay", str(tmp_path / "out"), *replay[:4], "--check", str(tmp_path / "out")]) == 2
        assert "expected records of labels.json (sha256 " in capsys.readouterr().err
        other = [*replay[:4], "--backgrounds", str(write_backgrounds(tmp_path / "rooms", 4, size=(35, 41)))]
        assert main(["replay", str(tmp_path / "out"), *other, "--check", str(tmp_path / "out")]) == 2
        assert "expected records of labels.json (sha256 " in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            (["--backgrounds", "@/rooms"], "expected a dataset, or --backgrounds and --bank, from which objects"),
            ([], "expected a dataset, or --backgrounds and --bank"),
            (["--bank", "@/bank"], "expected a dataset, or --backgrounds and --bank"),
            (["--bank", "@/bank", "--backgrounds", "@/none"], "none: expected a folder of images, found none"),
            (["--bank", "@/bank", "--backgrounds", "@/bank"], "bank: expected at least one image, got none"),
            (
                ["scenes", "--backgrounds", "@/rooms"],
                "--backgrounds: expected a dataset without cameras, got scenes with metric depth",
            ),
        ],
    )
    def test_bad_words(
        self, words: list[str], expected: str, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert augment(world, tmp_path / "out", *words, "--num", "2") == (2, None)
        assert expected in one_error(capsys)

    @pytest.mark.parametrize("advice", [["placement.cover_void=true"], None])
    def test_panoptic(
        self, advice: list[str] | None, tmp_path: Path, world: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """No class is background, so backgrounds are void; both ways that the error names work."""
        labels, photos, maps = map(str, write_panoptic(tmp_path))
        words = [labels, "--images", photos, "--panoptic-dir", maps, "--num", "6", "placement.scale_range=[0.5,0.8]"]
        rooms = ["--backgrounds", "@/rooms"]
        assert augment(world, tmp_path / "out", *words, *rooms)[0] == 2
        error = capsys.readouterr().err
        assert (
            "--backgrounds: expected placement.cover_void=true, got false: no class of the semantic maps of " in error
        )
        assert "give placement.cover_void=true, or leave --backgrounds out" in error
        code, found = augment(world, tmp_path / "out", *words, *([] if advice is None else [*rooms, *advice]))
        assert code == 0
        pasted = [num for row, num in found if row["segpaste"]["source_file_name"].startswith("rooms/")]
        assert any(pasted) == (advice is not None)
        panoptic = json.loads((tmp_path / "out" / "panoptic.json").read_text())
        of_rooms = {row["id"] for row, _ in found if row["segpaste"]["source_file_name"].startswith("rooms/")}
        rows = [row for row in panoptic["annotations"] if row["image_id"] in of_rooms]
        assert sum(len(row["segments_info"]) for row in rows) == sum(pasted)
        dataset = [word.replace("@", str(world)) for word in words[:5]]
        again = [] if advice is None else [word.replace("@", str(world)) for word in rooms]
        assert (
            main(["replay", str(tmp_path / "out"), "--dataset", *dataset, *again, "--check", str(tmp_path / "out")])
            == 0
        )
