"""Every loader, stopped in the middle of an epoch and resumed as in another process, continues bit for bit."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from resuming_cases import (
    CONFIG,
    EVERYWHERE,
    LOADERS,
    NEED_EPOCHS,
    Images,
    K,
    augmented,
    augmented_from_a_bank,
    augmented_plain,
    augmented_with_draws_of_a_bank,
    bank_loader,
    digest,
    distributed_sampler,
    epoch_loader,
    plain_from_a_bank,
    values,
)
from torch.utils.data import DataLoader, DistributedSampler

from segpaste import BatchCopyPaste, open_bank


@pytest.mark.filterwarnings("ignore:DataLoader has no state", "ignore:BatchCopyPaste could paste nothing")
@pytest.mark.parametrize(
    ("make", "sets_epochs"),
    [(make, sets) for make in LOADERS for sets in ([True] if make in NEED_EPOCHS else [False, True])],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_resumed_is_as_uninterrupted(make: Callable[[Path, int], Any], sets_epochs: bool, tmp_path: Path) -> None:
    """Stopped after two batches of the second epoch, with another number of workers than it is resumed with."""

    def epoch_of(loader: Any, epoch: int) -> Any:
        if sets_epochs:
            loader.set_epoch(epoch)
        return map(digest, loader)

    whole = make(tmp_path, 0)
    expected = [list(epoch_of(whole, epoch)) for epoch in range(3)]
    assert len({str(epoch) for epoch in expected}) == 3
    assert len(whole) == len(expected[0]) > 3
    for num_workers in (0, 2) if sets_epochs or make is epoch_loader else (0,):
        started = make(tmp_path, num_workers)
        assert list(epoch_of(started, 0)) == expected[0]
        batches = epoch_of(started, 1)
        assert [next(batches), next(batches)] == expected[1][:2]
        state = started.state_dict()
        if make not in (augmented, augmented_from_a_bank, augmented_with_draws_of_a_bank, augmented_plain):
            assert json.loads(json.dumps(state)) == state
        del batches
        resumed = make(tmp_path, 2 - num_workers if num_workers else 0)
        resumed.load_state_dict(state)
        assert values(resumed.state_dict()) == values(state)
        assert len(resumed) == len(expected[0])
        assert list(epoch_of(resumed, 1)) == expected[1][2:]
        assert list(epoch_of(resumed, 2)) == expected[2]


@pytest.mark.filterwarnings("ignore:.* has no state", "ignore:BatchCopyPaste could paste nothing")
@pytest.mark.parametrize("way", ["by itself", "set", "set once"])
@pytest.mark.parametrize("make", EVERYWHERE, ids=lambda make: make.__name__)
def test_resumed_at_every_place(make: Callable[[Path, int], Any], way: str, tmp_path: Path) -> None:
    """Before the first batch, after each, after the last, and after the pass was seen to end; with two more passes.

    Nothing is warned of but a loader without a state and pastes without room.
    """
    numbers = {"by itself": [None] * 4, "set": [0, 1, 2, 3], "set once": [2, None, None, None]}[way]

    def one_pass(loader: Any, number: int) -> Any:
        if numbers[number] is not None:
            loader.set_epoch(numbers[number])
        return map(digest, loader)

    whole = make(tmp_path, 0)
    expected = [list(one_pass(whole, number)) for number in range(4)]
    last = len(expected[1])
    for place in {0, 1, last - 1, last, last + 1}:
        started = make(tmp_path, 0)
        assert list(one_pass(started, 0)) == expected[0]
        batches = one_pass(started, 1)
        assert [batch for _, batch in zip(range(place), batches, strict=False)] == expected[1][:place]
        if place == 0:
            batches = one_pass(started, 1)
            assert next(batches) == expected[1][0]
            place = 1
        state = started.state_dict()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for message in (".* has no state", "BatchCopyPaste could paste nothing", "BatchCopyPaste: pastes are"):
                warnings.filterwarnings("ignore", message)
            resumed = make(tmp_path, 0)
            torch.manual_seed(99)  # the seeds are part of the state
            resumed.load_state_dict(state)
            assert values(resumed.state_dict()) == values(state)
            if way == "set once":
                resumed.set_epoch(2)
            if place <= last:
                assert list(one_pass(resumed, 1)) == expected[1][place:]
            assert list(one_pass(resumed, 2)) == expected[2]
            assert list(one_pass(resumed, 3)) == expected[3]


@pytest.mark.filterwarnings("ignore:.* has no state", "ignore:BatchCopyPaste could paste nothing")
@pytest.mark.parametrize("make", EVERYWHERE, ids=lambda make: make.__name__)
def test_saved_before_anything_was_read(make: Callable[[Path, int], Any], tmp_path: Path) -> None:
    started = make(tmp_path, 0)
    state = started.state_dict()
    expected = [list(map(digest, started)) for _ in range(2)]
    resumed = make(tmp_path, 0)
    torch.manual_seed(99)
    resumed.load_state_dict(state)
    assert [list(map(digest, resumed)) for _ in range(2)] == expected


@pytest.mark.filterwarnings("ignore:BatchCopyPaste could paste nothing")
def test_every_pass_is_a_new_epoch_around_a_torch_sampler(tmp_path: Path) -> None:
    """As `EpochDataLoader` with that sampler; a set epoch decides, wherever it was set."""
    augmented, alone = augmented_plain(tmp_path, 0), distributed_sampler(tmp_path, 0)
    passes = [[sorted(map(float, batch.images.sum((1, 2, 3)))) for batch in augmented] for _ in range(3)]
    assert len(set(map(str, passes))) == 3
    assert augmented.epoch == 2
    for _ in range(3):
        list(alone)
    assert alone.epoch == 2
    for set_epoch in (augmented.loader.sampler.set_epoch, augmented.sampler.set_epoch, augmented.set_epoch):
        set_epoch(5)
        for _ in range(2):
            next(iter(augmented))
            assert augmented.epoch == augmented.loader.sampler.epoch == 5
        set_epoch(6)
        assert augmented.epoch == 6
    next(iter(augmented))
    assert (augmented.state_dict()["num_drawn"], augmented.state_dict()["num_rows"]) == (1, 2)
    augmented.loader.sampler.set_epoch(7)
    state = augmented.state_dict()
    assert (state["epoch"], state["num_drawn"], state["num_rows"]) == (7, 0, 0)


@pytest.mark.filterwarnings("ignore:BatchCopyPaste could paste nothing")
def test_every_pass_is_a_new_epoch_where_only_the_crops_have_one(tmp_path: Path) -> None:
    """The epoch that a pass sets on the crops is not mistaken for one set by the user."""
    augmented = plain_from_a_bank(tmp_path, 0)
    found = [(list(map(digest, augmented)), augmented.epoch, augmented.crops.pool.epoch) for _ in range(4)]
    assert [epochs for _, *epochs in found] == [[epoch, epoch] for epoch in range(4)]
    assert len({str(batches) for batches, *_ in found}) == 4
    augmented.crops.pool.set_epoch(7)
    assert augmented.epoch == 7
    next(iter(augmented))
    assert augmented.epoch == augmented.crops.pool.epoch == 7


def test_an_epoch_that_a_sampler_has_already_is_where_it_starts(tmp_path: Path) -> None:
    sampler = DistributedSampler(Images(), num_replicas=1, rank=0)  # type: ignore[arg-type]
    sampler.set_epoch(4)
    loader = epoch_loader(tmp_path, 0, sampler=sampler)
    assert loader.epoch == 4
    next(iter(loader))
    assert loader.epoch == sampler.epoch == 4


class TestExplicitRanks:
    """Under a launcher, with no process group: the rank that the loader was given is enough."""

    @pytest.fixture(autouse=True)
    def launcher(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("WORLD_SIZE", "2")
        monkeypatch.setenv("RANK", "0")  # another one than is given

    @pytest.mark.filterwarnings("ignore:BatchCopyPaste could paste nothing")
    @pytest.mark.parametrize("pool", [False, True])
    def test_of_the_loader(self, pool: bool, tmp_path: Path) -> None:
        bank_loader(tmp_path, 0)
        source = open_bank(tmp_path / "bank") if pool else None
        batches: list[Any] = []
        for rank in (0, 1):
            loader = epoch_loader(tmp_path, 0, rank=rank, num_replicas=2)
            batches.append(list(map(digest, BatchCopyPaste.from_dataloader(loader, K, source_pool=source))))
        assert [len(rows) for rows in batches] == [3, 3]
        assert batches[0] != batches[1]

    def test_of_a_torch_sampler(self) -> None:
        sampler = DistributedSampler(Images(), num_replicas=2, rank=1)  # type: ignore[arg-type]
        loader: Any = DataLoader(Images(), batch_size=2, sampler=sampler, collate_fn=list)  # type: ignore[arg-type]
        assert len(list(BatchCopyPaste.from_dataloader(loader, K, CONFIG))) == 3

    def test_without_one_the_advice_is_one_that_works(self) -> None:
        with pytest.raises(RuntimeError, match="or give it a loader or a sampler with rank= and num_replicas="):
            list(BatchCopyPaste.from_dataloader([], K))
