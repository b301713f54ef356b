"""Classes of a dataset of maps: their names, ids and colours, from a declaration or from a list in a file."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.maps.declaration import ClassEntry
from segpaste.datasets.formats.name_lists import class_name_of
from segpaste.datasets.formats.text_files import read_lines

NO_CLASS = -1
"""Label of void pixels. It is not 255, as in semantic maps of samples, because 255 may be a class here."""

_MOST_DIRECT = 1 << 16
"""Limit of stored values that are looked up in a table."""


@dataclass(frozen=True)
class Classes:
    """Classes by ascending id: class i is at position i.

    Attributes:
        names: the name of each class.
        ids: the value of each class in the files.
        colors: (R, G, B) of each class; None without colours.
    """

    names: tuple[str, ...]
    ids: tuple[int, ...]
    colors: tuple[tuple[int, int, int], ...] | None = None

    @classmethod
    def of_entries(cls, entries: Sequence[ClassEntry], place: str) -> Classes:
        """Number the classes of a declaration.

        Raises:
            DatasetError: two classes have the same id, or only some classes have a colour.
        """
        numbered = sorted(
            ((position if entry.id is None else entry.id, entry) for position, entry in enumerate(entries)),
            key=lambda pair: pair[0],
        )
        ids = tuple(number for number, _ in numbered)
        if len(set(ids)) != len(ids):
            twice = next(number for number in ids if ids.count(number) > 1)
            raise DatasetError(f"{place}: expected a unique id for each class, got {twice} twice; correct one")
        colors = tuple(entry.color for _, entry in numbered if entry.color is not None)
        if colors and len(colors) != len(ids):
            raise DatasetError(f"{place}: expected a colour for all classes or for none; add the missing ones")
        return cls(tuple(entry.name for _, entry in numbered), ids, colors or None)

    def label_named(self, name: str, place: str) -> int:
        """Return the class of a name.

        Raises:
            DatasetError: there is no such class.
        """
        if name not in self.names:
            raise DatasetError(
                f"{place}: expected one of the classes {', '.join(self.names):.120}, got {name!r}; add it to 'classes'"
            )
        return self.names.index(name)

    @cached_property
    def label_of(self) -> dict[int, int]:
        """Class by id."""
        return {number: label for label, number in enumerate(self.ids)}

    def labels_of(self, ids: NDArray[np.int64], void: Sequence[int], place: str) -> NDArray[np.int64]:
        """Return the class of each id, `NO_CLASS` for void.

        Args:
            ids: an array of any shape.
            void: ids without a class.
            place: path of the file, for errors.

        Raises:
            DatasetError: an id is neither of a class nor void.
        """
        found = distinct(ids)
        table = dict.fromkeys(void, NO_CLASS) | self.label_of
        strange = [number for number in found if number not in table]
        if strange:
            raise DatasetError(
                f"{place}: expected the ids of classes, {_shown(self.ids)}, or void ones, {_shown(void)}, got "
                f"{_shown(strange)}; add them to 'classes' or to 'void'"
            )
        return np.array([table[number] for number in found], np.int64)[positions(ids, found)]


def distinct(values: NDArray[np.int64]) -> list[int]:
    """Return the distinct values, ascending."""
    if not values.size:
        return []
    low, high = int(values.min()), int(values.max())
    if high - low < _MOST_DIRECT:
        return [int(v) + low for v in np.flatnonzero(np.bincount((values - low).ravel()))]
    return [int(v) for v in np.unique(values)]


def positions(values: NDArray[np.int64], found: Sequence[int]) -> NDArray[np.int64]:
    """Return the position of each value among the distinct values, which are ascending and complete."""
    if not len(found) or found[-1] - found[0] >= _MOST_DIRECT:
        return np.searchsorted(np.array(found, np.int64), values).astype(np.int64)
    table = np.zeros(found[-1] - found[0] + 1, np.int64)
    table[np.array(found) - found[0]] = np.arange(len(found))
    return np.asarray(table[values - found[0]])


def read_class_list(path: Path) -> tuple[ClassEntry, ...]:
    """Read a list of classes.

    Three forms are read: a name on each line, or a string of JSON, see `segpaste.datasets.formats.name_lists`;
    ``R G B name`` on each line; and CSV with the columns name, r, g and b. Empty lines and those that start with ``#``
    are left out.

    Raises:
        DatasetError: the file is missing, or has another form.
    """
    try:
        lines = [line.strip() for line in read_lines(path)]
    except FileNotFoundError:
        raise DatasetError(f"{path}: expected a list of class names, found no such file; check 'classes'") from None
    except OSError as error:
        raise DatasetError(f"{path}: expected a text file of class names, could not read it ({error})") from error
    lines = [line for line in lines if line and not line.startswith("#")]
    if not lines:
        raise DatasetError(f"{path}: expected a class name on each line, got no line; add them")
    if path.suffix.lower() == ".csv":
        return _of_csv(path, lines)
    words = [line.split(maxsplit=3) for line in lines]
    if all(len(row) == 4 and all(word.isdecimal() for word in row[:3]) for row in words):
        return tuple(ClassEntry(name=row[3], color=(int(row[0]), int(row[1]), int(row[2]))) for row in words)
    return tuple(ClassEntry(name=class_name_of(line)) for line in lines)


def _of_csv(path: Path, lines: list[str]) -> tuple[ClassEntry, ...]:
    rows = [{str(key).strip().lower(): value for key, value in row.items()} for row in csv.DictReader(lines)]
    try:
        return tuple(
            ClassEntry(name=row["name"].strip(), color=(int(row["r"]), int(row["g"]), int(row["b"]))) for row in rows
        )
    except (KeyError, ValueError, AttributeError):
        raise DatasetError(f"{path}: expected the columns name, r, g and b, got {lines[0]!r:.60}; correct it") from None


def _shown(values: Sequence[int]) -> str:
    if not values:
        return "none"
    return ", ".join(map(str, values[:8])) + (", ..." if len(values) > 8 else "")
