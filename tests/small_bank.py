"""A bank of a few random crops, for tests of what uses one."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from segpaste.bank import Crop, Layout, MemmapBank, MemmapWriter


def small_bank(
    path: Path, labels: list[int], *, crop_size: tuple[int, int] = (9, 12), seed: int = 0, surfaces: bool = False
) -> MemmapBank:
    """A crop for each of the labels, a rectangle with holes; every photo has two of them."""
    rng = np.random.default_rng(seed)
    groups = ("provenance", "depth", "normals", "intrinsics") if surfaces else ("provenance",)
    height, width = crop_size
    with MemmapWriter(path, Layout(crop_size, groups), [f"class {i}" for i in range(max(labels) + 1)]) as writer:
        for index, label in enumerate(labels):
            alpha = np.zeros((1, height, width), bool)
            y1, x1 = rng.integers(0, height // 2), rng.integers(0, width // 2)
            y2, x2 = rng.integers(y1 + 2, height) + 1, rng.integers(x1 + 2, width) + 1
            alpha[:, y1:y2, x1:x2] = rng.random((1, y2 - y1, x2 - x1)) < 0.9
            normals = rng.normal(size=(3, height, width))
            writer.add(
                Crop(
                    image=rng.integers(0, 256, (3, height, width), np.uint8),
                    alpha=alpha,
                    class_id=label,
                    content_box=np.array([0, 0, width, height], np.int32),
                    source_size=np.array([100, 100], np.int32),
                    source_box=np.array([5, 5, 5 + width, 5 + height], np.float32),
                    scale=float(rng.choice([1.0, 0.5])),
                    image_id=index // 2,
                    annotation_id=1000 + index,
                    depth=rng.uniform(1, 5, (1, height, width)).astype(np.float32),
                    depth_valid=rng.random((1, height, width)) < 0.95,
                    normals=(normals / np.linalg.norm(normals, axis=0)).astype(np.float32),
                    intrinsics=np.array([20, 20, width / 2, height / 2], np.float32),
                )
            )
        return MemmapBank(writer.finish())
