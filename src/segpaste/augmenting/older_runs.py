"""Unfinished runs of `segpaste augment` that another version began: they resume with the options that they recorded.

An option that the user names has the value that he gives; if it is another one, the run is not resumed. Any other
option has its recorded value, whatever its default is now. Images have the same pixels in every version, files may
differ in bytes.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from segpaste._version import __version__
from segpaste.augmentation import BatchCopyPasteConfig
from segpaste.augmentation.config.values import explained, flat, read_file
from segpaste.augmenting import shards as _shards
from segpaste.augmenting.errors import AugmentError
from segpaste.augmenting.settings import PRESET_FILES
from segpaste.replay.record import RecordedJitter
from segpaste.workspace import VERSION, Workspace, read_fingerprint

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

    def config(self, config: BatchCopyPasteConfig, args: argparse.Namespace) -> BatchCopyPasteConfig:
        """Return the configuration of the run, with the values of ``config`` for the keys that the user names.

        Raises:
            AugmentError: the run has an option that this version does not have, or not with this value.
        """
        if self.values is None or (args.bank is None) != (self.values.get("bank") is None):
            return config
        named = named_keys(args)
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

    def jitter(self, jitter: RecordedJitter | None, args: argparse.Namespace) -> RecordedJitter | None:
        """Return the jitter of the run if it has the same size and preset, else ``jitter``."""
        there = None if self.values is None else self.values.get("jitter")
        if there is None or jitter is None or args.preset != self.values.get("--preset"):  # type: ignore[union-attr]
            return jitter
        if Path(args.preset or "").suffix in PRESET_FILES:
            return jitter
        try:
            recorded = RecordedJitter.model_validate(there)
        except ValidationError as error:
            raise self._refusal(f"jitter: {error.errors()[0]['msg']}") from error
        return recorded if args.size is None or recorded.size == jitter.size else jitter

    def balance(self, balance: dict[str, Any], args: argparse.Namespace) -> dict[str, Any]:
        """Return the balance of the run for the options that are not given."""
        there = {} if self.values is None else self.values.get("balance") or {}
        given = {"mode": args.balance, "threshold": args.threshold, "temperature": args.temperature}
        return {**balance, **{key: value for key, value in there.items() if given.get(key) is None}}

    def step_size(self, size: int) -> int:
        """Return the number of images of a step of the run, else ``size``."""
        return size if self.values is None else int(self.values.get(STEP_SIZE, size))

    def _refusal(self, reason: str) -> AugmentError:
        return AugmentError(
            f"{self.folder} holds an unfinished run of segpaste {self.version} with options that segpaste "
            f"{__version__} does not have: {reason}; finish it with that version, or delete {self.folder}, or choose "
            "another --out"
        )


def older_run(space: Workspace) -> OlderRun:
    """Return the unfinished run of an output, or of one of its shards, if another version began it."""
    for run in (space, *_shards.runs_of(space.out)):
        there = read_fingerprint(run.folder)
        if there is not None and there.get(VERSION, __version__) != __version__ and run.has_results():
            return OlderRun(run.folder, there)
    return OlderRun(space.folder, None)


def named_keys(args: argparse.Namespace) -> set[str]:
    """Return the dotted keys of the configuration that arguments and files of the user set."""
    named = set(args.overrides)
    if args.config is not None:
        named |= flat(read_file(Path(args.config))).keys()
    if args.preset is not None and Path(args.preset).suffix in PRESET_FILES:
        named |= flat(read_file(Path(args.preset)).get("config") or {}).keys()
    return named


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
