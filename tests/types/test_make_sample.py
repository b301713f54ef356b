"""The samples that all other tests lean on keep their promises."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from record_cases import full_batch
from torch import Tensor

from samples import IGNORE_INDEX, STUFF, THINGS, all_modality_subsets, assert_same, make_batch, make_sample, tight_boxes
from segpaste.types import FIELDS, Modality


class TestMakeSample:
    @given(st.integers(1, 23), st.integers(1, 23), st.integers(0, 9), st.integers(0, 99), st.booleans())
    def test_is_consistent(self, height: int, width: int, num: int, seed: int, padded: bool) -> None:
        padding = (height // 4, width // 3) if padded else None
        free = (height - height // 4) * (width - width // 3) if padded else height * width
        sample = make_sample((height, width), min(num, free), seed=seed, padding=padding)
        masks, ids, labels = sample.instance_masks, sample.instance_ids, sample.labels
        assert bool((masks.sum(0) <= 1).all())
        assert bool((masks.flatten(1).sum(1) > 0).all())
        assert torch.equal(sample.boxes.as_subclass(Tensor), tight_boxes(masks.numpy()))
        thing = torch.isin(sample.semantic_map, torch.tensor(THINGS))
        assert torch.equal(thing, masks.sum(0) == 1)
        assert torch.equal(thing, sample.panoptic_map != 0)
        for mask, instance_id, label in zip(masks, ids, labels, strict=True):
            assert torch.equal(sample.panoptic_map == instance_id, mask)
            assert bool((sample.semantic_map[mask] == label).all())
        assert bool(torch.isin(sample.semantic_map[~thing], torch.tensor([*STUFF, IGNORE_INDEX])).all())
        assert bool((sample.depth[sample.depth_valid] > 0).all())
        assert bool((sample.depth[~sample.depth_valid] == 0).all())
        norm = sample.normals.norm(dim=0)
        assert bool((((norm - 1).abs() < 1e-6) | (norm == 0)).all())
        if padding is not None:
            outside = sample.padding_mask[0].as_subclass(Tensor)
            assert int(outside.sum()) == height * width - free
            assert bool((sample.semantic_map[outside] == IGNORE_INDEX).all())
            assert not bool(thing[outside].any() | sample.depth_valid[0][outside].any())

    def test_is_deterministic_and_modalities_do_not_change_each_other(self) -> None:
        whole = make_sample(seed=5)
        assert_same(whole, make_sample(seed=5))
        depth_only = make_sample(modalities=["depth"], seed=5)
        assert torch.equal(depth_only.depth, whole.depth)
        assert torch.equal(depth_only.image, whole.image)
        assert not torch.equal(make_sample(seed=6).image, whole.image)

    def test_too_many_instances(self) -> None:
        with pytest.raises(ValueError, match="at most 6 instances on 3x2, got 7"):
            make_sample((3, 2), num_instances=7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_images_of_floats_fill_their_range(dtype: torch.dtype) -> None:
    images = make_batch(image_dtype=dtype, value_range=(-20, 65)).images
    assert images.dtype == dtype
    assert -20 <= images.min() < -19
    assert 64 < images.max() <= 65


class TestAllModalitySubsets:
    def test_are_the_legal_ones(self) -> None:
        subsets = all_modality_subsets()
        assert len(subsets) == len(set(subsets)) == 20  # 5 of the labels, times depth, times normals
        assert all({Modality.INSTANCE, Modality.SEMANTIC} <= s for s in subsets if Modality.PANOPTIC in s)


class TestAssertSame:
    @pytest.mark.parametrize("name", [f.batched_name for f in FIELDS])
    def test_sees_one_changed_value(self, name: str) -> None:
        batch = full_batch()
        assert_same(batch, full_batch())
        value = getattr(batch, name).clone()
        last = value.reshape(-1)[:1] if name != "instance_valid" else value[:, 0]
        last.copy_(~last if last.dtype == torch.bool else last + 1)
        other = full_batch()
        object.__setattr__(other, name, value)
        with pytest.raises(AssertionError, match=name):
            assert_same(batch, other)

    def test_sees_a_missing_field_and_another_type(self) -> None:
        batch, sample = make_batch(), make_sample()
        with pytest.raises(AssertionError, match="normals"):
            assert_same(batch, dataclasses.replace(batch, normals=None))
        with pytest.raises(AssertionError, match="metric_depth"):
            assert_same(make_sample(camera=True), make_sample(metric_depth=True))
        with pytest.raises(AssertionError):
            assert_same(batch, sample)
