"""One clear line for bad input, whatever the command, and its exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_world import occupy, one_error, write_instances, write_panoptic
from PIL import Image

from on_disk import tree
from segpaste.augmenting import inputs, pasting
from segpaste.augmenting.options import AugmentError, InputOptions
from segpaste.cli import main


def break_json(folder: Path) -> None:
    (folder / "labels.json").write_text('{"images": [')


def drop(key: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        tables = json.loads((folder / "labels.json").read_text())
        (folder / "labels.json").write_text(json.dumps({k: v for k, v in tables.items() if k != key}))

    return change


def truncate_photo(folder: Path) -> None:
    path = folder / "photos" / "p1.png"
    path.write_bytes(path.read_bytes()[:200])


def shrink_photo(folder: Path) -> None:
    Image.new("RGB", (3, 3)).save(folder / "photos" / "p1.png")


def write_yaml(text: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / "paste.yaml").write_text(text)

    return change


def nothing(folder: Path) -> None:
    pass


BAD: dict[str, tuple[Callable[[Path], Any], list[str], str]] = {
    "missing image": (
        lambda f: (f / "photos" / "p3.png").unlink(),
        [],
        "p3.png: expected an image, found no such file",
    ),
    "broken image": (truncate_photo, [], "p1.png: expected an image"),
    "image of another size": (shrink_photo, [], "p1.png: expected 41 x 17 pixels"),
    "broken JSON": (break_json, [], "labels.json: expected JSON"),
    "missing JSON": (lambda f: (f / "labels.json").unlink(), [], "labels.json: expected a dataset, found neither"),
    "no categories": (drop("categories"), [], "expected a list under the key 'categories'"),
    "no annotations": (drop("annotations"), [], "expected a list under the key 'annotations'"),
    "no images": (drop("images"), [], "expected a list under the key 'images'"),
    "missing folder": (nothing, ["--images", "nowhere"], "nowhere: expected a folder of images"),
    "folder without --images": (nothing, ["--images", ""], "expected the folder of the images"),
    "instances with --panoptic-dir": (nothing, ["--panoptic-dir", "photos"], "expected panoptic segments"),
    "no output wanted": (nothing, ["--num", "0"], "--num: expected an integer of at least 1, got '0'"),
    "half an image wanted": (nothing, ["--num", "1.5"], "--num: expected an integer of at least 1, got '1.5'"),
    "negative seed": (nothing, ["--seed", "-1"], "--seed: expected an integer from 0 to 18446744073709551615"),
    "size that is none": (
        nothing,
        ["--size", "64x"],
        "--size: expected WxH or PX, each an integer from 32",
    ),
    "unknown format": (nothing, ["--format", "gif"], "--format: expected one of same, png, jpg, got 'gif'"),
    "unknown option": (nothing, ["--imges", "x"], "got '--imges'"),
    "abbreviated option": (nothing, ["--gall", "2"], "got '--gall'"),
    "stray word": (nothing, ["stray"], "got 'stray'"),
    "unknown key": (
        nothing,
        ["placement.scale_rage=[1,2]"],
        "got 'placement.scale_rage'; the nearest is 'placement.scale_range'",
    ),
    "longer key": (
        nothing,
        ["placement.paste_probability=1"],
        "got 'placement.paste_probability'; the nearest is 'placement.paste_prob'",
    ),
    "bad value": (nothing, ["placement.scale_range=[2,1]"], "placement.scale_range: expected 1/64 <= low <= high"),
    "value of another type": (nothing, ["min_area_px=many"], "min_area_px: expected a whole number, got 'many'"),
    "unclosed value": (nothing, ["placement.scale_range=[2,1"], "placement.scale_range: expected a value such as"),
    "key twice": (nothing, ["min_area_px=1", "min_area_px=2"], "expected min_area_px=... once"),
    "missing config": (nothing, ["--config", "none.yaml"], "none.yaml: No such file"),
    "config that does not parse": (write_yaml("a: [1"), ["--config", "paste.yaml"], "paste.yaml: expected YAML"),
    "config that is a list": (write_yaml("- 1"), ["--config", "paste.yaml"], "expected keys and values, got a list"),
    "unknown key in config": (
        write_yaml("sourc: 1"),
        ["--config", "paste.yaml"],
        "got 'sourc'; the nearest is 'source",
    ),
    "depth of photos": (
        nothing,
        ["emit_depth=true"],
        "emit_depth=true: expected depth in labels.json, got image, instance",
    ),
    "no masks wanted": (nothing, ["emit_instance=false"], "emit_instance: expected masks in the output"),
    "occupied place": (occupy, [], "expected --out to be new or an empty folder"),
    "file in place": (lambda f: (f / "out").write_text("mine"), [], "expected --out to be new or an empty folder"),
    "foreign folder in the way": (
        lambda f: ((f / "out.partial").mkdir(), (f / "out.partial" / "mine.txt").write_text("mine")),
        [],
        "out.partial: expected no folder, or one of an unfinished run, found mine.txt",
    ),
}


class TestBadInput:
    @pytest.mark.parametrize("case", BAD)
    def test_one_clear_line_and_nothing_left(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], case: str
    ) -> None:
        prepare, words, message = BAD[case]
        write_instances(tmp_path)
        prepare(tmp_path)
        before = tree(tmp_path)
        monkeypatch.chdir(tmp_path)
        start = ["augment", "labels.json", "--out", "out", "--num", "9"]
        given = words if "--images" in words else ["--images", "photos", *words]
        given = [word for word in given if given != ["--images", ""]]
        assert main([*start, *given]) == 2
        assert message in one_error(capsys)
        assert tree(tmp_path) == before
        assert not (tmp_path / "out.partial").exists() or "foreign" in case

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ([], "expected COMMAND, got none"),
            (["augmnt"], "expected a command, got 'augmnt'; the nearest is 'augment'"),
            (["augment"], "expected --out, --num, got none"),
            (["demo", "stray"], "expected a known option, or KEY=VALUE for the configuration, got 'stray'"),
            (["demo", "--out", "o", "layers=2"], "the nearest is 'placement.layers'"),
            (["augment", "scenes", "--images", "x", "--out", "o", "--num", "1"], "scenes: expected no --images"),
        ],
    )
    def test_command_line(self, words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(words) == 2
        assert message in one_error(capsys)

    def test_panoptic_without_its_folder(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        labels, images_dir, _ = write_panoptic(tmp_path)
        assert (
            main(["augment", str(labels), "--images", str(images_dir), "--out", str(tmp_path / "o"), "--num", "1"]) == 2
        )
        assert "give it (panoptic_dir=, --panoptic-dir)" in capsys.readouterr().err

    def test_empty_dataset(self, tmp_path: Path) -> None:
        labels, images_dir = write_instances(tmp_path)
        labels.write_text('{"images": [], "annotations": [], "categories": []}')
        with pytest.raises(AugmentError, match="expected at least one image"):
            inputs.open_dataset(InputOptions(dataset=labels, images_dir=images_dir), 0, 64)

    def test_debug_shows_where(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        words = ["augment", str(tmp_path / "no.json"), "--images", str(tmp_path), "--out", str(tmp_path / "o"), "--num"]
        assert main([*words, "1", "--debug"]) == 2
        assert "Traceback" in capsys.readouterr().err
        assert main([*words, "1"]) == 2
        assert "Traceback" not in capsys.readouterr().err

    def test_a_defect_is_not_dressed_up_as_bad_input(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(pasting.Paster, "image", lambda self, position: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            main(["demo", "--out", str(tmp_path / "out")])

    @pytest.mark.parametrize(
        "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried")]
    )
    def test_too_little_memory(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], error: Exception
    ) -> None:
        def fail(*_: Any) -> None:
            raise error

        monkeypatch.setattr(pasting.Paster, "image", fail)
        assert main(["demo", "--out", str(tmp_path / "out")]) == 2
        assert "expected enough memory for a batch, got too little" in capsys.readouterr().err
