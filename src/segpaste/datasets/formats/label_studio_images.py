"""Images of a Label Studio task, and the results on each of them.

A result names the tag of its image (``to_name``) and, for a list of images, the position in it (``item_index``, from
0). An export has no configuration with the key of each tag in ``data``: it is that of the same name, or the only image.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from segpaste.datasets.contract import JsonRow
from segpaste.datasets.errors import DatasetError

_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".avif", ".jfif", ".jp2")
_SIZE = ("original_width", "original_height")

Results = list[Any]


def tags_of(results: Iterable[Any]) -> list[str]:
    """Return the tags of the images that regions are drawn on, each once."""
    return list(dict.fromkeys(str(result.get("to_name", "")) for result in results if _is_region(result)))


def split_by_image(where: str, data: Mapping[str, Any], results: Results, tags: Iterable[str]) -> dict[str, Results]:
    """Return the results of each image of a task, by its address, in the order of ``data``.

    Results about no image, such as relations, are those of the first image.

    Args:
        where: text at the start of errors.
        data: the values of the task.
        results: the results of its annotation.
        tags: the tags of all tasks of the file; their images are those of the task.

    Raises:
        DatasetError: there is no image, or the image of a result is ambiguous or missing.
    """
    own, listed = tags_of(results), {str(r.get("to_name", "")) for r in results if _is_region(r) and "item_index" in r}
    keys: dict[str, str] = {}
    for tag in dict.fromkeys([*own, *tags]):
        key = _key_of(data, tag, is_only=len({*own, *tags}) == 1, has_items=tag in listed)
        if key is None and tag in own:
            names = ", ".join(_images_in(data)) or "none"
            raise DatasetError(
                f"{where}: expected the address of an image in 'data' under the name of its tag {tag!r} (to_name), got "
                f"{names}; add it as {tag!r}, or rename the key"
            )
        if key is not None:
            keys[tag] = key
    shown = [key for key in data if key in keys.values()] or list(_images_in(data))[:1]
    if not shown:
        raise DatasetError(f"{where}: expected the address of an image in 'data', got {data!r:.60}; add it as 'image'")
    found: dict[str, Results] = {address: [] for key in shown for address in _addresses(data[key])}
    first = next(iter(found))
    for result in results:
        key = keys.get(str(result.get("to_name", ""))) if isinstance(result, dict) else None
        place = first if key is None else _address(where, data[key], result)
        found[place].append(result)
    return found


def _key_of(data: Mapping[str, Any], tag: str, *, is_only: bool, has_items: bool) -> str | None:
    """Return the key of the image that a tag shows; None if it is missing or ambiguous."""
    images = _images_in(data)
    lists = [key for key in images if isinstance(data[key], list)]
    if has_items and tag not in lists and len(lists) == 1:
        return lists[0]
    if tag in data and _addresses(data[tag]):
        return tag
    if len(images) == 1:
        return images[0]
    return "image" if is_only and _addresses(data.get("image")) else None


def _images_in(data: Mapping[str, Any]) -> list[str]:
    """Return the keys of images and of lists of images, that of ``image`` first; bare names only without addresses."""
    found = {key: rows for key, value in data.items() if (rows := _addresses(value)) and any(map(_is_image, rows))}
    full = [key for key, rows in found.items() if key == "image" or "/" in rows[0]]
    return sorted(full or found, key=lambda key: key != "image")


def _is_image(address: str) -> bool:
    return urlsplit(address).path.lower().endswith(_SUFFIXES) or "?d=" in address


def _addresses(value: object) -> list[str]:
    """Return an address, or a list of addresses; empty for other values."""
    values: list[object] = value if isinstance(value, list) else [value]
    found = [entry for entry in values if isinstance(entry, str) and entry]
    return found if len(found) == len(values) else []


def _address(where: str, value: object, result: JsonRow) -> str:
    """Return the address of the image of a result."""
    addresses, item = _addresses(value), result.get("item_index") or 0
    if type(item) is not int or not 0 <= item < len(addresses):
        raise DatasetError(
            f"{where}: expected 'item_index' of a region from 0 to {len(addresses) - 1}, got {item!r:.20}; export the "
            "task again"
        )
    return addresses[item]


def _is_region(result: object) -> bool:
    return isinstance(result, dict) and all(key in result for key in _SIZE)
