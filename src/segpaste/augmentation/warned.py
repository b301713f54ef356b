"""Warnings of a module about its batches, each given once; compiled code gives none.

`PasteSizes` finds crops of a bank that are much larger or smaller than the objects of the batches that they are pasted
into. The usual cause is a loader that resizes images: the objects of the batch shrink, and those of the bank do not.
"""

from __future__ import annotations

import math
import warnings
from collections import defaultdict

import torch
from torch import Tensor

from segpaste.augmentation import rules
from segpaste.augmentation.config.paste import BatchCopyPasteConfig
from segpaste.augmentation.config.placement import PlacementConfig
from segpaste.augmentation.report import nothing_pasted_warning, nothing_there_warning, report_of
from segpaste.augmentation.schedule import Schedule
from segpaste.engine.steps import Pasted
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

MOST_TIMES = 2.0
"""Largest ratio of sizes without a warning; the smallest is its inverse."""

ENOUGH = 32
"""Number of pairs, an object of a batch and a paste of its class, that suffice for an answer."""

MOST_BATCHES = 32
"""Number of batches after which the comparison ends without an answer."""


class ModuleWarnings:
    """Warnings of one module, each given once; compiled code never warns, and does not read this object.

    Args:
        config: config of the paste.
        of_nothing: warn if nothing could be pasted into a batch.
    """

    def __init__(self, config: BatchCopyPasteConfig, *, of_nothing: bool = True) -> None:
        self.config = config
        self._may_tell_of_nothing = of_nothing
        self._may_tell_of_mode, self._has_run = True, False
        self._may_tell_of_scales = rules.may_have_few_scales(config.placement) and not config.emit_classmix
        self._may_tell_of_fading = config.placement.fade_last > 0
        self._sizes = PasteSizes(config)

    def of_mode(self) -> None:
        """Warn that eval mode pastes nothing, if gradients are recorded, as they are in training."""
        if not is_traced() and self._may_tell_of_mode and torch.is_grad_enabled():
            self._may_tell_of_mode = False
            warnings.warn(EVAL_MODE, stacklevel=_FROM_FORWARD + 1)

    def of_inputs(
        self,
        schedule: Schedule,
        placement: PlacementConfig,
        staged: StagedCrops | None,
        batch: PaddedBatchedDenseSample,
    ) -> None:
        """Warn of the schedule, and of the sizes of a batch and its crops.

        Args:
            schedule: warn in the second call if nothing has told it the progress of training.
            placement: warn if patches leave only few scales to a paste.
            staged: warn if these crops are much larger or smaller than the objects of the batches; on the CPU only.
            batch: the prepared batch.
        """
        if is_traced() or not (self._may_tell_of_fading or self._may_tell_of_scales or staged is not None):
            return
        messages = list[str | None]()
        if self._may_tell_of_fading:
            messages.append(self._of_fading(schedule))
        if self._may_tell_of_scales:
            size = batch.canvas_size if staged is None else staged.crop_size
            messages.append(rules.few_scales_warning(placement, size))
            self._may_tell_of_scales = messages[-1] is None
        if staged is not None and not self._sizes.is_done:
            messages.append(self._sizes.message(staged, batch))
        for message in messages:
            if message is not None:
                warnings.warn(message, stacklevel=_FROM_FORWARD + 1)

    def _of_fading(self, schedule: Schedule) -> str | None:
        message = FADES_NEVER.format(self.config.placement.fade_last)
        is_due = self._has_run and not schedule.is_followed
        self._may_tell_of_fading, self._has_run = not self._has_run, True
        return message if is_due else None

    def of_nothing_there(self, num_images: int) -> None:
        """Warn that a batch has nothing to paste."""
        if is_traced() or not self._may_tell_of_nothing:
            return
        message = nothing_there_warning(num_images, self.config)
        if message is not None:
            self._may_tell_of_nothing = False
            warnings.warn(message, stacklevel=_FROM_FORWARD + 1)

    def of_nothing_pasted(self, pasted: Pasted) -> None:
        """Warn if nothing could be pasted into a batch."""
        if pasted.num_carried or not self._may_look(pasted.batch.device):
            return
        placement, counts, outcome = pasted.records()
        if not bool(outcome.carried.any()):
            report = report_of(placement, counts, outcome)
            message = nothing_pasted_warning(report, self.config, pasted.batch.modalities)
            if message is not None:
                self._may_tell_of_nothing = False
                warnings.warn(message, stacklevel=_FROM_FORWARD)

    def _may_look(self, device: torch.device) -> bool:
        """Return whether to look for pastes; on an accelerator only once, since that waits for it."""
        if is_traced() or not self._may_tell_of_nothing:
            return False
        if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            return False
        if device.type != "cpu":
            self._may_tell_of_nothing = False
        return True


