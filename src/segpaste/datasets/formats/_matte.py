"""Fill of the pixels around an object with its own colours, by averages of ever coarser images.

Pixels outside a soft mask have the colours of another background, or black. Method: pull-push, Gortler et al., "The
Lumigraph", SIGGRAPH 1996, section 3.4.1. Float32 sums in a fixed order give the same result on every machine.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

UInt8 = NDArray[np.uint8]
Float32 = NDArray[np.float32]


def filled_colours(image: UInt8, weights: UInt8) -> UInt8:
    """Return an image whose pixels without weight are filled with the colours of near pixels with weight.

    Args:
        image: [C, H, W].
        weights: [H, W], 0 for pixels to fill, above 0 for pixels that keep their colour; at least one is above 0.
    """
    trusted = weights.astype(np.float32) / np.float32(255)
    filled = [_filled(plane.astype(np.float32), trusted) for plane in image]
    return np.stack([(plane + np.float32(0.5)).astype(np.uint8) for plane in filled])


def _filled(plane: Float32, weights: Float32) -> Float32:
    """Fill one plane [H, W] where weights [H, W] are 0."""
    if weights.all():
        return plane
    sums = _halved(weights)
    means = np.divide(_halved(plane * weights), sums, out=np.zeros_like(sums), where=sums > 0)
    coarse = _filled(means, np.minimum(sums, np.float32(1)))
    height, width = plane.shape
    spread = coarse.repeat(2, 0).repeat(2, 1)[:height, :width]
    return np.where(weights > 0, plane, spread)


def _halved(values: Float32) -> Float32:
    """Return the sums of blocks of 2 x 2, [ceil(H / 2), ceil(W / 2)]."""
    even = np.pad(values, [(0, size % 2) for size in values.shape])
    total: Float32 = (even[::2, ::2] + even[1::2, ::2]) + (even[::2, 1::2] + even[1::2, 1::2])
    return total
