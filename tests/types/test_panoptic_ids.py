"""Panoptic maps hold instance ids: ids beyond int32 are rejected, and do no harm where nothing can check."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from samples import CPU_BACKENDS, EVERY_OBJECT, make_batch
from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.engine import use_backend
from segpaste.types import Modality, PaddedBatchedDenseSample, PanopticMap
from segpaste.types.check import MAX_FED_BACK_ID, MAX_INSTANCE_ID

MODALITIES = {Modality.INSTANCE, Modality.SEMANTIC, Modality.PANOPTIC}
BEYOND = [(1 << 50, "got 1125899906842624"), (MAX_FED_BACK_ID + 1, "got"), (-1, "got -1")]


def batch_with_id(value: int) -> PaddedBatchedDenseSample:
    """Return a batch whose first pixel of the first map is this id, unchecked."""
    batch = make_batch(2, num_instances=2, max_instances=6, modalities=MODALITIES)
    assert batch.panoptic_maps is not None
    maps = batch.panoptic_maps.clone()
    maps[0, 0, 0] = value
    return batch.derived(panoptic_maps=maps)


@pytest.mark.parametrize(("value", "message"), BEYOND)
class TestIsRefused:
    def test_of_a_padded_batch(self, value: int, message: str) -> None:
        with pytest.raises(
            ValueError, match=rf"PaddedBatchedDenseSample.panoptic_maps: expected instance ids.*{message}"
        ):
            replace(batch_with_id(value))

    def test_of_a_ragged_batch_and_a_sample(self, value: int, message: str) -> None:
        batch = make_batch(2, num_instances=2, max_instances=6, modalities=MODALITIES).to_batched()
        maps = batch_with_id(value).panoptic_maps
        with pytest.raises(ValueError, match=rf"BatchedDenseSample.panoptic_maps: expected instance ids.*{message}"):
            replace(batch, panoptic_maps=maps)
        with pytest.raises(ValueError, match=rf"DenseSample.panoptic_map: expected instance ids.*{message}"):
            replace(batch.to_samples()[0], panoptic_map=PanopticMap(maps[0]))


def test_the_largest_one_is_not() -> None:
    replace(batch_with_id(MAX_INSTANCE_ID))


@pytest.mark.parametrize("value", [1 << 50, (1 << 31) + 5])
@pytest.mark.parametrize("kernels", CPU_BACKENDS)
@pytest.mark.filterwarnings("ignore:BatchCopyPaste could paste nothing")
def test_where_nothing_looks_ids_fit_int32(kernels: str, value: int) -> None:
    """GPUs and compiled code cannot check: fresh ids are above all valid ids, positive and distinct."""
    with use_backend(kernels):
        out = BatchCopyPaste(BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=EVERY_OBJECT))(
            batch_with_id(value).derived(sample_seeds=torch.arange(2))
        )
    assert out.instance_ids is not None
    for ids, valid in zip(out.instance_ids, out.instance_valid, strict=True):
        assert (ids[valid] > 0).all()
        assert len(ids[valid].unique()) == int(valid.sum())
    fresh = out.instance_ids[0][out.instance_ids[0] > MAX_FED_BACK_ID]
    assert len(fresh) > 0
    assert (out.panoptic_maps == fresh[0]).any()
