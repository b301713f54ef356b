"""Parsing of XML annotation files: errors name the file, numbers are checked, other values are kept as JSON."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.text_files import declared_encoding, decoded, in_utf8

INDENT = re.compile(r"\A\s*\n\s*|\s*\n\s*\Z")
"""Line breaks at the ends of a text, with the blanks beside them; other blanks are part of the text."""
_HEAD_BYTES = 4096
_FARTHEST = 1e6  # pixels


def parse_xml(path: Path) -> ElementTree.Element:
    """Return the root of an XML file.

    Raises:
        DatasetError: the file is missing, unreadable or not XML.
    """
    try:
        content = path.read_bytes()
        return _parsed(path, content)
    except FileNotFoundError:
        raise DatasetError(f"{path}: expected an annotation file in XML, found no such file; check the path") from None
    except OSError as error:
        raise DatasetError(f"{path}: expected a readable annotation file, got {error.strerror or error}") from error
    except DatasetError:
        raise
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise DatasetError(
            f"{path}: expected XML, got truncated or malformed text ({error}); download or write it again"
        ) from error


def _parsed(path: Path, content: bytes) -> ElementTree.Element:
    """Parse XML in the encoding that it declares, by default UTF-8 or UTF-16."""
    declared = declared_encoding(content)
    try:
        return ElementTree.fromstring(content)
    except (ElementTree.ParseError, ValueError, LookupError):  # the parser lacks encodings of several bytes
        if declared is None or declared.lower() in ("utf-8", "utf8"):
            decoded(path, content)  # names an encoding that is not UTF-8
            raise
        try:
            text = content.decode(declared)
        except UnicodeDecodeError as error:
            raise DatasetError(
                f"{path}: expected text in {declared}, as its first line declares, got other bytes; save it as UTF-8"
            ) from error
        return ElementTree.fromstring(text)


def head_of(path: Path) -> bytes:
    """Return the first bytes of a file; text that begins with a mark of UTF-16 or UTF-32 in UTF-8."""
    with path.open("rb") as file:
        return in_utf8(file.read(_HEAD_BYTES))


def number(where: str, element: ElementTree.Element, key: str, default: float | None = None) -> float:
    """Return an attribute, or else the text of the child of this name, as a number.

    Raises:
        DatasetError: it is missing without a default, or is not a number in the range of pixels.
    """
    text = element.get(key)
    if text is None:
        text = element.findtext(key)
    if text is None and default is not None:
        return default
    try:
        value = float(text or "")
        if abs(value) <= _FARTHEST:
            return value
    except ValueError:
        pass
    raise DatasetError(f"{where}: expected '{key}', a number of pixels, got {text!r:.40}; correct it")


def xml_value(element: ElementTree.Element) -> Any:
    """Return an element as JSON: its text, or its attributes and children by name."""
    if not len(element) and not element.attrib:
        return INDENT.sub("", element.text or "")
    text = (element.text or "").strip()
    return {**xml_parts(element), **({"text": text} if text else {})}


def xml_parts(element: ElementTree.Element, leave_out: Collection[str] = ()) -> dict[str, Any]:
    """Return the attributes and children of an element by name, as JSON; those of equal names become a list.

    Args:
        element: the element.
        leave_out: names of children that are left out.
    """
    children: dict[str, list[Any]] = {}
    for child in element:
        if child.tag not in leave_out:
            children.setdefault(child.tag, []).append(xml_value(child))
    return joined(element.attrib, children)


def joined(found: Mapping[str, Any], more: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Return values by name, with those of another mapping; several values of a name become a list."""
    every = {name: [*([found[name]] if name in found else []), *values] for name, values in more.items()}
    return {**found, **{name: values if len(values) > 1 else values[0] for name, values in every.items()}}
