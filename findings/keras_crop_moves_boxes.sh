#!/usr/bin/env bash
# Keras' RandomCrop moves boxes by the wrong axis: to the left by the rows that were cut, and up by the columns.
#
# Most expect: a Keras layer that is given images, masks and boxes together, with `bounding_box_format`, moves all three alike;
# that is what the dictionary is for, and RandomFlip, RandomTranslation and Resizing do so.
# What happens: image and mask are cropped alike. The start of the crop is subtracted from the box with x and y changed for
# each other, and the result is clipped to the crop. With equal starts, as for square crops of images that are barely
# larger, the boxes are right or nearly right.
#
# Why it matters: a random share of the boxes of each epoch lies beside its object, and some are cut to nothing. The loss goes
# down all the same, since the mean box is still near; the AP stays low. Pictures with masks only look right.
#
# Prints versions and boxes, and exits with 1 if the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check keras==3.15.1 jax==0.10.2 numpy==2.4.6
cd "$folder"
KERAS_HOME="$folder" KERAS_BACKEND=jax "$folder/env/bin/python" - <<'PYTHON'
import sys

import keras
import numpy as np

print(f"Keras {keras.__version__}, backend {keras.backend.backend()}; left, top, right, bottom of the object after a crop")
HEIGHT, WIDTH = 100, 140
LEFT, TOP, RIGHT, BOTTOM = 60, 45, 90, 60
images = np.zeros((1, HEIGHT, WIDTH, 3), np.float32)
images[0, TOP:BOTTOM, LEFT:RIGHT] = 255
masks = np.zeros((1, HEIGHT, WIDTH, 1), np.int32)
masks[0, TOP:BOTTOM, LEFT:RIGHT] = 1
boxes = {"boxes": np.array([[[LEFT, TOP, RIGHT, BOTTOM]]], np.float32), "labels": np.array([[1]])}


def extent(mask: np.ndarray) -> list[int]:
    places = np.argwhere(mask)
    return [*places.min(0)[::-1].tolist(), *(places.max(0) + 1)[::-1].tolist()]


moved_wrongly = swapped = 0
for seed in range(8):
    layer = keras.layers.RandomCrop(90, 100, seed=seed, bounding_box_format="xyxy", data_format="channels_last")
    sample = {"images": images, "segmentation_masks": masks, "bounding_boxes": dict(boxes)}
    result = layer(sample, training=True)
    in_image = extent(keras.ops.convert_to_numpy(result["images"])[0, ..., 0] > 0)
    in_mask = extent(keras.ops.convert_to_numpy(result["segmentation_masks"])[0, ..., 0] > 0)
    box = [round(float(edge)) for edge in keras.ops.convert_to_numpy(result["bounding_boxes"]["boxes"])[0, 0]]
    right, down = LEFT - in_image[0], TOP - in_image[1]  # columns and rows that were cut
    print(f"  {right} columns and {down} rows cut: image {in_image}, mask {in_mask}, box {box}")
    moved_wrongly += box != in_image
    swapped += in_mask == in_image and box == [LEFT - down, TOP - right, RIGHT - down, BOTTOM - right]
sys.exit(0 if moved_wrongly >= 6 and swapped == 8 else 1)
PYTHON
