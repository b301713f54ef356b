"""Run commands on large datasets: a bank that is built, killed and resumed, and one shard of an augmented dataset.

    python -m benchmarks.large_runs build [--images 20000] [--annotations 10] [--workers 2]
    python -m benchmarks.large_runs augment --images 1000000 --annotations 5

The annotation file is that of `benchmarks.large_files`: all images name one photo of 640 x 480. ``build`` runs
`segpaste bank build` twice: once undisturbed, and once with all of its processes killed by SIGKILL after half of the
time that took, and then repeated; digests of all files are compared. ``augment`` runs two of the shards of
`segpaste augment`, the first with an empty cache folder. Memory is that of the largest process: all that is resident,
libraries and mapped files too, and what is its own. The first row is a process that imports torch and segpaste, and
ends.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import report
from .large_files import write_dataset
from .machine import machine

HEAD = ["images", "annotations", "", "s", "CPU s", "resident MB", "own MB", "did"]
IMPORTS = ["-c", "import segpaste.bank, segpaste.datasets, torch"]
SAMPLE_SECONDS = 0.1


@dataclass
class Watched:
    """A command that ran: exit code (negative: the signal), seconds, and the peaks of its largest process in bytes."""

    code: int
    seconds: float
    cpu_seconds: float
    resident_bytes: int
    own_bytes: int
    printed: str


def watch(words: list[str], environment: dict[str, str], kill_after: float | None = None) -> Watched:
    """Run Python with these words in a session of its own; kill all its processes after so many seconds."""
    start, before = time.perf_counter(), os.times()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            [sys.executable, *words], env=environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
        resident = own = 0
        while process.poll() is None:
            for status in _session(process.pid):
                resident, own = max(resident, status.get("VmHWM", 0)), max(own, status.get("RssAnon", 0))
            if kill_after is not None and time.perf_counter() - start > kill_after:
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(SAMPLE_SECONDS)
        out.seek(0)
        after = os.times()
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        printed = out.read().decode()
        return Watched(process.returncode, time.perf_counter() - start, cpu, resident, own, printed)


def _session(leader: int) -> list[dict[str, int]]:
    """Return memory in bytes of the processes of a session."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and os.getsid(int(folder.name)) == leader:
                lines = re.findall(r"^(VmHWM|RssAnon):\s+(\d+) kB", (folder / "status").read_text(), re.MULTILINE)
                found.append({key: int(kib) * 1024 for key, kib in lines})
        except OSError:
            continue  # it has ended
    return found


def row(step: str, ran: Watched, did: str) -> dict[str, Any]:
    """Return the figures of a step; RuntimeError where the command failed."""
    if ran.code not in (0, -signal.SIGKILL):
        raise RuntimeError(f"{step}: expected exit code 0, got {ran.code}: {ran.printed[-2000:]}")
    figures = {key: getattr(ran, key) for key in ("seconds", "cpu_seconds", "resident_bytes", "own_bytes")}
    print(f"{step}: {figures}, {did}", file=sys.stderr, flush=True)
    return {"step": step, "did": did, **figures}


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file below a folder."""
    found = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            found[str(path.relative_to(folder))] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def measure_build(folder: Path, environment: dict[str, str], workers: int) -> list[dict[str, Any]]:
    """Build a bank undisturbed, then another one that is killed half-way and resumed."""

    def command(out: str) -> list[str]:
        words = ["-m", "segpaste", "bank", "build", str(folder / "annotations.json"), "--images", str(folder)]
        return [*words, "--out", str(folder / out), "--crop-size", "32", "--workers", str(workers)]

    def parts() -> int:
        return len([*(folder / "killed.parts" / "parts").glob("*.json")])

    whole = watch(command("whole"), environment)
    kept = (re.search(r"kept +(.*)", whole.printed) or ["", "?"])[1]
    rows = [row("bank build", whole, kept)]
    killed = watch(command("killed"), environment, kill_after=whole.seconds / 2)
    if killed.code != -signal.SIGKILL or (folder / "killed").exists():
        raise RuntimeError(f"expected a build that was killed half-way, got exit code {killed.code}")
    rows.append(row("bank build, killed", killed, f"left {parts():,} parts and no bank"))
    resumed = watch(command("killed"), environment)
    is_same = digests(folder / "whole") == digests(folder / "killed") and not (folder / "killed.parts").exists()
    if not is_same:
        raise RuntimeError("expected the bytes of the undisturbed build and no parts left after the resumed one")
    num_bytes = sum(path.stat().st_size for path in (folder / "killed").iterdir())
    rows.append(row("the same, resumed", resumed, f"the same {num_bytes / 1e6:,.0f} MB, byte for byte"))
    return rows


def measure_augment(folder: Path, environment: dict[str, str], num: int, shard: str) -> list[dict[str, Any]]:
    """Augment one shard with an empty cache folder, then the next one."""
    first, parts = map(int, shard.split("/"))
    words = ["-m", "segpaste", "augment", str(folder / "annotations.json"), "--images", str(folder)]
    words += ["--out", str(folder / "augmented"), "--num", str(num), "--format", "jpg", "--gallery", "0"]
    rows = []
    for number, name in ((first, "shard, file seen first"), (first + 1, "next shard")):
        ran = watch([*words, "--shard", f"{number}/{parts}"], environment)
        num_made = len([*(folder / "augmented.shards").rglob("images/*.jpg")])
        rows.append(row(f"augment, {name}", ran, f"{num_made:,} of {num:,} images are there"))
    return rows


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Generate the dataset and run the commands."""
    with tempfile.TemporaryDirectory(prefix="segpaste_bench_") as name:
        folder = Path(name)
        write_dataset(folder, args.images, args.annotations)
        environment = {**os.environ, "SEGPASTE_CACHE": str(folder / "cache")}
        rows = [row("imports", watch(IMPORTS, environment), "nothing else")]
        if args.command == "build":
            rows += measure_build(folder, environment, args.workers)
        else:
            rows += measure_augment(folder, environment, args.num, args.shard)
        return {"images": args.images, "annotations": args.images * args.annotations, "rows": rows}


def markdown(found: dict[str, Any]) -> str:
    """Return the table of one dataset."""
    body = [
        [
            f"{found['images']:,}",
            f"{found['annotations']:,}",
            each["step"],
            *(f"{each[key]:.1f}" for key in ("seconds", "cpu_seconds")),
            *(f"{each[key] / 1e6:,.0f}" for key in ("resident_bytes", "own_bytes")),
            each["did"],
        ]
        for each in found["rows"]
    ]
    return report.table(HEAD, body)


def main() -> None:
    """Print the table, and write it and the figures if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("build", "augment"))
    parser.add_argument("--images", type=int, default=20_000, help="default: 20000")
    parser.add_argument("--annotations", type=int, default=10, help="of each image, default: 10")
    parser.add_argument("--num", type=int, default=20_000, help="images of the augmented dataset, default: 20000")
    parser.add_argument("--workers", type=int, default=2, help="of a build, default: 2")
    parser.add_argument("--shard", default="3/200", help="of an augmented dataset, default: 3/200")
    parser.add_argument("--out", type=Path, help="path of a Markdown and a JSON file, without suffix")
    args = parser.parse_args()
    found = measure(args)
    results = {"settings": {"threads": 1, "device": "cpu"}, "machine": machine([]), "large_runs": found}
    report.publish("Commands on large datasets", markdown(found), results, args.out)


if __name__ == "__main__":
    main()
