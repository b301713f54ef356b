"""Recognition of finished datasets of `segpaste augment`, by a digest of everything that their images depend on."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from segpaste.augmenting.errors import AugmentError
from segpaste.datasets.writers.layouts import WrittenLayout


def run_digest(made: Mapping[str, Any], num: int) -> str:
    """Return the digest of a command that makes ``num`` images."""
    return hashlib.sha256(json.dumps({**made, "--num": num}, sort_keys=True).encode()).hexdigest()


def is_finished(args: argparse.Namespace, out: Path, layout: WrittenLayout, made: Mapping[str, Any]) -> bool:
    """Return whether a folder holds the finished dataset of a command.

    Args:
        args: arguments of the command.
        out: the folder.
        layout: layout of the dataset.
        made: everything that an image depends on.

    Raises:
        AugmentError: the dataset has another number of images, or some are missing.
    """
    if (num := _finished_num(out, layout, made)) is None:
        return False
    if num != args.num:
        raise AugmentError(
            f"--num: expected {num}, the number of images of the finished {args.out}, got {args.num}; only an "
            "unfinished run resumes with another --num: remove the folder, or give another --out"
        )
    folder = out / layout.images
    there = {entry.name for entry in os.scandir(folder)} if folder.is_dir() else set()
    names = (f"{number:06d}.{args.format}" for number in range(1, num + 1))
    if missing := [name for name in names if name not in there]:
        raise AugmentError(
            f"{args.out}: expected the {num:,} images of this finished run, {len(missing):,} are missing, such as "
            f"{layout.images}/{missing[0]}; remove the folder and run again"
        )
    return True


def _finished_num(out: Path, layout: WrittenLayout, made: Mapping[str, Any]) -> int | None:
    """Return the number of images of the finished dataset in a folder; None if it is not a dataset of this command."""
    path = out / layout.tables
    if not path.is_file():
        return None
    with path.open(encoding="utf-8") as file, suppress(ValueError, KeyError, TypeError, AttributeError):
        written = json.loads(file.readline().rstrip(",\n") + "}")["info"]["segpaste"]  # as `write_tables` does
        found = re.search(r" --num (\d+)\b", written["command"])
        if found is not None and written.get("run") == run_digest(made, int(found[1])):
            return int(found[1])
    return None
