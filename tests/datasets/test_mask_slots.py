"""Masks that are drawn in the slots of the batch that a loader makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from coco_files import annotation_row, image_row, write_coco, write_many
from loader_cases import assert_same_batches

from on_disk import rectangle, runs
from samples import assert_same
from segpaste.datasets import (
    CocoDetectionV2,
    DatasetError,
    EpochDataLoader,
    LargeScaleJitter,
    make_large_scale_jittering,
)
from segpaste.seeding import SampleKey
from segpaste.types import BatchedDenseSample, DenseSample, InstanceMask, PaddedBatchedDenseSample
from segpaste.types.instances import select_instances
from segpaste.types.tensors import MaskSlots, kept_planes, mask_planes

SIZE = (29, 31)
Change = Callable[[DenseSample], DenseSample]


class Changed(CocoDetectionV2):
    """Dataset that changes its samples after they were drawn."""

    change: Change = staticmethod(lambda sample: sample)

    def read_jittered(self, index: int, jitter: LargeScaleJitter, seed: int) -> DenseSample:
        return self.change(super().read_jittered(index, jitter, seed))


def of_nothing(sample: DenseSample) -> DenseSample:
    return select_instances(sample, torch.zeros(0, dtype=torch.int64))


def of_the_last(sample: DenseSample) -> DenseSample:
    """Return the sample with its last instance, whose mask stays where it was drawn."""
    fields = {name: getattr(sample, name)[-1:] for name in ("labels", "instance_ids")}
    boxes = select_instances(sample, torch.tensor([sample.num_instances - 1])).boxes if sample.num_instances else None
    masks = InstanceMask(sample.instance_masks.as_subclass(torch.Tensor)[-1:])
    return replace(sample, **fields, boxes=sample.boxes if boxes is None else boxes, instance_masks=masks)


def of_the_first(sample: DenseSample) -> DenseSample:
    masks = InstanceMask(sample.instance_masks.as_subclass(torch.Tensor)[:1])
    one = select_instances(sample, torch.arange(min(1, sample.num_instances)))
    return replace(one, instance_masks=masks)


def loader_of(dataset: CocoDetectionV2, max_instances: int = 3, **options: Any) -> EpochDataLoader:
    jitter = make_large_scale_jittering(SIZE, (0.3, 3.0), min_area_px=20)
    return EpochDataLoader(dataset, batch_size=4, max_instances=max_instances, jitter=jitter, **options)


def expected(loader: EpochDataLoader, batch: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
    """Read the samples of a batch again, one by one, into memory of their own."""
    keys = [SampleKey(*(value % 2**64 for value in row)) for row in batch.sample_keys.tolist()]
    samples = [loader.sample_for(key) for key in keys]
    more = {"sample_seeds": batch.sample_seeds, "sample_keys": batch.sample_keys}
    return BatchedDenseSample.from_samples(samples).to_padded(loader.max_instances, overflow="largest", **more)


@pytest.mark.parametrize("max_instances", [1, 2, 3])
@pytest.mark.parametrize("change", [lambda sample: sample, of_nothing, of_the_last, of_the_first])
@pytest.mark.filterwarnings("ignore:kept the")
def test_batches_are_those_of_samples_with_memory_of_their_own(
    change: Change, max_instances: int, tmp_path: Path
) -> None:
    dataset = Changed(*write_many(tmp_path, 11))
    dataset.change = change
    loader = loader_of(dataset, max_instances)
    num = 0
    for epoch in range(4):
        loader.set_epoch(epoch)
        for batch in loader:
            assert_same(batch, expected(loader, batch))
            num += int(batch.instance_valid.sum())
    assert (num > 0) == (change is not of_nothing)


def test_masks_stay_where_they_were_drawn(tmp_path: Path) -> None:
    loader = loader_of(CocoDetectionV2(*write_many(tmp_path, 7)))
    places = list(loader.sampler)[:4]
    given = loader.dataset.__getitems__(places)
    batch = loader.collate_fn(given).batch
    for loaded, slots in zip(given.loaded, batch.instance_masks, strict=True):
        if loaded.sample.num_instances:
            assert loaded.sample.instance_masks.data_ptr() == slots.data_ptr()


def test_broken_images_are_skipped(tmp_path: Path) -> None:
    """The outline of one object of an image is broken, after another object was drawn."""
    size = (19, 23)
    mask = runs(rectangle(size, 2, 3, 12, 14))
    rows = [annotation_row(2 * i + j, i, "broken" if i == 1 and j else mask) for i in range(4) for j in range(2)]
    loader = loader_of(CocoDetectionV2(*write_coco(tmp_path, [image_row(i, size) for i in range(4)], rows)))
    loader.on_error = "skip"
    with pytest.warns(UserWarning, match="left out"):
        (batch,) = loader
    assert batch.batch_size == 3
    assert_same(batch, expected(loader, batch))


def test_a_sample_that_is_read_twice(tmp_path: Path) -> None:
    """A dataset that takes another image for one that is broken, or after it has looked at one."""

    class Other(CocoDetectionV2):
        def read_jittered(self, index: int, jitter: LargeScaleJitter, seed: int) -> DenseSample:
            super().read_jittered(index, jitter, seed)
            return super().read_jittered((index + 1) % len(self), jitter, seed)

    loader = loader_of(Other(*write_many(tmp_path, 7)))
    for batch in loader:
        assert_same(batch, expected(loader, batch))


def test_workers(tmp_path: Path) -> None:
    dataset = CocoDetectionV2(*write_many(tmp_path, 11))
    assert_same_batches(list(loader_of(dataset)), list(loader_of(dataset, num_workers=2)))


def test_planes_have_memory_of_their_own_outside_of_a_batch() -> None:
    slots = MaskSlots(2, 3)
    planes = mask_planes(2, SIZE)
    assert kept_planes(planes, 1).data_ptr() == planes.data_ptr()
    assert slots.filled([planes]) is None


@pytest.mark.parametrize(("num", "size"), [(4, SIZE), (0, SIZE), (2, (0, 3))])
def test_no_slots_without_room(num: int, size: tuple[int, int]) -> None:
    assert MaskSlots(2, 3).give(0, num, size) is None


def test_all_samples_of_slots_have_one_size() -> None:
    slots = MaskSlots(2, 3)
    assert slots.give(0, 2, SIZE) is not None
    assert slots.give(1, 2, (5, 7)) is None
    assert slots.filled([torch.zeros(1, 5, 7, dtype=torch.bool)] * 2) is None


def test_a_broken_image_raises(tmp_path: Path) -> None:
    paths = write_coco(tmp_path, [image_row(1, (19, 23))], [annotation_row(1, 1, "broken")])
    with pytest.raises(DatasetError, match="annotation 1 of image 1"):
        list(loader_of(CocoDetectionV2(*paths)))
