"""Values of map files as stored, for maps of classes, objects, depth and normals: image files, NumPy, OpenEXR.

Pillow shows pixels instead: it spreads grey values of 1, 2 and 4 bits over 0 to 255, inverts TIFFs, PBMs and Sun
rasters whose 0 is white, and leaves out pages and channels. A file of OpenEXR
(https://openexr.com/en/latest/TechnicalIntroduction.html) stores the pixels of its data window. Its image is the
display window: pixels outside of the data window are 0, and pixels outside of the display window are left out. Channels
of all parts are found; deep images and channels of another resolution are rejected.

Not for images, see `segpaste.datasets.formats.image_files`.
"""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.image_files import has_wide_channels, left_out_by_pillow, open_image
from segpaste.datasets.formats.lossless import expect_lossless
from segpaste.datasets.formats.plain_png import plain_png
from segpaste.extras import require

_SPREAD = re.compile(r"^L;([24])")
_FACTORS = {"2": 85, "4": 17}
_SAMPLE_FORMAT, _SIGNED = 339, 2
MOST_DIRECT = 1 << 16
"""Limit of the range of values that are counted or looked up in a table, which is faster than sorting."""
_INVERTED = re.compile(r"^[1L](;\d)?;?IR?$")


Color = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""


class StoredPixels(NamedTuple):
    """Pixels of a file.

    Attributes:
        values: [H, W] or [H, W, C], as stored; indices of a palette.
        palette: [N, 3] uint8, the colours of the indices; None without a palette.
    """

    values: NDArray[Any]
    palette: NDArray[np.uint8] | None = None


def read_stored(path: Path, content: bytes | None = None) -> StoredPixels:
    """Read an image file with values as stored.

    Args:
        path: path of the file, for errors if there is a ``content``.
        content: the bytes of the file; by default they are read.

    Raises:
        DatasetError: the file is missing or broken, has pages or channels that Pillow leaves out, or pixels that are
            stored with losses.
    """
    try:
        if content is None and path.suffix.lower() == ".png":
            content = path.read_bytes()
        if content is not None and (plain := plain_png(content)) is not None:
            return StoredPixels(*plain)
        with open_image(path if content is None else content) as picture:
            expect_whole(path, picture)
            expect_lossless(path, picture, content)
            if has_wide_channels(picture):
                return StoredPixels(_of_16_bit_channels(path, content))
            raw_format = _raw_format(picture)
            values = _as_stored(np.array(picture), raw_format)
            return StoredPixels(values, _palette(picture) if picture.mode == "P" else None)
    except FileNotFoundError:
        raise DatasetError(f"{path}: expected a map, found no such file; check the folder and the name") from None
    except UnidentifiedImageError:
        raise DatasetError(
            f"{path}: expected an image that Pillow reads, got another file, or a TIFF of another number of channels "
            "or bits; save the map as .npy or as PNG"
        ) from None
    except DatasetError:
        raise
    except Exception as error:  # Pillow's errors for broken files depend on the format
        raise DatasetError(f"{path}: expected a map, could not decode it ({error}); replace the file") from error


def read_colors(path: Path) -> NDArray[Any]:
    """Read the colours of an image file, [H, W, C], with C = 3 for a palette or grey values; other files as stored.

    Raises:
        DatasetError: as for `read_stored`.
    """
    stored = read_stored(path)
    if stored.palette is not None:
        table = np.zeros((256, 3), np.uint8)
        table[: len(stored.palette)] = stored.palette
        return np.asarray(table[stored.values])
    if stored.values.ndim == 3:
        return stored.values
    with open_image(path) as picture:
        return np.asarray(picture if picture.mode.startswith("I") else picture.convert("RGB"))


def color_code(color: Color) -> int:
    """Return a colour (R, G, B) as one number, R * 65536 + G * 256 + B."""
    return (color[0] << 16) + (color[1] << 8) + color[2]


def color_of(code: int) -> Color:
    """Return the colour of a `color_code`."""
    return code >> 16, code >> 8 & 255, code & 255


