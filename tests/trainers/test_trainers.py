"""The adapters under real trainers, most in environments of their own that `make test` sets up beside this one.

The suite of a trainer is ``checks_NAME.py`` and all ``checks_NAME_PART.py`` of this folder, in one process, for the
imports take long. If a file ``NAME.txt`` here or in ``tests/tools`` lists packages, it runs in the environment that has
them, else in this one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CHECKS = list(HERE.glob("checks_*.py"))
SUITES = {name: sorted(HERE.glob(f"checks_{name}*.py")) for name in sorted({p.stem.split("_")[1] for p in CHECKS})}
OF_TOOLS = {"datumaro", "fiftyone", "smp"}
"""Suites that run in `make tools`."""

RUN = [name for name in SUITES if "WITH_TOOLS" in os.environ or name not in OF_TOOLS]
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "YOLO_OFFLINE": "true", "WANDB_MODE": "disabled"}
OFFLINE |= {"ALBUMENTATIONS_NO_TELEMETRY": "1", "ALBUMENTATIONS_OFFLINE": "1"}

pytestmark = [pytest.mark.slow, pytest.mark.first]


def test_each_environment_has_a_suite() -> None:
    assert {path.stem for path in HERE.glob("*.txt")} <= set(SUITES)
    assert sorted(CHECKS) == sorted(path for paths in SUITES.values() for path in paths)


def python_of(name: str) -> Path:
    """The interpreter of the environment of a suite."""
    for folder in (HERE, HERE.parent / "tools"):
        if (folder / f"{name}.txt").exists():
            return Path(sys.prefix) / folder.name / name / "bin" / "python"
    return Path(sys.executable)


@pytest.mark.parametrize("name", RUN)
def test_the_suite_passes_beside_the_trainer(name: str, tmp_path: Path) -> None:
    python = python_of(name)
    if not python.exists():
        command = "make tools" if name in OF_TOOLS else "make test"
        pytest.fail(f"expected the environment {python.parents[1]}: `{command}` sets it up; see the Makefile")
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={tmp_path / 'work'}"]
    settings = {**os.environ, **OFFLINE, "YOLO_CONFIG_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    if "SEGPASTE_TEST_DATA" in settings:  # the suite runs in another folder
        settings["SEGPASTE_TEST_DATA"] = str(Path(settings["SEGPASTE_TEST_DATA"]).resolve())
    words = [str(python), "-m", "pytest", *options, *map(str, SUITES[name])]
    run = subprocess.run(words, capture_output=True, text=True, env=settings, cwd=tmp_path, check=False, timeout=900)
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
