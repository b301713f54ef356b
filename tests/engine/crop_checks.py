"""The Triton kernel for crops of a bank next to the reference; `test_cuda` runs this file as it does `cuda_checks`."""

from __future__ import annotations

import pytest
import torch
from cuda_cases import DEVICE, DTYPES

from segpaste.engine import Classes, Crops, reference
from segpaste.engine.triton import inputs, stage_crops


def make_crops(num: int, size: tuple[int, int], *, with_depth: bool) -> Crops:
    """Crops of every kind: with and without an object, with labels of every class, none and beyond, half with depth."""
    generator = torch.Generator().manual_seed(num)

    def random(high: int, *shape: int, low: int = 0) -> torch.Tensor:
        return torch.randint(low, high, (num, *shape), generator=generator).to(DEVICE)

    alphas = random(2, 1, *size).bool()
    depth_valid = ~alphas
    depth_valid[::2, :, -1, -1] = True
    alphas[::2, :, -1, -1] = True
    first = random(3, 2)
    boxes = torch.cat([first, first + random(3, 2)], 1)
    return Crops(
        images=random(256, 3, *size).to(torch.uint8),
        alphas=alphas,
        boxes=boxes,
        labels=random(7, low=-2),
        depth_valid=depth_valid if with_depth else None,
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("with_depth", [False, True], ids=["", "depth"])
@pytest.mark.parametrize("has_taxonomy", [False, True], ids=["", "taxonomy"])
def test_crops_agree(has_taxonomy: bool, with_depth: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "COLOUR_BLOCK", 64)
    classes = Classes(torch.tensor([False, True, True, False, True]).to(DEVICE)) if has_taxonomy else Classes()
    crops = make_crops(30, (5, 7), with_depth=with_depth)
    for scale in (1 / 255, 1.0, 0.3):
        found, expected = (f(crops, classes, dtype, scale) for f in (stage_crops, reference.stage_crops))
        for name, value in expected._asdict().items():
            assert getattr(found, name).dtype == value.dtype, name
            assert torch.equal(getattr(found, name), value), name
    assert expected.eligible.any()
    assert not expected.eligible.all()


def test_no_crops() -> None:
    found = stage_crops(make_crops(0, (5, 7), with_depth=True), Classes(), torch.float32, 1.0)
    assert found.images.shape == (0, 3, 5, 7)
    assert found.eligible.shape == (0, 1)
