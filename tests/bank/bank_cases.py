"""Small banks on disk whose crops say which they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from segpaste.bank import Crop, Layout, MemmapBank, open_bank
from segpaste.bank.format import WRITERS, Format
from segpaste.types import KeypointSchema

POINTS = KeypointSchema.of_sides(("nose", "left_eye", "right_eye"))
"""Of banks that keep keypoints."""


def write_bank(
    path: Path,
    class_ids: Sequence[int],
    *,
    names: Sequence[str] = (),
    size: tuple[int, int] = (3, 4),
    image_ids: Sequence[int] | None = None,
    embeddings: Any = None,
    images: Any = None,
    alphas: Any = None,
    kind: Format = "memmap",
) -> MemmapBank:
    """Crop i has the first pixel (i % 251, i // 251 % 251, 0), unless images are given."""
    groups = ["provenance"] * (image_ids is not None) + ["embedding"] * (embeddings is not None)
    names = names or [f"class{c}" for c in range(max(class_ids, default=0) + 1)]
    with WRITERS[kind](path, Layout(size, groups), names) as writer:
        for i, class_id in enumerate(class_ids):
            image = np.zeros((3, *size), np.uint8)
            image[:2, 0, 0] = i % 251, i // 251 % 251
            values: dict[str, Any] = {}
            if image_ids is not None:
                values = {
                    "source_size": np.array([9, 9], np.int32),
                    "source_box": np.array([0, 0, 4, 3], np.float32),
                    "scale": 1.0,
                    "image_id": image_ids[i],
                    "annotation_id": i,
                }
            if embeddings is not None:
                values["embedding"] = np.asarray(embeddings[i], np.float16)
            writer.add(
                Crop(
                    image if images is None else images[i],
                    np.ones((1, *size), bool) if alphas is None else alphas[i],
                    class_id,
                    np.array([0, 0, size[1], size[0]], np.int32),
                    **values,
                )
            )
        return open_bank(writer.finish())  # type: ignore[return-value]
