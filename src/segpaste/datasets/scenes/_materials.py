"""Random colours and materials: each class has its hue and texture, each instance its own shade."""

from __future__ import annotations

import numpy as np

from segpaste.datasets.scenes._config import TEXTURES, texture_of
from segpaste.datasets.scenes._geometry import Material, Vector

CEILING = Material("plain", ((0.85, 0.85, 0.83), (0.78, 0.78, 0.77)), 0.5)
WINDOW = Material("sky", ((0.1, 0.32, 0.75), (0.95, 0.97, 1.0)), 1.0)
MIRROR = Material("glass", ((0.12, 0.07, 0.04), (0.72, 0.8, 0.82)), 1.0)

_GOLDEN_RATIO = 0.6180339887498949


def draw_thing(rng: np.random.Generator, class_id: int) -> Material:
    """Draw the material of an object; the hues of successive classes are a golden section of the circle apart."""
    hue = 0.02 + _GOLDEN_RATIO * class_id + rng.uniform(-0.025, 0.025)
    strong = _rgb(hue, rng.uniform(0.7, 0.9), rng.uniform(0.5, 0.85))
    texture = texture_of(class_id)
    second = _mix(strong, (0.0, 0.0, 0.0), 0.35) if texture == "plain" else _rgb(hue + 0.08, 0.25, 0.9)
    cell = rng.uniform(0.16, 0.26) * (2 if texture == "marbled" else 1)
    return Material(texture, (strong, second), cell, rng.uniform(0.1, 0.5))


def draw_wallpaper(rng: np.random.Generator) -> Material:
    """Draw the material of the walls: pale, sometimes striped."""
    pale = _rgb(rng.uniform(), rng.uniform(0.2, 0.5), rng.uniform(0.6, 0.8))
    colors = (pale, _mix(pale, (1.0, 1.0, 1.0), 0.2))
    return Material("striped" if rng.uniform() < 0.35 else "plain", colors, rng.uniform(0.25, 0.5))


def draw_flooring(rng: np.random.Generator) -> Material:
    """Draw the material of the floor: planks, tiles or marble."""
    kind = int(rng.integers(3))
    if kind == 0:
        wood = _rgb(rng.uniform(0.05, 0.09), rng.uniform(0.5, 0.75), rng.uniform(0.35, 0.65))
        return Material("planks", (_mix(wood, (0.0, 0.0, 0.0), 0.65), wood), rng.uniform(0.12, 0.2), 0.05)
    dark = _rgb(rng.uniform(), rng.uniform(0.2, 0.5), rng.uniform(0.2, 0.4))
    light = _mix(dark, (0.85, 0.83, 0.8), rng.uniform(0.5, 0.9) if kind == 1 else rng.uniform(0.2, 0.4))
    return Material("checkered" if kind == 1 else "marbled", (dark, light), rng.uniform(0.35, 0.6), 0.08)


def draw_rug(rng: np.random.Generator) -> Material:
    """Draw the material of a rug, with a pattern relative to its half size."""
    hue = rng.uniform()
    colors = (_rgb(hue, 0.75, 0.45), _rgb(hue + rng.uniform(0.05, 0.5), 0.4, 0.75))
    return Material(TEXTURES[1 + int(rng.integers(3))], colors, 0.4)


def _rgb(hue: float, saturation: float, value: float) -> Vector:
    """Return the colour of a hue on a circle of length 1, by the usual hexagonal cone."""
    wheel = (abs((hue + shift) % 1 * 6 - 3) - 1 for shift in (0.0, 2 / 3, 1 / 3))
    r, g, b = (value * (1 - saturation * (1 - min(max(w, 0.0), 1.0))) for w in wheel)
    return r, g, b


def _mix(a: Vector, b: Vector, weight: float) -> Vector:
    r, g, b_ = (x + weight * (y - x) for x, y in zip(a, b, strict=True))
    return r, g, b_
