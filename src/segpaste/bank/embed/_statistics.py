"""Embedding without weights: colours, edges and outline of an object in 256 numbers.

It serves for a first look at a bank, near-duplicates, and objects that do not look like their class. It knows nothing
of the meaning of objects: for that use a trained model, see `segpaste.bank.embed.embedders`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from segpaste.bank.embed.similarity import unit

Array = NDArray[np.float64]

GRID = 64
"""Number of sampling points along each side of the box of an object."""

_COLOUR_BINS, _COLOUR_CELLS, _ANGLE_BINS, _CELLS = 8, 2, 8, 4
_SHARES = {"colour": 0.3, "mean_colour": 0.1, "edges": 0.3, "outline": 0.15, "shape": 0.15}
"""Share of the squared length of each part."""


def statistics_embedding(images: NDArray[np.uint8], alphas: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Describe objects by their pixels inside alpha.

    Each object is sampled on a grid of 64 × 64 points over its box, so neither its size nor its position in the crop
    matters. The numbers, in order:

    - 96: histograms of 3 opponent colours (brightness, red against green, yellow against blue) in 8 overlapping bins,
      for each quarter of the box;
    - 128: histograms of the direction of brightness edges inside the object, 8 directions for each of 4 × 4 cells,
      https://doi.org/10.1109/CVPR.2005.177;
    - 16: share of object points in each of 4 × 4 cells;
    - 6: mean and standard deviation of the 3 colours;
    - 10: outline: logarithm of the aspect ratio, share of the box that is object, mean position, and the central
      moments of orders 2 and 3.

    Histograms are square roots of shares, so that dot products compare them as distributions.

    Args:
        images: uint8 [n, 3, h, w].
        alphas: bool [n, 1, h, w].

    Returns:
        float32 [n, 256] of length 1; zeros if alpha is empty. The numbers of a crop do not depend on other crops.
    """
    num, side = len(images), GRID // _CELLS
    colours, inside, sizes = _sampled(images, alphas[:, 0])
    opponent = _opponent(colours)
    parts = {
        "colour": _colour_histograms(opponent, inside),
        "edges": _edge_histograms(colours.mean(1), inside),
        "outline": np.sqrt(inside.reshape(num, _CELLS, side, _CELLS, side).mean((2, 4))).reshape(num, -1),
        "mean_colour": _colour_moments(opponent, inside),
        "shape": _shape(inside, sizes),
    }
    scaled = [unit(part, np.float64) * np.sqrt(_SHARES[name]) for name, part in parts.items()]
    has_object = np.asarray(inside.any((1, 2)))
    return (unit(np.concatenate(scaled, 1), np.float64) * has_object[:, None]).astype(np.float32)


def _sampled(
    images: NDArray[np.uint8], alphas: NDArray[np.bool_]
) -> tuple[Array, NDArray[np.bool_], NDArray[np.int64]]:
    """Sample objects at the points of a grid over their boxes.

    Returns:
        Colours [n, 3, G, G] in 0..255, True for points of the object [n, G, G], and height and width of the boxes
        [n, 2].
    """
    places, sizes = [], []
    for axis in (2, 1):
        covered = np.asarray(alphas.any(axis))
        low = covered.argmax(1)
        size = covered.shape[1] - covered[:, ::-1].argmax(1) - low
        steps = ((2 * np.arange(GRID) + 1) * size[:, None]) // (2 * GRID)
        places.append(np.minimum(low[:, None] + steps, covered.shape[1] - 1))
        sizes.append(size)
    rows, columns = places[0][:, :, None], places[1][:, None, :]
    which = np.arange(len(images))[:, None, None]
    colours = images.transpose(0, 2, 3, 1)[which, rows, columns].transpose(0, 3, 1, 2)
    return colours.astype(np.float64), alphas[which, rows, columns], np.stack(sizes, 1)


