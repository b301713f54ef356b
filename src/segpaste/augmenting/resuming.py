"""Datasets that are there already: finished ones, and unfinished runs of another version."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from segpaste._version import __version__
from segpaste.augmentation import BatchCopyPasteConfig
from segpaste.augmentation.config.values import explained, flat
from segpaste.augmenting.options import AugmentError, AugmentOptions, option
from segpaste.augmenting.settings import PRESET_FILES, named_keys
from segpaste.datasets.writers.layouts import WrittenLayout
from segpaste.replay.record import RecordedJitter
from segpaste.workspace import VERSION, Workspace, read_fingerprint
from segpaste.workspace.shards import shard_runs

STEP_SIZE = "images per step"
_BEFORE: Mapping[str, Any] = {"source.whole_only": False}
"""Value of options in versions without them, where it is not their default."""


@dataclass(frozen=True, slots=True)
class OlderRun:
    """An unfinished run of another version, or nothing.

    Attributes:
        folder: folder of the run.
        values: its fingerprint; None if there is no such run.
    """

    folder: Path
    values: Mapping[str, Any] | None

    @property
    def version(self) -> str:
        """The version that began the run."""
        return str((self.values or {}).get(VERSION))

    def config(self, config: BatchCopyPasteConfig, options: AugmentOptions) -> BatchCopyPasteConfig:
        """Return the configuration of the run, with the values of ``config`` for the keys that the user names.

        Raises:
            AugmentError: the run has an option that this version does not have, or not with this value.
        """
        if self.values is None or (options.bank is None) != (self.values.get("bank") is None):
            return config
        named = named_keys(options)
        now = flat(config.model_dump(mode="json"))
        groups = {key.partition(".")[0] for key in now} | set(BatchCopyPasteConfig.model_fields)
        then = {key: value for key, value in self.values.items() if key.partition(".")[0] in groups}
        then = {**_BEFORE, **then}
        merged = {key: value for key, value in then.items() if not _is_named(key, named)}
        merged |= {key: value for key, value in now.items() if _is_named(key, named)}
        try:
            return BatchCopyPasteConfig.model_validate(_nested(merged))
        except ValidationError as error:
            reasons = "; ".join(explained(item, BatchCopyPasteConfig) for item in error.errors())
            raise self._refusal(reasons) from error

    def jitter(self, jitter: RecordedJitter | None, options: AugmentOptions) -> RecordedJitter | None:
        """Return the jitter of the run if it has the same size and preset, else ``jitter``."""
        there = None if self.values is None else self.values.get("jitter")
        if there is None or jitter is None or options.preset != self.values.get("--preset"):  # type: ignore[union-attr]
            return jitter
        if Path(options.preset or "").suffix in PRESET_FILES:
            return jitter
        try:
            recorded = RecordedJitter.model_validate(there)
        except ValidationError as error:
            raise self._refusal(f"jitter: {error.errors()[0]['msg']}") from error
        return recorded if options.size is None or recorded.size == jitter.size else jitter

    def balance(self, balance: dict[str, Any], options: AugmentOptions) -> dict[str, Any]:
        """Return the balance of the run for the options that are not given."""
        there = {} if self.values is None else self.values.get("balance") or {}
        given = {"mode": options.balance, "threshold": options.threshold, "temperature": options.temperature}
        return {**balance, **{key: value for key, value in there.items() if given.get(key) is None}}

    def step_size(self, size: int) -> int:
        """Return the number of images of a step of the run, else ``size``."""
        return size if self.values is None else int(self.values.get(STEP_SIZE, size))

    def _refusal(self, reason: str) -> AugmentError:
        return AugmentError(
            f"{self.folder} holds an unfinished run of segpaste {self.version} with options that segpaste "
            f"{__version__} does not have: {reason}; finish it with that version, or delete {self.folder}, or choose "
            f"another {option('out')}"
        )


def older_run(space: Workspace) -> OlderRun:
    """Return the unfinished run of an output, or of one of its shards, if another version began it."""
    for run in (space, *shard_runs(space.out, AugmentError)):
        there = read_fingerprint(run.folder)
        if there is not None and there.get(VERSION, __version__) != __version__ and run.has_results():
            return OlderRun(run.folder, there)
    return OlderRun(space.folder, None)


def values_before() -> dict[str, Any]:
    """Return the values of options of the configuration that an older fingerprint may lack."""
    return flat(BatchCopyPasteConfig().model_dump(mode="json")) | dict(_BEFORE)


def _is_named(key: str, named: Collection[str]) -> bool:
    return any(key == name or key.startswith(f"{name}.") or name.startswith(f"{key}.") for name in named)


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values with dotted keys as nested tables."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        *groups, last = key.split(".")
        place = found
        for group in groups:
            place = place.setdefault(group, {})
        place[last] = value
    return found


def run_digest(made: Mapping[str, Any], num: int) -> str:
    """Return the digest of a call that makes ``num`` images."""
    return hashlib.sha256(json.dumps({**made, "--num": num}, sort_keys=True).encode()).hexdigest()


def is_finished(options: AugmentOptions, out: Path, layout: WrittenLayout, made: Mapping[str, Any]) -> bool:
    """Return whether a folder holds the finished dataset of a call.

    Args:
        options: options of the call.
        out: the folder.
        layout: layout of the dataset.
        made: everything that an image depends on.

    Raises:
        AugmentError: the dataset has another number of images, or some are missing.
    """
    if (num := _finished_num(out, layout, made)) is None:
        return False
    if num != options.num:
        raise AugmentError(
            f"{option('num')}: expected {num}, the number of images of the finished {options.out}, got {options.num}; "
            f"only an unfinished run resumes with another {option('num')}: remove the folder, or give another "
            f"{option('out')}"
        )
    folder = out / layout.images
    there = {entry.name for entry in os.scandir(folder)} if folder.is_dir() else set()
    names = (f"{number:06d}.{options.image_format}" for number in range(1, num + 1))
    if missing := [name for name in names if name not in there]:
        raise AugmentError(
            f"{options.out}: expected the {num:,} images of this finished run, {len(missing):,} are missing, such as "
            f"{layout.images}/{missing[0]}; remove the folder and run again"
        )
    return True


def _finished_num(out: Path, layout: WrittenLayout, made: Mapping[str, Any]) -> int | None:
    """Return the number of images of the finished dataset in a folder; None if it is not a dataset of this call."""
    path = out / layout.tables
    if not path.is_file():
        return None
    with path.open(encoding="utf-8") as file, suppress(ValueError, KeyError, TypeError, AttributeError):
        written = json.loads(file.readline().rstrip(",\n") + "}")["info"]["segpaste"]  # as `write_tables` does
        found = re.search(r" --num (\d+)\b", written["command"])
        if found is not None and written.get("run") == run_digest(made, int(found[1])):
            return int(found[1])
    return None
