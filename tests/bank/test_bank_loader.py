"""The loader: the same steps whoever reads them, pairs with a loader of images, errors in one line."""

from __future__ import annotations

import os
import pickle
from dataclasses import fields
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bank_cases import write_bank
from bank_loader_cases import NAMES, EvenPhotos, crop_idx, is_even, mixed_bank
from torch import Tensor
from torch.utils.data import RandomSampler

from segpaste.bank import BankError, BankSampler, create_bank_dataloader, stage_bank_batch, zip_loaders
from segpaste.types import StagedCrops


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return mixed_bank(tmp_path_factory.mktemp("loader") / "bank")


def assert_equal(one: StagedCrops, other: StagedCrops) -> None:
    for field in fields(StagedCrops):
        left, right = getattr(one, field.name), getattr(other, field.name)
        if isinstance(right, Tensor):
            assert torch.equal(left, right), field.name
        else:
            assert left == right, field.name


def steps_of(loader: Any, epoch: int = 0) -> list[StagedCrops]:
    loader.set_epoch(epoch)
    return list(loader)


class TestSteps:
    def test_what_the_sampler_draws(self, bank: Any) -> None:
        loader = create_bank_dataloader(
            bank, batch_size=3, crops_per_target=2, steps=5, mode="tempered", base_seed=7, rank=1, num_replicas=2
        )
        sampler = BankSampler(bank, 30, mode="tempered", base_seed=7, rank=1, num_replicas=2)
        for epoch in (0, 4):
            sampler.set_epoch(epoch)
            wanted = np.array(list(sampler)).reshape(5, 3, 2)
            steps = steps_of(loader, epoch)
            assert len(steps) == len(loader) == 5
            for step, idx in zip(steps, wanted, strict=True):
                assert_equal(step, stage_bank_batch(bank, idx))
        assert str(loader.report()) == str(sampler.report())

    @pytest.mark.parametrize(
        ("crop_idx", "class_map", "words"),
        [
            ([[0.7]], None, "expected integers in crop_idx, got float64"),
            ([[True]], None, "expected integers in crop_idx, got bool"),
            ([[0]], [0, 1, 2, 0.5], "expected integers in class_map, got float64"),
        ],
    )
    def test_indices_and_classes_are_integers(self, bank: Any, crop_idx: Any, class_map: Any, words: str) -> None:
        with pytest.raises(ValueError, match=words):
            stage_bank_batch(bank, crop_idx, class_map)
        assert stage_bank_batch(bank, np.empty((0, 2))).batch_size == 0

    def test_default_steps(self, bank: Any) -> None:
        assert len(create_bank_dataloader(bank, batch_size=8)) == 13
        assert len(create_bank_dataloader(bank, batch_size=8, crops_per_target=2, rank=1, num_replicas=3)) == 3
        assert len(create_bank_dataloader(bank, batch_size=8, steps=0)) == 0

    @pytest.mark.parametrize("persistent", [False, True])
    def test_workers_read_what_one_process_reads(self, start_method: BaseContext, persistent: bool, bank: Any) -> None:
        """The walk of a predicate needs a table that is not sent to the workers; the parent has read before."""
        bank[0]
        options: dict[str, Any] = {"batch_size": 4, "steps": 6, "mode": "class_uniform", "predicate": EvenPhotos()}
        alone = create_bank_dataloader(bank, **options)
        shared = create_bank_dataloader(
            bank,
            **options,
            num_workers=2,
            multiprocessing_context=start_method,
            persistent_workers=persistent,
        )
        for epoch in range(2):
            for one, other in zip(steps_of(alone, epoch), steps_of(shared, epoch), strict=True):
                assert_equal(one, other)
        assert alone.stats == shared.stats

    def test_global_seeds_do_not_matter(self, bank: Any) -> None:
        found = []
        for seed in range(2):
            torch.manual_seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            found.append(crop_idx(list(create_bank_dataloader(bank, batch_size=5, predicate=is_even))))
        assert found[0] == found[1]

    @pytest.mark.parametrize("num_workers", [0, 2])
    def test_resumed_is_as_uninterrupted(self, num_workers: int, bank: Any) -> None:
        def fresh() -> Any:
            return create_bank_dataloader(bank, batch_size=4, steps=7, predicate=is_even, num_workers=num_workers)

        whole = crop_idx(steps_of(fresh(), 3))
        stopped = fresh()
        stopped.set_epoch(3)
        iterator = iter(stopped)
        used = crop_idx([next(iterator) for _ in range(3)])
        state = pickle.loads(pickle.dumps(stopped.state_dict()))
        resumed = fresh()
        resumed.load_state_dict(state)
        resumed.set_epoch(3)
        assert resumed.state_dict() == state
        assert (state["epoch"], state["num_drawn"]) == (3, 12)
        assert used + crop_idx(list(resumed)) == whole
        assert resumed.state_dict() == {**state, "num_drawn": 28, "finished": True}
        assert crop_idx(steps_of(resumed, 4)) == crop_idx(steps_of(fresh(), 4))

    def test_a_place_that_is_no_step(self, bank: Any) -> None:
        loader = create_bank_dataloader(bank, batch_size=4, steps=7)
        for num in (13, 32, -4):
            with pytest.raises(ValueError, match=f"num_drawn from 0 to 28 in steps of 4, got {num}"):
                loader.load_state_dict({**loader.state_dict(), "num_drawn": num})

    @pytest.mark.parametrize(
        ("change", "named"),
        [
            ({"base_seed": 1}, "base_seed is 1 in the state and 0 here"),
            ({"mode": "tempered"}, "mode is 'tempered' in the state and 'repeat_factor' here"),
            ({"steps": 8}, "num_samples is 32 in the state and 28 here"),
            (
                {"batch_size": 2, "crops_per_target": 2},
                "batch_size is 2 in the state and 4 here; crops_per_target is 2",
            ),
            ({"class_map": [7, 5, 70, 2]}, r"class_map is \[7, 5, 70, 2\] in the state and None here"),
            (
                {"predicate": is_even},
                "predicate is 'is_even with digest [0-9a-f]+' in the state and None here; max_tries is 100",
            ),
            ({"rank": 1, "num_replicas": 2}, "num_replicas is 2 in the state and 1 here"),
        ],
        ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
    )
    def test_a_state_of_another_run(self, change: dict[str, Any], named: str, bank: Any) -> None:
        options: dict[str, Any] = {"batch_size": 4, "steps": 7}
        state = create_bank_dataloader(bank, **{**options, **change}).state_dict()
        with pytest.raises(
            ValueError, match=f"expected the state of a run with the same settings, got one in which .*{named}"
        ):
            create_bank_dataloader(bank, **options).load_state_dict(state)

    def test_every_pass_is_a_new_epoch_until_one_is_set(self, bank: Any) -> None:
        epochs = [crop_idx(steps_of(create_bank_dataloader(bank, batch_size=4, steps=2), e)) for e in range(3)]
        loader = create_bank_dataloader(bank, batch_size=4, steps=2)
        assert [crop_idx(list(loader)) for _ in range(2)] == epochs[:2]
        loader.set_epoch(2)
        assert [crop_idx(list(loader)) for _ in range(2)] == [epochs[2]] * 2

    def test_classes_of_the_target_dataset(self, bank: Any) -> None:
        loader = create_bank_dataloader(bank, batch_size=4, steps=3, class_map=[7, 5, 70, 2])
        for step in loader:
            own = bank.crop_class_ids()[step.crop_idx.numpy()]
            assert step.class_ids.tolist() == np.array([7, 5, 70, 2])[own].tolist()

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"batch_size": 0}, "batch_size: expected at least 1, got 0"),
            ({"crops_per_target": 0}, "crops_per_target: expected at least 1, got 0"),
            ({"steps": -1}, "steps: expected at least 0, got -1"),
            ({"class_map": [1, 2]}, r"expected class_map \[4\]"),
            ({"predicate": is_even, "max_tries": 0}, "max_tries: expected at least 1, got 0"),
            ({"mode": "rare"}, "got 'rare'"),
        ],
    )
    def test_bad_values(self, options: dict[str, Any], words: str, bank: Any) -> None:
        with pytest.raises(ValueError, match=words):
            create_bank_dataloader(bank, **{"batch_size": 2, **options})

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"batch_size": 2.5}, r"batch_size: expected an integer, got float 2\.5"),
            ({"batch_size": True}, "batch_size: expected an integer, got bool True"),
            ({"batch_size": "4"}, "batch_size: expected an integer, got str '4'"),
            ({"crops_per_target": 1.0}, "crops_per_target: expected an integer, got float"),
            ({"steps": 2.5}, r"steps: expected an integer, got float 2\.5"),
            ({"steps": True}, "steps: expected an integer, got bool"),
            ({"threshold": "x"}, "threshold: expected a number, got str 'x'"),
            ({"mode": "tempered", "temperature": None}, "temperature: expected a number, got NoneType"),
            ({"predicate": 5}, "predicate: expected a CropPredicate, or a function .* got 5"),
            ({"predicate": EvenPhotos}, "predicate: expected a CropPredicate, .* got <class"),
            ({"predicate": is_even, "max_tries": 2.5}, "max_tries: expected an integer, got float"),
        ],
        ids=lambda value: ",".join(value) if isinstance(value, dict) else None,
    )
    def test_values_of_another_class(self, options: dict[str, Any], words: str, bank: Any) -> None:
        with pytest.raises(TypeError, match=words):
            create_bank_dataloader(bank, **{"batch_size": 2, **options})

    @pytest.mark.parametrize("wrong", ["path", Path("path"), 5, None, [1, 2]], ids=repr)
    def test_something_else_than_a_bank(self, wrong: Any, bank: Any) -> None:
        words = r"expected an instance bank, got .*; open one with open_bank\(path\)"
        with pytest.raises(TypeError, match=f"create_bank_dataloader: {words}"):
            create_bank_dataloader(wrong, batch_size=2)
        with pytest.raises(TypeError, match=words):
            create_bank_dataloader(wrong, batch_size=2, sampler=BankSampler(bank))
        with pytest.raises(TypeError, match=f"stage_bank_batch: {words}"):
            stage_bank_batch(wrong, np.zeros((1, 1), int))

    def test_a_sampler_of_the_bank(self, bank: Any) -> None:
        """It draws what the options would, but for the draws of a step that it does not fill."""
        options: dict[str, Any] = {"mode": "tempered", "base_seed": 5}
        given = create_bank_dataloader(bank, batch_size=4, sampler=BankSampler(bank, 30, **options))
        expected = create_bank_dataloader(bank, batch_size=4, steps=7, **options)
        assert len(given) == 7
        for epoch in range(2):
            assert crop_idx(steps_of(given, epoch)) == crop_idx(steps_of(expected, epoch))

    def test_a_sampler_that_does_not_fit(self, bank: Any, tmp_path: Path) -> None:
        other = write_bank(tmp_path / "other", [0, 1, 1, 2, 3], names=NAMES)
        for sampler, options, words in (
            (
                BankSampler(other),
                {},
                f"expected .* of version {bank.version[:12]}, got one of version {other.version[:12]}",
            ),
            (BankSampler(bank, 3), {}, "expected at least batch_size \\* crops_per_target = 4 draws .* got 3"),
            (
                BankSampler(bank, rank=1, num_replicas=2),
                {"rank": 0, "num_replicas": 2},
                "expected rank 0 of 2, .* got rank 1 of 2",
            ),
            (BankSampler(bank), {"steps": 3}, "expected no other draw options"),
        ):
            with pytest.raises(ValueError, match=f"sampler: {words}"):
                create_bank_dataloader(bank, batch_size=4, sampler=sampler, **options)
        for wrong in (RandomSampler(range(100)), [0, 1, 2, 3], "class_uniform"):
            with pytest.raises(TypeError, match=f"a BankSampler or an NxMSampler.*got {type(wrong).__name__}"):
                create_bank_dataloader(bank, batch_size=4, sampler=wrong)  # type: ignore[arg-type]

    @pytest.mark.parametrize("num_workers", [0, 1])
    def test_a_bank_that_breaks_on_the_way(self, num_workers: int, tmp_path: Path) -> None:
        broken = write_bank(tmp_path / "bank", [0] * 50)
        loader = create_bank_dataloader(broken, batch_size=4, num_workers=num_workers)
        os.truncate(tmp_path / "bank" / "images.dat", 10)
        with pytest.raises(BankError) as caught:
            list(loader)
        assert "images.dat: expected" in str(caught.value)
        assert "\n" not in str(caught.value)


