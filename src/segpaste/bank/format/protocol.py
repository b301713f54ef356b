"""Protocol of a bank for samplers, loaders and sources, with checks for every bank; `stored` is the base of ours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from segpaste.bank.schema.record import Array, Crop, Layout

Columns = dict[str, Array]
"""Rows of some columns, by name, [n, ...] each."""


@runtime_checkable
class InstanceBank(Protocol):
    """Crops that can be read by index: the part of a bank that samplers, loaders and sources use."""

    @property
    def crop_size(self) -> tuple[int, int]:
        """Size (h, w) of every crop, pixels."""
        ...

    @property
    def class_frequencies(self) -> tuple[int, ...]:
        """Number of crops of each class."""
        ...

    @property
    def class_names(self) -> tuple[str, ...]:
        """Name of each class."""
        ...

    @property
    def version(self) -> str:
        """Identifier of the content; different content has a different version."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Crop: ...

    @property
    def layout(self) -> Layout:
        """Columns that the bank keeps."""
        ...

    @property
    def metric_depth(self) -> bool:
        """True if depth is in metres."""
        ...

    def read(
        self,
        indices: Sequence[int] | NDArray[np.int64],
        columns: Iterable[str] | None = None,
        out: Columns | None = None,
    ) -> Columns:
        """Read several crops, column by column, into new arrays or into ``out``."""
        ...

    def crop_class_ids(self) -> NDArray[np.int64]:
        """Return the class of every crop, [N]."""
        ...

    def close(self) -> None:
        """Close the files; the next read opens them again."""
        ...


def check_bank(owner: str, bank: object) -> None:
    """Check that a value has ``crop_class_ids``, as a bank has; the other members fail when they are used.

    Raises:
        TypeError: it is no bank, such as the path of one.
    """
    if isinstance(bank, type) or not hasattr(bank, "crop_class_ids"):
        raise TypeError(
            f"{owner}: expected an instance bank, got {type(bank).__name__} {bank!r:.80}; open one with open_bank(path)"
        )


def checked_read(
    where: str,
    num: int,
    layout: Layout,
    indices: Sequence[int] | NDArray[np.int64],
    columns: Iterable[str] | None,
    out: Columns | None,
) -> tuple[list[int], Columns]:
    """Return the crops to read, from 0 to ``num`` - 1, and the arrays of the columns to read them into.

    Banks call it in `InstanceBank.read`; see `segpaste.bank.StoredBank.read` for the arguments and errors.
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
