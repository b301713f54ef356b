"""Slots weighed by class: against plain loops, and against the probabilities of weighted draws without replacement."""

from __future__ import annotations

import math
from collections import Counter
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
from chi_square import assert_uniform
from paste_cases import placed
from placement_inputs import request

import brute_force
import brute_force_draws
from samples import CPU_BACKENDS, EVERY_OBJECT, make_batch, put_box
from segpaste import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.augmentation import IntraBatchSource, PlacementConfig, Schedule
from segpaste.augmentation.tables import MOST_ALIKE, TEMPERATURE_ONE, inverse_weights, log_table
from segpaste.engine import use_backend
from segpaste.engine.reference.draws.slots import negative_log2, weighted
from segpaste.types import PaddedBatchedDenseSample

KERNELS = pytest.mark.parametrize("kernels", CPU_BACKENDS)
TEMPERATURES = (0.0, 0.5, 1.0)
GROUPINGS = ({"grouping": "image", "layers": 2}, {"grouping": "instance", "layers": 4})
LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
COUNTS = {7: 1, HIGHEST: 3, 0: 12}
"""A class of one object, one of three, and one of twelve."""
LABELS = [0] * 5 + [HIGHEST] + [0] * 4 + [7, HIGHEST] + [0] * 3 + [HIGHEST]


