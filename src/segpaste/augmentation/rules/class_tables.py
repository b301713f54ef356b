"""Taxonomy of a config as tables of things, of stuff and of priorities."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from segpaste.augmentation.config.paste import PanopticConfig
from segpaste.augmentation.rules.tables import TableModule, Tables, table
from segpaste.engine import Classes
from segpaste.types.check import not_none


class ClassTables(TableModule):
    """Things, stuff and priorities of a taxonomy as look-up tables, which move with the module."""

    table_names = "is_thing", "is_stuff", "class_rank"

    def __init__(self, config: PanopticConfig) -> None:
        super().__init__()
        self._config = config
        self.num_classes = max(config.taxonomy.classes) + 1
        self.is_thing, self.is_stuff, self.class_rank = self.made()

    def made(self) -> Tables:
        """Make the tables of things, of stuff and of priorities; the last is empty if there are none."""
        kinds = [self._config.taxonomy.classes.get(c) for c in range(self.num_classes)]
        priority = self._config.contact_priority
        ranks = [priority.get(c, 0) for c in range(self.num_classes)] if any(priority.values()) else []
        return [*(table([k == kind for k in kinds], np.bool_) for kind in ("thing", "stuff")), table(ranks, np.int16)]

    def things(self, labels: Tensor) -> Tensor:
        """Return whether each label is a thing class, bool; labels outside the taxonomy are not."""
        known = (labels >= 0) & (labels < self.num_classes)
        return known & not_none(self.tables_on(labels.device).is_thing)[labels.clamp(0, self.num_classes - 1)]

    @property
    def tables(self) -> Classes:
        """All tables, as an engine takes them."""
        return Classes(self.is_thing, self.is_stuff, self.class_rank if len(self.class_rank) else None)

    def tables_on(self, device: torch.device) -> Classes:
        """Return `tables` on a device; of a module that is elsewhere, copies that are kept."""
        tables = [table for table in self.tables if table is not None]
        return Classes(*self._copies.of(tables, device))
