"""Configuration of scenes and their classes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from segpaste.datasets.scenes._geometry import Texture, Vector

STUFF_NAMES = ("floor", "wall", "ceiling", "rug", "window")
"""Stuff classes; their ids follow those of the things, in this order."""

SHAPES: dict[str, Vector] = {
    "ball": (1.0, 1.0, 1.0),
    "cube": (0.8, 0.8, 0.8),
    "tower": (0.5, 1.25, 0.5),
    "slab": (1.1, 0.4, 0.8),
}
"""Shape names, with half the extent along each axis relative to the size of the object."""

TEXTURES: tuple[Texture, ...] = ("plain", "striped", "checkered", "marbled")


@dataclass(frozen=True, slots=True)
class SceneConfig:
    """Distribution of the scenes.

    Attributes:
        height: height of the images, pixels.
        width: width of the images, pixels.
        num_objects_range: number of objects to place in a room, inclusive; an object without a free place, or a
            hidden one, is absent.
        num_classes: number of thing classes, 1 to 250.
        long_tail: Zipf exponent: class c is drawn in proportion to 1 / (c + 1) ** long_tail; 0 is uniform.
        focal_frac_range: focal length as a multiple of the shorter side of the image, inclusive.
        rug_prob: probability of a rug, which is stuff.
        window_prob: probability of a window, which is stuff with invalid depth and zero normals.
        mirror_prob: probability of a mirror, which is unlabelled and has invalid depth.
        grazing_cos: depth is invalid where the cosine between normal and line of sight is below this; 0 disables it.
        rays_per_px: rays per pixel of the image, along each axis; all other fields are exact at the pixel centre.

    Raises:
        ValueError: an attribute is out of range; the message names it.
    """

    height: int = 256
    width: int = 256
    num_objects_range: tuple[int, int] = (5, 10)
    num_classes: int = 8
    long_tail: float = 0.0
    focal_frac_range: tuple[float, float] = (0.85, 1.1)
    rug_prob: float = 0.6
    window_prob: float = 0.5
    mirror_prob: float = 0.25
    grazing_cos: float = 0.2
    rays_per_px: int = 2

    def __post_init__(self) -> None:
        for name, low, high in (
            ("height", 1, math.inf),
            ("width", 1, math.inf),
            ("num_classes", 1, 250),
            ("long_tail", 0, math.inf),
            ("rug_prob", 0, 1),
            ("window_prob", 0, 1),
            ("mirror_prob", 0, 1),
            ("grazing_cos", 0, 1),
            ("rays_per_px", 1, 8),
        ):
            if not low <= getattr(self, name) <= high:
                wanted = f"at least {low}" if high == math.inf else f"between {low} and {high}"
                raise ValueError(f"SceneConfig.{name}: expected a number {wanted}, got {getattr(self, name)}")
        for name, least in (("num_objects_range", 0), ("focal_frac_range", 0.2)):
            first, last = getattr(self, name)
            if not least <= first <= last:
                raise ValueError(
                    f"SceneConfig.{name}: expected (low, high) with {least} <= low <= high, got {(first, last)}"
                )

    @property
    def thing_names(self) -> tuple[str, ...]:
        """Names of the thing classes, whose ids are 0 .. num_classes - 1."""
        distinct = len(SHAPES) * len(TEXTURES)
        return tuple(
            f"{texture_of(c)} {shape_of(c)}" + (f" {c // distinct + 1}" if c >= distinct else "")
            for c in range(self.num_classes)
        )

    def stuff_id(self, name: str) -> int:
        """Return the class id of one of `STUFF_NAMES`."""
        return self.num_classes + STUFF_NAMES.index(name)


def shape_of(class_id: int) -> str:
    """Return the shape of a thing class, a key of `SHAPES`."""
    return tuple(SHAPES)[class_id % len(SHAPES)]


def texture_of(class_id: int) -> Texture:
    """Return the texture of a thing class; pairs of shape and texture repeat only after all combinations."""
    return TEXTURES[(class_id + class_id // len(SHAPES)) % len(TEXTURES)]
