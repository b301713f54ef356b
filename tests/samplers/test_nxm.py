"""Batches of N classes and M samples of each: the page's examples, the rule written plainly, and what is promised."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from brute_force_nxm import exhaustive, most_batches
from hypothesis import given
from hypothesis import strategies as st
from nxm_cases import BOTH, LABELS, TAIL

from segpaste.samplers import ExhaustiveNxMSampler, NxMSampler, RandomNxMSampler, epoch_batches
from segpaste.seeding import derive_seed


@st.composite
def label_vectors(draw: st.DrawFn, max_classes: int = 9) -> list[int]:
    """Labels with gaps, in any order, of classes of very different sizes."""
    num_classes = draw(st.integers(1, max_classes))
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 4, 5, 9, 30]), min_size=num_classes, max_size=num_classes))
    labels = [3 * c - 4 for c, size in enumerate(sizes) for _ in range(size)]
    return np.random.default_rng(draw(st.integers(0, 999))).permutation(labels).tolist()


class TestPage:
    def test_exhaustive(self) -> None:
        """The example of the page, and its split over two replicas."""
        sampler = ExhaustiveNxMSampler(LABELS, N_classes_per_batch=2, M_samples_per_class=2, shuffle=False)
        assert list(sampler) == [0, 1, 5, 6, 8, 9, 2, 3, 7, 5, 4, 0]
        parts = [ExhaustiveNxMSampler(LABELS, 2, 2, shuffle=False, rank=r, num_replicas=2) for r in range(2)]
        assert [list(part) for part in parts] == [[0, 1, 5, 6, 7, 5, 4, 0], [8, 9, 2, 3, 0, 1, 5, 6]]
        assert [len(part) for part in parts] == [8, 8]

    def test_random_drops_the_last_class(self) -> None:
        sampler = RandomNxMSampler(LABELS, N_classes_per_batch=2, M_samples_per_class=2, shuffle=False, drop_last=True)
        indices = list(sampler)
        assert len(sampler) == len(indices) == 4
        assert LABELS[indices].tolist() == [0, 0, 1, 1]
        assert len(set(indices)) == 4

    def test_random_takes_the_first_class_again(self) -> None:
        sampler = RandomNxMSampler(LABELS, N_classes_per_batch=2, M_samples_per_class=2, shuffle=False, drop_last=False)
        indices = list(sampler)
        assert len(sampler) == len(indices) == 8
        assert LABELS[indices].tolist() == [0, 0, 1, 1, 2, 2, 0, 0]
        assert all(len(set(indices[i : i + 2])) == 2 for i in range(0, 8, 2))

    def test_random_differs_between_epochs(self) -> None:
        """This holds without shuffling, too: the samples of a class are random."""
        sampler = RandomNxMSampler(LABELS, 2, 2, shuffle=False)
        seen = set()
        for epoch in range(50):
            sampler.set_epoch(epoch)
            seen.update(list(sampler))
        assert seen == set(range(8))


class TestRule:
    @given(label_vectors(), st.integers(1, 4), st.integers(1, 4))
    def test_as_written_by_hand(self, labels: list[int], num_distinct: int, samples_per_class: int) -> None:
        if len(set(labels)) < num_distinct:
            return
        batches = epoch_batches(labels, num_distinct, samples_per_class, shuffle=False)
        assert batches.tolist() == exhaustive(labels, num_distinct, samples_per_class)

    def test_stops_when_fewer_than_n_classes_are_left(self) -> None:
        assert list(ExhaustiveNxMSampler([0] * 10 + [1] * 2, 2, 2, shuffle=False)) == [0, 1, 10, 11]

    @pytest.mark.parametrize("shuffle", [False, True])
    @pytest.mark.parametrize(("samples_per_class", "num_batches"), [(1, 12), (2, 6), (4, 3)])
    def test_long_tail(self, shuffle: bool, samples_per_class: int, num_batches: int) -> None:
        """Taking turns only, ten, five and two batches of distinct classes would come out."""
        sampler = ExhaustiveNxMSampler(TAIL, 4, samples_per_class, shuffle=shuffle)
        batches = sampler.epoch_batches()
        assert len(batches) == num_batches
        classes = np.array(TAIL)[batches]
        assert all(len(set(row)) == 4 for row in classes.tolist())
        assert sorted(classes[classes > 0].tolist()) == [c for c in range(1, 10) for _ in range(4)]
        report = sampler.report()
        assert (report.min_distinct, report.mean_distinct, report.N_classes_per_batch) == (4, 4.0, 4)
        assert "distinct classes   4 at least, 4.00 on average, 4 possible" in str(report)

    def test_long_tail_with_nothing_left_out(self) -> None:
        sampler = ExhaustiveNxMSampler(TAIL, 4, 1, drop_last=False)
        batches = sampler.epoch_batches()
        assert set(batches.ravel().tolist()) == set(range(136))
        assert all(len(set(row)) == 4 for row in np.array(TAIL)[batches].tolist())
        times = Counter(batches.ravel().tolist())
        assert {times[i] for i in range(100)} == {1}
        assert {times[i] for i in range(100, 136)} == {8, 9}  # 300 places for 36 samples


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("sampler_type", BOTH)
class TestPromises:
    def test_batches(self, sampler_type: type[NxMSampler], shuffle: bool, drop_last: bool) -> None:
        """Each batch has N classes and M samples of each, and what is promised is covered."""

        @given(label_vectors(), st.integers(1, 5), st.integers(1, 5), st.integers(0, 5))
        def check(labels: list[int], num_distinct: int, samples_per_class: int, epoch: int) -> None:
            sizes = Counter(labels)
            if len(sizes) < num_distinct:
                return
            sampler = sampler_type(labels, num_distinct, samples_per_class, shuffle, drop_last)
            sampler.set_epoch(epoch)
            batches = sampler.epoch_batches()
            groups = [tuple(batch[i : i + samples_per_class]) for batch in batches.tolist() for i in _starts(sampler)]
            for batch in batches.tolist():
                of_class = [[labels[i] for i in batch[start : start + samples_per_class]] for start in _starts(sampler)]
                assert all(len(set(one)) == 1 for one in of_class)
                assert len({one[0] for one in of_class}) == num_distinct
            for group in groups:
                num = sizes[labels[group[0]]]
                counts = Counter(group)
                assert len(counts) == min(num, samples_per_class)
                assert max(counts.values()) - min(counts.values()) <= 1
            self.check_cover(sampler, labels, groups, drop_last)

        check()

    def check_cover(
        self, sampler: NxMSampler, labels: list[int], groups: list[tuple[int, ...]], drop_last: bool
    ) -> None:
        sizes, size = Counter(labels), len(groups[0])
        num_distinct = sampler.batch_size // size
        num_groups = {c: -(-n // size) if sampler.exhaustive else 1 for c, n in sizes.items()}
        taken = Counter(labels[group[0]] for group in groups)
        num_batches = len(groups) // num_distinct
        if drop_last:
            assert num_batches == most_batches(list(num_groups.values()), num_distinct)
            assert all(taken[c] <= num_groups[c] for c in sizes)
        else:
            assert num_batches == max(*num_groups.values(), -(-sum(num_groups.values()) // num_distinct))
            assert all(taken[c] >= num_groups[c] for c in sizes)
            extra = [taken[c] - num_groups[c] for c in sizes if taken[c] < num_batches]
            assert max(extra, default=0) - min(extra, default=0) <= 1
        covered = {i for group in groups for i in group}
        for c in sizes:
            if sampler.exhaustive:
                of_class = sum(labels[i] == c for i in covered)
                assert of_class == min(sizes[c], taken[c] * size)

    def test_epochs(self, sampler_type: type[NxMSampler], shuffle: bool, drop_last: bool) -> None:
        labels = [c for c in range(7) for _ in range(4 + c)]

        def of_epoch(epoch: int, base_seed: int = 0) -> list[int]:
            sampler = sampler_type(labels, 3, 2, shuffle, drop_last, base_seed=base_seed)
            sampler.set_epoch(epoch)
            return list(sampler)

        assert of_epoch(1) == of_epoch(1)
        if shuffle or sampler_type is RandomNxMSampler:
            assert len({tuple(of_epoch(epoch, seed)) for epoch in range(3) for seed in range(3)}) == 9
        else:
            assert of_epoch(1) == of_epoch(0, 1)

    def test_batches_as_a_function(self, sampler_type: type[NxMSampler], shuffle: bool, drop_last: bool) -> None:
        """The seed of an epoch is that of its docstring."""
        labels = [c for c in range(7) for _ in range(4 + c)]
        batches = epoch_batches(
            labels,
            N_classes_per_batch=3,
            M_samples_per_class=2,
            exhaustive=sampler_type.exhaustive,
            shuffle=shuffle,
            drop_last=drop_last,
            seed=derive_seed(8, 5, 0, 0, 0),
        )
        assert batches.tolist() == sampler_type(labels, 3, 2, shuffle, drop_last, base_seed=8).epoch_batches(5).tolist()

    def test_going_on(self, sampler_type: type[NxMSampler], shuffle: bool, drop_last: bool) -> None:
        """A new sampler resumes at each batch of an epoch; in the middle of a batch that batch comes again."""
        labels = [c for c in range(7) for _ in range(4 + c)]
        whole = sampler_type(labels, 3, 2, shuffle, drop_last, rank=1, num_replicas=2)
        whole.set_epoch(4)
        indices = list(whole)
        for num in range(len(indices) + 1):
            started = sampler_type(labels, 3, 2, shuffle, drop_last, rank=1, num_replicas=2)
            started.set_epoch(4)
            handed_out = [i for _, i in zip(range(num), started, strict=False)]
            state = started.state_dict()
            assert (state["epoch"], state["num_drawn"]) == (4, num // 6 * 6)
            other = sampler_type(labels, 3, 2, shuffle, drop_last, rank=1, num_replicas=2)
            other.load_state_dict(state)
            other.set_epoch(4)  # a training loop calls it before each pass
            assert other.state_dict()["num_drawn"] == num // 6 * 6
            assert handed_out[: num // 6 * 6] + list(other) == indices
            assert len(other) == len(indices)
            other.set_epoch(5)
            whole.set_epoch(5)
            assert list(other) == list(whole)  # the next pass is a whole one
            whole.set_epoch(4)


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("sampler_type", BOTH)
def test_replicas(sampler_type: type[NxMSampler], drop_last: bool) -> None:
    """300 label vectors, each with two of 1 to 9 replicas: each replica has as many as `len` says, in whole batches.

    All of them together, in turn, give the epoch, and its first batches again at the end. The same epoch is the same,
    and the next another one.
    """
    rng, num_batches = np.random.default_rng(0), set()
    for number in range(300):
        sizes = rng.choice([1, 2, 3, 4, 5, 9, 30], rng.integers(1, 10))
        labels = rng.permutation(np.repeat(3 * np.arange(len(sizes)) - 4, sizes))
        size = int(rng.integers(1, min(3, len(sizes)) + 1)), int(rng.integers(1, 4))
        arguments: Any = (labels, *size, number % 2 == 0, drop_last)
        whole_of = sampler_type(*arguments)
        whole_of.set_epoch(number)
        whole = whole_of.epoch_batches().tolist()
        num_batches.add(len(whole))
        for num_replicas in {1 + number % 9, 1 + number // 9 % 9}:
            parts = []
            for rank in range(num_replicas):
                sampler = sampler_type(*arguments, rank=rank, num_replicas=num_replicas)
                sampler.set_epoch(number)
                part = list(sampler.batch_sampler())
                assert len(part) == len(sampler.batch_sampler()) == -(-len(whole) // num_replicas)
                assert len(sampler) == sum(map(len, part)) == len(part) * size[0] * size[1]
                parts.append(part)
            in_turn = [batch for row in zip(*parts, strict=True) for batch in row]
            assert in_turn[: len(whole)] == whole
            assert in_turn[len(whole) :] == [whole[i % len(whole)] for i in range(len(whole), len(in_turn))]
        whole_of.set_epoch(number + 1)
        if number % 2 == 0 and len(labels) > 40:
            assert whole_of.epoch_batches().tolist() != whole
    assert len(num_batches) > 7


def _starts(sampler: NxMSampler) -> range:
    return range(0, sampler.batch_size, sampler.M_samples_per_class)


class TestShuffling:
    def test_every_order_is_met(self) -> None:
        """Which classes and which samples come, and where, is even: no class or sample is left out more than others."""
        labels = [c for c in range(5) for _ in range(3)]
        left_out, together, first = Counter[int](), Counter[frozenset[int]](), Counter[int]()
        sampler = RandomNxMSampler(labels, 2, 1)
        for epoch in range(2000):
            sampler.set_epoch(epoch)
            classes = np.array(labels)[sampler.epoch_batches()]
            left_out.update(set(range(5)) - set(classes.ravel().tolist()))
            together.update(map(frozenset, classes.tolist()))
            first[int(sampler.epoch_batches()[0, 0])] += 1
        assert all(abs(left_out[c] - 400) < 90 for c in range(5))  # five standard deviations of 18
        assert len(together) == 10
        assert all(abs(num - 400) < 100 for num in together.values())
        assert all(abs(first[i] - 2000 / 15) < 60 for i in range(15))

    def test_what_a_long_tail_leaves_out_changes(self) -> None:
        sampler = ExhaustiveNxMSampler(TAIL, 4, 1)
        seen = set()
        for epoch in range(60):
            sampler.set_epoch(epoch)
            seen.update(list(sampler))
        assert seen == set(range(136))

    def test_batches_of_large_classes_are_not_at_the_end(self) -> None:
        """A class that must be in the last batches of a schedule is anywhere in a shuffled epoch."""
        labels = [0] * 20 + [1] * 20 + [c for c in range(2, 22) for _ in range(2)]
        sampler = ExhaustiveNxMSampler(labels, 2, 1)
        thirds = np.zeros(3)
        for epoch in range(200):
            sampler.set_epoch(epoch)
            large = (np.array(labels)[sampler.epoch_batches()] < 2).sum(1)
            thirds += [part.mean() for part in np.array_split(large, 3)]
        assert thirds.max() / thirds.min() < 1.1


def test_many_classes_in_a_batch() -> None:
    """Choosing those that have waited longest one by one took time that grew with the square of N."""
    labels = np.arange(3000).repeat(2)
    batches = epoch_batches(labels, 1000, 1, shuffle=False)
    assert batches.shape == (6, 1000)
    assert labels[batches].tolist() == [list(range(first, first + 1000)) for first in (0, 1000, 2000)] * 2
