"""The picture of the first batch is written once, by one process, and never at the cost of the training."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import distributed
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.data import DataLoader, Dataset
from torchvision import tv_tensors

from fork_server import fork_server
from samples import EVERY_IMAGE, make_batch, make_samples
from segpaste import BatchCopyPaste, viz
from segpaste.integrations._training import FirstBatch
from segpaste.integrations.huggingface import CopyPasteCollator, to_mask_labels
from segpaste.types import BatchedDenseSample, DenseSample, PaddedBatchedDenseSample

NORMALISED = {"mean": [0.5] * 3, "std": [0.5] * 3}


def pixels(path: Path) -> Any:
    with Image.open(path) as picture:
        return np.asarray(picture)


def unchanged(batch: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
    return batch


def batch_of(samples: list[DenseSample]) -> PaddedBatchedDenseSample:
    return BatchedDenseSample.from_samples(samples).to_padded(4)


class SlowStart(Dataset[DenseSample]):
    """Samples of which the first comes after all others of the first epoch's workers."""

    def __init__(self, samples: list[DenseSample]) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> DenseSample:
        if index == 0:
            time.sleep(1.5)
        return self.samples[index]


class TestFirstBatch:
    def test_the_first_is_saved_and_others_are_not(self, tmp_path: Path) -> None:
        path, first = tmp_path / "new" / "batch.png", FirstBatch()
        first.draw(make_batch(2, seed=1), path, class_names={1: "one"})
        first.draw(make_batch(2, seed=2), path)
        assert np.array_equal(pixels(path), viz.show(make_batch(2, seed=1), class_names={1: "one"}))
        path.unlink()
        first.draw(make_batch(2, seed=3), path)
        assert not path.exists()

    def test_without_a_path_nothing_is_drawn(self) -> None:
        first = FirstBatch()
        first.draw("nothing that can be drawn", None)
        assert not first._saved

    @pytest.mark.parametrize("cause", ["batch", "folder"])
    def test_an_error_is_one_warning(self, tmp_path: Path, cause: str) -> None:
        (tmp_path / "file").touch()
        batch, name = ("no batch", "batch.png") if cause == "batch" else (make_batch(1), "file/batch.png")
        first = FirstBatch()
        with pytest.warns(
            UserWarning, match=rf"{name}: the picture of the first batch could not be saved; training continues"
        ):
            first.draw(batch, tmp_path / name)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            first.draw(batch, tmp_path / name)

    @pytest.mark.parametrize("rank", ["0", "1"])
    def test_of_processes_of_a_launcher_the_first_saves(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: str
    ) -> None:
        monkeypatch.setenv("RANK", rank)
        monkeypatch.setenv("WORLD_SIZE", "2")
        FirstBatch().draw(make_batch(1), tmp_path / "batch.png")
        assert (tmp_path / "batch.png").exists() == (rank == "0")

    @pytest.mark.parametrize("rank", [0, 1])
    def test_of_a_process_group_the_first_saves(self, tmp_path: Path, rank: int) -> None:
        distributed.init_process_group("fake", rank=rank, world_size=2, store=FakeStore())
        try:
            FirstBatch().draw(make_batch(1), tmp_path / "batch.png")
        finally:
            distributed.destroy_process_group()
        assert (tmp_path / "batch.png").exists() == (rank == 0)


class TestCollator:
    @pytest.mark.parametrize(("num_workers", "context"), [(0, None), (2, "fork"), (2, "forkserver")])
    def test_one_picture_whatever_the_workers_and_epochs(
        self, tmp_path: Path, num_workers: int, context: str | None
    ) -> None:
        if context == "forkserver":
            fork_server()
        path = tmp_path / "batch.png"
        collator = CopyPasteCollator(
            unchanged, 4, partial(to_mask_labels, **NORMALISED), first_batch=path, class_names=["zero", "one"]
        )
        samples = make_samples(8)
        loader = DataLoader(
            SlowStart(samples),
            2,
            collate_fn=collator,
            num_workers=num_workers,
            multiprocessing_context=context,  # type: ignore[arg-type]
        )
        list(loader)
        expected = viz.show(batch_of(samples[:2]), class_names=["zero", "one"])
        assert np.array_equal(pixels(path), expected)
        path.unlink()
        list(loader)
        assert not path.exists()

    def test_the_batches_stay_the_same(self, tmp_path: Path) -> None:
        convert, samples = partial(to_mask_labels, **NORMALISED), make_samples(4)
        found = []
        for path in (None, tmp_path / "batch.jpg"):
            torch.manual_seed(0)
            collator = CopyPasteCollator(BatchCopyPaste(EVERY_IMAGE), 8, convert, first_batch=path)
            found.append([collator(samples) for _ in range(2)])
        for one, other in zip(*found, strict=True):
            for name in ("mask_labels", "class_labels"):
                assert all(torch.equal(a, b) for a, b in zip(one[name], other[name], strict=True))
            assert torch.equal(one["pixel_values"], other["pixel_values"])
        assert (tmp_path / "batch.jpg").exists()

    @pytest.mark.parametrize("white", [1.0, 255.0])
    def test_float_images_have_the_scale_of_the_conversion(self, tmp_path: Path, white: float) -> None:
        samples = make_samples(2, image_dtype=torch.float32)
        scaled = [replace(sample, image=tv_tensors.Image(sample.image * white)) for sample in samples]
        options = {} if white == 255 else {"scale": white}
        convert = partial(to_mask_labels, **NORMALISED, **options)
        CopyPasteCollator(unchanged, 4, convert, first_batch=tmp_path / "batch.png")(scaled)
        assert np.abs(pixels(tmp_path / "batch.png").astype(int) - np.asarray(viz.show(samples))).max() <= 1
