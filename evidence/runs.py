"""Files of runs: each is written atomically under the digest of its settings, and an existing run is not repeated.

    folder = RunFolder("evidence/results/rare-classes")
    run_missing(folder, list_of_settings, "evidence.rare_classes.runs:train", processes=2)

Settings must contain everything that a result depends on: two runs with equal settings are one run.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import torch
from benchmarks.machine import machine

from segpaste.workspace import write_whole

Settings = Mapping[str, Any]


class Run(NamedTuple):
    """A run that is done.

    Attributes:
        settings: what it was started with.
        found: what it returned.
        machine: where it ran, and with which versions.
    """

    settings: dict[str, Any]
    found: dict[str, Any]
    machine: dict[str, Any]


def digest(settings: Settings) -> str:
    """Return a name for settings: 16 hexadecimal digits."""
    text = json.dumps(settings, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class RunFolder:
    """The files of runs: one JSON file for each, and one with a line for each once they are gathered.

    Args:
        folder: where; it is made with the first run.
    """

    gathered = "runs.jsonl"

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def path(self, settings: Settings) -> Path:
        """Return the file of a run."""
        return self.folder / f"{digest(settings)}.json"

    def __iter__(self) -> Iterator[Run]:
        """Yield all runs, in the order of their digests."""
        return iter(run for _, run in sorted(self._by_digest().items()))

    def find(self, settings: Settings) -> Run | None:
        """Return the run of these settings, or None if it is not done."""
        path = self.path(settings)
        return _read(path)[0] if path.exists() else self._gathered_runs().get(digest(settings))

    def missing(self, wanted: Sequence[Settings]) -> list[Settings]:
        """Return those settings whose runs are not done, each once."""
        done = self._gathered_runs().keys() | {path.stem for path in self.folder.glob("*.json")}
        todo = {digest(settings): settings for settings in wanted}
        return [settings for name, settings in todo.items() if name not in done]

    def write(self, settings: Settings, found: Mapping[str, Any]) -> None:
        """Write a run; a reader sees all of it or nothing."""
        self.folder.mkdir(parents=True, exist_ok=True)
        run = {"settings": settings, "found": found, "machine": machine()}
        write_whole(self.path(settings), (json.dumps(run) + "\n").encode())

    def gather(self) -> Path:
        """Put all runs into one file, a line for each, and remove those of single runs."""
        lines = "".join(json.dumps(run._asdict()) + "\n" for run in self)
        write_whole(self.folder / self.gathered, lines.encode())
        for path in self.folder.glob("*.json"):
            path.unlink()
        return self.folder / self.gathered

    def _by_digest(self) -> dict[str, Run]:
        single = {path.stem: _read(path)[0] for path in self.folder.glob("*.json")}
        return {**self._gathered_runs(), **single}

    def _gathered_runs(self) -> dict[str, Run]:
        path = self.folder / self.gathered
        return _gathered(path, path.stat().st_mtime_ns) if path.exists() else {}


@lru_cache(maxsize=4)
def _gathered(path: Path, mtime_ns: int) -> dict[str, Run]:
    return {digest(run.settings): run for run in _read(path)}


def _read(path: Path) -> list[Run]:
    """Return the runs of a file, one in each line."""
    return [Run(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def run_missing(folder: RunFolder, wanted: Sequence[Settings], function: str, processes: int) -> None:
    """Run what is not done yet, in processes of one thread each.

    Args:
        folder: where runs are written.
        wanted: settings of all runs.
        function: ``module:name`` of a function from settings to what was found.
        processes: how many at once.
    """
    todo = folder.missing(wanted)
    print(f"{len(wanted) - len(todo)} runs done, {len(todo)} to do", flush=True)
    if not todo:
        return
    jobs = [(folder.folder, settings, function) for settings in todo]
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        for number, name in enumerate(pool.imap_unordered(_run, jobs), 1):
            print(f"{number}/{len(todo)} {name}", flush=True)


def _run(job: tuple[Path, Settings, str]) -> str:
    folder, settings, function = job
    module, _, name = function.partition(":")
    found = getattr(import_module(module), name)(settings)
    RunFolder(folder).write(settings, found)
    return digest(settings)
