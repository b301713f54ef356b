"""Taxonomy of a config as tables of things, of stuff and of priorities."""

from __future__ import annotations

import torch
from torch import Tensor

from segpaste.augmentation.config.paste import PanopticConfig
from segpaste.augmentation.rules.device_copies import DeviceCopies
from segpaste.engine import Classes


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
        self._copies = DeviceCopies()

    def things(self, labels: Tensor) -> Tensor:
        """Return whether each label is a thing class, bool; labels outside the taxonomy are not."""
        known = (labels >= 0) & (labels < self.num_classes)
        return known & self.is_thing.to(labels.device)[labels.clamp(0, self.num_classes - 1)]

    @property
    def tables(self) -> Classes:
        """All tables, as an engine takes them."""
        return Classes(self.is_thing, self.is_stuff, self.class_rank if len(self.class_rank) else None)

    def tables_on(self, device: torch.device) -> Classes:
        """Return `tables` on a device; of a module that is elsewhere, copies that are kept."""
        tables = [table for table in self.tables if table is not None]
        return Classes(*self._copies.of(tables, device))
