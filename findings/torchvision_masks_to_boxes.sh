#!/usr/bin/env bash
# torchvision's masks_to_boxes gives boxes that are one pixel too small, and no area for thin objects.
#
# Most expect: the box of a mask, in the XYXY form of all of torchvision, encloses the mask: its right and lower edges lie
# behind the last pixel. COCO's boxes and scikit-image's do.
# What happens: `masks_to_boxes` gives the index of the last pixel as the edge. A mask of 10 x 10 pixels gets a box of
# 9 x 9 by torchvision's own `box_area`, and a line or a single pixel a box without area. Two functions of the library then
# disagree with it: SanitizeBoundingBoxes drops such an object together with its mask, and the detection models
# raise an error for a box without area.
#
# Why it matters: tutorials of Mask R-CNN make their boxes so. Boxes of objects of 10 pixels reach an IoU of 0.81 with the
# true ones at best, which is the class of small objects; wires, poles and far people vanish.
#
# Prints versions and boxes, and exits with 1 if the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check \
    torch==2.15.0 numpy==2.4.6 pillow==13.0.0 pycocotools==2.0.11 scikit-image==0.26.0
"$folder/env/bin/pip" install --quiet --disable-pip-version-check --no-deps torchvision==0.29.2
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import sys

import numpy as np
import torch
from pycocotools import mask as coco
from skimage.measure import regionprops

import torchvision
from torchvision import tv_tensors
from torchvision.ops import box_area, masks_to_boxes
from torchvision.transforms import v2

print(f"torch {torch.__version__}, torchvision {torchvision.__version__}")
masks = torch.zeros(3, 20, 20, dtype=torch.bool)
masks[0, 5:15, 3:13] = True
masks[1, 8, 2:18] = True
masks[2, 4, 6] = True
boxes = masks_to_boxes(masks)
as_described = True
for name, mask, box, area in zip(("square of 10", "line of 16", "one pixel"), masks.numpy(), boxes, box_area(boxes)):
    x, y, width, height = (int(value) for value in coco.toBbox(coco.encode(np.asfortranarray(mask.astype(np.uint8)))))
    top, left, bottom, right = regionprops(mask.astype(np.uint8))[0].bbox
    true = [x, y, x + width, y + height]
    print(f"  {name}: masks_to_boxes {[int(value) for value in box]}, area {int(area)};", end=" ")
    print(f"pycocotools {true}, area {width * height}; scikit-image {[left, top, right, bottom]}")
    as_described &= box.tolist() == [x, y, x + width - 1, y + height - 1] and true == [left, top, right, bottom]
sample = {
    "boxes": tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=(20, 20)),
    "masks": tv_tensors.Mask(masks),
    "labels": torch.arange(3),
}
kept = v2.SanitizeBoundingBoxes()(sample)
pixels = kept["masks"].sum((1, 2)).tolist()
print(f"  SanitizeBoundingBoxes keeps {len(kept['labels'])} of 3 objects, with masks of {pixels} pixels")
sys.exit(0 if as_described and kept["labels"].tolist() == [0] else 1)
PYTHON
