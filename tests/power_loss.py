"""A disk that loses its power: which files would be there, given the flushes and renames that really happened.

`Disk` wraps the calls of ``os`` that flush and rename; the calls themselves are made. A file system promises little:
the content of a file is on the disk once the file was flushed, and a name once its folder was. What was not flushed may
be there or not, independently of each other, so two disks are kept apart:

    eager names    every name is on the disk at once, of a file that was not flushed with nothing in it
    lazy names     a name is on the disk once the folder it is in was flushed
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Files = dict[str, bytes]


@dataclass
class Disk:
    """Content of the disk below a folder.

    Attributes:
        root: the folder; it is on the disk.
        events: (call, path relative to the root) of every flush and rename, in order.
        snapshots: what would be left after a power loss, after each event: with eager and with lazy names.
    """

    root: Path
    events: list[tuple[str, str]] = field(default_factory=list)
    snapshots: list[tuple[Files, Files]] = field(default_factory=list)
    _content: dict[int, bytes] = field(default_factory=dict)
    _names: dict[int, dict[str, int]] = field(default_factory=dict)
    _held: list[int] = field(default_factory=list)

    def note(self, call: str, path: Path) -> None:
        """Note an event that has happened."""
        if path.is_relative_to(self.root):
            self.events.append((call, str(path.relative_to(self.root))))
            self.snapshots.append((dict(self._eager(self.root)), dict(self._lazy(self.root.stat().st_ino))))

    def flushed(self, path: Path) -> None:
        """Note that a file or a folder was flushed."""
        self.store(path)
        self.note("fsync", path)

    def store(self, path: Path) -> None:
        """Put a file, or the names in a folder, on the disk."""
        self._held.append(os.open(path, os.O_RDONLY))  # so that its inode is nobody else's later
        inode = path.stat().st_ino
        if path.is_dir():
            self._names[inode] = {entry.name: entry.inode() for entry in os.scandir(path)}
        else:
            self._content[inode] = path.read_bytes()

    def close(self) -> None:
        """Let go of the files."""
        while self._held:
            os.close(self._held.pop())

    def _eager(self, folder: Path) -> Iterator[tuple[str, bytes]]:
        for path in folder.rglob("*"):
            if path.is_file():
                yield str(path.relative_to(self.root)), self._content.get(path.stat().st_ino, b"")

    def _lazy(self, folder: int, above: str = "") -> Iterator[tuple[str, bytes]]:
        for name, inode in self._names[folder].items():
            if inode in self._names:
                yield from self._lazy(inode, f"{above}{name}/")
            elif inode in self._content:
                yield above + name, self._content[inode]
            elif "." in name:  # a file; a folder that was not flushed is empty
                yield above + name, b""


@contextmanager
def watched(root: Path) -> Iterator[Disk]:
    """Watch what this process flushes and renames below a folder. What is there already is on the disk."""
    disk = Disk(root)
    for path in [root, *root.rglob("*")]:
        disk.store(path)
    real = {name: getattr(os, name) for name in ("fsync", "rename", "replace")}

    def fsync(descriptor: int) -> None:
        real["fsync"](descriptor)
        disk.flushed(Path(os.readlink(f"/proc/self/fd/{descriptor}")))

    def moving(name: str) -> Callable[..., None]:
        def move(old: Any, new: Any, **options: Any) -> None:
            real[name](old, new, **options)
            disk.note("rename", Path(os.path.abspath(new)))

        return move

    try:
        os.fsync, os.rename, os.replace = fsync, moving("rename"), moving("replace")
        yield disk
    finally:
        os.fsync, os.rename, os.replace = real["fsync"], real["rename"], real["replace"]
        disk.close()


def restore(files: Files, folder: Path) -> Path:
    """Make a folder of what was left."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def read_tree(folder: Path) -> Files:
    """The files below a folder, by their path from there."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def below(files: Files, folder: str) -> Files:
    """Return the files below a folder, such as ``out/``, by their path from there."""
    return {name.removeprefix(folder): content for name, content in files.items() if name.startswith(folder)}


def every_state(disk: Disk) -> Iterator[Files]:
    """Yield the states that a power loss could leave, after each event."""
    for snapshot in disk.snapshots:
        yield from snapshot
