"""Columns of tables: ids, references and texts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segpaste.datasets.formats.records import lookup, repeated

Column = NDArray[Any]


def id_column(ids: Iterable[int]) -> Column:
    """Return ids as an array of integers, or of decimal text if they exceed 64 bits; `int` reads an element."""
    found = list(ids)
    try:
        return np.array(found, np.int64)
    except OverflowError:
        return np.array([str(number).encode() for number in found])


def join_columns(parts: Iterable[Column]) -> Column:
    """Join the id columns of blocks."""
    found = list(parts)
    if any(part.dtype.kind == "S" for part in found):
        found = [part.astype("S") for part in found]
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def narrow(values: Column) -> Column:
    """Return integers in the smallest type that holds them all; with negative integers the type does not change."""
    if values.dtype.kind not in "iu" or not values.size or values.min() < 0:
        return values
    return values.astype(np.min_scalar_type(values.max()))


def check_unique(path: Path, name: str, ids: Column) -> None:
    """Raise `DatasetError` if two rows of a table have the same id."""
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    is_again = ordered[1:] == ordered[:-1]
    if is_again.any():
        raise repeated(path, name, int(ids[order[1:][is_again].min()]))


def positions_in(ids: Column, wanted: Column) -> NDArray[np.int64]:
    """Return the position of each wanted id in a column of unique ids, -1 if it is missing; [wanted] int64."""
    if "S" in (ids.dtype.kind, wanted.dtype.kind):
        ids, wanted = ids.astype("S"), wanted.astype("S")
    if not ids.size:
        return np.full(wanted.size, -1, np.int64)
    order = np.argsort(ids, kind="stable")
    found = order[np.searchsorted(ids, wanted, sorter=order).clip(max=ids.size - 1)]
    return np.where(ids[found] == wanted, found, -1)


def check_references(path: Path, ids: Column, references: dict[str, tuple[Column, NDArray[np.int64]]]) -> None:
    """Raise `DatasetError` for the first annotation that refers to a missing row.

    Args:
        path: the file.
        ids: ids of the annotations.
        references: for each table name, the ids that annotations refer to and their positions there, -1 if missing.
    """
    bad = [np.flatnonzero(positions < 0)[:1].tolist() for _, positions in references.values()]
    if first := [row for rows in bad for row in rows]:
        row = min(first)
        for name, (wanted, positions) in references.items():
            if positions[row] < 0:
                lookup(path, f"annotation {int(ids[row])}", int(wanted[row]), {}, name)


def pack_texts(texts: Iterable[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Concatenate texts in UTF-8, and return them with the end of each text."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
    return np.frombuffer(b"".join(encoded), np.uint8), ends


def unpack_text(packed: Column, ends: Column, position: int) -> str:
    """Return one of the texts of `pack_texts`."""
    start = int(ends[position - 1]) if position else 0
    return packed[start : int(ends[position])].tobytes().decode("utf-8", "surrogatepass")


def firsts_of(groups: NDArray[np.int64], num_groups: int) -> NDArray[np.int64]:
    """Return the start of each group among members sorted by group, and the end of the last; [groups + 1] int64."""
    return np.concatenate([[0], np.cumsum(np.bincount(groups, minlength=num_groups))]).astype(np.int64)
