#!/usr/bin/env python3
"""Draw the pictures of the README's first screen: a photograph before and after, and a batch being pasted.

    SEGPASTE_TEST_DATA=FOLDER python scripts/draw_readme.py

FOLDER holds the data set *fruits_nuts*.
"""

from __future__ import annotations

import numpy as np
from drawing import IMAGES, Subject, drawn, photographs, samples, save_jpeg
from PIL import Image

from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.viz import Tile, draw_image, draw_instances, grid

FRAME_MS, LAST_FRAME_MS = 500, 2500
NUM_PASTED = 6


def config_for(num: int) -> BatchCopyPasteConfig:
    """Return a configuration that pastes ``num`` objects, each with a size and place of its own."""
    placement = {
        "paste_prob": 1.0,
        "layers": NUM_PASTED,
        "grouping": "instance",
        "k_range": (num, num),
        "scale_range": (0.8, 1.3),
        "max_attempts": 16,
    }
    return BatchCopyPasteConfig(placement=placement, harmonize={"feather_px": 2})


def before_and_after() -> np.ndarray:
    """Draw a photograph, the same with objects of other photographs, and its labels."""
    subject = photographs((8, 0, 1, 4, 12), seed=1, width=800)
    after, pasted, _ = subject.pasted(config_for(NUM_PASTED))
    tiles = [
        Tile(draw_image(subject.before), "an image of the batch"),
        Tile(draw_image(after), "objects of other images pasted in"),
        Tile(drawn(subject, draw_instances, after, pasted), "the labels after the paste, the new ones in yellow"),
    ]
    return grid([tiles], tile_px=520)


def animation() -> list[Image.Image]:
    """Draw a batch of four photographs: as it is, with one object after another pasted into each, and its labels."""
    subject = photographs((8, 7, 2, 13), seed=5, width=400)
    frames = [page(subject, num, labels=False) for num in range(NUM_PASTED + 1)]
    frames.append(page(subject, NUM_PASTED, labels=True))
    return frames


def page(subject: Subject, num: int, *, labels: bool) -> Image.Image:
    """Draw the batch with ``num`` objects pasted into each image."""
    if num:
        out, report = BatchCopyPaste(config_for(num))(subject.batch, return_report=True)
        pasted = [(report.slot_layer[row] >= 0)[out.instance_valid[row]] for row in range(out.batch_size)]
    else:
        out, pasted = subject.batch, [None] * subject.batch.batch_size
    shown = [
        drawn(subject, draw_instances, sample, which) if labels else draw_image(sample)
        for sample, which in zip(samples(out), pasted, strict=True)
    ]
    objects = "no object" if num == 0 else "1 object" if num == 1 else f"up to {num} objects"
    state = "its labels" if labels else f"{objects} pasted into each image"
    return Image.fromarray(grid([shown[:2], shown[2:]], columns=(f"a batch of four, {state}", ""), tile_px=340))


def main() -> None:
    """Write both pictures."""
    save_jpeg(before_and_after(), "before-after")
    first, *others = animation()
    path = IMAGES / "batch.webp"
    times = [FRAME_MS] * len(others) + [LAST_FRAME_MS]
    first.save(path, save_all=True, append_images=others, duration=times, loop=0, quality=70, method=6)
    print(f"batch.webp {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
