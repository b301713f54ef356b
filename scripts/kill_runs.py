#!/usr/bin/env python3
"""Kill long commands at random moments, rerun each until it ends, and check that only the complete result is left.

Half of the kills come at a random time, wherever the process is. The others come before a random change of a name on
the disk: a rename, a removal, a flush or a new folder, where a run is torn most easily. A run is killed up to three
times, then it may end. What must be true:

- After each kill, what has its final name is whole.
- The same command resumes, or says that the result is there.
- It ends with the bytes of a run that was never interrupted, and leaves nothing beside them.

    python scripts/kill_runs.py                        # 200 kills of each command
    python scripts/kill_runs.py --kills 20 --command augment --seed 7

Exits with 1, and prints the kills of the run, if one of them fails.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from segpaste.augmenting import steps
from segpaste.bank.building import parts
from segpaste.cli import main as segpaste
from segpaste.encoder.checkpoints import CheckpointError, read_checkpoint
from segpaste.workspace import MARKER

CHANGES = ("replace", "rename", "unlink", "remove", "mkdir", "rmdir", "fsync")
"""The functions of ``os`` before which a process is killed."""
MOST_IN_A_ROW = 3
OCCUPIED = 2

Tree = dict[str, bytes]


def augment(world: Path) -> list[str]:
    """Three steps of scenes, with a gallery of one."""
    steps.IMAGES_PER_STEP = 2
    return ["augment", "scenes", "--num", "5", "--size", "32", "--gallery", "1"]


def replay(world: Path) -> list[str]:
    """The images of an augmented dataset, one to a step."""
    if not (world / "augmented").exists():
        run([*augment(world), "--out", str(world / "augmented")])
    return ["replay", str(world / "augmented"), "--dataset", "scenes"]


def build(world: Path, kind: str) -> list[str]:
    """Three parts of a bank."""
    parts.PHOTOS_PER_PART = 4
    sizes = ["--num", "10", "--size", "32", "--crop-size", "16", "--min-area", "4"]
    return ["bank", "build", "scenes", *sizes, "--format", kind]


def train(world: Path) -> list[str]:
    """Four epochs."""
    for name, seed in (("train.csv", 1), ("validation.csv", 2)):
        rows = np.random.default_rng(seed).normal(size=(24, 5)).tolist()
        lines = [",".join(["label", *(f"embedding_{i}" for i in range(5))])]
        lines += [",".join([f"class {i % 4}", *map(repr, row)]) for i, row in enumerate(rows)]
        (world / name).write_text("\n".join(lines) + "\n")
    words = ["data.N_classes_per_batch=2", "data.M_samples_per_class=2", "model.num_attributes=8", "model.hidden=7"]
    words += ["trainer.losses=[mse]", "trainer.epochs=4", "trainer.device=cpu"]
    return ["train", str(world / "train.csv"), str(world / "validation.csv"), *words]


COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "augment": augment,
    "replay": replay,
    "bank-memmap": partial(build, kind="memmap"),
    "bank-lmdb": partial(build, kind="lmdb"),
    "bank-webdataset": partial(build, kind="webdataset"),
    "train": train,
}


@dataclass(frozen=True)
class Moment:
    """When a process is killed.

    Attributes:
        kind: ``"seconds"`` after its start, or ``"changes"`` that it has made.
        at: how many of them.
    """

    kind: str
    at: float


@dataclass(frozen=True)
class Whole:
    """A run that nobody interrupts.

    Attributes:
        words: of the command, but for ``--out``.
        files: what it leaves.
        num_changes: that it makes on the disk.
        seconds: that it takes.
    """

    words: list[str]
    files: Tree
    num_changes: int
    seconds: float


def run(words: Sequence[str]) -> int:
    """Run the command in this process without its output; returns its exit code."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        return segpaste(list(words))


def run_killed(function: Callable[[], int], moment: Moment | None) -> int | None:
    """Call a function in a child; returns the exit code that it gives, or None if the child was killed."""
    if (child := os.fork()) == 0:
        try:
            with contextlib.ExitStack() as stack:
                if moment is not None and moment.kind == "changes":
                    stack.enter_context(watched_changes(killing_after(int(moment.at))))
                os._exit(function())
        except BaseException:
            traceback.print_exc()
        finally:  # where it raises something
            os._exit(99)
    if moment is not None and moment.kind == "seconds":
        time.sleep(moment.at)
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    return None if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


@contextlib.contextmanager
def watched_changes(notice: Callable[[], Any]) -> Iterator[None]:
    """Call a function before each change of a name on the disk."""

    def watched(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            notice()
            return function(*args, **options)

        return call

    with contextlib.ExitStack() as stack:
        for name in CHANGES:
            stack.enter_context(mock.patch.object(os, name, watched(getattr(os, name))))
        yield


def killing_after(num_changes: int) -> Callable[[], None]:
    """Make a function that kills this process when it is called once more than so many times."""
    left = iter(range(num_changes))

    def notice() -> None:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    return notice


def read_tree(folder: Path) -> Tree:
    """Read the files below a folder, by their path from there.

    Of a checkpoint its values count. Its bytes depend on which equal values are one object.
    """
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): values_of(path) if path.suffix == ".pt" else path.read_bytes() for path in files
    }


