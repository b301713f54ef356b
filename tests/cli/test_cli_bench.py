"""`segpaste bench` on next to nothing, and the report that it makes of figures; no test asserts on a time."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from segpaste.cli import bench, main
from segpaste.cli._errors import CommandError

PROGRAMS = bench.load_programs()
peers, plan, plots, profiles, report, suite, timing = (
    importlib.import_module(f"{PROGRAMS}.{name}")
    for name in ("peers", "plan", "plots", "profiles", "report", "suite", "timing")
)

SOURCE = Path(__file__).parents[2] / "src"
FILES = {"report.md", "results.json", "step.png", "growth.png"}


def summary(median: float) -> dict[str, float]:
    return {"median_ms": median, "low_ms": median / 2, "high_ms": median * 3}


@pytest.fixture
def keeping(monkeypatch: pytest.MonkeyPatch) -> None:
    """The allocator's settings are there already, so that the command does not start itself again."""
    for key, value in timing.ALLOCATOR.items():
        monkeypatch.setenv(key, value)


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing gets as far as measuring."""
    monkeypatch.setattr(suite, "run", lambda *_: pytest.fail("measured"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """One run of everything on tiny sizes, as a user starts it, its output piped."""
    out = tmp_path_factory.mktemp("bench") / "out"
    command = [sys.executable, "-m", "segpaste", "bench", "--tiny", "--out", str(out)]
    environment = {key: value for key, value in os.environ.items() if key not in timing.ALLOCATOR}
    environment["PYTHONPATH"] = str(SOURCE)
    return out, subprocess.run(command, capture_output=True, text=True, env=environment, timeout=280, check=False)


@pytest.mark.slow
@pytest.mark.xdist_group("bench")
class TestRun:
    def test_it_ends_well_and_says_nothing_but_the_report(self, finished: Any) -> None:
        out, run = finished
        assert (run.returncode, run.stderr) == (0, "")
        assert run.stdout == (out / "report.md").read_text(encoding="utf-8")

    def test_files_have_their_final_names_only(self, finished: Any) -> None:
        out, _ = finished
        assert {path.name for path in out.iterdir()} == FILES
        assert [path.name for path in out.parent.iterdir()] == ["out"]
        for path in out.glob("*.png"):
            with Image.open(path) as picture:
                picture.load()

    def test_every_section_is_reported(self, finished: Any) -> None:
        out, run = finished
        results = json.loads((out / "results.json").read_text(encoding="utf-8"))
        assert {"step", "growth", "memory", "loading", "compiled"} <= set(results)
        for heading in ("## A step", "## Growth", "## Peak memory", "## The loader", "## Compiled"):
            assert run.stdout.count(heading) == 1
        axes = {axis["axis"] for axis in results["growth"]["axes"]}
        assert axes >= {"images, B", "slots, K"}
        assert any(axis.startswith("threads, ") for axis in axes)

    def test_machine_and_allocator_are_noted(self, finished: Any) -> None:
        out, _ = finished
        machine = json.loads((out / "results.json").read_text(encoding="utf-8"))["machine"]
        assert {"cpu", "torch", "torchvision", "segpaste", "commit", "allocator"} <= set(machine)
        assert all(f"{key}={value}" in machine["allocator"] for key, value in timing.ALLOCATOR.items())

    def test_every_peer_is_measured_or_says_why_not(self, finished: Any) -> None:
        out, run = finished
        rows = json.loads((out / "results.json").read_text(encoding="utf-8"))["step"]["rows"]
        for row in [row for row in rows if "five modalities" not in row["batch"]]:
            assert {peer.name for peer in peers.PEERS} == (set(row["times"]) & set(PEER_NAMES)) | set(row["skipped"])
            for name, reason in row["skipped"].items():
                assert f"- {name}" in run.stdout
                assert reason in run.stdout

    def test_memory_of_a_step_was_measured(self, finished: Any) -> None:
        out, _ = finished
        row = json.loads((out / "results.json").read_text(encoding="utf-8"))["memory"]["rows"]["out of place"]
        assert 0 < 0.9 * row["batch_bytes"] < row["new_bytes"] <= row["batch_bytes"]


PEER_NAMES = [peer.name for peer in peers.PEERS]

BAD = {
    "no threads": (["--threads", "0"], "--threads: expected an integer from 1 to 1024, got '0'"),
    "half a thread": (["--threads", "1.5"], "--threads: expected an integer from 1 to 1024, got '1.5'"),
    "unknown device": (["--device", "tpu"], "--device: expected one of cpu, cuda, got 'tpu'"),
    "stray word": (["stray"], "got 'stray'"),
    "override": (["min_area_px=1"], "expected options only, got min_area_px=..."),
    "two sizes": (["--quick", "--tiny"], "--tiny: expected no --quick beside it, got both; leave one"),
    "occupied place": (["--out", "occupied"], "expected --out to be new or an empty folder"),
}


@pytest.mark.usefixtures("keeping", "unmeasured")
class TestBadInput:
    @pytest.mark.parametrize("case", BAD)
    def test_one_line_and_exit_code_2(
        self, case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "occupied").mkdir()
        (tmp_path / "occupied" / "mine.txt").write_text("mine")
        words, expected = BAD[case]
        assert main(["bench", *words]) == 2
        out, err = capsys.readouterr()
        assert (out, err[:17], err.count("\n")) == ("", "segpaste: error: ", 1)
        assert expected in err

    @pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
    def test_no_device(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["bench", "--device", "cuda"]) == 2
        assert "expected a CUDA device" in capsys.readouterr().err

    def test_programs_that_are_nowhere(self, tmp_path: Path) -> None:
        with pytest.raises(CommandError, match="found neither"):
            bench.load_programs(tmp_path / "src")


@pytest.mark.usefixtures("keeping")
class TestStagedOutput:
    def test_interrupted_leaves_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(*_: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(suite, "run", interrupted)
        assert main(["bench", "--out", str(tmp_path / "out")]) == 130
        assert list(tmp_path.iterdir()) == []

    def test_half_written_leaves_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def half(folder: Path, _: Any) -> None:
            (folder / "report.md").write_text("half")
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(suite, "run", lambda *_: {})
        monkeypatch.setattr(suite, "write", half)
        assert main(["bench", "--out", str(tmp_path / "out")]) == 2
        assert list(tmp_path.iterdir()) == []

    def test_an_empty_folder_is_filled(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(suite, "run", lambda *_: FAKE)
        assert main(["bench", "--out", str(tmp_path)]) == 0
        assert {path.name for path in tmp_path.iterdir()} == FILES

    def test_waits_of_a_device_fail_the_command_but_not_the_report(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        row = {"batch": "one", "times": {}, "skipped": {}, "waits": {"clone": "called item"}}
        found = {"rows": [row], "errors": ["one, clone: waits: called item"]}
        monkeypatch.setattr(suite, "run", lambda *_: FAKE | {"device_steps": found})
        assert main(["bench", "--out", str(tmp_path)]) == 2
        assert {path.name for path in tmp_path.iterdir()} == FILES
        assert "got one, clone: waits: called item" in capsys.readouterr().err

    def test_the_plan_follows_the_options(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[Any] = []

        def run(*arguments: Any) -> Any:
            asked.append(arguments[:3])
            return FAKE

        monkeypatch.setattr(suite, "run", run)
        for words in ([], ["--quick"], ["--quick", "--threads", "3"]):
            assert main(["bench", *words]) == 0
        assert asked == [(plan.FULL, 1, "cpu"), (plan.QUICK, 1, "cpu"), (plan.QUICK, 3, "cpu")]


class TestAllocator:
    def test_starts_itself_again_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        calls: list[Any] = []
        monkeypatch.setattr(os, "execve", lambda *arguments: calls.append(arguments))
        monkeypatch.delenv("MALLOC_MMAP_MAX_", raising=False)
        timing.keep_freed_memory()
        ((program, words, environment),) = calls
        assert (program, words[1:]) == (sys.executable, sys.orig_argv[1:])
        assert environment == {**os.environ, **timing.ALLOCATOR}

    @pytest.mark.usefixtures("keeping")
    def test_goes_on_where_it_is_set(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "execve", lambda *_: pytest.fail("started again"))
        timing.keep_freed_memory()


FAKE: dict[str, Any] = {
    "settings": {"threads": 1, "device": "cpu"},
    "machine": {"cpu": "abacus", "commit": ""},
    "step": {
        "rows": [
            {
                "batch": "one",
                "pasted_frac": 0.125,
                "times": {"clone": summary(2.0), "clone again": summary(2.2), "segpaste": summary(5.0)},
                "skipped": {PEER_NAMES[0]: "too heavy", PEER_NAMES[1]: "too light"},
            },
            {
                "batch": "two",
                "pasted_frac": 0.5,
                "times": {"clone": summary(4.0), "segpaste": summary(2.0), PEER_NAMES[0]: summary(12.0)},
                "skipped": {PEER_NAMES[1]: "too light"},
            },
        ]
    },
    "growth": {
        "axes": [
            {
                "axis": "slots, K",
                "points": [
                    {"x": x, "times": {"clone": summary(1.0 * x), "clone again": summary(x), "segpaste": summary(4.0)}}
                    for x in (2, 8)
                ],
                "exponents": {"clone": 1.0, "clone again": 1.0, "segpaste": 0.0},
            }
        ]
    },
    "memory": {
        "batch": "small",
        "rows": {
            "out of place": {"batch_bytes": 2 << 20, "new_bytes": 1 << 20, "peak_bytes": 3 << 19},
            "in place": {"skipped": "no /proc"},
        },
    },
    "loading": {
        "photos": "two",
        "times": {"segpaste": summary(50.0), "torchvision v2": summary(100.0)},
        "images_per_second": {"segpaste": 1234.5, "torchvision v2": 20.0},
    },
    "compiled": {
        "batch": "one",
        "seconds_to_compile": 61.2,
        "times": {"eager": summary(3.0), "compiled": summary(2.0)},
    },
}


def cells(text: str, first: str) -> list[str]:
    """The cells after the first of the table row that begins with it."""
    (row,) = [line for line in text.splitlines() if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in row.split("|")[2:-1]]


class TestReport:
    def test_ratios_of_the_step(self) -> None:
        text = report.step(FAKE["step"])
        assert cells(text, "clone")[:2] == ["2.00 (1.00..6.00) ms", "4.00 (2.00..12.00) ms"]
        assert cells(text, "clone again")[:2] == ["1.10 (0.55..3.30)", "–"]
        assert cells(text, "segpaste")[:2] == ["2.50 (1.25..7.50)", "0.50 (0.25..1.50)"]
        assert cells(text, PEER_NAMES[0]) == ["–", "3.00 (1.50..9.00)", peers.PEERS[0].does_not]
        assert cells(text, "pixels pasted by segpaste")[:2] == ["12.5%", "50.0%"]

    def test_skipped_peers_say_why_and_where(self) -> None:
        text = report.step(FAKE["step"])
        assert f"- {PEER_NAMES[0]} (one): too heavy" in text
        assert f"- {PEER_NAMES[1]}: too light" in text
        assert text.count("too light") == 1

    def test_growth(self) -> None:
        text = report.growth(FAKE["growth"])
        assert cells(text, "8") == ["8.00", "4.00", "1.00 (0.50..3.00)", "0.50 (0.25..1.50)"]
        assert cells(text, "p")[:2] == ["1.00", "0.00"]

    def test_memory(self) -> None:
        text = report.memory(FAKE["memory"])
        assert cells(text, "out of place") == ["2.0", "1.5", "1.0", "25.0%"]
        assert cells(text, "in place")[0] == "skipped: no /proc"

    def test_loader(self) -> None:
        text = report.loading(FAKE["loading"])
        assert cells(text, "segpaste")[:2] == ["1,234.5", "2.00"]
        assert cells(text, "torchvision v2")[1] == "1.00"

    def test_compiled(self) -> None:
        assert cells(report.compiled(FAKE["compiled"]), "eager")[1] == "1.50 (0.75..4.50)"
        assert report.compiled({"skipped": "no compiler"}).endswith("Skipped: no compiler.")

    def test_device_steps(self) -> None:
        row = {
            "batch": "one",
            "times": {
                "device": {"clone": summary(2.0), "segpaste": summary(3.0)},
                "eager": {"clone": summary(4.0), "segpaste": summary(8.0)},
                "graph": {"clone": summary(2.0)},
                "host": {"clone": summary(0.5), "segpaste": summary(1.0)},
            },
            "skipped": {"segpaste, graph": "RuntimeError: no"},
            "waits": {"clone": "", "segpaste": "called a synchronizing operation"},
            "peak_beyond_outputs": {"clone": 0, "segpaste": 3 << 19},
        }
        text = report.device_steps({"rows": [row]})
        ours = [line for line in text.splitlines() if line.startswith("| one | segpaste |")]
        found = [cell.strip() for cell in ours[0].split("|")[3:-1]]
        ratios = ["1.50 (0.75..4.50)", "4.00 (2.00..12.00)", "–"]
        assert found == ["3.00 (1.50..9.00)", *ratios, "1.00 (0.50..3.00)", "1.5"]
        assert text.count("waits:") == 1
        assert "- one, segpaste: waits: called a synchronizing operation" in text
        assert "- one, segpaste, graph: skipped: RuntimeError: no" in text

    def test_the_card(self) -> None:
        text = report.bandwidth({"gb_per_second": 2000.4, "fill_gb_per_second": 2500.0})
        assert "2,000 GB/s, read and written. A fill: 2,500 GB/s, written." in text

    def test_profiles(self) -> None:
        work = [profiles.Work("copy", 1.0), profiles.Work("render", 200.0), profiles.Work("render", 300.0)]
        row = {"batch": "one", "step": "segpaste", **profiles.by_kernel(work, 2)}
        text = report.profiles({"rows": [row]})
        assert "one, segpaste: 1.5 launches, 250 µs." in text
        assert cells(text, "render") == ["1.0", "250.0"]
        assert "| copy |" not in text

    def test_launches(self) -> None:
        def row(preset: str, **counts: int) -> dict[str, Any]:
            found = {"launches": counts["torch"] + counts["kernels"]}
            return {"preset": preset, "option": "", **found, **{name: {"x": number} for name, number in counts.items()}}

        rows = [
            {**row("a", torch=1, kernels=9, outside=0, waits=0, host=0), "first": {"launches": 17}},
            {**row("a", torch=3, kernels=9, outside=2, waits=1, host=0), "first": {"launches": 19}},
            {**row("a", torch=5, kernels=9, outside=5, waits=0, host=0), "first": {"launches": 21}, "option": "b"},
        ]
        moved = {"out_of_place": 1.084, "pixels_out_of_place": 0.8, "in_place": 0.5, "pixels_in_place": 0.3}
        traffic = [{"slots": 32, "planes": "few", "pasted": 0.2, **moved}]
        text = report.launches({"rows": rows, "traffic": traffic})
        assert cells(text, "a") == [*("2", "10..12", "1..3", "9", "0..2", "0..1", "0", "17..19")]
        assert cells(text, "b") == ["1", "14", "5", "9", "5", "0", "0", "21"]
        assert cells(text, "32") == ["few", "0.20", "1.08", "0.80", "0.50", "0.30"]

    def test_all_together(self) -> None:
        text = report.markdown(FAKE)
        assert "1 thread, device cpu; cpu abacus." in text
        assert [line for line in text.splitlines() if line.startswith("## ")] == [
            "## A step, as multiples of a clone",
            "## Growth",
            "## Peak memory of a step",
            "## The loader",
            "## Compiled",
        ]

    def test_pictures(self) -> None:
        found = plots.pictures(FAKE)
        assert set(found) == {"step", "growth"}
        for picture in found.values():
            assert len(picture.getcolors(1 << 24)) > 3
        assert plots.pictures({}) == {}
