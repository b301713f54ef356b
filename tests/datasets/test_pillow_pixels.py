"""Tensors on the memory of Pillow's images."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch
from PIL import Image

from segpaste.datasets.formats import pillow_pixels
from segpaste.datasets.formats.pillow_pixels import pixels_of


def picture(size: tuple[int, int]) -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8))


def expect_pixels(image: Image.Image) -> torch.Tensor:
    found = pixels_of(image)
    assert np.array_equal(found.permute(1, 2, 0).numpy(), np.array(image))
    assert found.dtype == torch.uint8
    return found


@pytest.mark.parametrize("size", [(1, 1), (7, 5), (480, 640)])
def test_pixels_are_those_of_the_image(size: tuple[int, int]) -> None:
    expect_pixels(picture(size))
    expect_pixels(picture(size).convert("L").convert("RGB"))
    expect_pixels(picture(size).crop((0, 0, 1, 1)))


def test_memory_is_shared_and_outlives_the_image() -> None:
    image = picture((300, 400))
    expected = np.array(image)
    found = pixels_of(image)
    assert found.stride() == ((1, 1600, 4) if hasattr(image, "__arrow_c_array__") else (1, 1200, 3))
    del image
    gc.collect()
    others = [Image.new("RGB", (400, 300), (1, 2, 3)) for _ in range(20)]
    assert np.array_equal(found.permute(1, 2, 0).numpy(), expected)
    assert len(others) == 20


def test_what_pillow_does_not_export_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    large = Image.new("RGB", (4096, 1500), (1, 2, 3))  # in two blocks
    assert pillow_pixels._shared(large) is None
    expect_pixels(large)
    assert pillow_pixels._shared(Image.new("L", (3, 3))) is None
    monkeypatch.delattr(Image.Image, "__arrow_c_array__", raising=False)
    assert pillow_pixels._shared(picture((7, 5))) is None
    expect_pixels(picture((7, 5)))
