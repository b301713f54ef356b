"""Guarantees of the placement options, by every kernel: one object a layer, sizes, cuts, edges on patches."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from chi_square import assert_uniform
from paste_cases import placed
from pydantic import ValidationError

from samples import CPU_BACKENDS, Pasted, make_batch, paste, put_box
from segpaste.augmentation import (
    BatchCopyPaste,
    BatchCopyPasteConfig,
    Placement,
    PlacementConfig,
    SizeRange,
    num_mixed_tokens,
)
from segpaste.augmentation.rules import smallest_scale
from segpaste.engine.reference import geometry
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.sampling import outward_boxes

KERNELS = pytest.mark.parametrize("kernels", CPU_BACKENDS)
BOXES = ((0, 0, 9, 14), (20, 3, 37, 15), (5, 20, 33, 43), (40, 30, 47, 59))
"""Objects of the batches below, each filling its box."""


def rectangles(size: tuple[int, int] = (64, 64), num: int = 6, seed: int = 0) -> PaddedBatchedDenseSample:
    """Images with the same four objects each, of classes 1 to 4, and room for twelve more."""
    batch = make_batch(num, size=size, num_instances=0, max_instances=16, modalities=("instance",), seed=seed)
    for k, box in enumerate(BOXES):
        put_box(batch, slice(None), k, box, k + 1)
    return batch


def pasted(kernels: str, batch: PaddedBatchedDenseSample, **placement: Any) -> Pasted:
    config = BatchCopyPasteConfig(placement={"paste_prob": 1.0, **placement})
    return paste(batch, config, backend=kernels, seed=0)


def placed_with(kernels: str, batch: PaddedBatchedDenseSample, seed: int = 0, **options: Any) -> Placement:
    """The drawn placement alone, without its pixels."""
    paste = BatchCopyPaste(BatchCopyPasteConfig(placement={"paste_prob": 1.0, **options}))
    return placed(kernels, batch, paste, torch.Generator().manual_seed(seed))


def drawn_boxes(batch: PaddedBatchedDenseSample, placement: Placement) -> torch.Tensor:
    """Return the boxes of the objects of each layer after placement, cut or not, [B, L, K, 4]."""
    boxes = outward_boxes(batch.boxes)[placement.source_idx]
    extent = torch.tensor(batch.canvas_size[::-1]).expand(*placement.source_idx.shape, 2)
    boxes = geometry.oriented(boxes, extent, placement.orientation)
    boxes = geometry.scaled_boxes(boxes, placement.scale_num[:, :, None], placement.scale_den[:, :, None])
    return boxes + placement.translate.repeat(1, 1, 2)[:, :, None]


@KERNELS
class TestOneObjectForEachLayer:
    def test_each_has_its_own_map_and_none_comes_twice(self, kernels: str) -> None:
        batch = rectangles()
        placement = placed_with(kernels, batch, grouping="instance", layers=8)
        assert (placement.carried.sum(2) <= 1).all()
        assert placement.carried.sum() > 30
        for b in range(batch.batch_size):
            taken = [(int(placement.source_idx[b, j]), k) for j, k in placement.carried[b].nonzero().tolist()]
            assert len(set(taken)) == len(taken)
            assert len(set(placement.scale_num[b, :, 0].tolist())) == 8

    def test_a_source_with_fewer_objects_than_layers_is_dealt_out(self, kernels: str) -> None:
        batch = rectangles(num=2)
        placement = placed_with(kernels, batch, grouping="instance", layers=7, scale_range=(0.5, 0.5))
        assert (placement.carried.sum(1)[:, :4] == 1).all()
        assert (placement.carried.sum((1, 2)) == 4).all()

    def test_all_objects_and_layers_are_taken_alike(self, kernels: str) -> None:
        slots, layers = np.zeros(4, np.int64), np.zeros(5, np.int64)
        batch = rectangles(num=8)
        for seed in range(60):
            options = {"grouping": "instance", "layers": 5, "k_range": (2, 2), "scale_range": (0.5, 0.5)}
            _, at_layer, at_slot = placed_with(kernels, batch, seed, **options).carried.nonzero(as_tuple=True)
            np.add.at(slots, at_slot.numpy(), 1)
            np.add.at(layers, at_layer.numpy(), 1)
        assert slots.sum() == 60 * 8 * 2
        assert_uniform(slots)
        assert_uniform(layers)


@KERNELS
class TestSizes:
    OPTIONS: ClassVar[dict[str, Any]] = {"grouping": "instance", "layers": 8, "scale_range": (0.1, 8.0)}

    def test_the_longer_side_is_as_long_as_drawn(self, kernels: str) -> None:
        batch = rectangles()
        placement = placed_with(kernels, batch, **self.OPTIONS, size_range=SizeRange(low=10, high=20))
        boxes = drawn_boxes(batch, placement)[placement.carried]
        longer = (boxes[:, 2:] - boxes[:, :2]).amax(1)
        assert len(longer) > 20
        assert longer.min() >= 9
        assert longer.max() <= 21
        assert longer.unique().numel() > 5

    def test_classes_have_their_own(self, kernels: str) -> None:
        batch = rectangles()
        sizes = {2: SizeRange(low=5, high=5), 4: SizeRange(low=30, high=30)}
        placement = placed_with(kernels, batch, **self.OPTIONS, class_sizes=sizes)
        boxes, carried = drawn_boxes(batch, placement), placement.carried
        longer = (boxes[..., 2:] - boxes[..., :2]).amax(-1)
        for label, size in ((2, 5), (4, 30)):
            found = longer[..., label - 1][carried[..., label - 1]]
            assert len(found) > 2
            assert ((found - size).abs() <= 1).all()
        others = placement.scale_num[carried[..., 0]]
        assert others.unique().numel() > 2

    def test_the_scale_stays_in_its_range(self, kernels: str) -> None:
        options = self.OPTIONS | {"scale_range": (0.5, 1.5)}
        placement = placed_with(kernels, rectangles(), **options, size_range=SizeRange(low=1, high=1))
        scale = placement.scale_num / placement.scale_den
        assert (scale[placement.carried.any(2)] == 0.5).all()


@KERNELS
class TestCutObjects:
    @pytest.mark.parametrize("least", [0.25, 0.5, 0.9])
    def test_enough_of_each_stays(self, kernels: str, least: float) -> None:
        batch = rectangles()
        options = {"partial": "clip", "min_visible_frac": least, "grouping": "instance", "layers": 8}
        num_cut = 0
        for seed in range(5):
            placement = placed_with(kernels, batch, seed, **options)
            for x1, y1, x2, y2 in drawn_boxes(batch, placement)[placement.carried].tolist():
                seen = (min(x2, 64) - max(x1, 0)) * (min(y2, 64) - max(y1, 0))
                assert Fraction(seen, (x2 - x1) * (y2 - y1)) >= Fraction(str(least))
                num_cut += seen < (x2 - x1) * (y2 - y1)
        assert num_cut > 5

    def test_of_each_group_what_leaves_is_cut(self, kernels: str) -> None:
        batch = rectangles()
        large: dict[str, Any] = {"scale_range": (1.0, 2.0), "scale_to_fit": False}
        whole = placed_with(kernels, batch, partial="drop", **large)
        cut = placed_with(kernels, batch, partial="clip", **large, min_visible_frac=0.3)
        assert cut.carried.sum() > whole.carried.sum()


SQUARE, TALL, ODD = (448, 448), (448, 672), (450, 333)


@KERNELS
class TestPatches:
    @pytest.mark.parametrize("size", [SQUARE, TALL, ODD], ids=str)
    @pytest.mark.parametrize("patch", [8, 14, 16, 28, 32])
    def test_objects_lie_on_whole_patches_and_stay(self, kernels: str, patch: int, size: tuple[int, int]) -> None:
        """No edge is off the grid, and at least 95 % as many pastes are placed as without alignment."""
        batch = rectangles(size, num=4)
        options = {"grouping": "instance", "layers": 8, "pad_to_multiple": patch}
        num_free = num_aligned = 0
        for seed in range(12):
            num_free += int(placed_with(kernels, batch, seed, **options).carried.sum())
            placement = placed_with(kernels, batch, seed, **options, patch_aligned_paste=True, align="instance")
            num_aligned += int(placement.carried.sum())
            edges = drawn_boxes(batch, placement)[placement.carried]
            assert (edges % patch == 0).all()
        assert num_aligned >= 0.95 * num_free

    def test_no_axis_is_scaled_by_less_than_the_filter_has_taps_for(self, kernels: str) -> None:
        """This also holds where only one patch has room."""
        batch = rectangles((20, 70), num=4)
        batch.boxes[:, 0] = torch.tensor([0.0, 0, 70, 20])
        options = {"pad_to_multiple": 14, "patch_aligned_paste": True, "align": "instance", "grouping": "instance"}
        config = PlacementConfig(**options, paste_prob=1.0, scale_range=(0.35, 1.2), layers=8)
        for seed in range(20):
            placement = placed_with(kernels, batch, seed, **config.model_dump())
            scale = placement.scale_num / placement.scale_den
            assert scale.min() >= smallest_scale(config)

    def test_no_token_is_mixed(self, kernels: str) -> None:
        """The objects fill their boxes."""
        batch = rectangles((90, 75), num=3)
        options = {"grouping": "instance", "layers": 4, "pad_to_multiple": 8, "patch_aligned_paste": True}
        out, report = pasted(kernels, batch, **options, align="instance")
        assert out.canvas_size == (96, 80)
        assert report.num_placed.sum() > 6
        assert not num_mixed_tokens(report.visible_layer, 8).any()
        assert num_mixed_tokens(pasted(kernels, batch, **options)[1].visible_layer, 8).any()

    @pytest.mark.parametrize("patch", [8, 14, 16, 28, 32])
    @pytest.mark.parametrize("hflip", [0.0, 1.0])
    def test_the_canvas_lies_on_whole_patches(self, kernels: str, patch: int, hflip: float) -> None:
        batch = rectangles(SQUARE, num=4)
        options = {"pad_to_multiple": patch, "patch_aligned_paste": True, "layers": 2, "hflip_probability": hflip}
        placement = placed_with(kernels, batch, **options)
        height, width = (-(-side // patch) * patch for side in SQUARE)
        edges = placement.scale_num * torch.tensor([width, height])
        assert (edges % (placement.scale_den * patch) == 0).all()
        assert (placement.translate % patch == 0).all()
        scale = placement.scale_num / placement.scale_den
        assert scale.min() >= 0.5
        assert scale.max() <= 2
        assert scale.unique().numel() > 3
        assert placement.carried.any()

    def test_a_grid_without_a_scale_says_so(self, kernels: str) -> None:
        options = {"pad_to_multiple": 14, "patch_aligned_paste": True, "scale_range": (0.5, 0.6)}
        with pytest.raises(RuntimeError, match=r"multiples of 14/14 in scale_range=\(0.5, 0.6\)"):
            placed_with(kernels, rectangles((518, 686), num=2), **options)

    def test_a_canvas_of_whole_patches_is_not_padded(self, kernels: str) -> None:
        batch = rectangles(num=2)
        out, _ = pasted(kernels, batch, pad_to_multiple=16)
        assert out.canvas_size == (64, 64)
        assert out.padding_mask is None


class TestMixedTokens:
    def test_counts_patches_that_show_more_than_one_layer(self) -> None:
        layer = torch.full((2, 5, 6), -1, dtype=torch.int16)
        layer[0, 1, 1] = 0  # one
        layer[0, 2:4, 4:6] = 0  # whole: none
        layer[0, 4, 0], layer[0, 4, 1] = 0, 1  # at the canvas' edge
        assert num_mixed_tokens(layer, 2).tolist() == [2, 0]
        with pytest.raises(ValueError, match="patch_size >= 1, got 0"):
            num_mixed_tokens(layer, 0)


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"patch_aligned_paste": True}, "expected pad_to_multiple"),
            ({"align": "instance"}, "expected patch_aligned_paste=True"),
            ({"align": "instance", "patch_aligned_paste": True, "pad_to_multiple": 8}, "expected grouping='instance'"),
            ({"size_range": {"low": 1, "high": 2}}, "expected grouping='instance'"),
            ({"grouping": "instance", "size_range": {"low": 3, "high": 2}}, "expected low <= high"),
            ({"grouping": "instance", "class_sizes": {-1: {"low": 1, "high": 2}}}, "expected class ids from 0"),
            ({"grouping": "class"}, "grouping"),
            ({"pad_to_multiple": 0}, "pad_to_multiple"),
            ({"min_visible_frac": 1.5}, "min_visible_frac"),
            ({"min_visible_frac": 0.4}, "min_visible_frac: expected partial='clip'.*got partial='drop' and 0.4"),
        ],
        ids=str,
    )
    def test_when_the_config_is_made(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ValidationError, match=message):
            PlacementConfig(**options)

    def test_sizes_survive_a_file(self, tmp_path: Any) -> None:
        placement = PlacementConfig(paste_prob=1.0, grouping="instance", class_sizes={3: SizeRange(low=1, high=2)})
        config = BatchCopyPasteConfig(placement=placement)
        for name in ("config.yaml", "config.json"):
            config.save(tmp_path / name)
            assert BatchCopyPasteConfig.load(tmp_path / name) == config

    def test_in_place_on_a_canvas_that_must_grow(self) -> None:
        config = BatchCopyPasteConfig(placement=PlacementConfig(paste_prob=1.0, pad_to_multiple=14))
        with pytest.raises(ValueError, match="multiples of pad_to_multiple=14 because inplace=True"):
            BatchCopyPaste(config, inplace=True)(rectangles(num=2))
