#!/usr/bin/env bash
# Datumaro fills the holes of masks when it writes COCO, and leaves polygons out of the maps of Pascal VOC.
#
# Most expect: COCO that is read and written again keeps its masks, since the format holds run lengths; and converted to
# Pascal VOC with segmentation, each object is in the maps of classes and objects.
# What happens: a mask in run lengths is written as the polygon around it: its hole is object, the area is that of the
# polygon. In the maps of Pascal VOC only annotations that were run lengths are drawn; polygons, which most objects of COCO are,
# are missing, and an image that has polygons only gets no map. There is a warning about crowds, none about this.
#
# Why it matters: rings, fences, people with a hand on the hip become solid in a conversion from COCO to COCO, and pixels of
# objects are background in Pascal VOC. In Python, the transform `polygons_to_masks` before the export draws all.
#
# Prints versions and pixels, and exits with 1 if the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check datumaro==1.13.12 pycocotools==2.0.11
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import json
import pathlib
import sys

import datumaro
import numpy as np
from PIL import Image
from pycocotools import mask as coco


def run_lengths(mask: np.ndarray) -> dict:
    flat = mask.flatten(order="F").astype(int)
    return {"size": [100, 100], "counts": np.diff([0, *np.flatnonzero(np.diff(flat, prepend=0)), flat.size]).tolist()}


ring = np.zeros((100, 100), bool)
ring[10:40, 10:40] = True
ring[15:35, 15:35] = False
square = [[60, 50, 80, 50, 80, 70, 60, 70]]
objects = [
    {"id": 1, "image_id": 1, "bbox": [10, 10, 30, 30], "area": 500, "segmentation": run_lengths(ring)},
    {"id": 2, "image_id": 1, "bbox": [60, 50, 20, 20], "area": 400, "segmentation": square},
    {"id": 3, "image_id": 2, "bbox": [60, 50, 20, 20], "area": 400, "segmentation": square},
]
start = pathlib.Path("start")
for folder in ("annotations", "images/train"):
    (start / folder).mkdir(parents=True)
for index in (1, 2):
    Image.new("RGB", (100, 100)).save(start / f"images/train/{index}.png")
truth = {
    "images": [{"id": i, "file_name": f"{i}.png", "width": 100, "height": 100} for i in (1, 2)],
    "categories": [{"id": 1, "name": "thing"}],
    "annotations": [one | {"category_id": 1, "iscrowd": 0} for one in objects],
}
(start / "annotations/instances_train.json").write_text(json.dumps(truth))
dataset = datumaro.Dataset.import_from("start", "coco_instances")
dataset.export("coco", "coco_instances")
dataset.export("voc", "voc_segmentation")
written = json.loads(pathlib.Path("coco/annotations/instances_train.json").read_text())["annotations"]
(mask,) = (one["segmentation"] for one in written if one["bbox"][:2] == [10, 10])
encoded = coco.frPyObjects(mask, 100, 100)
pixels = int(coco.area(coco.merge(encoded) if isinstance(mask, list) else encoded))
print(f"datumaro {datumaro.__version__}: the ring has {ring.sum()} pixels, in COCO written by datumaro {pixels}")
drawn = pathlib.Path("voc/SegmentationClass").glob("*.png")
maps = {path.stem: np.asarray(Image.open(path).convert("L")) > 0 for path in drawn}
for name, values in maps.items():
    print(f"  Pascal VOC, map of image {name}: {values[ring].sum()} of {ring.sum()} pixels of the ring,", end=" ")
    print(f"{values[50:70, 60:80].sum()} of 400 of the polygon")
print(f"  images without a map: {sorted({'1', '2'} - set(maps))}")
sys.exit(0 if pixels > 800 and set(maps) == {"1"} and maps["1"][ring].all() and not maps["1"][50:70, 60:80].any() else 1)
PYTHON
