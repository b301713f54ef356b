"""Checked values of the data YAML of a YOLO dataset: names of classes, and the keypoints of pose labels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from segpaste.datasets.errors import DatasetError


def class_names(path: Path, document: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the name of each class: those under ``names``, or ``nc`` numbered ones.

    Raises:
        DatasetError: the value is invalid.
    """
    names, num = document.get("names"), document.get("nc")
    if num is not None and (isinstance(num, bool) or not isinstance(num, int) or num < 1):
        raise DatasetError(f"{path}: expected 'nc', the number of classes, got {num!r:.40}; correct it")
    if names is None:
        if num is None:
            raise DatasetError(
                f"{path}: expected the key 'names', or 'nc', the number of classes, got neither; add one"
            )
        return tuple(f"class_{i}" for i in range(num))
    if isinstance(names, dict):
        if not all(str(key).isdecimal() for key in names) or {int(key) for key in names} != {*range(len(names))}:
            raise DatasetError(
                f"{path}: expected 'names' of the classes 0 to {len(names) - 1}, got the keys {list(names)!r:.60}; "
                "number the classes from 0 without gaps"
            )
        names = [name for _, name in sorted(names.items(), key=lambda item: int(item[0]))]
    if not isinstance(names, list) or not names or any(isinstance(name, list | dict) for name in names):
        raise DatasetError(f"{path}: expected a list of names under the key 'names', got {names!r:.60}; correct it")
    if num is not None and num != len(names):
        raise DatasetError(f"{path}: expected as many names as 'nc' says, {num}, got {len(names)}; correct one of them")
    return tuple(str(name) for name in names)


def keypoint_shape(path: Path, shape: object) -> tuple[int, int] | None:
    """Return (P, D) of ``kpt_shape``: P points of D numbers; None without the key.

    Raises:
        DatasetError: the value is invalid.
    """
    if shape is None:
        return None
    is_pair = isinstance(shape, list) and len(shape) == 2 and all(type(value) is int for value in shape)
    if not isinstance(shape, list) or not is_pair or shape[0] < 1 or shape[1] not in (2, 3):
        raise DatasetError(
            f"{path}: expected 'kpt_shape: [P, 2]' or '[P, 3]', P points of x, y and optionally v, got {shape!r:.40}; "
            "correct it"
        )
    return shape[0], shape[1]


def keypoint_names(path: Path, names: object, num: int | None) -> tuple[str, ...] | None:
    """Return the names of the points; from a mapping of classes to names, those that all classes share.

    Raises:
        DatasetError: the value is invalid.
    """
    if names is None or num is None:
        return None
    lists = list(names.values()) if isinstance(names, dict) else [names]
    first = lists[0] if lists else None
    if not isinstance(first, list) or len({*map(str, first)}) != num or any(other != first for other in lists):
        raise DatasetError(
            f"{path}: expected 'kpt_names' of {num} points, each name once, the same for all classes, got "
            f"{names!r:.60}; correct or remove them"
        )
    return tuple(map(str, first))


def flip_idx(path: Path, order: object, num: int | None) -> tuple[int, ...] | None:
    """Return the index of each of P points in a flipped image; None without the key.

    Raises:
        DatasetError: the value is invalid.
    """
    if order is None or num is None:
        return None
    is_order = isinstance(order, list) and all(type(value) is int for value in order) and sorted(order) == [*range(num)]
    if not isinstance(order, list) or not is_order or any(order[other] != i for i, other in enumerate(order)):
        raise DatasetError(
            f"{path}: expected 'flip_idx', for each of {num} points the point that it swaps with when flipped, or "
            f"itself, got {order!r:.60}; correct it"
        )
    return tuple(order)
