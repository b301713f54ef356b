"""Text of the files of a dataset: UTF-8, with or without a byte order mark.

JSON may also be UTF-16 or UTF-32, and XML of the encoding that it declares. All other text is rejected with an error
that names the file, since no encoding can be told from another with certainty.
"""

from __future__ import annotations

import json
import re
from os import PathLike
from pathlib import Path
from typing import Any

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
