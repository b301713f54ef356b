#!/usr/bin/env bash
# Grey PNGs of 1, 2 and 4 bits: which values do image libraries give?
#
# Most expect: a label map whose PNG stores the class 1 in 4 bits is read as 1, as it is with a palette of 4 bits.
# What happens: Pillow, imageio and OpenCV spread grey values over 0 to 255 (PNG defines them as fractions of white), so
# that class 1 is read as 17 (4 bits), 85 (2 bits) or True / 255 (1 bit). The same values with a palette are read as stored.
# Why it matters: optimisers and some annotation tools choose the bit depth by the largest value, file by file. One
# dataset then has maps in 0..15 and maps in multiples of 17, and training runs on wrong classes or ignores them.
#
# Prints versions and values, and exits with 1 if a library behaves otherwise than described here.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q pillow==12.0.0 numpy==2.2.6 imageio==2.37.0 opencv-python-headless==4.12.0.88 pypng==0.20220715.0
cd "$work"
"$work/venv/bin/python" - <<'PY'
import importlib.metadata as metadata
import sys

import cv2
import imageio.v3 as iio
import numpy as np
import png
from PIL import Image

for name in ("pillow", "imageio", "opencv-python-headless", "pypng", "numpy"):
    print(name, metadata.version(name))
wrong = 0
for bits in (1, 2, 4):
    values = np.arange(1 << bits, dtype=np.uint8)[None]
    with open("grey.png", "wb") as file:
        png.Writer(values.shape[1], 1, greyscale=True, bitdepth=bits).write(file, values.tolist())
    with open("palette.png", "wb") as file:
        colors = [(v, v, v) for v in range(1 << bits)]
        png.Writer(values.shape[1], 1, palette=colors, bitdepth=bits).write(file, values.tolist())
    stored = [list(row) for row in png.Reader(filename="grey.png").read()[2]]
    spread = (values.astype(int) * (255 // ((1 << bits) - 1))).tolist()
    grey = {
        "pillow": np.array(Image.open("grey.png")).astype(int) * (255 if bits == 1 else 1),
        "imageio": np.array(iio.imread("grey.png")).astype(int),
        "opencv": cv2.imread("grey.png", cv2.IMREAD_UNCHANGED).astype(int),
    }
    if grey["imageio"].max() == 1:
        grey["imageio"] = grey["imageio"] * 255
    indices = np.array(Image.open("palette.png")).tolist()
    print(f"{bits} bits: stored {stored[0]}, palette in Pillow {indices[0]}")
    for name, found in grey.items():
        print(f"  {name}: {found.tolist()[0]}")
        wrong += found.tolist() != spread
    wrong += stored != values.tolist() or indices != values.tolist()
sys.exit(1 if wrong else 0)
PY
