"""Splits of a dataset into images to train on and held-out images, by seed.

The images are divided into two pools. Runs of the search hold out images of the first pool, runs of the final
comparison images of the second, so the chosen arm is judged on images that were not scored in the search. A run trains
on all images that it does not hold out, of both pools.

Rare classes are divided first. As long as there are enough other images, at least one image of each class stays in the
training set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from segpaste.seeding import derive_seed

Part = Literal["search", "final"]
Classes = Sequence[frozenset[int]]
"""Classes with objects in each image."""

FEWEST_IMAGES = 8
_POOL_STREAM, _SPLIT_STREAM = 0, 1


@dataclass(frozen=True, slots=True)
class Split:
    """Indices of the images of one split, ascending.

    Attributes:
        train: to train on.
        held_out: to score on.
    """

    train: list[int]
    held_out: list[int]


def split_images(classes: Classes, part: Part, run_seed: int, *, seed: int, held_out: float) -> Split:
    """Return the split of a run.

    Args:
        classes: the classes of each image.
        part: selects the pool from which images are held out.
        run_seed: seed of the run; each seed has its own split.
        seed: seed of the pools.
        held_out: fraction of all images that is held out, at most one half.

    Raises:
        ValueError: there are fewer than `FEWEST_IMAGES` images.
    """
    num = len(classes)
    if num < FEWEST_IMAGES:
        raise ValueError(f"expected at least {FEWEST_IMAGES} images to hold some of them out, got {num}; add images")
    totals = Counter(label for labels in classes for label in labels)
    everything = _shuffled(range(num), seed, _POOL_STREAM, 0)
    halves = {label: total // 2 for label, total in totals.items()}
    first = _picked(classes, everything, halves, num // 2, totals)
    pool = first if part == "search" else set(range(num)) - first
    wanted = {label: max(1, round(held_out * total)) for label, total in totals.items()}
    size = min(max(1, round(held_out * num)), len(pool))
    found = _picked(classes, _shuffled(sorted(pool), seed, _SPLIT_STREAM, run_seed), wanted, size, totals)
    return Split([i for i in range(num) if i not in found], sorted(found))


def in_one_image(classes: Classes) -> list[int]:
    """Return the classes whose objects are all in one image, which cannot be both trained on and scored."""
    totals = Counter(label for labels in classes for label in labels)
    return sorted(label for label, total in totals.items() if total == 1)


def showing(classes: Classes, indices: Iterable[int]) -> dict[int, list[int]]:
    """Return the images that show each class, in the given order."""
    found: dict[int, list[int]] = {}
    for index in indices:
        for label in classes[index]:
            found.setdefault(label, []).append(index)
    return found


def _picked(
    classes: Classes, order: Sequence[int], wanted: Mapping[int, int], size: int, totals: Mapping[int, int]
) -> set[int]:
    """Pick images in the given order: first the wanted number of each class, starting with the rarest, then any others.

    Images that exceed no class's wanted number are preferred. Images that are the last one of a class are picked last.
    """
    shown = showing(classes, order)
    picked: set[int] = set()
    counts: Counter[int] = Counter()

    def pick(indices: Sequence[int], limits: Mapping[int, int], of_class: int | None = None) -> None:
        for index in indices:
            is_enough = of_class is not None and counts[of_class] >= wanted[of_class]
            if is_enough or len(picked) == size:
                return
            if index not in picked and all(counts[label] < limits[label] for label in classes[index]):
                picked.add(index)
                counts.update(classes[index])

    others = {label: total - 1 for label, total in totals.items()}
    exact = {label: min(num, others[label]) for label, num in wanted.items()}
    for label in sorted(shown, key=lambda label: (totals[label], label)):
        pick(shown[label], exact, label)
        pick(shown[label], others, label)
    for limits in (exact, others, totals):
        pick(order, limits)
    return picked


def _shuffled(indices: Sequence[int], seed: int, stream: int, run_seed: int) -> list[int]:
    return sorted(indices, key=lambda index: derive_seed(seed, run_seed, 0, stream, index))
