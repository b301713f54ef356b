#!/usr/bin/env bash
# OpenCV cannot read a TIFF whose orientation turns it onto its other side.
#
# Most expect: `imread` turns an image by its orientation, as it does with a JPEG, or leaves it as it is stored.
# What happens: `imread` returns None for a TIFF with an orientation of 5 to 8 whose sides differ, in each mode of reading,
# also with IMREAD_UNCHANGED, packed or not. `imdecode` of the same bytes, and square images, are read, and turned. Scanners
# and cameras write such TIFFs.
#
# Why it matters: loaders that take None for a broken file leave the image out, and those that read the size with another
# library look for labels on an image that OpenCV never gives them.
#
# Prints versions and sizes, and exits with 1 if the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check opencv-python-headless==5.0.0.93 numpy==2.4.6 pillow==13.0.0
cd "$folder"
OPENCV_LOG_LEVEL=SILENT "$folder/env/bin/python" - <<'PYTHON'
import pathlib
import sys

import cv2
import numpy as np
from PIL import Image

print("opencv", cv2.__version__)


def size_of(image):
    return None if image is None else image.shape[:2]


found = {}
for width, orientation, compression in ((128, 1, None), (128, 3, None), (128, 6, None), (128, 6, "tiff_lzw"), (96, 6, None)):
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.new("RGB", (width, 96)).save("a.tif", exif=exif, compression=compression)
    data = np.frombuffer(pathlib.Path("a.tif").read_bytes(), np.uint8)
    plain, unchanged = (cv2.imread("a.tif", flag) for flag in (cv2.IMREAD_COLOR, cv2.IMREAD_UNCHANGED))
    read = found[width, orientation, compression] = [*map(size_of, (plain, unchanged, cv2.imdecode(data, cv2.IMREAD_COLOR)))]
    what = f"96 x {width}, orientation {orientation}, {compression or 'uncompressed'}"
    print(f"{what}: imread {read[0]}, imread unchanged {read[1]}, imdecode {read[2]}")
none = {key for key, read in found.items() if read[:2] == [None, None]}
sys.exit(0 if none == {(128, 6, None), (128, 6, "tiff_lzw")} and all(read[2] for read in found.values()) else 1)
PYTHON
