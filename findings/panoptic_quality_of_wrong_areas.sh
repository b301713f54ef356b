#!/usr/bin/env bash
# Panoptic quality trusts the areas in the ground truth's JSON: a perfect prediction scores 0, or 4 of 1.
#
# Most expect: an IoU of two maps is counted in their pixels. panopticapi does so for predictions, whose areas it counts
# in the PNG, whatever the JSON says.
# What happens: the area of a ground truth segment is read from the JSON. If the PNG were made smaller by two, and the
# JSON kept, all areas are four times too large: a perfect prediction matches nothing and has a quality of 0. Areas four
# times too small, after enlarging, give 4.0 of a possible 1.0, without an error or a warning. hotcoco does the same.
#
# Why it matters: resizing a panoptic set is common, and the area is the key that one forgets, since COCO's other
# evaluation only needs it for small, medium and large. A mistake in one class shows as a quality that no look at the
# predictions explains; a mistake that lies below 1 does not show at all.
#
# panopticapi is no package on PyPI; panopticapi-lite is its code, unchanged in what is shown here.
# Prints versions and qualities, and exits with 1 if the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check \
    panopticapi-lite==0.2.0 hotcoco==1.3.0 numpy==1.26.4 pillow==12.3.0
cat > "$folder/evaluate.py" <<'PYTHON'
import contextlib
import importlib.metadata
import io
import json
import os
import sys

import numpy as np
from hotcoco import panoptic
from panopticapi.evaluation import pq_compute
from PIL import Image

EVALUATORS = {"panopticapi-lite": pq_compute, "hotcoco": panoptic.pq_compute}
CATEGORIES = [{"id": 1, "name": "cat", "isthing": 1}, {"id": 2, "name": "sky", "isthing": 0}]


def write(name: str, factor: float) -> None:
    """Write a map of a cat and the sky, 64 pixels wide, and its table; areas are multiplied by a factor."""
    os.makedirs(name, exist_ok=True)
    ids = np.full((64, 64), 2, np.uint8)
    ids[20:50, 10:40] = 1
    Image.fromarray(np.stack([ids, ids * 0, ids * 0], 2)).save(f"{name}/a.png")
    areas = {number: int((ids == number).sum() * factor) for number in (1, 2)}
    segments = [{"id": i, "category_id": i, "iscrowd": 0, "area": area} for i, area in areas.items()]
    image = {"id": 1, "file_name": "a.png", "height": 64, "width": 64}
    row = {"image_id": 1, "file_name": "a.png", "segments_info": segments}
    with open(f"{name}.json", "w") as file:
        json.dump({"images": [image], "annotations": [row], "categories": CATEGORIES}, file)


if __name__ == "__main__":
    found = {}
    for what, factor in {"right": 1, "four times too large": 4, "four times too small": 0.25}.items():
        write("truth", factor)
        write("found", 1)
        for name, evaluate in EVALUATORS.items():
            with contextlib.redirect_stdout(io.StringIO()):
                quality = float(evaluate("truth.json", "found.json")["All"]["pq"])
            found[name, factor] = round(quality, 3)
            version = importlib.metadata.version(name)
            print(f"{name} {version}, areas {what}: a perfect prediction has a panoptic quality of {quality:.3f}")
    expected = {(name, factor): of for name in EVALUATORS for factor, of in {1: 1.0, 4: 0.0, 0.25: 4.0}.items()}
    sys.exit(0 if found == expected else 1)
PYTHON
cd "$folder"
"$folder/env/bin/python" evaluate.py
