"""`segpaste bank`: what is built is what the dataset holds, and bad input is one clear line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any, get_args

import numpy as np
import pytest
from cli_world import CROWD_ID, occupy, one_error, read_pixels, write_instances, write_panoptic

from fresh_process import run_script
from on_disk import tree
from segpaste.bank import BankError, open_bank
from segpaste.bank.building import build_bank
from segpaste.bank.format import BANKS, WRITERS, Format
from segpaste.cli import main, parse
from segpaste.cli._arguments import BANK_FORMATS
from segpaste.viz import write_bank_gallery

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    write_instances(folder)
    assert main(words(folder, folder / "bank")) == 0
    return folder


def words(folder: Path, out: Path, *more: str) -> list[str]:
    start = ["bank", "build", str(folder / "labels.json"), "--images", str(folder / "photos"), "--out", str(out)]
    return [*start, "--crop-size", "24x16", "--min-area", "1", *more]


class TestHelp:
    @pytest.mark.parametrize("command", ["", "build", "info", "verify", "gallery"])
    def test_has_examples_that_parse(self, command: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["bank", *command.split(), "--help"]) == 0
        examples = re.findall(r"^ +segpaste (bank .+)$", capsys.readouterr().out, re.MULTILINE)
        assert examples
        for example in examples:
            assert parse(example.split()).command == "bank"


class TestBuild:
    def test_what_the_dataset_holds(self, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
        tables = json.loads((world / "labels.json").read_text())
        rows = sorted((r["image_id"], r["id"]) for r in tables["annotations"] if r["id"] != CROWD_ID)
        bank = open_bank(world / "bank")
        assert bank.crop_size == (24, 16)
        assert bank.class_names == ("car", "cup", "zebra")
        found = [(bank[i].image_id, bank[i].annotation_id) for i in range(len(bank))]
        assert found == rows
        labels = {row["id"]: (3, 7, 90).index(row["category_id"]) for row in tables["annotations"]}
        assert bank.crop_class_ids().tolist() == [labels[annotation_id] for _, annotation_id in rows]
        assert bank.meta.built_from["dataset"] == "labels.json"

    def test_what_is_printed(self, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(words(world, tmp_path / "bank", "--format", "webdataset", "--workers", "2")) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        lines = captured.out.splitlines()
        assert lines[:2] == [
            f"bank     {tmp_path / 'bank'}",
            f"kept     {len(open_bank(world / 'bank'))} crops from 5 images",
        ]
        assert any(re.fullmatch(r"  crowd or ignored regions +1", line) for line in lines)

    def test_photos_that_cannot_be_read(self, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """One is missing, which is found before any work, and one ends early, which its head does not tell."""
        copytree(world, tmp_path / "world")
        tables = json.loads((world / "labels.json").read_text())
        ids = [row["id"] for row in tables["images"] if any(r["image_id"] == row["id"] for r in tables["annotations"])]
        missing, cut = (next(r["file_name"] for r in tables["images"] if r["id"] == i) for i in (min(ids), max(ids)))
        (tmp_path / "world/photos" / missing).unlink()
        path = tmp_path / "world/photos" / cut
        path.write_bytes(path.read_bytes()[:-60])
        assert main(words(tmp_path / "world", tmp_path / "bank")) == 2
        error = capsys.readouterr().err
        assert f"{missing}: expected an image, found no such file" in error
        assert "--skip-unreadable leaves them out" in error
        assert not any(tmp_path.glob("bank*"))
        assert main(words(tmp_path / "world", tmp_path / "bank", "--skip-unreadable")) == 0
        assert re.search(r"^  unreadable images +2$", capsys.readouterr().out, re.MULTILINE)
        with open_bank(tmp_path / "bank") as bank, open_bank(world / "bank") as whole:
            kept = [row for row in (whole[i] for i in range(len(whole))) if row.image_id not in (min(ids), max(ids))]
            assert kept
            assert [bank[i].annotation_id for i in range(len(bank))] == [row.annotation_id for row in kept]

    def test_the_script_is_the_same(self, world: Path, tmp_path: Path) -> None:
        run = run_script(ROOT / "scripts" / "build_instance_bank.py", *words(world, tmp_path / "bank")[2:])
        assert (run.returncode, run.stderr) == (0, "")
        assert tree(tmp_path / "bank") == tree(world / "bank")

    def test_panoptic(self, tmp_path: Path) -> None:
        labels, images_dir, maps_dir = write_panoptic(tmp_path)
        start = ["bank", "build", str(labels), "--images", str(images_dir), "--panoptic-dir", str(maps_dir)]
        assert main([*start, "--out", str(tmp_path / "bank"), "--min-area", "1", "--format", "lmdb"]) == 0
        bank = open_bank(tmp_path / "bank")
        assert bank.class_names == ("car", "zebra", "sky", "grass")
        assert bank.class_frequencies == (3, 3, 0, 0)

    def test_scenes(self, tmp_path: Path) -> None:
        assert main(["bank", "build", "scenes", "--num", "2", "--size", "48", "--out", str(tmp_path / "bank")]) == 0
        assert {"depth", "normals", "intrinsics"} < set(open_bank(tmp_path / "bank").layout.groups)


class TestInfo:
    def test_json(self, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["bank", "info", str(world / "bank"), "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        bank = open_bank(world / "bank")
        sizes = {path.name: path.stat().st_size for path in (world / "bank").iterdir()}
        assert facts["files"] == sizes
        assert facts["num_bytes"] == sum(sizes.values())
        assert facts["version"] == bank.version
        assert [row["crops"] for row in facts["classes"]] == list(bank.class_frequencies)
        assert facts["columns"][:3] == ["image", "alpha", "class_id"]

    def test_text(self, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["bank", "info", str(world / "bank")]) == 0
        out = capsys.readouterr().out
        assert "format   memmap, version 1" in out
        assert re.search(r"^ +2 zebra +\d+ +\d+\.\d\d%$", out, re.MULTILINE)


class TestVerify:
    def test_sound(self, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["bank", "verify", str(world / "bank")]) == 0
        assert re.search(r"^sound .* 4 files with [\d,]+ bytes .*SHA-256", capsys.readouterr().out)

    def test_a_flipped_byte(self, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(words(world, tmp_path / "bank")) == 0
        path = tmp_path / "bank" / "images.dat"
        content = bytearray(path.read_bytes())
        content[100] ^= 1
        path.write_bytes(content)
        capsys.readouterr()
        assert main(["bank", "verify", str(tmp_path / "bank")]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith(f"segpaste: error: {path}: expected the bytes that meta.json says")
        assert captured.err.count("\n") == 1


class TestGallery:
    def test_png(self, world: Path, tmp_path: Path) -> None:
        """The first picture of the page is the first car on its checkerboard."""
        assert main(["bank", "gallery", str(world / "bank"), "--out", str(tmp_path / "g.png"), "--per-class", "2"]) == 0
        bank = open_bank(world / "bank")
        crop = bank[int(np.flatnonzero(bank.crop_class_ids() == 0)[0])]
        left, top, right, bottom = crop.content_box.tolist()
        picture = crop.image[:, top:bottom, left:right].transpose(1, 2, 0)
        alpha = crop.alpha[0, top:bottom, left:right]
        page = read_pixels(tmp_path / "g.png")
        h, w = alpha.shape
        views = np.lib.stride_tricks.sliding_window_view(page, (h, w, 3))[:, :, 0]
        fits = (views[:, :, alpha] == picture[alpha]).all((2, 3))
        assert fits.sum() == 1
        shown = views[fits][0]
        assert set(np.unique(shown[~alpha])) <= {250, 215}

    def test_from_python(self, world: Path, tmp_path: Path) -> None:
        """The file is the command's, and a file of another ending is kept."""
        assert main(["bank", "gallery", str(world / "bank"), "--out", str(tmp_path / "g.html")]) == 0
        with open_bank(world / "bank") as bank:
            assert write_bank_gallery(bank, tmp_path / "again") == tmp_path / "again" / "gallery.html"
            (tmp_path / "notes.txt").write_text("keep")
            with pytest.raises(BankError, match=r"notes\.txt: expected a folder, or a name"):
                write_bank_gallery(bank, tmp_path / "notes.txt")
        assert (tmp_path / "again" / "gallery.html").read_bytes() == (tmp_path / "g.html").read_bytes()

    @pytest.mark.parametrize("name", ["g.html", "folder"])
    def test_html(self, world: Path, tmp_path: Path, name: str) -> None:
        assert main(["bank", "gallery", str(world / "bank"), "--out", str(tmp_path / name)]) == 0
        page = (tmp_path / ("g.html" if name == "g.html" else "folder/gallery.html")).read_text()
        assert page.count("<img ") == 3
        assert re.findall(r'(?:src|href)="(?!data:)', page) == []
        for class_name in ("car", "cup", "zebra"):
            assert f"<h2>{class_name} <span>" in page


