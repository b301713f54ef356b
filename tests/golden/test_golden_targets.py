"""What adapters make of batches and of single samples equals what is recorded; the records are in `datasets.json`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from unittest import mock

SCRIPTS = Path(__file__).parents[2] / "scripts"


def test_nothing_has_changed() -> None:
    with mock.patch.object(sys, "path", [str(SCRIPTS), *sys.path]):
        program = importlib.import_module("golden_datasets")
        assert list(program.differences(program.read_records(program.FILE), "target")) == []
