"""Number of pastes that alignment keeps, on every canvas and patch of the documentation, of images and of a bank."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import pytest
import torch
from placement_inputs import request
from staged_cases import make_staged

from samples import CPU_BACKENDS, make_batch
from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig, PlacementConfig, SourceConfig
from segpaste.augmentation.sources.strategies import LayerSources, Placement, PlacementRequest, draw_placement
from segpaste.engine import Sources, engine_for, use_backend

Size = tuple[int, int]

TABLE: tuple[Size, ...] = ((448, 448), (518, 518), (448, 672), (333, 450))
CASES = [(size, patch) for size in TABLE for patch in (8, 14, 16, 28, 32)]
CASES += [((90, 120), 14), ((240, 320), 14), ((480, 640), 14), ((96, 128), 14), ((96, 128), 16)]
COARSE = [((90, 120), 14), ((240, 320), 14), ((96, 128), 14), ((96, 128), 16)]
ON_EVERY_CANVAS = pytest.mark.parametrize(("size", "patch"), CASES, ids=lambda v: str(v).replace(" ", ""))
OBJECTS: dict[str, Any] = {"grouping": "instance", "layers": 6}
ALIGNED: dict[str, Any] = {"patch_aligned_paste": True}
NUM = 64


def rectangles(canvas: Size, num_rows: int, num_boxes: int, least: int, most: int) -> torch.Tensor:
    """Return random pixel boxes inside a canvas, [num_rows, num_boxes, 4] int64, with sides from least to most."""
    generator = torch.Generator().manual_seed(0)
    sides = torch.randint(least, most + 1, (num_rows, num_boxes, 2), generator=generator)
    room = torch.tensor(canvas[::-1]) - sides
    corner = (torch.rand(num_rows, num_boxes, 2, generator=generator) * (room + 1)).long()
    return torch.cat([corner, corner + sides], -1)


def drawn(made: PlacementRequest, eligible: torch.Tensor) -> Placement:
    """Return what every image draws from the other ones."""
    sources = Sources(eligible, made.occupied, torch.zeros_like(made.occupied[..., 0]), made.extent)
    engine = engine_for(made.seeds.device)
    return engine.draw(made.targets, sources, made.schedule.tables, made.rules(), "others")[0]


def from_images(size: Size, patch: int, boxes: torch.Tensor, **options: Any) -> Placement:
    """Return what every image of a batch draws from the others, drawn by the loops."""
    padded = -(-size[0] // patch) * patch, -(-size[1] // patch) * patch
    common = {"extent": size[::-1], "num_free": 99, "pad_to_multiple": patch, "scale_range": (0.5, 2.0)}
    made = request(torch.arange(len(boxes)), **common, **options)
    made = replace(made, occupied=boxes, canvas_size=padded)
    eligible = torch.ones(boxes.shape[:2], dtype=torch.bool)
    return drawn(made, eligible)


def from_bank(size: Size, patch: int, boxes: torch.Tensor, side: int, **options: Any) -> Placement:
    """Return what every image draws from four square crops of its own, drawn by torch operations."""
    padded = -(-size[0] // patch) * patch, -(-size[1] // patch) * patch
    shape = boxes.shape[:2]
    common = {"extent": size[::-1], "num_free": 99, "pad_to_multiple": patch, "scale_range": (0.5, 2.0)}
    made = request(torch.arange(len(boxes)), **common, grouping="instance", layers=shape[1], **options)
    crops = LayerSources(
        source_idx=torch.arange(shape[0] * shape[1]).view(shape),
        layer_valid=torch.ones(shape, dtype=torch.bool),
        extent=torch.full((*shape, 2), side),
        boxes=boxes[:, :, None],
        labels=torch.zeros(*shape, 1, dtype=torch.int64),
        eligible=torch.ones(*shape, 1, dtype=torch.bool),
        canvas_size=(side, side),
    )
    return draw_placement(replace(made, canvas_size=padded), crops)[0]


def share_kept(free: Placement, aligned: Placement) -> float:
    """Return which part of the pastes of one placement the other one has too."""
    return int((free.carried & aligned.carried).sum()) / int(free.carried.sum())


@ON_EVERY_CANVAS
class TestPastesStay:
    """At least 95 % of the very pastes that are placed without alignment, at the same seeds."""

    @pytest.mark.parametrize("most", [1 / 3, 0.9])
    def test_of_images(self, size: Size, patch: int, most: float) -> None:
        boxes = rectangles(size, NUM, 5, min(size) // 16, int(min(size) * most))
        group, each = from_images(size, patch, boxes), from_images(size, patch, boxes, **OBJECTS)
        assert share_kept(group, from_images(size, patch, boxes, **ALIGNED)) >= 0.95
        assert share_kept(each, from_images(size, patch, boxes, **OBJECTS, **ALIGNED)) >= 0.95
        assert share_kept(each, from_images(size, patch, boxes, **OBJECTS, **ALIGNED, align="instance")) >= 0.95

    def test_of_images_whose_pastes_are_cut(self, size: Size, patch: int) -> None:
        """The number of pastes is the same, not the pastes: places over the border are drawn again."""
        boxes = rectangles(size, NUM, 5, min(size) // 16, min(size) // 2)
        cut: dict[str, Any] = {"partial": "clip", "scale_to_fit": False}  # else hardly anything is cut off the grid
        free = from_images(size, patch, boxes, **cut)
        assert from_images(size, patch, boxes, **cut, **ALIGNED).carried.sum() >= 0.95 * free.carried.sum()

    @pytest.mark.parametrize("side", [64, 224])
    def test_of_a_bank(self, size: Size, patch: int, side: int) -> None:
        boxes = rectangles((side, side), NUM, 4, side // 4, side)
        for align, scale_to_fit in (("canvas", False), ("instance", False), ("instance", True)):
            free = from_bank(size, patch, boxes, side, scale_to_fit=scale_to_fit)
            aligned = from_bank(size, patch, boxes, side, **ALIGNED, align=align, scale_to_fit=scale_to_fit)
            assert share_kept(free, aligned) >= 0.95, align


@pytest.mark.parametrize(("size", "patch"), COARSE, ids=lambda v: str(v).replace(" ", ""))
@pytest.mark.parametrize("align", ["canvas", "instance"])
def test_they_are_seen(size: Size, patch: int, align: str) -> None:
    """At least 95 % as many end in the output: on a coarse grid layers do not hide one another more than off it."""
    boxes = rectangles(size, NUM, 5, min(size) // 16, min(size) // 3)
    seen = []
    for options in ({}, {**ALIGNED, "align": align}):
        placement = from_images(size, patch, boxes, **OBJECTS, **options)
        seen.append(num_seen(placement, boxes, size))
    assert seen[1] >= 0.95 * seen[0]


def num_seen(placement: Placement, boxes: torch.Tensor, size: Size) -> int:
    """Return how many pastes show a pixel where each fills its box, later layers over earlier ones."""
    total = 0
    for b in range(48):
        canvas = torch.full(size, -1)
        for j, k in placement.carried[b].nonzero().tolist():
            box = boxes[placement.source_idx[b, j], k].tolist()
            if placement.hflip[b, j]:
                box[0], box[2] = size[1] - box[2], size[1] - box[0]
            num, den, move = (t[b, j].tolist() for t in (placement.scale_num, placement.scale_den, placement.translate))
            x1, y1, x2, y2 = (-((den[i % 2] - 2 * num[i % 2] * v) // (2 * den[i % 2])) for i, v in enumerate(box))
            canvas[y1 + move[1] : y2 + move[1], x1 + move[0] : x2 + move[0]] = j
        total += int((canvas.unique() >= 0).sum())
    return total


class TestDraws:
    def test_every_scale_that_fits_is_drawn_alike(self) -> None:
        """At 2 nothing of this size fits, so that 1 is drawn; of small objects each about half of the time."""
        large = from_images((90, 120), 14, rectangles((90, 120), 400, 1, 50, 60), **ALIGNED, **OBJECTS | {"layers": 1})
        assert (large.scale_num == large.scale_den).all()
        assert large.carried.any((1, 2)).all()
        small = from_images((90, 120), 14, rectangles((90, 120), 400, 1, 8, 12), **ALIGNED, **OBJECTS | {"layers": 1})
        doubled = (small.scale_num == 2 * small.scale_den)[..., 0].float().mean()
        assert 0.42 < doubled < 0.58

    def test_on_patches_layers_lie_in_parts_of_their_own(self) -> None:
        boxes = rectangles((84, 84), 50, 1, 14, 14)
        options = {"layers": 6, "k_range": (6, 6), "scale_range": (1.0, 1.0), "hflip_probability": 0.0}
        made = request(torch.arange(50), extent=(84, 84), num_free=99, pad_to_multiple=14, **options, **ALIGNED)
        made = replace(made, occupied=boxes * 0 + torch.tensor([0, 0, 14, 14]))
        placement = drawn(made, torch.ones(50, 1, dtype=torch.bool))
        cells = placement.translate.div(14, rounding_mode="floor").sort(1).values
        assert (cells == torch.arange(6)[:, None]).all()


@pytest.mark.parametrize("kernels", CPU_BACKENDS)
class TestFewScales:
    CONFIG = PlacementConfig(paste_prob=1.0, pad_to_multiple=14, patch_aligned_paste=True)

    def test_are_warned_of_once_where_the_module_is_called(self, kernels: str) -> None:
        batch = make_batch(2, size=(90, 120), num_instances=2, max_instances=6, modalities=("instance",))
        paste = BatchCopyPaste(BatchCopyPasteConfig(placement=self.CONFIG))
        with use_backend(kernels):
            with pytest.warns(
                UserWarning, match=r"at least 4 scales in placement.scale_range=.*got 2 \(1, 2\)"
            ) as found:
                paste(batch)
            assert found[0].filename == __file__
            assert "align='instance'" in str(found[0].message)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                paste(batch)

    @pytest.mark.parametrize(
        ("size", "scale_range", "found"), [((240, 320), (0.6, 1.2), "1 alone"), ((240, 320), (0.6, 0.9), "none")]
    )
    def test_a_range_of_one_scale_is_refused(
        self, kernels: str, size: Size, scale_range: tuple[float, float], found: str
    ) -> None:
        batch = make_batch(2, size=size, num_instances=2, max_instances=6, modalities=("instance",))
        config = BatchCopyPasteConfig(placement={**self.CONFIG.model_dump(), "scale_range": scale_range})
        with use_backend(kernels), pytest.raises(RuntimeError, match=rf"multiples of 14/14 .*got {found}.*align='inst"):
            BatchCopyPaste(config)(batch)
        same = config.model_copy(update={"placement": self.CONFIG.model_copy(update={"scale_range": (1.0, 1.0)})})
        with use_backend(kernels), warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*at least 4 scales")
            BatchCopyPaste(same)(batch)  # one scale was asked for

    def test_of_a_bank_are_those_of_its_crops(self, kernels: str) -> None:
        batch = make_batch(2, size=(112, 112), num_instances=2, max_instances=6, modalities=("instance",))
        staged = make_staged(2, 1, (18, 12))
        placement = self.CONFIG.model_copy(update={"pad_to_multiple": 4})
        source = SourceConfig(kind="bank", value_range=1)
        paste = BatchCopyPaste(BatchCopyPasteConfig(placement=placement, source=source))
        with use_backend(kernels), pytest.warns(UserWarning, match=r"on 18 x 12 pixels only multiples of 4/6"):
            paste(batch, staged=staged)

    @pytest.mark.parametrize("options", [{}, {**ALIGNED, "align": "instance", **OBJECTS}, ALIGNED])
    def test_enough_are_not(self, kernels: str, options: dict[str, Any]) -> None:
        batch = make_batch(2, size=(56, 56), num_instances=2, max_instances=6, modalities=("instance",))
        paste = BatchCopyPaste(
            BatchCopyPasteConfig(placement=PlacementConfig(paste_prob=1.0, pad_to_multiple=8, **options))
        )
        with use_backend(kernels), warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*at least 4 scales")
            paste(batch)
