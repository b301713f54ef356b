"""lvis: evaluates files with LVIS's lists of classes."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import lvis
from predictions import Result, has_masks

PACKAGES = {"lvis": "lvis"}


def score(folder: Path, results: list[Result]) -> float:
    """Return the AP of results."""
    truth = lvis.LVIS(str(folder / "instances.json"))
    evaluation = lvis.LVISEval(truth, results, "segm" if has_masks(folder) else "bbox")
    with contextlib.redirect_stdout(io.StringIO()):
        evaluation.run()
    return float(evaluation.get_results()["AP"])


SCORES = {"lvis": {"coco": score}}
