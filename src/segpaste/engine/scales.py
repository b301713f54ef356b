"""Units and limits of the scales and sizes that are drawn, shared by all backends."""

from __future__ import annotations

LARGEST_SCALE = 64.0
"""Largest scale that is drawn for an axis, before rounding to whole patches."""

SCALE_DEN = 1 << 16
"""Denominator of scales that are not aligned to patches."""

LARGEST_NUM = round(LARGEST_SCALE * SCALE_DEN)
"""`LARGEST_SCALE` as a numerator over `SCALE_DEN`."""

SIZE_DEN = 16
"""Sizes are drawn in steps of 1 / `SIZE_DEN` pixels."""

GRID_TRIES = 8
"""Number of scales of the canvas grid that are tried before the smallest one is taken."""
