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
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from all_probes import PROBES, write
from judge import KEPT, judge, survival

PERFECT = 0.999
CONVERTED = "for"
"""Folder of the probes that were converted for a tool."""
FORMAT = "format.txt"
"""File of such a probe with the name of its format."""


def observe(name: str, probes: Path) -> dict[str, Any]:
    """Return for each tool its version, and the effect on each probe of each format that it reads."""
    module = importlib.import_module(f"tool_{name}")
    results: dict[str, Any] = {}
    for tool, package in module.PACKAGES.items():
        effects, shares, told = dict[str, dict[str, str]](), dict[str, dict[str, list[float]]](), dict[str, str]()
        reads, scores = getattr(module, "READS", {}).get(tool, {}), getattr(module, "SCORES", {}).get(tool, {})
        judges = {format: partial(_judged, run) for format, run in reads.items()}
        judges |= {format: partial(_scored, run) for format, run in scores.items()}
        for format, judged in judges.items():
            effects[format], shares[format] = {}, {}
            for trait, probe in PROBES[format].items():
                folder = write(probe, format, probes / tool / format / trait)
                try:
                    effects[format][trait], shares[format][trait] = judged(folder)
                except (Exception, SystemExit) as error:
                    effects[format][trait], shares[format][trait] = "stops", [0.0, 0.0]
                    told[f"{format}/{trait}"] = _told(error, probes)
        converted = _of_converted(judges, probes / tool / CONVERTED, probes, told)
        version = importlib.metadata.version(package)
        results[tool] = {"package": package, "version": version, "effects": effects, "for": converted}
        results[tool] |= {"shares": shares, "errors": told}
    return results


def _of_converted(judges: Mapping[str, Any], folder: Path, probes: Path, told: dict[str, str]) -> dict[str, str]:
    """Return the effect on each probe that was converted for the tool; add the errors to what is told."""
    effects: dict[str, str] = {}
    for probe in sorted(folder.glob("*/*")):
        name = str(probe.relative_to(folder))
        try:
            effects[name] = judges[(probe / FORMAT).read_text()](probe)[0]
        except (Exception, SystemExit) as error:
            effects[name] = "stops"
            told[name] = _told(error, probes)
    return effects


def _judged(run: Callable[[Path], Any], folder: Path) -> tuple[str, list[float]]:
    """Return the effect, the share of objects that survive, and the mean overlap of their masks."""
    truth, read = json.loads((folder / "truth.json").read_text()), run(folder)
    return judge(truth, read), [round(share, 4) for share in survival(truth, read)]


def _told(error: BaseException, probes: Path) -> str:
    """Return the first error of a chain in one line, without the folder of the probe."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(traceback.format_exception_only(error)[-1].split()).replace(f"{probes}/", "")[:300]


def _scored(run: Callable[[Path, Any], float], folder: Path) -> tuple[str, list[float]]:
    """Return what becomes of perfect predictions, and of wrong ones on images without annotations; and the score."""
    from predictions import perfect_results, with_false_ones  # only environments of evaluators have pycocotools

    truth = json.loads((folder / "truth.json").read_text())
    score = run(folder, perfect_results(folder))
    effect = KEPT
    if score <= PERFECT:
        has_crowd = any(of["is_crowd"] for image in truth for of in image["objects"])
        effect = "crowd_kept" if has_crowd else "never_matched"
    elif any(not image["objects"] for image in truth) and run(folder, with_false_ones(folder)) > PERFECT:
        effect = "background_lost"
    return effect, [round(score, 4)]


if __name__ == "__main__":
    NAME, FOLDER, RESULT = sys.argv[1:]
    Path(RESULT).write_text(json.dumps(observe(NAME, Path(FOLDER).resolve()), indent=1, sort_keys=True))
