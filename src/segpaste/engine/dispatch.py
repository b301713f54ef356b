"""The engine that runs here: in eager code the backend of the device, in compiled code operators that call it."""

from __future__ import annotations

from typing import cast

import torch

from segpaste.engine.select import Engine, eager_engine
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
