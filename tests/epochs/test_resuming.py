"""Every loader, stopped in the middle of an epoch and resumed in another process's stead: bit for bit as without."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, SequentialSampler

from samples import make_sample
from segpaste import BatchCopyPaste, BatchCopyPasteConfig, create_bank_dataloader
from segpaste.augmentation import PlacementConfig
from segpaste.bank import with_bank
from segpaste.datasets import EpochDataLoader, make_large_scale_jittering
from segpaste.samplers import ExhaustiveNxMSampler
from segpaste.types import DenseSample, Modality, PaddedBatchedDenseSample
from small_bank import small_bank

K = 4
CONFIG = BatchCopyPasteConfig(placement=PlacementConfig(scale_range=(0.5, 1.0)))
CLASSES = [0, 1, 2, 0, 1, 2, 0, 0, 1, 0, 2]


class Images:
    """One object in each."""

    def __len__(self) -> int:
        return len(CLASSES)

    def __getitem__(self, index: int) -> DenseSample:
        sample = make_sample((19, 17), 1, [Modality.INSTANCE], image_dtype=torch.uint8, seed=index)
        sample.labels[:] = CLASSES[index]
        return sample


def digest(item: Any) -> Any:
    """What a batch holds, as values that compare."""
    if isinstance(item, tuple):
        return tuple(map(digest, item))
    if isinstance(item, PaddedBatchedDenseSample):
        return item.sample_seeds.tolist(), item.images.tolist(), item.boxes.tolist(), item.labels.tolist()
    return item.crop_idx.tolist()


def epoch_loader(_: Path, num_workers: int, **options: Any) -> EpochDataLoader:
    return EpochDataLoader(
        Images(),  # type: ignore[arg-type]
        batch_size=2,
        max_instances=K,
        jitter=make_large_scale_jittering((19, 17)),
        num_workers=num_workers,
        persistent_workers=num_workers > 0,
        **options,
    )


def bank_loader(folder: Path, num_workers: int, **options: Any) -> Any:
    path = folder / "bank"
    from segpaste import open_bank

    bank = open_bank(path) if path.exists() else small_bank(path, CLASSES * 3)
    given = {"batch_size": 2, "crops_per_target": 2, "num_workers": num_workers, **options}
    return create_bank_dataloader(bank, persistent_workers=num_workers > 0, **given)


def class_batches(folder: Path, num_workers: int) -> EpochDataLoader:
    sampler = ExhaustiveNxMSampler(CLASSES, 2, 1)
    return epoch_loader(folder, num_workers, sampler=sampler)


def class_crops(folder: Path, num_workers: int) -> Any:
    sampler = ExhaustiveNxMSampler(CLASSES * 3, 2, 2, base_seed=3)
    return bank_loader(folder, num_workers, sampler=sampler)


def distributed_sampler(folder: Path, num_workers: int) -> EpochDataLoader:
    return epoch_loader(folder, num_workers, sampler=DistributedSampler(Images(), num_replicas=1, rank=0))  # type: ignore[arg-type]


def augmented(folder: Path, num_workers: int) -> Any:
    return BatchCopyPaste.from_dataloader(epoch_loader(folder, num_workers), K, CONFIG)


def augmented_from_a_bank(folder: Path, num_workers: int) -> Any:
    crops = bank_loader(folder, num_workers, steps=6, crops_per_target=1)
    return BatchCopyPaste.from_dataloader(epoch_loader(folder, num_workers), K, source_pool=crops)


def augmented_with_draws_of_a_bank(folder: Path, num_workers: int) -> Any:
    bank_loader(folder, 0)
    from segpaste import open_bank

    return BatchCopyPaste.from_dataloader(epoch_loader(folder, num_workers), K, source_pool=open_bank(folder / "bank"))


def augmented_plain(_: Path, num_workers: int) -> Any:
    """A plain loader of samples: its batches are counted, its seeds are of the epoch."""
    sampler = DistributedSampler(Images(), num_replicas=1, rank=0)  # type: ignore[arg-type]
    loader: Any = DataLoader(Images(), batch_size=2, sampler=sampler, collate_fn=list, num_workers=num_workers)  # type: ignore[arg-type]
    torch.manual_seed(3)
    return BatchCopyPaste.from_dataloader(loader, K, CONFIG)


def pairs(folder: Path, num_workers: int) -> Any:
    return with_bank(epoch_loader(folder, num_workers), bank_loader(folder, num_workers, steps=6))


LOADERS = [
    epoch_loader,
    bank_loader,
    class_batches,
    class_crops,
    distributed_sampler,
    augmented,
    augmented_from_a_bank,
    augmented_with_draws_of_a_bank,
    augmented_plain,
    pairs,
]

NEED_EPOCHS = [distributed_sampler, augmented_plain]  # their order is that of torch's DistributedSampler


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
        assert resumed.state_dict() == state
        assert len(resumed) == len(expected[0])
        assert list(epoch_of(resumed, 1)) == expected[1][2:]
        assert list(epoch_of(resumed, 2)) == expected[2]


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
            ({"base_seed": 1}, "loader_seed is 1 there and 0 here"),
            ({"shuffle": False}, "shuffle is False there and True here"),
            ({"rank": 1, "num_replicas": 2}, "num_replicas is 2 there and 1 here"),
            ({"sampler": SequentialSampler(CLASSES)}, "sampler is 'SequentialSampler' there and None here"),
        ],
        ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
    )
    def test_of_another_loader(self, options: dict[str, Any], named: str, tmp_path: Path) -> None:
        state = epoch_loader(tmp_path, 0, **options).state_dict()
        with pytest.raises(ValueError, match=f"EpochDataLoader: expected the state of one like this, .*{named}"):
            epoch_loader(tmp_path, 0).load_state_dict(state)

    def test_of_another_jitter(self, tmp_path: Path) -> None:
        state = EpochDataLoader(Images(), batch_size=2, max_instances=K).state_dict()  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="jitter is 'NoneType' there and 'LargeScaleJitter"):
            epoch_loader(tmp_path, 0).load_state_dict(state)

    def test_a_sampler_that_draws_others_when_resumed_is_told(self, tmp_path: Path) -> None:
        started = epoch_loader(tmp_path, 0, sampler=RandomSampler(CLASSES))
        next(iter(started))
        resumed = epoch_loader(tmp_path, 0, sampler=RandomSampler(CLASSES, generator=torch.Generator().manual_seed(9)))
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
        with pytest.raises(ValueError, match="expected the same source_pool as the state has, one, got none"):
            augmented(tmp_path, 0).load_state_dict(augmented_from_a_bank(tmp_path, 0).state_dict())

    def test_the_schedule_is_part_of_it(self, tmp_path: Path) -> None:
        config = BatchCopyPasteConfig(placement=PlacementConfig(fade_last=0.5))
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
