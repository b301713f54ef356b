"""Checks of the values of a row of a dataset of the ``datasets`` package, and decoding of images left undecoded.

Each function takes ``place``, the row and the column, and names it in its errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from segpaste.datasets.formats.image_files import EIGHT_BIT_MODES, open_image
from segpaste.datasets.formats.stored_pixels import read_stored

_MOST = float(np.finfo(np.float32).max) / 4
"""Largest coordinate: sums and areas stay finite in float32."""
_READ = ("bbox", "category", "iscrowd", "segmentation")

Objects = dict[str, list[Any]]
"""Lists of equal length by name: ``bbox``, ``category``, and others of the column."""


def image_of(value: object, place: str) -> NDArray[np.uint8]:
    """Return an image as RGB [H, W, 3].

    Raises:
        ValueError: the value is not an image, or has more than 8 bits per channel.
    """
    picture = _decoded(value, place)
    if not isinstance(picture, Image.Image):
        came = "None" if picture is None else f"{type(picture).__name__} {picture!r:.40}"
        todo = "filter such rows out" if picture is None else "cast the column: cast_column(NAME, datasets.Image())"
        raise ValueError(f"{place}: expected an image, got {came}; {todo}")
    if picture.mode not in EIGHT_BIT_MODES:
        raise ValueError(
            f"{place}: expected an image of 8 bits per channel, got mode {picture.mode}; convert it, with the "
            "values of black and white of its bit depth"
        )
    try:
        return np.array(picture.convert("RGB"))
    except Exception as error:  # Pillow's errors for broken files depend on the format
        raise _broken(place, "an image that Pillow decodes", error) from error


def map_of(value: object, place: str) -> NDArray[Any]:
    """Return a map as stored, [H, W] or [H, W, C].

    Raises:
        ValueError: the value is neither an image nor an array of integers.
    """
    has_bytes = isinstance(value, Mapping) and bool(value.get("bytes") or value.get("path"))
    try:
        values = _stored(value, place) if has_bytes else np.array(value)
    except ValueError as error:
        if has_bytes:
            raise
        raise _broken(place, "an image of integers", error) from error
    except Exception as error:  # an image that is decoded only now
        raise _broken(place, "an image that Pillow decodes", error) from error
    if values.dtype.kind not in "bui" or values.ndim not in (2, 3):
        came = "None" if value is None else f"{type(value).__name__} of {values.dtype} {list(values.shape)}"
        raise ValueError(f"{place}: expected an image of integers, got {came}; filter such rows out, or convert them")
    return values


def undecoded(dataset: Any, columns: Iterable[str | None]) -> Any:
    """Return a dataset of the ``datasets`` package that gives the bytes of images in these columns.

    A decoded image no longer shows how many bits its grey values have, so their stored values are lost.
    """
    features = getattr(dataset, "features", None) or {}
    for column in columns:
        feature: Any = features.get(column) if column is not None else None
        if getattr(feature, "decode", False) and getattr(feature, "mode", None) is None:
            dataset = dataset.cast_column(column, replace(feature, decode=False))
    return dataset


def _stored(value: Any, place: str) -> NDArray[Any]:
    """Return the values as stored of a record of ``bytes`` or ``path``."""
    path = Path(value.get("path") or "map")
    try:
        return read_stored(path, value.get("bytes") or None).values
    except ValueError as error:
        named = f" (path {str(path)!r})" if value.get("path") else ""
        raise ValueError(f"{place}: {str(error).removeprefix(f'{path}: ')}{named}") from error


def _decoded(value: object, place: str) -> object:
    """Return the image of a record of ``bytes`` or ``path``, upright like the package; other values do not change."""
    if not isinstance(value, Mapping) or not (value.get("bytes") or value.get("path")):
        return value
    try:
        with open_image(value.get("bytes") or Path(value["path"])) as opened:
            return ImageOps.exif_transpose(opened)
    except Exception as error:  # Pillow's errors for broken files depend on the format
        raise _broken(place, "bytes or the path of an image", error) from error


def _broken(place: str, expected: str, error: Exception) -> ValueError:
    came = str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
    return ValueError(
        f"{place}: expected {expected}, got {came}; filter such rows out, or cast the column: "
        "cast_column(NAME, datasets.Image())"
    )


def objects_of_row(value: Any, names: tuple[str, ...], place: str) -> Objects:
    """Return the objects of an image, given as a record of lists or a list of records, as lists; None is no object.

    Args:
        value: value of the row.
        names: names of the lists of all rows, which a row without objects gets empty.
        place: name for the errors.

    Returns:
        The lists: ``bbox`` of four numbers, ``category`` of integers from 0 and, if the column has it, ``iscrowd`` of
        bools.

    Raises:
        ValueError: a list is missing or of another length, or one of its values is not valid.
    """
    try:
        lists = _lists_of(value, names, place)
    except TypeError:
        raise ValueError(
            f"{place}: expected a record of lists or a list of records, got {value!r:.60}; name the column of objects"
        ) from None
    for name in ("bbox", "category"):
        if name not in lists:
            raise ValueError(f"{place}: expected bbox and category, got {', '.join(lists)}; rename them")
    num = len(lists["bbox"])
    if "iscrowd" in lists:
        lists["iscrowd"] = [_crowd_of(flag, place) for flag in lists["iscrowd"] or [0] * num]
    lengths = {name: len(values) for name, values in lists.items() if name in _READ}
    if len(set(lengths.values())) > 1:
        came = ", ".join(f"{length} of {name}" for name, length in lengths.items())
        raise ValueError(f"{place}: expected lists of one length, an entry per object, got {came}; repair this row")
    lists["bbox"] = [_box_of(box, place) for box in lists["bbox"]]
    lists["category"] = [_label_of(label, place) for label in lists["category"]]
    return lists


def _lists_of(value: Any, names: tuple[str, ...], place: str) -> Objects:
    if value is None or (not isinstance(value, Mapping) and not len(value)):
        return {name: [] for name in names}
    if isinstance(value, Mapping):
        return {name: _as_list(entries) for name, entries in value.items()}
    if not all(isinstance(record, Mapping) for record in value):
        raise ValueError(
            f"{place}: expected a record of lists or a list of records, got {value!r:.60}; name the column of objects"
        )
    fields = tuple(dict.fromkeys(name for record in value for name in record))
    return {name: [record.get(name) for record in value] for name in fields}


def _as_list(values: Any) -> list[Any]:
    return [] if values is None else values.tolist() if hasattr(values, "tolist") else list(values)


def _box_of(box: Any, place: str) -> list[float]:
    numbers = _as_list(box) if hasattr(box, "__iter__") and not isinstance(box, str) else []
    if len(numbers) != 4 or not all(isinstance(n, Real) and abs(float(n)) <= _MOST for n in numbers):
        raise ValueError(
            f"{place}: expected each bbox as four numbers [x, y, width, height] in pixels, got {box!r:.60}; leave such "
            "objects out"
        )
    return [float(number) for number in numbers]


def _label_of(label: Any, place: str) -> int:
    if isinstance(label, str):
        raise ValueError(
            f"{place}: expected each category as a number from 0, got the text {label!r:.40}; number the classes, as "
            "datasets.ClassLabel(names=...).str2int does"
        )
    if not isinstance(label, Integral) and not (isinstance(label, float) and label.is_integer()):
        raise ValueError(
            f"{place}: expected each category as a number from 0, got {label!r:.40}; leave such objects out"
        )
    number = int(label)
    if number < 0:
        raise ValueError(f"{place}: expected categories from 0, got {label}; leave such objects out")
    if number >= 2**63:
        raise ValueError(f"{place}: expected categories from 0 to 2**63 - 1, got {label}; number the classes from 0")
    return number


def _crowd_of(flag: Any, place: str) -> bool:
    if flag is not None and (not isinstance(flag, Real) or flag not in (0, 1)):
        raise ValueError(f"{place}: expected each iscrowd as 0 or 1, or None for 0, got {flag!r:.40}; convert it")
    return bool(flag)
