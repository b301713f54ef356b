"""What panoptic batches ask of a paste: only things are pasted, no stuff class is wiped out, priorities hold."""

from __future__ import annotations

from fractions import Fraction

import torch
from torch import Tensor

from segpaste.augmentation.config import PanopticConfig
from segpaste.engine import Measures, Ranks, no_ranks


class ClassTables(torch.nn.Module):
    """Things, stuff and priorities of a taxonomy as look-up tables, buffers that move with the module."""

    is_thing: Tensor
    is_stuff: Tensor
    class_rank: Tensor

    def __init__(self, config: PanopticConfig) -> None:
        super().__init__()
        classes = config.taxonomy.classes
        self.num_classes = max(classes) + 1
        for kind in ("thing", "stuff"):
            table = torch.tensor([classes.get(c) == kind for c in range(self.num_classes)])
            self.register_buffer(f"is_{kind}", table, persistent=False)
        priority = config.contact_priority
        ranks = [priority.get(c, 0) for c in range(self.num_classes)] if any(priority.values()) else []
        self.register_buffer("class_rank", torch.tensor(ranks, dtype=torch.int16), persistent=False)
        frac = Fraction(str(config.tau_stuff_frac)).limit_denominator(1_000_000)
        self.frac = (frac.numerator, frac.denominator)
        self.min_px = config.tau_stuff_px

    def things(self, labels: Tensor) -> Tensor:
        """Whether each label is a thing class, bool; labels outside the taxonomy are not."""
        return self._known(labels) & self.is_thing.to(labels.device)[labels.clamp(0, self.num_classes - 1)]

    @property
    def has_ranks(self) -> bool:
        """Some class has another priority than 0."""
        return len(self.class_rank) > 0

    def ranks(self, labels: Tensor) -> Ranks:
        """Priorities, where there are any, for sources of these labels [S, K_s]."""
        if not self.has_ranks:
            return no_ranks(labels.device)
        of_class = self.class_rank.to(labels.device)
        of_slot = torch.where(self._known(labels), of_class[labels.clamp(0, self.num_classes - 1)], 0)
        return Ranks(of_class, of_slot)

    def _known(self, labels: Tensor) -> Tensor:
        return (labels >= 0) & (labels < self.num_classes)

    def wiped_out(self, measures: Measures) -> Tensor:
        """Stuff classes that lost pixels and fell below a threshold, [B, num_classes] bool."""
        before, after = measures.class_before, measures.class_after
        numerator, denominator = self.frac
        too_little = (after * denominator < before * numerator) | (after < self.min_px)
        return self.is_stuff.to(before.device) & (after < before) & too_little
