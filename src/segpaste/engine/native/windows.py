"""Images, masks and run lengths read through a `Window` by the native library, each pixel straight into its place.

Equal to the last bit to torchvision's antialiased resize of uint8 on x86 (images), and to
`segpaste.types.transforms_v2` (masks and maps). Not for floats, nor for depth and normals: those stay with torch.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from segpaste.engine.native.library import load, workspace
from segpaste.types.window import Window

MAX_CHANNELS = 4
"""Channels of an image that `read_image` takes at most."""

Counts = bytes | NDArray[np.int64]
"""COCO's run lengths: compressed text, or numbers."""


class Shown(NamedTuple):
    """What a window shows of one mask.

    Attributes:
        source_area: pixels of the whole mask.
        area: pixels in the output.
        box: (x1, y1, x2, y2) around them, pixel edges; zeros where there are none.
    """

    source_area: int
    area: int
    box: tuple[int, int, int, int]


def takes_image(image: Tensor, window: Window) -> bool:
    """Tell whether `read_image` takes an image of this kind: uint8 of few channels, resized to more than one pixel."""
    is_plain = image.dtype == torch.uint8 and image.device.type == "cpu" and 0 < image.shape[0] <= MAX_CHANNELS
    return is_plain and window.resized != (1, 1) and 0 not in image.shape


def read_image(image: Tensor, window: Window, fill: int, out: Tensor) -> None:
    """Resize with antialiasing, flip, cut and pad.

    Args:
        image: [C, H, W] uint8 with any strides, C of 1 to 4.
        window: where from; its canvas is H x W.
        fill: of the padding, 0 to 255.
        out: [C, h, w] uint8, dense, written.

    Raises:
        MemoryError: there is none.
    """
    _expect_shapes(image, window, out, torch.uint8)
    words = [*_words(window), image.data_ptr(), image.shape[0], *image.stride(), fill, out.data_ptr()]
    _call("segpaste_read_image", words)


def read_planes(planes: Tensor, window: Window, fill: int, out: Tensor) -> NDArray[np.int64] | None:
    """Take the nearest pixel of every plane, flip, cut and pad.

    Args:
        planes: [N, H, W] bool, uint8 or int64.
        window: where from; its canvas is H x W.
        fill: of the padding.
        out: [N, h, w] of the same dtype, dense, written.

    Returns:
        Of planes of bytes area, x1, y1, x2, y2 of what is not 0, [N, 5]; else None.

    Raises:
        MemoryError: there is none.
    """
    _expect_shapes(planes, window, out, planes.dtype)
    planes = planes.contiguous()
    size = planes.element_size()
    found = np.empty((len(planes), 5), np.int64) if size == 1 else None
    words = [*_words(window), planes.data_ptr(), len(planes), size, fill, out.data_ptr()]
    _call("segpaste_read_planes", [*words, 0 if found is None else found.ctypes.data])
    return found


def read_runs(counts: Counts, window: Window, out: Tensor | None = None) -> Shown | None:
    """Rasterise COCO's run lengths where they fall in the output; without ``out`` measure them alone.

    Args:
        counts: lengths down the columns of the canvas, background first.
        window: where from.
        out: [h, w] bool of zeros, dense, written.

    Returns:
        Areas and box, or None where the lengths are broken or do not fill the canvas.

    Raises:
        MemoryError: there is none.
    """
    if isinstance(counts, bytes):
        address, is_text = ctypes.cast(ctypes.c_char_p(counts), ctypes.c_void_p).value or 0, 1
    else:
        counts = np.ascontiguousarray(counts, np.int64)
        address, is_text = counts.ctypes.data, 0
    found = (ctypes.c_int64 * 6)()
    words = [*_words(window), address, len(counts), is_text, 0 if out is None else out.data_ptr()]
    if _call("segpaste_read_runs", [*words, ctypes.addressof(found)]):
        return None
    source_area, area, *box = found
    return Shown(source_area, area, (box[0], box[1], box[2], box[3]))


def _words(window: Window) -> tuple[int, ...]:
    """Lay out a window as ``window_records.hpp`` has it."""
    return *window.canvas_size, *window.resized, *window.corner, *window.inside, *window.size, int(window.flip)


def _call(name: str, words: list[int]) -> int:
    """Call one of the functions; 2 where what it was given is wrong.

    Raises:
        MemoryError: there is none.
    """
    job = (ctypes.c_int64 * len(words))(*words)
    error: int = _function(name)(ctypes.addressof(job), workspace())
    if error == 1:
        raise MemoryError("segpaste: no memory to resize an image; load smaller ones, or fewer at once")
    return error


@cache
def _function(name: str) -> ctypes._NamedFuncPointer:
    found: ctypes._NamedFuncPointer = getattr(load(), name)
    return found


def _expect_shapes(given: Tensor, window: Window, out: Tensor, dtype: torch.dtype) -> None:
    """Refuse what the library would read or write out of its bounds.

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
