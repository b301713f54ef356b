#!/usr/bin/env python3
"""Draw the pictures of the options and presets for the documentation: synthetic scenes, one picture each.

    python scripts/draw_options.py [NAME ...]

Each picture shows the same image before, and after the paste with this option, pasted objects outlined where it shows
objects.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from segpaste import get_preset, list_presets
from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.datasets.scenes import SceneConfig, SceneDataset, scene_batch
from segpaste.viz import draw_depth, draw_image, draw_instances, draw_panoptic, draw_semantic

IMAGES = Path(__file__).parents[1] / "docs" / "images"
SCENES = SceneConfig(height=200, width=260)
OBJECTS = {"grouping": "instance", "layers": 6, "k_range": (4, 6), "max_attempts": 4}

OPTIONS: dict[str, dict[str, Any]] = {
    "layers": {"placement": {"layers": 3, "k_range": (4, 6), "max_attempts": 4}},
    "grouping": {"placement": OBJECTS},
    "sizes": {"placement": {**OBJECTS, "scale_range": (0.1, 8.0), "size_range": {"low": 20, "high": 30}}},
    "clip": {"placement": {**OBJECTS, "max_attempts": 1, "partial": "clip", "min_visible_frac": 0.3}},
    "hidden": {"placement": {**OBJECTS, "max_attempts": 1, "scale_range": (1.0, 2.0)}, "max_hidden_frac": 0.1},
    "patches": {"placement": {**OBJECTS, "pad_to_multiple": 28, "patch_aligned_paste": True, "align": "instance"}},
    "perspective": {"placement": {**OBJECTS, "scale_range": (0.5, 2.0)}, "perspective_depth": True},
    "classmix": {"emit_classmix": True, "emit_depth": False},
    "reinhard": {"placement": OBJECTS, "harmonize": {"mode": "reinhard", "prob": 1.0}},
    "multiband": {"placement": OBJECTS, "harmonize": {"mode": "multiband", "prob": 1.0}},
    "poisson": {"placement": OBJECTS, "harmonize": {"mode": "poisson", "prob": 1.0}},
    "feather": {"placement": OBJECTS, "harmonize": {"feather_px": 6}},
}
VIEWS: dict[str, Callable[..., Any]] = {
    **{f"options/{name}": draw_image for name in ("reinhard", "multiband", "poisson", "feather", "classmix")},
    "presets/classmix": draw_semantic,
    "presets/panoptic_lsj": draw_panoptic,
    "presets/depth_aware": draw_depth,
}


def picture(config: BatchCopyPasteConfig, view: Callable[..., Any], row: int = 1) -> Image.Image:
    """The row before, and after with this configuration, side by side."""
    batch = scene_batch(4, 24, SCENES)
    batch = batch.derived(sample_seeds=torch.arange(4) + 10)
    out, report = BatchCopyPaste(config)(batch, return_report=True)
    before, after = batch.to_batched().to_samples()[row], out.to_batched().to_samples()[row]
    pasted = (report.slot_layer[row] >= 0)[out.instance_valid[row]]
    if view is draw_instances:
        left, right = view(before, show_labels=False), view(after, pasted=pasted, show_labels=False)
    else:
        left, right = view(before), view(after)
    grid = config.placement.pad_to_multiple
    if grid:
        right[::grid] = right[:, ::grid] = 255
    height = max(len(left), len(right))
    pads = (np.pad(p, ((0, height - len(p)), (0, 6), (0, 0)), constant_values=255) for p in (left, right))
    return Image.fromarray(np.concatenate(list(pads), axis=1))


def main() -> None:
    """Write those that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    names = set(parser.parse_args().names)
    configs = {f"options/{name}": BatchCopyPasteConfig(**options) for name, options in OPTIONS.items()}
    schema = SceneDataset(1).schema
    configs |= {f"presets/{name}": get_preset(name).config_for(schema) for name in list_presets()}
    configs["presets/classmix"] = get_preset("classmix").config_for(schema, emit_depth=False)
    for path, config in configs.items():
        name = path.partition("/")[2]
        if not names or name in names:
            (IMAGES / path).parent.mkdir(parents=True, exist_ok=True)
            picture(config, VIEWS.get(path, draw_instances)).save(IMAGES / f"{path}.jpg", quality=85)
            print(path)


if __name__ == "__main__":
    main()