def flip_photo(folder: Path) -> None:
    (folder / "photos" / "p1.png").write_bytes(b"none")


def nothing(folder: Path) -> None:
    pass


BUILD = ["build", "labels.json", "--images", "photos", "--out", "out"]
BAD: dict[str, tuple[Callable[[Path], Any], list[str], str]] = {
    "no command": (nothing, [], "expected COMMAND, got none; see segpaste bank --help"),
    "no output": (nothing, BUILD[:-2], "expected --out, got none; see segpaste bank build --help"),
    "no photos": (nothing, ["build", "labels.json", "--out", "out"], "expected the folder of the images"),
    "broken photo": (flip_photo, BUILD, "p1.png: expected an image"),
    "occupied": (occupy, BUILD, "out: expected a new or an empty folder"),
    "crop size": (nothing, [*BUILD, "--crop-size", "0"], "--crop-size: expected pixels such as 256, or 256x192"),
    "margin": (nothing, [*BUILD, "--margin", "-1"], "--margin: expected a number from 0 to 10, got '-1'"),
    "format": (nothing, [*BUILD, "--format", "zip"], "webdataset, got 'zip'"),
    "a URL": (nothing, [*BUILD[:-1], "s3://b/o"], "s3://b/o: expected format webdataset for a URL, got 'memmap'"),
    "a work folder": (
        nothing,
        [*BUILD[:-1], "w/o", "--work-dir", "w"],
        "expected a work folder that is neither inside nor a parent of w/o",
    ),
    "a work URL": (
        nothing,
        [*BUILD, "--work-dir", "s3://b/w"],
        "s3://b/w: expected a work folder on a disk, got a URL",
    ),
    "scenes' option": (nothing, [*BUILD, "--num", "3"], "--num: expected this option with scenes only"),
    "a setting": (nothing, [*BUILD, "a=b"], "expected options only, got a=..."),
    "no bank": (nothing, ["info", "nowhere"], "nowhere: expected a bank, a folder with meta.json, found none"),
    "nothing to verify": (nothing, ["verify", "photos"], "photos: expected a bank"),
    "nothing to draw": (nothing, ["gallery", "photos", "--out", "out"], "photos: expected a bank"),
    "nothing drawn": (nothing, ["gallery", "x", "--out", "o", "--per-class", "0"], "--per-class: expected an integer"),
}


