"""Behaviour shared by all commands: help, version, settings, signals, the taxonomy of a config; and `segpaste demo`."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import shlex
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from cli_world import SIZES, write_instances
from PIL import Image

import segpaste
from on_disk import tree
from segpaste.augmentation import BatchCopyPasteConfig, PlacementConfig
from segpaste.augmentation.config import values
from segpaste.augmentation.config.base import known_fields
from segpaste.augmentation.config.placement import stored_key
from segpaste.augmenting import inputs, settings
from segpaste.augmenting.draws import default_balance
from segpaste.augmenting.options import AugmentError
from segpaste.cli import _arguments, _errors, main
from segpaste.datasets import SceneDataset
from segpaste.presets import Preset
from segpaste.workspace import naming
from yolo_files import write_yolo

SOURCE = Path(segpaste.__file__).parents[1]
BANK_COMMANDS = ("build", "info", "verify", "gallery", "embed", "dedupe")


def python(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, env=environment, timeout=120)


class TestHelp:
    @pytest.mark.parametrize(
        "command",
        ["", "demo", "augment", "check", "convert", "train", "score", "replay", "stats", "doctor", "preview", "tune"],
    )
    def test_help_has_an_example(self, command: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main([*command.split(), "--help"]) == 0
        assert re.search(rf"examples?:\n +segpaste {command}", capsys.readouterr().out)

    def test_the_examples_parse(self, capsys: pytest.CaptureFixture[str]) -> None:
        from segpaste.cli import parse

        commands = (
            "demo",
            "augment",
            "preview",
            "tune",
            "check",
            "train",
            "score",
            "replay",
            "stats",
            "bank",
            "doctor",
        )
        for command in (*commands, "doctor", *(f"bank {name}" for name in BANK_COMMANDS)):
            main([*command.split(), "--help"])
            lines = re.sub(r"\\\n +", "", capsys.readouterr().out)  # a backslash goes on in the next line
            examples = re.findall(r"^ +segpaste (.+)$", lines, re.MULTILINE)
            assert examples
            for words in examples:
                assert parse(shlex.split(words)).command == command.split()[0]

    @pytest.mark.parametrize("command", ["augment", "preview", "stats"])
    def test_help_has_the_default_balance(self, command: str, capsys: pytest.CaptureFixture[str]) -> None:
        """Without a bank, `augment` and `preview` draw objects as `default_balance` says."""
        assert main([command, "--help"]) == 0
        text = " ".join(capsys.readouterr().out.split())
        without = " with --bank; without it natural (objects are equally likely), or tempered if"
        assert ("default: repeat_factor" + without in text) == (command != "stats")
        assert "default: repeat_factor --threshold" in text or command != "stats"
        assert default_balance(BatchCopyPasteConfig()) == {"mode": "natural"}
        config = BatchCopyPasteConfig(placement=PlacementConfig(class_temperature=0.5))
        assert default_balance(config)["mode"] == "tempered"

    def test_help_does_not_wait_for_torch(self) -> None:
        statement = (
            "import sys\nfrom segpaste.cli import main\n"
            "assert main(['--help']) == main(['augment', '--help']) == main(['demo', '--help']) == 0\n"
            "assert main(['replay', '--help']) == main(['bank', 'build', '--help']) == main(['stats', '--help']) == 0\n"
            "assert main(['train', '--help']) == main(['score', '--help']) == 0\n"
            "assert main(['check', '--help']) == main(['doctor', '--help']) == main(['preview', '--help']) == 0\n"
            "assert main(['tune', '--help']) == 0\n"
            "assert main(['augment', 'x.json', '--out', '/', '--num', '1']) == main(['bank', 'build', 'x.json']) == 2\n"
            "print(sorted({'torch', 'numpy', 'pydantic', 'lmdb', 'PIL'} & set(sys.modules)))"
        )
        assert python("-c", statement).stdout.splitlines()[-1] == "[]"

    def test_version(self) -> None:
        run = python("-m", "segpaste", "--version")
        assert (run.returncode, run.stdout, run.stderr) == (0, f"segpaste {segpaste.__version__}\n", "")

    def test_a_reader_that_has_seen_enough(self) -> None:
        command = f"{sys.executable} -m segpaste augment --help | true; echo ${{PIPESTATUS[0]}}"
        run = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(SOURCE)}
        )
        assert "Traceback" not in run.stderr


class TestSettings:
    def test_every_known_key_can_be_set(self) -> None:
        keys = list(dict(known_fields(BatchCopyPasteConfig)))
        assert {"tile_size", "placement.scale_range", "source.mask_from", "panoptic.taxonomy.classes"} <= set(keys)
        assert set(map(stored_key, keys)) == set(values.flat(full_config().model_dump())) - FREE | TABLES

    def test_values_are_yaml(self) -> None:
        words = {"placement.scale_range": "[0.5,1.5]", "source.mask_from": "boxes", "antialias": "false"}
        config = settings.load_config(None, words)
        assert config.placement.scale_range == (0.5, 1.5)
        assert config.source.mask_from == "boxes"
        assert config.antialias is False

    def test_every_image_unless_something_else_is_asked_for(self, tmp_path: Path) -> None:
        path = tmp_path / "paste.yaml"
        path.write_text("min_area_px: 7")

        def share(*given: Any) -> float:
            return settings.load_config(*given, every_image=True).placement.paste_prob

        assert share(None, {"placement.layers": "2"}) == 1
        assert share(None, {"placement.paste_prob": "0.25"}) == 0.25
        assert share(str(path), {}) == 1
        assert settings.load_config(str(path), {}).placement.paste_prob == PlacementConfig().paste_prob == 0.5
        assert share(None, {}, None, "ultralytics_mixup") == 0.5
        assert share(None, {}, None, "mmdet") == 1
        path.write_text("placement: {paste_prob: 0.75}")
        assert share(str(path), {}, None, "mmdet") == 0.75
        mine = Preset(name="mine", summary="", config=BatchCopyPasteConfig(min_area_px=7))
        mine.save(tmp_path / "mine.yaml")
        assert share(None, {}, None, str(tmp_path / "mine.yaml")) == 0.5

    def test_the_dataset_says_what_is_a_thing(self) -> None:
        schema = inputs.open_scenes(0, 32).schema
        config = settings.load_config(None, {"panoptic.stuff_policy": "ignore"}, schema)
        assert config.panoptic is not None
        assert config.panoptic.stuff_policy == "ignore"
        assert schema is not None
        assert dict(config.panoptic.taxonomy.classes) == dict(schema.classes)

    def test_words(self) -> None:
        assert _arguments.overrides(["a.b=c=d", "e="]) == {"a.b": "c=d", "e": ""}


TABLES = {"panoptic.taxonomy.classes", "panoptic.contact_priority", "placement.class_sizes", "placement.region"}
FREE = {"panoptic.taxonomy.classes.0", "panoptic.taxonomy.classes.1"}


def full_config() -> Any:
    words = {"panoptic.taxonomy": "{classes: {0: thing, 1: stuff}}", "placement.size_range": "{low: 1, high: 2}"}
    words |= {"placement.grouping": "instance"}
    return settings.load_config(None, words)


class TestSignals:
    def test_sigterm_is_an_interrupt_and_only_while_a_command_runs(self, capsys: pytest.CaptureFixture[str]) -> None:
        before = signal.getsignal(signal.SIGTERM)
        with _errors.reported(debug=False) as outcome:
            assert signal.getsignal(signal.SIGTERM) is not before
            os.kill(os.getpid(), signal.SIGTERM)
        assert outcome.exit_code == 130
        assert capsys.readouterr().err == "segpaste: interrupted\n"
        assert signal.getsignal(signal.SIGTERM) is before

    def test_a_sigterm_that_is_swallowed_is_met_later(self, capsys: pytest.CaptureFixture[str]) -> None:
        for is_sent in (True, False):
            with _errors.reported(debug=False) as outcome:
                if is_sent:
                    with contextlib.suppress(KeyboardInterrupt):
                        os.kill(os.getpid(), signal.SIGTERM)
                _errors.expect_no_sigterm()
            assert outcome.exit_code == (130 if is_sent else 0)
        assert capsys.readouterr().err == "segpaste: interrupted\n"

    @pytest.mark.parametrize(("code", "exit_code", "said"), [(None, 0, ""), (3, 3, ""), ("why", 1, "why")])
    def test_exits_of_other_code(self, code: Any, exit_code: int, said: str, capsys: Any) -> None:
        with _errors.reported(debug=False) as outcome:
            raise SystemExit(code)
        assert outcome.exit_code == exit_code
        assert capsys.readouterr().err == (f"segpaste: error: {said}\n" if said else "")

    def test_errors_of_libraries_keep_their_words(self, capsys: pytest.CaptureFixture[str]) -> None:
        for error in (OSError("broken data stream"), OSError(errno.ENOSPC, "No space left")):
            with _errors.reported(debug=False), naming(Path("out")):
                raise error
        first, second = capsys.readouterr().err.splitlines()
        assert first == "segpaste: error: broken data stream"
        assert second.startswith("segpaste: error: out: No space left;")

    def test_warnings_are_lines(self, capsys: pytest.CaptureFixture[str]) -> None:
        show = warnings.showwarning
        with _errors.reported(debug=False) as outcome:
            warnings.simplefilter("always")
            warnings.warn("two\nlines", stacklevel=1)
            warnings.warn("not for users", DeprecationWarning, stacklevel=1)
        assert outcome.exit_code == 0
        assert capsys.readouterr().err == "segpaste: warning: two lines\n"
        assert warnings.showwarning is show


class TestDemo:
    @pytest.fixture(scope="class")
    @classmethod
    def out(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        out = tmp_path_factory.mktemp("demo") / "out"
        assert main(["demo", "--out", str(out), "--num", "3", "--size", "48"]) == 0
        return out

    def test_files(self, out: Path) -> None:
        assert {path.name for path in out.iterdir()} == {"gallery.png", "modalities.png", "report.html"}
        for name in ("gallery.png", "modalities.png"):
            with Image.open(out / name) as picture:
                assert picture.convert("RGB").getcolors(1000) is None  # more than a thousand colours

    def test_the_report_stands_alone(self, out: Path) -> None:
        page = (out / "report.html").read_text()
        assert page.count('class="card"') == 3
        assert not re.search(r"""(src|href)=["'](?!data:)""", page)

    def test_again_in_the_same_place_with_the_same_bytes(self, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
        before = tree(out)
        assert main(["demo", "--out", str(out), "--num", "3", "--size", "48"]) == 0
        assert tree(out) == before
        captured = capsys.readouterr()
        assert captured.err == ""
        assert re.search(r"pasted +\d+ of \d+ intended, into \d of 3 images", captured.out)
        assert re.search(r"[\d.]+ images/s, \d+ made in this run", captured.out)
        assert str(out / "report.html") in captured.out

    def test_other_seed_other_pictures(self, out: Path, tmp_path: Path) -> None:
        assert main(["demo", "--out", str(tmp_path), "--num", "3", "--size", "48", "--seed", "7"]) == 0
        assert tree(tmp_path)["gallery.png"] != tree(out)["gallery.png"]


class TestDemoOnImagesOfTheUser:
    @pytest.mark.parametrize("order", [("images", "annotations"), ("annotations", "images")])
    def test_images_and_annotations(
        self, order: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        annotations, images = write_instances(tmp_path)
        paths = {"images": str(images), "annotations": str(annotations)}
        assert main(["demo", "--out", str(tmp_path / "out"), "--on", *(paths[name] for name in order)]) == 0
        printed = capsys.readouterr().out
        assert re.search(rf"pasted +\d+ of \d+ intended, into \d+ of {len(SIZES)} images", printed)
        (command,) = re.findall(r"^next +segpaste (.+)$", printed, re.MULTILINE)
        assert command.split()[:4] == ["augment", str(annotations), "--images", str(images)]
        words = command.split()
        words[words.index("augmented")] = str(tmp_path / "augmented")
        words[words.index("1000")] = "2"
        assert main(words) == 0  # the next command runs

    def test_images_as_in_other_commands(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        annotations, images = (str(path) for path in write_instances(tmp_path))
        words = ["demo", "--num", "2", "--out", str(tmp_path / "out")]
        assert main([*words, "--on", annotations, "--images", images]) == 0
        assert f"next     segpaste augment {annotations} --images {images} --out" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ([], "--images: expected --on IMAGES ANNOTATIONS, got --images photos; add --on"),
            (
                ["--on", "a", "b"],
                "--images: expected one path after --on with this option, the annotation file, got a a",
            ),
        ],
    )
    def test_images_in_the_wrong_place(
        self, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["demo", "--images", "photos", *words]) == 2
        assert message in capsys.readouterr().err

    def test_a_dataset_in_a_folder(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        dataset = write_yolo(tmp_path / "set")
        assert main(["demo", "--num", "2", "--out", str(tmp_path / "out"), "--on", str(dataset)]) == 0
        assert f"next     segpaste augment {dataset} --out augmented" in capsys.readouterr().out

    def test_nothing_to_paste(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        annotations, images = write_instances(tmp_path)
        words = [
            "demo",
            "--out",
            str(tmp_path / "out"),
            "placement.paste_prob=0",
            "--on",
            str(images),
            str(annotations),
        ]
        assert main(words) == 1
        assert "nothing was pasted into any image" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["a", "b", "c"], "expected IMAGES ANNOTATIONS, or one dataset, got 3 paths"),
            (["a", "placement.layers=2"], "expected KEY=VALUE before --on, got placement.layers=2 after it"),
            (["nowhere"], "nowhere: expected a dataset, found neither file nor folder"),
        ],
    )
    def test_bad_paths(
        self, words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        out = tmp_path / "out"
        assert main(["demo", "--out", str(out), "--on", *words]) == 2
        assert message in capsys.readouterr().err
        assert not out.exists()

    def test_size_is_of_scenes(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["demo", "--size", "64", "--on", "set"]) == 2
        assert "--size: expected no --on, because" in capsys.readouterr().err


class TestTaxonomyOfTheConfig:
    def test_a_preset_lies_under_all_that_is_given(self, tmp_path: Path) -> None:
        path, schema = tmp_path / "config.yaml", SceneDataset(1).schema
        path.write_text("placement: {layers: 3, scale_range: [0.5, 1.0]}")
        words = {"placement.scale_range": "[0.5, 0.75]"}
        config = settings.load_config(str(path), words, schema, "panoptic_lsj")
        expected = segpaste.get_preset("panoptic_lsj").config_for(
            schema, placement={"layers": 3, "scale_range": (0.5, 0.75)}
        )
        assert config == expected

    @pytest.mark.parametrize("suffix", ["yaml", "json"])
    def test_a_preset_in_a_file(self, suffix: str, tmp_path: Path) -> None:
        path = tmp_path / f"mine.{suffix}"
        mine = Preset(name="mine", summary="", config=BatchCopyPasteConfig(min_area_px=7))
        mine.save(path)
        assert settings.load_config(None, {}, None, str(path)) == mine.config
        path.write_text("{}")
        with pytest.raises(AugmentError, match=r"preset: .* expected a preset, .* got none; .* config$"):
            settings.load_config(None, {}, None, str(path))
        path.write_text('{"name": "With Space", "config": {}, "summary": ""}')
        with pytest.raises(
            AugmentError,
            match=rf"^preset: {re.escape(str(path))}: name: string should match",
        ):
            settings.load_config(None, {}, None, str(path))

    def test_an_unknown_preset(self) -> None:
        with pytest.raises(AugmentError, match=r"^preset: expected one of .*, got 'vit'; the nearest is 'vit_patch'"):
            settings.load_config(None, {}, None, "vit")

    def test_goes_before_the_datasets(self, tmp_path: Path) -> None:
        path = tmp_path / "paste.yaml"
        path.write_text("panoptic: {taxonomy: {classes: {0: stuff, 1: thing, 2: thing}}}\n")
        schema = SceneDataset(1).schema
        config = settings.load_config(str(path), {}, schema)
        assert config.panoptic is not None
        assert dict(config.panoptic.taxonomy.classes) == {0: "stuff", 1: "thing", 2: "thing"}
        config = settings.load_config(None, {"panoptic.tau_stuff_px": "7"}, schema)
        assert config.panoptic is not None
        assert config.panoptic.tau_stuff_px == 7
        assert dict(config.panoptic.taxonomy.classes) == dict(schema.classes)

    def test_one_key_of_it_goes_over_the_datasets(self) -> None:
        schema = SceneDataset(1).schema
        config = settings.load_config(None, {"panoptic.taxonomy.max_instances_per_image": "300"}, schema)
        assert config.panoptic is not None
        assert config.panoptic.taxonomy.max_instances_per_image == 300
        assert dict(config.panoptic.taxonomy.classes) == dict(schema.classes)

    def test_an_empty_file_is_the_defaults(self, tmp_path: Path) -> None:
        path = tmp_path / "paste.yaml"
        path.write_text("# nothing yet\n")
        assert settings.load_config(str(path), {}) == BatchCopyPasteConfig()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True
