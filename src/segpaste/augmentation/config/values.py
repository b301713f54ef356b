"""Values of a configuration: those of a file, ``KEY=VALUE`` arguments that override them, and their errors."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from segpaste._invalid_values import expectation
from segpaste._utf8 import NotUtf8Error, decode_utf8
from segpaste.augmentation.config.base import LIKE, known_fields, merged, nearest_key

_Model = TypeVar("_Model", bound=BaseModel)
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


class ConfigError(ValueError):
    """A configuration that cannot be used; the message says why and what to do."""


class _KeyTwice(ValueError):
    """A table has a key twice; YAML and JSON would keep the last value silently."""

    def __init__(self, key: object) -> None:
        super().__init__(f"expected the key {key} once, got it twice; remove one")


@functools.cache
def _loader() -> type[Any]:
    """Return a `yaml.SafeLoader` that rejects a table with a key twice."""
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            seen = set()
            for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
                if isinstance(key, yaml.ScalarNode):
                    if (key.tag, key.value) in seen:
                        raise _KeyTwice(key.value)
                    seen.add((key.tag, key.value))
            return super().construct_mapping(node, deep)

    return Loader


def load_model(model: type[_Model], path: str | None, overrides: Mapping[str, str]) -> _Model:
    """Load the configuration of a YAML or JSON file, or the defaults; YAML values with dotted keys override it.

    Raises:
        ConfigError: the file does not parse, a key is unknown (the error names the nearest known key), or a value is
            invalid.
    """
    values = {} if path is None else read_file(Path(path))
    override(values, overrides, {key for key, kind in known_fields(model) if kind is str})
    return validated(model, values)


def validated(model: type[_Model], values: Mapping[str, Any]) -> _Model:
    """Return the configuration of these values; a `ConfigError` lists all that is wrong with them."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ConfigError(reasons(error, model)) from error


def reasons(error: ValidationError, model: type[BaseModel]) -> str:
    """Return all that is wrong with the values of a configuration, as one line.

    Of a list with invalid values only these are named, not that the others are too few.
    """
    items = error.errors()
    is_named = {item["loc"][:-1] for item in items}
    return "; ".join(
        explained(item, model) for item in items if item["type"] != "too_short" or item["loc"] not in is_named
    )


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested values by their dotted keys."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found


def read_file(path: Path) -> dict[str, Any]:
    """Read the keys and values of a YAML or JSON file.

    Raises:
        ConfigError: it does not parse, is not a table, or has a key twice.
        OSError: it cannot be read.
    """
    import yaml

    try:
        text = decode_utf8(path.read_bytes())
        values = json.loads(text, object_pairs_hook=_table) if path.suffix == ".json" else yaml.load(text, _loader())
    except _KeyTwice as error:
        raise ConfigError(f"{path}: {error}") from error
    except (yaml.YAMLError, json.JSONDecodeError) as error:
        raise ConfigError(f"{path}: expected YAML or JSON, got text that does not parse: {error}") from error
    except NotUtf8Error as error:
        raise ConfigError(f"{path}: {error}") from error
    if not isinstance(values, dict | None):
        raise ConfigError(f"{path}: expected keys and values, got a {type(values).__name__}; write KEY: VALUE lines")
    return values or {}


def override(values: dict[str, Any], overrides: Mapping[str, Any], texts: Collection[str] = ()) -> None:
    """Override nested values by others with dotted keys, of which texts are YAML; a table overrides a table key by key.

    Args:
        values: the nested values, changed in place.
        overrides: dotted keys to values.
        texts: keys of text, whose unquoted values are not parsed, since YAML reads ``no`` as False.

    Raises:
        ConfigError: a value does not parse, or a part of the key is not a table.
    """
    for key, text in overrides.items():
        *groups, last = key.split(".")
        inner = values
        for group in groups:
            found = inner.get(group)
            if not isinstance(found, dict | None):
                raise ConfigError(f"{key}: expected keys and values in {group}, got {found!r:.80}")
            inner[group] = inner = {} if found is None else found
        inner.update(merged(inner, {last: _parsed(key, text, key in texts) if isinstance(text, str) else text}))


def explained(item: Any, model: type[BaseModel]) -> str:
    """Return one of pydantic's errors as one line."""
    key = ".".join(str(part) for part in item["loc"])
    kind = item["type"]
    if kind == "extra_forbidden":
        return f"expected a key of the configuration, got {key!r}{_known_keys(model, key)}"
    if kind == "tuple_type":
        hint = _list_to_write(item, model)
        told = f"; write {key}={hint.replace(' ', '')}" if hint else ""  # a blank would end the word in a shell
        return f"{key}: expected a list in brackets, such as {_example(item, model)}, got {item['input']!r:.80}{told}"
    if (is_short := kind == "missing" and isinstance(item["loc"][-1], int)) or kind == "too_long":
        pair = ".".join(str(part) for part in item["loc"][: -1 if is_short else None])
        return f"{pair}: expected two numbers, such as {_example(item, model)}, got {item['input']!r:.80}"
    if kind == "missing":
        return f"{key}: expected this key, got none; give it, or leave {item['loc'][0]} out"
    prefix = f"{key}: " if key else ""  # messages of checks of several keys name them already
    return f"{prefix}{expectation(item)}{_keys_to_write(item, model)}"


