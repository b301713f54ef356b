"""The transform in torchvision's datasets and in a loader's workers: other pastes in each, repeated by a seed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset
from torchvision.datasets import CocoDetection, wrap_dataset_for_transforms_v2
from torchvision.transforms import v2

from coded_pastes import IDS, Photo, Row, coded_bank, coded_config, coded_photo, expect_true, write_photos
from segpaste import BatchCopyPasteConfig, CocoDetectionV2, DenseSample, open_bank
from segpaste.augmentation import SourceConfig
from segpaste.bank import MemmapBank, Selection, build_bank
from segpaste.experimental import CopyPaste

KEYS = ("image_id", "boxes", "labels", "masks", "iscrowd", "area")
NUM = 10


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> MemmapBank:
    return coded_bank(tmp_path_factory.mktemp("coded") / "bank")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_photos(tmp_path_factory.mktemp("photos"), NUM)


def wrapped(photos: tuple[Path, Path], transforms: Callable[..., Any] | None) -> Dataset[Any]:
    dataset: Dataset[Any] = wrap_dataset_for_transforms_v2(
        CocoDetection(*photos, transforms=transforms), target_keys=KEYS
    )
    return dataset


def expect_sample_true(photo: Photo, image: torch.Tensor, target: dict[str, Any]) -> int:
    return expect_true(
        photo,
        image.permute(1, 2, 0).numpy(),
        target["labels"].tolist(),
        target["boxes"].numpy(),
        target["masks"].numpy() != 0,
        ids=IDS,
        is_crowd=target.get("iscrowd"),
        areas=target.get("area"),
    )


def passes(photos: tuple[Path, Path], paste: CopyPaste, workers: int, context: str | None, num: int) -> list[list[Any]]:
    """Return the samples of ``num`` passes over the wrapped dataset after one seed."""
    transforms = v2.Compose([v2.ToImage(), paste])
    loader = DataLoader(
        wrapped(photos, transforms),
        batch_size=3,
        num_workers=workers,
        multiprocessing_context=context,
        collate_fn=list,
    )
    torch.manual_seed(5)
    return [[sample for batch in loader for sample in batch] for _ in range(num)]


@pytest.mark.parametrize(
    ("workers", "context"), [(0, None), (2, "fork"), pytest.param(1, "spawn", marks=pytest.mark.slow)]
)
def test_wrapped_datasets_in_workers(
    workers: int, context: str | None, bank: MemmapBank, photos: tuple[Path, Path]
) -> None:
    paste = CopyPaste(bank, coded_config(), label_map=IDS[:3])
    num = 1 if context == "spawn" else 2
    epochs = passes(photos, paste, workers, context, num)
    for epoch in epochs:
        assert len(epoch) == NUM
        num_pasted = sum(expect_sample_true(coded_photo(i), *sample) for i, sample in enumerate(epoch))
        assert num_pasted > NUM
        assert [target["image_id"] for _, target in epoch] == [100 + i for i in range(NUM)]
    again = passes(photos, paste, workers, "fork" if workers else None, num)  # however the workers are started
    for one, other in zip(epochs, again, strict=True):
        for (image, target), (image_again, target_again) in zip(one, other, strict=True):
            assert torch.equal(image, image_again)
            assert torch.equal(target["boxes"], target_again["boxes"])


class SameImage(Dataset[bytes]):
    """One image again and again; what comes out is the digest of its pixels after a paste."""

    def __init__(self, paste: CopyPaste) -> None:
        self.paste = paste
        self.sample = DenseSample.from_masks(
            torch.zeros(3, 60, 80, dtype=torch.uint8), torch.zeros(0, 60, 80).bool(), torch.zeros(0).long()
        )

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> bytes:
        return hashlib.sha256(self.paste(self.sample).image.numpy().tobytes()).digest()


@pytest.mark.parametrize("workers", [0, 2])
def test_no_two_workers_or_epochs_paste_the_same(workers: int, bank: MemmapBank) -> None:
    loader = DataLoader(SameImage(CopyPaste(bank, coded_config(3))), batch_size=None, num_workers=workers)
    torch.manual_seed(0)
    found = [digest for _ in range(2) for digest in loader]
    assert len(set(found)) == len(found) == 24
    torch.manual_seed(0)
    assert [digest for _ in range(2) for digest in loader] == found


def test_geometry_before_and_after(bank: MemmapBank, photos: tuple[Path, Path]) -> None:
    """A paste into a flipped image, flipped again, equals the paste seen from behind."""
    paste = CopyPaste(bank, coded_config(), label_map=IDS[:3])
    flip = v2.RandomHorizontalFlip(p=1.0)
    dataset = wrapped(photos, v2.Compose([v2.ToImage(), flip, paste, flip]))
    num_pasted = 0
    for i in range(NUM):
        torch.manual_seed(i)
        image, target = dataset[i]
        num_pasted += expect_sample_true(coded_photo(i), image, target)
    assert num_pasted > NUM


def test_crops_and_scales_before_and_after(bank: MemmapBank, photos: tuple[Path, Path]) -> None:
    paste = CopyPaste(bank, coded_config(), label_map=IDS[:3])
    crop = v2.RandomCrop((31, 37), pad_if_needed=True)
    before = wrapped(photos, v2.Compose([v2.ToImage(), crop]))
    dataset = wrapped(photos, v2.Compose([v2.ToImage(), crop, paste]))
    for i in range(NUM):
        torch.manual_seed(i)
        image, target = before[i]
        masks = target.get("masks", torch.zeros(0, 31, 37)).numpy() != 0
        rows = zip(target.get("labels", torch.zeros(0)).tolist(), masks, target.get("iscrowd", []), strict=True)
        rows = [Row(label, mask, bool(crowd)) for label, mask, crowd in rows]
        torch.manual_seed(i)
        expect_sample_true(Photo(image.permute(1, 2, 0).numpy(), rows), *dataset[i])
    dataset = wrapped(photos, v2.Compose([v2.ToImage(), v2.Resize((20, 29)), paste, v2.Resize((40, 58))]))
    image, target = dataset[0]
    assert image.shape == (3, 40, 58)
    assert target["masks"].shape == (len(target["labels"]), 40, 58)
    assert target["boxes"].canvas_size == (40, 58)


@pytest.fixture(scope="module")
def tiny_coco(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, MemmapBank, tuple[int, ...]]:
    folder = os.environ.get("SEGPASTE_TEST_DATA")
    if not folder:
        pytest.skip("set SEGPASTE_TEST_DATA=FOLDER to run on real photos")
    root = Path(folder) / "tiny_coco"
    photos, table = root / "val2017", root / "annotations" / "instances_val2017.json"
    dataset = CocoDetectionV2(photos, table)
    path = tmp_path_factory.mktemp("photos") / "bank"
    build_bank(dataset, path, class_names=dataset.class_names, crop_size=(64, 64), selection=Selection(min_area_px=900))
    bank = open_bank(path)
    assert isinstance(bank, MemmapBank)
    return photos, table, bank, dataset.category_ids


def test_photos_of_coco(tiny_coco: tuple[Path, Path, MemmapBank, tuple[int, ...]]) -> None:
    photos, table, bank, ids = tiny_coco
    config = BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=SourceConfig(kind="bank", crops_per_target=3))
    paste = CopyPaste(bank, config, label_map=ids)
    plain = wrapped((photos, table), v2.ToImage())
    dataset = wrapped((photos, table), v2.Compose([v2.ToImage(), paste]))
    num_pasted = 0
    torch.manual_seed(0)
    for i in range(0, 50, 4):
        (before, given), (image, target) = plain[i], dataset[i]
        num = len(target["labels"])
        assert len(target["boxes"]) == len(target["masks"]) == num
        assert set(target["labels"].tolist()) <= set(ids)
        changed = (image != before).any(0).numpy()
        num_own = 0
        for label, mask in zip(given.get("labels", []), given.get("masks", []), strict=True):
            same = [
                m for m in range(num_own, num) if target["labels"][m] == label and not (target["masks"][m] > mask).any()
            ]
            num_own += bool(same)
        pasted = target["masks"][num_own:].numpy().any(0) if num > num_own else np.zeros_like(changed)
        assert not (changed & ~pasted).any()
        own = target["masks"][:num_own].numpy().any(0) if num_own else np.zeros_like(changed)
        assert not (own & pasted).any()
        num_pasted += num - num_own
    assert num_pasted > 13
