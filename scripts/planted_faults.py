#!/usr/bin/env python3
"""Plant faults in a copy of the source, one line changed each, and see which the tests find.

    python scripts/planted_faults.py --results faults.json               # all that have no result yet
    python scripts/planted_faults.py --results faults.json --room types  # of one room, or --only TEXT in the line
    python scripts/planted_faults.py --results faults.json --again       # also those that were not found
    python scripts/planted_faults.py --results faults.json --baseline    # do the tests that found faults pass without?
    python scripts/planted_faults.py --list                              # which lines are there

`planted_faults.toml` has the faults: the room, the line as it is, found by its text in any file of `src` in which it
must be unique, the line instead of it, and the test files that find it. Files may move; a line that is rewritten needs
its fault rewritten. Each run copies the tracked files to a temporary folder, so nothing here is changed; the native
library is built again for faults in C++ only. A result is kept as soon as it is known: run it again after an interrupt.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_suffix(".toml")
LIMIT_S = 60
LIBRARY = "libsegpaste.so"
Result = Literal["found", "not found", "too slow", "not applied", "does not build", "cannot run"]


@dataclass(frozen=True, slots=True)
class Fault:
    """A line of the source, and a wrong one.

    Attributes:
        room: part of the package.
        old: the line, without indentation; it is unique in the source.
        new: the line instead of it.
        tests: test files that find it, relative to the repository.
    """

    room: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def key(self) -> str:
        """Digest of the fault; results have it as their name."""
        return hashlib.sha256(json.dumps([self.old, self.new, self.tests]).encode()).hexdigest()[:12]


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 1 if a fault was not found or cannot be applied."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--results", type=Path, help="JSON file of the results, which is continued")
    parser.add_argument("--room", help="faults of one room")
    parser.add_argument("--only", default="", metavar="TEXT", help="faults whose line has this text")
    parser.add_argument("--again", action="store_true", help="also those whose last result is not `found`")
    parser.add_argument("--baseline", action="store_true", help="run the tests that found faults without them")
    parser.add_argument("--limit", type=float, default=LIMIT_S, metavar="S", help="seconds for each, default: 60")
    parser.add_argument("--list", action="store_true", help="print the file of each line")
    options = parser.parse_args(argv)
    faults = [f for f in read_faults() if options.room in (None, f.room) and options.only in f.old]
    if options.list:
        for fault in faults:
            print(f"{fault.room:14} {' '.join(map(str, places(ROOT, fault))) or 'NOT THERE'}: {fault.old}")
        return 0
    if options.results is None:
        parser.error("expected --results FILE")
    results: dict[str, Any] = json.loads(options.results.read_text()) if options.results.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(Path(folder) / "tree")
        found = (
            baseline(copy, dict(results), options.limit)
            if options.baseline
            else planted(copy, faults, results, options)
        )
        for key, result in found:
            results[key] = result
            write(options.results, results)
    bad = [results[f.key] for f in faults if f.key in results and results[f.key]["result"] != "found"]
    print(f"{sum(f.key in results for f in faults)} of {len(faults)} run, {len(bad)} not found")
    return 1 if bad else 0


def read_faults() -> list[Fault]:
    """Read the list."""
    rows = tomllib.loads(LIST.read_text(encoding="utf-8"))["fault"]
    return [Fault(row["room"], row["old"], row["new"], tuple(row["tests"])) for row in rows]


def write(path: Path, results: dict[str, Any]) -> None:
    """Write the results, whole or not at all."""
    partial = path.with_name(f"{path.name}.partial")
    partial.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    os.replace(partial, path)


def sources(root: Path) -> Iterator[Path]:
    """Yield the files of the source."""
    for path in sorted((root / "src").rglob("*")):
        if path.suffix in (".py", ".cpp", ".hpp", ".h"):
            yield path


def places(root: Path, fault: Fault) -> list[Path]:
    """Return the files with the line of a fault, one for each time it is there."""
    found = []
    for path in sources(root):
        text = path.read_text(encoding="utf-8")
        if fault.old in text:
            found += [path.relative_to(root)] * [line.strip() for line in text.splitlines()].count(fault.old)
    return found


def copied(folder: Path) -> Path:
    """Copy the tracked files and the native library."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout.decode()
    libraries = (str(path.relative_to(ROOT)) for path in (ROOT / "src").rglob(LIBRARY))
    for name in (*filter(None, names.split("\0")), *libraries):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def planted(
    copy: Path, faults: Sequence[Fault], results: dict[str, Any], options: argparse.Namespace
) -> Iterator[tuple[str, Any]]:
    """Plant the faults one after the other; yield key and result of each."""
    for number, fault in enumerate(faults, start=1):
        known = results.get(fault.key)
        if known is not None and (known["result"] == "found" or not options.again):
            continue
        start = time.monotonic()
        result, told = plant(copy, fault, options.limit)
        seconds = round(time.monotonic() - start, 1)
        print(f"{number:3} {fault.room:14} {result:10} {seconds:5.0f} s  {fault.old[:90]}", flush=True)
        facts = {"room": fault.room, "old": fault.old, "new": fault.new, "tests": list(fault.tests)}
        yield fault.key, {"result": result, "seconds": seconds, "told": told, **facts}


