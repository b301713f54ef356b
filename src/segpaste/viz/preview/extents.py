"""Ends of the sliders: the limits of a field, or chosen ends if the limits are far beyond useful values.

The number field beside a slider takes every valid value, also beyond the ends of the slider.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_FAR = 100
"""Largest end of a slider as a multiple of the default."""
_LONGEST = 64


@dataclass(frozen=True, slots=True)
class Extent:
    """Ends of a slider.

    Attributes:
        low, high: ends.
        step: between two values; for logarithmic sliders only that of the number field.
        is_log: equal distances on the slider are equal factors.
    """

    low: float = 0.0
    high: float = 1.0
    step: float = 0.01
    is_log: bool = False


CHOSEN: Mapping[str, Extent] = {
    "placement.scale_range": Extent(0.1, 8.0, 0.05, is_log=True),
    "placement.size_range": Extent(4, 1024, 1, is_log=True),
    "placement.k_range": Extent(0, 32, 1),
    "placement.layers": Extent(1, 16, 1),
    "source.crops_per_target": Extent(1, 16, 1),
    "placement.max_attempts": Extent(1, 32, 1),
    "placement.pad_to_multiple": Extent(1, 64, 1),
    "max_instances": Extent(1, 128, 1),
    "min_area_px": Extent(1, 4096, 1, is_log=True),
    "min_residual_area_px": Extent(0, 4096, 1),
    "max_box_shift_px": Extent(0, 64, 1),
    "source.value_range": Extent(1, 255, 1),
    "harmonize.surround_px": Extent(1, 256, 1, is_log=True),
    "harmonize.max_gain": Extent(1, 16, 0.1),
    "harmonize.poisson_cycles": Extent(1, 16, 1),
    "harmonize.blur_px": Extent(0, 8, 0.1),
    "harmonize.feather_px": Extent(0, 32, 1),
    "panoptic.tau_stuff_px": Extent(0, 4096, 1),
}
"""Chosen ends, by key."""


def extent_of(key: str, limits: Iterable[Any], default: Any) -> Extent:
    """Return the ends of the slider of a field.

    Args:
        key: dotted key.
        limits: limits of the field, as pydantic keeps them: objects with ``ge``, ``gt``, ``le`` or ``lt``.
        default: its default; a field of integers has a step of 1.
    """
    if key in CHOSEN:
        return CHOSEN[key]
    found: dict[str, float] = {}
    for limit in limits:
        found |= {name: getattr(limit, name) for name in ("ge", "gt", "le", "lt") if hasattr(limit, name)}
    largest = max(default) if isinstance(default, tuple) else default
    number = float(largest) if isinstance(largest, int | float) else 1.0
    low = found.get("ge", found.get("gt", 0.0) + (0.01 if "gt" in found else 0.0))
    high = found.get("le", found.get("lt", float("inf")))
    high = min(high, max(_LONGEST, _FAR * number)) if high > 1 else high
    is_whole = isinstance(largest, int) and not isinstance(largest, bool)
    return Extent(float(low), float(high), 1.0 if is_whole else round((high - low) / 100, 6))
