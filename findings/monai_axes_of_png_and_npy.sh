#!/usr/bin/env bash
# MONAI's LoadImage reads a PNG with its axes swapped, and the same values in a .npy file as they are.
#
# Most expect: a photo as PNG or JPEG and its label map or depth as .npy, loaded by one LoadImaged, lie on one another, as they do
# with Pillow and numpy.load; and an image of H rows and W columns has the shape (H, W).
# What happens: images come as (W, H), the order of medical volumes; arrays of .npy and .npz files are taken as they are. Where all
# images are square, nothing fails: the label map is the mirror image of the photo along its diagonal. The orientation that a
# camera stores in a JPEG is not applied to either.
# Why it matters: segmentation models train without an error on labels that lie elsewhere. Boxes (x, y) fit the swapped axes,
# so detection looks right and hides it.
#
# Prints versions and positions, and exits with 1 if the library behaves otherwise than described here.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q monai==1.6.1 torch==2.13.0 numpy==2.3.5 pillow==12.0.0
cd "$work"
"$work/venv/bin/python" -W ignore - <<'PY'
import importlib.metadata as metadata
import sys

import numpy as np
from monai.transforms import LoadImaged
from PIL import Image

for name in ("monai", "numpy", "pillow"):
    print(name, metadata.version(name))
values = np.zeros((8, 8), np.uint8)
values[1, 6] = 200  # row 1, column 6
Image.fromarray(values).save("photo.png")
np.save("labels.npy", values)
np.savez("labels.npz", values)
wide = np.zeros((4, 6), np.uint8)
Image.fromarray(wide).save("wide.png")
np.save("wide.npy", wide)
exif = Image.Exif()
exif[274] = 6  # to be turned by 90 degrees
Image.fromarray(wide).save("turned.jpg", exif=exif)


def where(array):
    return np.argwhere(np.asarray(array))[0].tolist()


read = LoadImaged(keys=["png", "npy", "npz"])({"png": "photo.png", "npy": "labels.npy", "npz": "labels.npz"})
print(f"Pillow: the pixel is at {where(Image.open('photo.png'))}, numpy.load: {where(np.load('labels.npy'))}")
found = {name: where(read[name]) for name in ("png", "npy", "npz")}
print("LoadImaged:", found)
shapes = {name: list(value.shape) for name, value in LoadImaged(keys=["png", "npy", "jpg"])({"png": "wide.png", "npy": "wide.npy", "jpg": "turned.jpg"}).items() if name in ("png", "npy", "jpg")}
print("4 rows, 6 columns:", shapes)
as_described = found == {"png": [6, 1], "npy": [1, 6], "npz": [1, 6]} and shapes == {"png": [6, 4], "npy": [4, 6], "jpg": [6, 4]}
sys.exit(0 if as_described else 1)
PY
