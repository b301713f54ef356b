"""Kind of the finding for an error of a reader, from the file that the error names and the state of that file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from segpaste.datasets.formats.maps.arrays import read_array
from segpaste.datasets.formats.photo import read_pixels, read_upright
from segpaste.datasets.formats.records import DatasetError
from segpaste.datasets.formats.yolo.data import IMAGE_SUFFIXES
from segpaste.types.sampling import Size

_ARRAYS = frozenset({".npy", ".npz", ".exr"})


def named_file(error: DatasetError, known: Iterable[Path] = ()) -> Path | None:
    """Return the file at the start of an error: the longest known or existing path; None if there is none."""
    text = str(error)
    starts = [text[:end] for end in range(len(text)) if text.startswith(": ", end)]
    listed = {str(path) for path in known}
    found = [start for start in starts if start in listed or os.path.exists(start)]
    missing = [start for start in starts[:1] if os.sep in start]
    return Path((found or missing)[-1]) if found or missing else None


def kind_of(error: DatasetError, file: Path | None, *, is_map: bool = False) -> str:
    """Return the kind of the finding for an error of a reader.

    Args:
        error: the error; its ``kind`` decides, if it has one.
        file: the file that it names, other than an image.
        is_map: True for a map of classes, objects, depth or normals.
    """
    if error.kind is not None:
        return error.kind
    if file is None or file.is_dir():
        return "unreadable"
    if not file.exists():
        return "missing_file"
    if is_map or file.suffix.lower() in IMAGE_SUFFIXES | _ARRAYS:
        return "broken_map" if _is_whole(file) else "broken_file"
    return "broken_entry"


def pixel_problem(path: Path, size: Size | None) -> DatasetError | None:
    """Return the error of decoding an image; None if it can be decoded."""
    try:
        read_upright(path) if size is None else read_pixels(path, size)
    except DatasetError as error:
        return error
    return None


def _is_whole(path: Path) -> bool:
    """Return whether a map can be decoded, whatever its values mean."""
    try:
        read_array(path, None)
    except DatasetError as error:
        return "set 'key'" in str(error)  # several arrays, which were read
    return True
