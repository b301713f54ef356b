"""The log of a run: a line for each epoch.

What is logged lies in the checkpoint too, and a run that goes on writes the log anew from there. So nothing is lost and
nothing is there twice, wherever it was interrupted.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from segpaste.extras import require
from segpaste.workspace import write_whole

CSV_NAME, TENSORBOARD_NAME = "log.csv", "tensorboard"

Row = Mapping[str, float]


class RunLog:
    """The log in a folder; close it at the end.

    Args:
        folder: of the run.
        kind: which files.
        history: the rows of the epochs that are finished; each has its ``epoch``.
    """

    def __init__(self, folder: Path, kind: Literal["csv", "tensorboard", "both"], history: Sequence[Row]) -> None:
        self._csv = folder / CSV_NAME if kind != "tensorboard" else None
        self._events: Any = None
        if kind != "csv":
            require("tensorboard")
        if kind == "tensorboard":  # of a run that logged otherwise before, and would end there
            (folder / CSV_NAME).unlink(missing_ok=True)
        for old in (folder / TENSORBOARD_NAME).glob("events.out.tfevents.*"):
            old.unlink()
        with suppress(OSError):
            (folder / TENSORBOARD_NAME).rmdir()
        if kind != "csv":
            from torch.utils.tensorboard import SummaryWriter

            self._events = SummaryWriter(folder / TENSORBOARD_NAME)
        self._rows = list(history)
        for row in self._rows:
            self._add_events(row)
        if self._rows:
            self._write_csv()

    def add(self, row: Row) -> None:
        """Log one more."""
        self._rows.append(row)
        self._add_events(row)
        self._write_csv()

    def close(self) -> None:
        """Write what is not written yet."""
        if self._events is not None:
            self._events.close()

    def _add_events(self, row: Row) -> None:
        if self._events is not None:
            for name, value in row.items():
                if name != "epoch":
                    self._events.add_scalar(name, value, int(row["epoch"]))

    def _write_csv(self) -> None:
        if self._csv is None:
            return
        text = io.StringIO()
        writer = csv.DictWriter(text, list(self._rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(self._rows)
        write_whole(self._csv, text.getvalue().encode())
