"""Work folder of a build: its place, and the check of the parts in it."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from segpaste.bank.format.data_files import read_meta
from segpaste.bank.schema.record import BankError
from segpaste.bank.storage.folder import folder_at, is_url, local_path
from segpaste.workspace import MARKER, Run, lock_folder, partial_of, read_fingerprint


def work_folder(out: str | Path, given: str | os.PathLike[str] | None) -> Path:
    """Return the folder of the parts: the same at each call, and not that of another build or of the bank."""
    if given is not None and is_url(given):
        raise BankError(f"{os.fspath(given)}: expected a work folder on a disk, got a URL; choose a path")
    work = None if given is None else Path(local_path(given)).absolute()
    if work is not None and work.exists() and not work.is_dir():
        raise BankError(f"{work}: expected a work folder, got a file; choose another path")
    if isinstance(out, str):
        digest = hashlib.sha256(out.encode()).hexdigest()
        return work or Path(tempfile.gettempdir()) / f"segpaste-{os.getuid()}-{digest[:16]}.parts"
    if work is None:
        return partial_of(out.absolute()).with_suffix(".parts")
    inner, outer = work.resolve(), out.resolve()
    if outer.is_relative_to(inner) or inner.is_relative_to(outer) or inner.is_relative_to(partial_of(outer)):
        raise BankError(
            f"{work}: expected a work folder that is neither inside nor a parent of {out}, the folder of the "
            "bank; choose another one"
        )
    return work


def said_of_bank(
    version: str,
    class_names: Sequence[str],
    crop_size: Sequence[int],
    groups: Sequence[str],
    built_from: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the facts that are both in the fingerprint of a build and in the meta of its bank."""
    return {
        "segpaste": version,
        "class_names": hashlib.sha256("\n".join(class_names).encode()).hexdigest(),
        "crop_size": list(crop_size),
        "groups": list(groups),
        **built_from,
    }


def remove_finished(run: Run, out: str | Path, storage_options: Mapping[str, Any] | None) -> None:
    """Remove the parts of a build that was killed after its bank was complete, before it removed them."""
    if not run.folder.is_dir() or (lock := lock_folder(run.folder)) is None:
        return
    try:
        meta = read_meta(folder_at(out, storage_options))
        there = read_fingerprint(run.folder)
        said = said_of_bank(
            meta.segpaste_version, meta.class_names, (meta.crop_h, meta.crop_w), meta.groups, meta.built_from
        )
        if there is not None and all(there.get(key) == value for key, value in said.items()):
            run.remove()
            if not is_url(out):  # killed between its rename and its last step
                (Path(out) / MARKER).unlink(missing_ok=True)
        elif there is None:
            with suppress(OSError):  # if the folder is not empty
                run.folder.rmdir()
    except ValueError:  # there is no bank
        return
    finally:
        os.close(lock)
