"""Protocols of sources of pasted objects, and the source that takes objects from the batch itself."""

from __future__ import annotations

from typing import Final, Literal, Protocol, runtime_checkable

from torch import Tensor

from segpaste._reprs import described
from segpaste.augmentation.sources.placement import PlacementRequest, Sampled
from segpaste.engine import LayerRows, Sources, engine_for
from segpaste.engine.schema import Pick
from segpaste.types import PaddedBatchedDenseSample


@runtime_checkable
class SourceStrategy(Protocol):
    """Source that names the layers that are pasted over each target."""

    def sample(self, target: PaddedBatchedDenseSample, eligible: Tensor, request: PlacementRequest) -> Sampled:
        """Choose sources and draw their placement; traces without a graph break.

        Args:
            target: the batch that is pasted into, with seeds and instance masks.
            eligible: [B, K] bool, instances of the target batch that may be sources.
            request: seeds, extents, free slots and ranges.

        Returns:
            The source batch (S rows, K_s slots), the placement of its objects, and the counts of the attempts. The
            placement names rows of that batch, scales above 0, and carries at most ``request.num_free`` slots for each
            target; violations raise ValueError on the CPU, and are not checked on a GPU.
        """


@runtime_checkable
class RowStrategy(Protocol):
    """Source that names the rows of a batch that ClassMix mixes into each target."""

    def rows(self, target: PaddedBatchedDenseSample, candidates: Tensor, request: PlacementRequest) -> LayerRows:
        """Choose a row for each layer; traces without a graph break.

        Args:
            target: the batch that is pasted into, with seeds.
            candidates: [B] bool, rows of the target batch that have something to paste.
            request: seeds and the number of layers.
        """


_PICKS: Final[dict[str, Pick]] = {"intra_batch": "others", "same_image": "same"}


class IntraBatchSource:
    """Source that takes objects from rows of the batch.

    With ``intra_batch`` each layer takes one row, uniformly among those that have an eligible instance, never the
    target's own. The choice compares random numbers keyed by the seeds of both rows, so it does not depend on the order
    of the batch (rows of equal seeds are distinguished by their order).

    Args:
        kind: ``intra_batch`` takes them from the other rows, ``same_image`` from the target's own row.

    Raises:
        ValueError: ``kind`` is another value.
    """

    def __init__(self, kind: Literal["intra_batch", "same_image"] = "intra_batch") -> None:
        if kind not in _PICKS:
            raise ValueError(f"IntraBatchSource: expected kind {' or '.join(map(repr, _PICKS))}, got {kind!r}")
        self.kind = kind

    def __repr__(self) -> str:
        return described(self, lambda: self.kind)

    def sample(self, target: PaddedBatchedDenseSample, eligible: Tensor, request: PlacementRequest) -> Sampled:
        """See `SourceStrategy.sample`; the source batch is the target itself."""
        sources = Sources(eligible, request.occupied, target.labels, request.extent)
        engine, tables = engine_for(target.device), request.tables
        return target, *engine.draw(request.targets, sources, tables, request.rules(), _PICKS[self.kind])

    def rows(self, target: PaddedBatchedDenseSample, candidates: Tensor, request: PlacementRequest) -> LayerRows:
        """See `RowStrategy.rows`."""
        return engine_for(target.device).choose_rows(candidates, request.seeds, request.config.layers)
