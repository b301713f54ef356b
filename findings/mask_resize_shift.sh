#!/usr/bin/env bash
# "Nearest" shrinks a mask to another place than the image: which libraries shift, and by how much?
#
# Most expect: an image resized smoothly and its mask resized with "nearest" still lie on each other; that is the recipe of
# every segmentation pipeline.
# What happens: the smooth ways take the centre of a pixel as its place. "Nearest" in OpenCV and in PyTorch's interpolate,
# which libraries of augmentations call, takes the pixel at floor(x * scale): the first of each block, not one in its
# middle. The objects of the mask move to the lower right, by (scale - 1) / 2 pixels of the large image.
# With Pillow, scikit-image, PyTorch's "nearest-exact" and OpenCV's INTER_NEAREST_EXACT they move by half a pixel at most.
#
# Why it matters: shrinking photos of 4096 pixels to 512 moves each mask by 3.5 pixels of the photo, always in the same
# direction. A model learns it, and evaluation with masks shrunk the same way does not show it; with the original masks it does.
#
# Prints versions and shifts in pixels of the large image, and exits with 1 if the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy==2.4.6 pillow==13.0.0 \
    scikit-image==0.26.0 opencv-python-headless==5.0.0.93
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import sys

import cv2
import numpy as np
import PIL
import skimage
import torch
from PIL import Image
from skimage.transform import resize

SCALE, LARGE = 8, 1024
SMALL = (LARGE // SCALE, LARGE // SCALE)
y, x = np.mgrid[:LARGE, :LARGE]
rows, columns = np.mgrid[: SMALL[0], : SMALL[1]]
rng = np.random.default_rng(0)
nearest = torch.nn.functional.interpolate
ways = {
    "OpenCV, image, INTER_AREA": lambda m: cv2.resize(m.astype(np.float32), SMALL, interpolation=cv2.INTER_AREA),
    "OpenCV, mask, INTER_NEAREST": lambda m: cv2.resize(m, SMALL, interpolation=cv2.INTER_NEAREST),
    "OpenCV, mask, INTER_NEAREST_EXACT": lambda m: cv2.resize(m, SMALL, interpolation=cv2.INTER_NEAREST_EXACT),
    "PyTorch, mask, nearest": lambda m: nearest(torch.from_numpy(m)[None, None], SMALL, mode="nearest")[0, 0],
    "PyTorch, mask, nearest-exact": lambda m: nearest(torch.from_numpy(m)[None, None], SMALL, mode="nearest-exact")[0, 0],
    "Pillow, mask, NEAREST": lambda m: np.asarray(Image.fromarray(m).resize(SMALL, Image.Resampling.NEAREST)),
    "scikit-image, mask, order 0": lambda m: resize(m, SMALL, order=0, preserve_range=True),
}
shifts = {name: [] for name in ways}
for _ in range(30):
    radius, *place = rng.uniform(100, 200), *rng.uniform(210, LARGE - 210, 2)
    mask = ((x - place[0]) ** 2 + (y - place[1]) ** 2 < radius**2).astype(np.uint8)  # a disc
    for name, way in ways.items():
        small = np.asarray(way(mask), float)
        centre = np.array([(columns * small).sum(), (rows * small).sum()]) / small.sum()
        shifts[name].append((centre + 0.5) * SCALE - 0.5 - [x[mask > 0].mean(), y[mask > 0].mean()])
print(f"torch {torch.__version__}, OpenCV {cv2.__version__}, Pillow {PIL.__version__}, scikit-image {skimage.__version__}")
as_described = True
for name, found in shifts.items():
    mean = np.mean(found, axis=0)
    print(f"  {name}: 30 discs lie {mean[0]:+.2f}, {mean[1]:+.2f} pixels beside their places in the large mask, on average")
    moves = name.endswith(("INTER_NEAREST", "nearest"))
    as_described &= bool(np.abs(mean - 3.5).max() < 0.3 if moves else np.abs(mean).max() < 0.8)
sys.exit(0 if as_described else 1)
PYTHON
