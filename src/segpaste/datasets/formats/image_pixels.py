"""Pixels of image files as tensors, RGB in the frame of their annotations; see `image_files` for what is read."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from segpaste._pixels import Size
from segpaste.datasets.formats.image_files import read_image
from segpaste.datasets.formats.pillow_pixels import pixels_of
from segpaste.datasets.formats.plain_jpeg import read_plain_part


def read_pixels(path: Path, size: Size, at_least: Size | None = None, *, drawn_upright: bool = False) -> Tensor:
    """Read an image as RGB; see `read_image` for the arguments and errors.

    Returns:
        [3, H, W] uint8, or of the reduced size; the channels of a pixel are adjacent in memory.
    """
    return pixels_of(read_image(path, size, at_least, drawn_upright=drawn_upright))


def read_rgb(path: Path, size: Size, *, drawn_upright: bool = False) -> Tensor:
    """Read an image as contiguous RGB: see `read_pixels`."""
    return read_pixels(path, size, drawn_upright=drawn_upright).contiguous()


def read_upright(path: Path) -> Tensor:
    """Read an image as contiguous RGB, rotated by its EXIF orientation, for annotations without image sizes.

    Returns:
        [3, H, W] uint8.

    Raises:
        DatasetError: the file is missing or broken, or has more than 8 bits per channel.
    """
    return pixels_of(read_image(path, None)).contiguous()


def read_part(path: Path, size: Size, part: tuple[int, int, int, int], *, drawn_upright: bool = False) -> Tensor:
    """Return a part of an image, the same pixels as of `read_pixels`.

    Args:
        path: an image file that Pillow reads.
        size: (H, W) in the annotation file.
        part: box in the image, xyxy, pixels, not empty.
        drawn_upright: see `read_pixels`.

    Returns:
        [3, h, w] uint8; the channels of a pixel are adjacent in memory.

    Raises:
        DatasetError: see `read_pixels`.
    """
    if (found := read_plain_part(path, size, part)) is not None:
        return found
    left, top, right, bottom = part
    return read_pixels(path, size, drawn_upright=drawn_upright)[:, top:bottom, left:right]
