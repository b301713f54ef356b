"""Shapes on a canvas of 24 x 32 pixels, made of integers."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Box = tuple[int, int, int, int]

HEIGHT, WIDTH = 24, 32


def filled(box: Box) -> Array:
    mask = np.zeros((HEIGHT, WIDTH), bool)
    mask[box[1] : box[3], box[0] : box[2]] = True
    return mask


def drawn_shape(name: str, height: int, width: int) -> Array:
    rows, columns = np.mgrid[:height, :width]
    if name == "rectangle":
        return np.ones((height, width), bool)
    if name == "triangle":
        return columns * height <= rows * width
    if name == "ell":
        return (3 * columns < width) | (3 * (height - rows) <= height)
    assert name == "ellipse"
    across, down = (2 * columns + 1 - width) * height, (2 * rows + 1 - height) * width
    return across**2 + down**2 <= (height * width) ** 2


def tight_box(mask: Array) -> Box:
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1
