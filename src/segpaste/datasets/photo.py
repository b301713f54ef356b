"""Photos into RGB tensors, in the pixel frame that their annotations use.

Not for depth, label maps or anything with more than 8 bits per channel: those do not survive the conversion to RGB.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from segpaste.datasets.records import DatasetError

_EIGHT_BIT_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")


def read_rgb(path: Path, size: tuple[int, int]) -> Tensor:
    """Read a photo as RGB; grey, palette and CMYK files are converted, transparency is dropped.

    Annotations are drawn either on the stored pixels or on the photo as its EXIF orientation shows it, and only the
    size in the annotation file tells which: the photo is turned when that, and only that, makes the sizes agree.

    Args:
        path: an image file that Pillow reads.
        size: (H, W) in the annotation file.

    Returns:
        [3, H, W] uint8.

    Raises:
        DatasetError: the file is missing or broken, has more than 8 bits per channel, or is of another size.
    """
    photo, stored = _decode(path, size)
    if photo.mode not in _EIGHT_BIT_MODES:
        raise DatasetError(f"{path}: expected an image of 8 bits per channel, got mode {photo.mode}; convert it")
    if photo.size != size[::-1]:
        raise DatasetError(
            f"{path}: expected {size[1]} x {size[0]} pixels as in the annotation file, got {stored[0]} x {stored[1]}; "
            "use the photos that the annotations were made on"
        )
    return torch.from_numpy(np.array(photo.convert("RGB"))).permute(2, 0, 1).contiguous()


def _decode(path: Path, size: tuple[int, int]) -> tuple[Image.Image, tuple[int, int]]:
    """The image, turned upright if it is not of this size as stored, and its stored (W, H)."""
    try:
        with Image.open(path) as photo:
            photo.load()
            return photo if photo.size == size[::-1] else ImageOps.exif_transpose(photo), photo.size
    except FileNotFoundError:
        raise DatasetError(f"{path}: expected an image, found no such file; check the folder and the name") from None
    except UnidentifiedImageError:
        raise DatasetError(f"{path}: expected an image, got a file that is none; replace it") from None
    except Exception as error:  # what Pillow raises for a broken file depends on the format
        raise DatasetError(f"{path}: expected an image, could not decode it ({error}); replace the file") from error
