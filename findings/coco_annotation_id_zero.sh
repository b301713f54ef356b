#!/usr/bin/env bash
# An annotation whose id is 0 is never found by two of three COCO evaluators, and a converter writes ids from 0.
#
# Most expect: ids only have to be unique, and detections that equal the ground truth give an AP of 1.0.
# What happens: pycocotools and faster-coco-eval keep the id of the matched annotation for each detection and read 0 as
# "no match". The detection of annotation 0 counts as a false positive, and its object as missed. There is no warning.
# hotcoco evaluates it rightly and warns. Globox numbers annotations from 0 when it is asked for automatic ids.
#
# Why it matters: one object of each file is lost. With few objects, or one class with few, that is a visible drop of AP
# which no look at the predictions explains, and two evaluators disagree on the same files.
#
# Prints versions and AP, and exits with 1 if the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check \
    globox==2.9.0 pycocotools==2.0.11 faster-coco-eval==1.8.0 hotcoco==1.3.0 numpy==2.4.6
cat > "$folder/evaluate.py" <<'PYTHON'
import contextlib
import importlib.metadata
import io
import json
import sys
import warnings

import faster_coco_eval
import globox
import hotcoco
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

EVALUATORS = {
    "pycocotools": (COCO, COCOeval),
    "faster-coco-eval": (faster_coco_eval.COCO, faster_coco_eval.COCOeval_faster),
    "hotcoco": (hotcoco.COCO, hotcoco.COCOeval),
}


def average_precision(name: str) -> float:
    """AP of detections that equal the boxes of truth.json."""
    read, evaluate = EVALUATORS[name]
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        truth = read("truth.json")
        evaluation = evaluate(truth, truth.loadRes("found.json"), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return round(float(evaluation.stats[0]), 3)


boxes = globox.AnnotationSet()
cats = [globox.BoundingBox(label="cat", xmin=x, ymin=10, xmax=x + 20, ymax=30) for x in (10, 60)]
boxes.add(globox.Annotation("a.jpg", (100, 100), cats))
boxes.save_coco("truth.json", auto_ids=True)
with open("truth.json") as file:
    truth = json.load(file)
written = [annotation["id"] for annotation in truth["annotations"]]
found = [{k: a[k] for k in ("image_id", "category_id", "bbox")} | {"score": 0.9} for a in truth["annotations"]]
with open("found.json", "w") as file:
    json.dump(found, file)
print(f"globox {importlib.metadata.version('globox')} writes the annotation ids {written}")
print("AP of detections equal to the ground truth:")
result = {name: [average_precision(name)] for name in EVALUATORS}
for annotation in truth["annotations"]:
    annotation["id"] += 1
with open("truth.json", "w") as file:
    json.dump(truth, file)
for name, values in result.items():
    values.append(average_precision(name))
    print(f"  {name} {importlib.metadata.version(name)}: ids from 0 {values[0]}, ids from 1 {values[1]}")
is_as_described = written == [0, 1] and all(v[1] == 1 and (v[0] == 1) == (n == "hotcoco") for n, v in result.items())
sys.exit(0 if is_as_described else 1)
PYTHON
cd "$folder"
"$folder/env/bin/python" evaluate.py
