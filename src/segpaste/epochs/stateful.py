"""Base class of objects whose state holds values of their own and the states of their parts.

Facts identify the owner of a state, and must be equal before the state is loaded.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from types import CodeType
from typing import Any, ClassVar

from torch import nn

from segpaste.seeding import check_uint64

PLAIN = (bool, int, float, complex, str, bytes, type(None))
"""Types of values that are compared by their ``repr``."""


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


def sampler_facts(sampler: Any) -> dict[str, Any]:
    """Return the known facts of any sampler that determine the content of an epoch."""
    if callable(identity := getattr(sampler, "identity", None)):
        facts: dict[str, Any] = identity()
        return facts
    known = {f"sampler_{name}": getattr(sampler, name, None) for name in ("seed", "shuffle", "replacement")}
    return {"sampler": type(sampler).__name__, **{k: v for k, v in known.items() if isinstance(v, bool | int)}}


def callable_facts(value: Any) -> str:
    """Describe a callable: its class or name and, for a function, a digest of its code and its plain values.

    The digest covers the code, the defaults, and numbers and strings in closures. It does not cover globals that the
    function uses, such as other functions.
    """
    if is_dataclass(value) and not isinstance(value, type):
        parts = [f"{field.name}={_plain(getattr(value, field.name))}" for field in fields(value)]
        return f"{type(value).__qualname__}({', '.join(parts)})"
    if isinstance(value, partial):
        named = [f"{name}={_plain(v)}" for name, v in sorted(value.keywords.items())]
        return f"partial({', '.join([callable_facts(value.func), *map(_plain, value.args), *named])})"
    code = getattr(value, "__code__", None)
    if code is None:
        return type(value).__qualname__
    cells = [_cell(cell) for cell in getattr(value, "__closure__", None) or ()]
    defaults = [*(value.__defaults__ or ()), *sorted((value.__kwdefaults__ or {}).items())]
    text = repr((_code(code), [_plain(v) for v in defaults], cells))
    return f"{value.__qualname__} with digest {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _code(code: CodeType) -> tuple[Any, ...]:
    return code.co_code, code.co_names, [_code(c) if isinstance(c, CodeType) else _plain(c) for c in code.co_consts]


def _cell(cell: Any) -> str:
    try:
        return _plain(cell.cell_contents)
    except ValueError:  # not assigned yet
        return "empty"


def _plain(value: Any) -> str:
    """Describe a value by its content if it is plain, else by its type, because addresses differ between runs."""
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_plain, value))})"
    if isinstance(value, frozenset | set):
        return f"{{{', '.join(sorted(map(_plain, value)))}}}"
    if isinstance(value, PLAIN):
        return repr(value)
    if isinstance(code := getattr(value, "__code__", None), CodeType):
        return repr((value.__qualname__, _code(code)))  # not its closure, which may hold the function itself
    return callable_facts(value) if is_dataclass(value) else type(value).__qualname__


def expect_own_state(owner: str, identity: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    """Reject a state of another sampler, loader or run, by the facts under its key ``of``.

    Raises:
        ValueError: the state holds no facts, or they differ.
    """
    theirs = state.get("of") if isinstance(state, Mapping) else None
    if not isinstance(theirs, Mapping) or not {"epoch", "num_drawn"} <= set(state):
        raise ValueError(f"{owner}: expected a state that its own state_dict returned, got {_shortened(state)}")
    expect_facts(owner, identity, theirs)


def expect_facts(owner: str, identity: Mapping[str, Any], theirs: Any) -> None:
    """Reject a state whose facts differ from those of its loader.

    Args:
        owner: name of the object that loads the state.
        identity: facts of the object that determine the content of an epoch, such as the seed and a digest of the
            labels.
        theirs: facts of the state.

    Raises:
        ValueError: the facts differ; the message names each difference.
    """
    if not isinstance(theirs, Mapping):
        raise ValueError(f"{owner}: expected a state that its own state_dict returned, got {_shortened(theirs)}")
    differences = [
        f"{name} is {_shortened(theirs.get(name))} in the state and {_shortened(identity.get(name))} here"
        for name in dict.fromkeys([*identity, *theirs])
        if theirs.get(name) != identity.get(name)
    ]
    if differences:
        raise ValueError(
            f"{owner}: expected the state of a run with the same settings, got one in which {'; '.join(differences)}; "
            "load it into an object that is created with the same arguments"
        )


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
