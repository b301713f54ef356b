"""What the formats share: opening and checking a folder, one set of handles per process, reads into given arrays.

A handle belongs to the process that opened it: after a fork, and in a spawned worker, the files are opened anew, for
file offsets and LMDB environments must not be shared. A pickled bank carries its path and version, never pixels.
"""

from __future__ import annotations

import operator
import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from segpaste.bank.files import Folder, Reader
from segpaste.bank.meta import META, BankMeta, Format, parse_meta
from segpaste.bank.protocol import Columns
from segpaste.bank.record import BankError, Crop, Layout
from segpaste.bank.remote import RemoteFolder, folder_at


class StoredBank(ABC):
    """A bank in a folder.

    Args:
        folder: the folder, or its path or URL.

    Attributes:
        folder: where the files lie.
        meta: what ``meta.json`` says.

    Raises:
        BankError: the folder holds no bank, one of another format, or a file is missing or not as long as it must be.
    """

    format: ClassVar[Format]
    in_object_store: ClassVar[bool] = False

    def __init__(self, folder: Folder | str | os.PathLike[str]) -> None:
        self.folder: Folder = folder_at(folder) if isinstance(folder, str | os.PathLike) else folder
        self.meta = read_meta(self.folder)
        if self.meta.format != self.format:
            raise BankError(
                f"{self.where}: expected a bank of format {self.format!r}, got {self.meta.format!r}; "
                "segpaste.open_bank finds out which it is"
            )
        if isinstance(self.folder, RemoteFolder) and not self.in_object_store:
            raise BankError(
                f"{self.where}: expected a bank of format 'webdataset' in an object store, got {self.format!r}; "
                "copy it to a local disk, or build shards"
            )
        try:
            self._layout = self.meta.layout
        except ValueError as error:  # a group of a later version, or crops that no machine holds
            raise BankError(f"{self.where}/{META}: {error}") from error
        self._check_files()
        self._check_sizes()
        self._handle: Any = None
        self._pid = -1
        self._let_go: weakref.finalize[..., Any] | None = None
        self._meta_seen: tuple[int, ...] = ()

    @property
    def where(self) -> str:
        """Absolute path or URL of the folder."""
        return self.folder.where

    @property
    def crop_size(self) -> tuple[int, int]:
        """(h, w) of every crop, pixels."""
        return self.layout.crop_size

    @property
    def class_frequencies(self) -> tuple[int, ...]:
        """Crops of each class."""
        return self.meta.class_frequencies

    @property
    def class_names(self) -> tuple[str, ...]:
        """Of each class."""
        return self.meta.class_names

    @property
    def version(self) -> str:
        """SHA-256 of ``meta.json``, which names the digest of every file."""
        return self.meta.sha256

    @property
    def layout(self) -> Layout:
        """The columns that it keeps."""
        return self._layout

    @property
    def metric_depth(self) -> bool:
        """Depth is in metres."""
        return self.meta.metric_depth

    def __len__(self) -> int:
        return self.meta.num_crops

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.where!r}, {len(self)} crops of {self.crop_size})"

    def __getitem__(self, index: int) -> Crop:
        """Read one crop.

        Raises:
            IndexError: there is no such crop.
            BankError: a file is gone or shorter than it was.
        """
        num, index = self.meta.num_crops, operator.index(index)
        if not -num <= index < num:
            raise IndexError(f"{self.where}: expected an index below {num}, got {index}")
        columns = self._layout.empty(1, self._layout.shapes)
        self._read(self._opened(), [index % num], columns)
        return Crop(**{name: rows[0] if rows.ndim > 1 else rows.item() for name, rows in columns.items()})

    def read(
        self,
        indices: Sequence[int] | NDArray[np.int64],
        columns: Iterable[str] | None = None,
        out: Columns | None = None,
    ) -> Columns:
        """Read several crops.

        Args:
            indices: of crops, integers; negative ones count from the end.
            columns: which to read, all of them by default, or those of ``out``.
            out: contiguous arrays [n, ...] of the columns' dtypes to read into.

        Returns:
            Arrays [n, ...], by name.

        Raises:
            IndexError: there is no such crop, or an index is no integer.
            KeyError: the bank does not keep a column.
            ValueError: an array to read into has another shape or dtype.
            BankError: a file is gone or shorter than it was.
        """
        given = np.asarray(indices)
        if given.size and given.dtype.kind not in "iu":
            raise IndexError(f"{self.where}: expected integers as indices, got {given.dtype.name}")
        rows = given.astype(np.int64).reshape(-1)
        num = len(self)
        if len(rows) and (rows.min() < -num or rows.max() >= num):
            raise IndexError(f"{self.where}: expected indices below {num}, got {rows.min()} to {rows.max()}")
        layout = self._layout
        names = list(columns) if columns is not None else list(layout.shapes if out is None else out)
        if out is None:
            out = layout.empty(len(rows), names)
        for name in names:
            array, shape, dtype = out[name], (len(rows), *layout.shapes[name]), layout.dtypes[name]
            if array.shape != shape or array.dtype != dtype or not array.flags.c_contiguous:
                raise ValueError(
                    f"read: expected a contiguous {dtype.name} {list(shape)} for {name}, got {array.dtype.name} "
                    f"{list(array.shape)}"
                )
        self._read(self._opened(), (rows % max(num, 1)).tolist(), {name: out[name] for name in names})
        return out

    def crop_class_ids(self) -> NDArray[np.int64]:
        """The class of every crop, [N].

        Raises:
            BankError: they are others than ``meta.json`` counts.
        """
        ids = self._class_ids(self._opened())
        num = self.meta.num_classes
        is_known = len(ids) == len(self) and (not len(ids) or (ids.min() >= 0 and ids.max() < num))
        if not is_known or tuple(np.bincount(ids, minlength=num).tolist()) != self.class_frequencies:
            raise BankError(
                f"{self.where}: expected classes as counted in {META}, got others; run segpaste bank verify, copy or "
                "build the bank again"
            )
        return ids

    def verify(self) -> None:
        """Read every byte and compare it with what ``meta.json`` says.

        Raises:
            BankError: a file's digest is another one.
        """
        for name, entry in self.meta.files.items():
            if (digest := self.folder.digest(name)) != entry.sha256:
                raise BankError(
                    f"{self.where}/{name}: expected SHA-256 {entry.sha256}, got {digest}; the file was changed, "
                    "copy or build the bank again"
                )

    def close(self) -> None:
        """Let go of the files; reading opens them again."""
        if self._let_go is not None:
            self._let_go()
        self._handle = self._let_go = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"folder": self.folder, "version": self.version}

    def __setstate__(self, state: dict[str, Any]) -> None:
        type(self).__init__(self, state["folder"])
        if self.version != state["version"]:
            raise BankError(
                f"{self.where}: expected the bank of version {state['version'][:12]}, which was pickled, got "
                f"{self.version[:12]}; it was replaced meanwhile"
            )

    def _opened(self) -> Any:
        if self._handle is None or self._pid != os.getpid():
            if not isinstance(self.folder, RemoteFolder):  # which notices that an object is another one at each fetch
                self._check_replaced()
                self._check_sizes()
            if self._let_go is not None:  # a parent's, which the parent lets go of
                self._let_go.detach()
            self._handle, self._pid = self._open(), os.getpid()
            self._let_go = weakref.finalize(self, _close_own, self._close, self._handle, self._pid)
            self._let_go.atexit = False
        return self._handle

    def _open_later(self, name: str) -> Reader:
        """A file that is opened when others have been read: it is that of the same bank."""
        reader = self.folder.open(name, self.version)
        if not isinstance(self.folder, RemoteFolder):
            try:
                self._check_replaced()
                self._check_size(name)
            except BankError:
                reader.close()
                raise
        return reader

    def _check_replaced(self) -> None:
        """What is opened now is what the bank was when it was; ``meta.json`` is read if it is another file by now."""
        seen: tuple[int, ...] = ()
        with suppress(OSError):
            stat = os.stat(os.path.join(self.where, META))
            seen = stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size
        if seen and seen == self._meta_seen:
            return
        if read_meta(self.folder).sha256 != self.version:
            raise BankError(
                f"{self.where}: expected the bank of version {self.version:.12}, as it was when it was opened, got "
                "another one; open it again"
            )
        self._meta_seen = seen

    def _check_files(self) -> None:
        """The files that are named are those of the format, and as long as so many crops make them."""
        files, needed = self.meta.files, self._files_needed()
        if files.keys() != needed.keys():
            raise BankError(
                f"{self.where}/{META}: expected size and digest of {', '.join(needed):.200}, got those of "
                f"{', '.join(files) or 'no file':.200}; build the bank again"
            )
        for name, size in needed.items():
            if size is not None and files[name].size != size:
                raise BankError(
                    f"{self.where}/{META}: expected {size} bytes of {name} for {len(self)} crops, got "
                    f"{files[name].size}; build the bank again"
                )

    def _check_sizes(self) -> None:
        for name in self.meta.files:
            self._check_size(name)

    def _check_size(self, name: str) -> None:
        expected, size = self.meta.files[name].size, self.folder.size(name)
        if size != expected:
            came = "no such file" if size is None else f"{size}"
            raise BankError(f"{self.where}/{name}: expected {expected} bytes, got {came}; copy or build the bank again")

    @abstractmethod
    def _files_needed(self) -> Mapping[str, int | None]:
        """The data files of the format, and their sizes where they follow from the number of crops."""

    @abstractmethod
    def _open(self) -> Any:
        """What reads need, for this process alone."""

    @staticmethod
    @abstractmethod
    def _close(handle: Any) -> None:
        """Close it."""

    @abstractmethod
    def _read(self, handle: Any, rows: Sequence[int], out: Columns) -> None:
        """Write the rows of the columns that ``out`` has into it."""

    @abstractmethod
    def _class_ids(self, handle: Any) -> NDArray[np.int64]:
        """The class of every crop, [N]."""


def read_meta(folder: Folder) -> BankMeta:
    """The meta of the bank in a folder.

    Raises:
        BankError: there is none, or it is broken.
    """
    try:
        text = folder.read_bytes(META)
    except FileNotFoundError:
        raise BankError(
            f"{folder.where}: expected a bank, a folder with {META}, found none; an interrupted build has none"
        ) from None
    return parse_meta(text, f"{folder.where}/{META}")


def _close_own(close: Callable[[Any], None], handle: Any, pid: int) -> None:
    """Close what this process opened; a child's copy of it is its parent's."""
    if pid == os.getpid():
        close(handle)
