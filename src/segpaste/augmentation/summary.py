"""Sums of reports over an epoch, over loaders, over machines."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from segpaste.augmentation.report import DROP_REASONS, PasteReport
from segpaste.types.movable import Movable, register_pytree


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PasteSummary(Movable):
    """Numbers of pastes over many images; summaries add up, without waiting for their device.

    Attributes:
        counts: [3 + len(DROP_REASONS)] int64: images, pastes tried, placed, and dropped by reason.
    """

    counts: Tensor

    @classmethod
    def of(cls, report: PasteReport) -> PasteSummary:
        """Summarise the report of one batch, on its device."""
        num_images = torch.full_like(report.num_tried[:1].sum(), len(report.num_tried))
        sums = torch.stack([num_images, report.num_tried.sum(), report.num_placed.sum()])
        return cls(torch.cat([sums, report.num_dropped.sum(0)]))

    def __add__(self, other: PasteSummary | PasteReport | int) -> PasteSummary:
        """Add a summary or a report, on the device of this one; 0 adds nothing, so that `sum` takes summaries."""
        if other == 0:
            return self
        if isinstance(other, PasteReport):
            other = PasteSummary.of(other)
        if not isinstance(other, PasteSummary):
            return NotImplemented
        return PasteSummary(self.counts + other.counts.to(self.counts.device))

    __radd__ = __add__

    def to_dict(self) -> dict[str, int]:
        """Return the counts by name, which waits for the device."""
        names = ("num_images", "num_tried", "num_placed", *DROP_REASONS)
        return dict(zip(names, self.counts.tolist(), strict=True))

    def __repr__(self) -> str:
        counts = self.to_dict()
        why = "".join(f", {reason} {counts[reason]}" for reason in DROP_REASONS if counts[reason])
        images, tried, placed = counts["num_images"], counts["num_tried"], counts["num_placed"]
        return f"PasteSummary({images} images: {tried} tried, {placed} placed{why})"


register_pytree(PasteSummary)
