"""Whose a state is: facts that must agree before it is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def expect_own_state(owner: str, identity: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    """Refuse a state of another sampler, loader or run.

    Args:
        owner: who loads it.
        identity: the facts that decide what an epoch consists of, such as the seed and a digest of the labels.
        state: holds the facts of its maker under ``of``.

    Raises:
        ValueError: they differ; the message names each difference.
    """
    theirs = state.get("of") if isinstance(state, Mapping) else None
    if not isinstance(theirs, Mapping) or not {"epoch", "num_drawn"} <= set(state):
        raise ValueError(f"{owner}: expected a state made by state_dict of one like this, got {_shortened(state)}")
    differences = [
        f"{name} is {_shortened(theirs.get(name))} there and {_shortened(identity.get(name))} here"
        for name in dict.fromkeys([*identity, *theirs])
        if theirs.get(name) != identity.get(name)
    ]
    if differences:
        raise ValueError(
            f"{owner}: expected the state of one like this, got another's: {'; '.join(differences)}; "
            "load it into one that is made with the same arguments"
        )


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
