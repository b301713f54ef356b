"""Fields of records, read from the annotations in `segpaste.engine.schema`.

Backends, operators and checks loop over these fields, so none of them repeats names, shapes or dtypes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple, TypeVar, get_type_hints

import torch

Backend = Literal["reference", "native", "triton"]

EVERY_BACKEND: Final[frozenset[Backend]] = frozenset({"reference", "native", "triton"})
NOT_NATIVE: Final[frozenset[Backend]] = frozenset({"reference", "triton"})
ONLY_REFERENCE: Final[frozenset[Backend]] = frozenset({"reference"})
FLAG: Final = object()
"""Mark of a number that is 0 or 1, and known when a kernel is compiled."""

T = TypeVar("T")

_NUMBERS: Final[Mapping[Any, int]] = {number: number for number in (1, 2, 3, 4)}
"""Sizes that are numbers already."""


class RecordField(NamedTuple):
    """One field of a record.

    Attributes:
        name: its name.
        shape: sizes of a tensor, numbers or symbols; empty for a number.
        dtype: dtype of a tensor; None for a number, and for images, whose dtype is that of the batch.
        is_optional: True if it may be None.
        backends: backends that read or write it.
    """

    name: str
    shape: tuple[str | int, ...]
    dtype: torch.dtype | None
    is_optional: bool
    backends: frozenset[Backend]


@cache
def fields_of(record: Any) -> tuple[RecordField, ...]:
    """Return the fields of a record in their order.

    A field is annotated as ``int`` or as ``Annotated[Tensor, "[B, L, 2] int64"]``. A further mark, such as
    `ONLY_REFERENCE`, says that not every backend has it.
    """
    hints = get_type_hints(record, include_extras=True).items()
    return tuple(field_of(name, hint) for name, hint in hints if hint is int or hasattr(hint, "__metadata__"))


def field_of(name: str, hint: Any) -> RecordField:
    """Return a field from its annotation."""
    kind, notes = getattr(hint, "__origin__", hint), getattr(hint, "__metadata__", ())
    dims, _, dtype = next((note for note in notes if isinstance(note, str)), "").partition("]")
    shape = tuple(int(size) if size.isdigit() else size for size in dims.lstrip("[").split(", ") if size)
    backends = next((note for note in notes if isinstance(note, frozenset)), EVERY_BACKEND)
    return RecordField(name, shape, getattr(torch, dtype.strip() or "None", None), isinstance(None, kind), backends)


def names_of(record: type, backend: Backend | None = None) -> tuple[str, ...]:
    """Return the names of the fields that a backend has; by default, all."""
    return tuple(f.name for f in fields_of(record) if backend is None or backend in f.backends)


def flags_of(record: type) -> tuple[str, ...]:
    """Return the names of the fields with the mark `FLAG`."""
    hints = get_type_hints(record, include_extras=True).items()
    return tuple(name for name, hint in hints if FLAG in getattr(hint, "__metadata__", ()))


@cache
def _tensors(record: Any) -> list[tuple[str, Callable[[Mapping[Any, int]], Any], torch.dtype | None]]:
    """Return name, function from sizes to shape, and dtype of the tensors of a record."""
    return [(f.name, itemgetter(*f.shape), f.dtype) for f in fields_of(record)]


def empty(record: Callable[..., T], device: torch.device, sizes: Mapping[str, int], **given: Any) -> T:
    """Allocate the tensors of a record that an engine writes.

    Args:
        record: class of the record.
        device: device of the tensors.
        sizes: values of the symbols in the shapes.
        given: fields that are not allocated.
    """
    values = {**sizes, **_NUMBERS}
    for name, shape, dtype in _tensors(record):
        if name not in given:
            given[name] = torch.empty(shape(values), dtype=dtype, device=device)
    return record(**given)
