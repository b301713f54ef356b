"""Time the path of a new user, from ``pip install .`` beside a trainer to the first augmented step on a YOLO folder.

    python -m benchmarks.first_step
    python -m benchmarks.first_step --data data.yaml --size 640

A copy of the checkout is installed into a new environment, which also sees the packages of the one that runs this and
of one with Ultralytics, as the user's own would hold them. Then the user's script trains, as it was and with the lines
for segpaste, each in a process of its own, until its first step is done.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any

from . import report
from .machine import machine
from .trainer_cases import write_yolo
from .trainer_turns import scenes

ROOT = Path(__file__).parents[1]
BEFORE = """\
import sys
from ultralytics import YOLO

options = {"epochs": 1, "batch": 8, "workers": 0, "device": "cpu", "amp": False, "project": sys.argv[3]}
model = YOLO("yolo11n-seg.yaml")
model.add_callback("on_train_batch_end", lambda trainer: print("first step", flush=True))
model.train(data=sys.argv[1], imgsz=int(sys.argv[2]), **options)
"""
AFTER = """\
import sys
from segpaste import BatchCopyPaste
from segpaste.integrations.ultralytics import with_copy_paste
from ultralytics import YOLO
from ultralytics.models.yolo.segment import SegmentationTrainer

options = {"epochs": 1, "batch": 8, "workers": 0, "device": "cpu", "amp": False, "project": sys.argv[3]}
model = YOLO("yolo11n-seg.yaml")
model.add_callback("on_train_batch_end", lambda trainer: print("first step", flush=True))
trainer = with_copy_paste(SegmentationTrainer, BatchCopyPaste(), max_instances=64)
model.train(data=sys.argv[1], imgsz=int(sys.argv[2]), **options, trainer=trainer)
"""
SCRIPTS = {"without segpaste": BEFORE, "with segpaste": AFTER}
PICTURE = "copy_paste_batch.jpg"


def main() -> None:
    """Walk, and print what it took."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {__package__}.first_step", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "--data", type=Path, help="a data.yaml, beside whose labels Ultralytics writes; default: scenes"
    )
    parser.add_argument("--size", type=int, default=256, help="image side in pixels, default: 256")
    parser.add_argument("--trainer", type=Path, default=Path(".venv/trainers/ultralytics"), help="its environment")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each script, default: 2")
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    args = parser.parse_args()
    if not (args.trainer / "bin" / "python").exists():
        parser.error(f"--trainer: expected an environment with Ultralytics, got {args.trainer}; `make test` sets it up")
    with tempfile.TemporaryDirectory() as folder:
        data = args.data or write_yolo(Path(folder) / "data", scenes(args.size, 16))
        found = walk(Path(folder), data.absolute(), args.size, args.trainer, args.rounds)
    print(markdown(found))
    if args.out is not None:
        args.out.write_text(json.dumps({"machine": machine(), **found}, indent=2) + "\n")


def walk(folder: Path, data: Path, size: int, trainer: Path, rounds: int) -> dict[str, Any]:
    """Seconds of each part, those of the scripts in the order of their runs."""
    python = make_environment(folder / "user", trainer)
    tree = copy_of_the_checkout(folder / "tree")
    start = time.perf_counter()
    _run([str(python), "-m", "pip", "install", "--quiet", "."], cwd=tree)
    install = time.perf_counter() - start
    place = _run([str(python), "-c", "import segpaste; print(segpaste.__file__)"], cwd=folder).strip()
    if not Path(place).is_relative_to(folder):
        raise RuntimeError(f"expected the segpaste that was installed into {folder}, got {place}")
    seconds: dict[str, list[float]] = {name: [] for name in SCRIPTS}
    for number in range(rounds):
        for name, script in SCRIPTS.items():
            place_of_run = folder / f"run {number} {name}"
            seconds[name].append(first_step(python, script, place_of_run, data, size, pasted=name == "with segpaste"))
    return {"install": install, "seconds": seconds, "lines": changed_lines()}


def make_environment(folder: Path, trainer: Path) -> Path:
    """Make an environment that sees the packages of this one and of the trainer's, and return its Python.

    Folders in a ``.pth`` file come after the environment's own, and the ``.pth`` files in them, such as that of an
    editable installation, are not read.
    """
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    theirs = _run([str(trainer.absolute() / "bin" / "python"), "-c", ask]).strip()
    seen = "\n".join([theirs, sysconfig.get_path("purelib")])
    (Path(_run([str(python), "-c", ask]).strip()) / "packages.pth").write_text(seen + "\n")
    return python


def copy_of_the_checkout(folder: Path) -> Path:
    """Copy the files that git tracks, so that no build output is included."""
    for name in _run(["git", "ls-files", "-z"], cwd=ROOT).split("\0"):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    return folder


def first_step(python: Path, script: str, folder: Path, data: Path, size: int, pasted: bool) -> float:
    """Seconds from the start of a script until its first step is done, after which the script is ended."""
    folder.mkdir()
    (folder / "train.py").write_text(script)
    settings = {**_clean(), "YOLO_CONFIG_DIR": str(folder), "YOLO_OFFLINE": "true", "PYTHONUNBUFFERED": "1"}
    command = [str(python), "train.py", str(data), str(size), str(folder / "out")]
    start, lines = time.perf_counter(), []
    with subprocess.Popen(
        command, cwd=folder, env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as run:
        assert run.stdout is not None
        for line in run.stdout:
            lines.append(line)
            if "first step" in line:
                seconds = time.perf_counter() - start
                run.kill()
                break
        else:
            raise RuntimeError("the script ended before its first step:\n" + "".join(lines[-20:]))
    if pasted != any(folder.rglob(PICTURE)):
        raise RuntimeError(f"expected {PICTURE} {'in' if pasted else 'absent from'} the trainer's folder {folder}")
    return seconds


def changed_lines() -> dict[str, int]:
    """Lines that the user adds to the script, and lines that change."""
    counts = {"added": 0, "changed": 0}
    for tag, i, j, k, m in difflib.SequenceMatcher(None, BEFORE.splitlines(), AFTER.splitlines()).get_opcodes():
        if tag == "insert":
            counts["added"] += m - k
        elif tag == "replace":
            counts["changed"] += j - i
            counts["added"] += (m - k) - (j - i)
    return counts


def markdown(found: dict[str, Any]) -> str:
    """The script, the table and the machine."""
    body = [["`pip install .`", f"{found['install']:.1f}"]]
    for name, seconds in found["seconds"].items():
        body.append([f"script {name}, to the end of its first step", ", ".join(f"{s:.1f}" for s in seconds)])
    lines = f"{found['lines']['added']} lines added, {found['lines']['changed']} changed:"
    facts = report.setting({"settings": {"threads": os.cpu_count(), "device": "cpu"}, "machine": machine()})
    return "\n\n".join([lines, f"```py\n{AFTER}```", report.table(["", "seconds"], body), facts])


def _run(command: list[str], cwd: Path | None = None) -> str:
    run = subprocess.run(command, cwd=cwd, env=_clean(), capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"{' '.join(command[:4])} failed:\n{run.stderr[-2000:]}")
    return run.stdout


def _clean() -> dict[str, str]:
    """Return the environment of a user, who has no path to a checkout."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


if __name__ == "__main__":
    main()
