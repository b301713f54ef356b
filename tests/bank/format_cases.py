"""Banks of every format whose crops are known by their index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bank_cases import POINTS

from segpaste.bank import Crop, Layout, StoredBank, WebDatasetWriter
from segpaste.bank import format as formats
from segpaste.bank.format.writer import FolderWriter
from segpaste.bank.schema.record import GROUPS

WRITERS: dict[str, Callable[..., FolderWriter]] = {
    **formats.WRITERS,
    "webdataset": partial(WebDatasetWriter, shard_bytes=6000),
}
FORMATS = pytest.mark.parametrize("kind", WRITERS)
NAMES = ("cup", "chair", "lamp")
SIZE = (5, 7)
NUM = 23


_CROPS: dict[tuple[np.dtype[Any], int], Crop] = {}


def make_crop(layout: Layout, index: int) -> Crop:
    """A pure function of its arguments, so that every process knows what it must read; crops are made once."""
    key = layout.dtype, index
    if key not in _CROPS:
        _CROPS[key] = _crop(layout, index)
    return _CROPS[key]


def _crop(layout: Layout, index: int) -> Crop:
    rng = np.random.default_rng(index)
    values: dict[str, Any] = {}
    for column in layout.columns:
        shape, dtype = layout.shape(column), np.dtype(column.dtype)
        if dtype.kind == "f":
            values[column.name] = rng.normal(size=shape).astype(dtype)
        else:
            values[column.name] = rng.integers(0, 2 if dtype.kind == "b" else 100, shape).astype(dtype)
        if column.name == "scale":
            values[column.name] = dtype.type(rng.uniform(0.1, 1))
        if column.name == "intrinsics":
            values[column.name] = np.abs(values[column.name]) + dtype.type(1)
        if column.name == "keypoints":
            values[column.name][:, 2] = rng.integers(1, 3, len(values[column.name]))
        if not shape:
            values[column.name] = values[column.name].item()
        else:
            values[column.name].flags.writeable = False
    return Crop(**{**values, "class_id": index % len(NAMES)})


def assert_equal(actual: Crop, expected: Crop) -> None:
    for field in fields(Crop):
        one, other = getattr(actual, field.name), getattr(expected, field.name)
        assert (one is None) == (other is None), field.name
        if isinstance(other, np.ndarray):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other, err_msg=field.name)
        else:
            assert one == other, field.name


def write(kind: str, path: Path, num: int = NUM, groups: Any = GROUPS, first: int = 0) -> Path:
    layout = Layout(SIZE, groups, POINTS)
    with WRITERS[kind](path, layout, NAMES, build_seed=7) as writer:
        for index in range(first, first + num):
            writer.add(make_crop(layout, index))
        return writer.finish()


def assert_sound(bank: StoredBank, num: int = NUM) -> None:
    bank.verify()
    assert len(bank) == num
    for index in range(num):
        assert_equal(bank[index], make_crop(bank.layout, index))
    np.testing.assert_array_equal(bank.crop_class_ids(), np.arange(num) % len(NAMES))


def read_all(bank: StoredBank, seed: int) -> bool:
    """Read all crops many times, so that processes that share an offset in a file meet each other's."""
    rng = np.random.default_rng(seed)
    images = np.stack([make_crop(bank.layout, index).image for index in range(NUM)])
    for _ in range(100):
        order = rng.permutation(NUM)
        np.testing.assert_array_equal(bank.read(order, ["image"])["image"], images[order])
    return True


_INHERITED: list[StoredBank] = []


def inherit(bank: StoredBank) -> None:
    """Keep a bank for `read_inherited`: a forked process has it as it is, while the arguments of tasks are pickled."""
    _INHERITED[:] = [bank]


def read_inherited(seed: int) -> bool:
    return read_all(_INHERITED[0], seed)
