"""Summary of a conversion: counts, losses, and what the tool does that will read the dataset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from segpaste.datasets.checking.tools.starts import Start
from segpaste.datasets.checking.tools.tool_report import ToolReport
from segpaste.datasets.writers.readback import Verified


@dataclass(frozen=True, slots=True)
class ConversionSummary:
    """Counts of a conversion, and its losses.

    Attributes:
        out: the folder of the written dataset.
        format: name of its format.
        num_photos: number of images of each split.
        num_objects: number of objects of each split, without crowds and segments of stuff.
        losses: number of each kind of entry that the format cannot keep, by its description.
        num_crowds: number of crowd and ignored regions of each split.
        verified: numbers of what was read again.
        changes: number of values that are written otherwise with the same meaning, by description; they are no losses.
        for_tool: what the tool for which the dataset was written does to each split; empty without one.
        start: how that tool is started, and what it lacks; None without one, or if that is up to the user's code.
    """

    out: Path
    format: str
    num_photos: Mapping[str, int]
    num_objects: Mapping[str, int]
    losses: Mapping[str, int]
    num_crowds: Mapping[str, int]
    verified: Verified = field(default_factory=Verified)
    changes: Mapping[str, int] = field(default_factory=dict)
    for_tool: tuple[ToolReport, ...] = ()
    start: Start | None = None

    @property
    def is_without_loss(self) -> bool:
        """True if nothing is lost, and the tool keeps all labels and starts."""
        starts = self.start is None or not self.start.lacks
        return not self.losses and starts and all(report.keeps_labels for report in self.for_tool)

    def to_dict(self) -> dict[str, Any]:
        """Return the summary for JSON: attributes by name, and ``is_without_loss``."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        numbers = {name: dict(value) for name, value in given.items() if isinstance(value, Mapping)}
        reports = [asdict(report) for report in self.for_tool]
        nested = {"out": str(self.out), "verified": asdict(self.verified), "for_tool": reports}
        start = None if self.start is None else asdict(self.start)
        return {**given, **numbers, **nested, "start": start, "is_without_loss": self.is_without_loss}
