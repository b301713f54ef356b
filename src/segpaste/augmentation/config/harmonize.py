"""Config of harmonisation, which fits pasted colours to the image around them."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from segpaste.augmentation.config.base import Probability, StrictConfig

SMALLEST_BLUR = 0.1
"""Smallest standard deviation of a blur in pixels; a smaller one changes nothing."""


class HarmonizeConfig(StrictConfig):
    """Config of harmonisation, which fits pasted colours to their surroundings; no label, depth or normal changes.

    Attributes:
        mode: ``reinhard`` shifts and scales each channel to the mean and spread of the surroundings; ``multiband``
            blends each band of detail over a different width; ``poisson`` keeps the gradients and takes the colours at
            the edge from the target.
        prob: probability of harmonising an image, 0 by default. Images that are not drawn keep every bit, unless
            ``feather_px`` or ``blur_px`` is set.
        pyramid_levels: bands of ``multiband``; the coarsest is blended over about 2**pyramid_levels pixels. With 1
            nothing is blended.
        surround_px: ``reinhard`` compares with the target's pixels at most this far from a pasted one.
        max_gain: ``reinhard`` changes the spread of a channel by at most this factor, up or down.
        poisson_cycles: steps of the solver of ``poisson``, a multigrid cycle each.
        feather_px: in every image, regardless of ``prob``, pasted colours fade into the target over this many pixels
            inside the edge of the pastes. 0 keeps hard edges.
        blur_px: in every image, regardless of ``prob``, the weight of pasted colours is the mask of all pastes smoothed
            by a Gaussian of this standard deviation in pixels. The target around them does not change. 0 keeps hard
            edges.
    """

    mode: Literal["reinhard", "multiband", "poisson"] = "reinhard"
    prob: Probability = 0.0
    pyramid_levels: int = Field(default=5, ge=1, le=12)
    surround_px: int = Field(default=32, ge=1, le=4096)
    max_gain: float = Field(default=4.0, ge=1.0, le=1e6)
    poisson_cycles: int = Field(default=6, ge=1, le=64)
    feather_px: int = Field(default=0, ge=0, le=64)
    blur_px: float = Field(default=0.0, ge=0, le=16)

    @model_validator(mode="after")
    def _check_edges(self) -> Self:
        if self.feather_px > 0 and self.blur_px > 0:
            raise ValueError(
                f"feather_px and blur_px: expected at most one of them above 0, got {self.feather_px} and "
                f"{self.blur_px}"
            )
        return self

    @field_validator("blur_px")
    @classmethod
    def _check_blur(cls, value: float) -> float:
        if 0 < value < SMALLEST_BLUR:
            raise ValueError(f"expected 0 or at least {SMALLEST_BLUR}, got {value}")
        return value

    @property
    def softens_edges(self) -> bool:
        """True if pasted colours fade at the edge in every image."""
        return self.feather_px > 0 or self.blur_px > 0

    @property
    def is_active(self) -> bool:
        """True if any image may change."""
        return self.prob > 0 or self.softens_edges
