"""Pixels of image files with values as stored, for maps of classes, objects, depth and normals.

Pillow shows pixels instead: it spreads grey values of 1, 2 and 4 bits over 0 to 255, inverts TIFFs whose 0 is white,
and leaves out pages and channels. Not for images, see `segpaste.datasets.formats.photo`.
"""

from __future__ import annotations

import re
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.photo_head import has_wide_channels, left_out_by_pillow

_SPREAD = re.compile(r"^L;([24])")
_FACTORS = {"2": 85, "4": 17}
_SAMPLE_FORMAT, _SIGNED = 339, 2
_INVERTED = re.compile(r"^[1L](;\d)?;?IR?$")


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
        DatasetError: the file is missing or broken, or has pages or channels that Pillow leaves out.
    """
    try:
        with Image.open(path if content is None else BytesIO(content)) as picture:
            expect_whole(path, picture)
            if has_wide_channels(picture):
                return StoredPixels(_of_16_bit_channels(path, content))
            form = _form(picture)
            values = _as_stored(np.array(picture), form)
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
    with Image.open(path) as picture:
        return np.asarray(picture if picture.mode.startswith("I") else picture.convert("RGB"))


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
    if picture.format == "PPM" and picture.mode == "RGB" and _form(picture).largest > 255:
        problem = "channels of more than 8 bits"
    if problem:
        raise DatasetError(f"{path}: expected a map of one image, got {problem}; save each as its own file, or as .npy")


class _Form(NamedTuple):
    """Form of the values in a file: Pillow's name, whether it is a TIFF, of signed numbers, and a PGM's largest."""

    raw: str
    is_tiff: bool
    is_signed: bool
    largest: int


def _form(picture: Image.Image) -> _Form:
    """Return the form of an opened, undecoded image."""
    tiles = getattr(picture, "tile", ())
    found = tiles[0][3] if tiles else ""
    raw = found[0] if isinstance(found, tuple) and found else found
    is_tiff = picture.format == "TIFF"
    is_signed = is_tiff and _SIGNED in tuple(picture.tag_v2.get(_SAMPLE_FORMAT, ()))  # type: ignore[attr-defined]
    largest = found[1] if picture.format == "PPM" and isinstance(found, tuple) and len(found) == 2 else 0
    return _Form(str(raw), is_tiff, is_signed, largest)


def _as_stored(values: NDArray[Any], form: _Form) -> NDArray[Any]:
    """Undo what Pillow does to stored values."""
    if form.is_tiff and _INVERTED.match(form.raw):
        values = ~values if values.dtype == bool else 255 - values
    if values.dtype == bool:
        return values.astype(np.uint8)
    if found := _SPREAD.match(form.raw):
        return np.asarray(values // _FACTORS[found[1]], np.uint8)
    if form.largest:  # https://netpbm.sourceforge.net/doc/pgm.html
        most = 65535 if values.dtype.itemsize > 1 else 255
        return np.rint(values.astype(np.float64) * (form.largest / most)).astype(values.dtype)
    if form.is_tiff and values.dtype == np.uint8 and form.is_signed:
        return values.view(np.int8)
    if form.raw.startswith("I;32") and not form.is_signed:
        return values.view(np.uint32)
    return values


def _palette(picture: Image.Image) -> NDArray[np.uint8]:
    """Return the palette of a decoded image of mode P, as long as in the file."""
    return np.array(picture.getpalette("RGB"), np.uint8).reshape(-1, 3)


def _of_16_bit_channels(path: Path, content: bytes | None) -> NDArray[np.uint16]:
    """Read channels of 16 bits: Pillow decodes the upper halves of the values, then the lower halves."""
    halves = []
    for order in ("16B", "16L"):  # the first or the second of each pair of bytes
        with Image.open(path if content is None else BytesIO(content)) as picture:
            tiles = getattr(picture, "tile", [])
            if picture.format != "PNG" or not all(str(tile.args).endswith("16B") for tile in tiles):
                raise DatasetError(
                    f"{path}: expected channels of 16 bits as PNG or .npy, got {picture.format}; convert it"
                )
            picture.tile = [tile._replace(args=tile.args.replace("16B", order)) for tile in tiles]
            halves.append(np.array(picture).astype(np.uint16))
    return np.asarray(halves[0] * 256 + halves[1], np.uint16)
