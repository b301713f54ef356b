"""Probabilities of classes: pure functions, and tables for fast draws.

With n_c crops of class c and its frequency f_c = n_c / N, over all classes that have crops:

- ``natural``: p_c ~ n_c, the frequency of the crops
- ``repeat_factor``: p_c ~ n_c r_c with r_c = max(1, sqrt(t / f_c)), https://arxiv.org/abs/1908.03195; by default
  t is the mean of f_c
- ``instance_aware``: the same with r_c = max(1, sqrt(t / sqrt(f_c g_c))), where g_c is the fraction of images that show
  class, https://arxiv.org/abs/2305.08069
- ``tempered``: p_c ~ n_c ** (1 - temperature)
- ``class_uniform``: p_c the same for all classes
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from segpaste._printable import printable
from segpaste.bank.format.protocol import InstanceBank
from segpaste.bank.schema.record import BankError
from segpaste.datasets.class_counts import ClassCounts
from segpaste.samplers.by_class import SamplesOfClasses

DrawMode = Literal["natural", "repeat_factor", "instance_aware", "tempered", "class_uniform"]
MODES: tuple[DrawMode, ...] = ("natural", "repeat_factor", "instance_aware", "tempered", "class_uniform")

_CHUNK = 1 << 20


def class_probabilities(
    counts: ArrayLike,
    mode: DrawMode = "repeat_factor",
    *,
    threshold: float | None = None,
    temperature: float = 0.5,
    photo_fracs: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """Return the probability of each class, [C], 0 for classes without crops.

    Args:
        counts: number of crops of each class, [C].
        mode: one of the modes above.
        threshold: threshold t of the repeat factors, see `balancing_threshold` for None.
        temperature: temperature of ``tempered``, from 0, in proportion to the crops, to 1, all classes alike.
        photo_fracs: fraction g_c of each class, [C], for ``instance_aware``.

    Raises:
        ValueError: there are no crops, or a value that the mode needs is missing or out of range.
    """
    num = np.asarray(counts, np.float64)
    if num.ndim != 1 or not (num > 0).any() or (num < 0).any():
        raise ValueError(f"expected counts [C], some of them above 0, got {np.asarray(counts)!r}")
    has_crops = num > 0
    frac = np.where(has_crops, num / num.sum(), 1.0)
    if mode == "class_uniform":
        weights = has_crops.astype(np.float64)
    elif mode == "natural":
        weights = num
    elif mode == "tempered":
        if not 0 <= temperature <= 1:
            raise ValueError(f"expected 0 <= temperature <= 1, got {temperature}")
        weights = np.where(has_crops, np.where(has_crops, num, 1.0) ** (1 - temperature), 0.0)
    elif mode in ("repeat_factor", "instance_aware"):
        if threshold is not None and not 0 < threshold <= 1:
            raise ValueError(f"expected 0 < threshold <= 1, got {threshold}")
        if mode == "instance_aware":
            frac = np.sqrt(frac * _checked_fracs(photo_fracs, has_crops))
        threshold = balancing_threshold(frac[has_crops]) if threshold is None else threshold
        weights = num * np.maximum(1.0, np.sqrt(threshold / frac))
    else:
        raise ValueError(f"mode or balance: expected {', '.join(MODES[:-1])} or {MODES[-1]}, got {mode!r}")
    return np.asarray(weights / weights.sum())


def balancing_threshold(fracs: NDArray[np.float64]) -> float:
    """Return the mean frequency of the classes, the threshold below which repeat factors lift a class.

    For ``repeat_factor`` it is 1 / C for the C classes that have crops.

    Args:
        fracs: f_c, or sqrt(f_c g_c), of the classes that have crops, [C].
    """
    return float(fracs.mean())


@dataclass(frozen=True)
class DrawReport:
    """Expected draws of a sampler in an epoch, before any training.

    Attributes:
        class_names: name of each class.
        num_crops: number of crops of each class in the bank.
        expected_draws: expected draws of each class on one replica.
        factors: ratio to uniform draws for a crop of each class; 0 for a class without crops.
    """

    class_names: tuple[str, ...]
    num_crops: tuple[int, ...]
    expected_draws: tuple[float, ...]
    factors: tuple[float, ...]

    def __str__(self) -> str:
        names = [printable(name) for name in self.class_names]
        width = max([len(name) for name in names] + [5])
        lines = [f"{'class':{width}}  {'crops':>10}  {'share':>7}  {'draws':>12}  {'share':>7}  factor"]
        total, drawn = max(sum(self.num_crops), 1), sum(self.expected_draws) or 1.0
        for name, num, draws, factor in zip(names, self.num_crops, self.expected_draws, self.factors, strict=True):
            lines.append(
                f"{name:{width}}  {num:10d}  {num / total:7.2%}  {draws:12.1f}  {draws / drawn:7.2%}  {factor:6.2f}"
            )
        present = [num for num in self.num_crops if num > 0]
        is_balanced = max(present, default=0) <= 1.05 * min(present, default=0)
        if len(present) > 1 and not is_balanced and max(self.factors) < 1.05:
            lines.append(
                "no class is drawn noticeably more often than it occurs: raise threshold, or use class_uniform"
            )
        return "\n".join(lines)


def report_draws(
    class_names: Sequence[str], counts: ArrayLike, probabilities: NDArray[np.float64], num_samples: int
) -> DrawReport:
    """Return the report of ``num_samples`` draws with these probabilities of classes; see `class_probabilities`."""
    num = np.asarray(counts, np.int64)
    factors = probabilities * num.sum() / np.maximum(num, 1)
    expected = probabilities * num_samples
    return DrawReport(tuple(class_names), tuple(num.tolist()), tuple(expected.tolist()), tuple(factors.tolist()))


class ClassTable:
    """Table that draws classes by probabilities [C] in constant time: Walker's alias method (Vose, TSE 17(9), 1991)."""

    def __init__(self, probabilities: NDArray[np.float64]) -> None:
        num = len(probabilities)
        self._keep = np.ones(num)
        self._alias = np.arange(num)
        rest = probabilities * num
        small = [c for c in range(num) if rest[c] < 1]
        large = [c for c in range(num) if rest[c] >= 1]
        while small and large:
            low, high = small.pop(), large[-1]
            self._keep[low], self._alias[low] = rest[low], high
            rest[high] -= 1 - rest[low]
            if rest[high] < 1:
                small.append(large.pop())
        # Places left over by rounding keep their own class, unless its probability is 0.
        likeliest = int(probabilities.argmax())
        for c in small:
            if probabilities[c] == 0:
                self._keep[c], self._alias[c] = 0.0, likeliest

    def draw(self, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the class of each number in [0, 1)."""
        place = uniform * len(self._keep)
        column = place.astype(np.int64)
        return np.where(place - column < self._keep[column], column, self._alias[column])


def count_photos(bank: InstanceBank, crops: SamplesOfClasses) -> tuple[NDArray[np.int64], int]:
    """Return the number of images that show each class, [C], and of all images.

    Raises:
        BankError: the bank does not keep the image of a crop.
    """
    if "provenance" not in bank.layout.groups:
        raise BankError("instance_aware: expected a bank that keeps provenance, since it counts images; build one")
    photos = np.empty(len(bank), np.int64)
    for first in range(0, len(bank), _CHUNK):
        chunk = photos[first : first + _CHUNK]
        bank.read(np.arange(first, first + len(chunk)), out={"image_id": chunk})
    num_showing = [len(np.unique(photos[crops.of_class(c)])) for c in range(len(crops.counts))]
    return np.array(num_showing, np.int64), len(np.unique(photos))


def count_crops(bank: InstanceBank, *, images: bool = False) -> ClassCounts:
    """Count the crops of each class; with ``images`` also the images that show it, which reads a column of the bank."""
    counts = ClassCounts("bank", tuple(bank.class_names), tuple(bank.class_frequencies))
    if not images:
        return counts
    showing, num_photos = count_photos(bank, SamplesOfClasses(bank.crop_class_ids(), len(bank.class_names)))
    return replace(counts, num_showing=tuple(showing.tolist()), num_photos=num_photos)


def photo_fracs(bank: InstanceBank, crops: SamplesOfClasses) -> NDArray[np.float64]:
    """Return the fraction of the bank's images that show each class, [C]; see `count_photos`."""
    num_showing, num_photos = count_photos(bank, crops)
    return np.asarray(num_showing / max(num_photos, 1))


def uniforms(seed: int, name: str, *indices: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return numbers in [0, 1), multiples of 2 ** -53, for each index; see `segpaste.seeding.random_bits`."""
    from segpaste.seeding import random_bits_numpy  # with torch, which probabilities do not need

    return np.asarray((random_bits_numpy(seed, name, *indices) >> np.uint64(11)) * 2.0**-53)


def _checked_fracs(photo_fracs: ArrayLike | None, has_crops: NDArray[np.bool_]) -> NDArray[np.float64]:
    if photo_fracs is None:
        raise ValueError("instance_aware: expected photo_fracs, the fraction of images with each class, got None")
    fracs = np.asarray(photo_fracs, np.float64)
    if fracs.shape != has_crops.shape or not ((fracs > 0) & (fracs <= 1) | ~has_crops).all():
        raise ValueError(f"instance_aware: expected photo_fracs [{len(has_crops)}] in (0, 1], got {photo_fracs!r}")
    return np.where(has_crops, fracs, 1.0)
