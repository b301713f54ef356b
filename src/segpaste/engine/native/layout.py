"""Places of the tensors of records in one block of memory, for functions that are called one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from segpaste.engine.record_fields import fields_of

T = TypeVar("T")

_WORD = 8


class _Place(NamedTuple):
    """Place of one field: its first word, and the shape and dtype of the tensor there."""

    name: str
    first: int
    shape: tuple[int, ...]
    dtype: torch.dtype


class Layout:
    """Places of the tensors of some records, for given sizes.

    Args:
        sizes: values of the symbols in the shapes; fields with another symbol have no place.
        records: classes of the records.

    Attributes:
        num_words: int64 words of the block.
        offsets: where each native field of each record begins in the block, bytes; None without a place.
    """

    def __init__(self, sizes: Mapping[str, int], *records: type) -> None:
        self.num_words = 0
        self.offsets: list[int | None] = []
        self._places: dict[Any, list[_Place]] = {record: [] for record in records}
        for record in records:
            for field in (field for field in fields_of(record) if "native" in field.backends):
                shape = tuple(sizes.get(size, -1) if isinstance(size, str) else size for size in field.shape)
                has_place = field.dtype is not None and min(shape) >= 0
                self.offsets.append(self.num_words * _WORD if has_place else None)
                if has_place and field.dtype is not None:
                    self._places[record].append(_Place(field.name, self.num_words, shape, field.dtype))
                    self.num_words += -(-math.prod(shape) * field.dtype.itemsize // _WORD)

    def record(self, record: Callable[..., T], block: Tensor, **others: Any) -> T:
        """Return a record whose tensors are views of the block.

        Args:
            record: its class.
            block: [num_words] int64.
            others: fields without a place.
        """
        views = {}
        for name, first, shape, dtype in self._places[record]:
            views[name] = block[first:].view(dtype)[: math.prod(shape)].view(shape)
        return record(**views, **others)
