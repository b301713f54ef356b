#!/usr/bin/env bash
# supervision writes an object of two parts, or with a hole, as a crowd (COCO) and as several objects (YOLO, Pascal VOC).
#
# Most expect: a mask is one object, whatever its shape, and conversion keeps the number of objects and what they are. COCO
# and supervision itself can hold such masks: COCO has lists of polygons and run lengths for single objects.
# What happens: `as_coco` sets `iscrowd` to 1 for every mask with a hole or more than one part. `as_yolo` and
# `as_pascal_voc` write one object for each part. There is no warning.
#
# Why it matters: trainers leave crowds out, and evaluators neither count them as missed nor detections on them as wrong. What
# is partly hidden, and has parts for that reason, is never learned, and its misses do not lower AP. In the
# other formats a car behind a pole becomes two small cars. Set `iscrowd` to 0 afterwards, or write COCO with another tool.
#
# Prints versions and what is written, and exits with 1 if the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check supervision==0.31.2 opencv-python-headless==5.0.0.93 \
    pillow==13.0.0 numpy==2.4.6
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import json
import pathlib
import sys

import numpy as np
import supervision
from PIL import Image

masks = np.zeros((3, 100, 100), bool)
masks[0, 10:40, 10:40] = True
masks[1, 10:40, 50:80] = True
masks[1, 20:30, 60:70] = False
masks[2, 60:80, 10:30] = masks[2, 60:80, 50:70] = True
names = ["solid", "with a hole", "two parts"]
boxes = [[10, 10, 40, 40], [50, 10, 80, 40], [10, 60, 70, 80]]
Image.new("RGB", (100, 100)).save("a.png")
objects = supervision.Detections(xyxy=np.array(boxes, float), mask=masks, class_id=np.arange(3))
dataset = supervision.DetectionDataset(classes=names, images=["a.png"], annotations={"a.png": objects})
print(f"supervision {supervision.__version__}, {len(objects)} objects: {names}")
dataset.as_coco(annotations_path="coco.json")
written = json.loads(pathlib.Path("coco.json").read_text())["annotations"]
crowds = [annotation["iscrowd"] for annotation in written]
print(f"  as_coco: {len(written)} objects, iscrowd {crowds}")
dataset.as_yolo(annotations_directory_path="yolo")
rows = pathlib.Path("yolo/a.txt").read_text().split("\n")
yolo = [names[int(row.split()[0])] for row in rows if row]
print(f"  as_yolo: {len(yolo)} objects, {yolo}")
dataset.as_pascal_voc(annotations_directory_path="voc")
voc = pathlib.Path("voc/a.xml").read_text().count("<object>")
print(f"  as_pascal_voc: {voc} objects")
is_as_described = crowds == [0, 1, 1] and voc == 4 and yolo.count("two parts") == 2 and len(yolo) == 4
sys.exit(0 if is_as_described else 1)
PYTHON
