#!/usr/bin/env bash
# Pillow rotates 16-bit images with bilinear or bicubic sampling to other values than were there, without an error.
#
# Most expect: `rotate` and `transform` of a 16-bit depth map or X-ray (mode I;16) either interpolate its values, as they do
# for 8 bits, for mode F and, since some versions, in `resize` of the same image, or refuse, as for modes that they lack.
# What happens: with NEAREST the values are right. With BILINEAR and BICUBIC every value is wrong: the bytes are taken for
# pixels of 8 bits, so that even a rotation of a flat map gives other values, most of them below 256, or 0. There is no
# error and no warning. torchvision's `rotate`, `affine` and `perspective` of such a PIL image end here, too.
#
# Why it matters: depth in millimetres is stored so. One augmentation with smooth sampling makes noise of it, the shapes in
# a picture scaled for display still look plausible, and the loss only seems hard to bring down. Rotate as mode F.
#
# Prints versions and values, and exits with 1 if the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check pillow==13.0.0 numpy==2.4.6
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import sys

import numpy as np
import PIL
from PIL import Image

print(f"Pillow {PIL.__version__}, NumPy {np.__version__}")
depth = np.full((64, 64), 1500, np.uint16)  # a wall at 1.5 m
depth[20:44, 20:44] = 1000
Image.fromarray(depth).save("depth.png")
as_described = True
with Image.open("depth.png") as image:
    image.load()
    for resample in (Image.Resampling.NEAREST, Image.Resampling.BILINEAR, Image.Resampling.BICUBIC):
        changes = {
            "rotate by 10 degrees": lambda im: im.rotate(10, resample),
            "shift by half a pixel": lambda im: im.transform(im.size, Image.Transform.AFFINE, (1, 0, 0.5, 0, 1, 0), resample),
            "resize to half": lambda im: im.resize((32, 32), resample),
        }
        for name, change in changes.items():
            found = np.asarray(change(image)).astype(float)
            wanted = np.asarray(change(image.convert("F")))
            middle = len(wanted) // 2
            is_right = bool(np.abs(found - wanted)[2:-2, 2:-2].max() <= 1)
            print(
                f"  mode {image.mode}, {resample.name}, {name}: middle {found[middle, middle]:.0f} "
                f"(as mode F {wanted[middle, middle]:.0f}), {(np.abs(found - wanted) > 1).mean():.0%} of the pixels differ"
            )
            as_described &= is_right == (resample is Image.Resampling.NEAREST or "resize" in name)
sys.exit(0 if as_described else 1)
PYTHON
