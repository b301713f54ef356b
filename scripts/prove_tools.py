#!/usr/bin/env python3
"""Run the tools that `segpaste check --for` knows, and compare what they do with its rules.

    python scripts/prove_tools.py                 # all that have no result of these programs and versions yet
    python scripts/prove_tools.py ultralytics     # those of tests/tools/tool_ultralytics.py, again
    python scripts/prove_tools.py --keep FOLDER   # keep the datasets that the tools read

Each program of `tests/tools` runs in the environment that has its tools: `make tools` sets them up and calls this.
The results, with versions and date, are in `tests/tools/results.json`. It exits with 1 if a tool behaves otherwise than
its rules say, and prints what must be changed.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from segpaste.datasets import DatasetError, convert_dataset
from segpaste.datasets.checking.tools.registry import TOOLS
from segpaste.datasets.checking.tools.rules import EFFECTS, Tool

ROOT = Path(__file__).parents[1]
PROGRAMS = ROOT / "tests" / "tools"
with mock.patch.object(sys, "path", [str(PROGRAMS), *sys.path]):
    from all_probes import PROBES, file_of, write
    from observe import CONVERTED, FORMAT
    from probe_traits import traits_of_probes

RESULTS = PROGRAMS / "results.json"
LIMIT_S = 900
RENAMED = ("same_stem", "same_name")
"""Probes whose images get other names when they are converted."""
EXPECTED = {
    ("ultralytics", "coco/thin_runs"),  # the bridges between thin parts have as many pixels as the parts
    ("torchvision", "yolo/pose_odd"),  # boxes alone, of which the program asks masks
    ("torchvision", "yolo/pose_pairs"),
}
"""Converted probes of which a tool makes what no conversion can help."""
_GIVEN: dict[str, Callable[[Path], dict[str, Any]]] = {
    "coco": lambda folder: {"images_dir": folder / "images"},
    "panoptic": lambda folder: {"images_dir": folder / "images"},
    "yolo": lambda folder: {"splits": ["train"]},
    "maps": lambda folder: {},
    "voc": lambda folder: {"splits": ["train"]},
}
"""What a conversion is told about a probe beside its file."""
_READ_AS = {"yolo": "yolo", "coco-panoptic": "panoptic", "label-maps": "maps"}
OFFLINE = {"HF_HUB_OFFLINE": "1", "YOLO_OFFLINE": "true", "OMP_NUM_THREADS": "1", "NO_ALBUMENTATIONS_UPDATE": "1"}


def python_of(name: str) -> Path:
    """Return the interpreter of the environment with the tools of a program."""
    for kind, folder in (("tools", PROGRAMS), ("trainers", ROOT / "tests" / "trainers")):
        if (folder / f"{name}.txt").exists():
            return Path(sys.prefix) / kind / name / "bin" / "python"
    return Path(sys.executable)


def digest_of(name: str) -> str:
    """Return a digest of what decides the results of a program; how datasets are converted is a part of it."""
    shared = (path for path in sorted(PROGRAMS.glob("*.py")) if not path.name.startswith(("tool_", "test_")))
    files = [PROGRAMS / f"tool_{name}.py", *shared]
    files += [file for file in (PROGRAMS / f"{name}.txt", ROOT / "tests" / "trainers" / f"{name}.txt") if file.exists()]
    files += sorted((ROOT / "src" / "segpaste" / "datasets" / "conversion").glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def converted(tool: Tool, folder: Path) -> dict[str, list[str]]:
    """Convert each probe for a tool into a folder, and return what each conversion says to have left out.

    Images that are encoded again have another suffix, also in ``truth.json``.
    """
    told: dict[str, list[str]] = {}
    for format, of_format in PROBES.items():
        for trait, probe in of_format.items():
            if trait in RENAMED:
                continue
            source, out = folder / "source" / format / trait, folder / CONVERTED / format / trait
            source = write(probe, format, source)
            path = file_of(format, source)
            try:
                given = _GIVEN[format](source)
                summary = convert_dataset(path, out, tool=tool.name, **given)
            except DatasetError as error:
                told[f"{format}/{trait}"] = [f"refused: {str(error).replace(str(folder), '')}"]
                continue
            named = [what for what in summary.losses if not what.startswith(("files of images", "file names", "key "))]
            named += [f"{found.what}: {found.effect}" for report in summary.for_tool for found in report.findings]
            told[f"{format}/{trait}"] = sorted(named)
            _as_probe(source, out)
            (out / FORMAT).write_text(_READ_AS.get(summary.format, "coco"))
    return {name: left_out for name, left_out in told.items() if left_out}


def _as_probe(source: Path, out: Path) -> None:
    """Give the files of a converted probe the names that those of a probe have, and copy its truth."""
    moves = {
        "annotations.json": "instances.json",
        "annotations/instances_train.json": "instances.json",
        "annotations/panoptic_train.json": "panoptic.json",
        "annotations/panoptic_train": "panoptic",
        "train/_annotations.coco.json": "instances.json",
        "train": "images",
    }
    for old, new in moves.items():
        if (out / old).exists():
            (out / old).rename(out / new)
    if (data := out / "data.yaml").exists():
        data.write_text(f"{data.read_text()}\nval: images/train\npath: {out}\n")
    images = [path.relative_to(out / "images") for path in (out / "images").rglob("*.*")]
    written = {path.stem: path.as_posix() for path in images}
    truth = json.loads((source / "truth.json").read_text())
    named = [{**image, "name": written[Path(image["name"]).stem]} for image in truth]
    (out / "truth.json").write_text(json.dumps(named))


def observe(name: str, folder: Path) -> dict[str, Any]:
    """Run a program, and return for each of its tools the version, the effects and the errors.

    Raises:
        RuntimeError: the environment is missing, or the program fails as a whole.
    """
    python, result = python_of(name), folder / f"{name}.json"
    if not python.exists():
        raise RuntimeError(f"expected the environment {python.parents[1]}: `make tools` sets it up")
    work = folder / name
    left_out = {tool.name: converted(tool, work / tool.name) for tool in tools_of(name) if tool.reads_best is not None}
    command = [str(python), str(PROGRAMS / "observe.py"), name, str(work), str(result)]
    settings = {**os.environ, **OFFLINE, "YOLO_CONFIG_DIR": str(folder)}
    run = subprocess.run(
        command, cwd=folder, env=settings, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    if run.returncode:
        raise RuntimeError(f"{name}: {run.stdout[-2000:]}{run.stderr[-4000:]}")
    found: dict[str, Any] = json.loads(_without_places(result.read_text(), folder))
    return {tool: {**of, "left_out": left_out.get(tool, {})} for tool, of in found.items()}


def _without_places(text: str, folder: Path) -> str:
    """Return results without the folders of this machine, which errors of tools name."""
    for place, name in (
        (folder, "."),
        (Path(sys.prefix), ".venv"),
        (ROOT.parent / "datasets", "datasets"),
        (Path.home(), "~"),
    ):
        text = text.replace(str(place), name)
    return text


def tools_of(name: str) -> list[Tool]:
    """Return the tools of a program, whose text names them; it cannot be imported without them."""
    text = (PROGRAMS / f"tool_{name}.py").read_text()
    return [tool for tool in TOOLS.values() if f'"{tool.name}"' in text]


def differences(
    results: Mapping[str, Any],
    traits_of: Mapping[tuple[str, str], frozenset[str]],
    tools: Mapping[str, Tool] = TOOLS,
) -> Iterator[str]:
    """Yield what differs between the results and the rules of tools.

    Args:
        results: version, effects and errors of each tool.
        traits_of: the traits of each probe, by format and name. Of the rules about them the most serious must be seen.
        tools: the tools, by name.
    """
    for name, tool in tools.items():
        if name not in results:
            yield f"{name}: has no result"
            continue
        found = results[name]
        if found["version"] != tool.versions[-1]:
            yield f"{name}: ran {found['version']}, the rules are about {', '.join(tool.versions)}"
        if set(found["effects"]) != set(tool.formats):
            yield f"{name}: reads {', '.join(found['effects'])}, the rules say {', '.join(tool.formats)}"
        seen = {(form, trait): effect for form, of in found["effects"].items() for trait, effect in of.items()}
        for key in sorted(seen.keys() | {(rule.format, rule.trait) for rule in tool.rules}):
            traits = traits_of.get(key, frozenset({key[1]}))
            rules = [rule.effect for rule in tool.rules if rule.format == key[0] and rule.trait in traits]
            was, told = seen.get(key, "not tried"), min(rules, key=[*EFFECTS].index, default="kept")
            if was != told:
                error = found["errors"].get("/".join(key))
                yield f"{name}: {'/'.join(key)} is {was}, the rules say {told}{f' ({error})' if error else ''}"
        for probe, effect in found["for"].items():
            is_told = effect in _told_effects(found["left_out"].get(probe, ())) or (name, probe) in EXPECTED
            if effect not in ("kept", "background_lost") and not is_told:
                why = f" ({found['errors'][probe]})" if probe in found["errors"] else ""
                yield f"{name}: {probe} is {effect}, though it was converted for the tool{why}"
    yield from (f"{name}: has results and no rules" for name in results.keys() - tools.keys())


def _told_effects(left_out: Iterable[str]) -> set[str]:
    """Return the effects that a conversion told: those of the check at its end, and objects lost, if it lost some.

    Of an object that is left out, a map has void; a tool that takes void for a class gives it that one.
    """
    told = {what.rpartition(": ")[2] for what in left_out}
    some_lost = {"object_lost", "points_lost"} if told - {*EFFECTS} else set()
    as_void = {"class_changed"} if some_lost and "crowd_kept" in told else set()
    return (told & {*EFFECTS}) | some_lost | as_void


def main() -> int:
    """Run the programs whose results are not known, write all results, and compare them with the rules."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs to run again; default: those not known")
    parser.add_argument("--keep", metavar="FOLDER", type=Path, help="folder for the datasets")
    args = parser.parse_args()
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    programs = sorted(path.stem.removeprefix("tool_") for path in PROGRAMS.glob("tool_*.py"))
    failed = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if args.keep is None else args.keep.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        for name in args.names or programs:
            digest = digest_of(name)
            if not args.names and known.get(name, {}).get("digest") == digest:
                continue
            print(f"running {name}", flush=True)
            try:
                tools = observe(name, folder)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                failed.append(f"{error}")
                continue
            known[name] = {"digest": digest, "date": datetime.date.today().isoformat(), "tools": tools}
            RESULTS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    found = {tool: result for name in programs if name in known for tool, result in known[name]["tools"].items()}
    with tempfile.TemporaryDirectory() as temporary:
        failed += differences(found, traits_of_probes(Path(temporary)))
    print("\n".join(failed) or f"{len(found)} tools behave as their rules say")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