class PasteSizes:
    """Comparison of pastes with the objects of their batch, class by class, over the first batches.

    Objects of different classes are not compared, because rare ones may be larger. The size of an object is the longer
    side of its box, that of a paste at the middle of ``placement.scale_range``.

    Args:
        config: config of the paste. If it sets sizes in pixels, nothing is compared.

    Attributes:
        is_done: True if no further batch is needed.
    """

    def __init__(self, config: BatchCopyPasteConfig) -> None:
        place = config.placement
        self._relative_to = config.source.relative_to
        self._middle = math.sqrt(math.prod(place.scale_range))
        self._own: defaultdict[int, list[float]] = defaultdict(list)
        self._pasted: defaultdict[int, list[float]] = defaultdict(list)
        self._num_batches = 0
        is_on_canvas = place.patch_aligned_paste and place.align == "canvas"
        self.is_done = place.draws_sizes or is_on_canvas or config.source.kind != "bank"

    def message(self, staged: StagedCrops, target: PaddedBatchedDenseSample) -> str | None:
        """Add a batch on the CPU with its crops; return what to warn of, once it is known."""
        if self.is_done or target.device.type != "cpu":
            return None
        self._add(staged, target)
        common = [(own, self._pasted[label]) for label, own in self._own.items() if label in self._pasted]
        weights = [min(len(own), len(pasted)) for own, pasted in common]
        self.is_done = sum(weights) >= ENOUGH or self._num_batches >= MOST_BATCHES
        if sum(weights) < ENOUGH:
            return None
        logs = [math.log(_median(pasted) / _median(own)) for own, pasted in common]
        times = math.exp(sum(w * log for w, log in zip(weights, logs, strict=True)) / sum(weights))
        if 1 / MOST_TIMES <= times <= MOST_TIMES:
            return None
        found = f"BatchCopyPaste: pastes are {times:.2g} times as large as the batch's objects of their classes; "
        remedy = f"set placement.size_range, or scale_range with a middle of {self._middle / times:.2g}"
        if times < 1:
            return found + remedy
        height, width = target.canvas_size
        fit = f"fit_into=({height}, {width}) of DatasetBank or build_bank"
        return f"{found}{remedy}; or, if a loader resizes images, {fit}"

    def _add(self, staged: StagedCrops, target: PaddedBatchedDenseSample) -> None:
        self._num_batches += 1
        sides = _longer_sides(staged.boxes).double() * self._middle
        if self._relative_to == "photo" and staged.scales is not None:
            sides = sides / staged.scales
        _extend(self._pasted, staged.class_ids, sides)
        _extend(self._own, target.labels, torch.where(target.instance_valid, _longer_sides(target.boxes).double(), 0.0))


def _longer_sides(boxes: Tensor) -> Tensor:
    return (boxes[..., 2:] - boxes[..., :2]).amax(-1)


def _extend(found: defaultdict[int, list[float]], labels: Tensor, sides: Tensor) -> None:
    for label, side in zip(labels.flatten().tolist(), sides.flatten().tolist(), strict=True):
        if side > 0:
            found[label].append(side)


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
