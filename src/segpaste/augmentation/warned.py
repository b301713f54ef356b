"""Warnings of a module about its batches, each given once; compiled code gives none."""

from __future__ import annotations

import warnings

import torch

from segpaste.augmentation.config.paste import BatchCopyPasteConfig
from segpaste.augmentation.config.placement import PlacementConfig
from segpaste.augmentation.report import nothing_pasted_warning, nothing_there_warning, report_of
from segpaste.augmentation.rules import draw_rules
from segpaste.augmentation.sources.paste_sizes import PasteSizes
from segpaste.engine import Outcome, Placement, PlacementCounts
from segpaste.types import PaddedBatchedDenseSample, StagedCrops
from segpaste.types.tracing import is_traced

_CALLER = 6
"""Frames from a method that a method of the forward calls up to the caller of the module's ``__call__``."""


class ModuleWarnings:
    """What one module has not warned of yet.

    Warnings name the line that calls the module.

    Args:
        config: config of the module.
        placement: its placement, with the layers that its source uses.
    """

    def __init__(self, config: BatchCopyPasteConfig, placement: PlacementConfig) -> None:
        self._config, self._placement = config, placement
        self._may_warn = self._may_warn_of_scales = True
        self._sizes = PasteSizes(config)

    def of_nothing_there(self, batch: PaddedBatchedDenseSample) -> None:
        """Warn of a batch that cannot take pastes; a method of the forward calls this."""
        if not is_traced() and self._may_warn:
            self._warn_of_nothing(nothing_there_warning(batch.batch_size, self._config), _CALLER + 1)

    def of_nothing_pasted(self, placement: Placement, counts: PlacementCounts, outcome: Outcome) -> None:
        """Warn the first time that nothing could be pasted into a batch; the forward itself calls this."""
        if self._may_look(outcome.carried.device) and not bool(outcome.carried.any()):
            self._warn_of_nothing(nothing_pasted_warning(report_of(placement, counts, outcome), self._config), _CALLER)

    def of_few_scales(self, canvas_size: tuple[int, int]) -> None:
        """Warn if patches leave only few scales to a paste; a method of the forward calls this."""
        if is_traced() or not self._may_warn_of_scales:
            return
        message = draw_rules.few_scales_warning(self._placement, canvas_size)
        if message is not None:
            self._may_warn_of_scales = False
            warnings.warn(message, stacklevel=_CALLER)

    def of_sizes(self, staged: StagedCrops | None, batch: PaddedBatchedDenseSample) -> None:
        """Warn of crops much larger or smaller than objects of the batches, on the CPU; called as `of_few_scales`."""
        if staged is None or is_traced():
            return
        if (message := self._sizes.message(staged, batch)) is not None:
            warnings.warn(message, stacklevel=_CALLER)

    def _may_look(self, device: torch.device) -> bool:
        """Return whether to look for pastes; on an accelerator only once, since the look waits for it."""
        if is_traced() or not self._may_warn:
            return False
        if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            return False
        if device.type != "cpu":
            self._may_warn = False
        return True

    def _warn_of_nothing(self, message: str | None, stacklevel: int) -> None:
        if message is not None:
            self._may_warn = False
            warnings.warn(message, stacklevel=stacklevel)
