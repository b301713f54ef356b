"""Annotations of a COCO file without an id of their own: they get new ids, or are left out, if that is asked for.

By default such a file is an error, since replay records and written entries name annotations by their ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, get_args

from segpaste.datasets.entries import JsonRow
from segpaste.datasets.errors import DatasetError

RepeatedIds = Literal["renumber", "drop"]
"""What becomes of annotations that have no id, or that of an annotation before them."""
REPEATED_IDS: tuple[RepeatedIds, ...] = get_args(RepeatedIds)
RENUMBERED = "ids of annotations that were missing or those of others, which are new"
DROPPED = "annotations whose ids are missing or those of others, which are left out"

Rows = tuple[Sequence[int], list[JsonRow]]
"""Positions in a table, and the rows there."""


class IdRepair:
    """New ids of the annotations of a file that have none of their own.

    Args:
        blocks: the rows of the table.
        rule: what becomes of them.

    Attributes:
        image_ids: the id of the image of each such annotation, by its position in the table.
        new_ids: their new ids, by position; larger than all ids of the file.
    """

    def __init__(self, blocks: Iterable[Rows], rule: RepeatedIds) -> None:
        self.rule = rule
        self.image_ids: dict[int, int] = {}
        seen = set[int]()
        for at, rows in blocks:
            for place, row in zip(at, rows, strict=True):
                if type(number := row.get("id")) is int and number not in seen:
                    seen.add(number)
                else:
                    self.image_ids[place] = row["image_id"]
        self.new_ids = {place: number for number, place in enumerate(self.image_ids, start=max(seen, default=0) + 1)}

    def known_by(self, place: int, row_id: int) -> tuple[int, str]:
        """Return the value and key by which an annotation with a unique id is known in the file."""
        return (self.image_ids[place], "image_id") if place in self.image_ids else (row_id, "id")

    def applied(self, places: Sequence[int], rows: list[JsonRow]) -> Rows:
        """Return rows with unique ids, and their positions."""
        if self.new_ids.keys().isdisjoint(places):
            return places, rows
        if self.rule == "drop":
            kept = [(place, row) for place, row in zip(places, rows, strict=True) if place not in self.new_ids]
            return [place for place, _ in kept], [row for _, row in kept]
        new = self.new_ids
        return places, [{**row, "id": new[at]} if at in new else row for at, row in zip(places, rows, strict=True)]


def checked_rule(value: str | None) -> RepeatedIds | None:
    """Return a rule; None without one.

    Raises:
        DatasetError: there is no such rule.
    """
    found: RepeatedIds | None = next((rule for rule in REPEATED_IDS if rule == value), None)
    if value is not None and found is None:
        raise DatasetError(f"repeated_ids: expected one of {', '.join(REPEATED_IDS)}, got {value!r:.40}")
    return found
