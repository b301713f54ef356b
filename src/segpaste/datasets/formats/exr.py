"""Reading of channels and layers of OpenEXR files: https://openexr.com/en/latest/TechnicalIntroduction.html.

A file stores the pixels of its data window. Its image is the display window: pixels outside of the data window are 0,
and pixels outside of the display window are left out. Channels of all parts are found; deep images and channels of
another resolution are rejected.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segpaste.datasets.errors import DatasetError
from segpaste.extras import require

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
