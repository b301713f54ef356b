"""Error of an augmented dataset that cannot be made as it is asked for."""

from __future__ import annotations


class AugmentError(ValueError):
    """A request that cannot be fulfilled; the message says why and what to do."""
