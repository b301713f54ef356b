#!/usr/bin/env python3
"""Draw the pictures of the options for the documentation: each option off and on, with the same seeds.

    SEGPASTE_TEST_DATA=FOLDER python scripts/draw_options.py [NAME ...]

FOLDER holds the data set *fruits_nuts*. Options that need depth or semantic maps are shown on rendered scenes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from drawing import IMAGES, Subject, drawn, photographs, save_jpeg, scenes
from PIL import Image, ImageDraw

from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.datasets.scenes import SceneConfig, SceneDataset, scene_batch
from segpaste.viz import Tile, draw_depth, draw_image, draw_instances, draw_panoptic, draw_semantic, grid

SCHEMA = SceneDataset(1).schema
BALL, FLOOR = (SceneDataset(1).class_names.index(name) for name in ("plain ball", "floor"))
EACH = {"grouping": "instance", "layers": 6, "k_range": (6, 6), "scale_range": (0.8, 1.3), "max_attempts": 8}
"""Six objects, each with a size and place of its own."""
LARGE = {**EACH, "max_attempts": 1, "scale_range": (1.0, 2.0), "scale_to_fit": False}
TAXONOMY: dict[str, Any] = {"taxonomy": SCHEMA}


@cache
def fruits() -> Subject:
    """Return the photographs that most options are shown on."""
    return photographs((8, 0, 1, 4, 12), seed=3)


def rooms(row: int, seed: int) -> Callable[[], Subject]:
    """Return the function that renders the scenes on which options of depth and semantic maps are shown."""
    return partial(scenes, row=row, seed=seed, height=240, width=320)


@dataclass(frozen=True)
class Option:
    """An option to draw.

    Attributes:
        off: configuration without it.
        on: what it adds to the configuration; dictionaries are merged.
        captions: lines under the two pictures.
        view: function of `segpaste.viz`.
        subject: function that returns the batch.
    """

    off: Mapping[str, Any]
    on: Mapping[str, Any]
    captions: tuple[str, str]
    view: Callable[..., np.ndarray] = draw_instances
    subject: Callable[[], Subject] = field(default=fruits)


def placed(**values: Any) -> dict[str, Any]:
    """Return six objects, each with a size and place of its own, with other values of ``placement``."""
    return {"placement": {**EACH, **values}}


OPTIONS = {
    "layers": Option(
        {"placement": {"scale_range": (0.6, 0.9), "k_range": (6, 6), "max_attempts": 8}},
        {"placement": {"layers": 3}},
        ("layers=1: one other image", "layers=3: three draws of other images"),
    ),
    "grouping": Option(
        {"placement": {"layers": 6, "k_range": (6, 6), "scale_range": (0.6, 0.9), "max_attempts": 8}},
        {"placement": {"grouping": "instance"}},
        ('grouping="image": one map for a group', 'grouping="instance": one map for each object'),
    ),
    "sizes": Option(
        placed(scale_range=(0.1, 8.0), scale_to_fit=False, k_range=(6, 6)),
        {"placement": {"size_range": {"low": 60, "high": 70}}},
        ("scale_range=(0.1, 8)", "size_range: 60 to 70 pixels"),
    ),
    "attempts": Option(
        placed(max_attempts=1),
        {"placement": {"max_attempts": 32}},
        ("max_attempts=1", "max_attempts=32: where least is covered"),
    ),
    "clip": Option(
        {"placement": {**LARGE, "scale_range": (1.2, 1.6)}},
        {"placement": {"partial": "clip", "min_visible_frac": 0.3}},
        ('partial="drop"', 'partial="clip", min_visible_frac=0.3'),
    ),
    "hidden": Option(
        {"placement": {**LARGE, "scale_to_fit": True}},
        {"max_hidden_frac": 0.1},
        ("max_hidden_frac=1", "max_hidden_frac=0.1: the image's own stay in front"),
    ),
    "keep": Option(
        {"placement": {"k_range": (1, 6), "scale_range": (1.0, 1.0)}},
        {"placement": {"position": "keep"}},
        ('position="random"', 'position="keep": where they were'),
    ),
    "antialias": Option(
        {**placed(scale_range=(0.25, 0.3)), "antialias": False},
        {"antialias": True},
        ("antialias=False", "antialias=True"),
        draw_image,
    ),
    "patches": Option(
        placed(pad_to_multiple=28),
        {"placement": {"patch_aligned_paste": True, "align": "instance"}},
        ("pad_to_multiple=28", 'patch_aligned_paste=True, align="instance"'),
    ),
    **{
        mode: Option(
            placed(),
            {"harmonize": {"mode": mode, "prob": 1.0}},
            ("harmonize.prob=0", f'harmonize.mode="{mode}", prob=1'),
            draw_image,
        )
        for mode in ("reinhard", "multiband", "poisson")
    },
    "feather": Option(
        placed(), {"harmonize": {"feather_px": 6}}, ("feather_px=0", "harmonize.feather_px=6"), draw_image
    ),
    "perspective": Option(
        placed(scale_range=(0.5, 2.0)),
        {"perspective_depth": True},
        ("perspective_depth=False", "perspective_depth=True"),
        draw_depth,
        rooms(0, 10),
    ),
    "depth": Option(
        {**placed(scale_range=(1.0, 2.0)), "emit_depth": False},
        {"emit_depth": None},
        ("emit_depth=False: pastes are in front", "with depth: the nearer surface is seen"),
        subject=rooms(1, 10),
    ),
    "contact": Option(
        {"placement": {**LARGE, "scale_to_fit": True}, "emit_depth": False, "panoptic": TAXONOMY},
        {"panoptic": {**TAXONOMY, "contact_priority": {0: 1, 5: 1}}},
        ("contact_priority={}", "contact_priority={0: 1, 5: 1}"),
        draw_panoptic,
        rooms(1, 20),
    ),
    "stuff": Option(
        {"placement": {**EACH, "scale_range": (1.5, 2.0)}, "emit_depth": False, "panoptic": TAXONOMY},
        {"panoptic": {**TAXONOMY, "stuff_policy": "ignore", "tau_stuff_frac": 0.8}},
        ('stuff_policy="revert"', 'stuff_policy="ignore", tau_stuff_frac=0.8'),
        draw_semantic,
        rooms(1, 10),
    ),
    "region": Option(
        placed(max_attempts=32, scale_range=(0.3, 1.0)),
        {"placement": {"region": {BALL: (FLOOR,)}, "region_frac": 0.5}},
        ("region={}", "region={ball: (floor,)}"),
        subject=rooms(0, 20),
    ),
    "classmix": Option(
        {"emit_depth": False},
        {"emit_classmix": True},
        ("objects are pasted", "emit_classmix=True: half of the classes are"),
        draw_image,
        rooms(1, 10),
    ),
}


def merged(off: Mapping[str, Any], on: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with other values, the nested ones one by one."""
    both = dict(off)
    for name, value in on.items():
        both[name] = {**both.get(name, {}), **value} if isinstance(value, Mapping) else value
    return both


def picture(option: Option) -> np.ndarray:
    """Draw an image of the batch pasted into with the option off and on, side by side."""
    subject = option.subject()
    tiles = []
    for values, caption in zip((option.off, merged(option.off, option.on)), option.captions, strict=True):
        config = BatchCopyPasteConfig(**values)
        after, pasted, _ = subject.pasted(config)
        view = drawn(subject, option.view, after, pasted)
        if multiple := config.placement.pad_to_multiple:
            view[::multiple] = view[:, ::multiple] = 255
        tiles.append(Tile(view, caption))
    return grid([tiles], columns=("off", "on"), tile_px=360)


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
    placement = {"class_temperature": temperature, "k_range": (1, 1), "scale_range": (0.25, 0.5), "max_attempts": 4}
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
