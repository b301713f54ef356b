"""What may change from step to step without another compilation: numbers in buffers."""

from __future__ import annotations

import operator

import torch
from torch import Tensor, nn

from segpaste import seeding
from segpaste.augmentation import draw_scales
from segpaste.augmentation.placement_config import PlacementConfig
from segpaste.augmentation.slots import as_decimal

_ONE = 1 << 32


class Schedule(nn.Module):
    """How often and how much is pasted, as of now.

    The numbers are integers in buffers: they move with the module, and a compiled step reads what they hold when it
    runs. They are no part of the state that is saved: tell a resumed run how far it is.

    Args:
        config: what they are at first.
    """

    limits: Tensor
    size_table: Tensor

    def __init__(self, config: PlacementConfig) -> None:
        super().__init__()
        self.register_buffer("limits", torch.zeros(3, dtype=torch.int64), persistent=False)
        self.register_buffer("size_table", draw_scales.size_table(config), persistent=False)
        self._paste_prob, self._fade_last, self._is_faded = config.paste_prob, config.fade_last, False
        self.set(paste_prob=config.paste_prob, k_range=config.k_range)

    @property
    def paste_prob(self) -> float:
        """The chance that an image is pasted into, now."""
        return int(self.limits[0]) / _ONE

    @property
    def k_range(self) -> tuple[int, int]:
        """How many slots are pasted into an image."""
        return int(self.limits[1]), int(self.limits[2])

    def set(self, *, paste_prob: float | None = None, k_range: tuple[int, int] | None = None) -> None:
        """Change what is given, from the next step on.

        Raises:
            ValueError: a probability outside of [0, 1], or a range that is not 1 <= low <= high < 2**31.
        """
        if paste_prob is not None and not 0 <= paste_prob <= 1:
            raise ValueError(f"Schedule: expected 0 <= paste_prob <= 1, got {paste_prob}")
        if k_range is not None and not (len(k_range) == 2 and 1 <= k_range[0] <= k_range[1] < 1 << 31):
            raise ValueError(f"Schedule: expected k_range with 1 <= low <= high < 2**31, got {k_range}")
        if k_range is not None:
            self.limits[1:] = torch.tensor([operator.index(number) for number in k_range])
        if paste_prob is not None:
            self._paste_prob = paste_prob
        self.limits[0] = 0 if self._is_faded else round(self._paste_prob * _ONE)

    def at(self, progress: float) -> None:
        """Say how far training is; in its last part, ``fade_last`` of the config, nothing is pasted.

        Args:
            progress: 0 at the start, 1 at the end.

        Raises:
            ValueError: it is not from 0 to 1.
        """
        if not 0 <= progress <= 1:
            raise ValueError(f"Schedule: expected 0 <= progress <= 1, got {progress}")
        self._is_faded = self._fade_last > 0 and as_decimal(progress) >= 1 - as_decimal(self._fade_last)
        self.set()

    def draw_counts(self, seeds: Tensor) -> tuple[Tensor, Tensor]:
        """Whether each image [B] is pasted into, bool, and how many slots are wanted, int64."""
        threshold, low, high = self.limits.to(seeds.device).unbind()
        tries = seeding.random_u32(seeds, "paste") < threshold
        return tries, seeding.random_integers(seeds, "count", low, high) * tries
