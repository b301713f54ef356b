"""Path patterns such as ``leftImg8bit/{split}/{city}/{name}_leftImg8bit.png``, and the files that match them.

    {word}       any text without a slash
    {number}     digits
    {folders}    any number of folders, with the slash after each
    *            any text without a slash, which is discarded
    .*           at the end: any suffix

A repeated word stands for the same text. The texts of the words in the images' pattern identify an image; the patterns
of its other files repeat those words.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

_PART = re.compile(r"\{(\w*)\}|(\*)|([{}])")
_FOLDERS, _NUMBER = "folders", "number"

Words = Mapping[str, str]


@dataclass(frozen=True)
class PathPattern:
    """Path pattern.

    Attributes:
        text: the pattern as written, relative to the folder of the dataset, or absolute.

    Raises:
        ValueError: a brace is not paired, or a word is invalid.
    """

    text: str

    def __post_init__(self) -> None:
        for match in _PART.finditer(self.text):
            if match[3] or (match[1] is not None and not match[1].isidentifier()):
                raise ValueError(f"expected placeholders in braces such as {{name}}, got {self.text!r}; correct it")
        if not self.text or "\\" in self.text:
            raise ValueError(f"expected a path with slashes, got {self.text!r}; correct it")

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Unique words in braces."""
        return tuple(dict.fromkeys(match[1] for match in _PART.finditer(self.text) if match[1]))

    @cached_property
    def folder(self) -> str:
        """Path up to the folder of the first word, with a trailing slash; empty if that is the root."""
        first = _PART.search(self.text)
        return self.text[: self.text.rfind("/", 0, first.start() if first else None) + 1]

    def is_filled_by(self, words: Collection[str]) -> bool:
        """Return whether these words determine a single path."""
        return "*" not in self.text and set(self.words) <= set(words)

    def fill(self, words: Words) -> str:
        """Return the path for these words; other words and ``*`` are unchanged."""
        return _PART.sub(lambda match: words.get(match[1], match[0]) if match[1] else match[0], self.text)

    def find(self, root: Path) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield the files that match, sorted by path, with the text of each word."""
        yield from self.match(self.files(root), {})

    def match(self, paths: Iterable[str], lengths: Mapping[str, int]) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield the paths that match, with the text of each word.

        Args:
            paths: paths to match.
            lengths: text lengths of some words that the pattern leaves open.
        """
        regex = re.compile(self._regex(lengths))
        for path in paths:
            if (match := regex.fullmatch(path)) is not None:
                yield path, match.groupdict()

    def _regex(self, lengths: Mapping[str, int]) -> str:
        seen: set[str] = set()

        def of_word(word: str) -> str:
            if word in seen:
                return f"(?P={word})"
            seen.add(word)
            if word == _FOLDERS:
                return f"(?P<{word}>(?:[^/]+/)*?)"
            letter = r"\d" if word == _NUMBER else "[^/]"
            return f"(?P<{word}>{letter}{{{lengths[word]}}})" if word in lengths else f"(?P<{word}>{letter}+?)"

        parts, end = [], 0
        for match in _PART.finditer(self.text):
            parts += [re.escape(self.text[end : match.start()]), of_word(match[1]) if match[1] else "[^/]*"]
            end = match.end()
        parts.append(re.escape(self.text[end:]))
        if self.text.endswith(".*"):
            parts[-2:] = [r"[^/.]+"]
        return "".join(parts)

    def open_words(self, known: Collection[str]) -> tuple[str, ...]:
        """Return the known words that share a path component with ``*`` or with other words."""
        parts = [list(_PART.finditer(part)) for part in self.text.split("/")]
        is_open = [part for part in parts if any(match[2] or match[1] not in known for match in part)]
        return tuple(dict.fromkeys(match[1] for part in is_open for match in part if match[1] in known))

    def _may_be(self, name: str) -> bool:
        """Return whether a name may match: hidden ones, of editors and archives, only if the pattern names some."""
        return name[0] != "." or "/." in f"/{self.text}"

    def files(self, root: Path) -> list[str]:
        """List the candidate files, sorted: below the folder of the first word, as deep as the pattern."""
        folder = self.folder
        any_depth = _FOLDERS in self.words
        depth = self.text.count("/") - folder.count("/")
        found: list[str] = []
        walked: set[str] = set()
        for here, folders, names in os.walk(root / folder, followlinks=True):
            real = os.path.realpath(here)
            if any_depth and real in walked:  # a link to a parent folder would never end
                folders.clear()
                continue
            walked.add(real)
            folders[:] = sorted(filter(self._may_be, folders))
            below = Path(here).relative_to(root / folder).as_posix()
            prefix = folder if below == "." else f"{folder}{below}/"
            at = 0 if below == "." else below.count("/") + 1
            if any_depth or at == depth:
                found += [prefix + name for name in names if self._may_be(name)]
            if not any_depth and at >= depth:
                folders.clear()
        return sorted(found)
