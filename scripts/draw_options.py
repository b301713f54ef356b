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
from PIL import Image, ImageDraw

from segpaste import get_preset, list_presets
from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig, PanopticConfig
from segpaste.datasets.scenes import SceneConfig, SceneDataset, scene_batch
from segpaste.viz import draw_depth, draw_image, draw_instances, draw_panoptic, draw_semantic

IMAGES = Path(__file__).parents[1] / "docs" / "images"
SCENES = SceneConfig(height=200, width=260)
OBJECTS = {"grouping": "instance", "layers": 6, "k_range": (4, 6), "max_attempts": 4}

OPTIONS: dict[str, dict[str, Any]] = {
    "layers": {"placement": {"layers": 3, "k_range": (4, 6), "max_attempts": 4}},
    "grouping": {"placement": OBJECTS},
    "sizes": {"placement": {**OBJECTS, "scale_range": (0.1, 8.0), "size_range": {"low": 20, "high": 30}}},
    "attempts": {"placement": {**OBJECTS, "max_attempts": 32}},
    "clip": {"placement": {**OBJECTS, "max_attempts": 1, "partial": "clip", "min_visible_frac": 0.3}},
    "hidden": {"placement": {**OBJECTS, "max_attempts": 1, "scale_range": (1.0, 2.0)}, "max_hidden_frac": 0.1},
    "contact": {"placement": {**OBJECTS, "max_attempts": 1, "scale_range": (1.0, 2.0)}, "emit_depth": False},
    "patches": {"placement": {**OBJECTS, "pad_to_multiple": 28, "patch_aligned_paste": True, "align": "instance"}},
    "perspective": {"placement": {**OBJECTS, "scale_range": (0.5, 2.0)}, "perspective_depth": True},
    "stuff": {"placement": {**OBJECTS, "scale_range": (1.5, 2.0)}, "emit_depth": False},
    "classmix": {"emit_classmix": True, "emit_depth": False},
    "reinhard": {"placement": OBJECTS, "harmonize": {"mode": "reinhard", "prob": 1.0}},
    "multiband": {"placement": OBJECTS, "harmonize": {"mode": "multiband", "prob": 1.0}},
    "poisson": {"placement": OBJECTS, "harmonize": {"mode": "poisson", "prob": 1.0}},
    "feather": {"placement": OBJECTS, "harmonize": {"feather_px": 6}},
}
VIEWS: dict[str, Callable[..., Any]] = {
    **{f"options/{name}": draw_image for name in ("reinhard", "multiband", "poisson", "feather", "classmix")},
    "options/contact": draw_panoptic,
    "options/stuff": draw_semantic,
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


def temperature_bars() -> Image.Image:
    """How often an object is drawn, by how many of its class the source holds, at three temperatures."""
    bars = Image.new("RGB", (526, 150), "white")
    pen = ImageDraw.Draw(bars)
    for panel, temperature in enumerate((0.0, 0.5, 1.0)):
        chances, left = _chances(temperature), 10 + 175 * panel
        for i, (num_alike, chance) in enumerate(chances.items()):
            x, height = left + 40 * i, round(95 * chance / max(chances.values()))
            pen.rectangle((x, 120 - height, x + 28, 120), fill=(46, 120, 150))
            pen.text((x + 8, 123), str(num_alike), fill="black")
        pen.text((left, 4), f"class_temperature={temperature}", fill="black")
        pen.text((left, 135), "objects of the class", fill="black")
    return bars


def _chances(temperature: float) -> dict[int, float]:
    """The part of the objects that were drawn, by how many objects of their class the source has."""
    batch = scene_batch(24, 24, SceneConfig(height=64, width=64))
    placement = {"class_temperature": temperature, "k_range": (1, 1), "scale_range": (0.25, 0.5), "max_attempts": 4}
    paste = BatchCopyPaste(BatchCopyPasteConfig(placement=placement, emit_depth=False))
    drawn, offered = np.zeros(4), np.zeros(4)
    for seed in range(40):
        _, report = paste(batch, torch.Generator().manual_seed(seed), return_report=True)
        rows = report.placement.source_idx[:, 0]
        labels, valid = batch.labels[rows], batch.instance_valid[rows]
        num_alike = ((labels[:, :, None] == labels[:, None]) & valid[:, None]).sum(2).clamp(max=4)
        np.add.at(drawn, num_alike[report.drawn[:, 0]].numpy() - 1, 1)
        np.add.at(offered, num_alike[valid].numpy() - 1, 1)
    return {n + 1: drawn[n] / offered[n] for n in range(4) if offered[n] > 200}


def main() -> None:
    """Write those that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    names = set(parser.parse_args().names)
    configs = {f"options/{name}": BatchCopyPasteConfig(**options) for name, options in OPTIONS.items()}
    schema = SceneDataset(1).schema
    front = PanopticConfig(taxonomy=schema, contact_priority={0: 1, 5: 1})
    configs["options/contact"] = configs["options/contact"].model_copy(update={"panoptic": front})
    ignored = PanopticConfig(taxonomy=schema, stuff_policy="ignore", tau_stuff_frac=0.8)
    configs["options/stuff"] = configs["options/stuff"].model_copy(update={"panoptic": ignored})
    configs |= {f"presets/{name}": get_preset(name).config_for(schema) for name in list_presets() if name != "xpaste"}
    configs["presets/classmix"] = get_preset("classmix").config_for(schema, emit_depth=False)
    for path, config in configs.items():
        name = path.partition("/")[2]
        if not names or name in names:
            (IMAGES / path).parent.mkdir(parents=True, exist_ok=True)
            picture(config, VIEWS.get(path, draw_instances)).save(IMAGES / f"{path}.jpg", quality=85)
            print(path)
    if not names or "temperature" in names:
        temperature_bars().save(IMAGES / "options" / "temperature.png")
        print("options/temperature")


if __name__ == "__main__":
    main()
