"""A fixed share of the images of a batch is pasted into; an image then gets what it would get by itself, or nothing."""

from __future__ import annotations

import pytest
import torch

from samples import CPU_BACKENDS, assert_same, make_batch
from segpaste import BatchCopyPaste, BatchCopyPasteConfig, PaddedBatchedDenseSample
from segpaste.augmentation import PlacementConfig
from segpaste.engine import use_backend
from segpaste.types import Modality

pytestmark = pytest.mark.filterwarnings("ignore:BatchCopyPaste could paste nothing")


def placed(
    batch: PaddedBatchedDenseSample, paste_prob: float, *, fixed_share: bool = True, **options: object
) -> set[int]:
    """Return the rows of a batch that are tried."""
    placement = PlacementConfig(paste_prob=paste_prob, fixed_share=fixed_share)
    config = BatchCopyPasteConfig(placement=placement, **options)
    _, report = BatchCopyPaste(config)(batch, return_report=True)
    return set(report.num_tried.nonzero()[:, 0].tolist())


def batch_of(num: int, seed: int = 0) -> PaddedBatchedDenseSample:
    return make_batch(num, num_instances=2, max_instances=6, seed=seed, modalities=[Modality.INSTANCE], size=(9, 12))


@pytest.mark.parametrize("backend", CPU_BACKENDS)
@pytest.mark.parametrize(("num", "paste_prob"), [(4, 0.5), (8, 0.25), (8, 0.75), (3, 1.0), (5, 0.0), (1, 1.0)])
def test_the_share_is_the_same_in_every_batch(backend: str, num: int, paste_prob: float) -> None:
    with use_backend(backend):
        rows = [placed(batch_of(num, seed), paste_prob) for seed in range(12)]
    if num > 1:  # a batch of one has no other row to paste from
        assert {len(found) for found in rows} == {round(num * paste_prob)}
    if 0 < paste_prob < 1:
        assert len(set(map(frozenset, rows))) > 3, "not always the same rows"


def test_a_broken_share_is_drawn_for_each_batch() -> None:
    sizes = [len(placed(batch_of(3, seed), 0.5)) for seed in range(200)]
    assert set(sizes) == {1, 2}
    assert 270 <= sum(sizes) <= 330


def test_rows_are_as_they_would_be_by_themselves() -> None:
    batch = batch_of(6)
    every = BatchCopyPaste(BatchCopyPasteConfig(placement={"paste_prob": 1.0}))(batch).to_batched().to_samples()
    half = BatchCopyPaste(BatchCopyPasteConfig(placement=PlacementConfig(paste_prob=0.5, fixed_share=True)))(batch)
    rows = placed(batch, 0.5)
    assert len(rows) == 3
    before = batch.to_batched().to_samples()
    for row, sample in enumerate(half.to_batched().to_samples()):
        expected = every[row] if row in rows else before[row]
        assert torch.equal(sample.image, expected.image)
        assert torch.equal(sample.instance_masks, expected.instance_masks)


def test_the_rows_do_not_depend_on_their_order() -> None:
    batch = batch_of(8)
    assert batch.sample_seeds is not None
    order = torch.tensor([0, 5, 2, 7, 4, 1, 6, 3])
    found = placed(batch, 0.5)
    moved = batch.derived(sample_seeds=batch.sample_seeds[order])
    assert {int(order[row]) for row in placed(moved, 0.5)} == found


def test_without_it_the_number_varies() -> None:
    sizes = {len(placed(batch_of(8, seed), 0.5, fixed_share=False)) for seed in range(12)}
    assert len(sizes) > 2


def test_the_schedule_changes_the_share() -> None:
    batch = batch_of(8)
    augment = BatchCopyPaste(BatchCopyPasteConfig(placement=PlacementConfig(paste_prob=1.0, fixed_share=True)))
    for paste_prob, num in ((1.0, 8), (0.25, 2), (0.0, 0)):
        augment.schedule.set(paste_prob=paste_prob)
        _, report = augment(batch, return_report=True)
        assert int((report.num_tried > 0).sum()) == num


def test_classes_are_mixed_into_the_same_share() -> None:
    batch = make_batch(6, modalities=[Modality.INSTANCE, Modality.SEMANTIC])
    assert len(placed(batch, 0.5, emit_classmix=True)) == 3


def test_an_empty_batch() -> None:
    assert (
        BatchCopyPaste(BatchCopyPasteConfig(placement=PlacementConfig(paste_prob=1.0, fixed_share=True)))(
            make_batch(0)
        ).batch_size
        == 0
    )


def test_compiled_equals_eager() -> None:
    augment = BatchCopyPaste(BatchCopyPasteConfig(placement=PlacementConfig(paste_prob=0.5, fixed_share=True)))
    step = torch.compile(augment, fullgraph=True, backend="eager")
    batch = batch_of(6)
    assert_same(step(batch), augment(batch))
    augment.schedule.set(paste_prob=0.2)
    assert_same(step(batch), augment(batch))
