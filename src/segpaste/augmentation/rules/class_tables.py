"""Taxonomy of a config as tables of things, of stuff and of priorities."""

from __future__ import annotations

import torch
from torch import Tensor

from segpaste.augmentation.config.paste import PanopticConfig
from segpaste.augmentation.rules.tables import TableModule
from segpaste.engine import Classes


class ClassTables(TableModule):
    """Things, stuff and priorities of a taxonomy as look-up tables, which move with the module."""

    table_names = "is_thing", "is_stuff", "class_rank"

    def __init__(self, config: PanopticConfig) -> None:
        super().__init__()
        classes = config.taxonomy.classes
        self.num_classes = max(classes) + 1
        kinds = [classes.get(c) for c in range(self.num_classes)]
        self.is_thing, self.is_stuff = (torch.tensor([k == kind for k in kinds]) for kind in ("thing", "stuff"))
        priority = config.contact_priority
        ranks = [priority.get(c, 0) for c in range(self.num_classes)] if any(priority.values()) else []
        self.class_rank = torch.tensor(ranks, dtype=torch.int16)

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
