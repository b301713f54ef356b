"""Goals of a step on a CUDA device, and which of them the rows of `benchmarks.device_steps` reach.

The goals are those of batches of 8 images of 1024^2 with up to 32 objects; other rows have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import step
from .pasting import CLONE, IN_PLACE, OUT_OF_PLACE
from .plan import DEVICE_SHAPES


@dataclass(frozen=True, slots=True)
class Goal:
    """A ceiling of one time.

    Attributes:
        step: of `benchmarks.device_steps`.
        clock: by which the step is timed.
        most: multiples of the clone's time on the device, or milliseconds.
        in_ms: ``most`` is in milliseconds.
    """

    step: str
    clock: str
    most: float
    in_ms: bool = False

    @property
    def name(self) -> str:
        """The goal in a few words."""
        return f"{self.step}, {self.clock} ≤ {self.most:g}{' ms' if self.in_ms else ' ×'}"

    def measured(self, times: Mapping[str, Mapping[str, Mapping[str, float]]]) -> float | None:
        """Return what a row's times are to be held against, None if a time is missing."""
        found = times.get(self.clock, {}).get(self.step)
        clone = times.get("device", {}).get(CLONE)
        if found is None or (clone is None and not self.in_ms):
            return None
        return found["median_ms"] if self.in_ms or clone is None else found["median_ms"] / clone["median_ms"]


GOALS = (
    Goal(OUT_OF_PLACE, "eager", 3),
    Goal(OUT_OF_PLACE, "graph", 1.3),
    Goal(IN_PLACE, "device", 0.5),
    Goal(IN_PLACE, "host", 0.6, in_ms=True),
)
BATCHES = frozenset(map(step.name_of, DEVICE_SHAPES))


def judged(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return each goal of each row: ``batch``, ``goal``, ``measured``, None if a time is missing, and ``holds``."""
    found = []
    for row in rows:
        for goal in GOALS if row["batch"] in BATCHES else ():
            measured = goal.measured(row["times"])
            holds = measured is not None and measured <= goal.most
            found.append({"batch": row["batch"], "goal": goal.name, "measured": measured, "holds": holds})
    return found


def missed(goals: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each goal that does not hold."""
    for goal in goals:
        if not goal["holds"]:
            said = "not measured" if goal["measured"] is None else f"measured {goal['measured']:.3g}"
            yield f"{goal['batch']}, {goal['goal']}: missed, {said}"
