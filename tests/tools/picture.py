"""Draw what a tool gives of the special image of a probe: ``picture.py NAME TOOL FORMAT TRAIT PICTURE``.

Two panels: the objects as they are painted, outlined, and the labels that the tool gives: each mask hatched, or the box
where there is none. It runs in the environment of the tool, as `observe.py`; `scripts/draw_interchange.py` runs it for
the page.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from all_probes import PROBES, write
from judge import Mask, ReadImage, ReadObject
from numpy.typing import NDArray
from PIL import Image

SCALE = 3
_SAME_COLOUR = 40
_GAP_PX = 12


def panels(truth: list[dict[str, object]], read: ReadImage) -> NDArray[np.uint8]:
    """Return the two panels side by side, on white."""
    pixels = read.pixels.astype(float)
    painted = [(np.abs(pixels - np.asarray(of["colour"])) < _SAME_COLOUR).all(2) for of in truth]
    labels = [_label(of, pixels.shape[:2]) for of in read.objects]
    left, right = _outlined(pixels, painted), _outlined(_hatched(pixels, labels), labels)
    gap = np.full((left.shape[0], _GAP_PX, 3), 255, np.uint8)
    return np.concatenate([left, gap, right], 1)


def _label(of: ReadObject, shape: tuple[int, ...]) -> Mask:
    """Return the mask of an object, or its filled box if it has no mask, or an empty one."""
    if of.mask is not None and of.mask.any():
        return np.asarray(of.mask, bool)
    filled = np.zeros(shape, bool)
    if of.box is not None:
        x1, y1, x2, y2 = (max(0, round(float(edge))) for edge in of.box)
        filled[y1:y2, x1:x2] = True
    return filled


def _outlined(pixels: NDArray[np.float64], masks: list[Mask]) -> NDArray[np.uint8]:
    """Return the enlarged pixels with the outline of each mask in black and white."""
    large = np.repeat(np.repeat(pixels, SCALE, 0), SCALE, 1).astype(np.uint8)
    for mask in masks:
        padded = np.pad(np.repeat(np.repeat(mask, SCALE, 0), SCALE, 1), 2)
        inner = padded[2:-2, 2:-2]
        height, width = inner.shape
        for reach, colour in ((2, 0), (1, 255)):
            steps = [(-reach, 0), (reach, 0), (0, -reach), (0, reach)]
            moved = [padded[2 + y : 2 + y + height, 2 + x : 2 + x + width] for y, x in steps]
            large[inner & ~np.logical_and.reduce(moved)] = colour
    return large


def _hatched(pixels: NDArray[np.float64], masks: list[Mask]) -> NDArray[np.float64]:
    """Return the pixels with every fourth diagonal of each mask lightened."""
    shown = pixels.copy()
    rows, columns = np.indices(pixels.shape[:2])
    for mask in masks:
        on = mask & ((rows + columns) % 4 == 0)
        shown[on] = shown[on] / 2 + 127
    return shown


def main(name: str, tool: str, format: str, trait: str, picture: str) -> None:
    """Write the picture."""
    module = importlib.import_module(f"tool_{name}")
    with tempfile.TemporaryDirectory() as folder:
        probe = write(PROBES[format][trait], format, Path(folder).resolve())
        truth = {image["name"]: image["objects"] for image in json.loads((probe / "truth.json").read_text())}
        read = next(image for image in module.READS[tool][format](probe) if "special" in image.name)
        Image.fromarray(panels(truth[read.name], read)).save(picture, optimize=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
