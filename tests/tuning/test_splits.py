"""Splits into training and held-out images: disjoint, rare classes in both, the same each time."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segpaste.tuning.splits import Part, in_one_image, split_images

PARTS: tuple[Part, Part] = ("search", "final")
IMAGES = st.lists(st.frozensets(st.integers(0, 5)), min_size=8, max_size=60)


def counts(classes: list[frozenset[int]], indices: list[int]) -> Counter[int]:
    return Counter(label for index in indices for label in classes[index])


@given(
    classes=IMAGES, seed=st.integers(0, 99), run_seed=st.integers(1, 200), held_out=st.sampled_from([0.1, 0.25, 0.5])
)
def test_rules(classes: list[frozenset[int]], seed: int, run_seed: int, held_out: float) -> None:
    num = len(classes)
    splits = [split_images(classes, part, run_seed, seed=seed, held_out=held_out) for part in PARTS]
    for split in splits:
        assert sorted(split.train + split.held_out) == list(range(num))
        assert len(split.held_out) == max(1, min(round(held_out * num), num // 2)) or num % 2
        assert split.train == sorted(split.train)
    assert not set(splits[0].held_out) & set(splits[1].held_out)


def test_the_last_image_of_a_class_is_trained_on() -> None:
    classes = [frozenset({index}) if index < 10 else frozenset({20}) for index in range(40)]
    assert in_one_image(classes) == [*range(10)]
    for part in PARTS:
        for run_seed in range(1, 11):
            assert set(counts(classes, split_images(classes, part, run_seed, seed=2, held_out=0.25).held_out)) == {20}


def test_images_that_each_have_a_class_of_their_own() -> None:
    """As in datasets of a thousand classes: then there are no others to hold out."""
    classes = [frozenset({index, 50}) for index in range(20)]
    assert len(split_images(classes, "final", 1, seed=0, held_out=0.25).held_out) == 5


def test_held_out_images_of_any_seeds_stay_apart() -> None:
    """No run of the final comparison holds out an image that a run of the search held out."""
    classes = [frozenset({index % 3}) for index in range(40)]
    held = {
        part: {i for run in range(1, 30) for i in split_images(classes, part, run, seed=4, held_out=0.25).held_out}
        for part in PARTS
    }
    assert not held["search"] & held["final"]
    assert held["search"] | held["final"] == set(range(40))


def test_rare_classes_are_held_out_in_proportion() -> None:
    """Random splits often hold out none of the 8 images of a class among 400; these hold out 2 of 8."""
    classes = [frozenset({0} | ({1} if index % 50 == 0 else set())) for index in range(400)]
    for part in PARTS:
        for run_seed in range(1, 11):
            split = split_images(classes, part, run_seed, seed=0, held_out=0.25)
            assert counts(classes, split.held_out) == {0: 100, 1: 2}


def test_two_images_of_a_class_are_scored_in_one_of_the_parts_each() -> None:
    classes = [frozenset({1}) if index < 2 else frozenset({0}) for index in range(20)]
    for part in PARTS:
        split = split_images(classes, part, 3, seed=1, held_out=0.25)
        assert counts(classes, split.held_out)[1] == counts(classes, split.train)[1] == 1


def test_depends_on_both_seeds_alone() -> None:
    classes = [frozenset({index % 2}) for index in range(30)]
    one = split_images(classes, "final", 1, seed=0, held_out=0.25)
    assert split_images(classes, "final", 1, seed=0, held_out=0.25) == one
    assert split_images(classes, "final", 2, seed=0, held_out=0.25) != one
    assert split_images(classes, "final", 1, seed=1, held_out=0.25) != one


def test_too_few_images() -> None:
    with pytest.raises(ValueError, match="at least 8 images"):
        split_images([frozenset({0})] * 7, "final", 1, seed=0, held_out=0.25)
