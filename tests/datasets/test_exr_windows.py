"""Data and display windows of OpenEXR, and files of several parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from segpaste.datasets import DatasetError
from segpaste.datasets.formats.stored_pixels import read_array

VALUES = np.arange(1, 13, dtype=np.float32).reshape(3, 4)


def write(path: Path, data: tuple[int, int], display: tuple[int, int, int, int]) -> Path:
    """Values of 4 x 3 pixels, the first at ``data`` (x, y), in an image with the edges ``display``, both included."""
    import OpenEXR as openexr

    last = data[0] + 3, data[1] + 2
    windows = {
        "dataWindow": (np.array(data, np.int32), np.array(last, np.int32)),
        "displayWindow": (np.array(display[:2], np.int32), np.array(display[2:], np.int32)),
    }
    with openexr.File({"compression": openexr.ZIP_COMPRESSION, **windows}, {"Z": VALUES}) as file:
        file.write(str(path))
    return path


@pytest.mark.parametrize(
    ("data", "display"),
    [
        ((0, 0), (0, 0, 3, 2)),
        ((2, 1), (0, 0, 9, 7)),
        ((-1, -2), (0, 0, 9, 7)),  # overscan
        ((-1, -1), (0, 0, 1, 0)),
        ((12, 11), (10, 10, 19, 15)),
        ((0, 0), (-5, -5, 1, 1)),
        ((50, 0), (0, 0, 5, 5)),  # nothing is shown
    ],
)
def test_pixels_are_where_the_windows_say(tmp_path: Path, data: tuple[int, int], display: tuple[int, ...]) -> None:
    left, top, right, bottom = display
    found = read_array(write(tmp_path / "a.exr", data, (left, top, right, bottom)))
    assert found.shape == (bottom - top + 1, right - left + 1)
    for y, x in np.ndindex(*found.shape):
        row, column = y + top - data[1], x + left - data[0]
        is_stored = 0 <= row < 3 and 0 <= column < 4
        assert found[y, x] == (VALUES[row, column] if is_stored else 0)


def test_parts(tmp_path: Path) -> None:
    import OpenEXR as openexr

    path = tmp_path / "a.exr"
    channels = {"left": {"Z": VALUES}, "right": {"Z": VALUES + 1, "V": VALUES + 2}}
    parts = [openexr.Part({"type": openexr.scanlineimage}, found, name) for name, found in channels.items()]
    openexr.File(parts).write(str(path))
    assert (read_array(path, "left.Z") == VALUES).all()
    assert (read_array(path, "right.Z") == VALUES + 1).all()
    assert (read_array(path, "V") == VALUES + 2).all()
    with pytest.raises(DatasetError, match=r"among V, left\.Z, right\.Z, got 'Z'; set 'key'"):
        read_array(path, "Z")
