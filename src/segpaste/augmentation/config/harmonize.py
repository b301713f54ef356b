"""Config of harmonisation, which fits pasted colours to the image around them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from segpaste.augmentation.config.strict import Probability, StrictConfig


class HarmonizeConfig(StrictConfig):
    """Config of harmonisation, which fits pasted colours to their surroundings; no label, depth or normal changes.

    Attributes:
        mode: ``reinhard`` shifts and scales each channel to the mean and spread of the surroundings; ``multiband``
            blends each band of detail over a width of its own; ``poisson`` keeps the gradients and takes the colours
            at the edge from the target.
        prob: probability of harmonising an image, 0 by default. Images that are not drawn keep every bit, unless
            ``feather_px`` is set.
        pyramid_levels: bands of ``multiband``; the coarsest is blended over about 2**pyramid_levels pixels. With 1
            nothing is blended.
        surround_px: ``reinhard`` compares with the target's pixels at most this far from a pasted one.
        max_gain: ``reinhard`` changes the spread of a channel by at most this factor, up or down.
        poisson_cycles: steps of the solver of ``poisson``, a multigrid cycle each.
        feather_px: in every image, drawn or not, pasted colours fade into the target over this many pixels inside of
            the edge of what is pasted. 0 leaves the edge hard.
    """

    mode: Literal["reinhard", "multiband", "poisson"] = "reinhard"
    prob: Probability = 0.0
    pyramid_levels: int = Field(default=5, ge=1, le=12)
    surround_px: int = Field(default=32, ge=1, le=4096)
    max_gain: float = Field(default=4.0, ge=1.0, le=1e6)
    poisson_cycles: int = Field(default=6, ge=1, le=64)
    feather_px: int = Field(default=0, ge=0, le=64)

    @property
    def is_active(self) -> bool:
        """True if any image may change."""
        return self.prob > 0 or self.feather_px > 0
