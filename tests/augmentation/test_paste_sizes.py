"""The warning about pastes that are much larger or smaller than the objects of their classes in the batches."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kept_scenes import KeptScenes
from segpaste import BatchCopyPaste, BatchCopyPasteConfig, create_bank_dataloader, open_bank
from segpaste.augmentation import SourceConfig
from segpaste.augmentation.loading import AugmentedLoader
from segpaste.augmentation.warned import ENOUGH, MOST_BATCHES, PasteSizes
from segpaste.bank import DatasetBank, build_bank, stage_bank_batch
from segpaste.datasets import EpochDataLoader
from segpaste.datasets.jitter import make_large_scale_jittering
from segpaste.datasets.scenes import SceneConfig
from segpaste.types import DenseSample, PaddedBatchedDenseSample, StagedCrops

SCENES = KeptScenes(12, SceneConfig(height=120, width=160), seed=1)
SMALL = (30, 40)


def config(source: dict[str, Any] | None = None, **placement: Any) -> BatchCopyPasteConfig:
    return BatchCopyPasteConfig(
        source=SourceConfig(**{"kind": "bank", "crops_per_target": 8, **(source or {})}),
        panoptic={"taxonomy": SCENES.schema},  # type: ignore[arg-type]
        placement={"paste_prob": 1.0, **placement},  # type: ignore[arg-type]
    )


def loader(size: tuple[int, int] = SMALL, scale: float = 1.0, **options: Any) -> EpochDataLoader:
    jitter = make_large_scale_jittering(size, scale_range=(scale, scale))
    return EpochDataLoader(SCENES, batch_size=12, max_instances=32, base_seed=1, jitter=jitter, **options)


def batch(size: tuple[int, int] = SMALL, scale: float = 1.0) -> PaddedBatchedDenseSample:
    return next(iter(loader(size, scale)))


def crops(pool: Any, num: int = 12) -> StagedCrops:
    return stage_bank_batch(pool, np.arange(num * 8).reshape(num, 8) % len(pool))


def said(pool: Any, target: PaddedBatchedDenseSample, given: BatchCopyPasteConfig | None = None) -> str | None:
    sizes = PasteSizes(given or config())
    found = sizes.message(crops(pool), target)
    assert sizes.is_done
    return found


class Squares:
    """Images of 64 x 64 with squares; the label is given with the side."""

    class_names = ("small", "large")

    def __init__(self, *images: list[tuple[int, int]]) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> DenseSample:
        masks = torch.zeros(len(self.images[index]), 64, 64, dtype=torch.bool)
        for mask, (_, side) in zip(masks, self.images[index], strict=True):
            mask[1 : 1 + side, 1 : 1 + side] = True
        labels = torch.tensor([label for label, _ in self.images[index]], dtype=torch.int64)
        return DenseSample.from_masks(torch.zeros(3, 64, 64, dtype=torch.uint8), masks, labels)

    def padded(self, index: int, times: int = 1) -> PaddedBatchedDenseSample:
        from segpaste.types import BatchedDenseSample

        return BatchedDenseSample.from_samples([self[index]] * times).to_padded(4)


class TestMessage:
    def test_of_larger_pastes(self) -> None:
        found = said(DatasetBank(SCENES), batch())
        assert found is not None
        head, _, remedy = found.partition(" times as large as the batch's objects of their classes; ")
        times = float(head.removeprefix("BatchCopyPaste: pastes are "))
        assert 3 < times < 5
        middle = float(remedy.partition(" with a middle of ")[2].partition(";")[0])
        assert middle * times == pytest.approx(math.sqrt(math.prod(config().placement.scale_range)), rel=0.05)
        assert remedy.endswith("; or, if a loader resizes images, fit_into=(30, 40) of DatasetBank or build_bank")
        fitting = config(scale_range=(middle, middle))
        assert PasteSizes(fitting).message(crops(DatasetBank(SCENES)), batch()) is None

    def test_of_smaller_pastes(self) -> None:
        """Images that are enlarged by the loader; ``fit_into`` is no remedy, since it never enlarges."""
        found = said(DatasetBank(SCENES), batch((480, 640)))
        assert found is not None
        head, _, remedy = found.partition(" times as large as the batch's objects of their classes; ")
        assert 0.15 < float(head.removeprefix("BatchCopyPaste: pastes are ")) < 0.35
        assert remedy.startswith("set placement.size_range, or scale_range with a middle of ")
        assert "fit_into" not in remedy

    def test_sizes_that_fit(self) -> None:
        assert said(DatasetBank(SCENES, fit_into=SMALL), batch()) is None
        assert said(DatasetBank(SCENES), batch((120, 160))) is None
        cut = batch(SMALL, scale=4.0)  # to size, not resized: fewer objects, of the size that they have in their image
        assert PasteSizes(config()).message(crops(DatasetBank(SCENES)), cut) is None

    @pytest.mark.parametrize(
        ("placement", "warns"),
        [
            ({"scale_range": (0.1, 0.6)}, False),
            ({"scale_range": (0.8, 1.25)}, True),
            ({"grouping": "instance", "size_range": {"low": 4, "high": 12}}, False),
            ({"grouping": "instance", "class_sizes": {1: {"low": 4, "high": 12}}}, False),
        ],
    )
    def test_options_that_set_the_size(self, placement: dict[str, Any], warns: bool) -> None:
        assert (said(DatasetBank(SCENES), batch(), config(**placement)) is not None) == warns

    def test_relative_to_the_photo(self) -> None:
        """Crops that were shrunk to fit are as large as in their image; with ``fit_into``, in the shrunk image."""
        given = config({"relative_to": "photo"})
        assert said(DatasetBank(SCENES, crop_size=(8, 8)), batch((120, 160)), given) is None
        assert said(DatasetBank(SCENES, crop_size=(8, 8)), batch((120, 160))) is not None
        assert said(DatasetBank(SCENES, fit_into=SMALL), batch(), given) is None
        assert said(DatasetBank(SCENES), batch(), given) is not None

    def test_a_rare_class_of_larger_objects_is_no_mistake(self) -> None:
        """Images cut to size, and classes drawn evenly: 15 of 16 objects are small, half of the pastes are large."""
        photos = Squares([(0, 6)] * 3 + [(1, 40)], *[[(0, 6)] * 4] * 15)
        bank = DatasetBank(photos)
        sizes = PasteSizes(BatchCopyPasteConfig(source=SourceConfig(kind="bank", crops_per_target=2)))
        both = stage_bank_batch(bank, [[0, 3]] * 16)
        target = photos.padded(1, times=16)
        assert sizes.message(both, target) is None
        assert not sizes.is_done, "only 16 pastes are of a class of the batch"
        assert sizes.message(both, target) is None
        assert sizes.is_done


class TestWhenItIsKnown:
    SOURCE = BatchCopyPasteConfig(source=SourceConfig(kind="bank", crops_per_target=4))

    def test_batches_without_objects_decide_nothing(self) -> None:
        photos = Squares([(0, 20)] * 4, [(0, 5)] * 4, [])
        bank, sizes = DatasetBank(photos), PasteSizes(self.SOURCE)
        staged = stage_bank_batch(bank, [[0, 1, 2, 3]] * 4)
        for _ in range(3):
            assert sizes.message(staged, photos.padded(2, times=4)) is None
        assert sizes.message(staged, photos.padded(1, times=4)) is None, "16 objects are not enough"
        assert sizes.message(staged, photos.padded(1, times=4)) is not None
        assert ENOUGH == 32
        assert sizes.is_done
        assert sizes.message(staged, photos.padded(1, times=4)) is None, "once"

    def test_it_ends(self) -> None:
        photos = Squares([(0, 20)], [(1, 5)])
        bank, sizes = DatasetBank(photos), PasteSizes(self.SOURCE)
        for _ in range(MOST_BATCHES):
            assert not sizes.is_done
            assert sizes.message(stage_bank_batch(bank, [[0]]), photos.padded(1)) is None
        assert sizes.is_done

    @pytest.mark.parametrize("shape", [(0, 4), (3, 0)])
    def test_no_crops(self, shape: tuple[int, int]) -> None:
        photos = Squares([(0, 20)] * 4)
        staged = stage_bank_batch(DatasetBank(photos), np.zeros(shape, np.int64))
        assert PasteSizes(self.SOURCE).message(staged, photos.padded(0, times=3)) is None

    def test_other_sources_are_not_compared(self) -> None:
        assert PasteSizes(BatchCopyPasteConfig()).is_done
        patches = {"pad_to_multiple": 4, "patch_aligned_paste": True}
        assert PasteSizes(config(**patches)).is_done
        assert not PasteSizes(config(**patches, align="instance", grouping="instance")).is_done


class TestOnce:
    MATCH = r"BatchCopyPaste: pastes are [345]\.\d times as large"

    def test_of_a_module_with_a_pool(self) -> None:
        augment, target = BatchCopyPaste(config(), source_pool=DatasetBank(SCENES)), batch()
        with pytest.warns(UserWarning, match=self.MATCH) as found:
            augment(target)
        assert [record.filename for record in found] == [__file__]
        with warnings.catch_warnings(action="error"):
            augment(target)

    def test_of_staged_crops(self) -> None:
        with pytest.warns(UserWarning, match=self.MATCH):
            BatchCopyPaste(config())(batch(), staged=crops(DatasetBank(SCENES)))

    @pytest.mark.parametrize("of_crops", [False, True])
    def test_of_a_loader(self, of_crops: bool) -> None:
        pool: Any = SCENES
        if of_crops:
            pool = create_bank_dataloader(DatasetBank(SCENES), batch_size=12, crops_per_target=8, steps=1)
        batches = BatchCopyPaste.from_dataloader(loader(), 32, config(), source_pool=pool)
        with pytest.warns(UserWarning, match=self.MATCH):
            list(batches)
        with warnings.catch_warnings(action="error"):
            list(batches)

    def test_of_a_loader_that_moves_its_batches(self) -> None:
        """It compares before it moves them, since the augmentation reads nothing on a device."""

        class OnMeta(torch.nn.Module):
            config = config()

            def forward(self, target: PaddedBatchedDenseSample, staged: StagedCrops) -> PaddedBatchedDenseSample:
                assert target.device.type == staged.device.type == "meta"
                assert PasteSizes(self.config).message(staged, target) is None
                return target

        from segpaste.augmentation.sources.crop_pool import CropPool

        batches = AugmentedLoader(loader(), OnMeta(), 32, "meta", CropPool(SCENES, 8))
        with pytest.warns(UserWarning, match=self.MATCH):
            assert len(list(batches)) == 1

    @pytest.mark.filterwarnings("error")
    def test_not_of_a_pool_of_the_same_size(self) -> None:
        pool = DatasetBank(SCENES, fit_into=SMALL)
        BatchCopyPaste(config(), source_pool=pool)(batch())
        assert len(list(BatchCopyPaste.from_dataloader(loader(), 32, config(), source_pool=pool))) == 1


@pytest.mark.parametrize("relative_to", ["crop", "photo"])
def test_pastes_have_the_size_of_the_other_objects(relative_to: str, tmp_path: Path) -> None:
    """Of a dataset pool and of a bank on disk."""
    build_bank(SCENES, tmp_path / "bank", class_names=SCENES.class_names, fit_into=SMALL)
    given = config({"relative_to": relative_to}, scale_range=(1.0, 1.0), scale_to_fit=False)
    target = batch()
    for pool in (DatasetBank(SCENES, fit_into=SMALL), open_bank(tmp_path / "bank")):
        assert said(pool, target, given) is None
        out, report = BatchCopyPaste(given)(target, staged=crops(pool), return_report=True)
        pasted = out.boxes[(report.slot_layer >= 0) & out.instance_valid]
        own = target.boxes[target.instance_valid]
        sides = [(boxes[:, 2:] - boxes[:, :2]).amax(1).median() for boxes in (pasted, own)]
        assert 0.5 < float(sides[0] / sides[1]) < 1.5
