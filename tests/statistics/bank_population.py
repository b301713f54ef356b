"""A small bank with a long tail that the reference and the module both draw from, and the rules they obey.

Its objects go into the panoptic pictures of `population`. Made so that a wrong draw shows: objects of a class differ in
size, so do classes, the rarest stand last, one class is no thing to the taxonomy, and no object stands in the middle of
its crop.
"""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
from painting import HEIGHT, WIDTH, drawn_shape, tight_box
from population import NUM_SLOTS, UNKNOWN_CLASS, Picture, Rules, digest_of, pictures

CROP_HEIGHT, CROP_WIDTH = 12, 16
MODALITY = "panoptic"
"""Of the targets."""

NUM_STAGED = 4
"""Crops that are drawn for each target."""

RULES = Rules(
    layers=2,
    paste_prob=0.9,
    k_range=(1, 2),
    hflip_probability=0.3,
    max_attempts=2,
    min_area_px=5,
    tau_stuff_frac=0.25,
    tau_stuff_px=30,
)
"""``layers`` of the staged crops are pasted at most."""

_SIZES = (
    ("rectangle", "3x3 4x3 4x5 5x4 6x5 6x6 7x6 8x7 9x7 10x8 12x9 14x11"),
    ("ellipse", "5x5 6x8 8x6 9x9 12x8 13x11"),
    ("triangle", "6x6 9x10 14x8"),
    ("ell", "8x8 12x10"),
    ("rectangle", "4x4"),
)
"""The objects of each class, width x height."""


def crops() -> list[Picture]:
    """The crops of the bank, class by class, each a picture of one object."""
    found = []
    for label, (shape, sizes) in enumerate(_SIZES):
        for n, size in enumerate(sizes.split()):
            width, height = map(int, size.split("x"))
            x, y = 1 + n % 2, n % 2
            mask = np.zeros((CROP_HEIGHT, CROP_WIDTH), bool)
            mask[y : y + height, x : x + width] = drawn_shape(shape, height, width)
            offers = () if label == UNKNOWN_CLASS else (0,)
            size_px = CROP_WIDTH, CROP_HEIGHT
            found.append(Picture(size_px, mask[None], (tight_box(mask),), (label,), offers, None, None, None))
    return found


def crops_of_classes() -> list[list[Picture]]:
    """The same crops, those of each class together."""
    return [[crop for crop in crops() if crop.labels == (label,)] for label in range(len(_SIZES))]


def digest() -> str:
    """A SHA-256 over every number that the draws depend on."""
    return digest_of([HEIGHT, WIDTH, NUM_SLOTS, asdict(RULES), NUM_STAGED], [*pictures(MODALITY), *crops()])
