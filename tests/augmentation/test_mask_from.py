"""``source.mask_from``: boxes stand for masks as rectangles, as ellipses, or as a function draws them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor

from samples import CPU_BACKENDS, make_batch
from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig, SourceConfig
from segpaste.augmentation.masks import with_box_masks
from segpaste.engine import use_backend
from segpaste.types import PaddedBatchedDenseSample

HERE = "test_mask_from:upper_half"


def upper_half(images: Tensor, boxes: Tensor, instance_valid: Tensor) -> Tensor:
    """The upper half of each box, and more than its width; nothing in the second slot."""
    rows = torch.arange(images.shape[2])[:, None]
    masks = rows < boxes[..., 1:2, None] + (boxes[..., 3:, None] - boxes[..., 1:2, None]) / 2
    masks = masks.expand(*boxes.shape[:2], *images.shape[2:]).clone()
    masks[:, 1] = False
    return masks


def not_masks(images: Tensor, boxes: Tensor, instance_valid: Tensor) -> Tensor:
    return boxes


def touches(x: int, y: int, box: tuple[int, int, int, int]) -> bool:
    """Return whether some point of a pixel is inside the ellipse in a box, computed with fractions."""
    x1, y1, x2, y2 = box
    centre = Fraction(x1 + x2, 2), Fraction(y1 + y2, 2)
    nearest = min(max(centre[0], Fraction(x)), Fraction(x + 1)), min(max(centre[1], Fraction(y)), Fraction(y + 1))
    across, down = (nearest[0] - centre[0]) / (x2 - x1) * 2, (nearest[1] - centre[1]) / (y2 - y1) * 2
    return across**2 + down**2 < 1


def masks_of(batch: PaddedBatchedDenseSample, mask_from: str) -> Tensor:
    masks = with_box_masks(batch, mask_from).instance_masks
    assert masks is not None
    return masks


def of_box(box: tuple[float, float, float, float]) -> PaddedBatchedDenseSample:
    batch = make_batch(1, size=(17, 23), max_instances=2, num_instances=1, modalities=())
    boxes = torch.zeros(1, 2, 4)
    boxes[0, 0] = torch.tensor(box)
    return replace(batch, boxes=boxes)


@given(
    x=st.integers(0, 22), y=st.integers(0, 16), width=st.integers(1, 23), height=st.integers(1, 17), part=st.booleans()
)
@example(x=3, y=2, width=10, height=10, part=False)  # a corner of a pixel on the ellipse does not touch it
def test_an_ellipse_pixel_by_pixel(x: int, y: int, width: int, height: int, part: bool) -> None:
    box = x, y, min(x + width, 23), min(y + height, 17)
    mask = masks_of(of_box((box[0] + 0.25 * part, box[1], box[2], box[3])), "ellipse")
    expected = [
        [box[0] <= i < box[2] and box[1] <= j < box[3] and touches(i, j, box) for i in range(23)] for j in range(17)
    ]
    assert mask[0, 0].tolist() == expected
    rows, cols = mask[0, 0].any(1).nonzero(), mask[0, 0].any(0).nonzero()
    assert (int(cols.min()), int(rows.min()), int(cols.max()) + 1, int(rows.max()) + 1) == box
    assert not mask[0, 1].any()


@pytest.mark.parametrize("backend", CPU_BACKENDS)
@pytest.mark.parametrize("mask_from", ["ellipse", HERE])
def test_a_paste_is_that_of_a_batch_with_such_masks(backend: str, mask_from: str) -> None:
    batch = make_batch(4, size=(17, 11), max_instances=6, num_instances=2, modalities=("semantic",), seed=4)
    masks = masks_of(batch, mask_from)
    ids = torch.arange(1, 7, dtype=torch.int32).repeat(4, 1) * batch.instance_valid
    module = BatchCopyPaste(
        BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=SourceConfig(mask_from=mask_from))
    )
    with use_backend(backend):
        found = module(batch)
        expected = module(replace(batch, instance_masks=masks, instance_ids=ids))
    assert not torch.equal(found.images, batch.images)
    for name in ("images", "labels", "instance_valid", "semantic_maps"):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name
    assert found.instance_masks is None


def test_a_function_is_cut_to_its_boxes() -> None:
    batch = make_batch(2, size=(17, 11), max_instances=3, num_instances=2, modalities=())
    masks, boxes = masks_of(batch, HERE), masks_of(batch, "boxes")
    assert not (masks & ~boxes).any()
    assert torch.equal(masks[:, 1], boxes[:, 1]), "an object without a pixel gets its box"
    assert 0 < masks[:, 0].sum() < boxes[:, 0].sum()
    message = r"expected masks \[2, 3, 17, 11\] bool from source.mask_from='test_mask_from:not"
    with pytest.raises(ValueError, match=message):
        with_box_masks(batch, "test_mask_from:not_masks")


def test_functions_are_kept_by_name() -> None:
    config = BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=SourceConfig(mask_from=upper_half))  # type: ignore[arg-type]
    assert config.source.mask_from == HERE
    assert BatchCopyPasteConfig.model_validate_json(config.model_dump_json()) == config


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("thin_air", "expected one of boxes, ellipse, or package.module:function, got 'thin_air'"),
        ("no_such_module:f", "expected the name package.module:function of a function, found none at 'no_such_"),
        ("math:pi", "found none at 'math:pi'"),
        (lambda images, boxes, valid: boxes, "expected a function at the top level of a module"),
        (3, "got 3"),
    ],
)
def test_what_is_no_function_is_refused(value: object, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        SourceConfig(mask_from=value)  # type: ignore[arg-type]


@pytest.mark.parametrize("mask_from", ["ellipse", HERE])
def test_it_compiles_whole(mask_from: str) -> None:
    batch = make_batch(3, size=(17, 11), max_instances=4, num_instances=2, modalities=())
    module = BatchCopyPaste(
        BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=SourceConfig(mask_from=mask_from))
    )
    compiled = torch.compile(module, fullgraph=True, backend="eager")
    found, expected = compiled(batch), module(batch)
    assert torch.equal(found.images, expected.images)
    assert torch.equal(found.boxes, expected.boxes)
