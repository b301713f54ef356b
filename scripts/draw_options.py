#!/usr/bin/env python3
"""Draw the pictures of the options of a paste for the documentation: synthetic scenes, one picture an option.

    python scripts/draw_options.py

Each picture shows the same image before, and after the paste with this option, pasted objects outlined.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.datasets.scenes import SceneConfig, scene_batch
from segpaste.viz import draw_image, draw_instances

OUT = Path(__file__).parents[1] / "docs" / "images" / "options"
SCENES = SceneConfig(height=200, width=260)
OBJECTS = {"grouping": "instance", "layers": 6, "k_range": (4, 6), "max_attempts": 4}

OPTIONS: dict[str, dict[str, Any]] = {
    "layers": {"placement": {"layers": 3, "k_range": (4, 6), "max_attempts": 4}},
    "grouping": {"placement": OBJECTS},
    "sizes": {"placement": {**OBJECTS, "scale_range": (0.1, 8.0), "size_range": {"low": 20, "high": 30}}},
    "clip": {"placement": {**OBJECTS, "max_attempts": 1, "partial": "clip", "min_visible_frac": 0.3}},
    "patches": {"placement": {**OBJECTS, "pad_to_multiple": 28, "patch_aligned_paste": True, "align": "instance"}},
    "perspective": {"placement": {**OBJECTS, "scale_range": (0.5, 2.0)}, "perspective_depth": True},
    "reinhard": {"placement": OBJECTS, "harmonize": {"mode": "reinhard", "prob": 1.0}},
    "multiband": {"placement": OBJECTS, "harmonize": {"mode": "multiband", "prob": 1.0}},
    "poisson": {"placement": OBJECTS, "harmonize": {"mode": "poisson", "prob": 1.0}},
    "feather": {"placement": OBJECTS, "harmonize": {"feather_px": 6}},
}


def picture(options: dict[str, Any], row: int = 1) -> Image.Image:
    """The row before, and after with these options, side by side."""
    batch = scene_batch(4, 24, SCENES)
    batch = batch.derived(sample_seeds=torch.arange(4) + 10)
    out, report = BatchCopyPaste(BatchCopyPasteConfig(**options))(batch, return_report=True)
    before, after = batch.to_batched().to_samples()[row], out.to_batched().to_samples()[row]
    pasted = (report.slot_layer[row] >= 0)[out.instance_valid[row]]
    grid = options["placement"].get("pad_to_multiple")
    left, right = draw_instances(before, show_labels=False), draw_instances(after, pasted=pasted, show_labels=False)
    if "harmonize" in options:  # colours are the point
        left, right = draw_image(before), draw_image(after)
    if grid:
        right[::grid] = right[:, ::grid] = 255
    height = max(len(left), len(right))
    pads = (np.pad(p, ((0, height - len(p)), (0, 6), (0, 0)), constant_values=255) for p in (left, right))
    return Image.fromarray(np.concatenate(list(pads), axis=1))


def main() -> None:
    """Write them all."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    for name, options in OPTIONS.items():
        picture(options).save(OUT / f"{name}.jpg", quality=85)
        print(OUT.name, name)


if __name__ == "__main__":
    main()