def _opponent(colours: Array) -> Array:
    """Return brightness in 0..1, red against green and yellow against blue in -1..1, the last two spread near grey."""
    red, green, blue = (colours[:, c] / 255 for c in range(3))
    chroma = np.stack([red - green, (red + green) / 2 - blue], 1)
    return np.concatenate([colours.mean(1)[:, None] / 255, 1.6 * chroma / (np.abs(chroma) + 0.6)], 1)


def _colour_histograms(opponent: Array, inside: NDArray[np.bool_]) -> Array:
    """Return histograms [n, 3 * 8 * 4]; a colour counts linearly for its two neighbouring bins."""
    found = []
    for channel in range(3):
        value = opponent[:, channel] if channel == 0 else (opponent[:, channel] + 1) / 2
        place = value * (_COLOUR_BINS - 1)
        low = np.minimum(place.astype(np.int64), _COLOUR_BINS - 2)
        found.append(_histograms(low, place - low, inside.astype(np.float64), _COLOUR_BINS, _COLOUR_CELLS))
    return np.sqrt(np.concatenate(found, 1))


def _edge_histograms(brightness: Array, inside: NDArray[np.bool_]) -> Array:
    """Return histograms [n, 8 * 16]; edges count by their strength, only if all neighbours are object."""
    across = np.zeros_like(brightness)
    down = np.zeros_like(brightness)
    across[:, :, 1:-1] = brightness[:, :, 2:] - brightness[:, :, :-2]
    down[:, 1:-1] = brightness[:, 2:] - brightness[:, :-2]
    whole = np.zeros_like(inside)
    whole[:, 1:-1, 1:-1] = (
        inside[:, 1:-1, :-2] & inside[:, 1:-1, 2:] & inside[:, :-2, 1:-1] & inside[:, 2:, 1:-1] & inside[:, 1:-1, 1:-1]
    )
    place = (np.arctan2(down, across) / np.pi % 1.0) * _ANGLE_BINS
    low = np.minimum(place.astype(np.int64), _ANGLE_BINS - 1)
    return np.sqrt(_histograms(low, place - low, np.sqrt(across**2 + down**2) * whole, _ANGLE_BINS, _CELLS))


def _histograms(low: NDArray[np.int64], above: Array, weights: Array, num_bins: int, cells: int) -> Array:
    """Return histograms [n, cells ** 2 * num_bins] of points [n, G, G] between bin ``low`` and the next, cyclically."""
    num = len(low)
    cell = np.arange(GRID) * cells // GRID
    first = ((np.arange(num)[:, None, None] * cells + cell[:, None]) * cells + cell) * num_bins
    sums = np.zeros(num * cells * cells * num_bins)
    for bins, part in ((low, 1 - above), ((low + 1) % num_bins, above)):
        sums += np.bincount((first + bins).ravel(), (weights * part).ravel(), len(sums))
    return sums.reshape(num, -1)


def _colour_moments(opponent: Array, inside: NDArray[np.bool_]) -> Array:
    """Return mean and standard deviation of the colours, [n, 6]."""
    num = np.maximum(inside.sum((1, 2)), 1)[:, None]
    masked = opponent * inside[:, None]
    mean = masked.sum((2, 3)) / num
    return np.concatenate([mean, np.sqrt(np.maximum((masked**2).sum((2, 3)) / num - mean**2, 0))], 1)


def _shape(inside: NDArray[np.bool_], sizes: NDArray[np.int64]) -> Array:
    """Return the outline, [n, 10]."""
    num = np.maximum(inside.sum((1, 2)), 1)
    axis = (np.arange(GRID) + 0.5) / GRID * 2 - 1
    x, y = (inside * axis).sum((1, 2)) / num, (inside * axis[:, None]).sum((1, 2)) / num
    dx, dy = axis - x[:, None, None], axis[:, None] - y[:, None, None]
    orders = ((2, 0), (1, 1), (0, 2), (3, 0), (1, 2), (2, 1))
    moments = [(inside * dx**p * dy**q).sum((1, 2)) / num for p, q in orders]
    aspect = np.log(np.maximum(sizes[:, 1], 1) / np.maximum(sizes[:, 0], 1)) / 2
    return np.stack([aspect, inside.mean((1, 2)), x, y, *moments], 1)
