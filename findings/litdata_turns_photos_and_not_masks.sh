#!/usr/bin/env bash
# LitData gives a JPEG turned upright and a mask as it was stored, and forgets what was done to a photo after it was opened.
#
# Most expect: what is written into a streaming dataset comes back: a photo opened with Pillow has the rows and columns that it had.
# What happens: of a photo that Pillow opened from a JPEG file, the file is stored. It is decoded by torchvision when it is read, which
# applies the orientation that a camera stored; Pillow had not. A mask, and the same photo as PNG or array, are not turned.
# A photo that was painted over, or converted in place, after it was opened comes back as it is in the file.
# Why it matters: photos of phones lie across their masks and boxes. For an orientation of 180 degrees, or a mirror, shapes are equal and
# nothing fails.
#
# Prints versions and shapes, and exits with 1 if the library behaves otherwise than described here.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q litdata==0.2.76 torch==2.15.0 torchvision==0.29.2 numpy==2.3.5 pillow==12.0.0
cd "$work"
"$work/venv/bin/python" -W ignore - <<'PY'
import importlib.metadata as metadata
import sys

import numpy as np
from litdata import StreamingDataset
from litdata.streaming.writer import BinaryWriter
from PIL import Image

for name in ("litdata", "torchvision", "pillow", "numpy"):
    print(name, metadata.version(name))
values = np.zeros((40, 60, 3), np.uint8)
values[:20, :30] = 250  # the left upper quarter
exif = Image.Exif()
exif[274] = 3  # to be turned by 180 degrees
Image.fromarray(values).save("photo.jpg", quality=95, exif=exif)
Image.fromarray(values[..., 0]).save("mask.png")


def bright(image):
    """Which quarter is bright."""
    array = np.asarray(image)
    array = array.transpose(1, 2, 0) if array.ndim == 3 and array.shape[0] == 3 else array
    quarter = {"left upper": (10, 15), "right upper": (10, 45), "left lower": (30, 15), "right lower": (30, 45)}
    return [name for name, (y, x) in quarter.items() if array[y, x].max() > 128]


painted = Image.open("photo.jpg")
painted.paste((0, 0, 0), (0, 0, 60, 40))
given = {"photo": Image.open("photo.jpg"), "mask": Image.open("mask.png"), "painted": painted}
before = {name: bright(image) for name, image in given.items()}
writer = BinaryWriter("stream", chunk_bytes="1MB")
writer.add_item(0, given)
writer.done()
writer.merge()
after = {name: bright(image) for name, image in StreamingDataset("stream")[0].items()}
print("bright before:", before)
print("bright after: ", after)
expected = ({"photo": ["left upper"], "mask": ["left upper"], "painted": []}, {"photo": ["right lower"], "mask": ["left upper"], "painted": ["right lower"]})
sys.exit(0 if (before, after) == expected else 1)
PY
