"""Label maps of Pascal VOC: one index per pixel, as palette or grey PNG, or as the colours of the palette.

0 is the background and 255 is void: borders between objects, and unlabelled pixels.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.stored_pixels import one_channel, read_stored
from segpaste.types.sampling import Size

BACKGROUND, VOID = 0, 255
OTHER_VOID = "void of maps of objects that is not void in maps of classes, in images"
VOID_OF_CLASSES = "void of maps of classes that is not void in maps of objects, in images"
"""Description of what only a written VOC changes, whose maps of objects have that void, too."""
Color = tuple[int, int, int]


@cache
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
    try:
        with Image.open(path) as picture:
            return picture.height, picture.width
    except FileNotFoundError:
        raise DatasetError(f"{path}: expected a label map, found no such file; add it, or correct the list") from None
    except OSError as error:
        raise DatasetError(f"{path}: expected a label map, got another file ({error}); replace it") from error


def read_map(path: Path, size: Size, colors: Mapping[Color, int]) -> NDArray[np.int64]:
    """Read a map.

    Optimisers of PNG files reorder a palette and shorten it to the used colours. The indices of such a file are those
    of its colours.

    Args:
        path: its file.
        size: (H, W) of the image.
        colors: the index of each colour, for maps in colours and for reordered palettes.

    Returns:
        [H, W] int64.

    Raises:
        DatasetError: the file is missing or broken, has another size, or has an unknown colour.
    """
    stored = read_stored(path)
    values = one_channel(stored.values)
    if values.shape[:2] != size:
        raise DatasetError(
            f"{path}: expected {size[1]} x {size[0]} pixels like the image, got {values.shape[1]} x {values.shape[0]}; "
            "use the map of this image"
        )
    if values.ndim == 3 and values.shape[2] > 2 and values.dtype == np.uint8:
        return _indices(path, values[..., :3].astype(np.int64), colors)
    if values.ndim != 2 or values.dtype.kind not in "iu":
        raise DatasetError(
            f"{path}: expected a label map of indices or colours, got {values.dtype} {list(values.shape)}; save it as "
            "PNG with a palette"
        )
    is_reordered = stored.palette is not None and _is_reordered(stored.palette, colors)
    if is_reordered and stored.palette is not None:
        return _indices(path, stored.palette[values].astype(np.int64), colors)
    return values.astype(np.int64)


def _is_reordered(palette_of_file: NDArray[np.uint8], colors: Mapping[Color, int]) -> bool:
    """Return whether a palette has each of its colours once, all of them known, and some at another index."""
    entries = [(red, green, blue) for red, green, blue in palette_of_file.tolist()]
    are_known = len({*entries}) == len(entries) and {*entries} <= {*colors}
    return are_known and any(colors[color] != index for index, color in enumerate(entries))


def _indices(path: Path, values: NDArray[np.int64], colors: Mapping[Color, int]) -> NDArray[np.int64]:
    codes, places = np.unique((values << [16, 8, 0]).sum(-1), return_inverse=True)
    wanted = {(red << 16) + (green << 8) + blue: index for (red, green, blue), index in colors.items()}
    if missing := [code for code in codes.tolist() if code not in wanted]:
        color = missing[0] >> 16, missing[0] >> 8 & 255, missing[0] & 255
        raise DatasetError(f"{path}: expected the colours of the label map, got {color}; add it to labelmap.txt")
    found: NDArray[np.int64] = np.array([wanted[code] for code in codes.tolist()])[places.reshape(values.shape[:2])]
    return found
