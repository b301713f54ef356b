"""Objects that touch the border of their image: no sources by default, of every pool that is made of a dataset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from on_disk import noise, rectangle, runs
from samples import EVERY_IMAGE, EVERY_OBJECT
from segpaste import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.augmentation import SourceConfig
from segpaste.bank import DatasetBank, Selection
from segpaste.cli import main
from segpaste.types import BatchedDenseSample, DenseSample

PIXELS = {"cut": 10, "whole": 200}
"""Colour of the objects, by their place."""


class Photos:
    """Two photos of one class each: an object at the border, and one inside."""

    class_names = ("cut", "whole")

    def __init__(self, *kinds: str) -> None:
        self.kinds = kinds

    def __len__(self) -> int:
        return len(self.kinds)

    def __getitem__(self, index: int) -> DenseSample:
        kind = self.kinds[index]
        first = 0 if kind == "cut" else 4
        masks = torch.zeros(1, 24, 24, dtype=torch.bool)
        masks[:, first : first + 6, first : first + 6] = True
        image = torch.where(masks, PIXELS[kind], 100).to(torch.uint8).expand(3, 24, 24).contiguous()
        return DenseSample.from_masks(image, masks, torch.tensor([self.class_names.index(kind)]))


def test_a_bank_of_a_dataset_leaves_them_empty_where_no_other_is_of_their_class() -> None:
    cut, whole = DatasetBank(Photos("cut", "whole"), crop_size=(8, 8))
    assert not cut.alpha.any()
    assert whole.alpha.sum() == 36


@pytest.mark.parametrize("make", [lambda photos: photos, DatasetBank], ids=["dataset", "bank"])
@pytest.mark.parametrize("whole_only", [True, False])
def test_the_pool_of_a_module_follows_its_config(whole_only: bool, make: Any) -> None:
    photos = Photos("cut", "cut")
    config = BatchCopyPasteConfig(
        placement={"paste_prob": 1.0}, source=SourceConfig(kind="bank", whole_only=whole_only)
    )
    batch = BatchedDenseSample.from_samples([photos[0], photos[1]]).to_padded(4)
    samples = [[photos[0], photos[1]]]
    eager = BatchCopyPaste(config, source_pool=make(photos))(batch, return_report=True)[1]
    assert bool(eager.num_placed.any()) is not whole_only
    (loaded,) = BatchCopyPaste.from_dataloader(samples, 4, config, source_pool=make(photos))
    assert bool((loaded.instance_valid.sum(1) > 1).any()) is not whole_only


def test_a_selection_of_its_own_is_kept() -> None:
    bank = DatasetBank(Photos("cut"), selection=Selection(min_area_px=1, whole_only=True))
    assert bank.for_pool(whole_only=False) is bank


def test_the_default_of_a_batch() -> None:
    batch = BatchedDenseSample.from_samples([Photos("cut")[0], Photos("cut")[0]]).to_padded(4)
    with pytest.warns(UserWarning, match="paste nothing"):
        assert not BatchCopyPaste(EVERY_IMAGE)(batch, return_report=True)[1].num_placed.any()
    assert BatchCopyPaste(BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=EVERY_OBJECT))(
        batch, return_report=True
    )[1].num_placed.all()


@pytest.mark.parametrize("grouping", ["image", "instance"])
def test_the_command_line(tmp_path: Path, grouping: str) -> None:
    """Two photos whose only objects touch the border: nothing to paste, unless all objects are asked for."""
    images, annotations = [], []
    for i in range(2):
        images.append({"id": i, "file_name": f"{i}.png", "height": 24, "width": 24})
        Image.fromarray(noise((24, 24), i)).save(tmp_path / f"{i}.png")
        mask = runs(rectangle((24, 24), 0, 0, 8, 8))
        annotations.append({"id": i + 1, "image_id": i, "category_id": 1, "iscrowd": 0, "segmentation": mask})
    tables = {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "thing"}]}
    (tmp_path / "a.json").write_text(json.dumps(tables))
    words = ["augment", str(tmp_path / "a.json"), "--images", str(tmp_path), "--num", "2", "--gallery", "0"]
    words.append(f"placement.grouping={grouping}")
    assert main([*words, "--out", str(tmp_path / "whole")]) == 1
    assert main([*words, "--out", str(tmp_path / "all"), "source.whole_only=false"]) == 0
