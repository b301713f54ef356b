"""Other tables of a COCO file for a dataset whose images keep their ids: with their new file names."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from segpaste.datasets.conversion.new_names import NewNames
from segpaste.datasets.entries import JsonRow
from segpaste.datasets.formats.references import OF_ANNOTATIONS, OF_OBJECTS, letters, number_of

_KEYED_BY_OBJECT = re.compile(".*(annotation|anno|instance|object|segment|(by|per)ann).*")


def kept_tables(tables: JsonRow, new_names: NewNames, keeps_annotation_ids: bool) -> tuple[JsonRow, Counter[str]]:
    """Return the other tables of a file with the new names of images, and what is left out of them.

    Args:
        tables: the tables.
        new_names: written names of the images. Ids of images do not change.
        keeps_annotation_ids: False if annotations are numbered again.
    """
    left_out = Counter(
        {
            f"table '{name}': {OF_ANNOTATIONS}": len(table) if isinstance(table, list | dict) else 1
            for name, table in tables.items()
            if not keeps_annotation_ids and refers_to_annotations(table, name)
        }
    )
    kept = {name: table for name, table in tables.items() if f"table '{name}': {OF_ANNOTATIONS}" not in left_out}
    return {name: new_names.in_table(table) for name, table in kept.items()}, left_out


def refers_to_annotations(value: Any, key: str = "") -> bool:
    """Return whether JSON has keys that name annotations by their ids."""
    if isinstance(value, dict):
        is_keyed = bool(value) and _KEYED_BY_OBJECT.fullmatch(letters(key)) and None not in map(number_of, value)
        return bool(is_keyed) or any(refers_to_annotations(item, name) for name, item in value.items())
    if isinstance(value, list):
        return any(refers_to_annotations(item, key) for item in value)
    return value is not None and OF_OBJECTS.fullmatch(letters(key)) is not None