def plant(copy: Path, fault: Fault, limit: float) -> tuple[Result, str]:
    """Plant one fault, run its tests, and restore the copy."""
    where = places(copy, fault)
    if len(where) != 1:
        return "not applied", f"the line is there {len(where)} times"
    path = copy / where[0]
    text = path.read_text(encoding="utf-8")
    library = next(iter((copy / "src").rglob(LIBRARY)), None)
    kept = None if library is None or path.suffix == ".py" else library.read_bytes()
    lines = [fault.new.join(line.split(fault.old)) if line.strip() == fault.old else line for line in text.splitlines()]
    try:
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        if path.suffix != ".py" and not build(copy):
            return "does not build", ""
        return run(copy, fault.tests, limit)
    finally:
        path.write_text(text, encoding="utf-8")
        if kept is not None and library is not None:
            library.write_bytes(kept)


def build(copy: Path) -> bool:
    """Build the native library of the copy."""
    program = next(iter((copy / "src").rglob("native/build.py")))
    done = subprocess.run([sys.executable, str(program)], cwd=copy, env=environment(copy), capture_output=True)
    return done.returncode == 0


def run(copy: Path, tests: Sequence[str], limit: float) -> tuple[Result, str]:
    """Run test files until the first failure."""
    words = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=line", *tests]
    process = subprocess.Popen(
        words, cwd=copy, env=environment(copy), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        out, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        return "too slow", ""
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # the group that this call has started
            process.communicate()
    lines = out.decode(errors="replace").strip().splitlines()
    told = next((line for line in lines if line.startswith(("FAILED", "ERROR"))), lines[-1] if lines else "")[:500]
    codes: dict[int, Result] = {0: "not found", 1: "found", 2: "found"}  # 2: a test file cannot be imported
    return codes.get(process.returncode, "cannot run"), told


def environment(copy: Path) -> dict[str, str]:
    """Return the environment of processes that use the copy."""
    own = {"PYTHONPATH": str(copy / "src"), "OMP_NUM_THREADS": "1", "SEGPASTE_NATIVE": "require"}
    return {**os.environ, **own, "PYTHONDONTWRITEBYTECODE": "1"}


def baseline(copy: Path, results: dict[str, Any], limit: float) -> Iterator[tuple[str, Any]]:
    """Run the tests that have found faults without a fault; where one fails, its fault is not found by it."""
    by_test: dict[str, list[str]] = {}
    for key, known in results.items():
        if known["result"] == "found":
            by_test.setdefault(known["told"].partition(" - ")[0].partition(" ")[2], []).append(key)
    for name, keys in by_test.items():
        result, told = run(copy, [name], limit)
        print(f"{result:10} {name}", flush=True)
        if result != "not found":
            for key in keys:
                yield key, {**results[key], "result": "cannot run", "told": f"fails without a fault: {told}"}


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # which also ends the tests that run
    sys.exit(main())
