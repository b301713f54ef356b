"""Long commands that are killed at random moments; ``scripts/kill_runs.py`` kills each of them 200 times."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "kill_runs.py"
COMMANDS = ("augment", "bank-memmap", "train")


@pytest.mark.slow
def test_nothing_but_the_whole_result_is_left() -> None:
    """In a process of its own: after a compilation autograd starts threads, and no fork of it can train."""
    options = [word for command in COMMANDS for word in ("--command", command)]
    done = subprocess.run([sys.executable, str(SCRIPT), "--kills", "3", *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(COMMANDS)
