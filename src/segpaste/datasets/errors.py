"""Error of all readers of datasets."""

from __future__ import annotations


class DatasetError(ValueError):
    """Error of a missing, unreadable or invalid file of a dataset; one line with the file and the remedy.

    Attributes:
        kind: kind of its finding in `segpaste.datasets.health.report`; None if that follows from the file.
    """

    def __init__(self, *args: object, kind: str | None = None) -> None:
        super().__init__(*args)
        self.kind = kind
