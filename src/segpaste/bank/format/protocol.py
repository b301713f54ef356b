"""Protocol of a bank for samplers, loaders and sources; the base of our formats is `segpaste.bank.format.stored`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from segpaste.bank.schema.record import Array, Crop, Layout

Columns = dict[str, Array]
"""Rows of some columns, [n, ...] each, by name."""


@runtime_checkable
class InstanceBank(Protocol):
    """Crops that can be read by index; what samplers, loaders and sources ask of a bank."""

    @property
    def crop_size(self) -> tuple[int, int]:
        """(h, w) of every crop, pixels."""
        ...

    @property
    def class_frequencies(self) -> tuple[int, ...]:
        """Crops of each class."""
        ...

    @property
    def class_names(self) -> tuple[str, ...]:
        """Of each class."""
        ...

    @property
    def version(self) -> str:
        """Another one for other content."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Crop: ...

    @property
    def layout(self) -> Layout:
        """The columns that it keeps."""
        ...

    @property
    def metric_depth(self) -> bool:
        """Depth is in metres."""
        ...

    def read(
        self,
        indices: Sequence[int] | NDArray[np.int64],
        columns: Iterable[str] | None = None,
        out: Columns | None = None,
    ) -> Columns:
        """Several crops, column by column, new arrays or into ``out``."""
        ...

    def crop_class_ids(self) -> NDArray[np.int64]:
        """The class of every crop, [N]."""
        ...

    def close(self) -> None:
        """Let go of the files; reading opens them again."""
        ...


def check_bank(owner: str, bank: object) -> None:
    """A value can tell the classes of its crops, as a bank does; the rest is asked for where it is read.

    Raises:
        TypeError: otherwise, such as the path of one.
    """
    if isinstance(bank, type) or not hasattr(bank, "crop_class_ids"):
        raise TypeError(
            f"{owner}: expected an instance bank, got {type(bank).__name__} {bank!r:.80}; open one with open_bank(path)"
        )
