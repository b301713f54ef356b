"""Where pasted objects come from."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from segpaste import engine, seeding
from segpaste.augmentation.placement import (
    LayerSources,
    Placement,
    PlacementCounts,
    PlacementRequest,
    draw_at_once,
    draw_placement,
)
from segpaste.types import PaddedBatchedDenseSample


@runtime_checkable
class SourceStrategy(Protocol):
    """Names, for each target, the layers that are pasted over it."""

    def sample(
        self, target: PaddedBatchedDenseSample, eligible: Tensor, request: PlacementRequest
    ) -> tuple[PaddedBatchedDenseSample, Placement, PlacementCounts]:
        """Choose sources and draw their placement; traces without a graph break.

        Args:
            target: the batch that is pasted into, with seeds and instance masks.
            eligible: [B, K] bool, instances of the target batch that may be sources.
            request: seeds, extents, free slots and ranges.

        Returns:
            The source batch (S rows, K_s slots), the placement into it, and what became of each try. The placement
            names rows of that batch, scales above 0, and carries at most ``request.num_free`` slots for each target:
            the CPU raises ValueError for others, a GPU cannot look.
        """
        ...


class LayerRows(NamedTuple):
    """Which row of the batch each layer takes.

    Attributes:
        source_idx: [B, L] int64 (0 where the layer is not valid).
        layer_valid: [B, L] bool.
    """

    source_idx: Tensor
    layer_valid: Tensor


@runtime_checkable
class RowStrategy(Protocol):
    """Names, for each target, the rows of its batch that are mixed into it: what ClassMix asks of a source."""

    def rows(self, target: PaddedBatchedDenseSample, candidates: Tensor, request: PlacementRequest) -> LayerRows:
        """Choose a row for each layer; traces without a graph break.

        Args:
            target: the batch that is pasted into, with seeds.
            candidates: [B] bool, rows of the target batch that have something to paste.
            request: seeds and the number of layers.
        """
        ...


class IntraBatchSource:
    """Sources are the other rows of the batch.

    Each layer takes one row, uniform over those that have an eligible instance, never the target's own. The choice
    compares random numbers keyed by both rows' seeds, so that it does not depend on the order of the batch (rows of
    equal seeds are told apart by their order).
    """

    def sample(
        self, target: PaddedBatchedDenseSample, eligible: Tensor, request: PlacementRequest
    ) -> tuple[PaddedBatchedDenseSample, Placement, PlacementCounts]:
        """See `SourceStrategy.sample`; the source batch is the target itself."""
        if engine.pastes_whole(target.device):
            return target, *draw_at_once(request, eligible, target.labels)
        rows = self.rows(target, eligible.any(1), request)
        sources = LayerSources(
            source_idx=rows.source_idx,
            layer_valid=rows.layer_valid,
            extent=request.extent[rows.source_idx],
            boxes=request.occupied[rows.source_idx],
            labels=target.labels[rows.source_idx],
            eligible=eligible[rows.source_idx],
        )
        placement, counts = draw_placement(request, sources)
        return target, placement, counts

    def rows(self, target: PaddedBatchedDenseSample, candidates: Tensor, request: PlacementRequest) -> LayerRows:
        """See `RowStrategy.rows`."""
        num_layers = request.config.layers
        if engine.pastes_whole(target.device) and torch.compiler.is_compiling():
            return LayerRows(*_rows_operator(candidates, request.seeds, num_layers))
        return LayerRows(*_rows(candidates, request.seeds, num_layers))


def _rows(candidates: Tensor, seeds: Tensor, num_layers: int) -> list[Tensor]:
    """A candidate row for each layer of each target, and whether there is one, [B, L] each."""
    batch_size, device = len(seeds), seeds.device
    layers = torch.arange(num_layers, device=device)[:, None]
    rows = torch.arange(batch_size, device=device)
    candidate = candidates & (rows[:, None] != rows)  # [B, S]
    same_seed = seeds[:, None] == seeds
    earlier_twins = (same_seed & (rows < rows[:, None])).sum(1)  # [S], zero where seeds are unique
    bits = seeding.random_bits(seeds[:, None, None], "source", layers, seeds, earlier_twins)  # [B, L, S]
    priority = torch.where(candidate[:, None], (bits >> 2) & ((1 << 62) - 1), -1)
    has_source = candidate.any(1, keepdim=True).expand(-1, num_layers)
    if batch_size == 0:
        return [torch.zeros(0, num_layers, dtype=torch.int64, device=device), has_source]
    return [torch.where(has_source, priority.argmax(2), 0), has_source]


@torch.library.custom_op("segpaste::rows", mutates_args=())
def _rows_operator(candidates: Tensor, seeds: Tensor, num_layers: int) -> list[Tensor]:
    """`_rows` for compiled code on the CPU, where its random numbers would take seconds to compile."""
    return [rows.contiguous() for rows in _rows(candidates, seeds, num_layers)]


@_rows_operator.register_fake
def _(candidates: Tensor, seeds: Tensor, num_layers: int) -> list[Tensor]:
    return [table.new_empty(len(seeds), num_layers) for table in (seeds, candidates)]
