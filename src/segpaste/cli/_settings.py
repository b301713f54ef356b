"""The paste configuration of a command: a file, then ``KEY=VALUE`` words over it, then what the dataset knows."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from segpaste.augmentation import BatchCopyPasteConfig, PanopticTaxonomy
from segpaste.augmentation.strict import merged
from segpaste.cli._errors import CommandError
from segpaste.presets import Preset, get_preset
from segpaste.types import PanopticSchema


def load_config(
    path: str | None,
    overrides: Mapping[str, str],
    schema: PanopticSchema | None = None,
    preset: str | None = None,
    *,
    of_bank: bool = False,
) -> BatchCopyPasteConfig:
    """Make the configuration.

    Args:
        path: a YAML or JSON file, or None for the defaults.
        overrides: dotted keys such as ``placement.scale_range`` to values in YAML, such as ``[0.5, 1.5]``.
        preset: the name of one, or a file that one was saved in, under all that is given.
        schema: the dataset's things and stuff; used where the configuration does not say which they are.
        of_bank: objects are taken from a bank that was given.

    Raises:
        CommandError: a file that does not parse, an unknown key (naming the nearest known one) or a bad value;
            a source of another kind than ``of_bank`` says; or masks are closed out, which every command shows or
            writes.
    """
    values = {} if preset is None else _of_preset(preset)
    if path is not None:
        values = merged(values, _read(Path(path)))
    for key, text in overrides.items():
        _set(values, key, _parsed(key, text))
    if of_bank:
        source = values.setdefault("source", {})
        if isinstance(source, dict):
            source.setdefault("kind", "bank")
    if schema is not None:
        panoptic = values.setdefault("panoptic", {})
        if isinstance(panoptic, dict):
            given = panoptic.setdefault("taxonomy", {})
            if isinstance(given, dict):
                panoptic["taxonomy"] = {**_taxonomy(schema), **given}
    try:
        config = BatchCopyPasteConfig.model_validate(values)
    except ValidationError as error:
        raise CommandError("; ".join(_explained(item) for item in error.errors())) from error
    if (config.source.kind == "bank") != of_bank:
        wanted = "bank, for --bank is given" if of_bank else "intra_batch, for no --bank is given"
        raise CommandError(f"source.kind: expected {wanted}, got {config.source.kind}")
    if config.emit_instance is False:
        raise CommandError("emit_instance: expected masks in the output, got false; leave it out")
    return config


def _of_preset(name: str) -> dict[str, Any]:
    """What a preset that is known by its name, or saved in a file, says of the paste."""
    if Path(name).suffix in (".yaml", ".yml", ".json"):
        return _saved_preset(Path(name)).config.model_dump(exclude_defaults=True)
    try:
        return get_preset(name).config.model_dump(exclude_defaults=True)
    except ValueError as error:
        raise CommandError(f"--preset: {str(error).removeprefix('get_preset: ')}") from error


def _saved_preset(path: Path) -> Preset:
    """What `Preset.save` wrote."""
    values, names = _read(path), Preset.model_fields
    if not {"name", "config"} <= values.keys() <= names.keys():
        raise CommandError(
            f"--preset: {path}: expected a preset, with the keys {', '.join(names)}, got "
            f"{', '.join(values) or 'none'}; a paste configuration is given with --config"
        )
    try:
        return Preset.model_validate(values)
    except ValidationError as error:
        raise CommandError(f"--preset: {path}: {'; '.join(_explained(item) for item in error.errors())}") from error


def known_keys(model: type[BaseModel] = BatchCopyPasteConfig, prefix: str = "") -> Iterator[str]:
    """Every dotted key that a configuration has."""
    for name, field in model.model_fields.items():
        is_table = get_origin(field.annotation) is Mapping
        options = () if is_table else (field.annotation, *get_args(field.annotation))
        nested = [o for o in options if isinstance(o, type) and issubclass(o, BaseModel)]
        if nested:
            yield from known_keys(nested[0], f"{prefix}{name}.")
        else:
            yield prefix + name


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by their dotted keys."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        values = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (yaml.YAMLError, json.JSONDecodeError) as error:
        raise CommandError(f"{path}: expected YAML or JSON, got text that does not parse: {error}") from error
    except UnicodeDecodeError as error:
        raise CommandError(
            f"{path}: expected YAML or JSON in UTF-8, got other bytes; is this the right file?"
        ) from error
    if not isinstance(values, dict | None):
        raise CommandError(f"{path}: expected keys and values, got a {type(values).__name__}; write KEY: VALUE lines")
    return values or {}


def _parsed(key: str, text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise CommandError(f"{key}: expected a value such as 3, true, boxes or [0.5, 1.5], got {text!r}") from error


def _set(values: dict[str, Any], key: str, value: Any) -> None:
    *groups, last = key.split(".")
    for group in groups:
        inner = values.get(group)
        values[group] = values = inner if isinstance(inner, dict) else {}
    values[last] = value


def _taxonomy(schema: PanopticSchema) -> dict[str, Any]:
    return {name: getattr(schema, name) for name in PanopticTaxonomy.model_fields}


def _explained(item: Any) -> str:
    """One of pydantic's errors in one line."""
    key = ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        near = difflib.get_close_matches(key, known_keys(), n=1, cutoff=0.0)[0]
        return f"expected a key of the configuration, got {key!r}; the nearest is {near!r}"
    message = item["msg"].removeprefix("Value error, ")
    if item["type"] == "missing":
        return f"{key}: {message}; give it, or leave {item['loc'][0]} out"
    got = "" if ", got " in message else f", got {item['input']!r:.80}"
    return f"{key}: {message[:1].lower()}{message[1:]}{got}"
