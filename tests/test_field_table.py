"""The promise of the field table: a new field is one row, one declaration per container, one rule, one invariant.

So few files name a field. Types, engine and readers must; of the others each one that does is counted here, and a file
more is a loop over the table that somebody wrote out by hand.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from segpaste.engine.derived import DERIVED, RULES
from segpaste.engine.planes import CHANGED, PLANES, ROWS
from segpaste.types import FIELDS

PACKAGE = Path(__file__).parents[1] / "src" / "segpaste"
MUST = ("types/", "engine/", "datasets/", "integrations/", "targets/")
"""The folders that name fields: what a sample is, what a paste does, and the forms that files and trainers have."""

MOST = {"normals": 4, "keypoints": 8, "crowd_mask": 2, "depth": 11, "panoptic_map": 5, "semantic_map": 5}
"""How many other files name a field, by the name of its row."""


def names_in(path: Path) -> set[str]:
    """All names in a file's code: variables, attributes, arguments, keywords, and texts that are one word."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        for key in ("id", "attr", "arg", "name", "value"):
            if isinstance(name := getattr(node, key, None), str):
                found.add(name)
    return found


def files_that_name(field_name: str) -> list[str]:
    """The files outside of the folders that must, which name a field in code."""
    (field,) = (field for field in FIELDS if field.name == field_name)
    paths = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
    others = {name: path for name, path in paths.items() if not name.startswith(MUST)}
    return [name for name, path in others.items() if {field.name, field.batched_name} & names_in(path)]


@pytest.mark.parametrize(("name", "most"), MOST.items())
def test_few_files_name_a_field(name: str, most: int) -> None:
    files = files_that_name(name)
    assert len(files) <= most, f"{name} is named in {files}: read the field table instead"
    assert len(files) == most, f"{name} is named in {len(files)} files only: lower the number here"


def test_every_field_that_a_paste_changes_has_its_writer() -> None:
    assert {*CHANGED} == {*PLANES, *ROWS, *DERIVED}
    assert set(RULES) == set(DERIVED) != set()
    kept = {field.name for field in FIELDS if field.paste is None}
    assert kept == {"padding_mask", "camera_intrinsics", "sample_seeds", "sample_keys"}
