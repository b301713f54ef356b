#!/usr/bin/env bash
# Run lengths of a mask that is not 0 and 1: two of three COCO mask libraries turn it inside out without a word.
#
# Most expect: `mask.encode` takes every value but 0 as object, as NumPy, OpenCV and every other tool with masks does,
# or refuses other values than 0 and 1.
# What happens: pycocotools and faster-coco-eval begin a new run wherever the value changes, and call the runs background
# and object by turns. Where an object has two values, as on the border of a mask that was resized smoothly (128, 255,
# 255, 128) or in a label map (1, 1, 2, 2), its inside becomes background, and background below it may become object.
# hotcoco encodes every value but 0.
#
# Why it matters: masks of 0 and 255 are encoded rightly, so the mistake shows only after a smooth resize, an antialiased
# drawing or a JPEG. Areas, boxes and IoU of these objects are wrong; nothing fails. Compare with 0 before you encode.
#
# Prints versions and masks, and exits with 1 if the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check \
    pycocotools==2.0.11 faster-coco-eval==1.8.0 hotcoco==1.3.0 numpy==2.4.6 pillow==13.0.0
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import importlib.metadata
import sys

import numpy as np
from faster_coco_eval import mask as faster
from hotcoco import mask as hot
from PIL import Image
from pycocotools import mask as official

square = np.zeros((40, 40), np.uint8)
square[12:28, 12:28] = 255
small = np.array(Image.fromarray(square).resize((15, 15), Image.Resampling.BILINEAR))
stripes = np.zeros((8, 4), np.uint8)
stripes[1:5, 1:3] = [[1], [1], [2], [2]]
libraries = {"pycocotools": official, "faster-coco-eval": faster, "hotcoco": hot}
wrong = []
for name, mask in {"square, resized smoothly": small, "label map": stripes}.items():
    column = mask[:, mask.shape[1] // 2]
    print(f"{name}: values of the middle column {column.tolist()}, {(mask > 0).sum()} pixels are not 0")
    for library, functions in libraries.items():
        encoded = functions.encode(np.asfortranarray(mask))
        decoded = np.asarray(functions.decode(encoded))
        print(
            f"  {library} {importlib.metadata.version(library)}: area {int(functions.area(encoded))}, "
            f"middle column {decoded[:, mask.shape[1] // 2].tolist()}"
        )
        if not np.array_equal(decoded > 0, mask > 0):
            wrong.append(library)
sys.exit(0 if wrong == ["pycocotools", "faster-coco-eval"] * 2 else 1)
PYTHON
