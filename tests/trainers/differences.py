"""Differences between a framework's own loader and ours, field by field, as the tables of the guide show them.

A structure is made of dictionaries, lists and tensors. The fields of its table are the paths to its tensors, where the
position in a list does not count: ``labels.boxes`` are the boxes of all images. A table is filled by many pairs.

`Objects` compares tensors with a row for each object by object: the order of the rows may differ, and one side may lack
some.
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


class Objects(NamedTuple):
    """Rules that tell which rows of the two sides are the same object.

    Attributes:
        same: fields [N] or [N, 1] that are equal on both sides.
        near: the field [N, D] by which rows that agree in those are paired, the nearest first.
        rows: further fields with a row for each object.
    """

    same: tuple[str, ...]
    near: str
    rows: tuple[str, ...] = ()

    def pairs(self, theirs: Mapping[str, Tensor], ours: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the rows of the same objects on both sides, [M] int64 each."""
        distances = torch.cdist(theirs[self.near].double(), ours[self.near].double())
        for name in self.same:
            distances[theirs[name].reshape(-1, 1) != ours[name].reshape(1, -1)] = math.inf
        found = []
        for place in distances.flatten().argsort(stable=True).tolist():
            left, right = divmod(place, distances.shape[1])
            if math.isinf(float(distances[left, right])):
                continue
            found.append((left, right))
            distances[left], distances[:, right] = math.inf, math.inf
        both = torch.tensor(sorted(found), dtype=torch.int64).reshape(-1, 2)
        return both[:, 0], both[:, 1]


class Differences:
    """The table of one loader.

    Args:
        explanations: why a field differs, for those that do.
        objects: which fields are compared object by object; fields by their place if it is left out.
    """

    def __init__(self, explanations: Mapping[str, str], objects: Objects | None = None) -> None:
        self.explanations, self.objects = explanations, objects
        self.fields: dict[str, _Field] = {}

    def compare(self, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
        """Add what both sides give of the same images."""
        left, right = dict(_leaves(theirs)), dict(_leaves(ours))
        pairs = None if self.objects is None else self.objects.pairs(theirs, ours)
        names = () if self.objects is None else {*self.objects.same, self.objects.near, *self.objects.rows}
        for path in sorted({*left, *right}):
            field = ".".join(str(key) for key in path if not isinstance(key, int))
            self.fields.setdefault(field, _Field()).add(
                left.get(path), right.get(path), pairs if field in names else None
            )

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
    """Values of a field on both sides."""

    def __init__(self) -> None:
        self.theirs, self.ours = _Side(), _Side()
        self.most = 0.0
        self.num_pairs = 0
        self.num_alone = 0
        self.has_other_shape = self.has_other_order = False

    def add(self, theirs: Tensor | None, ours: Tensor | None, pairs: tuple[Tensor, Tensor] | None = None) -> None:
        """Add what both sides have; ``pairs`` are the rows [M] of the same objects."""
        self.theirs.add(theirs)
        self.ours.add(ours)
        if theirs is None or ours is None:
            return
        self.num_pairs += 1
        if pairs is not None:
            self.num_alone += len(theirs) + len(ours) - 2 * len(pairs[0])
            is_sorted = torch.equal(pairs[1].sort().values, pairs[1])
            self.has_other_order |= not is_sorted and not torch.equal(theirs, ours)
            theirs, ours = theirs[pairs[0]], ours[pairs[1]]
        if theirs.shape != ours.shape:
            self.has_other_shape = True
        elif (differ := theirs != ours).any():
            self.most = max(self.most, float((theirs[differ].double() - ours[differ].double()).abs().max()))

    def largest(self) -> str:
        """Return what differs: rows, their order, and the largest difference of the numbers."""
        if self.has_other_shape:
            return "shape"
        if not self.num_pairs:
            return "–"
        rows = f"{self.num_alone} row{'s' * (self.num_alone > 1)} of one side" if self.num_alone else ""
        parts = [rows, "order" if self.has_other_order else "", self._number()]
        return ", ".join(part for part in parts if part)

    def _number(self) -> str:
        """Return the largest difference in three digits, or for a rounding error the power of ten above it."""
        if self.most:
            return f"{self.most:.3g}" if self.most >= 1e-3 else f"< 1e{math.floor(math.log10(self.most)) + 1}"
        one_side_lacks = self.theirs.num_missing or self.ours.num_missing
        differs = one_side_lacks or self.theirs.dtypes != self.ours.dtypes or self.num_alone or self.has_other_order
        return "0" if differs else SAME


def _leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Tensor]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _leaves(item, (*path, number))
    else:
        yield path, torch.as_tensor(value).as_subclass(Tensor)
