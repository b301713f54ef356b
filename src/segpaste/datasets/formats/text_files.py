"""Text of the files of a dataset, such as JSON, YAML, XML and lists of names: UTF-8, with or without a byte order mark.

JSON may also be UTF-16 or UTF-32, and XML of the encoding that it declares. All other text is rejected with an error
that names the file, since no encoding can be told from another with certainty.

Lists have a name on each line: classes, and the images of a split. Only a line feed ends a line; `str.splitlines` also
splits at characters that names may contain. A class name that a line cannot hold is written as a string of JSON, in
double quotes: an empty name, and one with blanks at its ends, a line break, or the form of another line of such lists.
So the position of a name is its number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from segpaste._utf8 import NotUtf8Error, decode_utf8, explain, line_of, mark_of
from segpaste.datasets.errors import DatasetError

_DECLARED = re.compile(rb"""^\s*<\?xml[^>]*?\bencoding\s*=\s*["']([\w.:-]+)["']""")


def read_text(path: Path) -> str:
    """Return the text of a file, with line feeds only.

    Raises:
        DatasetError: it is not UTF-8.
        OSError: it cannot be read.
    """
    return decoded(path, path.read_bytes())


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file; raise as `read_text`."""
    return read_text(path).removesuffix("\n").split("\n")


def read_json(path: Path) -> Any:
    """Return the document of a JSON file.

    Raises:
        DatasetError: it is not UTF-8, UTF-16 or UTF-32.
        ValueError: it is not JSON.
        RecursionError: its lists are nested too deeply.
        OSError: it cannot be read.
    """
    return parse_json(path, path.read_bytes())


def json_of(path: Path, content: bytes, what: str, advice: str) -> Any:
    """Return the document of the bytes of a JSON file; errors say what was expected, and what to do.

    Raises:
        DatasetError: it is not JSON.
    """
    try:
        return parse_json(path, content)
    except DatasetError:
        raise
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{path}: expected {what}, got text that does not parse ({error}); {advice}") from error


def parse_json(path: Path, content: bytes) -> Any:
    """Return the document of the bytes of a JSON file; raise as `read_json`."""
    try:
        return json.loads(content)
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path}: {explain(error.object, line_of(error.object, error.start))}") from error


def read_yaml_or_json(path: str | PathLike[str], what: str) -> Any:
    """Read the document of a small YAML or JSON file; errors say that ``what`` was expected.

    Raises:
        DatasetError: the file is missing or malformed.
    """
    import yaml

    try:
        return yaml.safe_load(read_text(Path(path)))
    except OSError as error:
        raise DatasetError(f"{path}: expected {what} in YAML or JSON, got {error.strerror or error}") from error
    except yaml.YAMLError as error:
        text = " ".join(str(error).split())
        raise DatasetError(
            f"{path}: expected {what} in YAML or JSON, got text that is neither ({text:.150})"
        ) from error


def decoded(path: Path, content: bytes) -> str:
    """Return the text of the bytes of a file in UTF-8; raise as `read_text`."""
    try:
        return decode_utf8(content)
    except NotUtf8Error as error:
        raise DatasetError(f"{path}: {error}") from error


def in_utf8(content: bytes) -> bytes:
    """Return the bytes of a text in UTF-8 if a mark at the start shows that it is UTF-16 or UTF-32, else unchanged."""
    mark = mark_of(content)
    return content.decode(mark, "replace").encode("utf-8", "replace") if mark else content


def declared_encoding(content: bytes) -> str | None:
    """Return the encoding that an XML file declares; None without a declaration."""
    found = _DECLARED.match(content.removeprefix(b"\xef\xbb\xbf"))
    return None if found is None else found[1].decode("ascii")


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


def head_of(path: Path, num_bytes: int = _HEAD_BYTES) -> bytes:
    """Return the first bytes of a file; text that begins with a mark of UTF-16 or UTF-32 in UTF-8."""
    with path.open("rb") as file:
        return in_utf8(file.read(num_bytes))


def xml_number(where: str, element: ElementTree.Element, key: str, default: float | None = None) -> float:
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


def flag_of(text: str) -> bool | None:
    """Return whether a text says yes, as a number or a word: 1, 1.0, true; 0, 0.0, false; None if it is no flag."""
    word = text.strip().lower()
    if word in ("true", "false"):
        return word == "true"
    try:
        return {0.0: False, 1.0: True}.get(float(word))
    except ValueError:
        return None


def xml_flag(where: str, key: str, text: str | None) -> bool:
    """Return a flag of XML; a missing or empty one is not set.

    Raises:
        DatasetError: it is not 0, 1, true or false.
    """
    if text is None or not text.strip():
        return False
    if (flag := flag_of(text)) is None:
        raise DatasetError(f"{where}: expected '{key}' as 0 or 1, got {text!r:.40}; correct it")
    return flag


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


_OTHER_FORMS = re.compile(r'["#\ufeff]|\d+\s+\d+\s+\d+\s')
"""Starts of names that would be read as a string, a comment, a mark of the encoding, or as a colour and a name."""
_CONTROLS = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_FLAG = re.compile(r"\s+[-+]?[01]$")


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, with the blanks at their ends."""
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def class_names_of(text: str) -> list[str]:
    """Return the class of each line. An empty line is a class without a name, except at the end of the text."""
    lines = [line.strip() for line in lines_of(text)]
    while lines and not lines[-1]:
        lines.pop()
    return [class_name_of(line) for line in lines]


def class_name_of(line: str) -> str:
    """Return the class name of a line without blanks at its ends; a string of JSON is decoded."""
    if len(line) > 1 and line[0] == line[-1] == '"':
        try:
            return str(json.loads(line))
        except ValueError:
            pass
    return line


def class_list_text(names: Iterable[str]) -> str:
    """Return the text of a list of classes, from which `class_names_of` returns the same names."""
    return "".join(f"{name if _is_line(name) else json.dumps(name)}\n" for name in names)


def image_name_of(line: str, is_there: Callable[[str], bool], *, has_flags: bool = False) -> str:
    """Return the image that a line names, which may contain blanks; empty for an empty line.

    Args:
        line: the line.
        is_there: function that returns whether there is an image of this name.
        has_flags: True if names may be followed by -1, 0 or 1, as in VOC's lists of one class; such an end is part of
            the name if an image has it.
    """
    short = line.strip()
    found = next((name for name in (line, short) if short and is_there(name)), None)
    return found or (_FLAG.sub("", short) if has_flags else short)


def _is_line(name: str) -> bool:
    """Return whether a name is a line of its own."""
    return bool(name) and name == name.strip() and not (_CONTROLS.search(name) or _OTHER_FORMS.match(name))


def is_background(name: str) -> bool:
    """Return whether a class is the background of semantic maps, if it is the first one."""
    return name.strip("_").lower() == "background"
