"""The shared conversion of the adapters, against plain loops over pixels and instances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given as examples
from hypothesis import strategies as st

from samples import make_batch
from segpaste.targets import objects
from segpaste.types import Modality

LABELS = torch.tensor([2, 0, 1, 2])


@pytest.mark.parametrize(
    ("label_map", "expected"),
    [
        *[(0, [2, 0, 1, 2]), (1, [3, 1, 2, 3]), (np.int64(1), [3, 1, 2, 3]), (np.array(1), [3, 1, 2, 3])],
        *[([10, 30, 70], [70, 10, 30, 70]), (np.array([10, 30, 70]), [70, 10, 30, 70])],
        *[({0: 5, 1: 4, 2: 9}, [9, 5, 4, 9]), ({np.int64(n): np.int32(9 - n) for n in range(3)}, [7, 9, 8, 7])],
        (torch.tensor([10, 30, 70]), [70, 10, 30, 70]),
    ],
)
def test_label_maps_and_back(label_map: Any, expected: list[int]) -> None:
    ids = objects.to_framework(LABELS, label_map)
    assert ids.tolist() == expected
    assert ids.dtype == torch.int64
    assert objects.from_framework(ids, label_map).tolist() == LABELS.tolist()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: objects.to_framework(LABELS, [5, 6]), ValueError, "class id for every label, got none for 2"),
        *(
            (
                lambda given=given: objects.to_framework(LABELS, given),
                TypeError,
                f"label_map: expected .*, got {came}",
            )
            for given, came in [
                *[("abc", "'abc', a str"), (None, "None, a NoneType"), (True, "True, a bool"), (1.0, "1.0, a float")],
                *[([True, False, True], "True, a bool"), (np.array([True]), "True, a bool"), ([1.5], "1.5, a float")],
                *[(np.array([1.0, 2.0]), "1.0, a float"), (np.zeros((1, 2), int), r"\[0, 0\], a list")],
                *[({"cat": 1}, "'cat', a str"), ({0: "1"}, "'1', a str")],
            ]
        ),
        (lambda: objects.from_framework(LABELS, 1), ValueError, "class ids from 1, got 0; is 0 the background"),
        (lambda: objects.from_framework(LABELS, [0, 1]), ValueError, "label for every class id, got none for 2"),
        (
            lambda: objects.from_framework(LABELS, [3, 3]),
            ValueError,
            "a different class id for each label, got one twice",
        ),
    ],
)
def test_wrong_label_maps(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@examples(
    counts=st.lists(st.integers(0, 5), min_size=1, max_size=4), max_instances=st.integers(0, 6), seed=st.integers(0, 99)
)
def test_slots_keep_the_largest_of_each_image_in_order(counts: list[int], max_instances: int, seed: int) -> None:
    areas = torch.randint(0, 9, (sum(counts),), generator=torch.Generator().manual_seed(seed))
    image_idx = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    kept, rows, slots = objects.slots_of(image_idx, areas, len(counts), max_instances)
    expected = []
    for b in range(len(counts)):
        own = [n for n in range(sum(counts)) if image_idx[n] == b]
        best = sorted(sorted(own, key=lambda n: (-int(areas[n]), n))[:max_instances])
        expected += [(n, b, slot) for slot, n in enumerate(best)]
    assert list(zip(kept.tolist(), rows.tolist(), slots.tolist(), strict=True)) == expected


def test_objects_are_the_valid_rows_with_pixels() -> None:
    batch = make_batch(2, num_instances=(3, 1), max_instances=5)
    assert batch.instance_masks is not None
    edges, masks = batch.boxes.clone(), batch.instance_masks.clone()
    edges[0, 1], masks[0, 1] = 0, False  # an instance without a pixel is no object
    first, second = objects.objects_of(batch.derived(boxes=edges, instance_masks=masks))
    assert first.slots.tolist() == [0, 2]
    assert second.slots.tolist() == [0]
    assert first.masks is not None
    for slot, mask, box, label in zip(first.slots, first.masks, first.boxes, first.labels, strict=True):
        assert torch.equal(mask, masks[0, slot])
        assert torch.equal(box, edges[0, slot])
        assert label == batch.labels[0, slot]


def test_padding_is_cut_off_and_masked() -> None:
    batch = make_batch(2, size=(17, 11), padding=(4, 3))
    assert objects.picture_sizes(batch) == [(13, 8)] * 2
    mask = objects.pixel_mask(batch)
    assert mask[:, :13, :8].eq(1).all()
    assert int(mask.sum()) == 2 * 13 * 8
    plain = make_batch(2, size=(17, 11))
    assert objects.picture_sizes(plain) == [(17, 11)] * 2
    assert objects.pixel_mask(plain).eq(1).all()


def test_images_are_normalised_and_padding_is_zero() -> None:
    batch = make_batch(2, size=(17, 11), padding=(4, 3))
    mean, std = [0.5, 0.4, 0.3], [0.2, 0.3, 0.4]
    images = objects.normalized_images(batch, mean, std)
    for channel in range(3):
        expected = (batch.images[:, channel].double() / 255 - mean[channel]) / std[channel]
        assert torch.allclose(images[:, channel, :13, :8].double(), expected[:, :13, :8], atol=1e-5)
    assert images[:, :, 13:].eq(0).all()
    assert images[..., 8:].eq(0).all()


@pytest.mark.parametrize(
    ("mean", "std", "message"),
    [
        ([0.5], [0.5], r"images: expected 1 channels, as in mean and std, got 3; keep"),
        ([0.5] * 3, [0.5], "expected as many numbers in each, got 3 and 1"),
        ([0.5] * 3, [0.5, 0.0, 1.0], "expected numbers > 0"),
    ],
)
def test_wrong_normalisation(mean: list[float], std: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        objects.normalized_images(make_batch(1), mean, std)


def test_centres_and_sides() -> None:
    given = torch.tensor([[2.0, 4.0, 6.0, 5.0]])
    assert torch.allclose(objects.cxcywh(given, (8, 16)), torch.tensor([[4 / 16, 4.5 / 8, 4 / 16, 1 / 8]]))


def test_only_batches_are_taken() -> None:
    with pytest.raises(TypeError, match="expected PaddedBatchedDenseSample, got list"):
        objects.objects_of([])  # type: ignore[arg-type]
    assert objects.objects_of(make_batch(0)) == []
    assert [len(found.labels) for found in objects.objects_of(make_batch(2, num_instances=0))] == [0, 0]
    (found,) = objects.objects_of(make_batch(1, modalities=[Modality.DEPTH]))
    assert found.masks is None
