"""Draw codes for the documentation: attributes by class, likelihood ratios of pairs, and neighbours.

python -m benchmarks.draw_codes
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

from segpaste.bank import open_bank
from segpaste.encoder import attribute_shares, load_encoder, nearest, pack, read_vectors, train

from .attribute_codes import crops_of, make_config

PICTURES = Path(__file__).parents[1] / "docs" / "images" / "bank"
NUM_SCENES, CELL, LEFT, TOP, ROW = 150, 7, 100, 24, 16
SIDE, GAP, BIT, NUM_FOUND, NUM_QUERIES = 64, 12, (4, 6), 9, 4
BLUE, GREY, PALE, BLACK, RED = (46, 120, 150), (190, 190, 190), (228, 228, 228), (30, 30, 30), (200, 60, 50)


def heat_map(shares: np.ndarray, names: tuple[str, ...]) -> Image.Image:
    """A row for each class, a column for each attribute, the most frequent ones first."""
    order = np.argsort(-shares.mean(0))
    picture = Image.new("RGB", (LEFT + CELL * shares.shape[1] + 10, TOP + ROW * len(names) + 8), "white")
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(11)
    pen.text((LEFT, 5), "share of the class that has the attribute", BLACK, font)
    for i, name in enumerate(names):
        pen.text((LEFT - 6, TOP + ROW * i + 1), name, BLACK, font, anchor="ra")
        for j, share in enumerate(shares[i, order].tolist()):
            colour = tuple(round(255 + (c - 255) * share) for c in BLUE)
            x, y = LEFT + CELL * j, TOP + ROW * i
            pen.rectangle((x, y, x + CELL - 2, y + ROW - 3), fill=colour)
    return picture


def histogram(same: np.ndarray, other: np.ndarray, size: tuple[int, int]) -> Image.Image:
    """Draw the histograms of both, each to its own height."""
    picture = Image.new("RGB", size, "white")
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(11)
    pen.text((10, 5), "log likelihood ratio: one class, two classes", BLACK, font)
    low, high = float(min(same.min(), other.min())), float(max(same.max(), other.max()))
    num_bins, floor = 50, size[1] - 18
    width = (size[0] - 24) / num_bins
    for values, colour in ((other, GREY), (same, BLUE)):
        counts, _ = np.histogram(values, num_bins, (low, high))
        for i, count in enumerate((counts / counts.max()).tolist()):
            if count:
                pen.rectangle((12 + i * width, floor - (floor - 26) * count, 11 + (i + 1) * width, floor), fill=colour)
    for value in (low, 0.0, high):
        x = 12 + (value - low) / (high - low) * num_bins * width
        pen.text((x, floor + 3), f"{value:.0f}", BLACK, font, anchor="ma")
    return picture


def neighbours(banks: list[Path], codes: list[np.ndarray], queries: list[int]) -> Image.Image:
    """Crops of the second bank, and those of the first with the nearest codes, over their codes; red differs."""
    height = SIDE + 4 * BIT[1] + 2 * ROW
    picture = Image.new("RGB", (2 * GAP + (NUM_FOUND + 1) * (SIDE + GAP), TOP + len(queries) * height), "white")
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(11)
    pen.text((GAP, 5), "crop", BLACK, font)
    pen.text((3 * GAP + SIDE, 5), "the crops with the nearest codes, and how many bits differ", BLACK, font)
    found, distances = nearest(pack(codes[1][queries]), pack(codes[0]), NUM_FOUND)
    with open_bank(banks[0]) as gallery, open_bank(banks[1]) as asking:
        for i, query in enumerate(queries):
            code = codes[1][query]
            shown = [(asking[query], code, "")]
            for crop, num in zip(found[i].tolist(), distances[i].tolist(), strict=True):
                shown.append((gallery[crop], codes[0][crop], str(num)))
            for j, (crop, bits, text) in enumerate(shown):
                left, top = GAP + j * (SIDE + GAP) + GAP * (j > 0), TOP + i * height
                pixels = np.where(crop.alpha, crop.image, 255).transpose(1, 2, 0).astype(np.uint8)
                picture.paste(Image.fromarray(pixels).resize((SIDE, SIDE)), (left, top))
                for k, (bit, own) in enumerate(zip(bits.tolist(), code.tolist(), strict=True)):
                    x, y = left + k % 16 * BIT[0], top + SIDE + 4 + k // 16 * BIT[1]
                    colour = RED if bit != own else BLUE if bit else PALE
                    pen.rectangle((x, y, x + BIT[0] - 2, y + BIT[1] - 2), fill=colour)
                pen.text((left + SIDE // 2, top + SIDE + 6 + 4 * BIT[1]), text, BLACK, font, anchor="ma")
    return picture


def main() -> None:
    """Write it."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        banks = [crops_of(folder, NUM_SCENES, seed) for seed in (1, 2)]
        chosen_by = crops_of(folder, NUM_SCENES // 2, 3)
        train_set = read_vectors(banks[0])
        test_set = read_vectors(banks[1], label_names=train_set.label_names)
        validation_set = read_vectors(chosen_by, label_names=train_set.label_names)
        train(train_set, validation_set, make_config(epochs=30, num_attributes=64), folder / "run", test_set)
        trained = load_encoder(folder / "run")
        encoder, evidence = trained.encoder, trained.evidence
        assert evidence is not None
        bits = [encoder.encode(torch.from_numpy(data.vectors)).numpy() for data in (train_set, test_set)]
        queries = [int(np.flatnonzero(test_set.labels == c)[0]) for c in range(0, 2 * NUM_QUERIES, 2)]
        found = neighbours(banks, bits, queries)
    names = train_set.label_names
    left = heat_map(attribute_shares(bits[0], train_set.labels, len(names)), names)
    ratios = evidence.log_likelihood_ratios(bits[1], bits[1])
    rows, columns = np.triu_indices(len(ratios), 1)
    same = test_set.labels[rows] == test_set.labels[columns]
    pairs = ratios[rows, columns]
    right = histogram(pairs[same], pairs[~same], (330, left.height))
    picture = Image.new("RGB", (left.width + right.width, left.height), "white")
    picture.paste(left, (0, 0))
    picture.paste(right, (left.width, 0))
    PICTURES.mkdir(parents=True, exist_ok=True)
    picture.save(PICTURES / "codes.png", optimize=True)
    found.save(PICTURES / "neighbours.png", optimize=True)


if __name__ == "__main__":
    main()
