"""Class-structured batches in use: images that paste from one another, crops of a bank."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from samples import EVERY_IMAGE, make_sample, paste
from segpaste import BatchCopyPaste, BatchCopyPasteConfig, create_bank_dataloader
from segpaste.augmentation import SourceConfig
from segpaste.bank import MemmapBank
from segpaste.datasets import EpochDataLoader
from segpaste.samplers import ExhaustiveNxMSampler, RandomNxMSampler, rarest_labels
from segpaste.seeding import keys_of
from segpaste.types import DenseSample, Modality
from small_bank import small_bank

LABELS = [0] * 30 + [1] * 6 + [2] * 3 + [3] * 9


class Images(Dataset[DenseSample]):
    """One object in each, of the class in the list; the image says which it is."""

    def __init__(self, labels: list[int]) -> None:
        self.labels = labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> DenseSample:
        sample = make_sample((9, 11), 1, [Modality.INSTANCE], image_dtype=torch.uint8)
        sample.image.fill_(index)
        sample.labels[:] = self.labels[index]
        return sample


class TestImages:
    @pytest.mark.parametrize("num_workers", [0, 2])
    def test_a_loader_yields_the_batches(self, num_workers: int) -> None:
        """Epoch by epoch, whoever reads them, each image with the epoch's seed."""
        images = Images(LABELS)
        sampler = ExhaustiveNxMSampler(images, 3, 2)
        loader = EpochDataLoader(images, batch_size=6, sampler=sampler, num_workers=num_workers)
        seeds, num_seeds = set(), []
        for epoch in range(2):
            loader.set_epoch(epoch)
            expected = sampler.epoch_batches()
            batches = list(loader)
            assert [batch.images[:, 0, 0, 0].tolist() for batch in batches] == expected.tolist()
            assert len(loader) == len(batches) == len(expected)
            assert sampler.epoch == epoch
            seeds.update(seed for batch in batches for seed in batch.sample_seeds.tolist())
            for batch in batches:
                assert all(num == 2 for num in Counter(batch.labels[:, 0].tolist()).values())
            num_seeds.append(len(seeds))
        assert num_seeds[1] == 2 * num_seeds[0] == 2 * len({*sampler})

    def test_an_image_pastes_from_other_classes(self) -> None:
        """Each of N classes is as often a source as any other, however rare it is."""
        images = Images(LABELS)
        loader = EpochDataLoader(images, batch_size=8, sampler=RandomNxMSampler(images, 4, 2))
        paste, pasted = BatchCopyPaste(EVERY_IMAGE), Counter[int]()
        for epoch in range(150):
            loader.set_epoch(epoch)
            for batch in loader:
                out = paste(batch)
                pasted.update(out.labels[:, 1:][out.instance_valid[:, 1:]].tolist())
        total = sum(pasted.values())
        assert total > 600
        assert all(abs(pasted[c] / total - 0.25) < 0.08 for c in range(4))

    def test_the_epoch_is_the_samplers(self) -> None:
        """This also holds if it was set there, or loaded: images have the seeds of that epoch."""
        images = Images(LABELS)

        def read(loader: EpochDataLoader) -> list[list[int]]:
            return [batch.sample_seeds.tolist() for batch in loader]

        loader = EpochDataLoader(images, batch_size=6, sampler=ExhaustiveNxMSampler(images, 3, 2))
        loader.set_epoch(3)
        expected = read(loader)
        sampler = ExhaustiveNxMSampler(images, 3, 2)
        sampler.load_state_dict({**sampler.state_dict(6), "epoch": 3})
        other = EpochDataLoader(images, batch_size=6, sampler=sampler)
        assert read(other) == expected[1:]
        sampler.set_epoch(4)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert read(other) != expected

    def test_an_epoch_that_has_begun_stays_that_epoch(self) -> None:
        """Its images and its seeds belong together, whatever is set for the next one in the meantime."""
        images, sampler = Images(LABELS), ExhaustiveNxMSampler(LABELS, 3, 2)
        expected = [sample for batch in sampler.epoch_batches(0).tolist() for sample in batch]
        batches = iter(loader := EpochDataLoader(images, batch_size=6, sampler=sampler))
        begun = [next(batches)]
        sampler.set_epoch(1)
        keys = [key for batch in (*begun, *batches) for key in keys_of(batch.sample_keys)]
        assert [(key.epoch, key.sample_idx) for key in keys] == [(0, index) for index in expected]
        assert loader.state_dict()["num_drawn"] == 0

    def test_a_sampler_of_another_dataset_is_refused(self) -> None:
        with pytest.raises(ValueError, match="expected one of the dataset's 48 samples, got one of 10"):
            EpochDataLoader(Images(LABELS), batch_size=4, sampler=ExhaustiveNxMSampler([0, 1] * 5, 2, 2))

    def test_another_batch_size_is_refused(self) -> None:
        with pytest.raises(ValueError, match="batch_size: expected 6, as in the sampler, got 8"):
            EpochDataLoader(Images(LABELS), batch_size=8, sampler=ExhaustiveNxMSampler(LABELS, 3, 2))

    def test_the_rarest_class_of_an_image(self) -> None:
        labels = rarest_labels([[0, 0, 1], [0], [1, 2], [], [2, 0, 1], (0, 3)])
        assert labels.tolist() == [1, 0, 2, -1, 2, 3]

    def test_the_rarest_class_of_tensors_and_arrays(self) -> None:
        """Their elements compare as integers, though two zeros of a tensor are two objects."""
        rows = [[0, 0, 1], [0], [1, 2], [2, 0, 1]]
        for of in (torch.tensor, np.array):
            assert rarest_labels(of(row) for row in rows).tolist() == [0, 0, 2, 2]

    @pytest.mark.parametrize("row", [["cat", "dog"], ["1"], "cat", [1.5], [None], torch.tensor([0.5]), 3], ids=str)
    def test_classes_that_are_no_integers(self, row: Any) -> None:
        with pytest.raises(ValueError, match="expected integers, the classes of the objects of an image") as error:
            rarest_labels([[0], row])
        assert f"got {row!r}; number the classes" in str(error.value)


