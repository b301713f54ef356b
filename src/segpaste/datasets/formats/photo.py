"""Reading of images as RGB tensors, in the pixel frame of their annotations.

Not for depth, label maps or anything with more than 8 bits per channel, whose values the conversion to RGB changes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.photo_head import (
    EIGHT_BIT_MODES,
    TOO_WIDE,
    expect_file,
    expect_one_page,
    has_wide_channels,
    read_head,
    unreadable,
)


def read_rgb(path: Path, size: tuple[int, int], *, drawn_upright: bool = False) -> Tensor:
    """Read an image as contiguous RGB: see `read_pixels`."""
    return read_pixels(path, size, drawn_upright=drawn_upright).contiguous()


def read_upright(path: Path) -> Tensor:
    """Read an image as contiguous RGB, rotated by its EXIF orientation, for annotations without image sizes.

    Returns:
        [3, H, W] uint8.

    Raises:
        DatasetError: the file is missing or broken, or has more than 8 bits per channel.
    """
    return _rgb(path, _decode(path, None, 1, True)[0]).contiguous()


def upright_size(path: Path) -> tuple[int, int]:
    """Return (H, W) of an image, rotated by its EXIF orientation, from the file header alone.

    Raises:
        DatasetError: the file is missing, or is not an image.
    """
    return read_head(path).upright_size


def read_pixels(
    path: Path, size: tuple[int, int], at_least: tuple[int, int] | None = None, *, drawn_upright: bool = False
) -> Tensor:
    """Read an image as RGB; grey, palette and CMYK files are converted, transparency is dropped.

    Annotations are drawn either on the stored pixels or on the image rotated by its EXIF orientation, and only the
    size in the annotation file tells which. The image is rotated if only the rotated size is that of the annotations.
    If both sizes are, ``drawn_upright`` decides.

    Args:
        path: an image file that Pillow reads.
        size: (H, W) in the annotation file.
        at_least: decode a JPEG at 1/8, 1/4 or 1/2 of its size: the smallest size that divides (H, W) and is at least
            this. Other files, and by default all files, are decoded at full size.
        drawn_upright: True if the labelling tool shows images rotated by their EXIF orientation.

    Returns:
        [3, H, W] uint8, or of the reduced size; the channels of a pixel are adjacent in memory.

    Raises:
        DatasetError: the file is missing or broken, has more than 8 bits per channel, or has another size.
    """
    factor = _reduction(size, at_least) if at_least else 1
    photo, stored, factor = _decode(path, size, factor, drawn_upright)
    if photo.size != (size[1] // factor, size[0] // factor):
        raise DatasetError(
            f"{path}: expected {size[1]} x {size[0]} pixels as in the annotation file, got {stored[0]} x {stored[1]}; "
            "use the images that the annotations were made on"
        )
    return _rgb(path, photo)


def _rgb(path: Path, photo: Image.Image) -> Tensor:
    if photo.mode not in EIGHT_BIT_MODES:
        raise DatasetError(f"{path}: expected an image of 8 bits per channel, got mode {photo.mode}; convert it")
    return torch.from_numpy(np.array(photo if photo.mode == "RGB" else photo.convert("RGB"))).permute(2, 0, 1)


def _reduction(size: tuple[int, int], at_least: tuple[int, int]) -> int:
    """Return the largest factor of libjpeg that keeps pixels aligned and the size at least ``at_least``."""
    for factor in (8, 4, 2):
        if all(s % factor == 0 and s // factor >= wanted for s, wanted in zip(size, at_least, strict=True)):
            return factor
    return 1


def _decode(
    path: Path, size: tuple[int, int] | None, factor: int, drawn_upright: bool
) -> tuple[Image.Image, tuple[int, int], int]:
    """Return the image, turned upright unless it is of this size as stored; its stored (W, H), and its reduction."""
    expect_file(path)
    try:
        with Image.open(path) as photo:
            stored = photo.size
            expect_one_page(path, photo)
            if has_wide_channels(photo):
                raise DatasetError(f"{path}: {TOO_WIDE}")
            if size is not None and factor > 1 and sorted(stored) == sorted(size) and photo.format in ("JPEG", "MPO"):
                photo.draft(None, (stored[0] // factor, stored[1] // factor))
            else:
                factor = 1
            photo.load()
            if size is not None and stored == size[::-1]:
                turned = ImageOps.exif_transpose(photo) if drawn_upright else photo
                return turned if turned.size == photo.size else photo, stored, factor
            return ImageOps.exif_transpose(photo), stored, factor
    except FileNotFoundError:
        raise DatasetError(f"{path}: expected an image, found no such file; check the folder and the name") from None
    except UnidentifiedImageError:
        raise DatasetError(f"{path}: {unreadable(path)}") from None
    except DatasetError:
        raise
    except Exception as error:  # Pillow's errors for broken files depend on the format
        raise DatasetError(f"{path}: expected an image, could not decode it ({error}); replace the file") from error
