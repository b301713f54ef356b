"""Log of a run, with a line for each epoch.

The checkpoint holds the logged figures too, and a run that resumes rewrites the log from it. Hence no line is lost or
duplicated, wherever the run was interrupted.
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
    """Log in the folder of a run; close it at the end.

    Args:
        folder: folder of the run.
        kind: kind of log files.
        history: rows of the finished epochs; each has an ``epoch``.
    """

    def __init__(self, folder: Path, kind: Literal["csv", "tensorboard", "both"], history: Sequence[Row]) -> None:
        self._csv = folder / CSV_NAME if kind != "tensorboard" else None
        self._events: Any = None
        if kind != "csv":
            require("tensorboard")
        if kind == "tensorboard":  # the run may have logged to CSV before it was interrupted
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
        """Log the row of another epoch."""
        self._rows.append(row)
        self._add_events(row)
        self._write_csv()

    def close(self) -> None:
        """Write pending events."""
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
