"""Decoding of text files in UTF-8, with errors that say which other encoding was found."""

from __future__ import annotations

import codecs

_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Byte order marks, the longer ones first, since that of UTF-32 begins like that of UTF-16."""


class NotUtf8Error(ValueError):
    """Error of text in another encoding; the message names no file."""


def decode_utf8(content: bytes) -> str:
    """Return the text of a file, without a byte order mark and with line feeds only.

    Raises:
        NotUtf8Error: it is not UTF-8.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NotUtf8Error(explain(content, line_of(content, error.start))) from error
    if "\0" in text:
        raise NotUtf8Error(explain(content))
    return text.replace("\r\n", "\n").replace("\r", "\n")


def explain(content: bytes, place: str = "") -> str:
    """Return the message for text that is not UTF-8, with the place of the first such character if it is known."""
    even, odd = content[:1000:2], content[1:1000:2]
    if (mark := mark_of(content)) is not None or (0 in even) != (0 in odd):
        found = (mark or "utf-16").upper()
    elif 0 in even:
        return "expected text in UTF-8, got null bytes; download or write the file again"
    else:
        found = ", ".join(filter(None, ("bytes of another encoding, such as Latin-1 or GBK", place)))
    return f"expected text in UTF-8, got {found}; save the file as UTF-8"


def line_of(content: bytes, position: int) -> str:
    """Return the line of a position in words."""
    number = content.count(b"\n", 0, position) + 1
    return f"in line {number}"


def mark_of(content: bytes) -> str | None:
    """Return the encoding that a byte order mark of UTF-16 or UTF-32 shows; None without one."""
    return next((name for mark, name in _MARKS.items() if content.startswith(mark)), None)
