"""Base of the formats: opening and checking a folder, one set of handles per process, reads into given arrays.

A handle belongs to the process that opened it: after a fork, and in a spawned worker, the files are opened anew, for
file offsets and LMDB environments must not be shared. A pickled bank carries its path and version, never pixels.
"""

from __future__ import annotations

import operator
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from segpaste.bank.format.data_files import DataFiles, read_meta
from segpaste.bank.format.protocol import Columns
from segpaste.bank.format.reads import checked_read
from segpaste.bank.schema.meta import META, Format
from segpaste.bank.schema.record import BankError, Crop, first_fault
from segpaste.bank.storage.folder import Folder, RemoteFolder, folder_at


class StoredBank(ABC):
    """A bank in a folder.

    Args:
        folder: the folder, or its path or URL.

    Attributes:
        folder: where the files lie.
        where: absolute path or URL of the folder.
        meta: what ``meta.json`` says.
        version: SHA-256 of ``meta.json``, which names the digest of every file.
        layout, crop_size, class_frequencies, class_names, metric_depth: see `InstanceBank`.

    Raises:
        BankError: the folder holds no bank, one of another format, or a file is missing or not as long as it must be.
    """

    format: ClassVar[Format]
    in_object_store: ClassVar[bool] = False

    def __init__(self, folder: Folder | str | os.PathLike[str]) -> None:
        self.folder: Folder = folder_at(folder) if isinstance(folder, str | os.PathLike) else folder
        self.where = self.folder.where
        self.meta = meta = read_meta(self.folder)
        if meta.format != self.format:
            raise BankError(
                f"{self.where}: expected a bank of format {self.format!r}, got {meta.format!r}; "
                "segpaste.open_bank finds out which it is"
            )
        if isinstance(self.folder, RemoteFolder) and not self.in_object_store:
            raise BankError(
                f"{self.where}: expected a bank of format 'webdataset' in an object store, got {self.format!r}; "
                "copy it to a local disk, or build shards"
            )
        try:
            self.layout = meta.layout
        except ValueError as error:  # a group of a later version, or crops that no machine holds
            raise BankError(f"{self.where}/{META}: {error}") from error
        self.crop_size, self.metric_depth = self.layout.crop_size, meta.metric_depth
        self.class_frequencies, self.class_names = meta.class_frequencies, meta.class_names
        self.version = meta.sha256
        self._opened_by: tuple[int, Any] | None = None  # process and handle
        self._files = DataFiles(self.folder, meta)
        self._files.check(self._files_needed())

    def __len__(self) -> int:
        return self.meta.num_crops

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.where!r}, {len(self)} crops of {self.crop_size})"

    def __getitem__(self, index: int) -> Crop:
        """Read one crop; raises what `read` does."""
        columns = self.read([operator.index(index)])
        return self.layout.unpack({name: rows[0] for name, rows in columns.items()})

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
            BankError: a file is gone or shorter than it was, or a crop holds what no bank may hold.
        """
        places, found = checked_read(self.where, len(self), self.layout, indices, columns, out)
        self._read(self._opened(), places, found)
        if (fault := first_fault(found)) is not None:
            raise BankError(
                f"{self.where}: crop {places[fault[0]]}: expected {fault[1]}; the bank is broken, build it again"
            )
        return found if out is None else out

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
        self._files.verify()

    def close(self) -> None:
        """Close the files, once no other thread reads them; reading opens them again."""
        self._opened_by = None

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
        """The handle of this process.

        Threads that open at once may each open the files; one handle is kept, and the others close theirs by dropping
        them, as `close` does: so a read that is under way keeps its files.
        """
        opened = self._opened_by
        if opened is None or opened[0] != os.getpid():
            opened = self._opened_by = os.getpid(), self._open()
        return opened[1]

    @abstractmethod
    def _files_needed(self) -> Mapping[str, tuple[int, int]]:
        """The data files of the format, and the least and the most bytes that they can have."""

    @abstractmethod
    def _open(self) -> Any:
        """Open the files for this process alone; dropping the handle closes them."""

    @abstractmethod
    def _read(self, handle: Any, rows: Sequence[int], out: Columns) -> None:
        """Write the rows of the columns that ``out`` has into it."""

    @abstractmethod
    def _class_ids(self, handle: Any) -> NDArray[np.int64]:
        """The class of every crop, [N]."""
