"""Parameters that may change between steps without a recompilation, as numbers in tensors."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from numbers import Integral
from typing import Any, NamedTuple

import torch
from torch import Tensor

from segpaste.augmentation import rules
from segpaste.augmentation.config.base import as_fraction
from segpaste.augmentation.config.placement import PlacementConfig
from segpaste.augmentation.tables import TableModule, Tables, inverse_weights, is_lost, log_table, table
from segpaste.engine import Drawn, DrawTables
from segpaste.seeding import random_u32_together
from segpaste.types.tracing import real_tensors

_ONE = 1 << 32


class Schedule(TableModule):
    """Current probability of a paste, number of slots, and balance of classes.

    The numbers are integers in tensors: they move with the module, and a compiled step reads their values when it runs.
    They are not buffers, so DistributedDataParallel does not broadcast them. ``state_dict`` holds the values given by
    `set` and `at`, as one tensor, see `get_extra_state`; loading a state without that entry, such as the weights of a
    model without augmentation, changes nothing.

    Args:
        config: the initial values.
        chooses_objects: False with ClassMix, which pastes classes: only ``paste_prob`` may then be set.

    Attributes:
        is_followed: True once `at` was called.
    """

    table_names = DrawTables._fields

    def __init__(self, config: PlacementConfig, *, chooses_objects: bool = True) -> None:
        super().__init__()
        self._config, self._chooses_objects = config, chooses_objects
        self.is_followed = False
        self._values = _Values(_units(config.paste_prob), *config.k_range, _units(config.class_temperature), _ONE)
        self.limits, self.size_table, self.inverse_weights, self.log_table, self.region_table = self.made()

    def made(self) -> Tables:
        """Make all tables from the config and the current values."""
        return DrawTables(
            table(self._values.limits),
            rules.size_table(self._config),
            inverse_weights(self._values.temperature),
            log_table(),
            rules.region_table(self._config),
        )

    @property
    def paste_prob(self) -> float:
        """Current probability of pasting anything into an image."""
        return self._values.limits[0] / _ONE

    @property
    def k_range(self) -> tuple[int, int]:
        """Current range of the number of slots that are pasted into an image."""
        return self._values.fewest, self._values.most

    @property
    def class_temperature(self) -> float:
        """Current temperature, from 0 (all objects of a source are equally likely) to 1 (all its classes are)."""
        return self._values.temperature / _ONE

    @property
    def tables(self) -> DrawTables:
        """All parameters, as an engine takes them."""
        return DrawTables(self.limits, self.size_table, self.inverse_weights, self.log_table, self.region_table)

    def tables_on(self, device: torch.device) -> DrawTables:
        """Return `tables` on a device; of a module that is elsewhere, copies that follow it."""
        own = self.tables
        found = self._copies.of(own, device)
        return own if found is own else DrawTables(*found)

    def tables_for(self, seeds: Tensor) -> DrawTables:
        """Return the parameters for a batch of these seeds, [B] int64, on its device.

        With ``fixed_share`` all images are drawn for; `beyond_share` then says which of them take no paste.
        """
        tables = self.tables_on(seeds.device)
        if not self._config.fixed_share:
            return tables
        return tables._replace(limits=torch.cat([tables.limits.new_full((1,), _ONE), tables.limits[1:]]))

    def beyond_share(self, seeds: Tensor) -> Tensor | None:
        """Return the images that ``fixed_share`` leaves without a paste, [B] bool; None without it.

        The images with the smallest draws are pasted into, exactly the share of the batch; a fraction of an image is
        drawn. Of equal draws, as those of a sample that is twice in a batch, the first ones count as smaller.
        """
        if not self._config.fixed_share:
            return None
        draws, share = random_u32_together((seeds, "paste"), (seeds[:1], "share"))
        num = (self.tables_on(seeds.device).limits[:1] * len(seeds) + share) >> 32  # at most all
        return draws.argsort(stable=True).argsort() >= num

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
        changed = self._values
        if paste_prob is not None:
            changed = changed._replace(paste_prob=_units(_fraction("paste_prob", paste_prob)))
        if class_temperature is not None:
            changed = changed._replace(temperature=_units(_fraction("class_temperature", class_temperature)))
        if k_range is not None:
            if not _is_range(k_range):
                raise ValueError(
                    f"Schedule: expected k_range with 0 <= low <= high, high from 1 to 2**31 - 1, got {k_range}"
                )
            low, high = map(operator.index, k_range)
            changed = changed._replace(fewest=low, most=high)
        self._put(changed)

    def _put(self, values: _Values) -> None:
        """Write changed values into the tables and their copies."""
        before, self._values = self._values, values
        with real_tensors():
            if values.limits != before.limits:
                self.limits.copy_(table(values.limits), non_blocking=True)
            if values.temperature != before.temperature:
                self.inverse_weights.copy_(inverse_weights(values.temperature), non_blocking=True)
            self._copies.refresh(self.tables)

    def at(self, progress: float) -> None:
        """Set the progress of training; see ``fade_last`` and ``fade_curve`` of the config.

        Args:
            progress: 0 at the start, 1 at the end.

        Raises:
            ValueError: it is not a number from 0 to 1.
        """
        left, last = 1 - as_fraction(_fraction("progress", progress)), as_fraction(self._config.fade_last)
        self.is_followed = True
        kept = _ONE
        if last > 0 and left <= last:
            kept = _units(left / last) if self._config.fade_curve == "linear" else 0
        self._put(self._values._replace(kept=kept))

    def get_extra_state(self) -> Tensor:
        """Return the state for ``state_dict``, [5] int64 on the CPU, in memory of its own.

        It holds, with fractions in units of 2**-32, ``paste_prob`` as it was set, the two ends of ``k_range``,
        ``class_temperature``, and the part of ``paste_prob`` that `at` keeps.
        """
        return table(self._values)

    def set_extra_state(self, state: Tensor | Mapping[str, Any]) -> None:
        """Set the values of a state, for ``load_state_dict``; one without values, on ``meta``, changes nothing.

        Args:
            state: see `get_extra_state`; or the same values by name, as numbers and fractions.

        Raises:
            ValueError: a value is out of its range, or there are not as many.
        """
        if isinstance(state, Tensor):
            if is_lost(state):
                return
            state = _named(state)
        kept = _units(_fraction("kept of a state", state["kept"]))
        objects = {"k_range": tuple(state["k_range"]), "class_temperature": state["class_temperature"]}
        self.set(paste_prob=state["paste_prob"], **(objects if self._chooses_objects else {}))
        self._put(self._values._replace(kept=kept))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *arguments: Any) -> None:
        state_dict.setdefault(f"{prefix}_extra_state", self.get_extra_state())
        super()._load_from_state_dict(state_dict, prefix, *arguments)


_HOLDING = (torch.int64, torch.float64, torch.float32)
"""Types of a saved state: its fractions are up to 2**32, which float32 rounds by 2**-24 of them at most."""


class _Values(NamedTuple):
    """Values of a schedule; fractions in units of 2**-32.

    Attributes:
        paste_prob: probability of a paste, as it was set.
        fewest: smallest number of slots.
        most: largest number of slots.
        temperature: balance of classes.
        kept: part of ``paste_prob`` that the progress of training leaves.
    """

    paste_prob: int
    fewest: int
    most: int
    temperature: int
    kept: int

    @property
    def limits(self) -> tuple[int, int, int, int]:
        """See `segpaste.engine.DrawTables`."""
        return (self.paste_prob * self.kept + (_ONE >> 1)) // _ONE, self.fewest, self.most, self.temperature


def _named(state: Tensor) -> dict[str, Any]:
    """Return the values of a saved tensor by name."""
    num = len(_Values._fields)
    is_held = state.dtype in _HOLDING
    if state.shape != (num,) or not is_held or not bool(state.isfinite().all()):
        kind = str(state.dtype).removeprefix("torch.")
        raise ValueError(
            f"Schedule: expected a state of {num} finite numbers, got {state.tolist()} ({kind}); only int64, float64 "
            "and float32 hold them, so cast other tensors only, or remove the key from the checkpoint: the values are "
            "then the config's"
        )
    values = _Values(*(round(value) for value in state.tolist()))
    return {
        "paste_prob": values.paste_prob / _ONE,
        "k_range": (values.fewest, values.most),
        "class_temperature": values.temperature / _ONE,
        "kept": values.kept / _ONE,
    }


def _units(fraction: float | Fraction) -> int:
    """Return a fraction in units of 2**-32."""
    return round(fraction * _ONE)


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


def without_images(drawn: Drawn, images: Tensor | None) -> Drawn:
    """Return draws without_images those of some images, [B] bool."""
    if images is None:
        return drawn
    placement, counts = drawn
    placement = replace(
        placement,
        translate=placement.translate.masked_fill(images[:, None, None], 0),
        carried=placement.carried & ~images[:, None, None],
    )
    given = {field.name: getattr(counts, field.name) for field in fields(counts)}
    kept = {name: value.masked_fill(images, 0) for name, value in given.items() if value is not None}
    return placement, replace(counts, **kept)
