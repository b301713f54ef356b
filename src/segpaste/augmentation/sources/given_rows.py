"""Source that takes objects from rows given separately from the target, each on a canvas of its own size."""

from __future__ import annotations

import torch
from torch import Tensor

from segpaste.augmentation.sources.placement import LayerSources, PlacementRequest, Sampled, draw_placement
from segpaste.engine import Classes, engine_for
from segpaste.types import PaddedBatchedDenseSample


class GivenRows:
    """Source whose layer j takes row j of a batch of sources, modulo the number of rows.

    The sources are not rows of the target's batch, so neither is padded to the size of the other: memory depends on one
    target and the objects pasted into it only. Not for training, where `segpaste.IntraBatchSource` or a bank have their
    sources on the device already.

    Args:
        whole_only: leave out objects whose box touches the border of their row.

    Attributes:
        rows: the sources of the next call, as `segpaste.augmentation.inputs.prepare.prepared_sources` returns them.
    """

    def __init__(self, *, whole_only: bool = False) -> None:
        self.whole_only = whole_only
        self.rows: PaddedBatchedDenseSample | None = None

    def sample(self, target: PaddedBatchedDenseSample, eligible: Tensor, request: PlacementRequest) -> Sampled:
        """See `segpaste.SourceStrategy.sample`; the source batch is the given one.

        Raises:
            ValueError: no rows were given.
        """
        rows = self.rows
        if rows is None:
            raise ValueError("GivenRows: expected sources, got none; set rows before the call of the module")
        classes = Classes() if request.classes is None else request.classes.tables_on(rows.device)
        found = engine_for(rows.device).survey(rows, classes, whole_only=self.whole_only)
        layers = torch.arange(request.config.layers, device=rows.device) % max(rows.batch_size, 1)
        index = layers.expand(target.batch_size, -1).contiguous()
        sources = LayerSources(
            source_idx=index,
            layer_valid=found.eligible.any(1)[index],
            extent=found.extent[index],
            boxes=found.occupied[index],
            labels=rows.labels[index],
            eligible=found.eligible[index],
            canvas_size=rows.canvas_size,
        )
        return rows, *draw_placement(request, sources)
