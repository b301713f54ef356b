"""Colours: stable colours for instances and classes, one for pasted objects, and a colour map for depth.

All of them are mixed in OKLCH (lightness, chroma, hue of the OKLab space, Björn Ottosson 2020), where equal steps look
equal. Hues advance by the golden angle, so neighbouring ids are far apart and the colour of an id never depends on the
rest of the picture. Not for labels on disk: indexed PNG formats prescribe their own palettes.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

RGB = tuple[int, int, int]
UInt8Image = NDArray[np.uint8]
"""Picture, [H, W, 3] uint8 RGB."""

HIGHLIGHT: RGB = (255, 214, 10)
"""Colour of the outline of pasted objects; no instance or class has a hue near it."""

INK: RGB = (24, 26, 31)
PAPER: RGB = (250, 250, 248)
MUTED: RGB = (112, 117, 127)

_GOLDEN = 0.6180339887498949
_HUE_START, _HUE_SPAN = 125.0, 305.0  # degrees; the rest of the circle, around yellow, is reserved for HIGHLIGHT
_LIGHTNESS = (0.68, 0.60, 0.77)

# (lightness, chroma, hue in degrees) from near to far; lightness falls by equal steps
_DEPTH_POINTS = (
    (0.94, 0.09, 98),
    (0.80, 0.16, 62),
    (0.66, 0.20, 25),
    (0.51, 0.20, -12),
    (0.37, 0.17, -62),
    (0.23, 0.08, -85),
)


def instance_color(instance_id: int) -> RGB:
    """Return the vivid colour of an instance id: sRGB, 0..255."""
    return _sequence_color(int(instance_id), 0.20)


def class_color(label: int) -> RGB:
    """Return the softer colour of a class id: sRGB, 0..255."""
    return _sequence_color(int(label) + 2, 0.14)


def text_color(background: RGB) -> RGB:
    """Return `INK` or `PAPER`, for the better contrast with ``background`` (relative luminance of WCAG 2.1)."""
    linear = ((np.asarray(background) / 255 + 0.055) / 1.055) ** 2.4
    return INK if float(linear @ (0.2126, 0.7152, 0.0722)) > 0.22 else PAPER


def depth_colors(values: NDArray[np.float64]) -> UInt8Image:
    """Return colours [..., 3] of finite relative depths [...]: up to 0 (near) pale yellow, from 1 (far) deep indigo."""
    return _depth_table().take((np.clip(values, 0, 1) * 255 + 0.5).astype(np.intp), axis=0)


def oklch_to_srgb(
    lightness: NDArray[np.float64], chroma: NDArray[np.float64], hue: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Convert OKLCH to sRGB by Ottosson (2020): [..., 3], outside of 0..1 for colours that sRGB does not have.

    Lightness is in 0..1, chroma at least 0, the hue in degrees.
    """
    a, b = chroma * np.cos(np.radians(hue)), chroma * np.sin(np.radians(hue))
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = np.stack(
        [
            4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
            -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
            -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
        ],
        axis=-1,
    )
    curve = 1.055 * np.clip(linear, 0.0031308, None) ** (1 / 2.4) - 0.055
    return np.where(linear <= 0.0031308, 12.92 * linear, curve)


@lru_cache(maxsize=4096)
def _sequence_color(index: int, chroma: float) -> RGB:
    hue = _HUE_START + _HUE_SPAN * (index * _GOLDEN % 1.0)
    red, green, blue = _in_gamut(np.array([_LIGHTNESS[index % len(_LIGHTNESS)]]), chroma, np.array([hue]))[0]
    return int(red), int(green), int(blue)


def _in_gamut(
    lightness: NDArray[np.float64], chroma: float | NDArray[np.float64], hue: NDArray[np.float64]
) -> UInt8Image:
    """Return [M] colours as [M, 3] uint8, each with the largest chroma up to ``chroma`` that sRGB has."""
    steps = np.linspace(1.0, 0.0, 41)[:, None]
    rgb = oklch_to_srgb(lightness, steps * chroma, hue)
    first_inside = np.argmax(((rgb > -1e-4) & (rgb < 1 + 1e-4)).all(-1), axis=0)
    chosen = rgb[first_inside, np.arange(len(hue))]
    return np.asarray(np.clip(chosen, 0, 1) * 255 + 0.5, dtype=np.uint8)


@lru_cache(maxsize=1)
def _depth_table() -> UInt8Image:
    stops = np.linspace(0, 1, len(_DEPTH_POINTS))
    lightness, chroma, hue = (
        np.interp(np.linspace(0, 1, 256), stops, column) for column in zip(*_DEPTH_POINTS, strict=True)
    )
    return _in_gamut(lightness, chroma, hue)
