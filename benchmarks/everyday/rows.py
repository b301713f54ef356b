"""Rows of the table: what a user does, the goal, and what they would use instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ..pasting import IN_PLACE, OUT_OF_PLACE

OWN, AGAIN, BASE = "this build", "again", "the other build"
COPIER: Final = "Ultralytics CopyPaste"


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that a user does.

    Attributes:
        what: it is, in a user's words.
        case: ``module:function``, followed by arguments that are parted by colons.
        unit: of the figure, one of those that the case yields.
        goal: the figure to reach, or its ratio to ``of``.
        of: contenders of whose figures the least is what the goal is a ratio to; empty for a goal that is a figure.
        peers: name to case of what a user would use instead.
        is_rate: more is better.
    """

    what: str
    case: str
    unit: str
    goal: float
    of: Sequence[str] = ()
    peers: Mapping[str, str] = field(default_factory=dict)
    is_rate: bool = False

    def reached(self, medians: Mapping[str, float]) -> bool | None:
        """Return whether the goal is reached; None if what it is a ratio to was not measured."""
        found = medians[OWN]
        if self.of:
            others = [medians[name] for name in self.of if name in medians]
            if not others:
                return None
            found /= min(others)
        return found >= self.goal if self.is_rate else found <= self.goal

    @property
    def goal_text(self) -> str:
        """The goal in a few words."""
        most = f"{'≥' if self.is_rate else '≤'} {self.goal:g}"
        return f"{most} × {' or '.join(self.of)}" if self.of else most


def _steps(name: str, in_place: float, out_of_place: float, peer: str = "") -> list[Row]:
    peers = {peer: f"steps:of_peer:{name}:{peer}"} if peer else {}
    case = f"steps:of_batch:{name}"
    return [
        Row(f"a step in place, {name}", case, f"{IN_PLACE}, × the clone", in_place, peers=peers),
        Row(f"a step, {name}", case, f"{OUT_OF_PLACE}, × the clone", out_of_place),
    ]


_FROM_MEMORY = "AlbumentationsX, 1 object, masks"
_FROM_FILES = "AlbumentationsX, 4 objects from files"
ROWS: Final = (
    Row("`augment --dry-run`", "commands:dry_run", "CPU s", 0.5, (BASE,)),
    Row("`augment --dry-run`", "commands:dry_run", "wall s", 0.5, (BASE,)),
    Row("`augment`, PNG", "commands:augment", "CPU s", 0.45, (BASE,)),
    Row("`augment`, PNG", "commands:augment", "MiB", 1, (BASE,)),
    Row("`stats`", "commands:stats", "CPU s", 1),
    Row("`bank info`", "commands:bank_info", "CPU s", 1),
    Row("`check`", "commands:check", "CPU s", 0.5, (BASE,)),
    Row("`check` of 20,000 images, 200,000 annotations", "commands:check_large", "MiB", 300),
    Row("a spawned loader worker", "commands:worker", "MiB", 0.7, (BASE,)),
    Row(
        "one object of a bank into an image and its target",
        "samples:of_pair",
        "CPU ms",
        0.7,
        (_FROM_MEMORY,),
        {_FROM_MEMORY: "samples:albumentationsx"},
    ),
    Row("one object of a bank into a `DenseSample`", "samples:of_sample", "CPU ms", 1.8),
    Row(
        "four objects of a dataset, not in memory",
        "samples:of_dataset",
        "CPU ms",
        0.85,
        (_FROM_FILES,),
        {_FROM_FILES: "samples:albumentationsx_files"},
    ),
    Row("an image in a padded batch", "reading:loader", "× torchvision v2", 3, is_rate=True),
    Row("a crop of a bank that is built", "reading:bank_build", "CPU ms", 1.3),
    *_steps("1..5 float32", 0.35, 1.15, COPIER),
    *_steps("1..20 float32", 0.6, 1.15, COPIER),
    *_steps("1..5 uint8", 0.5, 1.15, COPIER),
    *_steps("1..20 uint8", 0.6, 1.15, COPIER),
    *_steps("five modalities", 1.0, 1.5),
    Row("a step in place, 529,922 pasted pixels", "steps:of_batch:squares", f"{IN_PLACE}, × the clone", 0.9),
    Row("a step in place, 2 images of 256²", "steps:of_batch:small", f"{IN_PLACE}, ms", 0.06),
)
