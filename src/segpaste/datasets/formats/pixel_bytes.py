"""Encoding of pixels as file contents: images, label maps with a palette, depth, normals and intrinsics.

The same values give the same bytes on every machine. Not for reading: see `segpaste.datasets.formats.image_files`.
PNG: https://www.w3.org/TR/png-3/. Its compression is libdeflate's, see ``docs/decisions/image-encoders.md``.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from io import BytesIO
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from segpaste.types import DenseSample

ImageFormat = Literal["png", "jpg"]
DepthFormat = Literal["npy", "png"]
"""Formats of depth files: float32 metres, or 16-bit millimetres."""

_JPEG_QUALITY = 95
_GREY, _RGB, _INDEXED = 0, 2, 3
"""Colour types of PNG."""
_PLAIN, _SUB, _UP = 0, 1, 2
"""Filters of a row of PNG: its bytes, or their differences from those of the pixel before, or above."""
_MAX_MM = (1 << 16) - 1


def geometry_files(name: str, sample: DenseSample, depth_format: DepthFormat = "npy") -> Iterator[tuple[str, bytes]]:
    """Yield path and content of the files of depth, its validity, normals and the camera that a sample has.

    Args:
        name: name of the files, without suffix; its folders are below ``depth`` and the other folders.
        sample: the sample, with depth in metres if it is metric.
        depth_format: ``png`` rounds to millimetres, see `depth_mm`.
    """
    if sample.depth is not None and sample.depth_valid is not None:
        depth, valid = _array(sample.depth)[0], _array(sample.depth_valid)[0]
        if depth_format == "npy":
            yield f"depth/{name}.npy", npy_bytes(np.where(valid, depth, np.float32(0)))
            yield f"depth_valid/{name}.png", picture_bytes(valid.astype(np.uint8) * 255)
        else:
            yield f"depth/{name}.png", picture_bytes(depth_mm(depth, valid))
    if sample.normals is not None:
        yield f"normals/{name}.npy", npy_bytes(_array(sample.normals).transpose(1, 2, 0))
    if (text := intrinsics_text(sample)) is not None:
        yield f"intrinsics/{name}.txt", text


def depth_mm(depth: NDArray[np.float32], valid: NDArray[np.bool_]) -> NDArray[np.uint16]:
    """Return depth [H, W] in metres as rounded millimetres.

    Valid depth is at least 1. It is 0 where depth is invalid or does not fit into 16 bits, see `num_too_far`.
    """
    mm = np.maximum(np.rint(_valid_mm(depth, valid)), 1)
    return np.where((mm <= _MAX_MM) & _is_there(depth, valid), mm, 0).astype(np.uint16)


def num_too_far(depth: NDArray[np.float32], valid: NDArray[np.bool_]) -> int:
    """Return the number of valid pixels whose depth in metres does not fit into 16 bits of millimetres."""
    return int((np.rint(_valid_mm(depth, valid)) > _MAX_MM).sum() + (valid & ~_is_there(depth, valid)).sum())


def has_fractions(depth: NDArray[np.float32], valid: NDArray[np.bool_]) -> bool:
    """Return whether valid depth in metres has fractions of a millimetre, beyond the rounding of float32."""
    mm = _valid_mm(depth, valid)
    return bool((np.abs(mm - np.rint(mm)) > mm * np.finfo(np.float32).eps).any())


def _is_there(depth: NDArray[np.float32], valid: NDArray[np.bool_]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = valid & np.isfinite(depth) & (depth > 0)
    return found


def _valid_mm(depth: NDArray[np.float32], valid: NDArray[np.bool_]) -> NDArray[np.float64]:
    mm: NDArray[np.float64] = np.where(_is_there(depth, valid), depth, 0).astype(np.float64) * 1000
    return mm


def intrinsics_text(sample: DenseSample) -> bytes | None:
    """Return the camera matrix of a sample as three lines of three numbers, in pixels; None without a camera."""
    if (camera := sample.camera_intrinsics) is None:
        return None
    rows = ((camera.fx, 0, camera.cx), (0, camera.fy, camera.cy), (0, 0, 1))
    return "".join(" ".join(map(repr, row)) + "\n" for row in rows).encode()


def picture_bytes(pixels: NDArray[Any], image_format: ImageFormat = "png") -> bytes:
    """Encode an image: [H, W, 3] uint8 RGB, or [H, W] uint8 or uint16."""
    if image_format == "png":
        return _png(pixels, _GREY if pixels.ndim == 2 else _RGB)
    buffer = BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, "JPEG", quality=_JPEG_QUALITY, subsampling=0)
    return buffer.getvalue()


def palette_bytes(pixels: NDArray[np.uint8], palette: NDArray[np.uint8]) -> bytes:
    """Encode a map [H, W] as PNG with a palette [256, 3]."""
    return _png(pixels, _INDEXED, (b"PLTE", palette.tobytes()))


def _png(pixels: NDArray[Any], color_type: int, *chunks: tuple[bytes, bytes]) -> bytes:
    """Encode rows of pixels as PNG, with further chunks before them.

    Colours and depth are filtered and compressed at level 1: they have few long repeats. Maps have many.
    """
    import deflate

    height, width = pixels.shape[:2]
    values = np.empty(pixels.shape, pixels.dtype.newbyteorder(">"))
    for channel in range(pixels.shape[2] if pixels.ndim == 3 else 0):  # planes of a tensor, in a fifth of the time
        values[..., channel] = pixels[..., channel]
    if pixels.ndim == 2:
        values[...] = pixels
    rows = values.view(np.uint8).reshape(height, -1)
    is_filtered = color_type == _RGB or pixels.dtype.itemsize > 1
    lines = _filtered(rows, rows.shape[1] // width) if is_filtered else _lines(_PLAIN, rows)
    head = struct.pack(">IIBBBBB", width, height, 8 * pixels.dtype.itemsize, color_type, 0, 0, 0)
    data = bytes(deflate.zlib_compress(lines, 1 if is_filtered else 6))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(content, zlib.crc32(name)))
        for name, content in [(b"IHDR", head), *chunks, (b"IDAT", data), (b"IEND", b"")]
    )


def _filtered(rows: NDArray[np.uint8], pixel_size: int) -> NDArray[np.uint8]:
    """Return the lines of bytes [H, W B] of pixels of B bytes, each with the better of two filters.

    It is the one with the smaller sum of differences as signed numbers, the rule of PNG's authors.
    """
    sub, up = _lines(_SUB, rows), _lines(_UP, rows)
    np.subtract(rows[:, pixel_size:], rows[:, :-pixel_size], out=sub[:, 1 + pixel_size :])
    np.subtract(rows[1:], rows[:-1], out=up[1:, 1:])
    sums = np.uint32 if rows.shape[1] < 1 << 24 else np.uint64  # the former in half of the time
    costs = [np.abs(lines[:, 1:].view(np.int8)).view(np.uint8).sum(1, dtype=sums) for lines in (sub, up)]
    np.copyto(sub, up, where=(costs[1] < costs[0])[:, None])
    return sub


def _lines(kind: int, rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return rows of bytes with the filter that is named in front of them, but not yet applied."""
    lines = np.empty((len(rows), 1 + rows.shape[1]), np.uint8)
    lines[:, 0] = kind
    lines[:, 1:] = rows
    return lines


def npy_bytes(values: NDArray[np.float32]) -> bytes:
    """Encode an array as a file of NumPy."""
    buffer = BytesIO()
    np.save(buffer, np.ascontiguousarray(values), allow_pickle=False)
    return buffer.getvalue()


def _array(tensor: Tensor) -> NDArray[Any]:
    values: NDArray[Any] = tensor.as_subclass(Tensor).numpy()
    return values
