"""A configuration as text to copy: YAML for ``--config``, Python, and words of a command line.

Each contains only what differs from the defaults or from a preset. Reading it back gives the same configuration.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml
from pydantic import BaseModel

from segpaste.augmentation import BatchCopyPasteConfig, PlacementConfig
from segpaste.viz.preview.controls import LEAVES

_OF_PRESET = "# A preset also has a jitter, which is not a key of a config: see the command line.\n"
_PASTE_ALONE = "# The paste alone: dataset, jitter, seed and balance are in the command line."
_EVERY_IMAGE = "# Pastes into every image, as on the page; without paste_prob, into half of them."
_LINE = 88


def plain(value: Any) -> Any:
    """Return the value of a field in the types of YAML and JSON: numbers, texts, lists and tables."""
    if isinstance(value, BaseModel):
        return {name: plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, tuple | list) else value


def leaves_of(config: BaseModel, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted key and the value of every field of a config and of its groups."""
    for name in type(config).model_fields:
        value = getattr(config, name)
        if isinstance(value, BaseModel) and not isinstance(value, LEAVES):
            yield from leaves_of(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def differences(config: BatchCopyPasteConfig, base: BatchCopyPasteConfig) -> dict[str, Any]:
    """Return the values, by dotted key, in which a config differs from another one."""
    before = dict(leaves_of(base))
    if before["placement.scale_range"] == PlacementConfig.model_fields["scale_range"].default:
        before["placement.scale_range"] = _scale_unless_given(config.placement)
    return {key: value for key, value in leaves_of(config) if key not in before or before[key] != value}


def as_yaml(config: BatchCopyPasteConfig, base: BatchCopyPasteConfig, *, of_preset: bool = False) -> str:
    """Return a file for ``--config`` with the values that differ from ``base``, the defaults for the same dataset.

    For a preset it begins with a comment about its jitter, which is not in the file.
    """
    comment = _OF_PRESET if of_preset else ""
    nested: dict[str, Any] = {}
    for key, value in differences(config, base).items():
        *groups, last = key.split(".")
        inner = nested
        for group in groups:
            inner = inner.setdefault(group, {})
        inner[last] = plain(value)
    if not nested:
        return f"{comment}# every option has its default\n"
    return comment + yaml.safe_dump(nested, sort_keys=False, default_flow_style=None, allow_unicode=True)


def as_words(config: BatchCopyPasteConfig, base: BatchCopyPasteConfig) -> list[str]:
    """Return the values that differ from ``base`` as ``KEY=VALUE`` words of a command line."""
    return [f"{key}={flow(value)}" for key, value in differences(config, base).items()]


def as_command(start: Sequence[str], words: Sequence[str]) -> str:
    """Return a command for a POSIX shell, in lines that end with a backslash."""
    lines = [""]
    for quoted in map(shlex.quote, [*start, *words]):
        if lines[-1] and len(lines[-1]) + len(quoted) >= _LINE:
            lines.append("   ")
        lines[-1] = f"{lines[-1]} {quoted}" if lines[-1] else quoted
    return " \\\n".join(lines) + "\n"


def as_python(config: BatchCopyPasteConfig) -> str:
    """Return a program that makes the config and the module that pastes."""
    names: set[str] = set()
    call = "\n".join(_call(config, names))
    others = sorted(names - {"BatchCopyPasteConfig"})
    imports = ["from segpaste import BatchCopyPaste, BatchCopyPasteConfig"]
    imports += [f"from segpaste.augmentation import {', '.join(others)}"] if others else []
    comments = [_PASTE_ALONE, *([_EVERY_IMAGE] if config.placement.paste_prob == 1 else [])]
    return "\n".join([*comments, *imports, "", f"config = {call}", "augment = BatchCopyPaste(config)", ""])


def flow(value: Any) -> str:
    """Return a value as YAML on one line."""
    text = yaml.safe_dump(plain(value), default_flow_style=True, width=float("inf"), sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


def _call(config: BaseModel, names: set[str]) -> list[str]:
    """Return the lines of a constructor call with the values that are no defaults; add its class to ``names``."""
    names.add(type(config).__name__)
    lines = []
    for name, info in type(config).model_fields.items():
        value = getattr(config, name)
        default = info.default
        if isinstance(config, PlacementConfig) and name == "scale_range":
            default = _scale_unless_given(config)
        if not info.is_required() and value == default:
            continue
        first, *others = _call(value, names) if isinstance(value, BaseModel) else [_literal(value, names)]
        lines += [f"{name}={first}", *others]
        lines[-1] += ","
    name = type(config).__name__
    return [f"{name}()"] if not lines else [f"{name}(", *(f"    {line}" for line in lines), ")"]


def _scale_unless_given(place: PlacementConfig) -> tuple[float, float]:
    """Return the default scale of a placement, which depends on its position."""
    return PlacementConfig.model_validate({"position": place.position}).scale_range


def _literal(value: Any, names: set[str]) -> str:
    """Return the Python literal of a value; configs in a table are calls on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_literal(item, names)}" for key, item in value.items()) + "}"
    if isinstance(value, BaseModel):
        names.add(type(value).__name__)
        given = ", ".join(f"{name}={getattr(value, name)!r}" for name in type(value).model_fields)
        return f"{type(value).__name__}({given})"
    return repr(value)
