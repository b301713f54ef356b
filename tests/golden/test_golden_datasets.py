"""What datasets, commands and adapters give equals what is recorded."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
PARTS = ("read", "convert", "error", "command", "bank", "help", "resumed", "kept")


@pytest.fixture(scope="module")
def program() -> Iterator[ModuleType]:
    sys.path.insert(0, str(SCRIPTS))
    try:
        yield importlib.import_module("golden_datasets")
    finally:
        sys.path.remove(str(SCRIPTS))


@pytest.mark.parametrize("part", PARTS)
def test_nothing_has_changed(program: ModuleType, part: str) -> None:
    records = program.read_records(program.FILE)
    assert list(program.differences(records, part)) == []


def test_every_part_is_recorded(program: ModuleType) -> None:
    assert {name.partition(" ")[0] for name in program.read_records(program.FILE)} == {*PARTS, "target"}


@pytest.mark.parametrize("name", ["kept augmented", "kept converted"])
def test_a_run_of_an_earlier_version_resumes_to_the_same_dataset(program: ModuleType, name: str) -> None:
    """`test_nothing_has_changed` computes both again."""
    records = program.read_records(program.FILE)
    assert records[f"{name}, resumed"] == records[f"{name}, uninterrupted"]
