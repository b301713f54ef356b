"""The warning about pools whose objects are larger than those of the batch, since only its images were resized."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from segpaste import BatchCopyPaste, BatchCopyPasteConfig, create_bank_dataloader, open_bank
from segpaste.augmentation import SourceConfig
from segpaste.augmentation.sources.pool_sizes import oversized_warning
from segpaste.bank import DatasetBank, Layout, build_bank
from segpaste.datasets import EpochDataLoader
from segpaste.datasets.jitter import make_large_scale_jittering
from segpaste.datasets.scenes import SceneConfig, SceneDataset
from segpaste.types import PaddedBatchedDenseSample

SCENES = SceneDataset(4, SceneConfig(height=120, width=160), seed=1)
SMALL = (30, 40)


def config(**placement: Any) -> BatchCopyPasteConfig:
    return BatchCopyPasteConfig(
        source=SourceConfig(kind="bank", crops_per_target=8),
        panoptic={"taxonomy": SCENES.schema},  # type: ignore[arg-type]
        placement={"paste_prob": 1.0, **placement},  # type: ignore[arg-type]
    )


def loader(size: tuple[int, int] = SMALL) -> EpochDataLoader:
    jitter = make_large_scale_jittering(size, scale_range=(1, 1))
    return EpochDataLoader(SCENES, batch_size=4, max_instances=32, base_seed=1, jitter=jitter)


def batch(size: tuple[int, int] = SMALL) -> PaddedBatchedDenseSample:
    return next(iter(loader(size)))


def said(pool: Any, target: PaddedBatchedDenseSample, given: BatchCopyPasteConfig | None = None) -> str | None:
    drawn = torch.arange(24).view(4, 6)
    return oversized_warning(pool, drawn, target, given or config())


class TestMessage:
    def test_it_names_ratio_size_and_remedy(self) -> None:
        expected = (
            "source_pool: pastes are 4.0 times as large as their objects are in an image resized to 30 x 40; shrink "
            "images before objects are cut out of them, with fit_into=(30, 40) of DatasetBank or build_bank, or set "
            "placement.scale_range or size_range"
        )
        assert said(DatasetBank(SCENES), batch()) == expected

    def test_sizes_that_fit(self) -> None:
        assert said(DatasetBank(SCENES, fit_into=SMALL), batch()) is None
        assert said(DatasetBank(SCENES), batch((120, 160))) is None
        assert said(DatasetBank(SCENES, crop_size=(8, 8)), batch()) is None, "crops were shrunk to fit"

    def test_a_loader_that_cuts_its_images_to_size(self) -> None:
        """Objects of the batch are as large as those of the pool, though its images are smaller."""
        cut = make_large_scale_jittering(SMALL, scale_range=(4, 4))
        found = next(iter(EpochDataLoader(SCENES, batch_size=4, max_instances=32, base_seed=1, jitter=cut)))
        assert said(DatasetBank(SCENES), found) is None

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
        given = config()
        given = given.model_copy(update={"source": SourceConfig(kind="bank", crops_per_target=8, relative_to="photo")})
        assert said(DatasetBank(SCENES, fit_into=SMALL), batch(), given) is not None
        assert said(DatasetBank(SCENES, fit_into=SMALL), batch((120, 160)), given) is None

    def test_nothing_to_compare(self) -> None:
        bank, target = DatasetBank(SCENES), batch()
        empty = target.derived(instance_valid=torch.zeros_like(target.instance_valid))
        assert said(bank, empty) is None
        bank.layout = Layout(bank.crop_size)
        assert said(bank, target) is None


class TestOnce:
    def test_of_a_loader(self) -> None:
        batches = BatchCopyPaste.from_dataloader(loader(), 32, config(), source_pool=SCENES)
        with pytest.warns(UserWarning, match=r"source_pool: pastes are 4\.0 times") as found:
            next(iter(batches))
        assert [record.filename for record in found] == [__file__]
        with warnings.catch_warnings(action="error"):
            list(batches)

    def test_of_a_module(self) -> None:
        augment, target = BatchCopyPaste(config(), source_pool=DatasetBank(SCENES)), batch()
        with pytest.warns(UserWarning, match=r"source_pool: pastes are 4\.0 times") as found:
            augment(target)
        assert [record.filename for record in found] == [__file__]
        with warnings.catch_warnings(action="error"):
            augment(target)

    @pytest.mark.filterwarnings("error")
    def test_not_of_a_pool_of_the_same_size(self) -> None:
        pool = DatasetBank(SCENES, fit_into=SMALL)
        BatchCopyPaste(config(), source_pool=pool)(batch())
        assert len(list(BatchCopyPaste.from_dataloader(loader(), 32, config(), source_pool=pool))) == 1

    def test_of_a_loader_of_crops(self) -> None:
        crops = create_bank_dataloader(DatasetBank(SCENES), batch_size=4, crops_per_target=8, steps=1)
        with pytest.warns(UserWarning, match=r"source_pool: pastes are 4\.0 times"):
            list(BatchCopyPaste.from_dataloader(loader(), 32, config(), source_pool=crops))


def test_pasted_objects_have_the_size_of_the_others(tmp_path: Path) -> None:
    """The median side of pastes is that of the batch's objects, for a dataset pool and for a bank on disk."""

    class Listed:
        """Scenes with the methods that a build asks for."""

        def __len__(self) -> int:
            return len(SCENES)

        def __getitem__(self, index: int) -> Any:
            return SCENES[index]

        def image_id(self, index: int) -> int:
            return index

        def annotation_ids(self, index: int) -> range:
            return range(1, 100)

        def left_out(self, index: int) -> dict[str, int]:
            return {}

    build_bank(Listed(), tmp_path / "bank", class_names=SCENES.class_names, fit_into=SMALL)
    target = batch()
    sides = (target.boxes[target.instance_valid][:, 2:] - target.boxes[target.instance_valid][:, :2]).amax(1).median()
    given = config(scale_range=(1.0, 1.0), scale_to_fit=False, partial="clip", min_visible_frac=0.0)
    ratios = []
    for pool in (DatasetBank(SCENES, fit_into=SMALL), open_bank(tmp_path / "bank"), DatasetBank(SCENES)):
        augment = BatchCopyPaste(given, source_pool=pool)
        assert augment.crops is not None
        staged = augment.crops.staged(torch.arange(64))
        boxes = staged.boxes.flatten(0, 1)
        ratios.append(float((boxes[:, 2:] - boxes[:, :2]).amax(1).float().median() / sides))
    assert 0.6 < ratios[0] < 1.6
    assert 0.6 < ratios[1] < 1.6
    assert ratios[2] > 2.5
