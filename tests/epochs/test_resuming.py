"""Every loader, stopped in the middle of an epoch and resumed in another process's stead: bit for bit as without."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, SequentialSampler

from samples import make_sample
from segpaste import BatchCopyPaste, BatchCopyPasteConfig, create_bank_dataloader, open_bank, stage_bank_batch
from segpaste.augmentation import PlacementConfig
from segpaste.bank import zip_loaders
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
    return BatchCopyPaste.from_dataloader(epoch_loader(folder, num_workers), K, source_pool=open_bank(folder / "bank"))


def augmented_plain(_: Path, num_workers: int) -> Any:
    """A plain loader of samples: its batches are counted, its seeds are of the epoch."""
    sampler = DistributedSampler(Images(), num_replicas=1, rank=0)  # type: ignore[arg-type]
    loader: Any = DataLoader(Images(), batch_size=2, sampler=sampler, collate_fn=list, num_workers=num_workers)  # type: ignore[arg-type]
    torch.manual_seed(3)
    return BatchCopyPaste.from_dataloader(loader, K, CONFIG)


def pairs(folder: Path, num_workers: int) -> Any:
    return zip_loaders(epoch_loader(folder, num_workers), bank_loader(folder, num_workers, steps=6))


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


def plain(_: Path, num_workers: int) -> Any:
    """A plain loader without any sampler of its own: its order is the same in each epoch, its pastes are others."""
    loader: Any = DataLoader(Images(), batch_size=2, collate_fn=list, num_workers=num_workers)  # type: ignore[arg-type]
    torch.manual_seed(3)
    return BatchCopyPaste.from_dataloader(loader, K, CONFIG)


def plain_list(_: Path, __: int) -> Any:
    torch.manual_seed(3)
    return BatchCopyPaste.from_dataloader([[Images()[i], Images()[i + 1]] for i in range(0, 10, 2)], K, CONFIG)


def plain_with_class_batches(_: Path, num_workers: int) -> Any:
    sampler = ExhaustiveNxMSampler(CLASSES, 2, 1)
    loader: Any = DataLoader(
        Images(),  # type: ignore[arg-type]
        batch_sampler=sampler.batch_sampler(),
        collate_fn=list,
        num_workers=num_workers,
    )
    torch.manual_seed(3)
    return BatchCopyPaste.from_dataloader(loader, K, CONFIG)


def in_sequence(folder: Path, num_workers: int) -> EpochDataLoader:
    return epoch_loader(folder, num_workers, sampler=SequentialSampler(CLASSES))


def plain_from_a_bank(folder: Path, num_workers: int) -> Any:
    """More crops than targets: their epoch is never read to its end."""
    torch.manual_seed(3)
    loader: Any = DataLoader(Images(), batch_size=2, collate_fn=list, num_workers=num_workers)  # type: ignore[arg-type]
    crops = bank_loader(folder, num_workers, steps=9, crops_per_target=1)
    return BatchCopyPaste.from_dataloader(loader, K, source_pool=crops)


def plain_from_a_list(folder: Path, num_workers: int) -> Any:
    torch.manual_seed(3)
    bank_loader(folder, 0)
    bank = open_bank(folder / "bank")
    crops = [stage_bank_batch(bank, [[i], [i + 1]]) for i in range(7)]
    loader: Any = DataLoader(Images(), batch_size=2, collate_fn=list, num_workers=num_workers)  # type: ignore[arg-type]
    return BatchCopyPaste.from_dataloader(loader, K, source_pool=crops)


EVERYWHERE = [*LOADERS, plain, plain_list, plain_with_class_batches, in_sequence, plain_from_a_bank, plain_from_a_list]


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
            warnings.filterwarnings("ignore", ".* has no state|BatchCopyPaste could paste nothing")
            resumed = make(tmp_path, 0)
            torch.manual_seed(99)  # the seeds are part of the state
            resumed.load_state_dict(state)
            assert resumed.state_dict() == state
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
    """The epoch that a pass sets on the crops is not taken for one that the user set there."""
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


class TestForeignStates:
    """Each is refused by name, and a refused load changes nothing."""

    @staticmethod
    def of(loader: Any, max_instances: int = K, config: BatchCopyPasteConfig = CONFIG, **options: Any) -> Any:
        return BatchCopyPaste.from_dataloader(loader, max_instances, config, **options)

    @staticmethod
    def torch_loader(num: int = 11, batch_size: int = 2, **options: Any) -> Any:
        return DataLoader([Images()[i % 11] for i in range(num)], batch_size, collate_fn=list, **options)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("make", "named"),
        [
            (lambda my: my.of(my.torch_loader(num=12)), "dataset is '11 samples of list' there and '12 samples"),
            (lambda my: my.of(my.torch_loader(batch_size=3)), "batch_size is 2 there and 3 here"),
            (lambda my: my.of(my.torch_loader(drop_last=True)), "drop_last is False there and True here"),
            (lambda my: my.of(my.torch_loader(shuffle=True)), "sampler is 'SequentialSampler' there and 'RandomSamp"),
            (lambda my: my.of(my.torch_loader(), max_instances=9), "max_instances is 4 there and 9 here"),
            (lambda my: my.of(my.torch_loader(), config=BatchCopyPasteConfig()), "config.placement.scale_range is '"),
            (lambda my: my.of([[]]), "loader is 'DataLoader' there and 'list' here"),
            (lambda my: my.of(epoch_loader(Path(), 0)), "loader is 'DataLoader' there and 'EpochDataLoader' here"),
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
        assert other.state_dict() == before
        with pytest.raises(ValueError, match="there and"):
            started.load_state_dict(before)

    @pytest.mark.parametrize("state", [None, 5, [], {}, "x", {"epoch": 1}], ids=repr)
    @pytest.mark.parametrize("make", EVERYWHERE, ids=lambda make: make.__name__)
    def test_no_state(self, make: Callable[[Path, int], Any], state: Any, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="expected a state made by"):
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
        assert loader.state_dict() == state

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
        state["augment"] = {name: {**value, "k_range": [3, 1]} for name, value in state["augment"].items()}
        other = augmented(tmp_path, 0)
        before = other.state_dict()
        with pytest.raises(ValueError, match="k_range"):
            other.load_state_dict(state)
        assert other.state_dict() == before

    def test_pairs_of_another_bank_change_nothing(self, tmp_path: Path) -> None:
        started = pairs(tmp_path, 0)
        next(iter(started))
        bank = small_bank(tmp_path / "other", CLASSES, seed=5)
        other = zip_loaders(epoch_loader(tmp_path, 0), create_bank_dataloader(bank, batch_size=2, steps=6))
        before = other.state_dict()
        with pytest.raises(ValueError, match="bank is '"):
            other.load_state_dict(started.state_dict())
        assert other.state_dict() == before

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
            with pytest.raises(ValueError, match=r"jitter is .* there and .* here"):
                jittered(other).load_state_dict(state)
            crops = bank_loader(tmp_path, 0, predicate=one)
            bank_loader(tmp_path, 0, predicate=one).load_state_dict(crops.state_dict())
            with pytest.raises(ValueError, match=r"predicate is .* there and .* here"):
                bank_loader(tmp_path, 0, predicate=other).load_state_dict(crops.state_dict())

    def test_another_seed_of_a_torch_sampler(self, tmp_path: Path) -> None:
        def make(seed: int) -> EpochDataLoader:
            sampler = DistributedSampler(Images(), num_replicas=1, rank=0, seed=seed)  # type: ignore[arg-type]
            return epoch_loader(tmp_path, 0, sampler=sampler)

        with pytest.raises(ValueError, match="sampler_seed is 1 there and 0 here"):
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

    def test_what_has_parts_counts_by_itself(self, tmp_path: Path) -> None:
        for make in (augmented, augmented_plain, pairs):
            with pytest.raises(ValueError, match="expected no num_drawn, for its parts count by themselves, got 2"):
                make(tmp_path, 0).state_dict(2)

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
        with pytest.raises(ValueError, match="source_pool is 'BankDataLoader' there and None here"):
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
