"""Segment ids of COCO's panoptic maps: R + 256 G + 65536 B of a PNG in colours, or the values of a grey one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from segpaste.datasets.formats.records import DatasetError
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
    wide = values.astype(np.int64)
    return wide if wide.ndim == 2 else wide[..., :3] @ np.array([1, 256, 65536])
