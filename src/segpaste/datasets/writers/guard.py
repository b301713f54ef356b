"""Mark of a written dataset that differs from its ledger, for the run that resumes.

A folder that differs is kept for inspection, with its notes. The next run of the same command makes the images that
differ again and compares the whole dataset, even if it was asked not to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from segpaste.datasets.writers.readback import VerificationError, Verify
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

    @contextmanager
    def checking(self, steps: Iterable[int], files_of: Callable[[Any], Iterable[str]]) -> Iterator[None]:
        """Mark the steps whose images differ if a comparison fails.

        Args:
            steps: the steps of the run.
            files_of: function that returns the images of a step from its note.
        """
        try:
            yield
        except VerificationError as error:
            marked = [step for step in steps if not error.files.isdisjoint(files_of(self._notes.read(step)))]
            write_whole(self._mark, json.dumps(marked).encode())
            raise
