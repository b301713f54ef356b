"""Steps in one call: the survey, the draws and the composition together, where a backend can.

Only the native backend can. Its three functions one by one cost three records and two dozen tensors, which on small
batches takes longer than the arithmetic. A source that looks at the survey, or places its objects itself, needs them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from segpaste.engine.schema import Outcome, Placement, PlacementCounts
from segpaste.types import PaddedBatchedDenseSample

Records = tuple[Placement, PlacementCounts, Outcome]


class Pasted(NamedTuple):
    """Result of a step."""

    batch: PaddedBatchedDenseSample
    """The target with its pastes; in place, the tensors are those of the target."""
    num_carried: int | None
    """Number of pastes in the batch; None if it is not known without a look at the records."""
    records: Callable[[], Records]
    """Returns all that is known about the step. Without a visible layer, that of the outcome has no rows."""

    @classmethod
    def of(cls, placement: Placement, counts: PlacementCounts, outcome: Outcome) -> Pasted:
        """Return the result that the three functions give."""
        return cls(outcome.batch, None, lambda: (placement, counts, outcome))
