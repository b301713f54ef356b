"""panopticapi: evaluates COCO's panoptic maps. panopticapi-lite is its code as a package that pip finds."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

from panoptic_predictions import Result, save
from panopticapi.evaluation import pq_compute_single_core

PACKAGES = {"panopticapi": "panopticapi-lite"}


def score(folder: Path, results: list[Result]) -> float:
    """Return the panoptic quality, as ``pq_compute`` does with a process."""
    _, found = save(folder, results)
    truth = json.loads((folder / "panoptic.json").read_text())
    categories = {row["id"]: row for row in truth["categories"]}
    of_image = {row["image_id"]: row for row in results}
    pairs = [(row, of_image[row["image_id"]]) for row in truth["annotations"]]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        counts = pq_compute_single_core(0, pairs, str(folder / "panoptic"), str(found), categories)
    return float(counts.pq_average(categories, isthing=None)[0]["pq"])


SCORES = {"panopticapi": {"panoptic": score}}
