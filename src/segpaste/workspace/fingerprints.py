"""Fingerprints of runs: everything that the finished steps of a run depend on, as JSON in a file of its folder."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FINGERPRINT = "run.json"
VERSION = "segpaste"
"""Key of the version that began a run."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Fingerprint of a run that another version may resume, also after it was moved.

    The steps of such a run are pure functions of its options, and every version makes the same pixels of the same
    options. So the version is no option, and a path of an input that has vanished is no other input if everything
    else, such as the digest of the annotations, is the same.

    Attributes:
        values: JSON; nested keys are compared one by one.
        paths: keys of the paths of inputs.
        then: value of options that a version without them did not record, if it is not None.
    """

    values: Mapping[str, Any]
    paths: frozenset[str] = frozenset()
    then: Mapping[str, Any] = field(default_factory=dict)

    def changes(self, there: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
        """Return key, old and new value of everything that differs from a recorded fingerprint."""
        old, new = dict(_flat(there)), dict(_flat(json.loads(json.dumps(dict(self.values)))))
        then = dict(_flat(json.loads(json.dumps(dict(self.then)))))
        found = []
        for key in {**old, **new}:
            before, now = old.get(key, then.get(key)), new.get(key)
            if before != now and key != VERSION and not (key in self.paths and _has_moved(before, now)):
                found.append((key, old.get(key), new.get(key)))
        return found


def read_fingerprint(folder: Path) -> dict[str, Any] | None:
    """Read the fingerprint in the folder of a run; None if there is none, or it is not valid."""
    try:
        there = json.loads((folder / FINGERPRINT).read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return there if isinstance(there, dict) else None


def _has_moved(before: Any, now: Any) -> bool:
    return isinstance(before, str) and isinstance(now, str) and not os.path.lexists(before)


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
