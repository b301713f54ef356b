#!/usr/bin/env bash
# MONAI's SaveImage writes label maps of more than 255 ids as PNG modulo 256, whatever the type of the array.
#
# Most expect: a label map of int32 whose largest id is 300 is written as a PNG of 16 bits, or refused.
# What happens: the ids are converted to 8 bits without a word, and 300 becomes 44, 256 becomes the background. This is so for
# arrays of int32, int64, uint16 and float32, and if output_dtype says int32; only output_dtype=np.uint16 keeps them.
# Why it matters: instance maps of cells or of panoptic images have more than 255 objects; two objects become one, and one is lost.
#
# Prints versions and values, and exits with 1 if the library behaves otherwise than described here.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q monai==1.6.1 torch==2.13.0 numpy==2.3.5 pillow==12.0.0
cd "$work"
"$work/venv/bin/python" -W ignore - <<'PY'
import importlib.metadata as metadata
import sys
from pathlib import Path

import numpy as np
from monai.transforms import SaveImage
from PIL import Image

for name in ("monai", "numpy", "pillow"):
    print(name, metadata.version(name))
IDS = [0, 1, 255, 256, 257, 300]


def written(dtype, **options):
    folder = f"{dtype}_{len(list(Path('.').iterdir()))}"
    SaveImage(output_dir=folder, output_ext=".png", separate_folder=False, print_log=False, **options)(np.array([[IDS]], dtype))
    with Image.open(next(Path(folder).iterdir())) as file:
        return file.mode, np.asarray(file).flatten().tolist()


wrapped = [value % 256 for value in IDS]
as_described = True
for dtype in ("int32", "int64", "uint16", "float32"):
    mode, values = written(dtype)
    print(f"{dtype}: {IDS} -> {values} ({mode})")
    as_described &= values == wrapped
mode, values = written("int32", output_dtype=np.int32)
print(f"int32, output_dtype=np.int32: {values} ({mode})")
as_described &= values == wrapped
mode, values = written("int32", output_dtype=np.uint16)
print(f"int32, output_dtype=np.uint16: {values} ({mode})")
as_described &= values == IDS
sys.exit(0 if as_described else 1)
PY
