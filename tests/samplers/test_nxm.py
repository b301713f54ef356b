"""Batches of N classes and M samples of each: the page's examples, the rule written plainly, and what is promised."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from brute_force_nxm import exhaustive, most_batches
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, TensorDataset

from segpaste.samplers import (
    ExhaustiveNxMSampler,
    LeftOut,
    NxMSampler,
    RandomNxMSampler,
    epoch_batches,
)
from segpaste.seeding import derive_seed

LABELS = torch.tensor([0, 0, 0, 0, 0, 1, 1, 1, 2, 2])
TAIL = [0] * 100 + [c for c in range(1, 10) for _ in range(4)]
BOTH: tuple[type[NxMSampler], ...] = (RandomNxMSampler, ExhaustiveNxMSampler)


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
        """Also where nothing is shuffled: the samples of a class are random."""
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
        """From each batch of an epoch, by a sampler of its own; in the middle of a batch that batch comes again."""
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


class TestLabels:
    def test_anything_that_has_classes(self) -> None:
        expected = list(ExhaustiveNxMSampler(LABELS, 2, 2))
        dataset = TensorDataset(LABELS)
        dataset.targets = LABELS  # type: ignore[attr-defined]
        named = [["bee", "cat", "dog"][i] for i in LABELS.tolist()]
        words = np.array(named, object)
        numbers = (LABELS.tolist(), LABELS.numpy(), LABELS.to(torch.uint8), tuple(LABELS.tolist()), dataset)
        for labels in (*numbers, named, words):
            assert list(ExhaustiveNxMSampler(labels, 2, 2)) == expected

    def test_a_dataset_that_calls_something_else_labels(self) -> None:
        """Class names, say: taken are those that are as many as the samples."""
        dataset = TensorDataset(LABELS)
        dataset.labels = ["bee", "cat", "dog"]  # type: ignore[attr-defined]
        with pytest.raises(ValueError, match=r"expected as many as the 10 samples of the TensorDataset, got 3 in its"):
            ExhaustiveNxMSampler(dataset, 2, 2)
        dataset.targets = LABELS  # type: ignore[attr-defined]
        assert list(ExhaustiveNxMSampler(dataset, 2, 2)) == list(ExhaustiveNxMSampler(LABELS, 2, 2))

    def test_bank(self) -> None:
        class Bank:
            def crop_class_ids(self) -> np.ndarray[Any, Any]:
                return LABELS.numpy()

        assert list(ExhaustiveNxMSampler(Bank(), 2, 2)) == list(ExhaustiveNxMSampler(LABELS, 2, 2))

    @pytest.mark.parametrize(
        ("labels", "got"),
        [
            ([0.5, 1.5], "list of shape [2] and dtype float64"),
            (torch.zeros(3), "Tensor of shape [3] and dtype float32"),
            (torch.zeros(3, 1, dtype=torch.int64), "Tensor of shape [3, 1] and dtype int64"),
            ([], "list of shape [0]"),
            (np.zeros(0, np.int64), "none"),
            ([[0], [1, 2]], "list (setting an array element"),
            (None, "NoneType"),
            (TensorDataset(torch.zeros(3)), "TensorDataset"),
            ([0, None], "list of shape [2] and dtype object"),
            ([0, "a", "a"], "both in one list"),
            (torch.zeros(3, dtype=torch.complex64), "Tensor of shape [3] and dtype complex64"),
            ([["a", "b"]], "list of shape [1, 2] and dtype <U1"),
        ],
    )
    def test_others_are_refused(self, labels: Any, got: str) -> None:
        with pytest.raises(ValueError, match=r"ExhaustiveNxMSampler: labels: expected the class of each sample") as e:
            ExhaustiveNxMSampler(labels, 2, 2)
        assert f"got {got}" in str(e.value)


class TestArguments:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"N_classes_per_batch": 4}, "expected at least N = 4 classes, as many as a batch has, got 3"),
            ({"N_classes_per_batch": 0}, "expected integers, at least one class in a batch"),
            ({"N_classes_per_batch": 2.0}, "one sample of each, got N = 2.0 and M = 2"),
            ({"N_classes_per_batch": True}, "one sample of each, got N = True and M = 2"),
            ({"M_samples_per_class": 0}, "one sample of each, got N = 2 and M = 0"),
            ({"M_samples_per_class": "2"}, "one sample of each, got N = 2 and M = '2'"),
            ({"batch_size": 5}, "expected a batch size of N * M = 2 * 2 = 4, got 5"),
            ({"rank": 2, "num_replicas": 2}, "expected integers 0 <= rank < num_replicas, got 2 and 2"),
            ({"rank": 0.5, "num_replicas": 2}, "expected integers 0 <= rank < num_replicas, got 0.5 and 2"),
            ({"rank": 0, "num_replicas": 2.5}, "expected integers 0 <= rank < num_replicas, got 0 and 2.5"),
            ({"rank": 1}, "expected both rank and num_replicas or neither"),
            ({"base_seed": -1}, "NxMSampler: expected 0 <= base_seed"),
        ],
    )
    @pytest.mark.parametrize("sampler_type", BOTH)
    def test_refused(self, sampler_type: type[NxMSampler], arguments: dict[str, Any], message: str) -> None:
        given_ = {"N_classes_per_batch": 2, "M_samples_per_class": 2} | arguments
        with pytest.raises(ValueError, match=re.escape(message)):
            sampler_type(LABELS, **given_)

    @pytest.mark.parametrize("num_drawn", [-4, 3, 16])
    def test_foreign_state(self, num_drawn: int) -> None:
        sampler = ExhaustiveNxMSampler(LABELS, 2, 2)
        with pytest.raises(ValueError, match=f"expected num_drawn from 0 to 12 in steps of 4, got {num_drawn}"):
            sampler.load_state_dict(sampler.state_dict(num_drawn))

    @pytest.mark.parametrize(
        "change",
        [
            {"labels": LABELS.flip(0)},
            {"N_classes_per_batch": 1, "M_samples_per_class": 4},
            {"shuffle": False},
            {"drop_last": False},
            {"base_seed": 1},
            {"rank": 0, "num_replicas": 2},
        ],
        ids=str,
    )
    def test_state_of_another_sampler(self, change: dict[str, Any]) -> None:
        given_: dict[str, Any] = {"labels": LABELS, "N_classes_per_batch": 2, "M_samples_per_class": 2}
        state = ExhaustiveNxMSampler(**given_).state_dict(0)
        ExhaustiveNxMSampler(**given_).load_state_dict(state)
        other = ExhaustiveNxMSampler(**(given_ | change))
        for name in change:
            named = "num_replicas" if name == "rank" else name
            with pytest.raises(ValueError, match=f"expected the state of one like this, got another's: .*{named} is "):
                other.load_state_dict(state)
        for wrong in ({}, {"epoch": 0, "num_drawn": 0}, None, 5):
            with pytest.raises(ValueError, match="expected a state made by state_dict of one like this, got"):
                other.load_state_dict(wrong)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="sampler is 'ExhaustiveNxMSampler' there and 'RandomNxMSampler' here"):
            RandomNxMSampler(**given_).load_state_dict(state)

    def test_state_is_json(self) -> None:
        sampler = ExhaustiveNxMSampler(LABELS, np.int64(2), np.int32(2))  # type: ignore[arg-type]
        assert json.loads(json.dumps(sampler.state_dict(np.int64(4)))) == sampler.state_dict(4)  # type: ignore[arg-type]

    def test_state_is_that_of_every_replica(self) -> None:
        states = [ExhaustiveNxMSampler(LABELS, 2, 2, rank=rank, num_replicas=2).state_dict(4) for rank in range(2)]
        assert states[0] == states[1]

    def test_a_pass_begins_when_its_first_index_is_drawn(self) -> None:
        sampler, expected = ExhaustiveNxMSampler(TAIL, 4, 1), ExhaustiveNxMSampler(TAIL, 4, 1)
        iterators = [iter(sampler), (i for batch in iter(sampler.batch_sampler()) for i in batch)]
        sampler.set_epoch(1)
        expected.set_epoch(1)
        assert [list(iterator) for iterator in iterators] == [list(expected)] * 2

    @pytest.mark.parametrize("go_on", ["set_epoch", "load_state_dict", "iter"])
    def test_an_iteration_that_was_left_does_not_count(self, go_on: str) -> None:
        sampler = ExhaustiveNxMSampler(TAIL, 4, 1)
        left = iter(sampler)
        assert len([next(left) for _ in range(5)]) == 5
        if go_on == "set_epoch":
            sampler.set_epoch(1)
            sampler.set_epoch(0)
        elif go_on == "load_state_dict":
            sampler.load_state_dict(sampler.state_dict(num_drawn=0))
        else:
            next(iter(sampler))
        assert len([next(left) for _ in range(5)]) == 5
        assert sampler.state_dict()["num_drawn"] == 0

    @pytest.mark.parametrize("seed", [-1, 1 << 64])
    def test_seed_out_of_range(self, seed: int) -> None:
        with pytest.raises(ValueError, match=rf"expected 0 <= seed < 2\*\*64, got {seed}"):
            epoch_batches(LABELS, 2, 2, seed=seed)

    def test_attributes(self) -> None:
        sampler = ExhaustiveNxMSampler(["dog", "bee", "dog", "cat"], 2, 3, rank=1, num_replicas=2)
        assert sampler.classes.tolist() == ["bee", "cat", "dog"]
        assert (sampler.num_samples, sampler.batch_size, sampler.rank, sampler.num_replicas) == (4, 6, 1, 2)

    def test_base_is_refused(self) -> None:
        with pytest.raises(TypeError, match="take one of its subclasses"):
            NxMSampler(LABELS, 2, 2)

    def test_negative_epoch(self) -> None:
        with pytest.raises(ValueError, match="0 <= epoch"):
            ExhaustiveNxMSampler(LABELS, 2, 2).set_epoch(-1)


def test_many_classes_in_a_batch() -> None:
    """Choosing those that have waited longest one by one took time that grew with the square of N."""
    labels = np.arange(3000).repeat(2)
    batches = epoch_batches(labels, 1000, 1, shuffle=False)
    assert batches.shape == (6, 1000)
    assert labels[batches].tolist() == [list(range(first, first + 1000)) for first in (0, 1000, 2000)] * 2


class TestReport:
    def test_classes_that_are_left_out(self) -> None:
        """Of a random one those that are in no batch; that only M samples of each are taken is how it works."""
        left_out = RandomNxMSampler([0] * 9 + [1] * 9 + [2] * 4, 2, 2, shuffle=False).report().left_out
        assert left_out == ((2, 4, 4),)
        assert RandomNxMSampler(TAIL, 5, 1).report().left_out == ()
        report = ExhaustiveNxMSampler(TAIL, 4, 1).report()
        assert report.left_out == (LeftOut(label=0, num_samples=100, num_left_out=88),)
        assert str(report).endswith("left out           88 of 100 samples of class 0")

    def test_repeats(self) -> None:
        """One sample of six is taken a second time; the batch that is repeated for a replica is not counted."""
        sampler = ExhaustiveNxMSampler([0, 0, 0, 1, 2], 2, 1, drop_last=False, rank=0, num_replicas=2)
        report = sampler.report()
        assert (report.num_batches, report.num_repeated_batches) == (3, 1)
        assert (report.num_covered, report.num_repeats) == (5, 1)


class TestLoaders:
    @pytest.mark.parametrize("num_workers", [0, 2])
    def test_batches_of_a_loader(self, num_workers: int) -> None:
        """As a sampler with the batch size, and as a batch sampler, a loader gives the same batches."""
        dataset = TensorDataset(torch.arange(10))
        sampler = ExhaustiveNxMSampler(LABELS, 2, 2)
        expected = sampler.epoch_batches().tolist()
        sampler.set_epoch(0)
        for options in ({"sampler": sampler, "batch_size": 4}, {"batch_sampler": sampler.batch_sampler()}):
            loader = DataLoader(dataset, num_workers=num_workers, **options)  # type: ignore[arg-type]
            assert len(loader) == 3
            assert [batch.tolist() for (batch,) in loader] == expected

    @pytest.mark.parametrize("drop_last", [False, True])
    def test_a_batch_sampler_has_the_attributes_of_torchs(self, drop_last: bool) -> None:
        """Frameworks read them: no batch is short, also where the sampler takes classes again."""
        batches = ExhaustiveNxMSampler(LABELS, 2, 2, drop_last=drop_last).batch_sampler()
        assert (batches.batch_size, batches.drop_last) == (4, True)
        assert all(len(batch) == batches.batch_size for batch in batches)

    @pytest.mark.parametrize("num_workers", [0, 1])
    @pytest.mark.parametrize("how", ["sampler", "batch_sampler", "one by one"])
    def test_going_on(self, how: str, num_workers: int) -> None:
        """A loader with workers asks for two iterators, and uses the second; the next pass is the next epoch."""
        dataset = TensorDataset(torch.arange(10))
        expected = ExhaustiveNxMSampler(LABELS, 2, 2)
        epochs = [list(expected) for _ in range(3)]
        assert epochs[0] != epochs[1] != epochs[2]
        sampler = ExhaustiveNxMSampler(LABELS, 2, 2)
        options: dict[str, Any] = {
            "sampler": {"sampler": sampler, "batch_size": 4},
            "batch_sampler": {"batch_sampler": sampler.batch_sampler()},
            "one by one": {"sampler": sampler, "batch_size": None},
        }[how]
        loader = DataLoader(dataset, num_workers=num_workers, persistent_workers=num_workers > 0, **options)
        for epoch, num_drawn in ((0, 8), (1, 4)):
            sampler.load_state_dict(sampler.state_dict(num_drawn))
            assert torch.cat([batch.reshape(-1) for (batch,) in loader]).tolist() == epochs[epoch][num_drawn:]
            assert torch.cat([batch.reshape(-1) for (batch,) in loader]).tolist() == epochs[epoch + 1]
            assert (sampler.state_dict()["epoch"], sampler.state_dict()["num_drawn"]) == (epoch + 1, 12)


@pytest.mark.slow
def test_torch_distributed_says_which_replica() -> None:
    """Two real processes on gloo: the global rank, not the one on the machine."""
    code = """
import os, sys, torch.distributed as dist
from segpaste.samplers import ExhaustiveNxMSampler
dist.init_process_group("gloo")
indices = list(ExhaustiveNxMSampler([0] * 5 + [1] * 3 + [2] * 2, 2, 2, shuffle=False))
os.write(1, f"{dist.get_rank()} {indices}\\n".encode())  # at once, for both write into one pipe
dist.destroy_process_group()
"""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--no-python"]
    done = subprocess.run([*command, sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = sorted(line for line in done.stdout.splitlines() if line[:1] in "01")
    assert lines == ["0 [0, 1, 5, 6, 7, 5, 4, 0]", "1 [8, 9, 2, 3, 0, 1, 5, 6]"]