class Batches:
    """Targets without pixels: their numbers alone."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes, self.epoch = sizes, 0

    def __len__(self) -> int:
        return len(self.sizes)

    def __iter__(self) -> Any:
        return (type("Batch", (), {"batch_size": size})() for size in self.sizes)

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


class TestWithBank:
    def test_a_smaller_last_batch(self, bank: Any) -> None:
        loader = create_bank_dataloader(bank, batch_size=4, crops_per_target=3, steps=3)
        pairs = list(both := zip_loaders(Batches([4, 4, 1]), loader))
        assert len(both) == 3
        assert [crops.images.shape[:2] for _, crops in pairs] == [(4, 3), (4, 3), (1, 3)]
        loader.set_epoch(both.epoch)
        last = list(loader)[2]
        assert torch.equal(pairs[2][1].images, last.images[:1])
        assert torch.equal(pairs[2][1].crop_idx, last.crop_idx[:1])

    def test_both_epochs(self, bank: Any) -> None:
        batches, loader = Batches([2]), create_bank_dataloader(bank, batch_size=2, steps=1)
        zip_loaders(batches, loader).set_epoch(5)
        assert batches.epoch == loader.epoch == 5

    def test_too_few_steps(self, bank: Any) -> None:
        loader = create_bank_dataloader(bank, batch_size=2, steps=2)
        with pytest.raises(ValueError, match="bank loader of 3 steps, got 2; set steps="):
            next(iter(zip_loaders(Batches([2] * 3), loader)))
        endless = iter(Batches([2] * 3))
        with pytest.raises(ValueError, match="got a loader that ends after 2 batches; set its steps="):
            list(zip_loaders(endless, loader))

    def test_too_few_crops(self, bank: Any) -> None:
        with pytest.raises(ValueError, match="expected staged crops for 3 targets, got 2; give both loaders the same"):
            list(zip_loaders(Batches([3]), create_bank_dataloader(bank, batch_size=2)))
