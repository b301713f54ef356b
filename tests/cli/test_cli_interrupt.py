"""A run that stops and goes on: signals, a killed process, a full disk; nothing half-written, the same bytes."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from cli_world import check_instances, read_pixels, write_instances, write_panoptic

from fresh_process import start_command
from on_disk import tree
from segpaste.augmenting import steps
from segpaste.cli import main
from segpaste.workspace import Workspace

NUM, STEP = 24, 2


def words_for(folder: Path, out: Path, num: int = NUM) -> list[str]:
    options = ["--out", str(out), "--num", str(num), "--gallery", "3"]
    return ["augment", str(folder / "labels.json"), "--images", str(folder / "photos"), *options]


SHORT_STEPS = f"""
from segpaste.augmenting import steps
steps.IMAGES_PER_STEP = {STEP}
"""
PAUSING = f"""
{SHORT_STEPS}
import time
make = steps.StepMaker.make
def pausing(maker, step):
    time.sleep(120 if step == {NUM // STEP // 2} else 0)
    return make(maker, step)
steps.StepMaker.make = pausing
"""
"""A command waits half-way, so that a busy machine has the time to send a signal."""


def check_whole(folder: Path) -> None:
    """Every picture that has its final name can be read to its end."""
    for path in folder.rglob("*.png"):
        if not path.name.startswith("."):
            assert read_pixels(path).size


@pytest.fixture(autouse=True)
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "IMAGES_PER_STEP", STEP)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    write_instances(folder)
    return folder


@pytest.fixture(scope="module")
def expected(world: Path) -> dict[str, str]:
    """Return the files that an uninterrupted run leaves."""
    assert main(words_for(world, world / "whole")) == 0
    return tree(world / "whole")


class TestSignals:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
    def test_stop_and_go_on(
        self, world: Path, expected: dict[str, str], tmp_path: Path, number: signal.Signals
    ) -> None:
        out, rest = tmp_path / "out", tmp_path / "out.partial"
        process = start_command(words_for(world, out), PAUSING)
        process.wait_until((rest / "parts" / "000001.json").exists)
        os.kill(process.pid, number)
        done = process.wait()
        assert not out.exists()
        assert 2 <= len(list((rest / "parts").glob("*.json"))) < NUM // STEP
        check_whole(rest)
        if number is signal.SIGKILL:
            assert done.returncode == -signal.SIGKILL
        else:
            assert (done.returncode, done.stdout) == (130, "")
            assert done.stderr.startswith(f"segpaste: interrupted: {rest} keeps what is finished")
            assert done.stderr.count("\n") == 1
            assert not list(rest.rglob(".*"))
        assert main(words_for(world, out)) == 0
        assert tree(out) == expected
        assert not rest.exists()

    def test_interrupted_before_anything_was_finished(
        self, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        interrupt_at(monkeypatch, 0)
        assert main(words_for(world, tmp_path / "out")) == 130
        assert capsys.readouterr().err == "segpaste: interrupted: nothing was finished\n"
        assert list(tmp_path.iterdir()) == []


def interrupt_at(monkeypatch: pytest.MonkeyPatch, step: int) -> list[int]:
    """Interrupt when this step is asked for; returns the list that the steps asked for go into."""
    make, asked = steps.StepMaker.make, []

    def interrupted(maker: steps.StepMaker, number: int) -> None:
        asked.append(number)
        if number == step:
            raise KeyboardInterrupt
        make(maker, number)

    monkeypatch.setattr(steps.StepMaker, "make", interrupted)
    return asked


class TestGoingOn:
    def test_what_is_finished_is_not_done_again(
        self, world: Path, expected: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            interrupt_at(patch, 3)
            assert main(words_for(world, tmp_path / "out")) == 130
        asked = interrupt_at(monkeypatch, -1)
        assert main(words_for(world, tmp_path / "out")) == 0
        assert asked == list(range(3, NUM // STEP))
        assert tree(tmp_path / "out") == expected

    @pytest.mark.parametrize("where", ["finish", "write_pages", "publish"])
    def test_interrupted_near_the_end(
        self, world: Path, expected: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
    ) -> None:
        from segpaste.augmenting import runs

        def interrupt(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        owner = {"finish": runs, "write_pages": runs, "publish": Workspace}[where]
        with monkeypatch.context() as patch:
            patch.setattr(owner, where, interrupt)
            assert main(words_for(world, tmp_path / "out")) == 130
        assert not (tmp_path / "out").exists()
        assert main(words_for(world, tmp_path / "out")) == 0
        assert tree(tmp_path / "out") == expected

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (["--seed", "4"], "--seed 0 there, 4 now"),
            (["placement.layers=2"], "placement.layers 1 there, 2 now"),
        ],
    )
    def test_not_with_other_arguments(
        self,
        world: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        change: list[str],
        message: str,
    ) -> None:
        interrupt_at(monkeypatch, 1)
        assert main(words_for(world, tmp_path / "out")) == 130
        before = tree(tmp_path)
        capsys.readouterr()
        assert main([*words_for(world, tmp_path / "out"), *change]) == 2
        err = capsys.readouterr().err
        assert message in err
        assert f"delete {tmp_path / 'out.partial'}, or choose another --out" in err
        assert err.count("\n") == 1
        assert tree(tmp_path) == before

    def test_not_with_other_annotations(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        labels, _ = write_instances(tmp_path)
        interrupt_at(monkeypatch, 1)
        assert main(words_for(tmp_path, tmp_path / "out")) == 130
        labels.write_text(labels.read_text() + " ")
        assert main(words_for(tmp_path, tmp_path / "out")) == 2
        assert "with other arguments: annotations" in capsys.readouterr().err

    def test_after_a_photo_was_repaired(
        self, expected: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _, images_dir = write_instances(tmp_path)
        asked = interrupt_at(monkeypatch, -1)
        (images_dir / "p2.png").rename(tmp_path / "away.png")
        assert main(words_for(tmp_path, tmp_path / "out")) == 2
        (tmp_path / "away.png").rename(images_dir / "p2.png")
        assert main(words_for(tmp_path, tmp_path / "out")) == 0
        assert tree(tmp_path / "out") == expected
        assert asked.count(0) <= 2


class TestFullDisk:
    """A limit on the size of files gives a true OSError in the middle of a write."""

    @pytest.mark.parametrize(("limit", "what"), [(3_000, "photo"), (8_000, "report")])
    def test_one_line_and_nothing_half_written(self, world: Path, tmp_path: Path, limit: int, what: str) -> None:
        out, partial = tmp_path / "out", tmp_path / "out.partial"
        words = [*words_for(world, out, num=1), "--gallery", "0"]
        bound = f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))"
        done = start_command(words, SHORT_STEPS + bound).wait()
        stderr = done.stderr
        assert (done.returncode, done.stdout) == (2, "")
        assert stderr.count("\n") == 1
        assert stderr.startswith("segpaste: error: ")
        assert {"photo": "images/000001.png:", "report": "files/report.html:"}[what] in stderr
        assert "File too large; free some space and run the same command again" in stderr
        assert not out.exists()
        assert not list(tmp_path.rglob(".*.partial"))
        check_whole(tmp_path)
        assert partial.exists() == (what == "report")
        assert main(words) == 0
        check_instances(out)


def test_a_panoptic_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labels, images_dir, maps_dir = write_panoptic(tmp_path)
    words = ["augment", str(labels), "--images", str(images_dir), "--panoptic-dir", str(maps_dir), "--num", "6"]
    words += ["--gallery", "1", "--out"]
    assert main([*words, str(tmp_path / "whole")]) == 0
    with monkeypatch.context() as patch:
        interrupt_at(patch, 1)
        assert main([*words, str(tmp_path / "out")]) == 130
    assert main([*words, str(tmp_path / "out")]) == 0
    assert tree(tmp_path / "out") == tree(tmp_path / "whole")