class TestNumbers:
    def test_logarithms_follow_the_curve(self) -> None:
        """Above it by a thousandth at most; the most likely numbers are near 2**62, where it comes near 0."""
        for exponent in range(62):
            for number in {(1 << 62) - (1 << exponent), 1 << exponent, (1 << exponent) * 3 // 2, 0x2AAAAAAAAAAAAAAA}:
                log = 62 - math.log2(number)
                if number > 1 << 61:
                    log = -math.log1p((number - 2**62) / 2**62) / math.log(2)
                found = int(negative_log2(torch.tensor(number - 1), log_table())) / 2**32
                assert log - 2**-31 <= found <= log * 1.001 + 2**-31

    def test_logarithms_are_those_of_plain_fractions(self) -> None:
        generator = torch.Generator().manual_seed(0)
        random = torch.randint(0, 1 << 62, (500,), generator=generator) >> torch.arange(500) // 10
        edges = (1 << torch.arange(62)).repeat(2) - torch.tensor([[0], [1]]).repeat(1, 62).flatten()
        bits = torch.cat([random, edges, (1 << 62) - edges[:62], torch.tensor([(1 << 62) - 1])])
        found = negative_log2(bits, log_table())
        assert found.tolist() == [brute_force_draws.minus_log2(number + 1) for number in bits.tolist()]
        assert (found[bits.argsort()].diff() <= 0).all()

    def test_weights_are_powers(self) -> None:
        assert (inverse_weights(0) == 1 << 16).all()
        assert inverse_weights(TEMPERATURE_ONE)[1:].tolist() == [n << 16 for n in range(1, MOST_ALIKE + 1)]
        for temperature in (0.25, 0.37, 1e-9):
            wanted = [n ** (round(temperature * 2**32) / 2**32) for n in range(1, MOST_ALIKE + 1)]
            found = inverse_weights(round(temperature * TEMPERATURE_ONE))[1:] / 2**16
            assert np.abs(found.numpy() - np.array(wanted)).max() <= 2**-17

    def test_at_zero_the_bits_are_left_as_they_are(self) -> None:
        bits = torch.randint(0, 1 << 62, (5, 2, 16), generator=torch.Generator().manual_seed(0))
        labels, available = torch.tensor(LABELS).expand(5, 2, 16), torch.ones(5, 2, 16, dtype=torch.bool)
        schedule = Schedule(PlacementConfig(paste_prob=1.0))
        assert torch.equal(weighted(bits, labels, available, schedule.tables), bits)
        schedule.set(class_temperature=0.5)
        assert not (weighted(bits, labels, available, schedule.tables) == bits).any()

    def test_a_wait_is_no_overflow(self) -> None:
        """The longest possible wait comes from the lowest bits in the largest class."""
        longest = int(negative_log2(torch.tensor(0), log_table())) * int(inverse_weights(TEMPERATURE_ONE)[-1])
        assert 0 <= (1 << 62) - 1 - longest < 1 << 59


def objects(labels: list[int], num: int = 3, num_free: int = 5) -> PaddedBatchedDenseSample:
    """Return images with one object of each of these labels, in another order and other slots in every image."""
    batch = make_batch(
        num, size=(32, 40), num_instances=0, max_instances=len(labels) + num_free, modalities=("instance",)
    )
    rng = np.random.default_rng(len(labels))
    for b in range(num):
        slots = np.sort(rng.permutation(len(labels) + num_free)[: len(labels)])
        for k, label in zip(slots.tolist(), rng.permutation(np.array(labels, np.int64)).tolist(), strict=True):
            x, y = int(rng.integers(38)), int(rng.integers(30))
            put_box(batch, b, k, (x, y, x + 2, y + 1), label)
    return batch


class TestEqualPlainLoops:
    @pytest.mark.parametrize("options", GROUPINGS, ids=lambda options: options["grouping"])
    @pytest.mark.parametrize("temperature", [*TEMPERATURES, 0.37, 1e-9])
    @pytest.mark.parametrize(
        "labels",
        [LABELS, [LOWEST, 0, 0, HIGHEST, -1, LOWEST], [3] * 9, list(range(9)), [4] * 290 + [5] * 3 + [0]],
        ids=["three", "extreme", "one", "nine", "crowd"],
    )
    def test_every_slot_of_every_layer(self, labels: list[int], temperature: float, options: dict[str, Any]) -> None:
        """The crowd is more than the table of weights knows; an empty slot is of no class, though its label is 0."""
        placement = PlacementConfig(
            **options, paste_prob=1.0, class_temperature=temperature, k_range=(1, 4), scale_range=(0.7, 1.0)
        )
        paste, chosen = BatchCopyPaste(BatchCopyPasteConfig(placement=placement, source=EVERY_OBJECT)), set()
        num_batches = 1 if len(labels) > 100 else 6
        for start in range(num_batches):
            batch = objects(labels).derived(sample_seeds=torch.arange(3) + 3 * start)
            images = brute_force.prepared(batch, paste.config)
            drawn = [brute_force_draws.draw(images, paste.config, b) for b in range(3)]
            for kernels in CPU_BACKENDS:
                found = placed(kernels, batch, paste)
                for b in range(3):
                    carried = [row.nonzero().flatten().tolist() for row in found.carried[b]]
                    assert carried == drawn[b].carried
                    chosen.add(str(carried))
        assert len(chosen) > num_batches

    @pytest.mark.parametrize("options", GROUPINGS, ids=lambda options: options["grouping"])
    def test_writings_over_many_images(self, options: dict[str, Any]) -> None:
        """The images are so many that some waits nearly agree."""
        batch = objects(LABELS, num=60)
        placement = PlacementConfig(
            **options, paste_prob=1.0, class_temperature=0.5, k_range=(2, 12), scale_range=(0.7, 1.0)
        )
        paste = BatchCopyPaste(BatchCopyPasteConfig(placement=placement, source=EVERY_OBJECT))
        for start in range(20):
            seeded = batch.derived(sample_seeds=torch.arange(60) + 60 * start)
            one, *others = (placed(kernels, seeded, paste).carried for kernels in CPU_BACKENDS)
            assert all(torch.equal(other, one) for other in others)


def draw(kernels: str, num: int = 10_000, **options: Any) -> list[tuple[int, ...]]:
    """Return the labels that each of so many images takes from one image with `LABELS`, in ascending order."""
    rows, num_slots = 101, len(LABELS)
    boxes = tuple((2 * k, k, 2 * k + 2, k + 1) for k in range(num_slots))
    batch = PaddedBatchedDenseSample(
        images=torch.zeros(rows, 1, 1, 1, dtype=torch.uint8),
        boxes=torch.zeros(rows, num_slots, 4),
        labels=torch.tensor(LABELS).repeat(rows, 1),
        instance_valid=torch.ones(rows, num_slots, dtype=torch.bool),
    )
    eligible = torch.zeros(rows, num_slots, dtype=torch.bool)
    eligible[0] = True
    found = []
    with use_backend(kernels):
        for first in range(0, num, rows - 1):
            wanted = request(torch.arange(first, first + rows) - 1, occupied=boxes, extent=(40, 40), **options)
            _, placement, _ = IntraBatchSource().sample(batch, eligible, wanted)
            for carried in placement.carried[1:]:
                found.append(tuple(sorted(LABELS[k] for k in carried.nonzero()[:, 1].tolist())))
    return found


def probabilities(temperature: float, num_drawn: int) -> dict[tuple[int, ...], float]:
    """Return the probability of each sorted tuple of classes when objects are drawn one by one by weight."""
    weights = [COUNTS[label] ** -temperature for label in LABELS]
    found: Counter[tuple[int, ...]] = Counter()
    for order in permutations(range(len(LABELS)), num_drawn):
        probability, left = 1.0, sum(weights)
        for k in order:
            probability *= weights[k] / left
            left -= weights[k]
        found[tuple(sorted(LABELS[k] for k in order))] += probability
    return dict(found)


@KERNELS
@pytest.mark.parametrize("temperature", TEMPERATURES)
class TestProbabilities:
    @pytest.mark.parametrize("options", GROUPINGS, ids=lambda options: options["grouping"])
    @pytest.mark.parametrize("num_drawn", [1, 2])
    def test_of_classes(self, kernels: str, temperature: float, num_drawn: int, options: dict[str, Any]) -> None:
        """Objects come from one image; with one object per layer, four layers draw and at most two are kept.

        Over two layers of one source every object is there twice, and may be drawn twice.
        """
        if num_drawn == 2 and options["grouping"] == "image":
            options = {"grouping": "image", "layers": 1}
        options = options | {"class_temperature": temperature, "k_range": (num_drawn, num_drawn)}
        counts, expected = Counter(draw(kernels, **options)), probabilities(temperature, num_drawn)
        assert set(counts) <= set(expected)
        assert_uniform(np.array([counts[key] for key in expected]), np.array(list(expected.values())))

    def test_of_the_objects_of_a_class(self, kernels: str, temperature: float) -> None:
        """Objects of one class stay equally likely."""
        batch = objects(LABELS, num=60)
        config = BatchCopyPasteConfig(
            placement=PlacementConfig(paste_prob=1.0, class_temperature=temperature, k_range=(3, 3)),
            source=EVERY_OBJECT,
        )
        paste, ranks = BatchCopyPaste(config), np.zeros(12, np.int64)
        for start in range(40):
            found = placed(kernels, batch.derived(sample_seeds=torch.arange(60) + 60 * start), paste)
            labels = batch.labels[found.source_idx[:, 0]]
            common = (labels == 0) & batch.instance_valid[found.source_idx[:, 0]]
            rank = common.cumsum(1) - 1
            np.add.at(ranks, rank[common & found.carried[:, 0]].numpy(), 1)
        assert_uniform(ranks)


def test_the_expected_probabilities() -> None:
    """By hand: 12 of 16, a third each, and a single one after a single one."""
    assert probabilities(0.0, 1) == pytest.approx({(7,): 1 / 16, (HIGHEST,): 3 / 16, (0,): 12 / 16})
    assert probabilities(1.0, 1) == pytest.approx({(7,): 1 / 3, (HIGHEST,): 1 / 3, (0,): 1 / 3})
    total = 1 + 3**0.5 + 12**0.5
    assert probabilities(0.5, 1) == pytest.approx({(7,): 1 / total, (HIGHEST,): 3**0.5 / total, (0,): 12**0.5 / total})
    assert probabilities(1.0, 2)[7, HIGHEST] == pytest.approx(1 / 3 * 1 / 2 + 1 / 3 * 1 / (2 + 2 / 3))


@KERNELS
def test_nothing_changes_where_all_classes_are_alike(kernels: str) -> None:
    """With equal weights, the same objects are drawn as without weights."""
    batch, found = objects([1, 2, 1, 3, 3, 2], num=9), []
    for temperature in TEMPERATURES:
        placement = PlacementConfig(paste_prob=1.0, class_temperature=temperature, k_range=(1, 3))
        found.append(
            placed(
                kernels, batch, BatchCopyPaste(BatchCopyPasteConfig(placement=placement, source=EVERY_OBJECT))
            ).carried
        )
    assert torch.equal(found[1], found[0])
    assert torch.equal(found[2], found[0])
