"""The adapters under real trainers, each in an environment of its own that `make test` sets up beside this one.

A file ``NAME.txt`` of this folder lists the packages of an environment; the suite ``checks_NAME.py`` runs there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TRAINERS = sorted(path.stem for path in HERE.glob("*.txt"))
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "YOLO_OFFLINE": "true", "WANDB_MODE": "disabled"}
OFFLINE |= {"ALBUMENTATIONS_NO_TELEMETRY": "1", "ALBUMENTATIONS_OFFLINE": "1"}

pytestmark = [pytest.mark.slow, pytest.mark.first]


@pytest.mark.parametrize("name", TRAINERS)
def test_the_suite_passes_beside_the_trainer(name: str, tmp_path: Path) -> None:
    python = Path(sys.prefix) / "trainers" / name / "bin" / "python"
    if not python.exists():
        pytest.fail(f"expected the environment {python.parents[1]}: `make test` sets it up; see the Makefile")
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={tmp_path / 'work'}"]
    settings = {**os.environ, **OFFLINE, "YOLO_CONFIG_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    if "SEGPASTE_TEST_DATA" in settings:  # the suite runs in another folder
        settings["SEGPASTE_TEST_DATA"] = str(Path(settings["SEGPASTE_TEST_DATA"]).resolve())
    command = [str(python), "-m", "pytest", *options, str(HERE / f"checks_{name}.py")]
    run = subprocess.run(command, capture_output=True, text=True, env=settings, cwd=tmp_path, check=False, timeout=900)
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
