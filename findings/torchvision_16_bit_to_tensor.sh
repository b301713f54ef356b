#!/usr/bin/env bash
# torchvision's ToTensor makes negative numbers of 16-bit PNGs, and the v2 transforms do not.
#
# Most expect: `ToTensor` of a 16-bit depth map gives its values, or the range 0 to 1 as for photos. It is still the
# transform of most code, and its successor is described as doing the same.
# What happens: a PIL image of mode I;16 is read as int16, without scaling: 40000 becomes -25536. The same values as a
# NumPy array become uint16, not scaled either. v2.ToImage and PILToTensor give uint16 with the right values, and
# v2.ToDtype(float32, scale=True) the range 0 to 1.
#
# Why it matters: depth in millimetres is right up to 32.767 m and negative beyond; many pipelines treat values below or at
# 0 as "no depth", so that all that is far is dropped without an error. Scenes indoors never show it.
#
# Prints versions and values, and exits with 1 if the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check torch==2.15.0 numpy==2.4.6 pillow==13.0.0
"$folder/env/bin/pip" install --quiet --disable-pip-version-check --no-deps torchvision==0.29.2
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import sys

import numpy as np
import PIL
import torch
from PIL import Image

import torchvision
from torchvision import transforms
from torchvision.transforms import v2

print(f"torch {torch.__version__}, torchvision {torchvision.__version__}, Pillow {PIL.__version__}")
depth = np.array([[0, 1000, 32767, 32768, 40000, 65535]], np.uint16)
Image.fromarray(depth).save("depth.png")
with Image.open("depth.png") as image:
    image.load()
print(f"written: {depth[0].tolist()}, read by Pillow as {image.mode}: {np.asarray(image)[0].tolist()}")
found = {}
for name, transform, source in (
    ("ToTensor", transforms.ToTensor(), image),
    ("ToTensor of an array", transforms.ToTensor(), depth[..., None]),
    ("PILToTensor", transforms.PILToTensor(), image),
    ("v2.ToImage", v2.ToImage(), image),
    ("v2.ToImage, v2.ToDtype", v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]), image),
):
    tensor = transform(source)
    found[name] = tensor.flatten().tolist()
    print(f"  {name}: {tensor.dtype}, {[round(value, 4) for value in found[name]]}")
values = depth[0].tolist()
is_as_described = (
    found["ToTensor"] == depth[0].astype(np.int16).tolist()
    and all(found[name] == values for name in ("ToTensor of an array", "PILToTensor", "v2.ToImage"))
    and np.allclose(found["v2.ToImage, v2.ToDtype"], depth[0] / 65535)
)
sys.exit(0 if is_as_described else 1)
PYTHON
