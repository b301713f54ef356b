"""Painted pixels are the labelled ones, in colours of the source, mirrored about the source's own width."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from paste_cases import batches, configs
from torch import Tensor

from samples import EVERY_OBJECT, OPTIONAL, Pasted, all_modality_subsets, make_batch, paste, subset_id
from segpaste import BatchCopyPaste, BatchCopyPasteConfig, SourceStrategy
from segpaste.augmentation import PasteReport, Placement, PlacementConfig, PlacementCounts, PlacementRequest
from segpaste.augmentation.prepare import padded_to_multiple
from segpaste.engine.schema import SCALE_DEN
from segpaste.types import Modality, PaddedBatchedDenseSample

SUBSETS = [pytest.param(s, id=subset_id(s)) for s in all_modality_subsets()]
WITH_MASKS = [s for s in all_modality_subsets() if Modality.INSTANCE in s]
SIZES = [(17, 11), (11, 17), (1, 1), (1, 23), (23, 1), (2, 3), (31, 7)]


def paste_at(
    batch: PaddedBatchedDenseSample, scale: float = 1.0, flip: float = 0.0, warns: bool = False, **options: Any
) -> Pasted:
    placement = PlacementConfig(paste_prob=1.0, scale_range=(scale, scale), hflip_probability=flip)
    config = BatchCopyPasteConfig(placement=placement, source=EVERY_OBJECT, **options)
    return paste(batch, config, warns=warns)


def scene(masks: Tensor, images: Tensor, *, width: int | None = None) -> PaddedBatchedDenseSample:
    """Two images: an empty one to paste into, and one with these masks [N, H, W]; as many slots as there are masks.

    Args:
        masks: of the second image; one without a pixel has the box of the whole canvas.
        images: [2, C, H, W].
        width: valid width of the second image; what lies beyond is padding.
    """
    num, height, full_width = masks.shape
    valid = torch.tensor([[False] * num, [True] * num])
    boxes = torch.zeros(2, num, 4)
    for i, mask in enumerate(masks):
        rows, cols = mask.nonzero().unbind(1) if mask.any() else torch.ones_like(mask).nonzero().unbind(1)
        boxes[1, i] = torch.tensor([cols.min(), rows.min(), cols.max() + 1, rows.max() + 1])
    padding = torch.zeros(2, 1, height, full_width, dtype=torch.bool)
    padding[1, :, :, full_width if width is None else width :] = True
    return PaddedBatchedDenseSample(
        images=images,
        boxes=boxes,
        labels=valid * torch.arange(1, num + 1),
        instance_valid=valid,
        instance_ids=(valid * torch.arange(1, num + 1)).int(),
        instance_masks=torch.stack([torch.zeros_like(masks), masks]),
        padding_mask=padding,
        sample_seeds=torch.tensor([11, 12]),
    )


def rectangle(size: tuple[int, int], x1: int, y1: int, x2: int, y2: int) -> Tensor:
    mask = torch.zeros(1, *size, dtype=torch.bool)
    mask[:, y1:y2, x1:x2] = True
    return mask


def noise(size: tuple[int, int], low: int = 0, high: int = 255, num: int = 2) -> Tensor:
    return torch.randint(low, high + 1, (num, 3, *size), generator=torch.Generator().manual_seed(5), dtype=torch.uint8)


def assert_painted_is_labelled(
    batch: PaddedBatchedDenseSample, out: PaddedBatchedDenseSample, report: PasteReport, min_area_px: int = 1
) -> None:
    """Rows and pixels say the same, every try is accounted for, and empty rows are empty."""
    shown, is_paste = report.visible_layer, report.slot_layer >= 0
    assert torch.equal(report.num_tried, report.num_placed + report.num_dropped.sum(1))
    assert torch.equal(report.num_placed, is_paste.sum(1))
    assert torch.equal(report.num_placed, report.placement.carried.sum((1, 2)))
    assert (report.num_dropped >= 0).all()
    assert not (is_paste & ~out.instance_valid).any()
    assert torch.equal(is_paste, report.slot_source >= 0)
    for name in ("boxes", "labels", "instance_ids", "instance_masks"):
        if (value := getattr(out, name)) is not None:
            assert not value[~out.instance_valid].any(), f"stale {name}"
    num_in = batch.max_instances
    stays = out.instance_valid & ~is_paste
    assert not stays[:, num_in:].any()
    assert not (stays[:, :num_in] & ~batch.instance_valid).any()
    assert torch.equal(out.labels[:, :num_in][stays[:, :num_in]], batch.labels[stays[:, :num_in]])
    unpainted = (shown < 0)[:, None].expand_as(out.images)
    assert torch.equal(out.images[unpainted], batch.images[unpainted])
    if out.instance_masks is None:
        return
    in_layer = shown[:, None] == report.slot_layer[..., None, None]
    assert not (out.instance_masks & ~in_layer)[is_paste].any(), "a pasted mask where its layer is not seen"
    covered = (out.instance_masks & is_paste[..., None, None] & in_layer).any(1)
    assert torch.equal(covered, shown >= 0), "painted, but in no pasted row"
    assert (out.instance_masks.sum((2, 3))[out.instance_valid] >= min_area_px).all(), "a row without pixels"


class TestPaintedIsLabelled:
    @pytest.mark.parametrize("modalities", SUBSETS)
    @pytest.mark.parametrize("size", SIZES, ids=str)
    @pytest.mark.filterwarnings("ignore:BatchCopyPaste could paste nothing")
    def test_any_size(self, size: tuple[int, int], modalities: frozenset[Modality]) -> None:
        batch = make_batch(4, size=size, num_instances=[1, 0] if min(size) == 1 else [3, 0, 2], modalities=modalities)
        module = BatchCopyPaste(
            BatchCopyPasteConfig(placement=PlacementConfig(paste_prob=1.0, scale_range=(0.5, 1.0)), source=EVERY_OBJECT)
        )
        out, report = module(batch, return_report=True)
        assert_painted_is_labelled(batch, out, report)
        assert report.num_placed.any() == (Modality.INSTANCE in modalities)

    @given(st.data(), st.sampled_from(WITH_MASKS))
    @pytest.mark.filterwarnings("ignore:BatchCopyPaste could paste nothing")
    def test_anything(self, data: st.DataObject, modalities: frozenset[Modality]) -> None:
        batch, config = data.draw(batches(modalities)), data.draw(configs(modalities))
        out, report = paste(batch, config)
        padded = padded_to_multiple(batch, config.placement.pad_to_multiple or 1)
        assert_painted_is_labelled(padded, out, report, config.min_area_px)

    def test_an_object_of_one_pixel(self) -> None:
        batch = scene(rectangle((7, 5), 4, 2, 5, 3), noise((7, 5)))
        for scale, area in ((1, 1), (2, 4), (3, 9)):
            out, report = paste_at(batch, scale)
            assert_painted_is_labelled(batch, out, report)
            assert out.instance_masks[0].sum() == area
            if scale == 1:
                assert torch.equal(out.images[0][:, out.instance_masks[0, 0]], batch.images[1][:, 2, 4:5])

    def test_an_object_that_shrinks_to_nothing(self) -> None:
        batch = scene(rectangle((7, 5), 4, 2, 5, 3), noise((7, 5)))
        with pytest.warns(UserWarning, match="hidden 1"):
            out, report = paste_at(batch, 0.3, warns=True)
        assert_painted_is_labelled(batch, out, report)
        assert torch.equal(out.images, batch.images)

    @pytest.mark.parametrize("flip", [0, 1])
    def test_an_object_that_fills_the_canvas(self, flip: int) -> None:
        batch = scene(rectangle((7, 5), 0, 0, 5, 7), noise((7, 5)))
        out, report = paste_at(batch, flip=flip)
        assert_painted_is_labelled(batch, out, report)
        assert torch.equal(out.images[0], batch.images[1].flip(-1) if flip else batch.images[1])
        assert out.boxes[0, 0].tolist() == [0, 0, 5, 7]

    @pytest.mark.parametrize("corner", [(0, 0, 2, 3), (3, 0, 5, 3), (0, 4, 2, 7), (3, 4, 5, 7)])
    @pytest.mark.parametrize("flip", [0, 1])
    def test_objects_on_the_border(self, corner: tuple[int, int, int, int], flip: int) -> None:
        batch = scene(rectangle((7, 5), *corner), noise((7, 5)))
        for scale in (1.0, 1.5, 0.7):
            out, report = paste_at(batch, scale, flip)
            assert_painted_is_labelled(batch, out, report)
            assert report.num_placed.tolist() == [1, 0]
        copied, _ = paste_at(batch, 1.0, flip)
        x1, y1, x2, y2 = (int(v) for v in copied.boxes[0, 0])
        cut = batch.images[1][:, corner[1] : corner[3], corner[0] : corner[2]]
        assert torch.equal(copied.images[0][:, y1:y2, x1:x2], cut.flip(-1) if flip else cut)

    def test_an_empty_mask_marked_valid_is_no_source(self) -> None:
        masks = torch.cat([rectangle((7, 5), 0, 0, 0, 0), rectangle((7, 5), 1, 1, 3, 3)])
        batch = scene(masks, noise((7, 5)))
        out, report = paste_at(batch)
        assert_painted_is_labelled(batch.map_tensors(lambda t: t[:1]), out.map_tensors(lambda t: t[:1]), first(report))
        assert report.slot_source[0].tolist() in ([1, -1], [-1, -1])

    def test_a_box_without_extent_is_not_even_tried(self) -> None:
        batch = scene(rectangle((7, 5), 0, 0, 0, 0), noise((7, 5)))
        with pytest.warns(UserWarning, match="2 tries, no_source 2; batch at least two images"):
            paste_at(replace(batch, boxes=torch.zeros_like(batch.boxes)), warns=True)

    def test_an_empty_mask_marked_valid_loses_its_row(self) -> None:
        batch = scene(rectangle((7, 5), 0, 0, 0, 0), noise((7, 5)))
        with pytest.warns(UserWarning, match="paste nothing"):
            out, _ = paste_at(batch, warns=True)
        assert not out.instance_valid.any()
        for name in ("boxes", "labels", "instance_ids", "instance_masks"):
            assert not getattr(out, name).any(), f"stale {name}"
        assert torch.equal(out.images, batch.images)

    def test_k_range_caps_the_rows(self) -> None:
        batch = make_batch(4, num_instances=4, max_instances=12, modalities={Modality.INSTANCE})
        placement = PlacementConfig(paste_prob=1.0, scale_range=(0.5, 0.5), k_range=(2, 2), layers=2)
        out, report = paste(batch, BatchCopyPasteConfig(placement=placement, source=EVERY_OBJECT))
        assert report.num_tried.tolist() == [2] * 4
        assert_painted_is_labelled(batch, out, report)


def first(report: PasteReport) -> PasteReport:
    """The report of the first image."""
    placement = replace(report.placement, carried=report.placement.carried[:1])
    values = {n: getattr(report, n)[:1] for n in PasteReport.__slots__ if n != "placement"}
    return PasteReport(**values, placement=placement)


class TestColour:
    @pytest.mark.parametrize("flip", [0, 1])
    @pytest.mark.parametrize("scale", [0.4, 0.5, 0.8, 1.0, 1.3, 2.0])
    @pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
    @pytest.mark.parametrize("antialias", [True, False])
    def test_no_dark_fringe(self, dtype: torch.dtype, scale: float, flip: int, antialias: bool) -> None:
        """Objects that touch black padding keep to the colours of the picture."""
        size, width = (19, 23), 9
        images = noise(size, 180, 220).to(dtype)
        images[1, :, :, width:] = 0
        batch = scene(rectangle(size, 3, 2, width, 8), images, width=width)
        out, report = paste_at(batch, scale, flip, antialias=antialias)
        assert report.num_placed[0] == 1
        assert out.images[0].min() >= 180
        assert out.images[0].max() <= 220
        assert not torch.equal(out.images[0], images[0])

    def test_shrinking_is_filtered(self) -> None:
        """A third of a checkerboard hits every third square when it is sampled, and is grey when it is filtered."""
        size = (30, 30)
        rows, cols = torch.arange(30)[:, None], torch.arange(30)
        images = noise(size)
        images[1] = ((rows + cols) % 2 * 255).to(torch.uint8)
        batch = scene(rectangle(size, 6, 6, 24, 24), images)
        filtered, report = paste_at(batch, 1 / 3, antialias=True)
        sampled, other = paste_at(batch, 1 / 3, antialias=False)
        assert torch.equal(report.visible_layer, other.visible_layer)
        mask = filtered.instance_masks[0, 0]
        assert mask.sum() == 36
        assert (filtered.images[0][:, mask].float() - 127.5).abs().max() < 16
        assert (sampled.images[0][:, mask].float() - 127.5).abs().min() > 110

    @pytest.mark.parametrize("scale", [1.0, 1.7])
    def test_enlarging_is_not(self, scale: float) -> None:
        batch = scene(rectangle((19, 23), 3, 2, 9, 8), noise((19, 23)))
        one, other = (paste_at(batch, scale, antialias=a)[0] for a in (True, False))
        assert torch.equal(one.images, other.images)


class TestFlip:
    MODALITIES = frozenset(OPTIONAL) - {Modality.PANOPTIC}

    @pytest.mark.parametrize("scale", [0.5, 0.77, 1.0, 1.3])
    @pytest.mark.parametrize("right", [0, 1, 4])
    def test_pasting_mirrored_is_pasting_the_mirror_image(self, right: int, scale: float) -> None:
        """The mirror stands in the middle of the picture, wherever the canvas ends."""
        batch = make_batch(
            2, num_instances=[0, 2], size=(17, 13), modalities=self.MODALITIES, padding=(0, right), seed=3
        )
        batch = replace(batch, padding_mask=batch.padding_mask & torch.tensor([False, True])[:, None, None, None])
        flipped, report = paste_at(batch, scale, flip=1)
        expected, other = paste_at(mirrored(batch, 13 - right), scale, flip=0)
        assert report.num_placed[0] > 0
        assert torch.equal(report.placement.translate[0], other.placement.translate[0])
        for name in ("images", "instance_masks", "boxes", "labels", "semantic_maps", "depth", "depth_valid", "normals"):
            assert torch.equal(getattr(flipped, name)[0], getattr(expected, name)[0]), name

    def test_an_edge_x_goes_to_the_width_less_x(self) -> None:
        width, (x1, x2) = 9, (2, 5)
        batch = scene(rectangle((7, 12), x1, 1, x2, 4), noise((7, 12)), width=width)
        out, report = paste_at(batch, flip=1)
        shift = int(report.placement.translate[0, 0, 0])
        assert out.boxes[0, 0, [0, 2]].tolist() == [width - x2 + shift, width - x1 + shift]


def mirrored(batch: PaddedBatchedDenseSample, width: int) -> PaddedBatchedDenseSample:
    """The batch with the picture of its second image, ``width`` columns, mirrored left to right."""

    def flip(value: Tensor) -> Tensor:
        value = value.clone()
        value[1, ..., :width] = value[1, ..., :width].flip(-1)
        return value

    x1, y1, x2, y2 = batch.boxes[1].unbind(-1)
    boxes = torch.stack([batch.boxes[0], torch.stack([width - x2, y1, width - x1, y2], -1)])
    normals = flip(batch.normals)
    normals[1, 0] = -normals[1, 0]
    names = ("images", "instance_masks", "semantic_maps", "depth", "depth_valid")
    flipped = {name: flip(getattr(batch, name)) for name in names}
    return replace(batch, boxes=boxes * batch.instance_valid[..., None], normals=normals, **flipped)


class FixedRow:
    """Source that copies the first instance of one row to where it is, into every image but that row's."""

    def __init__(self, row: int) -> None:
        self.row = row

    def sample(
        self, target: PaddedBatchedDenseSample, eligible: Tensor, request: PlacementRequest
    ) -> tuple[PaddedBatchedDenseSample, Placement, PlacementCounts]:
        num = target.batch_size
        valid = (torch.arange(num) != self.row)[:, None] & eligible[self.row, 0]
        carried = torch.zeros(num, 1, target.max_instances, dtype=torch.bool)
        carried[:, :, 0] = valid
        zero = torch.zeros(num, 1, dtype=torch.int64)
        none = torch.zeros(num, dtype=torch.int64)
        pair = torch.zeros(num, 1, 2, dtype=torch.int64)
        maps = pair + SCALE_DEN, pair + SCALE_DEN, pair, zero > 0
        placement = Placement(zero + self.row, valid, *maps, carried)
        return target, placement, PlacementCounts(valid.sum(1), none, none, none)


class TestSourceStrategy:
    @pytest.mark.parametrize("row", [0, 1, 2])
    def test_a_custom_one(self, row: int) -> None:
        strategy = FixedRow(row)
        assert isinstance(strategy, SourceStrategy)
        batch = make_batch(modalities={Modality.INSTANCE, Modality.SEMANTIC, Modality.NORMALS})
        out, report = paste(
            batch, BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=EVERY_OBJECT), source=strategy
        )
        assert report.num_placed.tolist() == [int(b != row) for b in range(3)]
        assert_painted_is_labelled(batch, out, report)
        for b in range(3):
            shown = report.visible_layer[b] >= 0
            assert not (shown & ~batch.instance_masks[row, 0]).any()
            for name in ("images", "semantic_maps", "normals"):
                value, source, target = (getattr(x, name) for x in (out, batch, batch))
                expected = torch.where(shown, source[row], target[b])
                torch.testing.assert_close(value[b], expected, rtol=0, atol=1e-6 if name == "normals" else 0)

    def test_something_else_is_none(self) -> None:
        assert not isinstance(object(), SourceStrategy)
