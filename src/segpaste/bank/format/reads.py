"""Check of the arguments of a read, the same for every bank."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from segpaste.bank.format.protocol import Columns
from segpaste.bank.schema.record import Layout


def checked_read(
    where: str,
    num: int,
    layout: Layout,
    indices: Sequence[int] | NDArray[np.int64],
    columns: Iterable[str] | None,
    out: Columns | None,
) -> tuple[list[int], Columns]:
    """Return the crops to read, from 0 to ``num`` - 1, and the arrays of the columns to read them into.

    See `segpaste.bank.StoredBank.read` for the arguments and errors.
    """
    given = np.asarray(indices)
    if given.size and given.dtype.kind not in "iu":
        raise IndexError(f"{where}: expected integers as indices, got {given.dtype.name}")
    rows = given.astype(np.int64).reshape(-1)
    if len(wrong := rows[(rows < -num) | (rows >= num)]):
        raise IndexError(f"{where}: expected an index below {num}, got {wrong[0]}")
    names = list(columns) if columns is not None else list(layout.shapes if out is None else out)
    if out is None:
        out = layout.empty(len(rows), names)
    for name in names:
        array, shape, dtype = out[name], (len(rows), *layout.shapes[name]), layout.dtypes[name]
        if array.shape != shape or array.dtype != dtype or not array.flags.c_contiguous:
            raise ValueError(
                f"read: expected a contiguous {dtype.name} {list(shape)} for {name}, got {array.dtype.name} "
                f"{list(array.shape)}"
            )
    return (rows % max(num, 1)).tolist(), {name: out[name] for name in names}
