"""How layers turn and flip their sources. Flips mirror about the extent of the source without its padding."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from torch import Tensor


class Orientation(NamedTuple):
    """How all layers turn and flip their sources: axes are swapped first, then flipped."""

    hflip: Annotated[Tensor, "[B, L] bool"]
    vflip: Annotated[Tensor, "[B, L] bool"]
    swap_axes: Annotated[Tensor, "[B, L] bool"]

    @property
    def mirrors(self) -> Tensor:
        """Layers that exchange left and right, [B, L] bool; any two of the three are a turn."""
        return self.hflip ^ self.vflip ^ self.swap_axes