class NotEveryThird:
    reads = ("annotation_id",)

    def accept(self, columns: dict[str, Any]) -> Any:
        return columns["annotation_id"] % 3 != 0


class TestCrops:
    @pytest.fixture
    def bank(self, tmp_path: Path) -> MemmapBank:
        return small_bank(tmp_path / "bank", np.random.default_rng(0).permutation(LABELS).tolist())

    @pytest.mark.parametrize("num_workers", [0, 2])
    def test_each_step_holds_n_classes(self, bank: MemmapBank, num_workers: int) -> None:
        sampler = ExhaustiveNxMSampler(bank, 4, 2)
        loader = create_bank_dataloader(
            bank, batch_size=4, crops_per_target=2, sampler=sampler, num_workers=num_workers
        )
        for epoch in range(2):
            loader.set_epoch(epoch)
            steps = list(loader)
            assert len(steps) == len(loader) == len(sampler.epoch_batches())
            by_class = sampler.epoch_batches().reshape(-1, 4, 2).transpose(0, 2, 1)
            assert [step.crop_idx.ravel().tolist() for step in steps] == by_class.reshape(-1, 8).tolist()
            assert all(len(set(row)) == 2 for step in steps for row in step.class_ids.tolist())
            assert all(sorted(Counter(step.class_ids.ravel().tolist()).values()) == [2] * 4 for step in steps)
        assert loader.report() == sampler.report()

    @pytest.mark.parametrize("max_tries", [100, 8])
    @pytest.mark.parametrize("num_workers", [0, 2])
    def test_a_predicate_repeats_a_crop_only_where_it_must(
        self, bank: MemmapBank, num_workers: int, max_tries: int
    ) -> None:
        class_ids = bank.crop_class_ids()
        accepted = {c: {i for i in range(len(bank)) if class_ids[i] == c and (1000 + i) % 3 != 0} for c in range(4)}
        assert [len(accepted[c]) for c in range(4)] == [22, 3, 3, 4]
        loader = create_bank_dataloader(
            bank,
            batch_size=4,
            crops_per_target=4,
            sampler=RandomNxMSampler(bank, 4, 4, base_seed=1),
            predicate=NotEveryThird(),
            max_tries=max_tries,
            num_workers=num_workers,
        )
        for epoch in range(2 if num_workers else 30):  # processes take as long to start as many epochs
            loader.set_epoch(epoch)
            for step in loader:
                crops = step.crop_idx.ravel()
                for c in range(4):
                    group = crops[class_ids[crops] == c].tolist()
                    assert len(group) == 4
                    assert set(group) <= accepted[c]
                    if max_tries >= 30:
                        assert len(set(group)) == min(4, len(accepted[c]))

    def test_they_are_pasted(self, bank: MemmapBank) -> None:
        images = Images(LABELS)
        targets = EpochDataLoader(images, batch_size=4, max_instances=8)
        crops = create_bank_dataloader(
            bank, batch_size=4, crops_per_target=2, sampler=RandomNxMSampler(bank, 4, 2, drop_last=False)
        )
        config = BatchCopyPasteConfig(
            placement={"paste_prob": 1.0}, source=SourceConfig(kind="bank", crops_per_target=2)
        )
        out, report = paste(next(iter(targets)), config, staged=next(iter(crops)))
        assert int(report.num_placed.sum()) > 3
        assert len(set(out.labels[:, 1:][out.instance_valid[:, 1:]].tolist())) > 2

    def test_going_on(self, bank: MemmapBank) -> None:
        arguments: dict[str, Any] = {"batch_size": 2, "crops_per_target": 2}
        whole = [s.crop_idx.tolist() for s in create_bank_dataloader(bank, sampler=of(bank), **arguments)]
        started = create_bank_dataloader(bank, sampler=of(bank), num_workers=2, **arguments)
        iterator = iter(started)
        next(iterator)
        state = started.state_dict()
        other = create_bank_dataloader(bank, sampler=of(bank), **arguments)
        other.load_state_dict(state)
        assert [s.crop_idx.tolist() for s in other] == whole[1:]
        with pytest.raises(ValueError, match="ExhaustiveNxMSampler: expected a state that its own state_dict"):
            other.load_state_dict({"epoch": 0, "num_drawn": 4})
        with pytest.raises(
            ValueError, match="batch_size is 2 in the state and 1 here; crops_per_target is 2 in the state and 4 here"
        ):
            create_bank_dataloader(bank, sampler=of(bank), batch_size=1, crops_per_target=4).load_state_dict(state)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"batch_size": 3}, r"expected N \* M = batch_size \* crops_per_target = 3, got 4"),
            ({"batch_size": 4, "steps": 3}, "expected no other draw options with `sampler`"),
            ({"batch_size": 4, "mode": "class_uniform"}, "expected no other draw options with `sampler`"),
            ({"batch_size": 4, "threshold": 0.5}, "expected no other draw options with `sampler`"),
            ({"batch_size": 4, "replicas": "disjoint"}, "expected no other draw options with `sampler`"),
            ({"batch_size": 4, "base_seed": 3}, "expected no other draw options with `sampler`"),
            (
                {"batch_size": 4, "rank": 1, "num_replicas": 2},
                "expected rank 1 of 2, as the loader has, got the rank of torch.distributed",
            ),
            ({"batch_size": 4, "rank": 1}, "create_bank_dataloader: expected both rank and num_replicas or neither"),
        ],
    )
    def test_refused(self, bank: MemmapBank, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            create_bank_dataloader(bank, sampler=of(bank), **options)

    def test_a_sampler_of_this_rank(self, bank: MemmapBank) -> None:
        sampler = ExhaustiveNxMSampler(bank, 2, 2, rank=1, num_replicas=2)
        loader = create_bank_dataloader(bank, batch_size=4, sampler=sampler, rank=1, num_replicas=2)
        of_one = [
            step.crop_idx.ravel().tolist() for step in create_bank_dataloader(bank, batch_size=4, sampler=of(bank))
        ]
        assert [step.crop_idx.ravel().tolist() for step in loader] == of_one[1::2]
        alone = create_bank_dataloader(bank, batch_size=4, sampler=sampler)  # takes the sampler's rank
        with pytest.warns(UserWarning, match="ExhaustiveNxMSampler: epoch 0 is read again"):
            assert [step.crop_idx.ravel().tolist() for step in alone] == of_one[1::2]
        with pytest.raises(ValueError, match="expected rank 0 of 2, as the loader has, got rank 1 of 2"):
            create_bank_dataloader(bank, batch_size=4, sampler=sampler, rank=0, num_replicas=2)

    def test_a_sampler_of_something_else(self, bank: MemmapBank) -> None:
        with pytest.raises(ValueError, match="expected a sampler of the bank's 48 crops, got one of 5 samples"):
            create_bank_dataloader(bank, batch_size=4, sampler=ExhaustiveNxMSampler([0, 1, 2, 3, 3], 2, 2))

    def test_a_place_loaded_into_the_sampler_is_the_loaders(self, bank: MemmapBank) -> None:
        """It is loaded before or after the loader is made, since they share it."""
        arguments: dict[str, Any] = {"batch_size": 2, "crops_per_target": 2}
        whole = [s.crop_idx.tolist() for s in create_bank_dataloader(bank, sampler=of(bank), **arguments)]
        sampler = of(bank)
        sampler.load_state_dict(of(bank).state_dict(num_drawn=4))
        loader = create_bank_dataloader(bank, sampler=sampler, **arguments)
        for _ in range(2):
            assert loader.state_dict()["num_drawn"] == 4
            assert [s.crop_idx.tolist() for s in loader] == whole[1:]
            sampler.load_state_dict(of(bank).state_dict(num_drawn=4))


def of(bank: MemmapBank) -> ExhaustiveNxMSampler:
    return ExhaustiveNxMSampler(bank, 2, 2)
