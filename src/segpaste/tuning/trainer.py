"""Trainer of a tuning: any program that trains and scores one run. It is started without a shell.

Its command is a template: words with placeholders in braces, which each run fills in. It writes a JSON file of scores.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import shutil
import signal
import string
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from segpaste.datasets.formats.format import file_digest

PLACEHOLDERS: Mapping[str, str] = {
    "config": "paste config in YAML, or the word none",
    "balance": "how the classes of pasted objects are drawn, or the word none",
    "train": "COCO file of the images to train on",
    "val": "COCO file of the held-out images",
    "train_list": "text file of the images to train on, a path in each line",
    "val_list": "text file of the held-out images",
    "images": "folder to which file names in the COCO files are relative",
    "seed": "seed of the run",
    "out": "JSON file that the trainer writes",
}
"""Placeholders of a command, and their values."""

_NEEDED = (("config",), ("train", "train_list"), ("val", "val_list"), ("seed",), ("out",))
_NUM_LINES = 20
_SECONDS_TO_END = 10
_FORM = '{"scores": {"CLASS": NUMBER, ...}}'

Scores = dict[str, float]
"""Score of each class; higher is better."""


class TuningError(ValueError):
    """A tuning that cannot run; the message says why and what to do."""


class TrainerError(TuningError):
    """A run that failed.

    Attributes:
        last_lines: the last lines that the trainer printed.
    """

    def __init__(self, message: str, last_lines: str = "") -> None:
        super().__init__(message)
        self.last_lines = last_lines


@dataclass(frozen=True, slots=True)
class Trainer:
    """Command of a trainer.

    Attributes:
        words: the words of the command, with placeholders.
    """

    words: tuple[str, ...]

    @classmethod
    def parse(cls, command: str, *, must_exist: bool = True) -> Trainer:
        """Split a command into words, as a shell does, and check its placeholders and its program.

        Args:
            command: words with placeholders.
            must_exist: False if the program will not be started.

        Raises:
            TuningError: a placeholder is missing or unknown, or there is no such program.
        """
        try:
            words = tuple(shlex.split(command))
            used = {name for word in words for name in _names(word)}
        except ValueError as error:
            raise TuningError(
                f"--trainer: expected a command with placeholders such as {{seed}}, got {command!r}: {error}; correct "
                "it, or write {{ for a literal {"
            ) from error
        if unknown := sorted(used - PLACEHOLDERS.keys()):
            known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
            raise TuningError(
                f"--trainer: expected the placeholders {known}, got {{{unknown[0]}}}; correct it, "
                "or write {{ for a literal {"
            )
        for names in _NEEDED:
            if not used.intersection(names):
                wanted = " or ".join(f"{{{name}}}" for name in names)
                raise TuningError(
                    f"--trainer: expected {wanted} ({PLACEHOLDERS[names[0]]}), got none; add it to the command"
                )
        if must_exist and shutil.which(words[0]) is None:
            raise TuningError(
                f"--trainer: expected a program that exists, found none called {words[0]!r}; check the command"
            )
        return cls(words)

    @property
    def used(self) -> set[str]:
        """Names of the placeholders in the command."""
        return {name for word in self.words for name in _names(word)}

    def digests(self) -> dict[str, str]:
        """Return a digest of each file that the command names, such as the trainer's script."""
        files = {word: Path(word) for word in self.words if not any(_names(word))}
        return {word: file_digest(path)[:12] for word, path in files.items() if path.is_file()}

    def command(self, values: Mapping[str, object]) -> list[str]:
        """Return the words of a run."""
        return [word.format_map(values) for word in self.words]

    def train(self, values: Mapping[str, object], log: Path) -> Scores:
        """Run the trainer and read its scores.

        Args:
            values: the value of each placeholder; the file ``out`` must not exist.
            log: file for the output of the trainer.

        Raises:
            TrainerError: it failed, or wrote no valid scores.
        """
        command = self.command(values)
        code = _run(command, log)
        try:
            if code:
                reason = f"signal {-code}" if code < 0 else f"exit code {code}"
                raise TrainerError(f"expected the trainer to end with exit code 0, got {reason}")
            return read_scores(Path(str(values["out"])))
        except TrainerError as error:
            raise TrainerError(f"{error}; the command was: {shlex.join(command)}", _last_lines(log)) from error


def read_scores(path: Path) -> Scores:
    """Read the scores of a run; classes whose score is null are left out.

    Raises:
        TrainerError: there is no such file, or its content is not valid.
    """
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise TrainerError(f"expected the trainer to write {_FORM} to {{out}}, found no file") from None
    except ValueError as error:
        raise TrainerError(f"expected the trainer to write {_FORM} to {{out}}, got no JSON ({error})") from error
    scores = found.get("scores") if isinstance(found, dict) else None
    if not isinstance(scores, dict):
        raise TrainerError(f"expected the trainer to write {_FORM} to {{out}}, got {json.dumps(found):.60}")
    for name, score in scores.items():
        is_number = isinstance(score, int | float) and not isinstance(score, bool)
        if score is not None and not (is_number and math.isfinite(score)):
            raise TrainerError(
                f"expected finite numbers as scores, or null for a class without held-out objects, got "
                f"{json.dumps(score):.40} for {name!r}"
            )
    measured = {name: float(score) for name, score in scores.items() if score is not None}
    if not measured:
        raise TrainerError(f"expected a number for at least one class, got {json.dumps(scores):.60}")
    return measured


def _names(word: str) -> list[str]:
    """Return the placeholders of a word; raise ValueError for any other form, such as ``{seed:03d}``."""
    found = []
    for _, name, form, conversion in string.Formatter().parse(word):
        if name is not None and (form or conversion or not name.isidentifier()):
            raise ValueError(f"the placeholder {{{name}}} is not a plain name")
        found += [] if name is None else [name]
    return found


def _run(command: list[str], log: Path) -> int:
    """Run a command and return its exit code; on an interrupt, end it and all processes that it started."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            return process.wait()
        except BaseException:
            _end(process)
            raise


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        with suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(_SECONDS_TO_END)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _last_lines(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 64 * 1024))
        lines = file.read().decode(errors="replace").splitlines()
    return "\n".join(lines[-_NUM_LINES:])
