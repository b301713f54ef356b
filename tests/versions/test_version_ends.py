"""The core of the suite at both ends of the declared version ranges, in environments that `make test` sets up.

`scripts/version_ends.py` says what each has: ``lowest`` the declared lower bounds, ``newest`` what pip resolves today
without constraints.txt.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CORE = (
    "augmentation/test_written_configs.py",  # pydantic, PyYAML
    "bank/test_formats.py",  # NumPy, lmdb, pyarrow, fsspec
    "cli/test_cli_doctor.py",
    "datasets/test_coco.py",  # pycocotools, pydantic-core
    "datasets/test_map_formats.py",  # OpenEXR, Pillow
    "datasets/test_yolo_writer.py",
    "replay/test_replay_records.py",
    "samplers/test_nxm_arguments.py",
)

IN_CORE = "not forkserver"
"""A process that inherits nothing imports all again, which takes seconds; no version decides how it opens files."""

pytestmark = [pytest.mark.slow, pytest.mark.first]


def python_of(end: str) -> Path:
    """Return the interpreter of an end's environment."""
    python = Path(sys.prefix) / "versions" / end / "bin" / "python"
    if not python.exists():
        pytest.fail(f"expected the environment {python.parents[1]}: `make test` sets it up; see the Makefile")
    return python


def run(python: Path, *arguments: str) -> str:
    """Run the interpreter and return what it prints."""
    settings = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [str(python), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, env=settings, cwd=TESTS.parent, check=False, timeout=900
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


def versions(python: Path) -> dict[str, str]:
    """Return the version of each package that the interpreter imports."""
    code = "from importlib.metadata import distributions\nfor d in distributions(): print(d.name, d.version)"
    lines = [line.split() for line in run(python, "-c", code).splitlines()]
    return {normalized(name): version for name, version in reversed(lines)}  # the first one is imported


def normalized(name: str) -> str:
    """Return the name of a package as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_lower_bounds_are_installed() -> None:
    listed = run(Path(sys.executable), "scripts/version_ends.py", "lowest").split()
    found = versions(python_of("lowest"))
    for requirement in listed:
        name, _, least = requirement.partition("==")
        assert re.match(rf"{re.escape(least)}(\.0)*$", found[normalized(re.sub(r"\[.*", "", name))]), requirement
    assert len(listed) > 15


@pytest.mark.parametrize("end", ["lowest", "newest"])
def test_the_core_passes(end: str, tmp_path: Path) -> None:
    python = python_of(end)
    if versions(python) == versions(Path(sys.executable)):
        return  # constraints.txt has the newest versions, with which the whole suite runs
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={tmp_path / 'work'}", "-m", "not slow"]
    options += ["-k", IN_CORE]
    out = run(python, "-m", "pytest", *options, *(str(TESTS / name) for name in CORE))
    assert int(re.findall(r"(\d+) passed", out)[-1]) > 100, out[-2000:]
