"""States that consist of values of their own and of the states of parts."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, ClassVar

from torch import nn

from segpaste.seeding import check_uint64


class Stateful:
    """An object with ``state_dict`` and ``load_state_dict``. A load checks everything before it changes anything."""

    state_numbers: ClassVar[tuple[str, ...]] = ()
    """Attributes, integers >= 0, that a state holds under their names."""

    @property
    def owner(self) -> str:
        """What errors and warnings call it."""
        return type(self).__name__

    def state_dict(self, num_drawn: int | None = None) -> dict[str, Any]:
        """The place after the item that was yielded last, and whose it is. It is the same on every rank.

        Args:
            num_drawn: items of this epoch that were used, where the training loop knows better: the workers of a plain
                DataLoader read a sampler ahead. The loaders of this package count what they yield.

        Raises:
            ValueError: ``num_drawn`` was given to one of several parts, which count by themselves.
        """
        parts = self.state_parts()
        if parts and num_drawn is not None:
            raise ValueError(f"{self.owner}: expected no num_drawn, for its parts count by themselves, got {num_drawn}")
        values = self.state_values(num_drawn)  # first, for it may find that another epoch was set
        numbers = {name: getattr(self, name) for name in self.state_numbers}
        return {**values, **numbers, **{name: _state_of(part) for name, part in parts.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume there: the next pass gives what is left, though `len` stays that of a whole epoch.

        Raises:
            ValueError: the state is of one with other arguments or other data; the message says which. Nothing is
                changed.
        """
        self.expect_state(state)
        for name, part in self.state_parts().items():
            if part is not None:
                part.load_state_dict(state[name])
        for name in self.state_numbers:
            setattr(self, name, state[name])
        self.take_values(state)

    def expect_state(self, state: Any) -> None:
        """Check what `load_state_dict` would load, and change nothing.

        Raises:
            ValueError: as `load_state_dict` does.
        """
        self.expect_values(state)
        for name in self.state_numbers:
            check_uint64(state.get(name), name)
        expect_parts(self.owner, state, self.state_parts())

    def state_parts(self) -> dict[str, Any]:
        """What has a state of its own, by its key in the state; None stands for one without a state."""
        return {}

    def state_values(self, num_drawn: int | None) -> dict[str, Any]:
        """What else a state holds; ``num_drawn`` is that of `state_dict`."""
        return {}

    def expect_values(self, state: Any) -> None:
        """Refuse a state with other values than `state_values` could give.

        Raises:
            ValueError: the message says what was expected.
        """

    def take_values(self, state: Mapping[str, Any]) -> None:
        """Take what `state_values` gave from a state that was checked; the parts have theirs."""


def has_state(value: Any) -> bool:
    """Return whether a loader of any make has a state."""
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


def expect_parts(owner: str, state: Mapping[str, Any], parts: Mapping[str, Any]) -> None:
    """Check the parts of a state, those that say how to, and torch modules by a load that is undone.

    Args:
        owner: who loads it.
        state: of a loader that consists of several.
        parts: under their keys in the state; None stands for one without a state.

    Raises:
        ValueError: a part is missing, or its state is another's. Nothing is changed.
    """
    for name, part in parts.items():
        if name not in state or (part is None) != (state[name] is None):
            there = "none" if state.get(name) is None else "one"
            here = "none" if part is None else "one"
            raise ValueError(
                f"{owner}: expected a state that has, as this one has, {here} of {name}, got {there}; load it into a "
                "loader that is made with the same arguments"
            )
        if hasattr(part, "expect_state"):
            part.expect_state(state[name])
        elif isinstance(part, nn.Module):
            before = copy.deepcopy(part.state_dict())
            try:
                part.load_state_dict(state[name])
            finally:
                part.load_state_dict(before)


def _state_of(part: Any) -> Any:
    if part is None:
        return None
    return dict(part.state_dict()) if isinstance(part, nn.Module) else part.state_dict()
