"""Mark of a written dataset that differs from its ledger, for the run that resumes.

A folder that differs is kept for inspection, with its notes. The next run of the same command makes the images that
differ again and compares the whole dataset, even if it was asked not to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from segpaste.datasets.writers.readback import VerificationError, Verified, Verify, WrittenView, read_back
from segpaste.workspace import Notes, write_whole

_MARK = "differs"


class Guard:
    """Guard of a run against publishing what differed before.

    Args:
        notes: notes of the run; marked steps are removed from them.
        asked: how the dataset is to be read again.

    Attributes:
        mode: how it is read again.
    """

    def __init__(self, notes: Notes, asked: Verify) -> None:
        self._notes, self._mark = notes, notes.folder / _MARK
        self.mode: Verify = asked
        if self._mark.exists():
            self.mode = "sample" if asked == "off" else asked
            for step in json.loads(self._mark.read_bytes()):
                notes.path(step).unlink(missing_ok=True)

    def verified(
        self,
        folder: Path,
        views: Iterable[WrittenView],
        steps: Iterable[int],
        files_of: Callable[[Any], Iterable[str]],
        copies: Mapping[Path, Path] | None = None,
    ) -> Verified:
        """Read the written dataset again, see `read_back`; mark the steps whose images differ.

        Args:
            folder: the folder, not yet published.
            views: its splits and formats.
            steps: the steps of the run.
            files_of: function that returns the images of a step from its note.
            copies: source of each file that was copied unchanged, by its path in the folder.

        Raises:
            VerificationError: something differs.
        """
        try:
            return read_back(folder, [*views], self.mode, copies)
        except VerificationError as error:
            marked = [step for step in steps if not error.files.isdisjoint(files_of(self._notes.read(step)))]
            write_whole(self._mark, json.dumps(marked).encode())
            raise
