"""Segment ids of COCO's panoptic maps: R + 256 G + 65536 B of a PNG in colours, or the values of a grey one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.stored_pixels import read_colors, read_stored
from segpaste.types.sampling import Size


def read_segment_ids(path: Path, size: Size) -> NDArray[np.int64]:
    """Read the segment id of each pixel.

    Args:
        path: an image in RGB, in RGBA, whose alpha is not read, with a palette, or in grey of up to 16 bits.
        size: (H, W) of the image.

    Returns:
        [H, W] int64; 0 is no segment.

    Raises:
        DatasetError: the file is missing or broken, or has other channels or another size.
    """
    stored = read_stored(path)
    values = stored.values if stored.palette is None else read_colors(path)
    if values.shape[:2] != size:
        raise DatasetError(
            f"{path}: expected {size[1]} x {size[0]} pixels as in the annotation file, got {values.shape[1]} x "
            f"{values.shape[0]}; use the map of this image"
        )
    if values.ndim == 3 and values.shape[2] == 2:  # grey with alpha
        values = values[..., 0]
    if values.dtype.kind not in "iu" or (values.ndim == 3 and values.dtype != np.uint8):
        raise DatasetError(
            f"{path}: expected segment ids in colours of 8 bits per channel, or in grey, got {values.dtype} "
            f"{list(values.shape)}; convert it"
        )
    if values.ndim == 2:
        return values.astype(np.int64)
    ids = np.zeros(size, "<i8")
    for channel in range(3):
        ids.view(np.uint8).reshape(*size, 8)[..., channel] = values[..., channel]
    return ids.astype(np.int64, copy=False)


def segment_positions(ids: NDArray[np.int64], listed: Sequence[int]) -> NDArray[np.uint16]:
    """Return the position of each pixel's segment in a list, from 1; 0 for other ids.

    Runs of equal pixels are looked up, since there are a hundred times fewer of them than pixels.
    """
    flat = ids.reshape(-1)
    starts = np.concatenate([[0], np.flatnonzero(flat[1:] != flat[:-1]) + 1])[: flat.size]
    position_of = {number: position for position, number in enumerate(listed, start=1)}
    positions = [position_of.get(number, 0) for number in flat[starts].tolist()]
    lengths = np.diff(starts, append=flat.size)
    return np.repeat(np.array(positions, np.uint16), lengths).reshape(ids.shape)
