"""Time a training step of each framework with and without paste, on the CPU, each in the framework's environment.

    python -m benchmarks.trainer_steps --trainers .venv/trainers
    python -m benchmarks.trainer_steps --only rfdetr --quick

A case of `benchmarks.trainer_cases` is a model with random weights and a batch as the framework's own loader gives it.
Steps with and without paste take turns in one process. A step is forward, losses, backward and optimizer; the paste is
everything from the framework's batch to the framework's batch: the augmentation and the conversions on both sides. The
times are CPU seconds of all threads, which other work on the machine changes less than the time on the wall.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from . import report, timing
from .machine import machine
from .trainer_cases import CASES

OFFLINE = {"HF_HUB_OFFLINE": "1", "YOLO_OFFLINE": "true", "WANDB_MODE": "disabled", "ALBUMENTATIONS_OFFLINE": "1"}
PACKAGES = ("ultralytics", "rfdetr", "transformers", "torchvision", "lightning")
HEAD = ["trainer", "step, s", "paste, ms", "of a step", "paste, compiled, ms", "step with paste, s"]
HEAD += ["ratio (middle half)", "ratio in wall time", "turns"]


def main() -> None:
    """Measure every case in a process of its own, or the one that is asked for in this one."""
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}.trainer_steps", description=_first_line())
    parser.add_argument("--only", action="append", choices=CASES, help="a case, default: all; may be repeated")
    parser.add_argument("--trainers", type=Path, default=Path(".venv/trainers"), help="default: .venv/trainers")
    parser.add_argument("--seconds", type=float, default=8.0, help="CPU seconds of each case, default: 8")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds that a case may take, default: 900")
    parser.add_argument("--threads", type=int, default=1, help="torch's threads, default: 1")
    parser.add_argument("--no-compile", dest="compile", action="store_false", help="leave compiled augmentations out")
    parser.add_argument("--quick", action="store_true", help="two images of 128², one second, without compiling")
    parser.add_argument("--out", type=Path, help="a folder for trainer_steps.md and trainer_steps.json")
    parser.add_argument("--here", type=Path, help=argparse.SUPPRESS)  # the child's: where to write
    args = parser.parse_args()
    if args.here is not None:
        args.here.write_text(json.dumps(measure(args.only[0], args)))
        return
    rows = {name: run_child(name, args) for name in args.only or CASES}
    text = markdown(rows, args.threads)
    print(text)
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "trainer_steps.md").write_text(f"# A training step with and without paste\n\n{text}\n")
        (args.out / "trainer_steps.json").write_text(json.dumps({"machine": machine(), "rows": rows}, indent=2) + "\n")


def run_child(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Measure a case where its framework is; a dictionary with ``error`` if that failed."""
    python = args.trainers.absolute() / CASES[name].environment / "bin" / "python"
    if CASES[name].environment and not python.exists():
        return {"error": f"no environment {CASES[name].environment}: `make test` sets it up"}
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.json"
        command = [str(python) if CASES[name].environment else sys.executable, "-m", f"{__package__}.trainer_steps"]
        command += ["--only", name, "--here", str(found), "--seconds", str(args.seconds)]
        command += ["--threads", str(args.threads), *(["--quick"] if args.quick else [])]
        command += [] if args.compile else ["--no-compile"]
        settings = {**os.environ, **OFFLINE, **timing.ALLOCATOR, "YOLO_CONFIG_DIR": folder}
        try:
            run = subprocess.run(command, env=settings, capture_output=True, text=True, check=False, timeout=args.limit)
        except subprocess.TimeoutExpired:
            return {"error": f"it took more than {args.limit:.0f} s"}
        if run.returncode:
            return {"error": (run.stderr.strip() or "no output").splitlines()[-1]}
        result: dict[str, Any] = json.loads(found.read_text())
        return result


def measure(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Times of a case in this process, and what was measured."""
    from segpaste import BatchCopyPaste

    from .batches import EVERY_IMAGE

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    size, batch_size = (128, 2) if args.quick else (256, 8)
    with tempfile.TemporaryDirectory() as folder:
        case = CASES[name].make(size, batch_size, Path(folder))
        augments: dict[str, Callable[..., Any]] = {"paste": BatchCopyPaste(EVERY_IMAGE)}
        if args.compile and not args.quick:
            augments["paste, compiled"] = torch.compile(BatchCopyPaste(EVERY_IMAGE), fullgraph=True)
        start = time.process_time()
        times = case.turns(augments, *((1.0, 1) if args.quick else (args.seconds, 3)))
        seconds = time.process_time() - start
    medians = {
        part: {"cpu": timing.summary([cpu for cpu, _ in values]), "wall": timing.summary([wall for _, wall in values])}
        for part, values in times.items()
    }
    return {"batch": case.batch, "note": case.note, "seconds": seconds, "steps": len(times["step"]), "times": medians}


def markdown(rows: dict[str, dict[str, Any]], threads: int) -> str:
    """The table, what is behind each row, and the machine."""
    body, notes = [], []
    for name, row in rows.items():
        title = CASES[name].title
        if "error" in row:
            notes.append(f"- {title}: not measured, {row['error']}")
            continue
        cpu = {part: times["cpu"]["median_ms"] for part, times in row["times"].items()}
        wall = {part: times["wall"]["median_ms"] for part, times in row["times"].items()}
        compiled = f"{cpu['paste, compiled']:.1f}" if "paste, compiled" in cpu else "–"
        step, with_paste = (row["times"][part]["cpu"] for part in ("step", "step with paste"))
        ratio, low, high = timing.ratio(with_paste, step)
        counts = [f"{cpu['step'] / 1e3:.2f}", f"{cpu['paste']:.1f}", f"{cpu['paste'] / cpu['step']:.2%}", compiled]
        counts += [f"{cpu['step with paste'] / 1e3:.2f}", f"{ratio:.2f} ({low:.2f}..{high:.2f})"]
        counts += [f"{wall['step with paste'] / wall['step']:.2f}", str(row["steps"])]
        body.append([title, *counts])
        notes.append(f"- {title}: {row['batch']}. {row['note']}".rstrip())
    results = {"settings": {"threads": threads, "device": "cpu"}, "machine": machine(PACKAGES)}
    return "\n\n".join([report.table(HEAD, body), "\n".join(notes), report.setting(results)])


def _first_line() -> str:
    return (__doc__ or "").split("\n")[0]


if __name__ == "__main__":
    main()
