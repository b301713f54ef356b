"""Rounding of boxes outwards: one rule, in Python, in the native backend and in Triton, also with negative edges.

And boxes of masks, which are as tight as those of NumPy's indices.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, floor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from samples import CPU_BACKENDS, make_batch
from samples import tight_boxes as expected_boxes
from segpaste._pixels import outward_box
from segpaste.augmenting.inputs import with_box_masks
from segpaste.augmenting.photos import Photo, PhotoPick, window_for
from segpaste.datasets.checking.objects import _encloses
from segpaste.datasets.conversion.masks import _in_box
from segpaste.engine import Classes, engine_for, use_backend
from segpaste.seeding import SampleKey
from segpaste.targets.annotated import Annotated, crowd_regions
from segpaste.types import DenseSample, tight_boxes
from segpaste.types.sampling import FARTHEST_EDGE, box_masks, common_boxes, outward_boxes

EDGES = (-1e30, -(2.0**30), -7.5, -1.0, -0.25, -1e-45, -0.0, 0.0, 1e-45, 0.25, 1.0, 3.999, 2.0**24, 2.0**31, 1e30)
HOSTILE = [(a, b, max(a, c), max(b, d)) for a, b, c, d in zip(EDGES, EDGES[3:], EDGES[6:], EDGES[5:], strict=False)]


def plain(box: tuple[float, ...]) -> list[int]:
    whole = [floor(box[0]), floor(box[1]), ceil(box[2]), ceil(box[3])]
    return [min(max(edge, -FARTHEST_EDGE), FARTHEST_EDGE) for edge in whole]


@given(st.lists(st.floats(-1e4, 1e4, width=32), min_size=4, max_size=4))
def test_rounding(box: list[float]) -> None:
    assert outward_boxes(torch.tensor(box)).tolist() == plain(tuple(box)) == [*outward_box(box)]
    x1, y1, x2, y2 = outward_box(box, (7, 9))
    mask = np.zeros((7, 9), bool)
    mask[y1:y2, x1:x2] = True
    assert np.array_equal(box_masks(torch.tensor(box), (7, 9)).numpy(), mask)
    assert 0 <= x1 <= x2 <= 9
    assert 0 <= y1 <= y2 <= 7


@pytest.mark.parametrize("edge", [*EDGES, float("nan"), float("inf"), -float("inf")])
def test_one_box_without_torch_rounds_as_tensors_do(edge: float) -> None:
    assert [*outward_box([edge] * 4)] == outward_boxes(torch.full((4,), edge, dtype=torch.float64)).tolist()


@pytest.mark.parametrize("backend", CPU_BACKENDS)
def test_backends_round_alike(backend: str) -> None:
    """`tests/engine/cuda_checks.py` compares the survey of Triton with that of the reference, with such boxes, too."""
    batch = make_batch(1, size=(7, 9), num_instances=0, max_instances=len(HOSTILE), modalities=())
    boxes = torch.tensor([HOSTILE])
    valid = torch.ones_like(batch.instance_valid)
    batch = replace(batch, boxes=boxes, labels=valid.long(), instance_valid=valid)
    with use_backend(backend):
        found = engine_for(batch.device).survey(batch, Classes())
    assert found.occupied[0].tolist() == [plain(box) for box in boxes[0].tolist()]


def test_common_parts_keep_the_sign_of_zero() -> None:
    box = torch.tensor([-0.0, 1.5, 4.0, -0.0])
    found = common_boxes(box, torch.tensor([0.0, 2.0, 3.0, 0.0]))
    assert torch.equal(found.view(torch.int32), torch.tensor([-0.0, 2.0, 3.0, -0.0]).view(torch.int32))


@pytest.mark.parametrize("size", [(7, 16), (9, 11), (1, 8), (8, 1)])
@pytest.mark.parametrize("part", [slice(None), slice(1, None), slice(None, None, 2), slice(0, 0)])
def test_boxes_are_tight_in_any_memory(size: tuple[int, int], part: slice) -> None:
    generator = torch.Generator().manual_seed(0)
    sparse = torch.rand(6, *size, generator=generator) > 0.93
    sparse[2], sparse[3] = False, True
    beside = torch.empty(6 * size[0] * size[1] + 1, dtype=torch.bool)[1:].view(6, *size)  # no word begins there
    for masks in (sparse, beside.copy_(sparse), sparse.mT.contiguous().mT, sparse.repeat(1, 1, 2)[..., : size[1]]):
        found = masks[part]
        assert torch.equal(tight_boxes(found), expected_boxes(found.numpy()))


@pytest.mark.parametrize("value", [1, 2, 127, 128, 255])
def test_bytes_of_masks_may_have_any_value(value: int) -> None:
    masks = torch.zeros(2, 4, 16, dtype=torch.uint8)
    masks[0, 1:3, 3:8] = value
    assert tight_boxes(masks.view(torch.bool)).tolist() == [[3, 1, 8, 3], [0, 0, 0, 0]]


class TestBoxesThatBeginBeforeTheImage:
    """Slices of negative numbers count from the other end: such boxes had no pixels, or others."""

    BOX = (-3.5, -0.5, 2.25, 3.0)

    def expected(self) -> NDArray[np.bool_]:
        mask = np.zeros((5, 8), bool)
        mask[:3, :3] = True
        return mask

    def sample(self) -> DenseSample:
        batch = make_batch(1, size=(5, 8), num_instances=1, max_instances=1, modalities=())
        return replace(batch, boxes=torch.tensor([[self.BOX]])).to_batched().to_samples()[0]

    @pytest.mark.parametrize("mask_from", ["boxes", "ellipse"])
    def test_masks_of_a_dataset(self, mask_from: str) -> None:
        masks = with_box_masks(self.sample(), mask_from).instance_masks
        assert masks is not None
        if mask_from == "boxes":
            assert np.array_equal(masks[0].numpy(), self.expected())
        else:
            assert masks.any()
            assert not (masks[0].numpy() & ~self.expected()).any()

    def test_masks_of_a_model(self) -> None:
        whole = np.ones((5, 8), bool)
        mask, covered, is_box = _in_box(whole, self.BOX)
        assert np.array_equal(mask, self.expected())
        assert (covered, is_box) == (1.0, False)
        assert np.array_equal(_in_box(~whole, self.BOX)[0], self.expected())

    def test_crowds(self) -> None:
        one = torch.ones(1, dtype=torch.int64)
        given = Annotated(torch.zeros(3, 5, 8), torch.tensor([self.BOX]), one, None, is_crowd=one.bool())
        assert np.array_equal(crowd_regions(given)[0].numpy(), self.expected())

    def test_checks(self) -> None:
        assert _encloses(self.BOX, (-4, -1, 3, 3))
        assert not _encloses(self.BOX, (-5, -1, 3, 3))

    def test_windows_stay_in_the_image(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("segpaste.augmenting.photos._LARGE_BYTES", 1)
        for seed in range(20):
            pick = PhotoPick(SampleKey(0, 0, 0, 0, seed), 0)
            window = window_for(Photo(pick, self.sample(), [1]), (2, 3), 1.0)
            assert window is not None
            top, left, height, width = window
            assert 0 <= top <= 5 - height
            assert 0 <= left <= 8 - width
