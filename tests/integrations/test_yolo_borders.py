"""Grey borders of Ultralytics' batches, without Ultralytics; `tests/trainers` runs its loader."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from segpaste.integrations.ultralytics import Moves, from_yolo, moves_of
from segpaste.targets.yolo_rows import widest_borders

STILL = Moves(scale=1.0, translate=0.0)


def loaded(shapes: list[tuple[int, int]], canvas: tuple[int, int] = (40, 60), **changes: Any) -> dict[str, Any]:
    """Grey images with a bright square in the middle, and the shapes that their files had, at twice the size."""
    images = torch.full((len(shapes), 3, *canvas), 114, dtype=torch.uint8)
    images[:, :, 18:22, 28:32] = 230
    given = {"img": images, "batch_idx": torch.zeros(0), "cls": torch.zeros(0, 1), "bboxes": torch.zeros(0, 4)}
    ratios = [(0.5, 0.5)] * len(shapes)
    return {**given, "ori_shape": [(2 * h, 2 * w) for h, w in shapes], "ratio_pad": ratios, **changes}


def padded(batch: dict[str, Any], moves: Moves | None) -> list[tuple[int, int, int, int]]:
    """Return the first and last row and column that are image, of each image."""
    padding = from_yolo(batch, 2, overlap=False, moves=moves).padding_mask
    assert padding is not None
    found = []
    for mask in padding[:, 0]:
        rows, columns = (~mask).any(1).nonzero()[:, 0], (~mask).any(0).nonzero()[:, 0]
        assert not mask[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].any()
        found.append((int(rows[0]), int(rows[-1]) + 1, int(columns[0]), int(columns[-1]) + 1))
    return found


def test_borders_are_as_wide_as_the_shapes_say() -> None:
    """The whole canvas, a wide image, a high one, and one whose border is of an odd number of rows."""
    shapes = [(40, 60), (20, 60), (40, 30), (27, 60)]
    assert padded(loaded(shapes), STILL) == [(0, 40, 0, 60), (10, 30, 0, 60), (0, 40, 15, 45), (7, 33, 0, 60)]
    assert padded(loaded(shapes), None) == [(18, 22, 28, 32)] * 4


def test_moves_widen_what_can_be_border() -> None:
    """Half the size: 10 more rows and 15 more columns on a side; a shift by a tenth: 4 rows and 6 columns."""
    assert padded(loaded([(40, 60)]), Moves(0.5, 0.0)) == [(10, 30, 15, 45)]
    assert padded(loaded([(40, 60)]), Moves(1.0, 0.1)) == [(4, 36, 6, 54)]
    assert padded(loaded([(40, 60)]), Moves(0.5, 0.1)) == [(14, 26, 21, 39)]
    assert padded(loaded([(40, 60)]), Moves(2.0, 0.1)) == [(0, 40, 0, 60)]


@pytest.mark.parametrize("missing", ["ori_shape", "ratio_pad"])
def test_without_shapes_any_border_may_be(missing: str) -> None:
    batch = loaded([(40, 60)])
    del batch[missing]
    assert padded(batch, STILL) == [(18, 22, 28, 32)]


def test_shapes_of_another_canvas_are_not_believed() -> None:
    """Older batches give padding beside the factors; a factor that is a size is that of another field."""
    ratios = [((0.5, 0.5), (0.0, 10.0)), (640, 640), (0.5, 0.5)]
    batch = loaded([(20, 60)] * 3, ratio_pad=ratios, ori_shape=[(40, 120), (40, 120), (400, 120)])
    assert padded(batch, STILL) == [(10, 30, 0, 60), (18, 22, 28, 32), (18, 22, 28, 32)]


@pytest.mark.parametrize("moves", [STILL, Moves(0.5, 0.1), Moves(0.75, 0.3), Moves(0.9, 0.0)], ids=str)
def test_no_border_of_a_moved_image_is_wider(moves: Moves) -> None:
    """Draw what the loader may do to an image of a known size, and look where it covers the canvas."""
    generator = torch.Generator().manual_seed(0)
    canvas = torch.tensor([64.0, 96.0])
    for _ in range(300):
        sides = (canvas * torch.rand(2, generator=generator)).ceil()
        batch = loaded([(int(sides[0]), int(sides[1]))], (64, 96))
        widest = widest_borders(batch, moves)[0]
        scale = moves.scale + (2 - moves.scale) * torch.rand(1, generator=generator)
        centre = canvas * (0.5 + moves.translate * (2 * torch.rand(2, generator=generator) - 1))
        before = (centre - scale * sides / 2).clamp(min=0)
        behind = (canvas - centre - scale * sides / 2).clamp(min=0)
        assert (torch.maximum(before, behind) <= widest + 1e-3).all()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, Moves(0.5, 0.1)),
        ({"scale": (0.8, 1.5)}, Moves(0.8, 0.1)),
        ({"scale": 0.0, "translate": 0.0}, STILL),
        *[({name: 1.0}, None) for name in ("degrees", "shear", "perspective")],
    ],
)
def test_moves_of_the_arguments_of_a_trainer(changes: dict[str, Any], expected: Moves | None) -> None:
    still = {"degrees": 0.0, "shear": 0.0, "perspective": 0.0}
    assert moves_of(SimpleNamespace(**{"scale": 0.5, "translate": 0.1, **still, **changes})) == expected
