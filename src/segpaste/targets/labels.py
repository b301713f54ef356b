"""Label maps: conversion between the class ids of a framework and our labels. They do not map names of classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

LabelMap = int | Sequence[int] | Mapping[int, int] | NDArray[np.integer[Any]] | Tensor
"""Class ids of a framework: a number to add to ours, one id for each of our classes (a list, an array of integers), or
a table."""


def to_framework(labels: Tensor, label_map: LabelMap) -> Tensor:
    """Return the framework's class ids of labels.

    Args:
        labels: [N] int64.
        label_map: see `LabelMap`.

    Raises:
        TypeError: ``label_map`` is of another class.
        ValueError: it has no id for a label, or is a negative number.
    """
    table = _table(label_map)
    if isinstance(table, int):
        return labels + table
    return _looked_up(labels, table, "label_map: expected a class id for every label")


def from_framework(ids: Tensor, label_map: LabelMap) -> Tensor:
    """Return the labels of class ids of a framework: the inverse of `to_framework`.

    Raises:
        TypeError: ``label_map`` is of another class.
        ValueError: it gives two labels the same id, is a negative number, or has no label for an id.
    """
    table = _table(label_map)
    if isinstance(table, int):
        labels = ids - table
        if bool((labels < 0).any()):
            raise ValueError(
                f"label_map={table}: expected class ids from {table}, got {int(ids.min())}; "
                "is 0 the background? Give the label map of these targets"
            )
        return labels
    inverse = {class_id: label for label, class_id in table.items()}
    if len(inverse) < len(table):
        raise ValueError(
            "label_map: expected a different class id for each label, got one twice, which cannot be inverted"
        )
    return _looked_up(ids, inverse, "label_map: expected a label for every class id")


def _table(label_map: Any) -> int | dict[int, int]:
    """Return a label map as a number to add, or as the class id of each label."""
    if isinstance(label_map, Tensor | np.ndarray | np.generic):
        label_map = label_map.tolist()
    if isinstance(label_map, Mapping):
        return {_integer(label): _integer(class_id) for label, class_id in label_map.items()}
    if isinstance(label_map, Sequence) and not isinstance(label_map, str | bytes):
        return dict(enumerate(map(_integer, label_map)))
    if (first := _integer(label_map)) < 0:
        raise ValueError(f"label_map: expected the class id of label 0, at least 0, got {first}")
    return first


def _integer(value: Any) -> int:
    """Return an entry of a label map as an integer."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise TypeError(
            "label_map: expected an integer to add, a list of class ids, a dict from labels to class ids, or an array "
            f"of integers, got {value!r:.40}, a {type(value).__name__}"
        )
    return int(value)


def _looked_up(values: Tensor, table: Mapping[int, int], expected: str) -> Tensor:
    found = [table.get(value) for value in values.tolist()]
    if None in found:
        missing = values.tolist()[found.index(None)]
        raise ValueError(f"{expected}, got none for {missing}; it has {sorted(table)[:20]}")
    return torch.tensor(found, dtype=torch.int64, device=values.device)
