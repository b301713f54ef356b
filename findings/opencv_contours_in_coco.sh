#!/usr/bin/env bash
# Polygons by OpenCV's findContours lose a row and a column of pixels in COCO, and polygons of COCO grow in OpenCV.
#
# Most expect: a mask, its contour as a polygon and the polygon drawn again are the same pixels, or nearly, whichever of the
# two libraries draws: OpenCV finds contours for most tools that write COCO, and pycocotools reads them.
# What happens: OpenCV's contour goes through the centres of the outermost pixels, and its `fillPoly` draws the contour's
# pixels, so the way there and back within OpenCV is exact. COCO's polygons are outlines: their coordinates lie between
# pixels. pycocotools makes 9 x 9 pixels of a square of 10 x 10, and nothing of a line of one pixel. The other way,
# `fillPoly` makes 11 x 11 pixels of the outline of a square of 10 x 10.
#
# Why it matters: each object that is converted loses half a pixel all around, on average; a large one does not notice, one
# of 10 pixels has an IoU of 0.81 with itself, and AP of small objects has a ceiling below 1. `area` from
# `contourArea` agrees with the loss, so that no check of areas finds it. Shapes that are thin become empty.
#
# Prints versions and pixels, and exits with 1 if the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check \
    opencv-python-headless==5.0.0.93 pycocotools==2.0.11 numpy==2.4.6
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import importlib.metadata
import sys

import cv2
import numpy as np
from pycocotools import mask as coco


def coco_pixels(polygon: list[float]) -> np.ndarray:
    return coco.decode(coco.merge(coco.frPyObjects([polygon], 100, 100))).astype(bool)


def opencv_pixels(polygon: list[float]) -> np.ndarray:
    canvas = np.zeros((100, 100), np.uint8)
    cv2.fillPoly(canvas, [np.array(polygon, np.int32).reshape(-1, 1, 2)], 1)
    return canvas.astype(bool)


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    return (a & b).sum() / (a | b).sum()


print(f"OpenCV {cv2.__version__}, pycocotools {importlib.metadata.version('pycocotools')}")
y, x = np.mgrid[:100, :100]
shapes = {
    "square of 60 pixels": (abs(x - 49.5) < 30) & (abs(y - 49.5) < 30),
    "square of 10 pixels": (abs(x - 49.5) < 5) & (abs(y - 49.5) < 5),
    "disc of 12 pixels": np.hypot(x - 49.5, y - 49.5) < 6,
    "line of 2 x 50 pixels": (abs(x - 49.5) < 25) & (abs(y - 49.5) < 1),
    "line of 1 x 50 pixels": (abs(x - 49.5) < 25) & (y == 50),
}
found = {}
for name, mask in shapes.items():
    (contour,), _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    polygon = contour.reshape(-1).tolist()
    found[name] = overlap(mask, coco_pixels(polygon)), overlap(mask, opencv_pixels(polygon))
    print(
        f"  {name}: {mask.sum()} pixels, contourArea {cv2.contourArea(contour):.0f}; the contour is {coco_pixels(polygon).sum()} "
        f"pixels in pycocotools, IoU {found[name][0]:.2f}; {opencv_pixels(polygon).sum()} in OpenCV, IoU {found[name][1]:.2f}"
    )
outline = [45, 45, 55, 45, 55, 55, 45, 55]
back = coco_pixels(outline).sum(), opencv_pixels(outline).sum()
print(f"  outline of a square of 10 pixels: {back[0]} pixels in pycocotools, {back[1]} in OpenCV")
is_as_described = (
    all(opencv == 1 for _, opencv in found.values())
    and round(found["square of 10 pixels"][0], 2) == 0.81
    and found["line of 1 x 50 pixels"][0] == 0
    and back == (100, 121)
)
sys.exit(0 if is_as_described else 1)
PYTHON
