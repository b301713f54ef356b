"""The epoch and the place that a pass reads from, and the owner of a state."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from segpaste.epochs import EpochProgress, Replica, ReplicaFinder, epoch_of, expect_own_state, set_epoch_of
from segpaste.samplers import ExhaustiveNxMSampler, RandomNxMSampler

WHO = {"seed": 1}


@pytest.fixture
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.delenv("RANK", raising=False)


def read(progress: EpochProgress, num: int = 5, take: int = 5) -> tuple[int, list[int]]:
    """Return the epoch and the items of a pass over 0 .. num - 1 that is left after some items."""
    this = progress.begin()
    items = this.counted(range(this.start, num))
    return this.epoch, [item for _, item in zip(range(take), items, strict=False)]


class TestEpochs:
    def test_in_one_process_every_pass_is_a_new_epoch(self) -> None:
        progress = EpochProgress("test")
        assert [read(progress, take=take)[0] for take in (5, 2, 0, 5)] == [0, 1, 2, 3]

    def test_once_set_the_epoch_stays(self) -> None:
        progress = EpochProgress("test")
        read(progress)
        progress.set_epoch(7)
        assert [read(progress)[0] for _ in range(3)] == [7] * 3
        progress.set_epoch(0)
        assert read(progress)[0] == 0

    def test_on_several_ranks_a_pass_never_advances_the_epoch_and_warns_once(self) -> None:
        progress = EpochProgress("test", 1, 2)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert read(progress)[0] == 0
        with pytest.warns(UserWarning, match=r"test: epoch 0 is read again.*call set_epoch\(epoch\) before") as caught:
            assert [read(progress)[0] for _ in range(3)] == [0] * 3
        assert len(caught) == 1
        for epoch in (1, 2):
            progress.set_epoch(epoch)
            assert read(progress)[0] == epoch

    def test_an_epoch_that_is_set_again_before_a_pass_is_meant(self) -> None:
        """Lightning does so for a validation loader: once for its sanity check, once for the first epoch."""
        progress = EpochProgress("test", 1, 2)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(2):
                progress.set_epoch(0)
                assert read(progress)[0] == 0

    @pytest.mark.parametrize("epoch", [-1, 1 << 64, 1.5, "1", None])
    def test_what_is_no_epoch(self, epoch: Any) -> None:
        with pytest.raises(ValueError, match="epoch"):
            EpochProgress("test").set_epoch(epoch)


class TestPlaces:
    def test_a_loaded_place_is_resumed_once(self) -> None:
        progress = EpochProgress("test")
        progress.load_state({"epoch": 3, "num_drawn": 2, "of": WHO}, WHO, 5)
        progress.set_epoch(3)  # as a training loop does
        assert read(progress) == (3, [2, 3, 4])
        assert read(progress) == (3, [0, 1, 2, 3, 4])
        other = EpochProgress("test")
        other.load_state({"epoch": 3, "num_drawn": 2, "of": WHO}, WHO, 5)
        assert [read(other), read(other)] == [(3, [2, 3, 4]), (4, [0, 1, 2, 3, 4])]

    def test_another_epoch_drops_the_place(self) -> None:
        progress = EpochProgress("test")
        progress.load_state({"epoch": 3, "num_drawn": 2, "of": WHO}, WHO, 5)
        progress.set_epoch(4)
        assert read(progress) == (4, [0, 1, 2, 3, 4])

    @pytest.mark.parametrize("take", range(7))
    def test_resumed_is_as_uninterrupted(self, take: int) -> None:
        """At every place, before the last item was asked for and after the end was seen; over two more epochs."""
        whole = EpochProgress("test")
        expected = [(epoch, item) for epoch, items in (read(whole) for _ in range(3)) for item in items]
        started = EpochProgress("test")
        epoch, used = read(started, take=take)
        resumed = EpochProgress("test")
        resumed.load_state(json.loads(json.dumps(started.state(WHO))), WHO, 5)
        found = [(epoch, item) for item in used]
        while len(found) < len(expected):
            epoch, items = read(resumed)
            found += [(epoch, item) for item in items]
        assert found == expected

    def test_a_pass_that_was_left_does_not_count(self) -> None:
        progress = EpochProgress("test")
        left, this = progress.begin(), progress.begin()
        this.done(2)
        left.done(4)
        left.finish()
        assert progress.state(WHO) == {"epoch": 1, "num_drawn": 2, "finished": False, "of": WHO}
        progress.set_epoch(9)
        this.done(5)
        assert progress.num_done == 0

    @pytest.mark.parametrize("num_drawn", [-1, 6, 3])
    def test_a_place_that_is_not_in_the_epoch(self, num_drawn: int) -> None:
        progress = EpochProgress("test")
        with pytest.raises(ValueError, match=f"test: expected num_drawn from 0 to 5 in steps of 2, got {num_drawn}"):
            progress.load_state({"epoch": 3, "num_drawn": num_drawn, "of": WHO}, WHO, 5, 2)
        assert read(progress)[0] == 0
        progress.load_state({"epoch": 3, "num_drawn": 5, "of": WHO}, WHO, 5, 2)  # the last batch may be smaller

    def test_differences_are_named(self) -> None:
        state = {"epoch": 0, "num_drawn": 0, "of": {"seed": 2, "mode": "x" * 99, "same": 1}}
        with pytest.raises(
            ValueError, match=r"seed is 2 in the state and 1 here; mode is 'x+\.\.\. in the state and None here; load"
        ):
            expect_own_state("test", {"seed": 1, "same": 1}, state)


class TestRanks:
    def test_given(self) -> None:
        finder = ReplicaFinder("test", 1, 3)
        assert finder.now() == finder.reading() == finder.given == Replica(1, 3)

    @pytest.mark.parametrize(("rank", "num"), [(0, None), (None, 2), (2, 2), (-1, 2), (0.0, 1), (False, True)])
    def test_no_rank(self, rank: Any, num: Any) -> None:
        with pytest.raises(ValueError, match="test: expected"):
            ReplicaFinder("test", rank, num)

    def test_found_when_a_pass_begins(self, no_launcher: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        sampler = ExhaustiveNxMSampler([0, 1] * 8, 2, 1, shuffle=False)
        assert (sampler.rank, sampler.num_replicas, len(sampler)) == (0, 1, 16)
        dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
        try:
            monkeypatch.setattr(dist, "get_rank", lambda: 1)
            monkeypatch.setattr(dist, "get_world_size", lambda: 2)
            assert (sampler.rank, sampler.num_replicas, len(sampler)) == (1, 2, 8)
            assert list(sampler) == [2, 3, 6, 7, 10, 11, 14, 15]
        finally:
            dist.destroy_process_group()

    def test_a_launcher_without_a_process_group(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Every rank would read the same; lengths are those of a rank."""
        monkeypatch.setenv("WORLD_SIZE", "2")
        monkeypatch.setenv("RANK", "1")
        sampler = ExhaustiveNxMSampler([0, 1] * 8, 2, 1, shuffle=False)
        assert (sampler.rank, sampler.num_replicas, len(sampler)) == (1, 2, 8)
        with pytest.raises(
            RuntimeError, match=r"ExhaustiveNxMSampler: expected torch\.distributed to be init.*WORLD_SIZE is 2"
        ):
            next(iter(sampler))
        assert len(list(ExhaustiveNxMSampler([0, 1] * 8, 2, 1, rank=0, num_replicas=1))) == 16


