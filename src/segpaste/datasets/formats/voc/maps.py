"""Label maps of Pascal VOC: one index per pixel, as palette or grey PNG, or as the colours of the palette.

0 is the background and 255 is void: borders between objects, and unlabelled pixels.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from segpaste.datasets.formats.records import DatasetError
from segpaste.types.sampling import Size

BACKGROUND, VOID = 0, 255
Color = tuple[int, int, int]


def palette() -> dict[Color, int]:
    """Return the index of each of the 256 colours of VOC's maps.

    Three bits of the index are the top bits of red, green and blue, the next three the bits below, and so on.
    """
    found = {}
    for index in range(256):
        channels = [sum((index >> (3 * bit + channel) & 1) << (7 - bit) for bit in range(3)) for channel in range(3)]
        found[channels[0], channels[1], channels[2]] = index
    return found


def map_size(path: Path) -> Size:
    """Return (H, W) of a map from its file header."""
    with _opened(path) as picture:
        return picture.height, picture.width


def read_map(path: Path, size: Size, colors: Mapping[Color, int]) -> NDArray[np.int64]:
    """Read a map.

    Args:
        path: its file.
        size: (H, W) of the image.
        colors: the index of each colour, for maps in colours.

    Returns:
        [H, W] int64.

    Raises:
        DatasetError: the file is missing or broken, has another size, or has an unknown colour.
    """
    with _opened(path) as picture:
        try:
            is_indexed = picture.mode in ("P", "L", "I", "I;16")
            values = np.array(picture if is_indexed else picture.convert("RGB")).astype(np.int64)
        except Exception as error:  # Pillow's errors for broken files depend on the format
            raise DatasetError(f"{path}: expected a label map, could not decode it ({error}); replace it") from error
    if values.shape[:2] != size:
        raise DatasetError(
            f"{path}: expected {size[1]} x {size[0]} pixels like the image, got {values.shape[1]} x {values.shape[0]}; "
            "use the map of this image"
        )
    return values if is_indexed else _indices(path, values, colors)


def _indices(path: Path, values: NDArray[np.int64], colors: Mapping[Color, int]) -> NDArray[np.int64]:
    codes, places = np.unique((values << [16, 8, 0]).sum(-1), return_inverse=True)
    wanted = {(red << 16) + (green << 8) + blue: index for (red, green, blue), index in colors.items()}
    if missing := [code for code in codes.tolist() if code not in wanted]:
        color = missing[0] >> 16, missing[0] >> 8 & 255, missing[0] & 255
        raise DatasetError(f"{path}: expected the colours of the label map, got {color}; add it to labelmap.txt")
    found: NDArray[np.int64] = np.array([wanted[code] for code in codes.tolist()])[places.reshape(values.shape[:2])]
    return found


def _opened(path: Path) -> Image.Image:
    try:
        return Image.open(path)
    except FileNotFoundError:
        raise DatasetError(f"{path}: expected a label map, found no such file; add it, or correct the list") from None
    except OSError as error:
        raise DatasetError(f"{path}: expected a label map, got another file ({error}); replace it") from error
