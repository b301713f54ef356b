"""Datasets of two splits as `segpaste convert --for` writes them, which a trainer's own entry point must open."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest import mock

from segpaste.datasets import convert_dataset

ROOT = Path(__file__).parents[2]
with mock.patch.object(sys, "path", [str(ROOT / "tests" / "tools"), *sys.path]):
    from split_files import NUM_IMAGES as NUM_IMAGES
    from split_files import NUM_OBJECTS as NUM_OBJECTS
    from split_files import write_splits


def written_for(tool: str, folder: Path, splits: tuple[str, ...] = ("train", "val"), to: str | None = None) -> Path:
    """Write a dataset for a tool and return its folder; the summary must tell whether the tool starts."""
    summary = convert_dataset(write_splits(folder / "given", splits), folder / tool, to, tool=tool)
    assert summary.start is not None
    assert not [what for what in summary.losses if not what.startswith("masks of objects (the task")]
    assert bool(summary.start.lacks) == (len(splits) < 2)
    assert str(summary.out) in summary.start.call
    return summary.out
