#!/usr/bin/env bash
# Hugging Face's `Dataset.map` compresses JPEGs again, at another quality, when the function only looks at them.
#
# Most expect: `map` with a function that adds a column, such as the number of objects or the size of the image, leaves the
# image column as it is. Nothing in the function changes it.
# What happens: where images are stored as bytes (everything that came from the hub, Parquet or a web dataset), an image that
# the function has read is written again: decoded and saved as JPEG at Pillow's quality of 75, also if it was 95.
# The pixels change, and again with each such `map`. A function that does not touch the image column changes nothing, and
# images that are stored as paths stay.
#
# Why it matters: photos lose detail in preparation, differently for those who prepared the data differently; the noise of
# thin structures grows, and digests of images no longer find duplicates. Use `input_columns`, or cast to Image(decode=False).
#
# Prints versions, sizes and differences, and exits with 1 if the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check datasets==5.2.0 pillow==13.0.0 numpy==2.4.6
cd "$folder"
HF_HOME="$folder/home" HF_HUB_OFFLINE=1 "$folder/env/bin/python" - <<'PYTHON'
import io
import sys

import datasets
import numpy as np
import PIL
from datasets import Dataset, Features, Image
from PIL import Image as PillowImage

datasets.disable_progress_bars()
print(f"datasets {datasets.__version__}, Pillow {PIL.__version__}")
y, x = np.mgrid[:256, :256]
photo = np.stack([(x + y) // 2, 255 - x, 128 + 60 * np.sin(x * y / 400)], -1).astype(np.uint8)
photo[::16] = 255  # thin lines
file = io.BytesIO()
PillowImage.fromarray(photo).save(file, "JPEG", quality=95)
start = Dataset.from_dict({"image": [{"bytes": file.getvalue(), "path": None}]}, features=Features({"image": Image()}))


def stored(dataset: Dataset) -> bytes:
    return dataset.cast_column("image", Image(decode=False))[0]["image"]["bytes"]


def looks(example: dict) -> dict:
    example["width"] = example["image"].width
    return example


def counts(example: dict) -> dict:
    example["objects"] = 3
    return example


looks_once = start.map(looks)
looks_again = looks_once.map(lambda example: example | {"height": example["image"].height})
found = {"as stored": start, "map that reads the width": looks_once, "a second map": looks_again}
found["map without the image"] = start.map(counts)
pixels = np.asarray(start[0]["image"]).astype(int)
changed = {}
for name, dataset in found.items():
    difference = np.abs(np.asarray(dataset[0]["image"]).astype(int) - pixels)
    changed[name] = stored(dataset) != stored(start)
    print(f"  {name}: {len(stored(dataset))} bytes, pixels differ by {difference.mean():.2f} on average")
only = start.map(lambda image: {"width": image.width}, input_columns="image")
print(f"  map with input_columns that returns the width only: {len(stored(only))} bytes")
is_as_described = [*changed.values()] == [False, True, True, False] and len(stored(looks_once)) < len(stored(start)) / 1.5
sys.exit(0 if is_as_described else 1)
PYTHON
