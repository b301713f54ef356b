#!/usr/bin/env bash
# webdataset's `decode("pil")` makes colour photos of label maps and depth maps.
#
# Most expect: "pil" gives the PIL image of each file as `Image.open` does: a label map with a palette with its class
# indices, a 16-bit depth map with its 16 bits. The other names ("rgb8", "l8") are there to ask for a kind of pixels.
# What happens: "pil" converts each image of a sample to RGB. Of a palette only the colours are left, and depth above 255
# becomes 255. "l8" and "pill" turn palette colours into their brightness, so that class 1 becomes 38 in the palette of
# Pascal VOC. None of the six names below keeps the values, and there is no warning.
#
# Why it matters: one specification decodes all images of a sample, photo and maps. Depth in millimetres becomes 255 nearly
# everywhere, ids become colours. Give the maps a handler of their own, or store them as `.npy`.
#
# Prints versions and values, and exits with 1 if the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check webdataset==1.0.2 pillow==13.0.0 numpy==2.4.6
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import io
import sys

import numpy as np
import PIL
import webdataset
from PIL import Image


def png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


print(f"webdataset {webdataset.__version__}, Pillow {PIL.__version__}")
classes = Image.fromarray(np.array([[0, 1, 2, 255]], np.uint8))
classes.putpalette([0, 0, 0, 128, 0, 0, 0, 128, 0] + [0] * 756 + [224, 224, 192])
depth = Image.fromarray(np.array([[0, 200, 1500, 65535]], np.uint16))
files = {"classes.png": png(classes), "depth.png": png(depth)}
with webdataset.TarWriter("a.tar") as writer:
    writer.write({"__key__": "a"} | files)
print("  written:", {name: np.asarray(image)[0].tolist() for name, image in (("classes", classes), ("depth", depth))})
found = {}
for decoder in ("pil", "pill", "l8", "rgb8", "rgb", "l"):
    (sample,) = webdataset.WebDataset("a.tar", shardshuffle=False).decode(decoder)
    for name in files:
        values = np.asarray(sample[name])
        found[decoder, name] = values[0].tolist()
        kind = getattr(sample[name], "mode", None) or values.dtype
        print(f"  decode({decoder!r}), {name}: {kind}, {np.round(values[0].astype(float), 3).tolist()}")
kept = [key for key, values in found.items() if values in ([0, 1, 2, 255], [0, 200, 1500, 65535])]
is_as_described = not kept and found["pil", "depth.png"][2] == [255] * 3 and found["l8", "classes.png"][1] == 38
sys.exit(0 if is_as_described else 1)
PYTHON
