#!/usr/bin/env python3
"""Draw how often each class of a long-tailed bank is drawn, by mode, for the documentation; counts, not formulas.

python scripts/draw_balance.py
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from segpaste.bank import BankSampler, Crop, Layout, MemmapBank, MemmapWriter

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "bank" / "balance.png"
COUNTS = (1000, 500, 250, 120, 60, 30, 15, 8, 4, 1)
NUM_DRAWS = 100_000
CASES = (
    ("as they occur", {"mode": "tempered", "temperature": 0.0}),
    ("repeat_factor, threshold 0.1", {"mode": "repeat_factor", "threshold": 0.1}),
    ("tempered, temperature 0.5", {"mode": "tempered", "temperature": 0.5}),
    ("class_uniform", {"mode": "class_uniform"}),
)
WIDTH, HEIGHT, BAR, LEFT = 300, 150, 22, 34
BLUE, GREY, BLACK = (46, 120, 150), (205, 205, 205), (30, 30, 30)


def write_bank(folder: Path) -> MemmapBank:
    """Crops of one pixel; only their classes count."""
    one = np.ones((1, 1, 1), bool)
    with MemmapWriter(folder, Layout((1, 1)), [f"class {i}" for i in range(len(COUNTS))]) as writer:
        for class_id in np.repeat(np.arange(len(COUNTS)), COUNTS).tolist():
            writer.add(Crop(np.zeros((3, 1, 1), np.uint8), one, class_id, np.array([0, 0, 1, 1], np.int32)))
        writer.finish()
    return MemmapBank(folder)


def panel(title: str, shares: np.ndarray, before: np.ndarray) -> Image.Image:
    """Bars of the shares over grey ones of those before."""
    picture = Image.new("RGB", (WIDTH, HEIGHT), "white")
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(11)
    pen.text((LEFT, 4), title, BLACK, font)
    floor, full = HEIGHT - 20, HEIGHT - 46
    for label, level in (("50 %", 0.5), ("10 %", 0.1)):
        y = floor - full * level / 0.5
        pen.line((LEFT, y, WIDTH - 8, y), (230, 230, 230))
        pen.text((2, y - 6), label, BLACK, font)
    for i, (share, there) in enumerate(zip(shares, before, strict=True)):
        x = LEFT + 4 + i * (BAR + 3)
        pen.rectangle((x, floor - full * there / 0.5, x + BAR, floor), fill=GREY)
        pen.rectangle((x + 5, floor - full * share / 0.5, x + BAR - 5, floor), fill=BLUE)
        pen.text((x + BAR / 2, floor + 4), f"{COUNTS[i]}", BLACK, font, anchor="ma")
    return picture


def main() -> None:
    """Write it."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    before = np.array(COUNTS) / sum(COUNTS)
    sheet = Image.new("RGB", (2 * WIDTH, 2 * HEIGHT), "white")
    with tempfile.TemporaryDirectory() as folder, write_bank(Path(folder) / "bank") as bank:
        for i, (title, options) in enumerate(CASES):
            sampler = BankSampler(bank, NUM_DRAWS, **options)  # type: ignore[arg-type]
            shares = np.bincount(sampler.draws(0, NUM_DRAWS).classes, minlength=len(COUNTS)) / NUM_DRAWS
            sheet.paste(panel(title, shares, before), (i % 2 * WIDTH, i // 2 * HEIGHT))
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(PICTURE, optimize=True)
    print(PICTURE)


if __name__ == "__main__":
    main()
