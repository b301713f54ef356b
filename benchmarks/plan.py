"""Extent of a run: everything, a quick selection of two minutes, or a smoke test."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Shape:
    """A batch of the step table.

    Attributes:
        batch_size: B.
        size: H and W, or both as (H, W), pixels.
        instances: K; rectangles have 1 to K of them.
        dtype: of the images.
        all_modalities: square scenes with all five modalities instead of rectangles; their images are uint8.
        layers: layers over which the pasted objects are spread.
    """

    batch_size: int
    size: int | tuple[int, int]
    instances: int
    dtype: torch.dtype = torch.float32
    all_modalities: bool = False
    layers: int = 1


@dataclass(frozen=True, slots=True)
class Growth:
    """Values that grow, one at a time; squares, pasted in their own size.

    Attributes:
        batch_size, size, instances, max_instances, side: where the others stand; ``side`` is that of the squares.
        batch_sizes, sizes, slots, sides, threads: the values that are gone through.
        thread_sides: sides of the squares with which the numbers of threads are gone through.
    """

    batch_size: int = 8
    size: int = 512
    instances: int = 5
    max_instances: int = 10
    side: int = 64
    batch_sizes: tuple[int, ...] = (2, 4, 8, 16)
    sizes: tuple[int, ...] = (256, 512, 1024)
    slots: tuple[int, ...] = (10, 20, 40, 80)
    sides: tuple[int, ...] = (32, 64, 128, 256)
    threads: tuple[int, ...] = (1, 2)
    thread_sides: tuple[int, ...] = (64, 128)


@dataclass(frozen=True, slots=True)
class Loading:
    """The loader's dataset.

    Attributes:
        photos: number of JPEG scenes.
        photo_size: (H, W), pixels.
        size: side of the samples, pixels.
        batch_size: B.
        rounds: epochs of each pipeline.
    """

    photos: int = 16
    photo_size: tuple[int, int] = (480, 640)
    size: int = 512
    batch_size: int = 8
    rounds: int = 10


@dataclass(frozen=True, slots=True)
class Everyday:
    """Sizes of what users do.

    Attributes:
        repeats: turns of each contender that count.
        calls: calls of a turn.
        scenes: number of JPEG scenes.
        photo_size: (H, W) of them, pixels.
        augmented: images that ``augment`` writes.
        large_images: images of the large annotation file.
        side: of the batches of steps and of loaded samples, pixels.
        only: text of the cases that are measured; empty for all.
    """

    repeats: int = 7
    calls: int = 25
    scenes: int = 50
    photo_size: tuple[int, int] = (480, 640)
    augmented: int = 200
    large_images: int = 20_000
    side: int = 512
    only: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """All sizes of a run.

    Attributes:
        rounds: calls of each function that count.
        shapes: of the step table.
        growth: see there.
        memory: (B, side, K) of the panoptic batch whose step's memory is measured.
        loading: see there.
        large_loading: the same of photos as cameras take them.
        compiled: (B, side, K) of the step that is compiled, None to leave it out.
        with_reference: time the reference kernels too.
        everyday: see there.
    """

    rounds: int
    shapes: tuple[Shape, ...]
    growth: Growth
    memory: tuple[int, int, int]
    loading: Loading
    large_loading: Loading
    compiled: tuple[int, int, int] | None
    with_reference: bool
    everyday: Everyday = Everyday()


FULL = Plan(
    rounds=30,
    shapes=(
        Shape(8, 512, 5),
        Shape(8, 512, 20),
        Shape(8, 512, 5, torch.uint8),
        Shape(8, 512, 20, torch.uint8),
        Shape(8, 1024, 20),
        Shape(2, 256, 10),
        Shape(8, 512, 24, torch.uint8, all_modalities=True),
    ),
    growth=Growth(),
    memory=(8, 2048, 64),
    loading=Loading(),
    large_loading=Loading(8, (3000, 4000), rounds=5),
    compiled=(8, 512, 20),
    with_reference=True,
)

QUICK = Plan(
    rounds=30,
    shapes=(
        Shape(8, 512, 5),
        Shape(8, 512, 20),
        Shape(8, 512, 5, torch.uint8),
        Shape(8, 512, 20, torch.uint8),
        Shape(2, 256, 10),
        Shape(8, 512, 24, torch.uint8, all_modalities=True),
    ),
    growth=Growth(batch_sizes=(2, 8), sizes=(256, 512), slots=(10, 40), sides=(32, 128)),
    memory=(8, 512, 32),
    loading=Loading(photos=8, rounds=8),
    large_loading=Loading(4, (3000, 4000), batch_size=4, rounds=3),
    compiled=None,
    with_reference=False,
    everyday=Everyday(3, scenes=20, augmented=40, large_images=2000, only="samples"),
)

TINY = Plan(
    rounds=2,
    shapes=(Shape(2, 48, 3), Shape(2, 48, 3, torch.uint8), Shape(2, 48, 12, torch.uint8, all_modalities=True)),
    growth=Growth(2, 48, 2, 4, 8, (2, 3), (48, 64), (4, 8), (8, 16), (1,), (8,)),
    memory=(2, 48, 8),
    loading=Loading(2, (48, 64), 32, 2, 2),
    large_loading=Loading(2, (64, 96), 32, 2, 2),
    compiled=None,
    with_reference=False,
    everyday=Everyday(1, 1, 4, (96, 128), 2, 4, 48, "stats"),
)
"""For tests: it runs everything, and its figures mean nothing."""

DEVICE_SHAPES = tuple(Shape(8, 1024, 32, dtype) for dtype in (torch.float32, torch.bfloat16, torch.uint8))
"""Of the step table on a CUDA device, in a full run."""

HARD_SHAPES = (
    *DEVICE_SHAPES,
    Shape(8, 1024, 100),
    Shape(8, 1024, 100, torch.uint8),
    Shape(8, 1024, 32, torch.uint8, all_modalities=True),
    Shape(8, (1000, 1333), 32),
    Shape(8, (1000, 1333), 32, torch.uint8),
    Shape(8, 1024, 32, layers=20),
    Shape(2, 256, 10),
)
"""Of the device table: those of the step table, many slots, all modalities, odd widths, many layers, a small batch."""
