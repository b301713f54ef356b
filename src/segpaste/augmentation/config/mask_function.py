"""Masks of objects that have boxes only: the choices of ``source.mask_from``, and custom functions by name.

A config is saved as text, so it holds the name of a function, not the function. Loading the config imports the
function's module: load configs and replay records only from sources whose code you would run.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol

from torch import Tensor

MASKS_OF_BOXES = ("boxes", "ellipse")


class MaskFunction(Protocol):
    """A function that makes masks. It must be pure, and defined at the top level of a module."""

    def __call__(self, images: Tensor, boxes: Tensor, instance_valid: Tensor) -> Tensor:
        """Return the masks of the boxes of a batch.

        Args:
            images: [B, C, H, W], as in the batch.
            boxes: [B, K, 4] float32, xyxy.
            instance_valid: [B, K] bool, slots that hold an object.

        Returns:
            [B, K, H, W] bool. Pixels outside of an object's box, rounded outwards to whole pixels, are cut off; an
            object without a pixel gets its filled box.
        """
        ...


_functions: dict[str, MaskFunction] = {}


def checked_mask_from(value: object) -> object:
    """Check that a value is a choice, a function or the name of one; return it, or the name of the function.

    Raises:
        ValueError: it is neither a choice nor a function that can be imported by name.
    """
    if value is None or value in MASKS_OF_BOXES:
        return value
    if callable(value):
        name = f"{getattr(value, '__module__', None)}:{getattr(value, '__qualname__', value)}"
        if _found(name) is not value:
            raise ValueError(f"expected a function at the top level of a module, to import it by name, got {name}")
        value = name
    if not isinstance(value, str) or ":" not in value:
        raise ValueError(f"expected one of {', '.join(MASKS_OF_BOXES)}, or package.module:function, got {value!r:.60}")
    if not callable(function := _found(value)):
        raise ValueError(f"expected the name package.module:function of a function, found none at {value!r:.100}")
    _functions[value] = function
    return value


def mask_function(name: str) -> MaskFunction:
    """Return the function that a config names; a config that was pickled elsewhere imports it now."""
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
