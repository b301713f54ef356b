"""`BatchedDenseSample`: samples stacked and taken apart again, and which instances stay when there are too many."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from record_cases import FULL
from torch import Tensor
from torchvision import tv_tensors

from samples import all_modality_subsets, assert_same, make_sample, make_samples, subset_id, tight_boxes
from segpaste.types import (
    IGNORE_INDEX,
    BatchedDenseSample,
    CameraIntrinsics,
    DenseSample,
    InstanceMask,
    Modality,
    keep_largest,
    select_instances,
)

SUBSETS = [pytest.param(s, id=subset_id(s)) for s in all_modality_subsets()]


def ragged_batch() -> BatchedDenseSample:
    return BatchedDenseSample.from_samples(make_samples(**FULL))


class TestRoundTrip:
    @pytest.mark.parametrize("modalities", SUBSETS)
    @pytest.mark.parametrize("batch_size", [1, 3])
    def test_samples(self, batch_size: int, modalities: frozenset[Modality]) -> None:
        samples = make_samples(
            batch_size, modalities=modalities, metric_depth=True, padding=(1, 2), num_instances=[3, 0]
        )
        batch = BatchedDenseSample.from_samples(samples)
        assert batch.batch_size == batch_size
        assert batch.canvas_size == (17, 11)
        assert batch.modalities == modalities | {Modality.IMAGE}
        for sample, back in zip(samples, batch.to_samples(), strict=True):
            assert_same(sample, back)

    def test_stacked_fields_keep_their_classes(self) -> None:
        batch, sample = ragged_batch(), make_sample(**FULL)
        for name, of_sample in [("images", "image"), ("semantic_maps", "semantic_map"), ("depth", "depth"),
                                ("panoptic_maps", "panoptic_map"), ("padding_mask", "padding_mask")]:  # fmt: skip
            assert type(getattr(batch, name)) is type(getattr(sample, of_sample))
            assert getattr(batch, name).shape == (3, *getattr(sample, of_sample).shape)


class TestEmptyBatch:
    @pytest.mark.parametrize("modalities", SUBSETS)
    def test_is_like_another(self, modalities: frozenset[Modality]) -> None:
        other = BatchedDenseSample.from_samples(
            make_samples(2, modalities=modalities, metric_depth=True, padding=(0, 1))
        )
        empty = BatchedDenseSample.from_samples([], empty_like=other)
        assert empty.batch_size == 0
        assert empty.canvas_size == other.canvas_size
        assert empty.modalities == other.modalities
        assert empty.metric_depth
        assert empty.to_samples() == []
        assert type(empty.images) is tv_tensors.Image

    def test_of_no_known_canvas(self) -> None:
        with pytest.raises(ValueError, match="from_samples: got no sample, so the canvas is unknown; pass empty_like="):
            BatchedDenseSample.from_samples([])


class TestRefuses:
    @pytest.mark.parametrize(
        ("odd_one", "message"),
        [
            (make_sample((11, 17)), r"one shape.*\[3, 17, 11\].*sample 0 and \[3, 11, 17\].*in sample 2"),
            (make_sample(image_dtype=torch.float32), r"dtype.*uint8 in sample 0 and .*float32 in sample 2"),
            (make_sample(modalities=["instance"]), "'semantic_map' in all.*sample 0 and sample 2 differ"),
            (make_sample(padding=(1, 1)), "'padding_mask' in all.*sample 0 and sample 2 differ"),
            (make_sample(camera=True), "'camera_intrinsics' in all.*sample 0 and sample 2 differ"),
        ],
        ids=["size", "dtype", "modality", "padding", "camera"],
    )
    def test_mixed_samples(self, odd_one: DenseSample, message: str) -> None:
        with pytest.raises(ValueError, match=f"from_samples: expected .*{message}"):
            BatchedDenseSample.from_samples([*make_samples(2), odd_one])

    def test_mixed_metric_flags(self) -> None:
        samples = [make_sample(camera=True), make_sample(metric_depth=True)]
        with pytest.raises(ValueError, match="one metric_depth, got False in sample 0 and True in sample 1"):
            BatchedDenseSample.from_samples(samples)

    @pytest.mark.parametrize(
        ("name", "value", "error", "message"),
        [
            ("images", torch.zeros(3, 3, 17, 11).double(), TypeError, "expected dtype uint8 or .*, got float64"),
            ("images", torch.zeros(3, 17, 11), ValueError, r"\[B, C, H, W\], got shape \[3, 17, 11\]"),
            ("depth", torch.zeros(2, 1, 17, 11), ValueError, r"B=3, got \[2, 1, 17, 11\]"),
            ("semantic_maps", torch.zeros(3, 17, 11), TypeError, "expected dtype int64, got float32"),
            ("labels", [torch.zeros(3, dtype=torch.int64)] * 2, ValueError, "a list of 3 entries.*got 2"),
            ("camera_intrinsics", [CameraIntrinsics(1, 1, 0, 0)] * 4, ValueError, "a list of 3 entries.*got 4"),
            ("depth_valid", None, ValueError, "depth: expected 'depth_valid' beside it"),
            ("camera_intrinsics", None, ValueError, "expected intrinsics because metric_depth=True"),
        ],
    )
    def test_field(self, name: str, value: Any, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=rf"BatchedDenseSample\.\w+: .*{message}|BatchedDenseSample\.{message}"):
            dataclasses.replace(ragged_batch(), **{name: value})

    @pytest.mark.parametrize(
        ("name", "entry", "error", "message"),
        [
            ("labels", torch.zeros(1, dtype=torch.int32), TypeError, r"labels\[1\]: expected dtype int64, got int32"),
            ("labels", torch.zeros(2, dtype=torch.int64), ValueError, r"labels\[1\]: .*N=1, got \[2\]"),
            ("instance_masks", InstanceMask(torch.zeros(1, 17, 11)), TypeError, r"masks\[1\]: .* bool, got float32"),
            (
                "instance_masks",
                InstanceMask(torch.zeros(1, 17, 9) > 0),
                ValueError,
                r"masks\[1\]: .*W=11, got \[1, 1",
            ),
        ],
    )
    def test_entry_of_one_image(self, name: str, entry: Any, error: type[Exception], message: str) -> None:
        batch = ragged_batch()
        column = list(getattr(batch, name))
        column[1] = entry
        with pytest.raises(error, match=rf"BatchedDenseSample\.\w*{message}"):
            dataclasses.replace(batch, **{name: column})

    def test_boxes_in_another_format(self) -> None:
        batch = ragged_batch()
        xywh = tv_tensors.BoundingBoxes(torch.tensor([[1.0, 2, 7, 8]]), format="XYWH", canvas_size=(17, 11))
        with pytest.raises(ValueError, match=r"boxes\[1\]: expected format XYXY, got XYWH"):
            dataclasses.replace(batch, boxes=[batch.boxes[0], xywh, batch.boxes[2]])

    def test_ids_that_are_not_unique(self) -> None:
        batch = ragged_batch()
        ids = [torch.ones_like(i) for i in batch.instance_ids or []]
        with pytest.raises(ValueError, match=r"instance_ids\[0\]: expected ids that are unique"):
            dataclasses.replace(batch, instance_ids=ids)

    def test_assignment(self) -> None:
        with pytest.raises(dataclasses.FrozenInstanceError):
            ragged_batch().metric_depth = False  # type: ignore[misc]


class TestKeepLargest:
    @given(st.integers(0, 8), st.integers(0, 9), st.integers(0, 50))
    def test_keeps_the_largest_masks_in_their_order(self, num: int, max_instances: int, seed: int) -> None:
        sample = make_sample(num_instances=num, seed=seed, padding=(2, 3))
        areas = [int(m.sum()) for m in sample.instance_masks]
        ranked = sorted(range(num), key=lambda n: (-areas[n], n))
        wanted = sorted(ranked[:max_instances])
        kept = keep_largest(sample, max_instances)
        assert kept.labels.tolist() == [int(sample.labels[n]) for n in wanted]
        assert kept.instance_ids.tolist() == [int(sample.instance_ids[n]) for n in wanted]
        assert torch.equal(kept.boxes.as_subclass(Tensor), tight_boxes(kept.instance_masks.numpy()))
        assert torch.equal(kept.instance_masks, sample.instance_masks[wanted])
        assert type(kept.instance_masks) is InstanceMask
        assert kept.boxes.canvas_size == (17, 11)

        dropped = torch.zeros(17, 11, dtype=torch.bool)
        for n in set(range(num)) - set(wanted):
            dropped |= sample.instance_masks[n].as_subclass(Tensor)
        assert torch.equal(kept.panoptic_map, torch.where(dropped, 0, sample.panoptic_map))
        assert torch.equal(kept.semantic_map, torch.where(dropped, IGNORE_INDEX, sample.semantic_map))
        for name in ("image", "depth", "depth_valid", "normals", "padding_mask"):
            assert torch.equal(getattr(kept, name), getattr(sample, name))

    def test_the_area_is_the_masks_not_the_boxs(self) -> None:
        masks = torch.zeros(2, 17, 11, dtype=torch.bool)
        masks[0, 0, 0] = masks[0, 16, 10] = True  # a large box around two pixels
        masks[1, 4:7, 4:7] = True
        sample = make_sample(num_instances=2, modalities=["instance"])
        boxes = tv_tensors.BoundingBoxes(tight_boxes(masks.numpy()), format="XYXY", canvas_size=(17, 11))
        sample = dataclasses.replace(sample, instance_masks=InstanceMask(masks), boxes=boxes)
        assert torch.equal(keep_largest(sample, 1).instance_masks[0], masks[1])

    def test_without_masks_the_area_is_the_boxs(self) -> None:
        boxes = torch.tensor([[0.0, 0, 2, 2], [1, 1, 9, 9], [0, 0, 5, 9], [2, 2, 3, 3]])
        sample = dataclasses.replace(
            make_sample(num_instances=4, modalities=[]),
            boxes=tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=(17, 11)),
            labels=torch.tensor([4, 5, 6, 7]),
        )
        kept = keep_largest(sample, 2)
        assert kept.labels.tolist() == [5, 6]
        assert torch.equal(kept.boxes.as_subclass(Tensor), boxes[1:3])

    def test_few_enough_is_the_same_object(self) -> None:
        sample = make_sample()
        assert keep_largest(sample, 3) is sample

    def test_without_a_panoptic_map_classes_stay(self) -> None:
        sample = make_sample(modalities=["instance", "semantic"])
        assert torch.equal(keep_largest(sample, 1).semantic_map, sample.semantic_map)


class TestSelectInstances:
    def test_keeps_the_given_order(self) -> None:
        sample = make_sample()
        chosen = select_instances(sample, torch.tensor([2, 0]))
        assert chosen.instance_ids.tolist() == [int(sample.instance_ids[2]), int(sample.instance_ids[0])]
        assert set(chosen.panoptic_map.unique().tolist()) == {0, *chosen.instance_ids.tolist()}

    def test_none_at_all(self) -> None:
        sample = make_sample()
        chosen = select_instances(sample, torch.zeros(0, dtype=torch.int64))
        assert chosen.num_instances == 0
        assert not chosen.panoptic_map.any()
        assert bool((chosen.semantic_map[sample.panoptic_map != 0] == IGNORE_INDEX).all())


def test_of_boxes_the_area_counts_and_not_the_sides() -> None:
    boxes = torch.tensor([[0.0, 0, 11, 1], [2, 2, 6, 6]])
    sample = dataclasses.replace(
        make_sample(num_instances=2, modalities=[]),
        boxes=tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=(17, 11)),
        labels=torch.tensor([4, 5]),
    )
    assert keep_largest(sample, 1).labels.tolist() == [5]


def test_of_equal_areas_the_earlier_stays() -> None:
    masks = torch.zeros(3, 17, 11, dtype=torch.bool)
    masks[0, :2, :3] = masks[1, 4:7, 4:6] = masks[2, 9:11, 2:5] = True
    sample = dataclasses.replace(
        make_sample(num_instances=3, modalities=["instance"]),
        instance_masks=InstanceMask(masks),
        labels=torch.tensor([4, 5, 6]),
    )
    assert keep_largest(sample, 2).labels.tolist() == [4, 5]
