"""Counts of pasted images, and the distance between two such counts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from population import HEIGHT, NUM_CLASSES, NUM_SLOTS, WIDTH, Array

LIMIT = 0.05
"""Two samplers whose distances are all at most this agree."""

LEVEL = 0.01
"""Probability with which two samples of one sampler lie further apart than `critical_distance`."""


@dataclass(frozen=True)
class Counts:
    """Integer counts over any number of images.

    Attributes:
        area: [H * W + 1], pastes by their visible pixels.
        pastes: [K + 1], images by the number of pastes.
        classes: [NUM_CLASSES], pastes by class.
        class_counts: [NUM_CLASSES, K + 1], for each class images by the number of its pastes.
    """

    area: Array
    pastes: Array
    classes: Array
    class_counts: Array

    @classmethod
    def of(cls, images: Iterable[Iterable[tuple[int, int]]]) -> Counts:
        """Count images, each given as the label and the visible pixels of its pastes."""
        found = cls(
            np.zeros(HEIGHT * WIDTH + 1, np.int64),
            np.zeros(NUM_SLOTS + 1, np.int64),
            np.zeros(NUM_CLASSES, np.int64),
            np.zeros((NUM_CLASSES, NUM_SLOTS + 1), np.int64),
        )
        for pastes in images:
            of_image = np.zeros(NUM_CLASSES, np.int64)
            for label, area in pastes:
                of_image[label] += 1
                found.area[area] += 1
            found.pastes[of_image.sum()] += 1
            found.classes[:] += of_image
            found.class_counts[np.arange(NUM_CLASSES), of_image] += 1
        return found

    @property
    def num_images(self) -> int:
        return int(self.pastes.sum())

    def to_json(self) -> dict[str, Any]:
        """Small: areas that never occur are left out."""
        values = np.flatnonzero(self.area)
        others = {field.name: getattr(self, field.name).tolist() for field in fields(self) if field.name != "area"}
        return {"area": [values.tolist(), self.area[values].tolist()], **others}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Counts:
        area = np.zeros(HEIGHT * WIDTH + 1, np.int64)
        values, counts = stored["area"]
        area[values] = counts
        return cls(area, *(np.array(stored[name], np.int64) for name in ("pastes", "classes", "class_counts")))


def ks_distance(one: Array, other: Array) -> float:
    """The two-sample Kolmogorov-Smirnov distance of two samples, given how often each value occurs (last axis).

    It is the largest difference of the shares of values up to x, for any x; of several rows that of the worst one.
    """
    shares = [np.cumsum(counts, axis=-1) / counts.sum(axis=-1, keepdims=True) for counts in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max())


def distances(one: Counts, other: Counts) -> dict[str, float]:
    """The distance of every count, by name."""
    return {field.name: ks_distance(getattr(one, field.name), getattr(other, field.name)) for field in fields(one)}


def class_distances(one: Counts, other: Counts, most: int = 20) -> dict[int, float]:
    """The distance of the number of pastes in an image for each of the ``most`` classes pasted most in ``other``."""
    frequent = np.argsort(-other.classes, kind="stable")[:most]
    return {int(c): ks_distance(one.class_counts[c], other.class_counts[c]) for c in frequent}


def critical_distance(num_one: int, num_other: int, level: float = LEVEL) -> float:
    """The two-sided critical value of the distance of two samples, for large ones; smaller for discrete values.

    Source: N. Smirnov, "Table for estimating the goodness of fit of empirical distributions", 1948.
    """
    return math.sqrt(-math.log(level / 2) / 2 * (num_one + num_other) / (num_one * num_other))
