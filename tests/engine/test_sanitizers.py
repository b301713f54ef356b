"""The native library under sanitizers, and faults that they would miss are reported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from script_modules import SCRIPTS, script
from segpaste.engine.native import build

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def program() -> ModuleType:
    found = script("sanitize_native")
    if (reason := found.why_not()) is not None:
        pytest.skip(reason)
    return found


@pytest.mark.first
def test_nothing_is_reported(program: ModuleType) -> None:
    """The program by itself draws three times as many cases of each kind."""
    command = [sys.executable, SCRIPTS / "sanitize_native.py", "--num", "100"]
    few = {**os.environ, "SEGPASTE_HYPOTHESIS": "few"}
    done = subprocess.run(command, env=few, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    assert "both deliberate faults are reported" in done.stdout
    assert done.stdout.count("nothing wrong") == 3


def test_a_library_without_sanitizers_proves_nothing(program: ModuleType) -> None:
    missed = program.missed_faults(build.LIBRARY)
    assert [fault for fault in program.REPORTS if any(f"fault {fault!r} was not" in text for text in missed)] == [
        *program.REPORTS
    ]
