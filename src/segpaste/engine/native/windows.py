"""Native reads of images, masks and run lengths through a `Window`, straight into the output, and cuts of objects.

The results are equal to the last bit to those of torchvision's antialiased resize of uint8 on x86 (images), and of
`segpaste.types.transforms_v2` (masks and maps). Floats, depth and normals are not supported; torch reads
them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from segpaste.engine.native.library import address, call, workspace
from segpaste.types.sampling import Window

MAX_CHANNELS = 4
"""Largest number of channels that `read_image` takes."""

Counts = bytes | NDArray[np.int64]
"""Run lengths of COCO: compressed text, or numbers."""


class Shown(NamedTuple):
    """Area and box of one mask as seen through a window.

    Attributes:
        source_area: pixels of the whole mask.
        area: pixels in the output.
        box: (x1, y1, x2, y2) around them, pixel edges; zeros if there are none.
    """

    source_area: int
    area: int
    box: tuple[int, int, int, int]


def takes_image(image: Tensor, window: Window) -> bool:
    """Return whether `read_image` takes an image: uint8 on the CPU, few channels, resized to more than one pixel."""
    is_plain = image.dtype == torch.uint8 and image.device.type == "cpu" and 0 < image.shape[0] <= MAX_CHANNELS
    return is_plain and window.resized != (1, 1) and 0 not in image.shape


def read_image(image: Tensor, window: Window, fill: int, out: Tensor) -> None:
    """Resize an image with antialiasing, flip, crop and pad it.

    Args:
        image: [C, H, W] uint8 with any strides, C of 1 to 4.
        window: part of the image to read; its canvas is H x W.
        fill: value of the padding, 0 to 255.
        out: [C, h, w] uint8, dense, written.

    Raises:
        ValueError: shapes or dtypes that do not fit the window.
        MemoryError: there is not enough memory.
    """
    _expect_shapes(image, window, out, torch.uint8)
    words = [*_words(window), address(image), image.shape[0], *image.stride(), fill, address(out)]
    _call("segpaste_read_image", words)


def read_planes(planes: Tensor, window: Window, fill: int, out: Tensor) -> NDArray[np.int64] | None:
    """Resize planes by nearest neighbour, flip, crop and pad them.

    Args:
        planes: [N, H, W] bool, uint8 or int64.
        window: part of the planes to read; its canvas is H x W.
        fill: value of the padding.
        out: [N, h, w] of the same dtype, dense, written.

    Returns:
        For bool and uint8, area, x1, y1, x2, y2 of the nonzero pixels, [N, 5] int64; for int64, None.

    Raises:
        ValueError: shapes or dtypes that do not fit the window.
        MemoryError: there is not enough memory.
    """
    _expect_shapes(planes, window, out, planes.dtype)
    planes = planes.contiguous()
    size = planes.element_size()
    found = np.empty((len(planes), 5), np.int64) if size == 1 else None
    words = [*_words(window), address(planes), len(planes), size, fill, address(out)]
    _call("segpaste_read_planes", [*words, 0 if found is None else found.ctypes.data])
    return found


def read_runs(counts: Counts, window: Window, out: Tensor | None = None) -> Shown | None:
    """Rasterise COCO's run lengths into the output; without ``out``, measure them only.

    Args:
        counts: lengths down the columns of the canvas, background first.
        window: part of the canvas to read.
        out: [h, w] bool of zeros, dense, written.

    Returns:
        Areas and box, or None if the lengths are malformed or do not fill the canvas.

    Raises:
        MemoryError: there is not enough memory.
    """
    if isinstance(counts, bytes):
        text, is_text = ctypes.cast(ctypes.c_char_p(counts), ctypes.c_void_p).value or 0, 1
    else:
        counts = np.ascontiguousarray(counts, np.int64)
        text, is_text = counts.ctypes.data, 0
    found = (ctypes.c_int64 * 6)()
    words = [*_words(window), text, len(counts), is_text, 0 if out is None else address(out)]
    if _call("segpaste_read_runs", [*words, ctypes.addressof(found)]):
        return None
    source_area, area, *box = found
    return Shown(source_area, area, (box[0], box[1], box[2], box[3]))


def cut_out(
    image: Tensor,
    mask: Tensor,
    rows: Sequence[int],
    cols: Sequence[int],
    scale: tuple[int, int],
    out: Tensor,
    alpha: Tensor,
) -> None:
    """Cut out an object; see `segpaste.datasets.cutting.cut_out`.

    Args:
        image: [3, H, W] uint8 with any strides.
        mask: [H, W] bool.
        rows: start, end, length, size, before and room of the vertical axis, see ``window_records.hpp``.
        cols: those of the horizontal axis.
        scale: number of crop pixels per image pixel, as (num, den), at most 1.
        out: [3, h, w] uint8, dense, written.
        alpha: [1, h, w] bool, dense, written.

    Raises:
        ValueError: shapes or dtypes that do not fit the axes.
        MemoryError: there is not enough memory.
    """
    size, room = (rows[2], cols[2]), (rows[5], cols[5])
    shapes = [tuple(tensor.shape) for tensor in (image, mask, out, alpha)]
    dtypes = [tensor.dtype for tensor in (image, mask, out, alpha)]
    is_inside = all(
        0 <= start < end <= length and 1 <= num <= end - start and before >= 0 and before + num <= most
        for start, end, length, num, before, most in (rows, cols)
    )
    if (
        shapes != [(3, *size), size, (3, *room), (1, *room)]
        or dtypes != [torch.uint8, torch.bool] * 2
        or not (is_inside and 1 <= scale[0] <= scale[1] and out.is_contiguous() and alpha.is_contiguous())
    ):
        raise ValueError(f"expected {rows} and {cols} at {scale} of uint8 and bool, got {shapes} of {dtypes}")
    mask = mask.contiguous()
    words = [address(image), *image.stride(), address(mask), *rows, *cols, *scale, address(out), address(alpha)]
    _call("segpaste_cut_out", words)


def _words(window: Window) -> tuple[int, ...]:
    """Return the numbers of a window in the order of ``window_records.hpp``."""
    return *window.canvas_size, *window.resized, *window.corner, *window.inside, *window.size, int(window.flip)


def _call(name: str, words: list[int]) -> int:
    """Call a function of the library, and return its error code: 0, or 2 for invalid input.

    Raises:
        MemoryError: there is not enough memory.
    """
    error = call(name, words, workspace())
    if error == 1:
        raise MemoryError("segpaste: no memory to resize an image; load smaller ones, or fewer at once")
    return error


def _expect_shapes(given: Tensor, window: Window, out: Tensor, dtype: torch.dtype) -> None:
    """Reject tensors that the library would read or write out of bounds.

    Raises:
        ValueError: shapes or dtypes that do not fit the window.
    """
    shape = (len(given), *window.size)
    if tuple(given.shape[1:]) != window.canvas_size or tuple(out.shape) != shape:
        raise ValueError(
            f"expected {window.canvas_size} pixels into {shape}, got {tuple(given.shape)} into {tuple(out.shape)}"
        )
    if given.dtype != dtype or out.dtype != dtype or not out.is_contiguous():
        raise ValueError(f"expected {dtype}, dense, got {given.dtype} into {out.dtype} with strides {out.stride()}")
