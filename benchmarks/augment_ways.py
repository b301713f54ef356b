"""Time every way in which `segpaste augment` can make the same dataset: workers, shards, and Ray.

    python -m benchmarks.augment_ways DATASET [--num 1000] [--workers 1 2] [--shards 4] [--out FILE]

Each way writes a dataset of its own. Digests of all of its files except the report, which tells times, are compared
with those of one process; a difference is an error. Images per CPU second count all processes of a way, reading and
writing included; Ray's workers are no children of the command, so their CPU time is unknown. The last lines are the
summary that the first way printed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from . import report
from .large_runs import Watched, digests, watch
from .machine import machine

HEAD = ["way", "s", "CPU s", "images per CPU s", "resident MB of the largest process", "bytes"]
FIGURES = ("seconds", "cpu_seconds", "images_per_cpu_second")
TOLD = ("report.html",)


def ways(workers: list[int], shards: int) -> dict[str, list[list[str]]]:
    """Return the words of each command of each way."""
    found = {f"--workers {n}": [["--workers", str(n)]] for n in workers}
    found[f"--shard 1/{shards} .. {shards}/{shards}"] = [["--shard", f"{i + 1}/{shards}"] for i in range(shards)]
    found["--engine ray"] = [["--engine", "ray", "--workers", "2"]]
    return found


def run(commands: list[list[str]], words: list[str], environment: dict[str, str]) -> list[Watched]:
    """Run the commands of a way one after another; RuntimeError where one fails."""
    all_ran = []
    for more in commands:
        all_ran.append(watch([*words, *more], environment))
        if all_ran[-1].code != 0:
            raise RuntimeError(f"{more}: expected exit code 0, got {all_ran[-1].code}: {all_ran[-1].printed[-2000:]}")
    return all_ran


def measure(dataset: str, num: int, workers: list[int], shards: int, more: list[str]) -> dict[str, Any]:
    """Make the dataset in every way, and compare the bytes."""
    rows, first, summary = [], None, ""
    with tempfile.TemporaryDirectory(prefix="segpaste_bench_") as name:
        environment = {**os.environ, "SEGPASTE_CACHE": str(Path(name) / "cache")}
        for i, (way, commands) in enumerate(ways(workers, shards).items()):
            out = Path(name) / str(i)
            words = ["-m", "segpaste", "augment", dataset, "--out", str(out), "--num", str(num), *more]
            all_ran = run(commands, words, environment)
            made = {file: digest for file, digest in digests(out).items() if file not in TOLD}
            if first is None:
                first, summary = made, all_ran[-1].printed
            if made != first:
                differ = sorted(file for file in {*made, *first} if made.get(file) != first.get(file))
                raise RuntimeError(
                    f"{way}: expected the bytes of the first way, {len(differ)} files differ: {differ[:5]}"
                )
            cpu = sum(ran.cpu_seconds for ran in all_ran)
            figures = {
                "way": way,
                "seconds": sum(ran.seconds for ran in all_ran),
                "cpu_seconds": None if "ray" in way else cpu,
                "images_per_cpu_second": None if "ray" in way else num / cpu,
                "resident_bytes": max(ran.resident_bytes for ran in all_ran),
                "files": len(made),
            }
            print(figures, file=sys.stderr, flush=True)
            rows.append(figures)
    return {"num": num, "arguments": more, "rows": rows, "summary": summary}


def markdown(found: dict[str, Any]) -> str:
    """Return the table, and the summary of the first way."""
    body = [
        [
            each["way"],
            *("–" if each[key] is None else f"{each[key]:.1f}" for key in FIGURES),
            f"{each['resident_bytes'] / 1e6:,.0f}",
            "those that the others are compared with" if i == 0 else f"the same, {each['files']:,} files",
        ]
        for i, each in enumerate(found["rows"])
    ]
    lines = [line for line in found["summary"].splitlines() if not line.startswith(("time", "files"))]
    return "\n\n".join([report.table(HEAD, body), "\n".join(["```", *lines, "```"])])


def main() -> None:
    """Print the table, and write it and the figures if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--num", type=int, default=1000, help="images, default: 1000")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="default: 1 2")
    parser.add_argument("--shards", type=int, default=4, help="default: 4")
    parser.add_argument("--out", type=Path, help="path of a Markdown and a JSON file, without suffix")
    args, more = parser.parse_known_args()
    found = measure(args.dataset, args.num, args.workers, args.shards, more)
    results = {"settings": {"threads": 1, "device": "cpu"}, "machine": machine([]), "augment_ways": found}
    report.publish("One augmented dataset, made in every way", markdown(found), results, args.out)


if __name__ == "__main__":
    main()
