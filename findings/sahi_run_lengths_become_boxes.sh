#!/usr/bin/env bash
# sahi replaces masks in run lengths by their boxes when it slices a COCO dataset, and crowds become objects.
#
# Most expect: `slice_coco` cuts images and annotations, so an annotation that lies within one slice stays as it was. What
# it cannot read it leaves out; the log says "segmentation annotation ... is skipped since RLE segmentation format is not
# supported".
# What happens: the annotation is not left out, and not without a mask. It gets its bounding box as a polygon, and the area
# of the box. `iscrowd` is written as 0 for all, so the region of a crowd becomes one large object. Polygons are kept.
#
# Why it matters: COCO stores crowds as run lengths, and many tools store all masks so. After slicing, training sees
# filled boxes as masks and whole crowds as objects; the log line tells that they are gone.
#
# Prints versions and annotations, and exits with 1 if the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check sahi==0.12.8 pycocotools==2.0.11 numpy==2.4.6
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import importlib.metadata
import json
import sys

import numpy as np
from PIL import Image
from pycocotools import mask as coco
from sahi.slicing import slice_coco


def area(annotation: dict) -> int:
    """Number of pixels of the mask, in an image of 100 x 100."""
    segmentation = annotation["segmentation"]
    encoded = coco.frPyObjects(segmentation, 100, 100)
    return int(coco.area(coco.merge(encoded) if isinstance(segmentation, list) else encoded))


def run_lengths(mask: np.ndarray) -> dict:
    flat = mask.flatten(order="F").astype(int)
    changes = np.flatnonzero(np.diff(flat, prepend=0))
    return {"size": [100, 100], "counts": np.diff([0, *changes, flat.size]).tolist()}


y, x = np.mgrid[:100, :100]
ring = (np.hypot(x - 25, y - 25) < 15) & (np.hypot(x - 25, y - 25) > 10)
crowd = (y > 50) & ((x + y) % 3 == 0)
triangle = [[60, 10, 90, 10, 60, 40]]
objects = [
    {"bbox": [11, 11, 29, 29], "area": int(ring.sum()), "iscrowd": 0, "segmentation": run_lengths(ring)},
    {"bbox": [0, 51, 100, 49], "area": int(crowd.sum()), "iscrowd": 1, "segmentation": run_lengths(crowd)},
    {"bbox": [60, 10, 30, 30], "area": 450, "iscrowd": 0, "segmentation": triangle},
]
truth = {
    "images": [{"id": 1, "file_name": "a.png", "width": 100, "height": 100}],
    "categories": [{"id": 1, "name": "person"}],
    "annotations": [{"id": i, "image_id": 1, "category_id": 1} | one for i, one in enumerate(objects, 1)],
}
Image.new("RGB", (100, 100)).save("a.png")
with open("a.json", "w") as file:
    json.dump(truth, file)
size = {"slice_height": 100, "slice_width": 100}  # one slice: the image as it is
sliced, _ = slice_coco("a.json", ".", "sliced", output_dir="out", verbose=False, **size)
print(f"sahi {importlib.metadata.version('sahi')}")
for name, before, after in zip(("ring", "crowd", "triangle"), truth["annotations"], sliced["annotations"]):
    print(f"  {name}: {area(before)} pixels, iscrowd {before['iscrowd']};", end=" ")
    print(f"sliced: {area(after)} pixels, iscrowd {after['iscrowd']}")
found = [(area(annotation), annotation["iscrowd"]) for annotation in sliced["annotations"]]
sys.exit(0 if found == [(29 * 29, 0), (100 * 49, 0), (area(truth["annotations"][2]), 0)] else 1)
PYTHON
