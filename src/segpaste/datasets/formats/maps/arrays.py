"""Reading of map files as arrays, with values as stored: PNG, TIFF and other formats of Pillow, NumPy, OpenEXR.

Not for images, see `segpaste.datasets.formats.photo`.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.exr import read_exr
from segpaste.datasets.formats.stored_pixels import read_colors, read_stored


def read_array(path: Path, key: str | None = None, *, as_colors: bool = False) -> NDArray[Any]:
    """Read the array of a file.

    Args:
        path: a file of NumPy (``.npy``, ``.npz``), OpenEXR (``.exr``), or an image file.
        key: the array of an ``.npz``, or the channel or layer of an ``.exr``; required if the file has several.
        as_colors: read the colours of image files, also those of a palette.

    Returns:
        [H, W] or [H, W, C], or any shape of a NumPy file; palette images give their indices.

    Raises:
        DatasetError: the file is missing or broken, has no such array, or has several and no ``key`` is given.
        MissingPackageError: the package for ``.exr`` is not installed.
    """
    suffix = path.suffix.lower()
    if not path.is_file():
        raise DatasetError(f"{path}: expected a map, found no such file; check the folder and the name")
    if suffix == ".exr":
        return _plain(path, read_exr(path, key))
    if suffix == ".npz":
        return _npz(path, key)
    if key is not None:
        raise DatasetError(f"{path}: expected no key with a {suffix} file, which has one array; leave 'key' out")
    if suffix == ".npy":
        return _npy(path)
    return _plain(path, read_colors(path) if as_colors else read_stored(path).values)


def _npy(path: Path) -> NDArray[Any]:
    try:
        return _plain(path, np.load(path, allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        raise DatasetError(f"{path}: expected an array of NumPy, could not read it ({error}); replace it") from error


def _npz(path: Path, key: str | None) -> NDArray[Any]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            name = _chosen(path, list(arrays), key)
            return _plain(path, arrays[name])
    except DatasetError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise DatasetError(f"{path}: expected arrays of NumPy, could not read them ({error}); replace it") from error


def _chosen(path: Path, names: list[str], key: str | None) -> str:
    if key in names:
        return str(key)
    if key is None and len(names) == 1:
        return names[0]
    raise DatasetError(
        f"{path}: expected the name of one of its arrays, {', '.join(sorted(names)) or 'of which it has none'}, got "
        f"{key!r}; set 'key'"
    )


def _plain(path: Path, values: object) -> NDArray[Any]:
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "buif":
        came = values.dtype if isinstance(values, np.ndarray) else type(values).__name__
        raise DatasetError(f"{path}: expected an array of numbers, got {came}; save it as .npy again")
    return values.astype(values.dtype.newbyteorder("="), copy=False)
