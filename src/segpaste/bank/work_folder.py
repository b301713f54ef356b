"""The folder where a build keeps its parts: where it is, what stays of it when the build ends before its time."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from segpaste.bank.data_files import read_meta
from segpaste.bank.record import BankError
from segpaste.bank.remote import folder_at, is_url, local_path
from segpaste.workspace import FINGERPRINT, MARKER, lock_folder

PARTS = "parts"
"""The folder in it that holds the parts."""


def work_folder(out: str | Path, given: str | os.PathLike[str] | None) -> Path:
    """Where the parts lie: the same for the next call, and not where somebody else's do, or the bank."""
    if given is not None and is_url(given):
        raise BankError(f"{os.fspath(given)}: expected a work folder on a disk, got a URL; choose a path")
    work = None if given is None else Path(local_path(given)).absolute()
    if work is not None and work.exists() and not work.is_dir():
        raise BankError(f"{work}: expected a work folder, it is a file; choose another path")
    if isinstance(out, str):
        digest = hashlib.sha256(out.encode()).hexdigest()
        return work or Path(tempfile.gettempdir()) / f"segpaste-{os.getuid()}-{digest[:16]}.parts"
    if work is None:
        return out.absolute().with_name(out.absolute().name + ".parts")
    inner, outer = work.resolve(), out.resolve()
    partial = outer.with_name(outer.name + ".partial")
    if outer.is_relative_to(inner) or inner.is_relative_to(outer) or inner.is_relative_to(partial):
        raise BankError(
            f"{work}: expected a work folder that is neither in {out}, where the bank goes, nor around it; choose "
            "another one"
        )
    return work


def said_of_bank(
    version: str,
    class_names: Sequence[str],
    crop_size: Sequence[int],
    groups: Sequence[str],
    built_from: Mapping[str, Any],
) -> dict[str, Any]:
    """What both the fingerprint of a build and the meta of its bank say."""
    return {
        "segpaste": version,
        "class_names": hashlib.sha256("\n".join(class_names).encode()).hexdigest(),
        "crop_size": list(crop_size),
        "groups": list(groups),
        **built_from,
    }


def remove_finished(work: Path, out: str | Path, storage_options: Mapping[str, Any] | None) -> None:
    """Remove the parts of a build that was killed when its bank was whole, before it removed them itself."""
    if not work.is_dir() or (lock := lock_folder(work)) is None:
        return
    try:
        meta = read_meta(folder_at(out, storage_options))
        there = json.loads((work / FINGERPRINT).read_bytes()) if (work / FINGERPRINT).exists() else None
        said = said_of_bank(
            meta.segpaste_version, meta.class_names, (meta.crop_h, meta.crop_w), meta.groups, meta.built_from
        )
        if isinstance(there, dict) and all(there.get(key) == value for key, value in said.items()):
            remove(work)
            if not is_url(out):  # killed between its renaming and its last step
                (Path(out) / MARKER).unlink(missing_ok=True)
        elif there is None:
            with suppress(OSError):  # where something is in it
                work.rmdir()
    except ValueError:  # no bank is there, or the fingerprint is none
        return
    finally:
        os.close(lock)


def remove_unfinished(work: Path) -> None:
    """Remove the files of a build that was killed before its first part was whole: its arguments may differ."""
    if not any((work / PARTS).glob("*.json")):
        shutil.rmtree(work / PARTS, ignore_errors=True)


def remove(work: Path) -> None:
    """What a build keeps there; the folder too, if nothing else is in it."""
    shutil.rmtree(work / PARTS, ignore_errors=True)
    (work / FINGERPRINT).unlink(missing_ok=True)
    with suppress(OSError):
        work.rmdir()


@contextmanager
def kept_when_interrupted(work: Path) -> Iterator[None]:
    """What ends a build before its time says what is left of it; where nothing is, nothing stays."""
    parts = work / PARTS
    try:
        yield
    except (ValueError, KeyboardInterrupt) as error:
        note = f"{work} keeps what is finished; the same call goes on from there"
        is_some = any(parts.glob("*.json"))
        if isinstance(error, KeyboardInterrupt):
            error.args = (note if is_some else "nothing was finished",)
        elif is_some:
            error.args = (f"{error} ({note})",)
        raise
    finally:
        if work.is_dir() and not any(parts.glob("*.json")):
            remove(work)
