#!/usr/bin/env bash
# torchvision's v2 flips move a keypoint by another rule than the box and the mask of the same object.
#
# Most expect: keypoints and boxes are coordinates of one system, so a keypoint on the right edge of a box lies on its left
# edge after a flip, and two ways to the same image, such as two flips and a rotation by 180 degrees, give the same keypoint.
# What happens: a flip moves a box edge from x to W - x and a keypoint from x to W - 1 - x, as if it were the index of a
# pixel. Resize, rotation, affine, crop and perspective move keypoints like edges of boxes, as points in an image that
# spans 0 to W. A flip therefore puts a keypoint one pixel to the left of where it was on the object, and a keypoint at
# the right border of the image at -1, outside of it.
#
# Why it matters: one pixel of the image that is flipped. At 64 pixels for a face or a hand that is what separates good
# from bad, half of the samples have it, and "sanitize" or a check for visible points drops keypoints at the border.
#
# Prints versions and coordinates, and exits with 1 if the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check torch==2.15.0 numpy==2.4.6 pillow==13.0.0
"$folder/env/bin/pip" install --quiet --disable-pip-version-check --no-deps torchvision==0.29.2
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import sys

import torch

import torchvision
from torchvision import tv_tensors
from torchvision.transforms import v2

print(f"torch {torch.__version__}, torchvision {torchvision.__version__}")
HEIGHT, WIDTH = 40, 64
start = torch.tensor([[10.0, 20.0], [30.0, 8.0], [64.0, 40.0]])
sample = {
    "image": tv_tensors.Image(torch.zeros(3, HEIGHT, WIDTH)),
    "keypoints": tv_tensors.KeyPoints(start, canvas_size=(HEIGHT, WIDTH)),
    "boxes": tv_tensors.BoundingBoxes([[10.0, 8.0, 30.0, 20.0]], format="XYXY", canvas_size=(HEIGHT, WIDTH)),
}
ways = {
    "as it is": v2.Identity(),
    "flipped from left to right": v2.RandomHorizontalFlip(p=1),
    "flipped twice, both ways": v2.Compose([v2.RandomHorizontalFlip(p=1), v2.RandomVerticalFlip(p=1)]),
    "rotated by 180 degrees": v2.RandomRotation((180, 180)),
    "resized to twice its size": v2.Resize((2 * HEIGHT, 2 * WIDTH)),
}
found = {}
for name, way in ways.items():
    moved = way(sample)
    found[name] = moved["keypoints"].round(decimals=3)
    box = [round(value, 3) for value in moved["boxes"][0].tolist()]
    print(f"  {name}: box {box}, keypoints {found[name].tolist()}")
size = torch.tensor([WIDTH, HEIGHT])
flipped = torch.stack([WIDTH - 1 - start[:, 0], start[:, 1]], 1)
is_as_described = (
    torch.equal(found["flipped from left to right"], flipped)
    and torch.equal(found["flipped twice, both ways"], size - 1 - start)
    and torch.allclose(found["rotated by 180 degrees"], size - start, atol=0.01)
    and torch.equal(found["resized to twice its size"], 2 * start)
)
sys.exit(0 if is_as_described else 1)
PYTHON
