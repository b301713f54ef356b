"""Objects that stay where they are, come from their own image, or are cut by its border, by every backend."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from samples import CPU_BACKENDS, Pasted, make_batch, paste, put_box
from segpaste.augmentation import DROP_REASONS, BatchCopyPasteConfig, IntraBatchSource, SourceConfig
from segpaste.types import PaddedBatchedDenseSample

pytestmark = pytest.mark.parametrize("kernels", CPU_BACKENDS)

SIZE = (40, 60)
INNER, LEFT, CORNER = (22, 12, 31, 17), (0, 20, 9, 33), (48, 30, 60, 40)
"""A whole object, one cut on the left, one cut on the right and below."""


def boxes_batch(*boxes: tuple[int, int, int, int], num: int = 3, size: tuple[int, int] = SIZE) -> Any:
    """Images with the same objects, each filling its box, and as many free slots."""
    batch = make_batch(num, size=size, num_instances=0, max_instances=3 * len(boxes), modalities=("instance",), seed=4)
    for k, box in enumerate(boxes):
        put_box(batch, slice(None), k, box, k + 1)
    return batch


def pasted(kernels: str, batch: PaddedBatchedDenseSample, source: Any = None, **placement: Any) -> Pasted:
    placement = {"paste_prob": 1.0, **placement}
    config = BatchCopyPasteConfig(placement=placement, source=SourceConfig(**(source or {})))
    return paste(batch, config, backend=kernels, warns=True)


def new_boxes(pasted: Pasted, row: int) -> list[tuple[int, ...]]:
    """Boxes of the pastes in a row."""
    out, report = pasted
    return sorted(tuple(box.int().tolist()) for box in out.boxes[row][report.slot_layer[row] >= 0])


class TestKeep:
    def test_objects_are_copied_to_their_own_pixels(self, kernels: str) -> None:
        batch = boxes_batch(INNER, LEFT, num=2)
        out, report = pasted(kernels, batch, position="keep", hflip_probability=0.0, k_range=(2, 2))
        assert (report.num_placed == 2).all()
        for row, (x1, y1, x2, y2) in ((0, INNER), (1, LEFT)):
            assert torch.equal(out.images[row, :, y1:y2, x1:x2], batch.images[1 - row, :, y1:y2, x1:x2])

    def test_a_flip_mirrors_the_place(self, kernels: str) -> None:
        out, report = pasted(kernels, boxes_batch(INNER, num=2), position="keep", hflip_probability=1.0, k_range=(1, 1))
        assert (report.num_placed == 1).all()
        assert new_boxes((out, report), 0) == [(60 - 31, 12, 60 - 22, 17)]

    @pytest.mark.parametrize("scale", [0.5, 1.75])
    def test_the_centre_stays_at_other_scales(self, kernels: str, scale: float) -> None:
        out, report = pasted(
            kernels, boxes_batch(INNER, num=2), position="keep", scale_range=(scale, scale), hflip_probability=0.0
        )
        assert (report.num_placed == 1).all()
        ((x1, y1, x2, y2),) = new_boxes((out, report), 0)
        assert abs((x1 + x2) - (22 + 31)) <= 1
        assert abs((y1 + y2) - (12 + 17)) <= 1
        assert abs((x2 - x1) - 9 * scale) <= 1

    def test_the_place_in_a_smaller_picture_does_not_fit(self, kernels: str) -> None:
        """The second image is 20 columns wide: what stands to the right of them in the first has no place there."""
        batch = boxes_batch(INNER, (3, 4, 10, 9), num=2)
        padding = torch.zeros(2, 1, *SIZE, dtype=torch.bool)
        padding[1, ..., 20:] = True
        batch.instance_masks[1, 0], batch.boxes[1, 0], batch.labels[1, 0] = False, 0, 0
        batch.instance_valid[1, 0], batch.instance_ids[1, 0] = False, 0
        batch.images[1, ..., 20:] = 0
        batch = replace(batch, padding_mask=padding)
        out, report = pasted(kernels, batch, position="keep", hflip_probability=0.0, k_range=(2, 2))
        assert report.num_dropped[1, DROP_REASONS.index("does_not_fit")] == 1
        assert report.num_placed.tolist() == [1, 1]
        assert new_boxes((out, report), 0) == [(3, 4, 10, 9)]


class TestSameImage:
    def test_every_layer_reads_its_own_row(self, kernels: str) -> None:
        batch = boxes_batch(INNER, LEFT)
        out, report = pasted(kernels, batch, {"kind": "same_image"}, layers=2, scale_range=(0.5, 1.0))
        rows = torch.arange(3)[:, None].expand(3, 2)
        assert torch.equal(report.placement.source_idx, rows)
        assert report.placement.layer_valid.all()
        assert (out.instance_valid.sum(1) == 2 + report.num_placed).all()
        assert report.num_placed.sum() >= 6

    def test_one_image_is_enough(self, kernels: str) -> None:
        _, report = pasted(kernels, boxes_batch(INNER, num=1), {"kind": "same_image"}, scale_range=(0.5, 1.0))
        assert report.num_placed.tolist() == [1]

    def test_a_mirrored_twin(self, kernels: str) -> None:
        """The pixels of the left object come to lie on the right, mirrored; the object itself stays."""
        batch = boxes_batch(LEFT, num=1)
        out, report = pasted(kernels, batch, {"kind": "same_image"}, position="keep", hflip_probability=1.0)
        assert new_boxes((out, report), 0) == [(51, 20, 60, 33)]
        assert torch.equal(out.images[0, :, 20:33, 51:60], batch.images[0, :, 20:33, 0:9].flip(-1))
        assert torch.equal(out.instance_masks[0, 0], batch.instance_masks[0, 0])

    def test_an_image_without_objects_has_no_source(self, kernels: str) -> None:
        batch = boxes_batch(INNER, num=2)
        for name in ("instance_masks", "boxes", "labels", "instance_valid", "instance_ids"):
            getattr(batch, name)[1] = 0
        _, report = pasted(kernels, batch, {"kind": "same_image"}, scale_range=(0.5, 1.0))
        assert report.num_placed.tolist() == [1, 0]
        assert report.num_dropped[:, DROP_REASONS.index("no_source")].tolist() == [0, 1]

    def test_the_source_and_the_config_agree(self, kernels: str) -> None:
        config = BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=SourceConfig(kind="same_image"))
        with pytest.raises(ValueError, match=r"expected source\.kind='intra_batch'.*got 'same_image'"):
            paste(boxes_batch(INNER), config, IntraBatchSource(), backend=kernels)
        with pytest.raises(ValueError, match="expected kind 'intra_batch' or 'same_image', got 'elsewhere'"):
            IntraBatchSource("elsewhere")  # type: ignore[arg-type]


class TestWholeOnly:
    def test_cut_objects_are_no_sources(self, kernels: str) -> None:
        batch, whole = boxes_batch(INNER, LEFT, CORNER), {"whole_only": True}
        for seed in range(4):
            batch = replace(batch, sample_seeds=torch.arange(3) + 10 * seed)
            _, report = pasted(kernels, batch, whole, scale_range=(0.5, 1.0))
            assert report.num_tried.tolist() == [1, 1, 1]
            assert not report.drawn[..., 1:].any()
            assert report.drawn[..., 0].all()

    def test_nothing_whole_is_no_source(self, kernels: str) -> None:
        with pytest.warns(UserWarning, match="whole_only=False"):
            _, report = pasted(kernels, boxes_batch(LEFT, CORNER), {"whole_only": True})
        assert (report.num_dropped[:, DROP_REASONS.index("no_source")] == 1).all()

    def test_the_border_of_the_picture_not_of_the_canvas(self, kernels: str) -> None:
        """The inner object ends where the padding begins, to the right and below."""
        batch = boxes_batch(INNER)
        for dim, first in ((2, 17), (3, 31)):
            edge = torch.zeros(3, 1, *SIZE, dtype=torch.bool)
            edge.index_fill_(dim, torch.arange(first, edge.shape[dim]), True)
            with pytest.warns(UserWarning, match="could paste nothing"):
                _, report = pasted(kernels, replace(batch, padding_mask=edge), {"whole_only": True})
            assert not report.num_placed.any()

    @pytest.mark.parametrize(("flip", "scale", "num"), [(0.0, 1.0, 3), (1.0, 1.0, 3), (0.0, 0.75, 1), (1.0, 0.75, 1)])
    def test_a_cut_on_the_border_does_not_show(self, kernels: str, flip: float, scale: float, num: int) -> None:
        """Kept objects at scale 1 end at the same border, mirrored or not; smaller ones end within the picture."""
        options = {"position": "keep", "hflip_probability": flip, "k_range": (1, 1), "scale_range": (scale, scale)}
        kept = set()
        for seed in range(12):
            batch = replace(boxes_batch(INNER, LEFT, CORNER), sample_seeds=torch.arange(3) + 3 * seed)
            _, report = pasted(kernels, batch, {"whole_only": True}, **options)
            kept |= {k for _, _, k in report.drawn.nonzero().tolist()}
        assert len(kept) == num
        assert 0 in kept