class TestPlainLoaders:
    @pytest.mark.parametrize("num_workers", [0, 2])
    def test_a_sampler_in_a_plain_loader_sees_everything(self, num_workers: int, no_launcher: None) -> None:
        """One sample of each class an epoch: without new epochs the same few would come for ever."""
        sampler = RandomNxMSampler([0] * 20 + [c for c in range(1, 9) for _ in range(2)], 4, 2)
        loader = DataLoader(
            TensorDataset(torch.arange(36)), batch_sampler=sampler.batch_sampler(), num_workers=num_workers
        )
        seen = {index for _ in range(4 if num_workers else 40) for (batch,) in loader for index in batch.tolist()}
        assert len(seen) > (20 if num_workers else 34)
        assert sampler.epoch == (3 if num_workers else 39)

    def test_the_epoch_of_any_loader(self) -> None:
        data = TensorDataset(torch.arange(8))
        distributed: Any = DistributedSampler(data, num_replicas=2, rank=0)
        loader: Any = DataLoader(data, sampler=distributed)
        set_epoch_of(loader, 5)
        assert epoch_of(loader) == distributed.epoch == 5
        assert epoch_of(DataLoader(data, shuffle=True)) is None
        assert epoch_of([1, 2]) is None
        sampler = ExhaustiveNxMSampler([0, 1] * 4, 2, 1)
        batched: Any = DataLoader(data, batch_sampler=sampler.batch_sampler())
        set_epoch_of(batched, 3)
        assert epoch_of(batched) == sampler.epoch == 3
