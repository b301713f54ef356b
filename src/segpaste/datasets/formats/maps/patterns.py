"""Path patterns such as ``leftImg8bit/{split}/{city}/{name}_leftImg8bit.png``, and the files that match them.

    {word}       any text without a slash
    {number}     digits
    {folders}    any number of folders, with the slash after each
    *            any text without a slash, which is not kept
    .*           at the end: any suffix

A word that occurs twice stands for the same text. What the words of the pattern of the photos stand for names a photo;
the patterns of its other files repeat those words.
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
    """One pattern.

    Attributes:
        text: as it is written, relative to the folder of the dataset, or absolute.

    Raises:
        ValueError: a brace without its pair, or a word that is none.
    """

    text: str

    def __post_init__(self) -> None:
        for match in _PART.finditer(self.text):
            if match[3] or (match[1] is not None and not match[1].isidentifier()):
                raise ValueError(f"expected words in braces such as {{name}}, got {self.text!r}; correct it")
        if not self.text or "\\" in self.text:
            raise ValueError(f"expected a path with slashes, got {self.text!r}; correct it")

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The words in braces, each once."""
        return tuple(dict.fromkeys(match[1] for match in _PART.finditer(self.text) if match[1]))

    @cached_property
    def folder(self) -> str:
        """The path up to the folder of the first word, with a slash at its end; empty where that is the root."""
        first = _PART.search(self.text)
        return self.text[: self.text.rfind("/", 0, first.start() if first else None) + 1]

    def is_filled_by(self, words: Collection[str]) -> bool:
        """Tell whether these words make one path of it."""
        return "*" not in self.text and set(self.words) <= set(words)

    def fill(self, words: Words) -> str:
        """Return the path for these words; further words and ``*`` stay as they are."""
        return _PART.sub(lambda match: words.get(match[1], match[0]) if match[1] else match[0], self.text)

    def find(self, root: Path) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield the files that match, sorted by path, with what each word stands for."""
        yield from self.match(self.files(root), {})

    def match(self, paths: Iterable[str], lengths: Mapping[str, int]) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield the paths that match, with what each word stands for.

        Args:
            paths: to look at.
            lengths: how long the text of some words is, where the pattern alone leaves it open.
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
        """Return those of the known words that share a part of the path with ``*`` or with other words."""
        parts = [list(_PART.finditer(part)) for part in self.text.split("/")]
        is_open = [part for part in parts if any(match[2] or match[1] not in known for match in part)]
        return tuple(dict.fromkeys(match[1] for part in is_open for match in part if match[1] in known))

    def files(self, root: Path) -> list[str]:
        """List the files that may match, sorted: below the folder of the first word, as deep as the pattern."""
        folder = self.folder
        any_depth = _FOLDERS in self.words
        depth = self.text.count("/") - folder.count("/")
        found: list[str] = []
        walked: set[str] = set()
        for here, folders, names in os.walk(root / folder, followlinks=True):
            real = os.path.realpath(here)
            if any_depth and real in walked:  # a link to a folder above would have no end
                folders.clear()
                continue
            walked.add(real)
            folders.sort()
            below = Path(here).relative_to(root / folder).as_posix()
            prefix = folder if below == "." else f"{folder}{below}/"
            at = 0 if below == "." else below.count("/") + 1
            if any_depth or at == depth:
                found += [prefix + name for name in names]
            if not any_depth and at >= depth:
                folders.clear()
        return sorted(found)
