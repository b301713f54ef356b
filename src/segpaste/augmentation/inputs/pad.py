"""Padding of a batch on the right and at the bottom, up to whole patches."""

from __future__ import annotations

from segpaste.engine import engine_for
from segpaste.types import PaddedBatchedDenseSample


def padded_to_multiple(batch: PaddedBatchedDenseSample, multiple: int) -> PaddedBatchedDenseSample:
    """Pad the batch to a canvas whose sides are multiples of ``multiple`` pixels; return it as is if they are already.

    See `segpaste.engine.reference.inputs.extend`.
    """
    return engine_for(batch.device).extend(batch, padded_size(batch, multiple), batch.max_instances)


def padded_size(batch: PaddedBatchedDenseSample, multiple: int) -> tuple[int, int]:
    """Return the (H, W) of the canvas that the batch is padded to."""
    height, width = batch.canvas_size
    return height + -height % multiple, width + -width % multiple
