"""The engine that runs here: in eager code the backend of the device, in compiled code operators that call it."""

from __future__ import annotations

from typing import cast

import torch

from segpaste.engine.select import Engine, SteppingEngine, eager_engine
from segpaste.types.tracing import is_traced


def engine_for(device: torch.device) -> Engine:
    """Return the backend of a device; in compiled code, operators that call it.

    Raises:
        ValueError: ``SEGPASTE_BACKEND`` is not the name of a backend.
    """
    if is_traced():
        from segpaste.engine import operators

        return cast(Engine, operators)
    return eager_engine(device)


def stepping(engine: Engine) -> SteppingEngine | None:
    """Return a backend if it runs steps in one call, else None; the operators of compiled code do not."""
    return cast(SteppingEngine, engine) if hasattr(engine, "step") else None
