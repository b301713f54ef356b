"""Lookup tables of a module: they follow `module.to()`, and are copied once to the device of a batch elsewhere.

`ClassTables` has the things, the stuff and the priorities of a taxonomy.

`inverse_weights` and `log_table` are for draws of slots that are balanced over classes, to a degree set by a
temperature. Slots are drawn one after another without replacement, in proportion to their weights
w = n ** -temperature, where n is the number of objects of the slot's class: Efraimidis and Spirakis, "Weighted random
sampling with a reservoir" (Information Processing Letters, 2006). The largest keys u ** (1 / w) of the paper are the
smallest -log2(u) / w, the shortest waiting times. All arithmetic is in integers, from tables made in decimal
arithmetic, so every machine and device gives the same bits.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, DTypeLike
from torch import Tensor, nn

from segpaste.augmentation.config.paste import PanopticConfig
from segpaste.engine import Classes
from segpaste.types.check import not_none
from segpaste.types.tracing import fake_mode, real_tensors

Tables = Sequence[Tensor]

TEMPERATURE_ONE = 1 << 32
"""Temperature 1 in units of 2**-32."""

MOST_ALIKE = 256
"""Largest number of objects of a class that is distinguished; larger numbers count as this."""

_WEIGHT_ONE = 1 << 16
_LOG_ONE = 1 << 32
_LOG_STEPS = 256
_DIGITS = Context(prec=20, rounding=ROUND_HALF_EVEN)  # its logarithms and powers of e are rounded correctly everywhere


def table(values: ArrayLike, dtype: DTypeLike = np.int64) -> Tensor:
    """Return a tensor of these values in memory of its own, on the CPU.

    NumPy makes it, so no default device and no context of fake or empty tensors changes that.
    """
    with real_tensors(), torch.inference_mode(False):  # so that it can be written later in any mode
        return torch.from_numpy(np.array(values, dtype))


def holds_numbers(device: torch.device) -> bool:
    """Return whether operators get the numbers of a config in a tensor, on the CPU.

    Compiled code is compiled again for every number that it reads from a module, and torch allows eight such versions.
    So on the CPU it gets a tensor. On other devices it gets the numbers: operators are recorded with them in CUDA
    graphs.
    """
    return torch.compiler.is_compiling() and device.type == "cpu" and not torch.compiler.is_exporting()


class TableModule(nn.Module):
    """Module with tables that move with it and are not buffers.

    DistributedDataParallel broadcasts the buffers of a model before every step; tables are equal on all ranks anyway.

    The values of all tables follow from Python values, by `made`. Functions that move or convert a module, such as
    ``to_empty`` or ``type``, decide the device of the tables, never their values.

    Attributes:
        table_names: attributes that hold the tables.
    """

    table_names: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        super().__init__()
        self._copies = DeviceCopies(self.made)

    @abstractmethod
    def made(self) -> Tables:
        """Make all tables, in the order of ``table_names``, on the CPU."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        held: Tables = [getattr(self, name) for name in self.table_names]
        if any(map(is_lost, held)):
            held = self.made()
        for name, own in zip(self.table_names, held, strict=True):
            applied = fn(own)
            setattr(self, name, own if applied is own else own.to(applied.device))
        return self

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._copies = DeviceCopies(self.made)
        for name, new in zip(self.table_names, self.made(), strict=True):
            old = state[name]
            setattr(self, name, new if is_lost(old) else new.to(old.device))


def is_lost(values: Tensor) -> bool:
    """Return whether a tensor has a shape only: it is on ``meta``, or a fake tensor."""
    return values.is_meta or type(values).__torch_dispatch__ is not Tensor.__torch_dispatch__


