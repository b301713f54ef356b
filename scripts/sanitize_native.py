#!/usr/bin/env python3
"""Run tests and hostile inputs on the native library with gcc's sanitizers of addresses and undefined behaviour.

The library is built into a temporary folder and named by SEGPASTE_NATIVE_LIBRARY; nothing of the installation changes.
Two deliberate faults come first: a read outside of a tensor and one at a crooked address must be reported, or the rest
would prove nothing. Blocks of the library's own memory have closed gaps between them, and start as noise.

    python scripts/sanitize_native.py                             # the default runs
    python scripts/sanitize_native.py --num 20000                 # more hostile batches and plans
    python scripts/sanitize_native.py --pytest tests/augmentation/test_hiding.py tests/bank

Needs g++ with libasan and libubsan on Linux. Exits with 1 if a run fails, with 2 if it cannot be done here.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from segpaste.engine.native import build

ROOT = Path(__file__).parents[1]
BRUTE_FORCE = ("tests/augmentation/test_against_brute_force.py", "-k", "TestForward or TestCorners")
REPORTS = {"outside": "AddressSanitizer: heap-buffer-overflow", "crooked": "load of misaligned address"}
"""Text in the report of each deliberate fault."""
ALL_RUNS = """
import json, runpy, sys, time, traceback
import torch
from segpaste.engine import engine_for
from segpaste.engine.native import library
path, commands, failed = sys.argv[1], json.loads(sys.argv[2]), 0
in_use = library.load()._name, engine_for(torch.device("cpu")).__name__.rpartition(".")[2]
if in_use != (path, "native"):
    sys.exit(f"segpaste does not load the library with sanitizers, but {in_use}")
sys.path.insert(0, "scripts")
for command in commands:
    start, sys.argv[:] = time.monotonic(), command
    try:
        run = runpy.run_path if command[0].endswith(".py") else runpy.run_module
        run(command[0], run_name="__main__")
        status = 0
    except SystemExit as end:
        status = end.code or 0
    except Exception:
        traceback.print_exc()
        status = 1
    said = f"FAILED with {status}" if status else "nothing wrong"
    print(f"{' '.join(command)}: {said}, {time.monotonic() - start:.0f} s", flush=True)
    failed += status != 0
sys.exit(failed)
"""
"""One process for all, for importing torch under a sanitizer takes longer than many of the runs."""
FAULT = """
import ctypes, sys
import numpy
native = ctypes.CDLL(sys.argv[2])
native.segpaste_choose(ctypes.c_int64(2))
boxes, labels, ids, valid = (numpy.ones(n, t) for n, t in ((4, "f4"), (1, "i8"), (1, "i4"), (1, "u1")))
eligible, occupied, num_free, extent = (numpy.zeros(64, t) for t in ("u1", "i8", "i8", "i8"))
num_rows, shift = {"none": (1, 0), "outside": (2, 0), "crooked": (1, 1)}[sys.argv[1]]
rows = [boxes.ctypes.data + shift, *(v.ctypes.data for v in (labels, ids, valid))]
written = [v.ctypes.data for v in (eligible, occupied, num_free, extent)]
job = numpy.array([0, 0, num_rows, 1, 1, 1, 0, 0, *written, *[0] * 4, *rows, *[0] * 10], numpy.int64)  # SurveyJob
native.segpaste_survey(ctypes.c_void_p(job.ctypes.data))
assert occupied[:5].tolist() == [1, 1, 1, 1, 0]
"""


def why_not() -> str | None:
    """Tell why the sanitizers cannot run here; None where they can."""
    if not sys.platform.startswith("linux"):
        return "needs Linux"
    for name in ("libasan.so", "libubsan.so"):
        if _runtime(name) is None:
            return f"needs g++ with {name}"
    return None


def _runtime(name: str) -> Path | None:
    """A library of gcc's."""
    try:
        found = subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    path = Path(found.strip())
    return path if path.is_absolute() else None


def environment(library: Path) -> dict[str, str]:
    """Return the environment of a process that runs on the library with sanitizers."""
    # Without libstdc++ beside it libasan does not find what throws the exceptions of torch.
    preload = " ".join(str(_runtime(name)) for name in ("libasan.so", "libstdc++.so"))
    paths = [str(ROOT / "src"), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    return {
        **{
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SEGPASTE_BACKEND", "SEGPASTE_ISA"))
        },
        "LD_PRELOAD": preload,
        "ASAN_OPTIONS": "detect_leaks=0:max_malloc_fill_size=1048576",  # Python keeps some; new memory is no zeros
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "SEGPASTE_NATIVE_LIBRARY": str(library),
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }


def missed_faults(library: Path) -> list[str]:
    """Return what is wrong with the sanitizers: faults that they do not report, or reports of what is none."""
    wrong = []
    for fault in ("none", *REPORTS):
        command = [sys.executable, "-c", FAULT, fault, str(library)]
        done = subprocess.run(command, env=environment(library), capture_output=True, text=True, check=False)
        if fault == "none" and done.returncode:
            wrong.append(f"a report without a fault: {done.stderr[-2000:]}")
        elif fault != "none" and (done.returncode == 0 or REPORTS[fault] not in done.stderr):
            wrong.append(f"the fault {fault!r} was not reported: {done.stderr[-2000:]}")
    return wrong


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 if nothing was wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--num", type=int, default=300, metavar="N", help="hostile batches, and plans; default: 300")
    parser.add_argument(
        "--pytest",
        nargs=argparse.REMAINDER,
        metavar="ARG",
        help="of pytest, to the end of the line",
        default=BRUTE_FORCE,
    )
    options = parser.parse_args(argv)
    if (reason := why_not()) is not None:
        print(f"sanitize_native: {reason}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="segpaste-sanitized-") as folder:
        start = time.monotonic()
        library = build.build_sanitized(Path(folder) / build.LIBRARY.name)
        print(f"built in {time.monotonic() - start:.0f} s", flush=True)
        wrong = missed_faults(library)
        if wrong:
            print(*wrong, sep="\n", file=sys.stderr)
            return 1
        print("both deliberate faults are reported", flush=True)
        pytest = ["pytest", "-q", "-p", "no:cacheprovider", *options.pytest]
        num = ["--num", str(options.num)]
        commands = [["scripts/hostile_batches.py", *num], ["scripts/hostile_plans.py", *num, "--alone"], pytest]
        command = [sys.executable, "-c", ALL_RUNS, str(library), json.dumps(commands)]
        done = subprocess.run(command, cwd=ROOT, env=environment(library), check=False)
    if done.returncode:
        print(f"FAILED: the process ended with {done.returncode}", flush=True)
    return 1 if done.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
