#!/usr/bin/env python3
"""Draw a gallery for each preset: three images before and after a paste with its configuration.

    SEGPASTE_TEST_DATA=FOLDER python scripts/draw_presets.py [NAME ...]

FOLDER holds the data set *fruits_nuts*. Presets for panoptic and semantic maps and for depth are shown on rendered
scenes. The jitter of a preset's loader is left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from drawing import Subject, drawn, fruits, photographs, samples, save_jpeg, scenes

from segpaste import get_preset, list_presets
from segpaste.augmentation import BatchCopyPaste
from segpaste.bank import DatasetBank
from segpaste.datasets.scenes import SceneDataset
from segpaste.presets import class_size_ranges
from segpaste.viz import draw_depth, draw_image, draw_instances, draw_panoptic, grid

TILE_PX = 300
VIEWS: dict[str, Callable[..., np.ndarray]] = {
    "classmix": draw_image,
    "panoptic_lsj": draw_panoptic,
    "depth_aware": draw_depth,
}
"""Views of the presets that are shown on scenes."""


def module_and_batch(name: str) -> tuple[BatchCopyPaste, Subject]:
    """Return the module of a preset, and the batch that it is shown on."""
    preset = get_preset(name)
    if name in VIEWS:
        values: dict[str, Any] = {"emit_depth": False} if name == "classmix" else {}
        return BatchCopyPaste(preset.config_for(SceneDataset(1).schema, **values)), scenes(height=240, width=320)
    subject = photographs((8, 7, 2, 13), seed=4)
    if name != "xpaste":
        return BatchCopyPaste(preset.config), subject
    sizes = class_size_ranges(samples(photographs(range(18)).batch), side=400)
    config = preset.config_for(placement={"class_sizes": sizes})
    return BatchCopyPaste(config, source_pool=DatasetBank(fruits()), balance="class_uniform"), subject


def gallery(name: str) -> np.ndarray:
    """Draw three images before, in the upper row, and after."""
    module, subject = module_and_batch(name)
    out, report = module(subject.batch, return_report=True)
    view, multiple = VIEWS.get(name, draw_instances), module.config.placement.pad_to_multiple
    before, after = [], []
    for row in range(3):
        subject = replace(subject, row=row)
        pasted = (report.slot_layer[row] >= 0)[out.instance_valid[row]]
        before.append(drawn(subject, view, subject.before))
        after.append(drawn(subject, view, samples(out)[row], pasted))
        if multiple:
            after[-1][::multiple] = after[-1][:, ::multiple] = 255
    return grid([before, after], names=("before", "after"), tile_px=TILE_PX)


def main() -> None:
    """Write the galleries that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    for name in parser.parse_args().names or list_presets():
        save_jpeg(gallery(name), f"presets/{name}")


if __name__ == "__main__":
    main()
