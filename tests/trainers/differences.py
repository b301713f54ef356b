"""What a framework's own loader gives beside what ours gives, field by field, as the tables of the guide show it.

A structure is made of dictionaries, lists and tensors. The fields of its table are the paths to its tensors, where the
position in a list does not count: ``labels.boxes`` are the boxes of all images. A table is filled by many pairs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

GUIDE = Path(__file__).parents[2] / "docs" / "guide"
SAME = "the same"


class Row(NamedTuple):
    """One field of a table: what it is on each side, the largest difference of its numbers, and why they differ."""

    field: str
    theirs: str
    ours: str
    largest: str
    explanation: str


class Differences:
    """The table of one loader.

    Args:
        explanations: why a field differs, for those that do.
    """

    def __init__(self, explanations: Mapping[str, str]) -> None:
        self.explanations = explanations
        self.fields: dict[str, _Field] = {}

    def compare(self, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
        """Add what both sides give of the same images."""
        left, right = dict(_leaves(theirs)), dict(_leaves(ours))
        for path in sorted({*left, *right}):
            field = ".".join(str(key) for key in path if not isinstance(key, int))
            self.fields.setdefault(field, _Field()).add(left.get(path), right.get(path))

    def rows(self) -> list[Row]:
        """Return a row for each field.

        Raises:
            AssertionError: a field differs and is not explained, or is explained and does not differ.
        """
        rows = [
            Row(name, str(field.theirs), str(field.ours), field.largest(), self.explanations.get(name, ""))
            for name, field in self.fields.items()
        ]
        differing = {row.field for row in rows if row.largest != SAME}
        assert not differing - set(self.explanations), [row for row in rows if row.field in differing]
        assert not set(self.explanations) - differing, set(self.explanations) - differing
        return rows

    def expect_in_guide(self, page: str) -> None:
        """Expect the table on a page of the guide, as Markdown."""
        lines = ["| " + " | ".join(["field", "theirs", "ours", "largest difference", "why"]) + " |", "|---" * 5 + "|"]
        lines += [f"| `{field}` | " + " | ".join(cells) + " |" for field, *cells in self.rows()]
        table = "\n".join(lines)
        assert table in (GUIDE / page).read_text(encoding="utf-8"), f"docs/guide/{page} lacks the table\n\n{table}\n"


class _Side:
    """The dtypes and sizes that one side has of a field, and how often."""

    def __init__(self) -> None:
        self.dtypes: set[str] = set()
        self.sizes: list[set[int]] = []
        self.num = self.num_missing = 0

    def add(self, value: Tensor | None) -> None:
        if value is None:
            self.num_missing += 1
            return
        self.num += 1
        self.dtypes.add(str(value.dtype).removeprefix("torch."))
        self.sizes = self.sizes or [set() for _ in value.shape]
        for sizes, size in zip(self.sizes, value.shape, strict=True):
            sizes.add(size)

    def __str__(self) -> str:
        """Return dtype and shape; * is a size that changes."""
        if not self.num:
            return "–"
        shape = ", ".join(str(*sizes) if len(sizes) == 1 else "*" for sizes in self.sizes)
        shape = f" [{shape}]" if shape else ""
        partly = f", {self.num} of {self.num + self.num_missing}" if self.num_missing else ""
        return f"{' or '.join(sorted(self.dtypes))}{shape}{partly}"


class _Field:
    """What both sides have of a field."""

    def __init__(self) -> None:
        self.theirs, self.ours = _Side(), _Side()
        self.most = 0.0
        self.num_pairs = 0
        self.has_other_shape = False

    def add(self, theirs: Tensor | None, ours: Tensor | None) -> None:
        self.theirs.add(theirs)
        self.ours.add(ours)
        if theirs is None or ours is None:
            return
        self.num_pairs += 1
        if theirs.shape != ours.shape:
            self.has_other_shape = True
        elif theirs.numel():
            self.most = max(self.most, float((theirs.double() - ours.double()).abs().max()))

    def largest(self) -> str:
        """Return the largest difference: a number of three digits, a rounding error as the power of ten above it."""
        if self.has_other_shape:
            return "shape"
        if self.most:
            return f"{self.most:.3g}" if self.most >= 1e-3 else f"< 1e{math.floor(math.log10(self.most)) + 1}"
        if not self.num_pairs:
            return "–"
        one_side_lacks = self.theirs.num_missing or self.ours.num_missing
        return "0" if one_side_lacks or self.theirs.dtypes != self.ours.dtypes else SAME


def _leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Tensor]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _leaves(item, (*path, number))
    else:
        yield path, torch.as_tensor(value).as_subclass(Tensor)
