"""Facts that identify the owner of a state, and must be equal before the state is loaded."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from types import CodeType
from typing import Any

PLAIN = (bool, int, float, complex, str, bytes, type(None))
"""Types of values that are compared by their ``repr``."""


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
