"""Parameters that may change between steps without a recompilation, as numbers in tensors."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from segpaste.augmentation.config.placement import PlacementConfig
from segpaste.augmentation.config.strict import as_fraction
from segpaste.augmentation.rules import class_weights, draw_rules
from segpaste.augmentation.rules.tables import TableModule
from segpaste.engine import DrawTables
from segpaste.seeding import random_u32_together

_ONE = 1 << 32


class Schedule(TableModule):
    """Current probability of a paste, number of slots, and balance of classes.

    The numbers are integers in tensors: they move with the module, and a compiled step reads their values when it runs.
    They are not buffers, so DistributedDataParallel does not broadcast them. ``state_dict`` holds the values given by
    `set` and `at`, as one entry of plain values; loading a state without that entry, such as the weights of a model
    without augmentation, changes nothing.

    Args:
        config: the initial values.
        chooses_objects: False with ClassMix, which pastes classes: only ``paste_prob`` may then be set.

    Attributes:
        is_followed: True once `at` was called.
    """

    table_names = DrawTables._fields

    def __init__(self, config: PlacementConfig, *, chooses_objects: bool = True) -> None:
        super().__init__()
        self._chooses_objects = chooses_objects
        self.limits = torch.zeros(4, dtype=torch.int64)
        self.size_table = draw_rules.size_table(config)
        self.inverse_weights = class_weights.inverse_weights(0)
        self.log_table = class_weights.log_table()
        self.region_table = draw_rules.region_table(config)
        self._paste_prob, self._fade_last, self._fades = config.paste_prob, config.fade_last, config.fade_curve
        self._fixed_share = config.fixed_share
        self.is_followed = False
        self._kept = 1.0
        self._put(config.paste_prob, config.k_range, config.class_temperature)

    @property
    def paste_prob(self) -> float:
        """Current probability of pasting anything into an image."""
        return int(self.limits[0]) / _ONE

    @property
    def k_range(self) -> tuple[int, int]:
        """Current range of the number of slots that are pasted into an image."""
        return int(self.limits[1]), int(self.limits[2])

    @property
    def class_temperature(self) -> float:
        """Current temperature, from 0 (all objects of a source are equally likely) to 1 (all its classes are)."""
        return int(self.limits[3]) / _ONE

    @property
    def tables(self) -> DrawTables:
        """All parameters, as an engine takes them."""
        return DrawTables(self.limits, self.size_table, self.inverse_weights, self.log_table, self.region_table)

    def tables_on(self, device: torch.device) -> DrawTables:
        """Return `tables` on a device; of a module that is elsewhere, copies that follow it."""
        return DrawTables(*self._copies.of(self.tables, device))

    def tables_for(self, seeds: Tensor) -> DrawTables:
        """Return the parameters for a batch of these seeds, [B] int64, on its device.

        With ``fixed_share`` the probability of a paste becomes a threshold that exactly this share of the batch passes:
        the images with the smallest draws.
        """
        tables = self.tables_on(seeds.device)
        if not self._fixed_share or not len(seeds):
            return tables
        draws, share = random_u32_together((seeds, "paste"), (seeds[:1], "share"))
        num = (tables.limits[:1] * len(seeds) + share) >> 32  # at most all; a fraction of an image is drawn
        largest = F.pad(draws.sort().values, (1, 0), value=-1).gather(0, num)  # of the smallest ``num``
        return tables._replace(limits=torch.cat([largest + 1, tables.limits[1:]]))

    def beyond_share(self, seeds: Tensor) -> Tensor:
        """Return the images that pass the threshold of `tables_for` and exceed the share, [B] bool.

        There are some only if draws are equal, as those of a sample that is twice in a batch; later ones exceed it.
        """
        if not len(seeds):
            return torch.zeros_like(seeds, dtype=torch.bool)
        draws, share = random_u32_together((seeds, "paste"), (seeds[:1], "share"))
        num = (self.tables_on(seeds.device).limits[:1] * len(seeds) + share) >> 32
        place = draws.argsort(stable=True).argsort()
        return place >= num

    def set(
        self,
        *,
        paste_prob: float | None = None,
        k_range: tuple[int, int] | None = None,
        class_temperature: float | None = None,
    ) -> None:
        """Change the given parameters from the next step on; see `PlacementConfig` for their meaning.

        Raises:
            ValueError: a probability or temperature outside of [0, 1], or a range that is not
                0 <= low <= high with high from 1 to 2**31 - 1; or another parameter than ``paste_prob``
                with ClassMix. Nothing is changed then.
        """
        if not self._chooses_objects and (k_range, class_temperature) != (None, None):
            raise ValueError(
                "Schedule: expected only paste_prob with emit_classmix, which pastes classes instead of objects, got "
                f"k_range={k_range}, class_temperature={class_temperature}"
            )
        if paste_prob is not None:
            paste_prob = _fraction("paste_prob", paste_prob)
        if class_temperature is not None:
            class_temperature = _fraction("class_temperature", class_temperature)
        if k_range is not None and not _is_range(k_range):
            raise ValueError(
                f"Schedule: expected k_range with 0 <= low <= high, high from 1 to 2**31 - 1, got {k_range}"
            )
        self._put(paste_prob, k_range, class_temperature)

    def _put(
        self,
        paste_prob: float | None = None,
        k_range: tuple[int, int] | None = None,
        class_temperature: float | None = None,
    ) -> None:
        if k_range is not None:
            self.limits[1:3] = torch.tensor([operator.index(number) for number in k_range])
        if class_temperature is not None:
            temperature = round(class_temperature * class_weights.TEMPERATURE_ONE)
            self.limits[3] = temperature
            self.inverse_weights.copy_(class_weights.inverse_weights(temperature))
        if paste_prob is not None:
            self._paste_prob = paste_prob
        self.limits[0] = round(self._paste_prob * self._kept * _ONE)
        self._copies.refresh(self.tables)

    def at(self, progress: float) -> None:
        """Set the progress of training; see ``fade_last`` and ``fade_curve`` of the config.

        Args:
            progress: 0 at the start, 1 at the end.

        Raises:
            ValueError: it is not a number from 0 to 1.
        """
        self.is_followed = True
        left, last = 1 - as_fraction(_fraction("progress", progress)), as_fraction(self._fade_last)
        self._kept = 1.0
        if last > 0 and left <= last:
            self._kept = float(left / last) if self._fades == "linear" else 0.0
        self._put()

    def get_extra_state(self) -> dict[str, object]:
        """Return the state for ``state_dict`` as plain values, so that ``torch.load(weights_only=True)`` reads them."""
        return {
            "paste_prob": self._paste_prob,
            "k_range": list(self.k_range),
            "class_temperature": self.class_temperature,
            "kept": self._kept,
        }

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Set the values of a state, for ``load_state_dict``.

        Raises:
            ValueError: a value is out of its range.
        """
        self._kept = _fraction("kept of a state", state["kept"])
        objects = {"k_range": tuple(state["k_range"]), "class_temperature": state["class_temperature"]}
        self.set(paste_prob=state["paste_prob"], **(objects if self._chooses_objects else {}))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *arguments: Any) -> None:
        state_dict.setdefault(f"{prefix}_extra_state", self.get_extra_state())
        super()._load_from_state_dict(state_dict, prefix, *arguments)


def _fraction(name: str, value: Any) -> float:
    """Return a value from 0 to 1 as a Python float."""
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Schedule: expected a number as {name}, got {value!r}") from error
    if not 0 <= number <= 1:
        raise ValueError(f"Schedule: expected 0 <= {name} <= 1, got {number}")
    return number


def _is_range(value: object) -> bool:
    """Return whether a value is two integers with 0 <= low <= high, and high from 1 to 2**31 - 1."""
    if not isinstance(value, Sequence) or len(value) != 2 or not all(isinstance(n, Integral) for n in value):
        return False
    low, high = (operator.index(n) for n in value)
    return 0 <= low <= high < 1 << 31 and high > 0