def values_of(checkpoint: Path) -> bytes:
    """Write all values of a checkpoint in one way."""

    def plain(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return [str(value.dtype), list(value.shape), value.numpy().tobytes()]
        if isinstance(value, dict):
            return {str(key): plain(part) for key, part in value.items()}
        return [plain(part) for part in value] if isinstance(value, list | tuple) else value

    try:
        return repr(plain(read_checkpoint(checkpoint))).encode()
    except CheckpointError as error:
        return str(error).encode()


def run_whole(command: str, world: Path) -> Whole:
    """Run a command that nobody interrupts, and count its changes."""
    words, out, changes = COMMANDS[command](world), world / "whole", list[int]()
    with watched_changes(lambda: changes.append(1)):
        code = run([*words, "--out", str(out)])
    if code:
        raise SystemExit(f"segpaste {' '.join(words)}: expected exit code 0, got {code}")
    start = time.perf_counter()
    run_killed(partial(run, [*words, "--out", str(world / "timed")]), None)
    return Whole(words, read_tree(out), len(changes), time.perf_counter() - start)


def faults(command: str, folder: Path, whole: Whole) -> Iterator[str]:
    """Yield the faults after a kill: files that have their final names and are not whole."""
    out = folder / "out"
    if command == "train":
        for path in out.glob("*.pt"):
            try:
                read_checkpoint(path)
            except CheckpointError as error:
                yield str(error)
    elif out.exists():
        there = read_tree(out)
        there.pop(MARKER, None)  # of a bank it goes last
        if there != whole.files:
            yield f"out is there, and is not whole: {differences(there, whole.files)}"


def differences(found: Tree, expected: Tree) -> str:
    """The names of files that differ."""
    names = sorted(name for name in {**found, **expected} if found.get(name) != expected.get(name))
    return ", ".join(names[:5]) or "none"


def kill_until_done(command: str, folder: Path, whole: Whole, rng: random.Random) -> tuple[int, list[str]]:
    """Kill a run some times, then let it end.

    Returns:
        How often it was killed, and what was wrong.
    """
    command_line = partial(run, [*whole.words, "--out", str(folder / "out")])
    found, kills = list[str](), list[Moment]()
    for _ in range(rng.randint(1, MOST_IN_A_ROW)):
        moment = Moment("seconds", rng.uniform(0, whole.seconds))
        if rng.random() < 0.5:
            moment = Moment("changes", rng.randrange(whole.num_changes))
        if run_killed(command_line, moment) is not None:
            break
        kills.append(moment)
        found += faults(command, folder, whole)
    was_there = command != "train" and (folder / "out").exists()
    code = run_killed(command_line, None)
    if code != (OCCUPIED if was_there and command != "augment" else 0):  # which says that it is complete
        found.append(f"the same command ended with {code}")
    if left := sorted(path.name for path in folder.iterdir() if path.name not in ("out", "out.log")):
        found.append(f"left beside the result: {', '.join(left)}")
    if (there := read_tree(folder / "out")) != whole.files:
        found.append(f"the result differs: {differences(there, whole.files)}")
    return len(kills), [f"{fault} (killed after {kills})" for fault in found]


def kill_often(command: str, num_kills: int, seed: int, folder: Path) -> tuple[int, list[str]]:
    """Kill a command at least so many times.

    Args:
        command: a key of `COMMANDS`.
        num_kills: in all.
        seed: of the moments.
        folder: new, for all that is written.

    Returns:
        How many runs that were, and what was wrong.
    """
    world = folder / "world"
    world.mkdir(parents=True)
    whole = run_whole(command, world)
    killed, runs, found = 0, 0, list[str]()
    while killed < num_kills:
        place = folder / f"run{runs}"
        place.mkdir()
        num, wrong = kill_until_done(command, place, whole, random.Random(f"{seed} {command} {runs}"))
        killed, runs = killed + num, runs + 1
        found += [f"{command}, run {runs - 1} of seed {seed}: {fault}" for fault in wrong]
        if not wrong:
            shutil.rmtree(place)
    return runs, found


def main(argv: Sequence[str] | None = None) -> int:
    """Kill; 0 if all was well."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--kills", type=int, default=200, metavar="N", help="of each command, default: 200")
    parser.add_argument("--command", choices=COMMANDS, action="append", help="may be given again, default: all")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="default: 0")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)  # a pool of threads does not survive a fork
    num_wrong = 0
    for command in options.command or COMMANDS:
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as scratch:
            runs, found = kill_often(command, options.kills, options.seed, Path(scratch, "kills"))
        seconds = time.perf_counter() - start
        print(f"{command:16} {options.kills} kills of {runs} runs, {len(found)} faults, {seconds:.0f} s", flush=True)
        print("".join(f"  {fault}\n" for fault in found), end="", flush=True)
        num_wrong += len(found)
    return 1 if num_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
