#!/usr/bin/env bash
# OpenCV writes a map of instance ids as a PNG in which every id from 255 up is 255, and says that all went well.
#
# Most expect: PNG holds 16 bits, so `cv2.imwrite` writes an int32 or int64 map (what `cv2.connectedComponents`, SciPy and
# scikit-image give) with its values, or fails, as Pillow and imageio do.
# What happens: only uint16 is written with 16 bits. Other integers and floats are cut to 0..255 and written with 8 bits;
# `imwrite` returns True. The log of the native code has one line about it, once in a process, without a file name.
#
# Why it matters: in label maps 255 is "ignore" almost everywhere. An image with more than 254 objects, a map of
# category * 1000 + instance, or depth in millimetres comes back as void. Convert to uint16 before you write.
#
# Prints versions and values, and exits with 1 if the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check \
    opencv-python-headless==5.0.0.93 pillow==13.0.0 imageio==2.38.1 numpy==2.4.6
cd "$folder"
OPENCV_LOG_LEVEL=WARNING "$folder/env/bin/python" - <<'PYTHON'
import sys

import cv2
import imageio.v3 as iio
import numpy as np
import PIL
from PIL import Image

print(f"OpenCV {cv2.__version__}, Pillow {PIL.__version__}, NumPy {np.__version__}")
# 400 objects, numbered by OpenCV itself
dots = np.zeros((41, 41), np.uint8)
dots[1::2, 1::2] = 1
count, components = cv2.connectedComponents(dots)
as_described = count == 401 and components.dtype == np.int32
for dtype in (np.uint16, np.int32, np.int64, np.uint32, np.float32):
    ids = components.astype(dtype)
    said = cv2.imwrite("ids.png", ids)
    read = cv2.imread("ids.png", cv2.IMREAD_UNCHANGED)
    equal = np.array_equal(read, ids)
    print(f"{dtype.__name__}: imwrite returns {said}; {len(np.unique(ids)) - 1} ids, largest {int(ids.max())};", end=" ")
    print(f"read {read.dtype}, {len(np.unique(read)) - 1} ids, {int((read == 255).sum())} pixels of 255, equal {equal}")
    as_described &= said and (equal if dtype is np.uint16 else len(np.unique(read)) == 256)
for name, write in {
    "Pillow": lambda ids: Image.fromarray(ids).save("other.png"),
    "imageio": lambda ids: iio.imwrite("other.png", ids),
}.items():
    try:
        write(components)
        as_described = False
        print(f"{name}: int32 written")
    except (OSError, TypeError, ValueError) as error:
        print(f"{name}: int32 refused, {type(error).__name__}: {error}")
sys.exit(0 if as_described else 1)
PYTHON
