"""Measure what commands cost before and after their work: CPU time, time on the wall, and memory.

    python -m benchmarks.command_starts [--base FOLDER] [--check FOLDER] [--only START] [--repeats 7] [--out FILE]

FOLDER contains the package ``segpaste`` of another build, such as the ``src`` of a checkout. The commands of both
builds, and those of this one again for the noise, run in turn. CPU time is user and system time of the process and its
children; memory is the most that was resident, pages of libraries included. Entries are medians, with the lowest and
the highest. All builds share a folder of compiled modules, which a run outside the measurement fills. The last row is a
spawned worker of a loader until the first batch. ``--check`` adds the check of a dataset of one's own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import segpaste

from . import report
from .machine import machine

OWN, AGAIN, BASE = "this build", "again", "base"
COLUMNS = {
    "cpu_seconds": "CPU s",
    "seconds": "wall s",
    "resident_mib": "MiB",
}
WORKER = """
import json, multiprocessing, os, sys
from segpaste import create_coco_dataloader
data = sys.argv[1]
loader = create_coco_dataloader(
    f"{data}/images", f"{data}/annotations.json", batch_size=2, size=256, max_instances=20,
    num_workers=1, multiprocessing_context="spawn",
)
batches = iter(loader)
next(batches)
(worker,) = multiprocessing.active_children()
fields = open(f"/proc/{worker.pid}/stat").read().rsplit(")", 1)[1].split()
status = dict(line.split(":", 1) for line in open(f"/proc/{worker.pid}/status"))
cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
print(json.dumps({"cpu_seconds": cpu, "resident_mib": int(status["VmRSS"].split()[0]) / 1024}))
"""

LAUNCH = """
import json, os, subprocess, sys, time
start = time.perf_counter()
child = subprocess.Popen(sys.argv[2:])
_, status, used = os.wait4(child.pid, 0)
child.returncode = os.waitstatus_to_exitcode(status)
figures = {"cpu_seconds": used.ru_utime + used.ru_stime, "seconds": time.perf_counter() - start}
json.dump({**figures, "resident_mib": used.ru_maxrss / 1024}, open(sys.argv[1], "w"))
sys.exit(child.returncode)
"""
"""Small process that starts a command, since the kernel counts the memory of the process that forks as the child's."""


def rows(data: Path, bank: Path, out: Path, checked: list[Path]) -> dict[str, list[str]]:
    """Return the words after ``python`` of each row."""
    table, module = str(data / "annotations.json"), ["-m", "segpaste"]
    augment = [*module, "augment", table, "--images", str(data / "images"), "--out", str(out), "--dry-run", "--num"]
    return {
        "augment --dry-run --num 1": [*augment, "1"],
        "augment --dry-run --num 10": [*augment, "10"],
        "check": [*module, "check", table, "--images", str(data / "images")],
        "stats, of a table": [*module, "stats", table],
        "stats, of a bank": [*module, "stats", str(bank)],
        "bank info": [*module, "bank", "info", str(bank)],
        "--help": [*module, "--help"],
        "spawned loader worker": ["-c", WORKER, str(data)],
        **{f"check {path.name}": [*module, "check", str(path)] for path in checked},
    }


def run(words: list[str], environment: dict[str, str]) -> dict[str, float]:
    """Run one command; RuntimeError if it fails."""
    with tempfile.NamedTemporaryFile("r") as used:
        started = [sys.executable, "-c", LAUNCH, used.name, sys.executable, *words]
        done = subprocess.run(started, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{words}: expected exit code 0, got {done.returncode}: {done.stderr[-2000:]}")
        figures = json.load(used)
    own = json.loads(done.stdout.splitlines()[-1]) if words[0] == "-c" else {}
    return {**figures, **own}


def measure(builds: dict[str, Path], repeats: int, checked: list[Path], only: str) -> dict[str, Any]:
    """Measure the rows whose name begins with ``only`` of all builds in turn."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="segpaste_bench_") as name:
        folder = Path(name)
        kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        common = {**kept, "PYTHONPYCACHEPREFIX": str(folder / "compiled"), "SEGPASTE_CACHE": str(folder / "cache")}
        environments = {build: {**common, "PYTHONPATH": str(path)} for build, path in builds.items()}
        data, bank, module = folder / "data", folder / "bank", ["-m", "segpaste"]
        run([*module, "augment", "scenes", "--num", "40", "--out", str(data), "--layout", "coco"], environments[OWN])
        run([*module, "bank", "build", str(data), "--out", str(bank)], environments[OWN])
        chosen = rows(data, bank, folder / "out", checked)
        for row, words in ((row, words) for row, words in chosen.items() if row.startswith(only)):
            ran: dict[str, list[dict[str, float]]] = {build: [] for build in builds}
            for i in range(repeats + 1):
                for build, environment in environments.items():
                    figures = run(words, environment)
                    if i > 0:
                        ran[build].append(figures)
            found[row] = ran
            print(row, file=sys.stderr, flush=True)
    return found


def markdown(found: dict[str, Any]) -> str:
    """Return the table: each figure of each build, and its ratio to the base if there is one."""
    body = []
    for row, ran in found.items():
        for key, unit in COLUMNS.items():
            all_values = {build: sorted(run[key] for run in runs if key in run) for build, runs in ran.items()}
            if not all(all_values.values()):
                continue
            medians = {build: statistics.median(values) for build, values in all_values.items()}
            cells = [f"{medians[build]:.2f} ({v[0]:.2f}..{v[-1]:.2f})" for build, v in all_values.items()]
            ratio = f"{medians[OWN] / medians[BASE]:.2f}" if BASE in medians else "–"
            body.append([row, unit, *cells, ratio, f"{medians[AGAIN] / medians[OWN]:.2f}"])
    builds = next(iter(found.values()))
    return report.table(["command", "unit", *builds, "of the base", "again, the noise"], body)


def main() -> None:
    """Print the table, and write it and the figures if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, metavar="FOLDER", help="folder with the segpaste of another build")
    parser.add_argument("--check", type=Path, metavar="FOLDER", action="append", default=[], help="a dataset to check")
    parser.add_argument("--only", default="", metavar="START", help="rows whose name begins so")
    parser.add_argument("--repeats", type=int, default=7, help="default: 7")
    parser.add_argument("--out", type=Path, help="path of a Markdown and a JSON file, without suffix")
    args = parser.parse_args()
    source = Path(segpaste.__file__).parents[1]
    builds = {OWN: source, **({BASE: args.base} if args.base else {}), AGAIN: source}
    found = measure(builds, args.repeats, args.check, args.only)
    results = {"settings": {"threads": 1, "device": "cpu"}, "machine": machine([]), "command_starts": found}
    report.publish("Start and end of commands", markdown(found), results, args.out)


if __name__ == "__main__":
    main()
