"""Photos into RGB tensors, in the pixel frame that their annotations use.

Not for depth, label maps or anything with more than 8 bits per channel: those do not survive the conversion to RGB.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from segpaste.datasets.formats.photo_head import (
    EIGHT_BIT_MODES,
    TOO_WIDE,
    expect_file,
    has_wide_channels,
    read_head,
    unreadable,
)
from segpaste.datasets.formats.records import DatasetError


def read_rgb(path: Path, size: tuple[int, int], *, drawn_upright: bool = False) -> Tensor:
    """Read a photo as RGB, dense: see `read_pixels`."""
    return read_pixels(path, size, drawn_upright=drawn_upright).contiguous()


def read_upright(path: Path) -> Tensor:
    """Read a photo as RGB, dense, as its EXIF orientation shows it, for annotations that do not say its size.

    Returns:
        [3, H, W] uint8.

    Raises:
        DatasetError: the file is missing or broken, or has more than 8 bits per channel.
    """
    return _rgb(path, _decode(path, None, 1, True)[0]).contiguous()


def upright_size(path: Path) -> tuple[int, int]:
    """(H, W) of a photo as its EXIF orientation shows it, read from its head alone.

    Raises:
        DatasetError: the file is missing, or is no image.
    """
    return read_head(path).upright_size


def read_pixels(
    path: Path, size: tuple[int, int], at_least: tuple[int, int] | None = None, *, drawn_upright: bool = False
) -> Tensor:
    """Read a photo as RGB; grey, palette and CMYK files are converted, transparency is dropped.

    Annotations are drawn either on the stored pixels or on the photo as its EXIF orientation shows it, and only the
    size in the annotation file tells which: the photo is turned when that, and only that, makes the sizes agree. Where
    both sizes are that of the annotations, the tool that they were drawn with decides.

    Args:
        path: an image file that Pillow reads.
        size: (H, W) in the annotation file.
        at_least: decode a JPEG at 1/8, 1/4 or 1/2 of its size, the smallest that divides (H, W) and is no smaller than
            this; other files, and by default all, are decoded whole.
        drawn_upright: the tool shows photos as their EXIF orientation says.

    Returns:
        [3, H, W] uint8, or of the reduced size; the channels of a pixel lie together.

    Raises:
        DatasetError: the file is missing or broken, has more than 8 bits per channel, or is of another size.
    """
    factor = _reduction(size, at_least) if at_least else 1
    photo, stored, factor = _decode(path, size, factor, drawn_upright)
    if photo.size != (size[1] // factor, size[0] // factor):
        raise DatasetError(
            f"{path}: expected {size[1]} x {size[0]} pixels as in the annotation file, got {stored[0]} x {stored[1]}; "
            "use the photos that the annotations were made on"
        )
    return _rgb(path, photo)


def _rgb(path: Path, photo: Image.Image) -> Tensor:
    if photo.mode not in EIGHT_BIT_MODES:
        raise DatasetError(f"{path}: expected an image of 8 bits per channel, got mode {photo.mode}; convert it")
    return torch.from_numpy(np.array(photo if photo.mode == "RGB" else photo.convert("RGB"))).permute(2, 0, 1)


def _reduction(size: tuple[int, int], at_least: tuple[int, int]) -> int:
    """The largest factor of libjpeg that keeps the pixels aligned and at least so many."""
    for factor in (8, 4, 2):
        if all(s % factor == 0 and s // factor >= wanted for s, wanted in zip(size, at_least, strict=True)):
            return factor
    return 1


def _decode(
    path: Path, size: tuple[int, int] | None, factor: int, drawn_upright: bool
) -> tuple[Image.Image, tuple[int, int], int]:
    """The image, turned upright unless it is of this size as stored; its stored (W, H), and its reduction."""
    expect_file(path)
    try:
        with Image.open(path) as photo:
            stored = photo.size
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
    except Exception as error:  # what Pillow raises for a broken file depends on the format
        raise DatasetError(f"{path}: expected an image, could not decode it ({error}); replace the file") from error
