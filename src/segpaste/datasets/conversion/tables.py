"""Other tables of a COCO file for a dataset whose images keep their ids: with their new file names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from segpaste.datasets.contract import JsonRow
from segpaste.datasets.formats.references import OF_ANNOTATIONS, OF_OBJECTS, letters, number_of

_KEYED_BY_OBJECT = re.compile(".*(annotation|anno|instance|object|segment|(by|per)ann).*")


def kept_tables(
    tables: JsonRow, new_names: Mapping[str, str], keeps_annotation_ids: bool
) -> tuple[JsonRow, Counter[str]]:
    """Return the other tables of a file with the new names of images, and what is left out of them.

    Args:
        tables: the tables.
        new_names: written file name of each image. Ids of images do not change.
        keeps_annotation_ids: False if annotations are numbered again.
    """
    names = {old: new for old, new in new_names.items() if old != new}
    short = Counter(PurePosixPath(old).name for old in new_names)
    last = {PurePosixPath(old).name: new for old, new in names.items()}
    names = {word: PurePosixPath(new).name for word, new in last.items() if short[word] == 1} | names
    left_out = Counter(
        {
            f"table '{name}': {OF_ANNOTATIONS}": len(table) if isinstance(table, list | dict) else 1
            for name, table in tables.items()
            if not keeps_annotation_ids and refers_to_annotations(table, name)
        }
    )
    kept = {name: table for name, table in tables.items() if f"table '{name}': {OF_ANNOTATIONS}" not in left_out}
    return {name: renamed(table, names) if names else table for name, table in kept.items()}, left_out


def renamed(value: Any, new_names: Mapping[str, str]) -> Any:
    """Return JSON with new names of images, in texts and keys that are such names."""
    if isinstance(value, list):
        return [renamed(item, new_names) for item in value]
    if isinstance(value, dict):
        return {new_names.get(key, key): renamed(item, new_names) for key, item in value.items()}
    return new_names.get(value, value) if isinstance(value, str) else value


def texts_of(value: Any) -> Iterator[str]:
    """Yield the texts in JSON, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        yield from value if isinstance(value, dict) else ()
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts_of(item)


def refers_to_annotations(value: Any, key: str = "") -> bool:
    """Return whether JSON has keys that name annotations by their ids."""
    if isinstance(value, dict):
        is_keyed = bool(value) and _KEYED_BY_OBJECT.fullmatch(letters(key)) and None not in map(number_of, value)
        return bool(is_keyed) or any(refers_to_annotations(item, name) for name, item in value.items())
    if isinstance(value, list):
        return any(refers_to_annotations(item, key) for item in value)
    return value is not None and OF_OBJECTS.fullmatch(letters(key)) is not None
