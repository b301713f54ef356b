"""What panoptic batches ask of a paste: only things are pasted, and no stuff class is wiped out."""

from __future__ import annotations

from fractions import Fraction

import torch
from torch import Tensor

from segpaste.augmentation.config import PanopticConfig
from segpaste.kernels import Measures


class ClassTables(torch.nn.Module):
    """Things and stuff of a taxonomy as look-up tables, buffers that move with the module."""

    is_thing: Tensor
    is_stuff: Tensor

    def __init__(self, config: PanopticConfig) -> None:
        super().__init__()
        classes = config.taxonomy.classes
        self.num_classes = max(classes) + 1
        for kind in ("thing", "stuff"):
            table = torch.tensor([classes.get(c) == kind for c in range(self.num_classes)])
            self.register_buffer(f"is_{kind}", table, persistent=False)
        frac = Fraction(str(config.tau_stuff_frac)).limit_denominator(1_000_000)
        self.frac = (frac.numerator, frac.denominator)
        self.min_px = config.tau_stuff_px

    def things(self, labels: Tensor) -> Tensor:
        """Whether each label is a thing class, bool; labels outside the taxonomy are not."""
        known = (labels >= 0) & (labels < self.num_classes)
        return known & self.is_thing.to(labels.device)[labels.clamp(0, self.num_classes - 1)]

    def wiped_out(self, measures: Measures) -> Tensor:
        """Stuff classes that lost pixels and fell below a threshold, [B, num_classes] bool."""
        before, after = measures.class_before, measures.class_after
        numerator, denominator = self.frac
        too_little = (after * denominator < before * numerator) | (after < self.min_px)
        return self.is_stuff.to(before.device) & (after < before) & too_little
