"""Check of the torch classes that read a sampler of N x M batches."""

from __future__ import annotations

import sys
from typing import Any

from torch.utils.data import BatchSampler

_LOADER = "torch.utils.data.dataloader"
_FEW = 8
"""Number of callers that are looked at: torch reads a sampler directly."""


def check_reader(sampler: Any) -> None:
    """Reject a DataLoader that reads the sampler by indices as batches, or in batches of another size.

    torch does not tell a sampler who reads it, so the call stack is the only way to know.

    Args:
        sampler: an `NxMSampler` whose pass begins.

    Raises:
        ValueError: it is the ``batch_sampler`` of a DataLoader, or the ``sampler`` of one with another batch size.
    """
    name, size = type(sampler).__name__, sampler.batch_size
    frame, num = sys._getframe(1), 0
    while frame is not None and num < _FEW:
        reader: Any = frame.f_locals.get("self")
        is_batches = isinstance(reader, BatchSampler) and getattr(reader, "sampler", None) is sampler
        if is_batches and reader.batch_size != size:  # Accelerate's shards are batch samplers without a sampler
            raise ValueError(
                f"{name}: expected batch_size={size}, which is N * M, in its DataLoader, got {reader.batch_size}; "
                "write DataLoader(dataset, batch_sampler=sampler.batch_sampler())"
            )
        is_loader = frame.f_globals.get("__name__") == _LOADER and getattr(reader, "_index_sampler", None) is sampler
        if is_loader and getattr(reader, "_auto_collation", False):
            raise ValueError(
                f"{name}: expected a sampler of batches as batch_sampler of a DataLoader, got this sampler of indices; "
                "write DataLoader(dataset, batch_sampler=sampler.batch_sampler())"
            )
        frame, num = frame.f_back, num + 1  # type: ignore[assignment]
