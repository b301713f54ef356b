"""Run the tools of one environment on all probes, and write what became of each: ``observe.py NAME PROBES RESULT``.

``tool_NAME.py`` says how its tools are run. It has ``PACKAGES``, the package of each tool, and ``READS``: for each tool
and format a function that takes the folder of a probe and returns the images as the tool gives them, or ``SCORES``: one
that takes predictions too, as COCO's results, and returns their score, where 1 is perfect.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from judge import KEPT, judge
from probes import PROBES, write

PERFECT = 0.999


def observe(name: str, probes: Path) -> dict[str, Any]:
    """Return for each tool its version, and the effect on each probe of each format that it reads."""
    module = importlib.import_module(f"tool_{name}")
    results: dict[str, Any] = {}
    for tool, package in module.PACKAGES.items():
        effects, told = dict[str, dict[str, str]](), dict[str, str]()
        reads, scores = getattr(module, "READS", {}).get(tool, {}), getattr(module, "SCORES", {}).get(tool, {})
        for format, run in [*reads.items(), *scores.items()]:
            judged = _judged if format in reads else _scored
            effects[format] = {}
            for trait, probe in PROBES[format].items():
                folder = probes / tool / format / trait
                write(probe, format, folder)
                try:
                    effects[format][trait] = judged(run, folder)
                except (Exception, SystemExit) as error:
                    effects[format][trait] = "stops"
                    told[f"{format}/{trait}"] = _told(error)
        version = importlib.metadata.version(package)
        results[tool] = {"package": package, "version": version, "effects": effects, "errors": told}
    return results


def _told(error: BaseException) -> str:
    """Return the first error of a chain in one line, without the folder of the probe."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(traceback.format_exception_only(error)[-1].split()).replace(f"{FOLDER}/", "")[:300]


def _judged(run: Callable[[Path], Any], folder: Path) -> str:
    return judge(json.loads((folder / "truth.json").read_text()), run(folder))


def _scored(run: Callable[[Path, Any], float], folder: Path) -> str:
    """Return what becomes of perfect predictions, and of wrong ones on images without annotations."""
    from predictions import perfect_results, with_false_ones  # only environments of evaluators have pycocotools

    truth = json.loads((folder / "truth.json").read_text())
    if run(folder, perfect_results(folder)) <= PERFECT:
        return "crowd_kept" if any(of["is_crowd"] for image in truth for of in image["objects"]) else "never_matched"
    has_empty = any(not image["objects"] for image in truth)
    return "background_lost" if has_empty and run(folder, with_false_ones(folder)) > PERFECT else KEPT


if __name__ == "__main__":
    NAME, FOLDER, RESULT = sys.argv[1:]
    Path(RESULT).write_text(json.dumps(observe(NAME, Path(FOLDER).resolve()), indent=1, sort_keys=True))