def packed_colors(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return the `color_code` of each pixel of an image of colours [H, W, C], [H, W] int64; alpha is left out."""
    return np.asarray((values[..., :3].astype(np.int64) << [16, 8, 0]).sum(-1))


def distinct(values: NDArray[Any]) -> list[int]:
    """Return the distinct values of an array of integers, ascending."""
    if not values.size:
        return []
    flat = values.ravel(order="K")
    firsts = np.concatenate([flat[:1], flat[1:][flat[1:] != flat[:-1]]])  # of runs, of which a map has few
    if values.dtype == np.uint8:
        return [int(v) for v in np.flatnonzero(np.bincount(firsts))]
    low, high = int(firsts.min()), int(firsts.max())
    if high - low < MOST_DIRECT:
        return [int(v) + low for v in np.flatnonzero(np.bincount(firsts - low))]
    return [int(v) for v in np.unique(firsts)]


def one_channel(values: NDArray[Any]) -> NDArray[Any]:
    """Return an array as [H, W] if it has one value for each pixel, else unchanged.

    Axes of length 1, equal channels of a grey image saved as RGB or RGBA, and an opaque alpha are removed.
    """
    if values.ndim != 3:
        return values
    if 1 in (values.shape[0], values.shape[2]):
        return values[..., 0] if values.shape[2] == 1 else values[0]
    first, num = values[..., 0], values.shape[2]
    if num in (3, 4) and np.array_equal(values[..., :3], np.broadcast_to(first[..., None], (*first.shape, 3))):
        return first
    if num == 2 and values.dtype.kind == "u" and (values[..., 1] == np.iinfo(values.dtype).max).all():
        return first
    return values


def expect_whole(path: Path, picture: Image.Image) -> None:
    """Raise `DatasetError` if an opened image has pages or channels that reading it would leave out."""
    problem, num = left_out_by_pillow(picture), getattr(picture, "n_frames", 1)
    if picture.format != "TIFF" and num > 1:
        problem = f"{num} images in one file"
    if picture.format == "PPM" and picture.mode == "RGB" and _raw_format(picture).largest > 255:
        problem = "channels of more than 8 bits"
    if problem:
        raise DatasetError(f"{path}: expected a map of one image, got {problem}; save each as its own file, or as .npy")


class _RawFormat(NamedTuple):
    """Form of the values in a file: Pillow's name, whether it is a TIFF, of signed numbers, and a PGM's largest."""

    raw: str
    is_tiff: bool
    is_signed: bool
    largest: int


def _raw_format(picture: Image.Image) -> _RawFormat:
    """Return the form of an opened, undecoded image."""
    tiles = getattr(picture, "tile", ())
    found = tiles[0][3] if tiles else ""
    raw = found[0] if isinstance(found, tuple) and found else found
    is_tiff = picture.format == "TIFF"
    is_signed = is_tiff and _SIGNED in tuple(picture.tag_v2.get(_SAMPLE_FORMAT, ()))  # type: ignore[attr-defined]
    largest = found[1] if picture.format == "PPM" and isinstance(found, tuple) and len(found) == 2 else 0
    return _RawFormat(str(raw), is_tiff, is_signed, largest)


def _as_stored(values: NDArray[Any], raw_format: _RawFormat) -> NDArray[Any]:
    """Undo what Pillow does to stored values."""
    if _INVERTED.match(raw_format.raw):
        values = ~values if values.dtype == bool else 255 - values
    if values.dtype == bool:
        return values.astype(np.uint8)
    if found := _SPREAD.match(raw_format.raw):
        return np.asarray(values // _FACTORS[found[1]], np.uint8)
    if raw_format.largest:  # https://netpbm.sourceforge.net/doc/pgm.html
        most = 65535 if values.dtype.itemsize > 1 else 255
        return np.rint(values.astype(np.float64) * (raw_format.largest / most)).astype(values.dtype)
    if raw_format.is_tiff and values.dtype == np.uint8 and raw_format.is_signed:
        return values.view(np.int8)
    if raw_format.raw.startswith("I;32") and not raw_format.is_signed:
        return values.view(np.uint32)
    return values


def _palette(picture: Image.Image) -> NDArray[np.uint8]:
    """Return the palette of a decoded image of mode P, as long as in the file."""
    return np.array(picture.getpalette("RGB"), np.uint8).reshape(-1, 3)


def _of_16_bit_channels(path: Path, content: bytes | None) -> NDArray[np.uint16]:
    """Read channels of 16 bits: Pillow decodes the upper halves of the values, then the lower halves."""
    halves = []
    for order in ("16B", "16L"):  # the first or the second of each pair of bytes
        with open_image(path if content is None else content) as picture:
            tiles = getattr(picture, "tile", [])
            if picture.format != "PNG" or not all(str(tile.args).endswith("16B") for tile in tiles):
                raise DatasetError(
                    f"{path}: expected channels of 16 bits as PNG or .npy, got {picture.format}; convert it"
                )
            picture.tile = [tile._replace(args=tile.args.replace("16B", order)) for tile in tiles]
            halves.append(np.array(picture).astype(np.uint16))
    return np.asarray(halves[0] * 256 + halves[1], np.uint16)


_CHANNELS = (("R", "G", "B"), ("X", "Y", "Z"), ("x", "y", "z"), ("r", "g", "b"))


def read_exr(path: Path, key: str | None = None) -> NDArray[Any]:
    """Read a channel or layer.

    Args:
        path: the file.
        key: name of the channel or layer, of a part with ``PART.`` before it; required if the file has several.

    Returns:
        [H, W] or [H, W, 3] of the display window.

    Raises:
        DatasetError: the file is broken, has no such channel, or has several and no ``key`` is given.
        MissingPackageError: OpenEXR is not installed.
    """
    openexr = require("OpenEXR")
    try:
        with openexr.File(str(path), separate_channels=True) as file:
            channels = _channels(path, file)
        if not channels:
            raise ValueError("it has no channel, or breaks off")
    except (RuntimeError, ValueError, OSError, TypeError) as error:
        if isinstance(error, DatasetError):
            raise
        raise DatasetError(f"{path}: expected an OpenEXR file, could not read it ({error}); replace it") from error
    if key in channels or (key is None and len(channels) == 1):
        return channels[key] if key in channels else next(iter(channels.values()))
    before = "" if key is None else f"{key}."
    for names in _CHANNELS:
        wanted = [before + name for name in names]
        others = set(channels) - set(wanted)
        if set(wanted) <= set(channels) and (key is not None or others <= {"A"}):
            return np.stack([channels[name] for name in wanted], -1)
    raise DatasetError(
        f"{path}: expected the name of a channel or layer, among {', '.join(sorted(channels))}, got {key!r}; set 'key'"
    )


def _channels(path: Path, file: Any) -> dict[str, NDArray[Any]]:
    """Return the channels of all parts by name; names that several parts use begin with that of the part."""
    named = [(part, name, channel) for part in file.parts for name, channel in part.channels.items()]
    uses = Counter(name for _, name, _ in named)
    return {
        name if uses[name] == 1 else f"{part.name()}.{name}": _shown(path, part, name, channel)
        for part, name, channel in named
    }


def _shown(path: Path, part: Any, name: str, channel: Any) -> NDArray[Any]:
    """Return the pixels of a channel in the display window."""
    pixels = np.asarray(channel.pixels)
    (left, top), (right, bottom) = (corner.tolist() for corner in part.header["dataWindow"])
    (first_x, first_y), (last_x, last_y) = (corner.tolist() for corner in part.header["displayWindow"])
    stored = bottom - top + 1, right - left + 1
    if pixels.dtype.kind not in "uif" or pixels.shape != stored:
        raise DatasetError(
            f"{path}: expected a number for each of {stored[1]} x {stored[0]} pixels in channel {name!r}, got "
            f"{pixels.dtype} {list(pixels.shape)}; save a flat image without subsampling"
        )
    shown = np.zeros((last_y - first_y + 1, last_x - first_x + 1), pixels.dtype)
    rows, cols = _shared(top, bottom, first_y, last_y), _shared(left, right, first_x, last_x)
    shown[rows.start - first_y : rows.stop - first_y, cols.start - first_x : cols.stop - first_x] = pixels[
        rows.start - top : rows.stop - top, cols.start - left : cols.stop - left
    ]
    return shown


def _shared(start: int, last: int, first_shown: int, last_shown: int) -> range:
    """Return the coordinates that are stored and shown; empty if there are none."""
    first = max(start, first_shown)
    return range(first, max(first, min(last, last_shown) + 1))


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
