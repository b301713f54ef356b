#!/usr/bin/env python3
"""Draw the pictures of the options for the documentation: two values of each option, with the same seeds.

    SEGPASTE_TEST_DATA=FOLDER python scripts/draw_options.py [NAME ...]

FOLDER holds the data set *fruits_nuts*. Options that need depth or semantic maps are shown on rendered scenes.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from drawing import IMAGES, drawn, save_jpeg
from option_pictures import OPTIONS, Option
from PIL import Image, ImageDraw

from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.datasets.scenes import SceneConfig, scene_batch
from segpaste.viz import Tile, grid


def merged(off: Mapping[str, Any], on: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with other values, the nested ones one by one."""
    both = dict(off)
    for name, value in on.items():
        both[name] = {**both.get(name, {}), **value} if isinstance(value, Mapping) else value
    return both


def picture(option: Option) -> np.ndarray:
    """Draw an image of the batch pasted into with two values of the option, side by side."""
    subject = option.subject()
    views = []
    off = merged({"placement": {"paste_prob": 1.0}}, option.off)
    for values in (off, merged(off, option.on)):
        config = BatchCopyPasteConfig(**values)
        after, pasted, _ = subject.pasted(config)
        view = drawn(subject, option.view, after, pasted)
        if multiple := config.placement.pad_to_multiple:
            view[::multiple] = view[:, ::multiple] = 255
        views.append(view)
    shown = _window(views, option.zoom) if option.zoom > 1 else (slice(None), slice(None))
    enlarged = [view[shown].repeat(option.zoom, 0).repeat(option.zoom, 1) for view in views]
    tiles = [Tile(view, caption) for view, caption in zip(enlarged, option.captions, strict=True)]
    return grid([tiles], columns=("off", "on") if option.is_switch else (), tile_px=360)


def _window(views: Sequence[np.ndarray], zoom: int) -> tuple[slice, slice]:
    """Return the part of two views, 1 / ``zoom`` of each side, in which they differ most."""
    changed = np.abs(views[0].astype(np.int64) - views[1]).sum(2)
    sums = np.pad(changed, ((1, 0), (1, 0))).cumsum(0).cumsum(1)
    h, w = (side // zoom for side in changed.shape)
    within = sums[h:, w:] - sums[:-h, w:] - sums[h:, :-w] + sums[:-h, :-w]
    top, left = np.unravel_index(within.argmax(), within.shape)
    return slice(top, top + h), slice(left, left + w)


def temperature_bars() -> Image.Image:
    """Draw how often an object is drawn, by how many of its class the source holds, at three temperatures."""
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
    """Return the fraction of objects that were drawn, by how many objects of their class the source has."""
    batch = scene_batch(24, 24, SceneConfig(height=64, width=64))
    placement = {"paste_prob": 1.0, "class_temperature": temperature, "k_range": (1, 1)}
    placement |= {"scale_range": (0.25, 0.5), "max_attempts": 4}
    paste = BatchCopyPaste(BatchCopyPasteConfig(placement=placement, emit_depth=False))
    num_drawn, num_offered = np.zeros(4), np.zeros(4)
    for seed in range(40):
        _, report = paste(batch, torch.Generator().manual_seed(seed), return_report=True)
        rows = report.placement.source_idx[:, 0]
        labels, valid = batch.labels[rows], batch.instance_valid[rows]
        num_alike = ((labels[:, :, None] == labels[:, None]) & valid[:, None]).sum(2).clamp(max=4)
        np.add.at(num_drawn, num_alike[report.drawn[:, 0]].numpy() - 1, 1)
        np.add.at(num_offered, num_alike[valid].numpy() - 1, 1)
    return {n + 1: num_drawn[n] / num_offered[n] for n in range(4) if num_offered[n] > 200}


def main() -> None:
    """Write the pictures that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    names = set(parser.parse_args().names)
    for name, option in OPTIONS.items():
        if not names or name in names:
            save_jpeg(picture(option), f"options/{name}")
    if not names or "temperature" in names:
        temperature_bars().save(IMAGES / "options" / "temperature.png")
        print("options/temperature.png")


if __name__ == "__main__":
    main()
