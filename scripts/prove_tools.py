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
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from segpaste.datasets.checking.tools.registry import TOOLS
from segpaste.datasets.checking.tools.rules import EFFECTS, Tool

ROOT = Path(__file__).parents[1]
PROGRAMS = ROOT / "tests" / "tools"
sys.path.insert(0, str(PROGRAMS))

from probe_traits import traits_of_probes  # noqa: E402

RESULTS = PROGRAMS / "results.json"
LIMIT_S = 900
OFFLINE = {"HF_HUB_OFFLINE": "1", "YOLO_OFFLINE": "true", "OMP_NUM_THREADS": "1", "NO_ALBUMENTATIONS_UPDATE": "1"}


def python_of(name: str) -> Path:
    """Return the interpreter of the environment with the tools of a program."""
    for kind, folder in (("tools", PROGRAMS), ("trainers", ROOT / "tests" / "trainers")):
        if (folder / f"{name}.txt").exists():
            return Path(sys.prefix) / kind / name / "bin" / "python"
    return Path(sys.executable)


def digest_of(name: str) -> str:
    """Return a digest of what decides the results of a program."""
    shared = (path for path in sorted(PROGRAMS.glob("*.py")) if not path.name.startswith(("tool_", "test_")))
    files = [PROGRAMS / f"tool_{name}.py", *shared]
    files += [file for file in (PROGRAMS / f"{name}.txt", ROOT / "tests" / "trainers" / f"{name}.txt") if file.exists()]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def observe(name: str, folder: Path) -> dict[str, Any]:
    """Run a program, and return for each of its tools the version, the effects and the errors.

    Raises:
        RuntimeError: the environment is missing, or the program fails as a whole.
    """
    python, result = python_of(name), folder / f"{name}.json"
    if not python.exists():
        raise RuntimeError(f"expected the environment {python.parents[1]}: `make tools` sets it up")
    command = [str(python), str(PROGRAMS / "observe.py"), name, str(folder / name), str(result)]
    settings = {**os.environ, **OFFLINE, "YOLO_CONFIG_DIR": str(folder)}
    run = subprocess.run(
        command, cwd=folder, env=settings, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    if run.returncode:
        raise RuntimeError(f"{name}: {run.stdout[-2000:]}{run.stderr[-4000:]}")
    found: dict[str, Any] = json.loads(result.read_text())
    return found


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
    yield from (f"{name}: has results and no rules" for name in results.keys() - tools.keys())


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
