#!/usr/bin/env bash
# Uncompressed TIFFs with an orientation of 5 to 8: which pixels does Pillow give?
#
# Most expect: an image has the same pixels whether it is opened by its name or as an open file.
# What happens: Pillow swaps the sides of such a TIFF when it opens it, and turns the pixels when it loads them. It maps an
# uncompressed file that was opened by its name into memory, with the swapped sides: the rows of 16 pixels of a 16 x 9
# image are read as rows of 9, and the result is turned to 16 x 9 again. There is no error and no warning. It
# concerns the modes L, P, I;16, RGBA, RGBX and CMYK in one strip, not compressed files or RGB. Pillow 10.1 reads them rightly.
# Why it matters: cameras and scanners write such files. A photo or a label map that is not square becomes stripes, and its size
# is no longer that of `Image.size` before loading, so annotations of either size are on wrong pixels.
#
# Prints versions and pixels, and exits with 1 if Pillow behaves otherwise than described here.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q pillow==13.0.0 numpy==2.2.6
"$work/venv/bin/pip" install -q --target "$work/old" --no-deps pillow==10.1.0
cd "$work"
cat > turned.py <<'PY'
import sys

import numpy as np
import PIL
from PIL import Image

is_faulty = sys.argv[1] == "faulty"
print("pillow", PIL.__version__, "numpy", np.__version__)
values = np.arange(9 * 16, dtype=np.uint8).reshape(9, 16)
images = {
    "L": Image.fromarray(values),
    "I;16": Image.fromarray(values.astype(np.uint16) * 256),
    "RGBA": Image.fromarray(np.stack([values] * 4, -1)),
    "RGB": Image.fromarray(np.stack([values] * 3, -1)),
}
turns = {5: lambda a: a.swapaxes(0, 1), 6: lambda a: np.rot90(a, -1), 7: lambda a: np.rot90(a, 2).swapaxes(0, 1), 8: np.rot90}
wrong = 0
for mode, image in images.items():
    for compression in ("raw", "tiff_deflate"):
        for orientation, turn in turns.items():
            image.save("a.tif", compression=compression, tiffinfo={274: orientation})
            wanted = turn(np.asarray(image))
            with Image.open("a.tif") as picture:
                size, by_name = picture.size, np.asarray(picture)
            with open("a.tif", "rb") as file, Image.open(file) as picture:
                as_file = np.asarray(picture)
            is_right = by_name.shape == wanted.shape and np.array_equal(by_name, wanted)
            print(
                f"{mode} {compression} orientation {orientation}: expected {wanted.shape[1]} x {wanted.shape[0]}, size "
                f"{size[0]} x {size[1]}, by name {by_name.shape[1]} x {by_name.shape[0]} "
                f"{'right' if is_right else 'WRONG'}, as a file {'right' if np.array_equal(as_file, wanted) else 'WRONG'}"
            )
            wrong += is_right == (is_faulty and compression == "raw" and mode != "RGB") or not np.array_equal(as_file, wanted)
sys.exit(1 if wrong else 0)
PY
"$work/venv/bin/python" turned.py faulty
PYTHONPATH="$work/old" "$work/venv/bin/python" turned.py sound
