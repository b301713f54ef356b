"""Columns of tables: ids, references and texts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


def repeats(ids: Column) -> NDArray[np.bool_]:
    """Return for each id whether it occurs before in the column."""
    order = np.argsort(ids, kind="stable")
    ordered, is_again = ids[order], np.zeros(len(ids), bool)
    is_again[order[1:]] = ordered[1:] == ordered[:-1]
    return is_again


def positions_in(ids: Column, wanted: Column) -> NDArray[np.int64]:
    """Return the position of each wanted id in a column of unique ids, -1 if it is missing; [wanted] int64."""
    if "S" in (ids.dtype.kind, wanted.dtype.kind):
        ids, wanted = ids.astype("S"), wanted.astype("S")
    if not ids.size:
        return np.full(wanted.size, -1, np.int64)
    order = np.argsort(ids, kind="stable")
    found = order[np.searchsorted(ids, wanted, sorter=order).clip(max=ids.size - 1)]
    return np.where(ids[found] == wanted, found, -1)


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
