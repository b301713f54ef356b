"""Nothing in the package writes files except through `segpaste.workspace`, save what is listed here with the reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "segpaste"

ALLOWED = {
    "bank/storage/block_cache.py": "a cache that finds damaged blocks by their sums, and reads them again",
    "bank/storage/destination.py": "a temporary folder, whose files go to an object store",
    "bank/storage/files.py": "HashedFile flushes at its end; a bank is flushed once more before it gets its name",
    "bank/format/lmdb.py": "a scratch file of the folder that is flushed before it gets its name",
    "cli/_errors.py": "the null device, for a reader of stdout that has gone",
    "augmenting/runs.py": "a log that grows line by line, beside what is written whole",
    "augmenting/remaking.py": "files that are compared and removed",
    "encoder/checkpoints.py": "torch.save into memory",
    "tuning/runs.py": "a config, whose own method writes it whole",
    "tuning/trainer.py": "a log of what a trainer prints, which grows",
    "engine/native/build.py": "a library that is built again where its digest is wrong",
}
"""Modules that may call a writing function by themselves."""

WRITING = {
    "os": {"rename", "replace", "renames", "link", "fsync", "fdatasync", "truncate", "write", "pwrite", "writev"},
    "shutil": {"move", "copy", "copy2", "copyfile", "copytree", "copyfileobj"},
    "torch": {"save"},
    "np": {"savetxt", "memmap"},
    "tempfile": {"mkstemp", "mkdtemp", "NamedTemporaryFile", "TemporaryFile"},
}
METHODS = {"write_text", "write_bytes", "rename", "tofile", "touch", "hardlink_to", "symlink_to"}
IN_MEMORY = {"save", "savez", "savez_compressed", "dump"}
"""Functions that write where their first argument says; they may write to a ``buffer`` or ``file`` in memory."""


def dotted(node: ast.expr) -> tuple[str, str]:
    """The owner and the name of what is called."""
    if isinstance(node, ast.Attribute):
        return ast.unparse(node.value), node.attr
    return "", node.id if isinstance(node, ast.Name) else ""


def opens_for_writing(call: ast.Call) -> bool:
    """Return whether a call of ``open`` has a mode that writes, or one that is not a constant."""
    owner, name = dotted(call.func)
    if name not in ("open", "fdopen") or (owner == "os" and name == "open"):
        return owner == "os" and name == "open" and any(flag in ast.unparse(call) for flag in ("O_WRONLY", "O_RDWR"))
    given = [keyword.value for keyword in call.keywords if keyword.arg == "mode"]
    given += call.args[1:2] if owner in ("", "os", "io", "builtins") else call.args[:1]
    modes = [value.value for value in given if isinstance(value, ast.Constant) and isinstance(value.value, str)]
    return any(set(mode) & set("wax+") and set(mode) <= set("rwaxbt+") for mode in modes)


def writes(source: str) -> Iterator[tuple[int, str]]:
    """The lines of a module that write a file by themselves, and what they call."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        owner, name = dotted(node.func)
        into = ast.unparse(node.args[0]) if node.args else ""
        of_path = len(node.args) == 1 and not into.startswith("*") and not node.keywords
        by_method = name in METHODS or (name == "replace" and of_path)
        has_place = bool(node.args or node.keywords) and into not in ("buffer", "file")
        to_path = name in IN_MEMORY and has_place and owner not in ("json", "yaml")
        if name in WRITING.get(owner, ()) or by_method or to_path or opens_for_writing(node):
            yield node.lineno, f"{owner}.{name}"


def test_no_module_writes_by_itself() -> None:
    found = {
        str(path.relative_to(PACKAGE)): [f"line {line}: {call}" for line, call in sorted(writes(path.read_text()))]
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] != "workspace"
    }
    assert {path: lines for path, lines in found.items() if lines and path not in ALLOWED} == {}
    assert {path for path in ALLOWED if not found.get(path)} == set(), "these need no exception"


@pytest.mark.parametrize(
    "statement",
    [
        "path.write_text('a')",
        "(folder / 'a').write_bytes(b'')",
        "open(path, 'w')",
        "open(path, mode='ab')",
        "path.open('xb')",
        "os.fdopen(descriptor, 'r+b')",
        "os.open(path, os.O_RDWR | os.O_CREAT)",
        "os.replace(a, b)",
        "partial.replace(path)",
        "folder.rename(path)",
        "np.save(path, values)",
        "np.savez(folder / 'a.npz', **arrays)",
        "picture.save(path)",
        "picture.save(fp=path)",
        "torch.save(state, path)",
        "tempfile.mkdtemp()",
    ],
)
def test_writing_is_found(statement: str) -> None:
    assert list(writes(statement))


@pytest.mark.parametrize(
    "statement",
    [
        "path.open('rb')",
        "open(path)",
        "os.open(path, os.O_RDONLY | os.O_CLOEXEC)",
        "name.replace('a', 'b')",
        "name.replace(*PAIR)",
        "record.save()",
        "picture.save(buffer, format='PNG')",
        "np.savez(file, **arrays)",
        "Image.open(path)",
        "yaml.dump(values)",
    ],
)
def test_reading_is_not(statement: str) -> None:
    assert not list(writes(statement))
