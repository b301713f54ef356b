"""Options of a paste, and which of their values random configs use; `hostile_batches` demands each of them.

Options and choices are read from the config models, so that a new option is missed until `hostile_configs` draws it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from segpaste import BatchCopyPasteConfig

NONE, GIVEN, DEFAULT, OTHER = "none", "given", "default", "other"

FIXED = ("panoptic.taxonomy.ignore_index",)
"""Options that accept no value but their default."""

Counts = dict[str, dict[str, int]]
"""Number of batches by dotted option, such as ``placement.layers``, and by value; see `choices`."""


def empty_counts() -> Counts:
    """Return zero for every value of every option."""
    return {key: dict.fromkeys(values, 0) for key, values in known_values(BatchCopyPasteConfig)}


def add(counts: Counts, config: BatchCopyPasteConfig, num: int = 1) -> None:
    """Count the values of a config."""
    for key, value in used_values(config):
        counts[key][value] += num


def unused(counts: Counts) -> list[str]:
    """Return the values that were never counted, such as ``placement.layers=other``."""
    return [f"{key}={value}" for key, values in counts.items() for value, num in values.items() if num == 0]


def known_values(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, list[str]]]:
    """Yield every dotted option of a config, and the values that are told apart."""
    for name, field in model.model_fields.items():
        if found := choices(prefix + name, field):
            yield prefix + name, found
        for nested in filter(_is_group, _parts(field.annotation)):
            yield from known_values(nested, f"{prefix}{name}.")


def used_values(config: BaseModel, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield every option that a config has, and which of the `choices` its value is."""
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        if found := choices(prefix + name, field):
            yield prefix + name, _choice(value, field, found)
        if isinstance(value, BaseModel):
            yield from used_values(value, f"{prefix}{name}.")


def choices(key: str, field: FieldInfo) -> list[str]:
    """Return the values of an option that are told apart; nothing for a group that is always there.

    Each choice, True and False, and None where it is allowed. Of numbers, ranges, tables and names, whether the value
    is the default, or that there is one where the default is None or missing.
    """
    parts, found = _parts(field.annotation), list[str]()
    if len(parts) == 1 and _is_group(parts[0]):
        return []
    for part in parts:
        if part is NoneType:
            found.append(NONE)
        elif part is bool:
            found += ["true", "false"]
        elif get_origin(part) is Literal:
            found += get_args(part)
        elif field.is_required() or field.default is None:
            found.append(GIVEN)
        else:
            found += [DEFAULT] if key in FIXED else [DEFAULT, OTHER]
    return found


def _choice(value: Any, field: FieldInfo, found: list[str]) -> str:
    if value is None:
        return NONE
    if (named := str(value).lower() if isinstance(value, bool) else value) in found:
        return str(named)
    if GIVEN in found:
        return GIVEN
    return DEFAULT if value == field.get_default(call_default_factory=True) else OTHER


def _parts(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def _is_group(annotation: Any) -> bool:
    is_table = get_origin(annotation) is Mapping
    return not is_table and isinstance(annotation, type) and issubclass(annotation, BaseModel)
