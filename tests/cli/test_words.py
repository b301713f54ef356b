"""Words of a command line: mistyped ones, completion in a shell, and names in help that imports no torch."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from segpaste import BatchCopyPasteConfig
from segpaste.cli import COMMANDS, _names, _printed, main
from segpaste.presets.recipes import list_presets


def keys_of(model: type[BaseModel], group: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        kinds = [field.annotation, *getattr(field.annotation, "__args__", ())]
        inner = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
        yield from keys_of(inner[0], f"{group}{name}.") if inner else [f"{group}{name}"]


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    done = subprocess.run(
        [sys.executable, "-m", "segpaste", "completion", "bash"], capture_output=True, text=True, check=True
    )
    path = tmp_path_factory.mktemp("shell") / "completion.bash"
    path.write_text(done.stdout)
    return path


class TestMistyped:
    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ("augmnt x", "expected a command, got 'augmnt'; the nearest is 'augment'; see segpaste --help"),
            ("xyzzy", "expected a command, got 'xyzzy'; see segpaste --help"),
            ("augment x --nmu 3", "expected a known option, got '--nmu'; the nearest is '--num'; see segpaste augment"),
            ("augment --nmu=3", "expected a known option, got '--nmu'; the nearest is '--num'"),
            ("bank build --fromat x", "got '--fromat'; the nearest is '--format'; see segpaste bank build --help"),
            ("train --epchs", "expected a known option, got '--epchs'"),
        ],
    )
    def test_it_is_named_before_what_is_missing(
        self, words: str, message: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(words.split()) == 2
        assert message in capsys.readouterr().err

    def test_words_after_two_dashes_are_no_options(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["stats", "--", "--nowhere"]) == 2
        assert "--nowhere: expected a dataset or a bank" in capsys.readouterr().err


class TestNames:
    def test_keys_and_presets_are_those_of_the_library(self) -> None:
        assert (*keys_of(BatchCopyPasteConfig),) == _names.CONFIG_KEYS
        assert list_presets() == list(_names.PRESETS)

    def test_help_of_augment_lists_them(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["augment", "--help"]) == 0
        words = set(capsys.readouterr().out.replace(",", " ").split())
        assert words >= {*_names.PRESETS}
        assert {"k_range", "scale_range", "originals.k_to_available", "feather_px", "emit_depth"} <= words


class TestCompletion:
    @pytest.mark.parametrize(
        ("words", "completed"),
        [
            ("segpaste au", {"augment"}),
            ("segpaste augment --pres", {"--preset"}),
            ("segpaste augment --layout la", {"label-maps"}),
            ("segpaste bank bu", {"build"}),
            ("segpaste stats --sort o", {"objects"}),
        ],
    )
    def test_bash_completes(self, script: Path, words: str, completed: set[str]) -> None:
        program = f"source {script}; COMP_WORDS=({words}); COMP_CWORD={words.count(' ')}; _shtab_segpaste; "
        done = subprocess.run(
            ["bash", "-c", program + 'printf "%s\\n" "${COMPREPLY[@]}"'], capture_output=True, text=True, check=True
        )
        assert {*done.stdout.split()} == completed

    def test_bash_completes_files(self, script: Path, tmp_path: Path) -> None:
        (tmp_path / "instances.json").touch()
        program = f"source {script}; COMP_WORDS=(segpaste check inst); COMP_CWORD=2; _shtab_segpaste; "
        done = subprocess.run(
            ["bash", "-c", program + 'echo "${COMPREPLY[@]}"'], capture_output=True, text=True, check=True, cwd=tmp_path
        )
        assert done.stdout.split() == ["instances.json"]

    @pytest.mark.parametrize("shell", ["zsh", "fish"])
    def test_other_shells_know_all_commands(self, shell: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["completion", shell]) == 0
        script = capsys.readouterr().out
        assert all(name in script for name in COMMANDS)
        assert "preset" in script

    def test_an_unknown_shell(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["completion", "ksh"]) == 2
        assert "expected one of bash, zsh, fish, got 'ksh'" in capsys.readouterr().err


class TestProgress:
    def test_lines_of_json(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        seconds = [100.0]
        monkeypatch.setattr(_printed.time, "monotonic", lambda: seconds[0])
        with _printed.progress_style("json"), _printed.progress(10, "image", initial=2) as bar:
            bar.update()  # at once
            seconds[0] += 1
            bar.update(5)
            bar.update(2)
        lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
        assert [line["done"] for line in lines] == [2, 8, 10]
        assert all(line["progress"] == "image" and line["total"] == 10 for line in lines)

    def test_a_command_prints_them(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        words = ["augment", "scenes", "--out", str(tmp_path / "out"), "--num", "2", "--size", "64", "--gallery", "0"]
        assert main([*words, "--progress", "json"]) == 0
        lines = [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
        assert {"progress": "image", "done": 2, "total": 2} in lines

    @pytest.mark.parametrize("style", ["off", "bar"])
    def test_nothing_where_there_is_no_terminal(self, style: str, capsys: pytest.CaptureFixture[str]) -> None:
        with _printed.progress_style(style), _printed.progress(3) as bar:
            bar.update(3)
        assert not capsys.readouterr().err
