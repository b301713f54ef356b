"""Cases that are whole commands: CPU time of the process and its children, time on the wall, and memory."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .turns import Data, Figures

WORKER = """
import multiprocessing, os, sys
from segpaste import create_coco_dataloader
loader = create_coco_dataloader(
    sys.argv[1], sys.argv[2], batch_size=2, size=256, max_instances=20, num_workers=1, multiprocessing_context="spawn"
)
batches = iter(loader)
next(batches)
(worker,) = multiprocessing.active_children()
fields = open(f"/proc/{worker.pid}/stat").read().rsplit(")", 1)[1].split()
status = dict(line.split(":", 1) for line in open(f"/proc/{worker.pid}/status"))
cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
print(cpu, int(status["VmRSS"].split()[0]) / 1024)
"""


LAUNCH = """
import json, os, subprocess, sys, time
start = time.perf_counter()
process = subprocess.Popen(sys.argv[2:])
_, status, used = os.wait4(process.pid, 0)
process.returncode = os.waitstatus_to_exitcode(status)
figures = {"CPU s": used.ru_utime + used.ru_stime, "wall s": time.perf_counter() - start, "MiB": used.ru_maxrss / 1024}
json.dump(figures, open(sys.argv[1], "w"))
sys.exit(process.returncode)
"""
"""Small process that starts a command, since the kernel counts the memory of the process that forks as the child's."""


def run(words: list[str]) -> tuple[Figures, str]:
    """Run Python with these words; return its figures and what it printed.

    Raises:
        RuntimeError: it failed.
    """
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.NamedTemporaryFile("r") as used:
        launched = [sys.executable, "-c", LAUNCH, used.name, sys.executable, *words]
        done = subprocess.run(launched, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            text = done.stderr[-500:]
            raise RuntimeError(f"{' '.join(words[:4])}: expected exit code 0, got {done.returncode}: {text}")
        return json.load(used), done.stdout


def _each(words: list[str]) -> Iterator[Figures]:
    while True:
        yield run(["-m", "segpaste", *words])[0]


def _dataset(data: Data) -> list[str]:
    return [data.dataset, *(["--images", data.images] if data.images else [])]


def dry_run(data: Data) -> Iterator[Figures]:
    """``augment --dry-run`` of a single image."""
    return _each(["augment", *_dataset(data), "--out", f"{data.scratch}/dry", "--dry-run", "--num", "1"])


def augment(data: Data) -> Iterator[Figures]:
    """``augment``, a dataset with PNG images."""
    out = Path(tempfile.mkdtemp(dir=data.scratch)) / "out"
    words = ["augment", *_dataset(data), "--out", str(out), "--num", str(data.num)]
    for figures in _each(words):
        yield figures
        shutil.rmtree(out)


def stats(data: Data) -> Iterator[Figures]:
    """``stats`` of the dataset."""
    return _each(["stats", data.dataset])


def bank_info(data: Data) -> Iterator[Figures]:
    """``bank info`` of the bank."""
    return _each(["bank", "info", data.bank])


def check(data: Data) -> Iterator[Figures]:
    """``check`` of the dataset."""
    return _each(["check", *_dataset(data)])


def check_large(data: Data) -> Iterator[Figures]:
    """``check`` of the large file."""
    return _each(["check", data.large, "--images", str(Path(data.large).parent)])


def worker(data: Data) -> Iterator[Figures]:
    """A spawned worker of a loader until its first batch; its memory is what is resident, mapped files included."""
    while True:
        cpu, resident = run(["-c", WORKER, str(Path(data.large).parent), data.large])[1].split()[-2:]
        yield {"CPU s": float(cpu), "MiB": float(resident)}
