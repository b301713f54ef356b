"""The states of loaders: their content, and those that a loader rejects."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from resuming_cases import (
    CLASSES,
    CONFIG,
    EVERYWHERE,
    LOADERS,
    Images,
    K,
    augmented,
    augmented_from_a_bank,
    augmented_plain,
    bank_loader,
    class_crops,
    epoch_loader,
    pairs,
    plain,
    values,
)
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, SequentialSampler

from segpaste import BatchCopyPaste, BatchCopyPasteConfig, create_bank_dataloader, open_bank
from segpaste.augmentation import PlacementConfig
from segpaste.bank import zip_loaders
from segpaste.datasets import EpochDataLoader
from small_bank import small_bank


class TestForeignStates:
    """Each state is rejected by name, and a rejected load changes nothing."""

    @staticmethod
    def of(loader: Any, max_instances: int = K, config: BatchCopyPasteConfig = CONFIG, **options: Any) -> Any:
        return BatchCopyPaste.from_dataloader(loader, max_instances, config, **options)

    @staticmethod
    def torch_loader(num: int = 11, batch_size: int = 2, **options: Any) -> Any:
        return DataLoader([Images()[i % 11] for i in range(num)], batch_size, collate_fn=list, **options)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("make", "named"),
        [
            (lambda my: my.of(my.torch_loader(num=12)), "dataset is '11 samples of list' in the state and '12 samples"),
            (lambda my: my.of(my.torch_loader(batch_size=3)), "batch_size is 2 in the state and 3 here"),
            (lambda my: my.of(my.torch_loader(drop_last=True)), "drop_last is False in the state and True here"),
            (
                lambda my: my.of(my.torch_loader(shuffle=True)),
                "sampler is 'SequentialSampler' in the state and 'R",
            ),
            (lambda my: my.of(my.torch_loader(), max_instances=9), "max_instances is 4 in the state and 9 here"),
            (
                lambda my: my.of(my.torch_loader(), config=BatchCopyPasteConfig(placement={"paste_prob": 1.0})),
                "config.placement.scale_range is '",
            ),
            (lambda my: my.of([[]]), "loader is 'DataLoader' in the state and 'list' here"),
            (
                lambda my: my.of(epoch_loader(Path(), 0)),
                "loader is 'DataLoader' in the state and 'EpochDataLoader'",
            ),
        ],
        ids=["dataset", "batch_size", "drop_last", "shuffle", "slots", "config", "list", "epochs"],
    )
    def test_of_another_loader(self, make: Callable[[Any], Any], named: str) -> None:
        started = self.of(self.torch_loader())
        next(iter(started))
        other = make(self)
        before = other.state_dict()
        with pytest.raises(ValueError, match=re.escape(named)):
            other.load_state_dict(started.state_dict())
        assert values(other.state_dict()) == values(before)
        with pytest.raises(ValueError, match="in the state and"):
            started.load_state_dict(before)

    @pytest.mark.parametrize("state", [None, 5, [], {}, "x", {"epoch": 1}], ids=repr)
    @pytest.mark.parametrize("make", EVERYWHERE, ids=lambda make: make.__name__)
    def test_no_state(self, make: Callable[[Path, int], Any], state: Any, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="expected a state that its own"):
            make(tmp_path, 0).load_state_dict(state)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"epoch": -1},
            {"epoch": 1.5},
            {"epoch": None},
            {"num_drawn": None},
            {"num_drawn": 1.0},
            {"num_drawn": True},
            {"finished": "no"},
        ],
        ids=repr,
    )
    @pytest.mark.parametrize("make", [epoch_loader, plain, pairs, class_crops], ids=lambda make: make.__name__)
    def test_a_place_that_is_none(self, make: Any, wrong: dict[str, Any], tmp_path: Path) -> None:
        loader = make(tmp_path, 0)
        state = loader.state_dict()
        with pytest.raises(ValueError, match=next(iter(wrong))):
            loader.load_state_dict({**state, **wrong})
        assert values(loader.state_dict()) == values(state)

    @pytest.mark.parametrize("pool_is_a_loader", [False, True])
    @pytest.mark.parametrize("plain_targets", [False, True])
    @pytest.mark.filterwarnings("ignore:.* has no state", "ignore:BatchCopyPaste could paste nothing")
    def test_another_bank_changes_nothing(self, pool_is_a_loader: bool, plain_targets: bool, tmp_path: Path) -> None:
        def make(name: str, seed: int) -> Any:
            path = tmp_path / name
            bank = open_bank(path) if path.exists() else small_bank(path, CLASSES, seed=seed)
            pool: Any = bank
            if pool_is_a_loader:
                pool = create_bank_dataloader(bank, batch_size=2, steps=6)
            targets = self.torch_loader() if plain_targets else epoch_loader(tmp_path, 0)
            return BatchCopyPaste.from_dataloader(targets, K, source_pool=pool)

        started, other = make("one", 0), make("other", 5)
        started.augment.schedule.set(paste_prob=0.25)
        batches = iter(started)
        next(batches)
        next(batches)
        running, before = iter(other), other.state_dict()
        next(running)
        with pytest.raises(ValueError, match="bank is '"):
            other.load_state_dict(started.state_dict())
        assert other.augment.schedule.paste_prob != 0.25
        assert len(list(running)) == 5, "the pass that was running goes on"
        assert other.state_dict()["finished"]
        assert before["num_drawn"] == 0
        assert len(list(other)) == 6

    def test_a_broken_schedule_changes_nothing(self, tmp_path: Path) -> None:
        started = augmented(tmp_path, 0)
        next(iter(started))
        state = started.state_dict()
        (value,) = state["augment"].values()
        value[1:3] = torch.tensor([3, 1])  # k_range
        other = augmented(tmp_path, 0)
        before = other.state_dict()
        with pytest.raises(ValueError, match="k_range"):
            other.load_state_dict(state)
        assert values(other.state_dict()) == values(before)

    def test_pairs_of_another_bank_change_nothing(self, tmp_path: Path) -> None:
        started = pairs(tmp_path, 0)
        next(iter(started))
        bank = small_bank(tmp_path / "other", CLASSES, seed=5)
        other = zip_loaders(epoch_loader(tmp_path, 0), create_bank_dataloader(bank, batch_size=2, steps=6))
        before = other.state_dict()
        with pytest.raises(ValueError, match="bank is '"):
            other.load_state_dict(started.state_dict())
        assert values(other.state_dict()) == values(before)

    def test_another_function(self, tmp_path: Path) -> None:
        """The code, the defaults and the plain values that a function closes over; not what it finds in its module."""

        def make(limit: float) -> Callable[..., Any]:
            return lambda *_: limit > 0

        def jittered(jitter: Any) -> EpochDataLoader:
            return EpochDataLoader(Images(), batch_size=2, jitter=jitter)  # type: ignore[arg-type]

        for one, other in (
            (make(1), make(2)),
            (lambda sample, _: sample, lambda sample, _: (sample, 1)),
            (partial(max, 1), partial(max, 2)),
        ):
            state = jittered(one).state_dict()
            jittered(one).load_state_dict(state)
            with pytest.raises(ValueError, match=r"jitter is .* in the state and .* here"):
                jittered(other).load_state_dict(state)
            crops = bank_loader(tmp_path, 0, predicate=one)
            bank_loader(tmp_path, 0, predicate=one).load_state_dict(crops.state_dict())
            with pytest.raises(ValueError, match=r"predicate is .* in the state and .* here"):
                bank_loader(tmp_path, 0, predicate=other).load_state_dict(crops.state_dict())

    def test_another_seed_of_a_torch_sampler(self, tmp_path: Path) -> None:
        def make(seed: int) -> EpochDataLoader:
            sampler = DistributedSampler(Images(), num_replicas=1, rank=0, seed=seed)  # type: ignore[arg-type]
            return epoch_loader(tmp_path, 0, sampler=sampler)

        with pytest.raises(ValueError, match="sampler_seed is 1 in the state and 0 here"):
            make(0).load_state_dict(make(1).state_dict())


class TestStates:
    def test_every_loader_hands_through(self, tmp_path: Path) -> None:
        for make in LOADERS:
            loader = make(tmp_path, 0)
            for name in ("sampler", "batch_sampler", "dataset", "set_epoch", "state_dict", "load_state_dict", "epoch"):
                assert hasattr(loader, name), (make, name)
            loader.sampler.set_epoch(4)
            next(iter(loader))
            assert loader.epoch == 4

    @pytest.mark.parametrize(
        ("options", "named"),
        [
            ({"base_seed": 1}, "loader_seed is 1 in the state and 0 here"),
            ({"shuffle": False}, "shuffle is False in the state and True here"),
            ({"rank": 1, "num_replicas": 2}, "num_replicas is 2 in the state and 1 here"),
            ({"sampler": SequentialSampler(CLASSES)}, "sampler is 'SequentialSampler' in the state and None here"),
        ],
        ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
    )
    def test_of_another_loader(self, options: dict[str, Any], named: str, tmp_path: Path) -> None:
        state = epoch_loader(tmp_path, 0, **options).state_dict()
        with pytest.raises(
            ValueError, match=f"EpochDataLoader: expected the state of a run with the same settings, .*{named}"
        ):
            epoch_loader(tmp_path, 0).load_state_dict(state)

    def test_of_another_jitter(self, tmp_path: Path) -> None:
        state = EpochDataLoader(Images(), batch_size=2, max_instances=K).state_dict()  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="jitter is 'NoneType' in the state and 'LargeScaleJitter"):
            epoch_loader(tmp_path, 0).load_state_dict(state)

    def test_what_has_parts_counts_by_itself(self, tmp_path: Path) -> None:
        for make in (augmented, augmented_plain, pairs):
            with pytest.raises(ValueError, match="expected no num_drawn, as its parts count by themselves, got 2"):
                make(tmp_path, 0).state_dict(2)

    def test_a_sampler_that_draws_others_when_resumed_is_told(self, tmp_path: Path) -> None:
        def drawing(seed: int) -> EpochDataLoader:
            generator = torch.Generator().manual_seed(seed)  # without one, 1 of 110 pairs begins alike
            return epoch_loader(tmp_path, 0, sampler=RandomSampler(CLASSES, generator=generator))

        started = drawing(8)
        next(iter(started))
        resumed = drawing(9)
        resumed.load_state_dict(started.state_dict())
        with pytest.warns(UserWarning, match="expected the sampler to give the same 2 indices of epoch 0"):
            assert len(list(resumed)) == 5
        ordered = epoch_loader(tmp_path, 0, sampler=SequentialSampler(CLASSES))
        next(iter(ordered))
        again = epoch_loader(tmp_path, 0, sampler=SequentialSampler(CLASSES))
        again.load_state_dict(ordered.state_dict())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert len(list(again)) == 5

    def test_a_plain_loader_is_read_up_to_the_place_and_says_so(self, tmp_path: Path) -> None:
        started = augmented_plain(tmp_path, 0)
        next(iter(started))
        with pytest.warns(UserWarning, match="DataLoader has no state: its first 1 batches are read and left out"):
            augmented_plain(tmp_path, 0).load_state_dict(started.state_dict())

    def test_the_crops_of_another_pool_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="source_pool is 'BankDataLoader' in the state and None here"):
            augmented(tmp_path, 0).load_state_dict(augmented_from_a_bank(tmp_path, 0).state_dict())

    def test_the_schedule_is_part_of_it(self, tmp_path: Path) -> None:
        config = BatchCopyPasteConfig(placement=PlacementConfig(paste_prob=1.0, fade_last=0.5))
        started = BatchCopyPaste.from_dataloader(epoch_loader(tmp_path, 0), K, config)
        schedule: Any = started.augment.schedule  # type: ignore[attr-defined]
        schedule.set(paste_prob=0.25, k_range=(2, 3), class_temperature=0.5)
        schedule.at(1.0)
        other = BatchCopyPaste.from_dataloader(epoch_loader(tmp_path, 0), K, config)
        path = tmp_path / "state.pt"
        torch.save(started.state_dict(), path)
        other.load_state_dict(torch.load(path, weights_only=True))
        found: Any = other.augment.schedule  # type: ignore[attr-defined]
        for tables in zip(schedule.tables, found.tables, strict=True):
            assert torch.equal(*tables)
        assert (found.k_range, found.class_temperature, found.paste_prob) == ((2, 3), 0.5, 0.0)
        found.at(0.0)
        assert found.paste_prob == 0.25

    def test_weights_of_before_the_augmentation_are_still_loaded(self) -> None:
        class Model(torch.nn.Module):
            def __init__(self, augment: BatchCopyPaste | None) -> None:
                super().__init__()
                self.head = torch.nn.Linear(2, 2)
                if augment is not None:
                    self.augment = augment

        augment = BatchCopyPaste(CONFIG)
        augment.schedule.set(paste_prob=0.5)
        Model(augment).load_state_dict(Model(None).state_dict())
        assert augment.schedule.paste_prob == 0.5