class DeviceCopies:
    """Copies of tables on other devices, made at the first use there and kept.

    A copy whose table was written or replaced since is refreshed in its own memory, so that a captured CUDA graph reads
    the new values. Compiled code reads copies that were made when it was traced, and copies nothing itself: there only
    `refresh` brings them up to date.

    The first values are there when `of` returns, for every stream. Later ones are written on the current stream, as
    every operation is: a step on another stream has to wait for it. Copies are not pickled, and a copy of the module
    makes its own.

    Args:
        made: makes the tables again, for tables that lost their values.
    """

    def __init__(self, made: Callable[[], Tables]) -> None:
        self._made = made
        self._held: dict[torch.device, list[_Copy]] = {}

    def of(self, tables: Tables, device: torch.device) -> Tables:
        """Return the tables on a device; tables that are there already are returned themselves.

        Args:
            tables: the same tables in the same order at each call, or tensors that replace them.
            device: device of the batch.
        """
        if not torch.compiler.is_compiling() and (mode := fake_mode()) is not None:
            return [mode.from_tensor(table).to(device) for table in tables]
        if all(table.device == device for table in tables):
            return tables
        if torch.compiler.is_exporting():  # a program of its own, traced on tensors without values
            return [table.to(device) for table in tables]
        self.hold_copies(device, *tables)
        return [copy.values for copy in self._held[device]]

    @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]  # runs when code is traced, not in it
    def hold_copies(self, device: torch.device, *tables: Tensor) -> bool:
        """Make the copies of the tables on a device, or bring them up to date; True, for compiled code."""
        if any(map(is_lost, tables)) and device.type != "meta":
            if device in self._held:
                return True
            tables = tuple(self._made()[: len(tables)])
        self._follow(device, tables)
        return True

    def refresh(self, tables: Tables) -> None:
        """Update all copies at once, for graphs that are replayed without another call of `of`."""
        if any(map(is_lost, tables)):
            tables = self._made()[: len(tables)]
        for device in self._held:
            self._follow(device, tables)

    def _follow(self, device: torch.device, tables: Tables) -> None:
        if device not in self._held:
            self._held[device] = [_Copy(table, device) for table in tables]
        for copy, table in zip(self._held[device], tables, strict=True):
            copy.follow(table)

    def __reduce__(self) -> tuple[Any, ...]:
        return DeviceCopies, (self._made,)


class _Copy:
    """Copy of one table, and the state of the table that it was taken from."""

    def __init__(self, table: Tensor, device: torch.device) -> None:
        with real_tensors(), torch.inference_mode(False):  # so that it can be written later in any mode
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
        with real_tensors():
            self.values.copy_(table, non_blocking=self.table is not None)
        self.table, self.version = table, version


class ClassTables(TableModule):
    """Things, stuff and priorities of a taxonomy as look-up tables, which move with the module."""

    table_names = "is_thing", "is_stuff", "class_rank"

    def __init__(self, config: PanopticConfig) -> None:
        super().__init__()
        self._config = config
        self.num_classes = max(config.taxonomy.classes) + 1
        self.is_thing, self.is_stuff, self.class_rank = self.made()

    def made(self) -> Tables:
        """Make the tables of things, of stuff and of priorities; the last is empty if there are none."""
        kinds = [self._config.taxonomy.classes.get(c) for c in range(self.num_classes)]
        priority = self._config.contact_priority
        ranks = [priority.get(c, 0) for c in range(self.num_classes)] if any(priority.values()) else []
        return [*(table([k == kind for k in kinds], np.bool_) for kind in ("thing", "stuff")), table(ranks, np.int16)]

    def things(self, labels: Tensor) -> Tensor:
        """Return whether each label is a thing class, bool; labels outside the taxonomy are not."""
        known = (labels >= 0) & (labels < self.num_classes)
        return known & not_none(self.tables_on(labels.device).is_thing)[labels.clamp(0, self.num_classes - 1)]

    @property
    def tables(self) -> Classes:
        """All tables, as an engine takes them."""
        return Classes(self.is_thing, self.is_stuff, self.class_rank if len(self.class_rank) else None)

    def tables_on(self, device: torch.device) -> Classes:
        """Return `tables` on a device; of a module that is elsewhere, copies that are kept."""
        tables = [table for table in self.tables if table is not None]
        return Classes(*self._copies.of(tables, device))


def inverse_weights(temperature: int) -> Tensor:
    """Return n ** temperature, the waiting time of a slot relative to that of the only slot of a class.

    Args:
        temperature: in units of 2**-32, from 0 to `TEMPERATURE_ONE`.

    Returns:
        [257] int64 for n = 0 .. `MOST_ALIKE`, in units of 2**-16; 1 for n = 0, which does not occur.
    """
    with localcontext(_DIGITS):
        exponent = Decimal(temperature) / TEMPERATURE_ONE
        powers = [round((log * exponent).exp() * _WEIGHT_ONE) for log in _logarithms(MOST_ALIKE)]
    return table([_WEIGHT_ONE, *powers])


def log_table() -> Tensor:
    """Return log2(1 + i / 256) for i = 0 .. 256, in units of 2**-32, [257] int64."""
    logs = _logarithms(2 * _LOG_STEPS)
    with localcontext(_DIGITS):
        octave = [(log - logs[_LOG_STEPS - 1]) / logs[1] for log in logs[_LOG_STEPS - 1 :]]
        return table([round(log * _LOG_ONE) for log in octave])


@cache
def _logarithms(last: int) -> tuple[Decimal, ...]:
    """Return the natural logarithms of 1 .. ``last``."""
    with localcontext(_DIGITS):
        return tuple(Decimal(number).ln() for number in range(1, last + 1))