@pytest.mark.parametrize("case", BAD)
def test_one_clear_line_and_nothing_left(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare, given, message = BAD[case]
    write_instances(tmp_path)
    prepare(tmp_path)
    before = tree(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["bank", *given]) == 2
    assert message in one_error(capsys)
    assert tree(tmp_path) == before


def test_not_gone_on_with_other_photos(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    copytree(world / "photos", tmp_path / "others")
    with monkeypatch.context() as patch:
        patch.setattr(build_bank, "_write", interrupt)
        assert main(words(world, tmp_path / "bank")) == 130
    capsys.readouterr()
    assert main(words(world, tmp_path / "bank", "--images", str(tmp_path / "others"))) == 2
    assert "holds an unfinished run with other arguments: --images " in capsys.readouterr().err
    monkeypatch.chdir(world)
    assert main(words(world, tmp_path / "bank", "--images", "photos")) == 0
    assert tree(tmp_path / "bank") == tree(world / "bank")


def test_interrupted_and_gone_on(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(build_bank, "_write", interrupt)
        assert main(words(world, tmp_path / "bank")) == 130
    note = "bank.parts keeps what is finished; the same call resumes from there\n"
    assert capsys.readouterr().err == f"segpaste: interrupted: {tmp_path}/{note}"
    assert main(words(world, tmp_path / "bank")) == 0
    assert tree(tmp_path / "bank") == tree(world / "bank")


def test_every_format_can_be_asked_for() -> None:
    assert (*WRITERS,) == (*BANKS,) == get_args(Format) == BANK_FORMATS
