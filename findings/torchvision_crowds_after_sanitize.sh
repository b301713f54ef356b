#!/usr/bin/env bash
# torchvision's SanitizeBoundingBoxes drops boxes, labels and masks, and leaves `iscrowd` and `area` as long as before.
#
# Most expect: a target of `wrap_dataset_for_transforms_v2` is one record per object, so a transform that drops objects drops
# them from every list. Its documentation speaks of boxes "and their corresponding labels and masks".
# What happens: the default looks for the key "labels" and for masks; `iscrowd` and `area` stay, as lists and as tensors.
# After a crop the flags belong to other objects: crowds are trained as objects, and objects are taken for crowds.
#
# Why it matters: code that drops crowds after augmentation (`boxes[iscrowd == 0]`) fails with a mask of another length,
# code with lists and `zip` takes the wrong ones without a word, and evaluators take the wrong areas.
# Make tensors of them, and give `labels_getter` a function that returns all of them in a tuple.
#
# Prints versions and targets, and exits with 1 if the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check torch==2.15.0 numpy==2.4.6 pillow==13.0.0 pycocotools==2.0.11
"$folder/env/bin/pip" install --quiet --disable-pip-version-check --no-deps torchvision==0.29.2
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import contextlib
import io
import json
import sys

import numpy as np
import torch
from PIL import Image

import torchvision
from torchvision.datasets import CocoDetection, wrap_dataset_for_transforms_v2
from torchvision.transforms import v2

print(f"torch {torch.__version__}, torchvision {torchvision.__version__}")
Image.fromarray(np.zeros((100, 100, 3), np.uint8)).save("a.png")
crowd = {"size": [100, 100], "counts": [1000, 100, 8900]}
objects = [
    {"id": 1, "bbox": [0, 0, 5, 5], "area": 25, "iscrowd": 0, "segmentation": [[0, 0, 5, 0, 5, 5, 0, 5]]},
    {"id": 2, "bbox": [10, 0, 1, 100], "area": 100, "iscrowd": 1, "segmentation": crowd},
    {"id": 3, "bbox": [40, 40, 20, 20], "area": 400, "iscrowd": 0, "segmentation": [[40, 40, 60, 40, 60, 60, 40, 60]]},
    {"id": 4, "bbox": [45, 45, 10, 10], "area": 100, "iscrowd": 0, "segmentation": [[45, 45, 55, 45, 55, 55, 45, 55]]},
]
image = {"id": 1, "file_name": "a.png", "width": 100, "height": 100}
annotations = [one | {"image_id": 1, "category_id": one["id"]} for one in objects]
categories = [{"id": i, "name": str(i)} for i in range(1, 5)]
with open("a.json", "w") as file:
    json.dump({"images": [image], "annotations": annotations, "categories": categories}, file)
crop = v2.Compose([v2.CenterCrop(50), v2.ClampBoundingBoxes(), v2.SanitizeBoundingBoxes()])
keys = ("boxes", "labels", "masks", "iscrowd", "area")
targets = []
for transforms in (None, crop):
    with contextlib.redirect_stdout(io.StringIO()):
        dataset = wrap_dataset_for_transforms_v2(CocoDetection(".", "a.json", transforms=transforms), target_keys=keys)
    targets.append(dataset[0][1])
for name, target in zip(("the file", "cropped"), targets):
    print(f"  {name}: labels {target['labels'].tolist()}, {len(target['masks'])} masks,", end=" ")
    print(f"iscrowd {target['iscrowd']}, area {target['area']}")
pairs = [(int(label), flag) for label, flag in zip(targets[1]["labels"], targets[1]["iscrowd"])]
print(f"  cropped, label and flag in pairs: {pairs}; in the file object 4 is no crowd, and object 2 is one")
is_as_described = len(targets[1]["labels"]) == len(targets[1]["masks"]) == 2 and targets[1]["iscrowd"] == [0, 1, 0, 0]
sys.exit(0 if is_as_described and pairs == [(3, 0), (4, 1)] else 1)
PYTHON