def _known_keys(model: type[BaseModel], key: str) -> str:
    """Return text that names the key most similar to an unknown one, or, if none is, the keys of its group."""
    near, likeness = nearest_key(model, key)
    if likeness > LIKE:
        return f"; the nearest is {near!r}"
    group, keys = "", model.model_fields
    for part in key.split(".")[:-1]:
        inner = _model_of(keys[part].annotation) if part in keys else None
        if inner is None:
            break
        group, keys = f"{group}{part}.", inner.model_fields
    return f"; the keys {f'of {group[:-1]} ' if group else ''}are {', '.join(keys)}"


def _model_of(annotation: Any) -> type[BaseModel] | None:
    """Return the config that an annotation names, also within a union, or None; a table of configs is none."""
    kinds = (annotation, *(() if get_origin(annotation) is Mapping else get_args(annotation)))
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


def _keys_to_write(item: Any, model: type[BaseModel]) -> str:
    """Return text with the key that a value given to a whole group is meant for, such as the ``mode`` of it.

    A group that is off by default is also turned on.
    """
    if item["type"] in ("dict_type", "mapping_type"):
        return f"; write '{'.'.join(map(str, item['loc']))}={{KEY: VALUE}}' in quotes"
    if isinstance(item["input"], Mapping | BaseModel):  # not a value for the group, but values that do not fit together
        return ""
    group: type[BaseModel] | None = model
    for part in item["loc"]:
        fields = {} if group is None else group.model_fields
        group = _model_of(fields[part].annotation) if part in fields else None
    if group is None:
        return ""
    place, value = ".".join(item["loc"]), item["input"]
    meant = [name for name, field in group.model_fields.items() if value in get_args(field.annotation)]
    if isinstance(value, bool) or not meant:
        return f"; write {place}.KEY=VALUE, with one of the keys {', '.join(group.model_fields)}"
    prob = group.model_fields.get("prob")
    turn_on = f" {place}.prob=1" if prob is not None and prob.default == 0 else ""
    return f"; write {place}.{meant[0]}={value}{turn_on}"


def _example(item: Any, model: type[BaseModel]) -> str:
    """Return a valid list for the key of an error: its default, or a range of numbers."""
    value: Any = None
    annotation: Any = model
    for part in item["loc"]:
        group = _model_of(annotation)
        if group is None or part not in group.model_fields:
            break
        value, annotation = group.model_fields[part].default, group.model_fields[part].annotation
    if isinstance(value, tuple) and value:
        return _as_list(value)
    return "[0.5, 2]" if "float" in str(annotation) else "[1, 2]"


def _list_to_write(item: Any, model: type[BaseModel]) -> str | None:
    """Return the numbers in the text of a value as a list that the key takes, as given or sorted; None without one."""
    text = item["input"] if isinstance(item["input"], str) else ""
    numbers = [float(number) for number in _NUMBER.findall(text)]
    if not numbers or not set(_NUMBER.sub("", text)) <= set("()[]{}<>,;:- "):
        return None
    values: list[list[float] | list[int]] = [numbers, sorted(numbers)]
    if all(number.is_integer() for number in numbers):
        values = [[int(number) for number in found] for found in values]
    for found in values:
        nested: Any = found
        for part in reversed(item["loc"]):
            nested = {part: nested}
        try:
            model.model_validate(nested)
        except ValidationError as error:
            if any(other["loc"][: len(item["loc"])] == item["loc"] for other in error.errors()):
                continue
        return _as_list(found)
    return None


def _as_list(values: Sequence[Any]) -> str:
    """Return numbers or texts as a list of YAML, numbers as short as possible."""
    return f"[{', '.join(f'{v:g}' if isinstance(v, float) else str(v) for v in values)}]"


def _parsed(key: str, text: str, is_text: bool) -> Any:
    if is_text and text[:1] not in ("'", '"'):
        return text
    import yaml

    try:
        value = yaml.load(text, _loader())
    except _KeyTwice as error:
        raise ConfigError(f"{key}: {error}") from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError: an invalid date
        raise ConfigError(f"{key}: expected a value such as 3, true, boxes or [0.5, 1.5], got {text!r}") from error
    if isinstance(value, dict) and None in value.values() and re.search(r"[^\s:'\"]:[^\s:]", text):
        spaced = re.sub(r":(?=\S)", ": ", text)  # YAML reads {1:2} as a key without a value
        raise ConfigError(f"{key}: expected a blank after each colon, got {text!r}; write '{key}={spaced}' in quotes")
    return value


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the dictionary of a JSON object."""
    values = dict(pairs)
    if len(values) != len(pairs):
        keys = [key for key, _ in pairs]
        raise _KeyTwice(next(key for key in keys if keys.count(key) > 1))
    return values
