"""Warnings of a module about its batches, each given once; compiled code gives none."""

from __future__ import annotations

import warnings

import torch

from segpaste.augmentation.config.paste import BatchCopyPasteConfig
from segpaste.augmentation.config.placement import PlacementConfig
from segpaste.augmentation.report import nothing_pasted_warning, nothing_there_warning, report_of
from segpaste.augmentation.rules import draw_rules
from segpaste.augmentation.schedule import Schedule
from segpaste.augmentation.sources.paste_sizes import PasteSizes
from segpaste.engine import Outcome, Placement, PlacementCounts
from segpaste.types import PaddedBatchedDenseSample, StagedCrops
from segpaste.types.tracing import is_traced

EVAL_MODE = (
    "BatchCopyPaste: expected training mode where gradients are recorded, got eval mode, in which nothing is pasted; "
    "call train(), or give always=True to paste in any mode; for validation, use torch.no_grad()"
)
FADES_NEVER = (
    "BatchCopyPaste: placement.fade_last={} has no effect, since nothing has told the schedule the progress of "
    "training; call augment.schedule.at(progress), 0 to 1, before each step, or leave fade_last out"
)
_FROM_FORWARD = 5
"""Stack level of the caller of the module's ``__call__``, seen from a function that ``forward`` calls."""


class ModuleWarnings:
    """Warnings of one module, each given once; compiled code never warns, and does not read this object.

    Args:
        config: config of the paste.
        of_nothing: warn if nothing could be pasted into a batch.
    """

    def __init__(self, config: BatchCopyPasteConfig, *, of_nothing: bool = True) -> None:
        self.config = config
        self._may_tell_of_nothing = of_nothing
        self._may_tell_of_scales = self._may_tell_of_mode = True
        self._may_tell_of_fading, self._has_run = config.placement.fade_last > 0, False
        self._sizes = PasteSizes(config)

    def of_mode(self) -> None:
        """Warn that eval mode pastes nothing, if gradients are recorded, as they are in training."""
        if not is_traced() and self._may_tell_of_mode and torch.is_grad_enabled():
            self._may_tell_of_mode = False
            warnings.warn(EVAL_MODE, stacklevel=_FROM_FORWARD + 1)

    def of_fading(self, schedule: Schedule) -> None:
        """Warn in the second call if nothing has told the schedule the progress of training."""
        if is_traced() or not self._may_tell_of_fading:
            return
        if self._has_run and not schedule.is_followed:
            message = FADES_NEVER.format(self.config.placement.fade_last)
            warnings.warn(message, stacklevel=_FROM_FORWARD + 1)
        self._may_tell_of_fading, self._has_run = not self._has_run, True

    def of_nothing_there(self, num_images: int) -> None:
        """Warn that a batch has nothing to paste."""
        if is_traced() or not self._may_tell_of_nothing:
            return
        message = nothing_there_warning(num_images, self.config)
        if message is not None:
            self._may_tell_of_nothing = False
            warnings.warn(message, stacklevel=_FROM_FORWARD + 1)

    def of_nothing_pasted(self, placement: Placement, counts: PlacementCounts, outcome: Outcome) -> None:
        """Warn if nothing could be pasted into a batch."""
        if self._may_look(outcome.carried.device) and not bool(outcome.carried.any()):
            message = nothing_pasted_warning(report_of(placement, counts, outcome), self.config)
            if message is not None:
                self._may_tell_of_nothing = False
                warnings.warn(message, stacklevel=_FROM_FORWARD)

    def of_few_scales(self, config: PlacementConfig, canvas_size: tuple[int, int]) -> None:
        """Warn if patches leave only few scales to a paste."""
        if is_traced() or not self._may_tell_of_scales:
            return
        message = draw_rules.few_scales_warning(config, canvas_size)
        if message is not None:
            self._may_tell_of_scales = False
            warnings.warn(message, stacklevel=_FROM_FORWARD + 1)

    def of_sizes(self, staged: StagedCrops | None, batch: PaddedBatchedDenseSample) -> None:
        """Warn if crops are much larger or smaller than the objects of the batches; on the CPU only."""
        if staged is None or is_traced():
            return
        if (message := self._sizes.message(staged, batch)) is not None:
            warnings.warn(message, stacklevel=_FROM_FORWARD + 1)

    def _may_look(self, device: torch.device) -> bool:
        """Return whether to look for pastes; on an accelerator only once, since that waits for it."""
        if is_traced() or not self._may_tell_of_nothing:
            return False
        if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            return False
        if device.type != "cpu":
            self._may_tell_of_nothing = False
        return True
