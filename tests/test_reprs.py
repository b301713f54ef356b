"""Short texts of containers, datasets, loaders, samplers, banks, presets and the module."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Subset

from cutout_files import write_cutouts
from samples import make_batch, make_sample, make_samples
from segpaste._reprs import described
from segpaste.augmentation import (
    BankSource,
    BatchCopyPaste,
    BatchCopyPasteConfig,
    IntraBatchSource,
    PlacementConfig,
    SourceConfig,
)
from segpaste.bank import BankSampler, DatasetBank, create_bank_dataloader
from segpaste.datasets import CutOuts, JoinedPhotos, create_coco_dataloader
from segpaste.datasets.scenes import SceneConfig, SceneDataset
from segpaste.presets import get_preset, list_presets
from segpaste.samplers import ExhaustiveNxMSampler, RandomNxMSampler
from segpaste.types import BatchedDenseSample

SCENES = SceneDataset(6, SceneConfig(height=48, width=48), seed=3)
LABELS = [0] * 9 + [1] * 7 + [2] * 3


def loader(**options: Any) -> Any:
    return create_coco_dataloader(dataset=SCENES, batch_size=2, size=48, **options)


def bank() -> DatasetBank:
    return DatasetBank(SCENES, crop_size=(16, 16))


TEXTS: dict[str, tuple[Callable[[], Any], str]] = {
    "sample": (
        lambda: make_sample((48, 64), 2, modalities={"instance"}),
        r"DenseSample\(image uint8 \[3, 48, 64\], boxes float32 \[2, 4\], labels int64 \[2\], .*"
        r"instance_masks bool \[2, 48, 64\]\)",
    ),
    "metric sample": (lambda: SCENES[0], r"DenseSample\(.*metric_depth=True.*\)"),
    "ragged batch": (
        lambda: BatchedDenseSample.from_samples(make_samples(3, size=(9, 7), modalities={"instance"})),
        r"BatchedDenseSample\(images uint8 \[3, 3, 9, 7\], boxes 3 tensors \[\d+ in all, 4\], .*\)",
    ),
    "empty batch": (lambda: make_batch(0), r"PaddedBatchedDenseSample\(images uint8 \[0, .*\)"),
    "batch": (
        lambda: make_batch(2, size=(9, 7), max_instances=5, modalities={"instance"}),
        r"PaddedBatchedDenseSample\(images uint8 \[2, 3, 9, 7\], boxes float32 \[2, 5, 4\], .*\)",
    ),
    "meta": (lambda: make_batch(2).to("meta"), r"PaddedBatchedDenseSample\(images uint8 \[2, .*\] meta, .*\)"),
    "source": (lambda: IntraBatchSource("same_image"), r"IntraBatchSource\(same_image\)"),
    "bank source": (
        lambda: BankSource(SourceConfig(kind="bank", crops_per_target=3)),
        r"BankSource\(kind=bank, crops_per_target=3\)",
    ),
    "scenes": (lambda: SCENES, r"SceneDataset\(6 scenes, 48 x 48, seed 3\)"),
    "joined": (lambda: JoinedPhotos([SCENES, SCENES]), r"JoinedPhotos\(SceneDataset 1 \+ .*, 12 images, \d+ classes\)"),
    "loader": (
        lambda: loader(num_workers=2, base_seed=7),
        r"EpochDataLoader\(3 batches of 2, SceneDataset\(.*\), 2 workers, epoch 0\)",
    ),
    "augmented loader": (
        lambda: BatchCopyPaste.from_dataloader(loader(), 9),
        r"AugmentedLoader\(3 batches, EpochDataLoader\(.*\)\)",
    ),
    "sampler": (
        lambda: RandomNxMSampler(LABELS, 2, 3, base_seed=4, rank=1, num_replicas=2, shuffle=False),
        r"RandomNxMSampler\(2 classes x 3 samples, \d+ batch(es)?, of 19 samples of 3 classes, shuffle=False, epoch 0, "
        r"seed 4, rank 1 of 2\)",
    ),
    "batches": (
        lambda: ExhaustiveNxMSampler(LABELS, 2, 3).batch_sampler(),
        r"NxMBatches\(ExhaustiveNxMSampler\(2 classes x 3 samples, .*\)\)",
    ),
    "bank sampler": (
        lambda: BankSampler(bank(), 40, mode="tempered"),
        r"BankSampler\(40 draws, of \d+ crops of \d+ classes, mode=tempered, temperature=0.5, epoch 0\)",
    ),
    "bank loader": (
        lambda: create_bank_dataloader(bank(), batch_size=2, crops_per_target=3),
        r"BankDataLoader\(\d+ batch(es)? of \d+, DatasetBank\(.*\), epoch 0\)",
    ),
    "crop": (
        lambda: bank()[0],
        r"Crop\(image uint8 \[3, 16, 16\], alpha bool \[1, 16, 16\], class_id=\d+, content_box int32 \[4\], .*\)",
    ),
    "preset": (lambda: get_preset("documents"), r"Preset\(documents, .*\)"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_it_says_shapes_counts_and_options(name: str) -> None:
    made, pattern = TEXTS[name]
    value = made()
    text = repr(value)
    assert re.fullmatch(pattern, text), text
    assert len(text) < 900
    assert "tensor(" not in text
    assert "array(" not in text


def test_the_module_says_the_keys_that_differ() -> None:
    config = BatchCopyPasteConfig(min_area_px=9, placement=PlacementConfig(layers=3))
    text = repr(BatchCopyPaste(config, inplace=True))
    assert "min_area_px=9, placement.layers=3" in text
    assert "inplace=True" in text
    assert "scale_range" not in text
    assert "min_area_px" not in repr(BatchCopyPaste())


def test_every_preset() -> None:
    for name in list_presets():
        preset = get_preset(name)
        text = repr(preset)
        assert text.startswith(f"Preset({name}, {preset.summary}, ")
        assert len(text) < 700


class TestNeverFails:
    @pytest.mark.parametrize("name", TEXTS)
    def test_an_object_that_is_not_finished(self, name: str) -> None:
        """As a debugger shows it in a constructor that raises."""
        kind: Any = type(TEXTS[name][0]())
        if name == "preset":
            kind.model_construct().__repr__()
            return
        assert repr(object.__new__(kind)).startswith(f"{kind.__name__}(")

    def test_a_dataset_of_files(self, tmp_path: Path) -> None:
        """A copy in a worker has read no file; its text reads none either."""
        photos = CutOuts(write_cutouts(tmp_path / "cutouts"))
        assert repr(photos) == f"CutOuts({tmp_path / 'cutouts'}, 6 images, 2 classes, masks)"
        again = pickle.loads(pickle.dumps(photos))
        assert repr(again) == f"CutOuts({tmp_path / 'cutouts'}, 2 classes, masks)"
        assert "_records" not in again.__dict__

    def test_a_dataset_of_somebody_else(self) -> None:
        """Its text may be long, or read a device."""

        class Samples(list[Any]):
            def __repr__(self) -> str:
                raise RuntimeError("CUDA error")

        samples = Samples(make_samples(4, size=(48, 48), modalities={"instance"}))
        for data, name in ((samples, "Samples"), (Subset(SCENES, [0, 1]), "Subset")):
            made: Any = create_coco_dataloader(dataset=data, batch_size=2, size=48)
            assert re.match(rf"EpochDataLoader\(\d batch(es)? of 2, {name}, epoch 0\)", repr(made))

    def test_under_a_trace(self) -> None:
        from torch._subclasses.fake_tensor import FakeTensorMode

        batch = make_batch(2, modalities={"instance"})
        with FakeTensorMode() as mode:
            batch = batch.map_tensors(mode.from_tensor)
            assert "images uint8 [2, 3," in repr(batch)

    def test_parts_that_fail_are_left_out(self) -> None:
        def fails() -> str:
            raise RuntimeError("no device")

        assert described(np.float32(1), "a", fails, None, lambda: "b") == "float32(a, b)"


def test_no_value_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a device each would wait for it."""
    batch = make_batch(2)

    def refuse(*_: Any) -> None:
        raise AssertionError("a value was read")

    for name in ("item", "tolist", "numpy", "__bool__", "__int__", "cpu"):
        monkeypatch.setattr(torch.Tensor, name, refuse)
    assert repr(batch).startswith("PaddedBatchedDenseSample(")
