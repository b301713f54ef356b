"""Texts for `repr`: shapes, counts and options of an object in a line.

They read no value of a tensor and no file, wait for no device, and never fail: what cannot be told, such as the length
of an object that is not finished, is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

_MOST_CHARACTERS = 60

Part = str | Callable[[], Any] | None


def described(value: object, *parts: Part) -> str:
    """Return the name of an object's class with parts in brackets.

    Args:
        value: the object.
        parts: texts, or functions that return a part or yield parts; None and what fails is left out.
    """
    return f"{type(value).__name__}({', '.join(_told(parts))})"


def counted(num: int, name: str, names: str = "") -> str:
    """Return a number with what it counts; ``names`` is the plural if it is not the name with an s."""
    return f"{num:,} {name if num == 1 else names or name + 's'}"


def tensor_text(tensor: Any) -> str:
    """Return dtype and shape of a tensor, and its device if that is not the CPU."""
    device = "" if tensor.device.type == "cpu" else f" {tensor.device}"
    return f"{str(tensor.dtype).removeprefix('torch.')} [{', '.join(map(str, tensor.shape))}]{device}"


def changed_keys(model: Any, usual: Any = None, prefix: str = "") -> Iterator[str]:
    """Yield ``key=value`` for each key of a pydantic model that is not its default, nested keys with dots.

    Args:
        model: the model.
        usual: model to compare with; None for the defaults of the class.
        prefix: text before each key.
    """
    from pydantic import BaseModel

    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        default = field.get_default(call_default_factory=True) if usual is None else getattr(usual, name)
        if not field.is_required() and value == default:
            continue
        if isinstance(value, BaseModel):
            yield from changed_keys(value, default if type(default) is type(value) else None, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}={shortened(value)}"


def inner(value: object) -> str:
    """Return the text of an object of this package, or the name of the class of another one."""
    return repr(value) if type(value).__module__.partition(".")[0] == "segpaste" else type(value).__name__


def shortened(value: object) -> str:
    """Return the start of the text of a value."""
    text = str(value)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 3]}..."


def _told(parts: Iterable[Part]) -> Iterator[str]:
    """Yield the texts of parts, up to one that fails."""
    try:
        for part in parts:
            if callable(part):
                yield from _told_by(part)
            elif part:
                yield part
    except Exception:  # a repr is printed while errors are looked for
        return


def _told_by(part: Callable[[], Any]) -> Iterator[str]:
    try:
        found = part()
    except Exception:
        return
    yield from _told([found] if isinstance(found, str | None) else found)
