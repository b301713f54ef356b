"""Masks of objects that have boxes alone: the choices of ``source.mask_from``, and functions of one's own by name.

A config is saved as text, so it holds the name of a function and not the function. Naming one imports its module: load
configs and replay records only from where you would load code.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol

from torch import Tensor

MASKS_OF_BOXES = ("boxes", "ellipse")


class MaskFunction(Protocol):
    """A function that makes masks. It must be a pure one, defined at the top of a module."""

    def __call__(self, images: Tensor, boxes: Tensor, instance_valid: Tensor) -> Tensor:
        """Return the masks of the boxes of a batch.

        Args:
            images: [B, C, H, W], as in the batch.
            boxes: [B, K, 4] float32, xyxy.
            instance_valid: [B, K] bool: which slots have an object.

        Returns:
            [B, K, H, W] bool. What is outside of its box, rounded outwards to whole pixels, is cut off; an object
            without a pixel gets its filled box.
        """
        ...


_functions: dict[str, MaskFunction] = {}


def checked_mask_from(value: object) -> object:
    """Return a choice, or the name of a function.

    Raises:
        ValueError: it is none of the choices, or no function has that name.
    """
    if value is None or value in MASKS_OF_BOXES:
        return value
    if callable(value):
        name = f"{getattr(value, '__module__', None)}:{getattr(value, '__qualname__', value)}"
        if _found(name) is not value:
            raise ValueError(f"expected a function at the top of a module, which can be imported by name, got {name}")
        value = name
    if not isinstance(value, str) or ":" not in value:
        raise ValueError(f"expected one of {', '.join(MASKS_OF_BOXES)}, or package.module:function, got {value!r:.60}")
    if not callable(function := _found(value)):
        raise ValueError(f"expected the name package.module:function of a function, found none at {value!r:.100}")
    _functions[value] = function
    return value


def mask_function(name: str) -> MaskFunction:
    """Return the function of a name that a config has; a config that was pickled elsewhere imports it now."""
    if name not in _functions:
        checked_mask_from(name)
    return _functions[name]


def _found(name: str) -> MaskFunction | None:
    module, _, attribute = name.partition(":")
    try:
        found: MaskFunction | None = getattr(import_module(module), attribute, None)
    except (ImportError, ValueError):
        return None
    return found
