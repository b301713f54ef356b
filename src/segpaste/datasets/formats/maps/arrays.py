"""Reading of map files as arrays, with values as stored: PNG, TIFF and other formats of Pillow, NumPy, OpenEXR.

Not for images, see `segpaste.datasets.formats.photo`.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from segpaste.datasets.formats.photo_head import has_wide_channels
from segpaste.datasets.formats.records import DatasetError
from segpaste.extras import require

_NUMPY = (".npy", ".npz")
_CHANNELS = (("R", "G", "B"), ("X", "Y", "Z"), ("x", "y", "z"), ("r", "g", "b"))


def read_array(path: Path, key: str | None = None) -> NDArray[Any]:
    """Read the array of a file.

    Args:
        path: a file of NumPy (``.npy``, ``.npz``), OpenEXR (``.exr``), or an image file.
        key: the array of an ``.npz``, or the channel or layer of an ``.exr``; required if the file has several.

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
        return _exr(path, key)
    if suffix == ".npz":
        return _npz(path, key)
    if key is not None:
        raise DatasetError(f"{path}: expected no key with a {suffix} file, which has one array; leave 'key' out")
    return _npy(path) if suffix == ".npy" else _picture(path)


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


def _exr(path: Path, key: str | None) -> NDArray[Any]:
    openexr = require("OpenEXR")
    try:
        with openexr.File(str(path), separate_channels=True) as file:
            channels = {name: np.array(channel.pixels) for name, channel in file.channels().items()}
    except (RuntimeError, ValueError, OSError) as error:
        raise DatasetError(f"{path}: expected an OpenEXR file, could not read it ({error}); replace it") from error
    if key in channels or (key is None and len(channels) == 1):
        return _plain(path, channels[key] if key in channels else next(iter(channels.values())))
    before = "" if key is None else f"{key}."
    for names in _CHANNELS:
        wanted = [before + name for name in names]
        if set(wanted) <= set(channels) and (key is not None or len(channels) == 3 or _only_alpha(channels, wanted)):
            return _plain(path, np.stack([channels[name] for name in wanted], -1))
    raise DatasetError(
        f"{path}: expected the name of a channel or layer, among {', '.join(sorted(channels))}, got {key!r}; set 'key'"
    )


def _only_alpha(channels: dict[str, NDArray[Any]], wanted: list[str]) -> bool:
    return set(channels) - set(wanted) <= {"A"}


def _picture(path: Path) -> NDArray[Any]:
    try:
        with Image.open(path) as picture:
            is_wide = has_wide_channels(picture)
            values = _of_16_bit_channels(path) if is_wide else np.array(picture)
    except UnidentifiedImageError:
        raise DatasetError(
            f"{path}: expected an image that Pillow reads, got another file, or a TIFF of another number of channels "
            "or bits; save the map as .npy or as PNG"
        ) from None
    except DatasetError:
        raise
    except Exception as error:  # Pillow's errors for broken files depend on the format
        raise DatasetError(f"{path}: expected a map, could not decode it ({error}); replace the file") from error
    return _plain(path, values.astype(np.uint8) if values.dtype == bool else values)


def _of_16_bit_channels(path: Path) -> NDArray[np.uint16]:
    """Read channels of 16 bits: Pillow decodes the upper halves of the values, then the lower halves."""
    halves = []
    for order in ("16B", "16L"):  # the first or the second of each pair of bytes
        with Image.open(path) as picture:
            tiles = getattr(picture, "tile", [])
            if picture.format != "PNG" or not all(str(tile.args).endswith("16B") for tile in tiles):
                raise DatasetError(
                    f"{path}: expected channels of 16 bits as PNG or .npy, got {picture.format}; convert it"
                )
            picture.tile = [tile._replace(args=tile.args.replace("16B", order)) for tile in tiles]
            halves.append(np.array(picture).astype(np.uint16))
    return np.asarray(halves[0] * 256 + halves[1], np.uint16)
