#!/usr/bin/env bash
# Hugging Face's datasets stores the file of an image that was changed after it was opened, not the changed image.
#
# Most expect: a PIL image that is put into a dataset is stored with the pixels that it has.
# What happens: if the image object still knows its file, `datasets` stores the path of the file. Pillow's methods that
# change an image in place keep the object and its file name: `thumbnail`, `paste`, `putalpha`, `putpixel` and all of
# ImageDraw. The dataset then holds the original, without a warning. Methods that return a new image (`resize`, `convert`,
# `crop`) are stored rightly, since a new image has no file name.
#
# Why it matters: faces or plates that were blacked out, objects that were pasted in, ignored regions that were filled, and
# images made small are published or trained as the originals. The loop that made them looks right, and so do its pictures.
# Add `image.copy()` instead.
#
# Prints versions and pixels, and exits with 1 if the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check datasets==5.2.0 pillow==13.0.0 numpy==2.4.6
cd "$folder"
HF_HOME="$folder/home" HF_HUB_OFFLINE=1 "$folder/env/bin/python" - <<'PYTHON'
import sys

import datasets
import PIL
from datasets import Dataset, Features, Image
from PIL import Image as PillowImage
from PIL import ImageDraw

datasets.disable_progress_bars()
print(f"datasets {datasets.__version__}, Pillow {PIL.__version__}")
PillowImage.new("RGB", (64, 64), "white").save("white.png")


def draw(image):
    ImageDraw.Draw(image).rectangle((0, 0, 63, 63), fill="black")
    return image


def paste(image):
    image.paste("black", (0, 0, 64, 64))
    return image


def thumbnail(image):
    image.thumbnail((16, 16))
    return image


changes = {
    "black rectangle by ImageDraw": draw,
    "black by paste": paste,
    "thumbnail of 16 x 16": thumbnail,
    "black rectangle, then copy()": lambda image: draw(image).copy(),
    "resize to 16 x 16": lambda image: image.resize((16, 16)),
}
as_described = True
for name, change in changes.items():
    image = change(PillowImage.open("white.png"))
    dataset = Dataset.from_dict({"image": [image]}, features=Features({"image": Image()}))
    dataset.to_parquet("a.parquet")
    read = Dataset.from_parquet("a.parquet")[0]["image"]
    print(f"  {name}: given {image.size}, {image.getpixel((5, 5))}; in the dataset {read.size}, {read.getpixel((5, 5))}")
    is_kept = (read.size, read.getpixel((5, 5))) == (image.size, image.getpixel((5, 5)))
    as_described &= is_kept == ("copy()" in name or "resize" in name)
sys.exit(0 if as_described else 1)
PYTHON
