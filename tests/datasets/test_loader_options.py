"""Options of torch's DataLoader pass through the loaders of this package, or are refused by name."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch.utils.data import get_worker_info

from segpaste.bank import DatasetBank, create_bank_dataloader
from segpaste.datasets import create_coco_dataloader
from segpaste.datasets.scenes import SceneConfig, SceneDataset
from segpaste.epochs.reader import EpochLoader
from segpaste.samplers import RandomNxMSampler

SCENES = SceneDataset(4, SceneConfig(height=16, width=16), modalities=["image", "instance"])


@cache
def bank() -> DatasetBank:
    return DatasetBank(SCENES)


def of_targets(**options: Any) -> EpochLoader:
    return create_coco_dataloader(dataset=SCENES, **{"batch_size": 2, "size": 16, **options})


def of_crops(**options: Any) -> EpochLoader:
    return create_bank_dataloader(bank(), **{"batch_size": 2, "steps": 2, **options})


MAKERS = pytest.mark.parametrize("make", [of_targets, of_crops])
Make = Callable[..., EpochLoader]


@MAKERS
class TestOptions:
    def test_pass_through(self, make: Make, tmp_path: Any) -> None:
        def note(worker: int) -> None:
            assert get_worker_info() is not None
            (tmp_path / str(worker)).touch()

        generator = torch.Generator()
        loader = make(
            num_workers=1,
            worker_init_fn=note,
            timeout=60,
            generator=generator,
            in_order=True,
            multiprocessing_context=multiprocessing.get_context("fork"),
            prefetch_factor=3,
        )
        assert (loader.timeout, loader.generator, loader.prefetch_factor) == (60, generator, 3)
        assert loader.multiprocessing_context.get_start_method() == "fork"
        plain = list(make())
        assert all(torch.equal(a.images, b.images) for a, b in zip(loader, plain, strict=True))
        assert [path.name for path in tmp_path.iterdir()] == ["0"]

    def test_that_only_workers_have(self, make: Make) -> None:
        loader = make(timeout=60, prefetch_factor=3, persistent_workers=True, multiprocessing_context="spawn")
        assert len(list(loader)) == 2

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"in_order": False}, "'in_order', got False; batches are counted in their order"),
            ({"collate_fn": list}, "'collate_fn', .*convert those that it yields"),
            ({"batch_sampler": [[0]]}, "'batch_sampler', .*give a sampler of indices as sampler="),
            ({"wrokers": 1}, "'wrokers', got 1; options of torch's DataLoader that it takes are worker_init_fn"),
        ],
    )
    def test_refused(self, make: Make, options: dict[str, Any], message: str) -> None:
        with pytest.raises(TypeError, match=message):
            make(**options)

    @pytest.mark.parametrize(
        ("argument", "size", "message"),
        [
            ("sampler", 3, r"(batch_size=sampler\.batch_size|whose product is sampler\.batch_size)"),
            ("batches", 2, "give the (sampler|NxMSampler) itself"),
            ("batch_sampler", 2, r"sampler=sampler and batch_size=sampler\.batch_size"),
        ],
    )
    def test_batches_of_classes_say_what_to_write(self, make: Make, argument: str, size: int, message: str) -> None:
        sampler = RandomNxMSampler(bank() if make is of_crops else [0, 1, 0, 1], 2, 1)
        given = {"batches": {"sampler": sampler.batch_sampler()}}.get(argument, {argument: sampler})
        with pytest.raises((TypeError, ValueError), match=message):
            make(batch_size=size, steps=None, **given) if make is of_crops else make(batch_size=size, **given)


def test_options_of_crops_only() -> None:
    for name, why in (("shuffle", "a sampler decides the order"), ("drop_last", "every step is full")):
        with pytest.raises(TypeError, match=f"'{name}', got True; {why}"):
            of_crops(**{name: True})
