"""Places of values and rows in JSON text, found without parsing, against the parser of the standard library."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segpaste.datasets import DatasetError
from segpaste.datasets.large_json.file import JsonTables, open_source
from segpaste.datasets.large_json.text import ScanError, scan

TEXTS = st.text(st.sampled_from('ab"\\[]{},: \n\té😀\x7f'), max_size=6)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=3))
DOCUMENTS = st.dictionaries(TEXTS, VALUES | st.lists(VALUES, max_size=6), max_size=5)
STYLES = st.sampled_from([{}, {"indent": 1}, {"separators": (",", ":")}, {"ensure_ascii": False}])


def decoded(path: Path, text: bytes, block_bytes: int) -> Any:
    """The document as its scanned pieces give it; None where they are refused."""
    path.write_bytes(text)
    source = open_source(path)
    try:
        values = scan(source, block_bytes)
        tables = JsonTables(path, source, ())
        assert str(tables.values) == str(values)
        tables.check_others({})
        return {
            name: tables.value(name) if value.marks is None else rows_of(path, tables.marks(name).tolist())
            for name, value in values.items()
        }
    except (ScanError, DatasetError):
        return None


def rows_of(path: Path, marks: list[int]) -> list[Any]:
    text = path.read_bytes()
    return [json.loads(text[start + 1 : stop]) for start, stop in itertools.pairwise(marks)]


@given(DOCUMENTS, STYLES, st.integers(1, 40))
def test_pieces_make_the_document(
    tmp_path_factory: pytest.TempPathFactory, document: Any, style: Any, num_bytes: int
) -> None:
    text = json.dumps(document, **style).encode()
    found = decoded(tmp_path_factory.getbasetemp() / "scanned.json", text, num_bytes)
    assert repr(found) == repr(json.loads(text))  # NaN differs from itself, its name does not
    assert list(found) == list(document)
    values = scan(open_source(tmp_path_factory.getbasetemp() / "scanned.json"))
    assert [value.marks is not None for value in values.values()] == [isinstance(v, list) for v in document.values()]


@given(DOCUMENTS, STYLES, st.integers(1, 40), st.data())
def test_damaged_text_is_refused_where_the_parser_does(
    tmp_path_factory: pytest.TempPathFactory, document: Any, style: Any, num_bytes: int, data: st.DataObject
) -> None:
    text = bytearray(json.dumps(document, **style).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        text[at : at + data.draw(st.integers(0, 2))] = data.draw(
            st.sampled_from([b"", b"[", b"}", b",", b'"', b"\\", b":", b"x"])
        )
    try:
        expected = json.loads(bytes(text))
    except ValueError:
        expected = None
    found = decoded(tmp_path_factory.getbasetemp() / "damaged.json", bytes(text), num_bytes)
    assert repr(found) == repr(expected if isinstance(expected, dict) else None)


@pytest.mark.parametrize("text", ["{}", " { }\n", '{"a": [ ]}', '{"a": 1, "a": [2]}', '\ufeff{"a": []}'])
def test_small_documents(tmp_path: Path, text: str) -> None:
    raw = text.encode()
    assert decoded(tmp_path / "a.json", raw, 1) == json.loads(raw)


@pytest.mark.parametrize("num_slashes", range(1, 6))
@pytest.mark.parametrize("num_bytes", range(1, 12))
def test_escapes_at_the_edge_of_a_block(tmp_path: Path, num_slashes: int, num_bytes: int) -> None:
    document = {"a": ["\\" * num_slashes, '"],['], "b": [1, 2]}
    assert decoded(tmp_path / "a.json", json.dumps(document).encode(), num_bytes) == document


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "3", "[1]", "x{}", "{}x", "{}{}", "{}}", "{},", '{"a": 1}"', '{"a": [1]} 2', '{"a": [1] 2}'),
        *('{"a": 2 [1]}', '{"a": [1] [2]}', '{"a" [1]}', '{"a": [1],}', '{,"a": [1]}', "{1: [1]}", "{a: [1]}"),
        *('{"a": [1,]}', '{"a": [,1]}', '{"a": [1}]}', '{"a": [[1}, 2]}', '{"a": [1}', '{"a": ["]}', '{"a": {"b": [}}'),
    ],
)
def test_broken_documents(tmp_path: Path, text: str) -> None:
    assert decoded(tmp_path / "a.json", text.encode(), 4) is None
