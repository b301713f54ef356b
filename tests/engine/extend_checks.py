"""The Triton kernel that extends a batch next to the reference; `test_cuda` runs this file as it does `cuda_checks`."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from cuda_cases import DEVICE, DTYPES, SUBSETS, patched_interpreter  # noqa: F401

from samples import OPTIONAL, assert_same, make_batch, subset_id
from segpaste.engine import reference
from segpaste.engine.triton import extend, inputs
from segpaste.types import Modality, PaddedBatchedDenseSample


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks for each image."""
    monkeypatch.setattr(inputs, "PIXEL_BLOCK", 128)
    monkeypatch.setattr(inputs, "MASK_CHUNK", 256)


def assert_extended_alike(batch: PaddedBatchedDenseSample, canvas_size: tuple[int, int], num_slots: int) -> None:
    found, expected = (f(batch.to(DEVICE), canvas_size, num_slots) for f in (extend, reference.extend))
    assert_same(found, expected)
    assert found.canvas_size == canvas_size
    assert found.max_instances == num_slots
    assert found.images.stride() == expected.images.stride()


@pytest.mark.parametrize("modalities", [*SUBSETS, frozenset()], ids=subset_id)
def test_every_subset(modalities: frozenset[Modality]) -> None:
    options = {"keypoints": True, "crowd": True} if Modality.INSTANCE in modalities else {"num_instances": 0}
    assert_extended_alike(make_batch(2, size=(9, 13), modalities=modalities, **options), (12, 16), 9)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("is_last", [False, True], ids=["", "channels last"])
def test_images(is_last: bool, dtype: torch.dtype) -> None:
    batch = make_batch(2, size=(9, 13), modalities={Modality.INSTANCE}, image_dtype=dtype)
    if is_last:
        batch = replace(batch, images=batch.images.contiguous(memory_format=torch.channels_last))
    assert_extended_alike(batch, (12, 16), batch.max_instances)


def test_one_of_both() -> None:
    batch = make_batch(2, size=(9, 13), modalities=OPTIONAL, padding=(1, 2), keypoints=True)
    assert_extended_alike(batch, (9, 16), batch.max_instances)
    assert_extended_alike(batch, (12, 13), batch.max_instances)
    assert_extended_alike(batch, (9, 13), batch.max_instances + 3)
    assert extend(batch, (9, 13), batch.max_instances) is batch


@pytest.mark.parametrize("size", [(1, 1), (2, 3)])
def test_small_images_are_reflected_repeatedly(size: tuple[int, int]) -> None:
    batch = make_batch(2, size=size, num_instances=1, modalities={Modality.INSTANCE})
    assert_extended_alike(batch, (16, 16), batch.max_instances)


def test_no_images() -> None:
    assert_extended_alike(make_batch(0, size=(9, 13)), (12, 16), 20)
