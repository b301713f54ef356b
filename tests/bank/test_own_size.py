"""Crops at the size of their photos equal those that the bank gives in the size at which they are staged."""

from __future__ import annotations

import pytest
import torch

from kept_scenes import KeptScenes
from segpaste.bank import DatasetBank, stage_bank_batch
from segpaste.bank.building.cropping import content_of
from segpaste.bank.read.own_size import over_classes, stage_own_size
from segpaste.datasets import SceneConfig, SceneDataset
from segpaste.types.staged import SHAPES

SCENES = KeptScenes(5, SceneConfig(height=61, width=83), seed=4, keypoints=True)


@pytest.fixture(scope="module")
def bank() -> DatasetBank:
    return DatasetBank(SCENES, class_names=SCENES.class_names, crop_size=(7, 7), cache_bytes=0)


@pytest.mark.parametrize("limit", [(500, 500), (20, 500), (11, 17), (1, 1)])
def test_every_field_is_that_of_the_bank_at_that_size(bank: DatasetBank, limit: tuple[int, int]) -> None:
    indices = list(range(0, len(bank), 2))
    staged, shown = stage_own_size(bank, indices, limit)
    expected = stage_bank_batch(bank.resized(staged.crop_size), staged.crop_idx)
    assert staged.version == expected.version == bank.version
    for name in SHAPES:
        one, other = getattr(staged, name), getattr(expected, name)
        assert (one is None) == (other is None), name
        assert one is None or torch.equal(one, other), name
    assert all(side <= most for side, most in zip(staged.crop_size, limit, strict=True))
    assert len(shown) == len(indices)


def test_nothing_is_shrunk_or_cut_off_below_the_limit(bank: DatasetBank) -> None:
    for index in range(0, len(bank), 3):
        staged, (shown,) = stage_own_size(bank, [index], (500, 500))
        if shown is None:
            continue
        sample = SCENES[shown.image]
        assert sample.instance_ids is not None
        assert sample.instance_masks is not None
        position = sample.instance_ids.tolist().index(shown.instance_id)
        mask = sample.instance_masks[position].as_subclass(torch.Tensor)
        box = tuple(int(edge) for edge in sample.boxes[position].tolist())
        left, top, right, bottom = content_of(box, (61, 83), bank.margin_frac)  # type: ignore[arg-type]
        assert staged.crop_size == (bottom - top, right - left)
        assert torch.equal(staged.alphas[0, 0, 0], mask[top:bottom, left:right])
        assert torch.equal(staged.images[0, 0], sample.image.as_subclass(torch.Tensor)[:, top:bottom, left:right])
        assert staged.class_ids[0, 0] == sample.labels[position]


def test_a_photo_that_cannot_be_read_is_passed_over(bank: DatasetBank) -> None:
    class Broken(SceneDataset):
        def __getitem__(self, index: int):  # type: ignore[no-untyped-def]
            if index == 1:
                raise ValueError("broken")
            return super().__getitem__(index)

        def instance_labels(self, index: int) -> list[int]:
            return SCENES[index].labels.tolist()

    broken = DatasetBank(Broken(5, SCENES.config, 4, keypoints=True), class_names=SCENES.class_names, crop_size=(7, 7))
    of_broken = [i for i in range(len(broken)) if broken.image_of(torch.tensor([i]).numpy())[0] == 1]
    with pytest.raises(ValueError, match="broken"):
        stage_own_size(broken, of_broken[:1], (90, 90))
    broken.skips_unreadable = True
    staged, shown = stage_own_size(broken, of_broken, (90, 90))
    assert broken.unreadable == {1: "broken"}
    assert all(found is None or found.image != 1 for found in shown)
    assert not set(staged.crop_idx[0].tolist()) & set(of_broken) or None in shown


def test_objects_that_lie_over_each_other() -> None:
    masks = torch.zeros(3, 4, 4, dtype=torch.bool)
    masks[0, :2], masks[1, 1:3], masks[2, 3] = True, True, True
    labels = torch.tensor([5, 6, 7])
    assert [over_classes(labels, masks, i) for i in range(3)] == [{6}, {5}, frozenset()]
    assert over_classes(labels, None, 0) == frozenset()
