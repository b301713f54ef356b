#!/usr/bin/env bash
# COCO evaluators throw away the `ignore` flag of an annotation.
#
# Most expect: an annotation with `"ignore": 1` is left out of the evaluation. The evaluators speak of ignored ground truth
# throughout, read this very key, and data sets of pedestrians, crowds and aerial photos are converted with it.
# What happens: pycocotools reads the key and overwrites it in the next line by `iscrowd`. faster-coco-eval and hotcoco do
# the same. An object that is flagged and not found counts as missed; a detection there is no longer neutral. Only
# `"iscrowd": 1` leaves an object out, and it changes how overlap is measured (share of the detection, not IoU).
#
# Why it matters: the benchmarks of these data sets leave such objects out, so numbers of a COCO evaluator on the same
# files are lower, and a model that rightly finds them is not told apart from one that does not.
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
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval


def average_precision(read, evaluate, flags: dict[str, int]) -> float:
    """AP where one of two objects is found, and the other has the flags."""
    objects = [
        {"id": i, "image_id": 1, "category_id": 1, "bbox": [x, 10, 20, 20], "area": 400, "iscrowd": 0}
        for i, x in ((1, 10), (2, 60))
    ]
    objects[1] |= flags
    images = [{"id": 1, "width": 100, "height": 100, "file_name": "a.jpg"}]
    truth = {"images": images, "categories": [{"id": 1, "name": "person"}], "annotations": objects}
    found = [{"image_id": 1, "category_id": 1, "bbox": [10, 10, 20, 20], "score": 0.9}]
    for name, content in (("truth.json", truth), ("found.json", found)):
        with open(name, "w") as file:
            json.dump(content, file)
    with contextlib.redirect_stdout(io.StringIO()):
        reader = read("truth.json")
        evaluation = evaluate(reader, reader.loadRes("found.json"), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return round(float(evaluation.stats[0]), 3)


result = []
for name, functions in {
    "pycocotools": (COCO, COCOeval),
    "faster-coco-eval": (faster_coco_eval.COCO, faster_coco_eval.COCOeval_faster),
    "hotcoco": (hotcoco.COCO, hotcoco.COCOeval),
}.items():
    values = [average_precision(*functions, flags) for flags in ({}, {"ignore": 1}, {"iscrowd": 1})]
    print(
        f"{name} {importlib.metadata.version(name)}: AP with one of two objects found {values[0]}; "
        f"the other with ignore = 1 {values[1]}; with iscrowd = 1 {values[2]}"
    )
    result.append(values)
sys.exit(0 if all(v[0] == v[1] < 1 and v[2] == 1 for v in result) else 1)
PYTHON
cd "$folder"
"$folder/env/bin/python" evaluate.py
