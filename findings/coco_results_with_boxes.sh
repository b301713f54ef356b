#!/usr/bin/env bash
# COCO results of masks that also hold boxes get another AP of small, medium and large objects.
#
# Most expect: in an evaluation of masks ("segm"), the box in a result is not used. An exporter that writes both gets the
# same numbers as one that writes masks only.
# What happens: `loadRes` of pycocotools, and of the two evaluators that follow it, takes the area of a result from its box
# if there is one. The area decides whether a detection that matches nothing counts as a mistake among small, medium or
# large objects. A thin or ring-shaped false positive is then counted among larger objects than its mask says.
#
# Why it matters: numbers of two models are compared though one wrote boxes and the other did not. AP over all areas is the
# same, so nobody looks. Leave boxes out of the results of masks; the evaluator computes them.
#
# Prints versions and AP, and exits with 1 if the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check \
    pycocotools==2.0.11 faster-coco-eval==1.8.0 hotcoco==1.3.0 numpy==2.4.6
cat > "$folder/evaluate.py" <<'PYTHON'
import contextlib
import importlib.metadata
import io
import json
import sys

import faster_coco_eval
import hotcoco
import numpy as np
import pycocotools.mask
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

left, top = (np.zeros((100, 100), np.uint8, order="F") for _ in range(2))
left[:, :3] = left[-3:] = 1  # two thin L shapes: 591 pixels each, in boxes of 100 x 100
top[:3] = top[:, -3:] = 1
shapes = []
for mask in (left, top):
    encoded = pycocotools.mask.encode(mask)
    shapes.append({"size": encoded["size"], "counts": encoded["counts"].decode()})
box = [0, 0, 100, 100]
common = {"image_id": 1, "category_id": 1}
truth = {
    "images": [{"id": 1, "width": 100, "height": 100, "file_name": "a.jpg"}],
    "categories": [{"id": 1, "name": "wire"}],
    "annotations": [common | {"id": 1, "bbox": box, "area": 591, "iscrowd": 0, "segmentation": shapes[0]}],
}
found = [common | {"score": score, "segmentation": shape} for shape, score in zip(shapes, (0.8, 0.9))]
for name, content in {"truth": truth, "masks": found, "masks and boxes": [r | {"bbox": box} for r in found]}.items():
    with open(f"{name}.json", "w") as file:
        json.dump(content, file)
print("one object, found; one false positive of higher score: AP, and AP of small, medium, large (-1: none)")
as_described = True
for name, (read, evaluate) in {
    "pycocotools": (COCO, COCOeval),
    "faster-coco-eval": (faster_coco_eval.COCO, faster_coco_eval.COCOeval_faster),
    "hotcoco": (hotcoco.COCO, hotcoco.COCOeval),
}.items():
    small = []
    for results in ("masks", "masks and boxes"):
        with contextlib.redirect_stdout(io.StringIO()):
            reader = read("truth.json")
            evaluation = evaluate(reader, reader.loadRes(f"{results}.json"), "segm")
            evaluation.evaluate()
            evaluation.accumulate()
            evaluation.summarize()
        stats = [round(float(evaluation.stats[i]), 2) for i in (0, 3, 4, 5)]
        print(f"  {name} {importlib.metadata.version(name)}, results of {results}: {stats}")
        small.append(stats[1])
    as_described &= small == [0.5, 1.0]
sys.exit(0 if as_described else 1)
PYTHON
cd "$folder"
"$folder/env/bin/python" evaluate.py
