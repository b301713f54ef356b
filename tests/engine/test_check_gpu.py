"""`scripts/check_gpu.sh` on a machine without a GPU, and with a Python that only records its arguments."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
PARTS = ("right", "fast", "why")
STUB = """#!/bin/sh
echo "$@" >> "$(dirname "$0")/asked.txt"
case "$*" in
*get_device_capability*) echo 90 ;;
*{slow}*) sleep 5 ;;
*{failing}*) echo broken; exit 7 ;;
esac
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="cards are checked on Linux")


def check(*arguments: object, sanitizer: object = "echo") -> subprocess.CompletedProcess[str]:
    command = ["bash", str(ROOT / "scripts" / "check_gpu.sh"), *map(str, arguments)]
    environment = {**os.environ, "COMPUTE_SANITIZER": str(sanitizer)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/")


def stub(folder: Path, failing: str = "nothing-fails", slow: str = "nothing-is-slow") -> Path:
    python = folder / "python"
    python.write_text(STUB.format(failing=failing, slow=slow))
    python.chmod(0o755)
    return python


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_card_it_says_so(tmp_path: Path) -> None:
    done = check("--out", tmp_path / "found", "--python", sys.executable)
    assert done.returncode == 3, done.stderr
    assert "sees no CUDA device on this machine: nothing was checked" in done.stderr
    assert [path.name for path in (tmp_path / "found").iterdir()] == ["machine.txt"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected --out DIR"),
        (["--out"], "Exit codes"),
        (["--out", "found", "slow"], "expected right, fast, why or an option, got 'slow'"),
        (["--out", "found", "--seconds", "0"], "expected --seconds N, a whole number above 0, got '0'"),
        (["--out", "found", "--wheels", "/nowhere"], "expected a folder of wheels, got '/nowhere'"),
    ],
)
def test_wrong_arguments(arguments: list[str], message: str) -> None:
    done = check(*arguments)
    assert done.returncode == 2
    assert message in done.stderr


def test_every_part_asks_for_what_exists(tmp_path: Path) -> None:
    done = check("--out", tmp_path / "found", "--python", stub(tmp_path))
    assert done.returncode == 0, done.stderr
    asked = (tmp_path / "asked.txt").read_text().splitlines()
    files = {word for line in asked for word in line.split() if word.endswith(".py")}
    assert len(files) >= 10
    assert all((ROOT / name).is_file() for name in files), files
    modules = {line.split()[1] for line in asked if line.startswith("-m benchmarks")}
    names = ("device_steps", "launches", "profiles")
    assert modules == {f"benchmarks.{name}" for name in names}
    assert all((ROOT / f"{name.replace('.', '/')}.py").is_file() for name in modules)
    assert importlib.util.find_spec("segpaste.__main__") is not None
    assert {path.name.partition("-")[0] for path in (tmp_path / "found").glob("*-*.txt")} == set(PARTS)
    assert any("--cards 90" in line for line in asked)
    ran = [line.split("\t") for line in (tmp_path / "found" / "ran.txt").read_text().splitlines()]
    assert {name.partition("-")[0] for name, _, _ in ran} == set(PARTS)
    assert all(result.startswith("fine, ") for _, result, _ in ran), ran
    assert {name for name, _, command in ran if " --tool " in command} == {"right-memcheck", "right-racecheck"}
    assert f"{len(ran)} steps, 0 of them failed" in done.stderr


def test_programs_take_these_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check("--out", tmp_path / "found", "--python", stub(tmp_path), "right")
    monkeypatch.syspath_prepend(ROOT / "scripts")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for name in ("hostile_batches", "stress_kernels", "check_graphs", "check_ranks"):
        (line,) = [line for line in (tmp_path / "asked.txt").read_text().splitlines() if f"/{name}.py" in line]
        options = importlib.import_module(name).options_of(line.split()[1:])
        assert getattr(options, "device", "cuda") == "cuda"
        assert getattr(options, "pasted", 1) > 0  # a run that pastes nothing shows nothing


def test_a_missing_sanitizer_is_a_failure(tmp_path: Path) -> None:
    done = check("--out", tmp_path / "found", "--python", stub(tmp_path), "right", sanitizer=tmp_path / "none")
    assert done.returncode == 1
    for tool in ("memcheck", "racecheck"):
        assert f"right-{tool}: FAILED, found no compute-sanitizer; install that of the CUDA toolkit" in done.stderr
        assert f"right-{tool}\tFAILED" in (tmp_path / "found" / "ran.txt").read_text()
    assert "right-ranks: fine" in done.stderr


def test_a_failure_beside_others_is_told(tmp_path: Path) -> None:
    done = check("--out", tmp_path / "found", "--python", stub(tmp_path, "check_graphs"), "right")
    assert done.returncode == 1
    assert "right-graphs: FAILED with 7" in done.stderr
    assert "right-ranks: fine" in done.stderr


def test_a_part_ends_in_time(tmp_path: Path) -> None:
    """A step that is too slow is stopped, and those after it are not run."""
    python = stub(tmp_path, slow="benchmarks.launches")
    done = check("--out", tmp_path / "found", "--python", python, "--seconds", "1", "why")
    assert done.returncode == 1
    assert "why-launches: stopped after 1 s" in done.stderr
    assert "why-kernels: NOT RUN, the part has no time left" in done.stderr
    assert "3 steps, 3 of them failed" in done.stderr


def test_a_failure_is_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    done = check("--out", tmp_path / "found", "--python", stub(tmp_path, "benchmarks.device_steps"), "fast")
    assert done.returncode == 1
    assert "fast-steps: FAILED with 7" in done.stderr
    assert "fast-bench: fine" in done.stderr
    assert (tmp_path / "found" / "fast-steps.txt").read_text() == "broken\n"
    assert "right" not in done.stderr
