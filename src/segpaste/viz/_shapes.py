"""Mask arithmetic and painting on [H, W, 3] arrays: outlines, rims, hatching, translucent fills.

It is plain NumPy for small crops. Neighbours are the four beside a pixel, and the outside of the picture is background.
Use a library for general morphology with large radii.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from segpaste.viz.palette import RGB, UInt8Image

Mask = NDArray[np.bool_]

_HATCH_LIGHT, _HATCH_DARK = 168, 146


def eroded(mask: Mask, px: int = 1) -> Mask:
    """Return the pixels of ``mask`` [H, W] that are more than ``px`` steps inside it."""
    for _ in range(px):
        p = np.pad(mask, 1)
        mask = p[1:-1, 1:-1] & p[:-2, 1:-1] & p[2:, 1:-1] & p[1:-1, :-2] & p[1:-1, 2:]
    return mask


def outline(mask: Mask, px: int = 1) -> Mask:
    """Return the outermost ``px`` layers of pixels of ``mask`` [H, W]."""
    return mask & ~eroded(mask, px)


def rim(mask: Mask, px: int = 1) -> Mask:
    """Return the ``px`` layers of pixels just outside ``mask`` [H, W]."""
    outside = np.pad(~mask, px, constant_values=True)
    return ~mask & ~eroded(outside, px)[px:-px, px:-px] if px else np.zeros_like(mask)


def segment_borders(segments: NDArray[np.int64], px: int = 1) -> Mask:
    """Return the pixels within ``px`` of another segment, [H, W]."""
    border = np.zeros(segments.shape, dtype=bool)
    for step in range(1, px + 1):
        border[:, step:] |= segments[:, step:] != segments[:, :-step]
        border[step:, :] |= segments[step:, :] != segments[:-step, :]
    return border


def window(mask: Mask, margin: int) -> tuple[slice, slice] | None:
    """Return the rows and columns that contain ``mask`` [H, W] and a margin, or None if it is empty."""
    rows, cols = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    if not rows.size:
        return None
    top, left = max(0, int(rows[0]) - margin), max(0, int(cols[0]) - margin)
    return slice(top, int(rows[-1]) + 1 + margin), slice(left, int(cols[-1]) + 1 + margin)


def centre_of(mask: Mask) -> tuple[float, float] | None:
    """Return the middle (x, y), in pixels, of the widest part of ``mask`` [H, W], a good place for its name.

    A coarse copy is eroded until nothing is left; the last pixels are the deepest inside. None if it is empty.
    """
    step = max(1, max(mask.shape) // 64)
    coarse = mask[step // 2 :: step, step // 2 :: step]
    if not coarse.any():
        return None
    while (smaller := eroded(coarse)).any():
        coarse = smaller
    y, x = np.argwhere(coarse)[int(coarse.sum()) // 2]
    return (float(x) + 0.5) * step, (float(y) + 0.5) * step


def blend(picture: UInt8Image, where: Mask, colors: RGB | UInt8Image, opacity: float) -> None:
    """Blend a colour, or an image [H, W, 3], in place where ``where`` [H, W] is true; opacity 1 replaces."""
    over = np.broadcast_to(np.asarray(colors, dtype=np.float32), picture.shape)[where]
    under = picture[where].astype(np.float32)
    picture[where] = (under + (over - under) * opacity + 0.5).astype(np.uint8)


def hatch(height: int, width: int) -> UInt8Image:
    """Return diagonal grey stripes, [H, W, 3], for pixels without a value."""
    period = max(4, max(height, width) // 60)
    diagonal = np.add.outer(np.arange(height), np.arange(width)) % (2 * period)
    grey = np.where(diagonal < period, _HATCH_LIGHT, _HATCH_DARK).astype(np.uint8)
    return np.repeat(grey[:, :, None], 3, axis=2)
