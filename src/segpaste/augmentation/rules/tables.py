"""Tables of a module: they move with it, and are copied to the devices of its batches if it was not moved there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn


class TableModule(nn.Module):
    """Module with tables that move with it and are not buffers.

    DistributedDataParallel broadcasts the buffers of a model before every step; tables are equal on all ranks anyway.

    Attributes:
        table_names: attributes that hold the tables.
    """

    table_names: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        super().__init__()
        self._copies = DeviceCopies()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name in self.table_names:
            setattr(self, name, fn(getattr(self, name)))
        return self


class DeviceCopies:
    """Copies of tables on other devices, made at the first use there and kept.

    A copy whose table was written or replaced since is refreshed in its own memory, so that a captured CUDA graph reads
    the new values. Compiled code reads copies that were made when it was traced, and copies nothing itself: there only
    `refresh` brings them up to date.

    The first values are there when `of` returns, for every stream. Later ones are written on the current stream, as
    every operation is: a step on another stream has to wait for it. Copies are not pickled, and a copy of the module
    makes its own.
    """

    def __init__(self) -> None:
        self._held: dict[torch.device, list[_Copy]] = {}

    def of(self, tables: Sequence[Tensor], device: torch.device) -> Sequence[Tensor]:
        """Return the tables on a device; tables that are there already are returned themselves.

        Args:
            tables: the same tables in the same order at each call, or tensors that replace them.
            device: device of the batch.
        """
        if all(table.device == device for table in tables):
            return tables
        if torch.compiler.is_exporting():  # a program of its own, traced on tensors without values
            return [table.to(device) for table in tables]
        self.hold_copies(device, *tables)
        return [copy.values for copy in self._held[device]]

    @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]  # runs when code is traced, not in it
    def hold_copies(self, device: torch.device, *tables: Tensor) -> bool:
        """Make the copies of the tables on a device, or bring them up to date; True, for compiled code."""
        if device not in self._held:
            self._held[device] = [_Copy(table, device) for table in tables]
        for copy, table in zip(self._held[device], tables, strict=True):
            copy.follow(table)
        return True

    def refresh(self, tables: Sequence[Tensor]) -> None:
        """Update all copies at once, for graphs that are replayed without another call of `of`."""
        for device in self._held:
            self.hold_copies(device, *tables)

    def __reduce__(self) -> tuple[Any, ...]:
        return DeviceCopies, ()


class _Copy:
    """Copy of one table, and the state of the table that it was taken from."""

    def __init__(self, table: Tensor, device: torch.device) -> None:
        with torch.inference_mode(False):  # so that it can be written later in any mode
            self.values = torch.empty(table.shape, dtype=table.dtype, device=device)
        self.table: Tensor | None = None
        self.version = -1

    def follow(self, table: Tensor) -> None:
        """Copy the table, unless it is unchanged; tensors of inference mode do not tell, and are always copied.

        The host waits for the first copy only.
        """
        version = -1 if table.is_inference() else table._version
        if table is self.table and version == self.version >= 0:
            return
        self.values.copy_(table, non_blocking=self.table is not None)
        self.table, self.version = table, version
