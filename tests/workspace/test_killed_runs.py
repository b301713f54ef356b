"""Long commands that are killed at random moments; ``scripts/kill_runs.py`` kills each of them 200 times."""

from __future__ import annotations

from pathlib import Path

import pytest

from fresh_process import run_script

SCRIPT = Path(__file__).parents[2] / "scripts" / "kill_runs.py"
COMMANDS = ("augment", "bank-memmap", "train")


@pytest.mark.slow
def test_nothing_but_the_whole_result_is_left() -> None:
    """In a fresh process: after a compilation autograd starts threads, and no fork of it can train."""
    options = [word for command in COMMANDS for word in ("--command", command)]
    done = run_script(SCRIPT, "--kills", "3", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(COMMANDS)
