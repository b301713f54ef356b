"""The processes of the runs of `runs_world`, and what their records must be."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from runs_world import BATCH_SIZE, NUM_EPOCHS, NUM_RANKS, STEPS, Record, Step, make_loader, record

import segpaste


def expected(variant: str, folder: Path) -> list[list[Record]]:
    """Return the records that each rank has to see, epoch after epoch, from loaders that are told their rank."""
    return [list(_expected_of(variant, folder, rank)) for rank in range(NUM_RANKS)]


def _expected_of(variant: str, folder: Path, rank: int) -> Iterator[Record]:
    loader, step = make_loader(variant, folder, rank=rank, num_replicas=NUM_RANKS), Step(variant)
    loaders = list(loader.values()) if isinstance(loader, dict) else [loader]
    for epoch in range(NUM_EPOCHS):
        for one in loaders:
            one.set_epoch(epoch)
        items: Iterable[Any] = loader
        if isinstance(loader, dict):
            items = ({"targets": targets, "crops": crops} for targets, crops in zip(*loaders, strict=True))
        for i, item in enumerate(items):
            yield record(epoch * STEPS + i, step(item))


class Seen(NamedTuple):
    """Output of a run, rank by rank."""

    records: list[list[Record]]
    facts: list[dict[str, Any]]
    warnings: list[list[str]]


def read(folder: Path, run: str) -> Seen:
    """Fail with what the run says, if it failed."""
    contents = []
    for rank in range(NUM_RANKS):
        path = folder / "records" / f"{run}-{rank}.json"
        assert path.exists(), f"rank {rank} of {run} wrote nothing"
        contents.append(json.loads(path.read_text()))
    errors = [content["error"] for content in contents]
    assert errors == [None] * NUM_RANKS, errors
    return Seen(
        [[Record(*row) for row in content["records"]] for content in contents],
        [content["facts"] for content in contents],
        [content["warnings"] for content in contents],
    )


def check_shares(seen: Seen, num_samples: int, num_repeated: int) -> None:
    """In each epoch the ranks share the samples, in another order, and augmented otherwise."""
    orders, digests = set(), []
    for epoch in range(NUM_EPOCHS):
        halves = [records[epoch * STEPS : (epoch + 1) * STEPS] for records in seen.records]
        for rank, half in enumerate(halves):
            assert [r.step for r in half] == list(range(epoch * STEPS, (epoch + 1) * STEPS))
            assert all(set(r.epochs) == {epoch} and set(r.ranks) == {rank} for r in half)
        samples = [[i for r in half for i in r.samples] for half in halves]
        mine, others = map(set, samples)
        assert [len(mine), len(others)] == [STEPS * BATCH_SIZE] * NUM_RANKS
        assert len(mine | others) == num_samples
        assert len(mine & others) == num_repeated
        orders.add(str(samples))
        digests += [r.digest for half in halves for r in half]
    assert [len(records) for records in seen.records] == [NUM_EPOCHS * STEPS] * NUM_RANKS
    assert len(orders) == NUM_EPOCHS
    assert len(set(digests)) == len(digests)


class Processes:
    """Processes of one run, in a session of their own, ended with it.

    Args:
        script: in this folder.
        words: its arguments.
        each: the environment of each process, beside what they share.
    """

    def __init__(self, script: str, words: list[str], each: list[dict[str, str]]) -> None:
        here = Path(__file__).parent
        paths = [Path(segpaste.__file__).parents[1], here, here.parent]
        shared = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PL_"))}
        shared |= {"PYTHONPATH": os.pathsep.join(map(str, paths)), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        shared["PYTHONFAULTHANDLER"] = "1"
        self.processes = [
            subprocess.Popen(
                [sys.executable, str(here / script), *words],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env={**shared, **own},
                start_new_session=True,
            )
            for own in each
        ]

    def finish(self, limit_s: float = 300) -> None:
        """Wait for the end of all; what they said goes to this process's output, for pytest to show.

        Those that have not ended in time say where each of their threads is.
        """
        deadline = time.monotonic() + limit_s
        try:
            for process in self.processes:
                print(process.communicate(timeout=max(deadline - time.monotonic(), 1))[0])
        finally:
            for process in self.processes:
                if process.poll() is None:
                    say_where_they_are(process.pid)
                    os.killpg(process.pid, signal.SIGKILL)
                    print(process.communicate()[0])
        assert [process.returncode for process in self.processes] == [0] * len(self.processes)


def say_where_they_are(session: int) -> None:
    """Let all processes of a session write the stacks of their threads, one after the other: PYTHONFAULTHANDLER."""
    listed = ["ps", "-o", "pid,ppid,stat,wchan:20,etimes,args", "--sid", str(session)]
    print(subprocess.run(listed, capture_output=True, text=True, check=False).stdout)
    pids = subprocess.run(["ps", "-o", "pid=", "--sid", str(session)], capture_output=True, text=True, check=False)
    for pid in sorted(map(int, pids.stdout.split()), reverse=True):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGABRT)
        time.sleep(0.5)


def of_launcher() -> list[dict[str, str]]:
    """The variables by which torchrun tells each process its place, and a port for a second process group."""
    with socket.socket() as first, socket.socket() as second:
        for free in (first, second):
            free.bind(("127.0.0.1", 0))
        ports = [str(free.getsockname()[1]) for free in (first, second)]
    shared = {"WORLD_SIZE": str(NUM_RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": ports[0]}
    shared["SECOND_PORT"] = ports[1]
    return [{**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(NUM_RANKS)]
