"""Base class of objects whose state holds values of their own and the states of their parts."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, ClassVar

from torch import nn

from segpaste.seeding import check_uint64


class Stateful:
    """Object with ``state_dict`` and ``load_state_dict``, which checks everything before it changes anything."""

    state_numbers: ClassVar[tuple[str, ...]] = ()
    """Names of attributes, integers >= 0, that the state holds."""

    @property
    def owner(self) -> str:
        """Name of the object in errors and warnings."""
        return type(self).__name__

    def state_dict(self, num_drawn: int | None = None) -> dict[str, Any]:
        """Return the place after the last yielded item, and the facts of the object; the same on every rank.

        Args:
            num_drawn: number of items of this epoch that were used, for a sampler in a plain DataLoader, whose workers
                read ahead. The loaders of this package count the items that they yield.

        Raises:
            ValueError: ``num_drawn`` was given, but the object has parts, which count by themselves.
        """
        parts = self.state_parts()
        if parts and num_drawn is not None:
            raise ValueError(f"{self.owner}: expected no num_drawn, as its parts count by themselves, got {num_drawn}")
        values = self.state_values(num_drawn)  # first, because it may adopt another epoch
        numbers = {name: getattr(self, name) for name in self.state_numbers}
        return {**values, **numbers, **{name: _state_of(part) for name, part in parts.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load a state: the next pass yields the remaining items; `len` is still that of a whole epoch.

        Raises:
            ValueError: the state belongs to an object with other arguments or other data; the message names them.
                Nothing is changed.
        """
        self.expect_state(state)
        for name, part in self.state_parts().items():
            if part is not None:
                part.load_state_dict(state[name])
        for name in self.state_numbers:
            setattr(self, name, state[name])
        self.take_values(state)

    def expect_state(self, state: Any) -> None:
        """Check a state as `load_state_dict` does, and change nothing.

        Raises:
            ValueError: see `load_state_dict`.
        """
        self.expect_values(state)
        for name in self.state_numbers:
            check_uint64(state.get(name), name)
        expect_parts(self.owner, state, self.state_parts())

    def state_parts(self) -> dict[str, Any]:
        """Return the parts by their keys in the state; None for a part without a state."""
        return {}

    def state_values(self, num_drawn: int | None) -> dict[str, Any]:
        """Return the other values of the state; see `state_dict` for ``num_drawn``."""
        return {}

    def expect_values(self, state: Any) -> None:
        """Check the values that `state_values` returned.

        Raises:
            ValueError: a value is wrong; the message says what was expected.
        """

    def take_values(self, state: Mapping[str, Any]) -> None:
        """Load the values that `state_values` returned from a checked state; the parts are loaded already."""


def has_state(value: Any) -> bool:
    """Return whether a loader of any package has a state."""
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


def expect_parts(owner: str, state: Mapping[str, Any], parts: Mapping[str, Any]) -> None:
    """Check the parts of a state: by ``expect_state`` if a part has it, torch modules by a load that is undone.

    Args:
        owner: name of the object that loads the state.
        state: state of an object with parts.
        parts: parts by their keys in the state; None for a part without a state.

    Raises:
        ValueError: a part is missing, or its state belongs to another part. Nothing is changed.
    """
    for name, part in parts.items():
        if name not in state or (part is None) != (state[name] is None):
            there = "none" if state.get(name) is None else "one"
            here = "none" if part is None else "one"
            raise ValueError(
                f"{owner}: expected a state with {here} of {name}, got {there}; load it into a loader that is created "
                "with the same arguments"
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
