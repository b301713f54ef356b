"""Base of the formats: it opens and checks a folder, keeps one handle per process, and reads into given arrays.

A handle belongs to the process that opened it: a forked or spawned process opens the files again, because file offsets
and LMDB environments must not be shared. A pickled bank has its path and version, never pixels.
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
from segpaste.bank.format.protocol import Columns, checked_read
from segpaste.bank.schema.meta import META, Format
from segpaste.bank.schema.record import BankError, Crop, first_fault
from segpaste.bank.storage.folder import Folder, RemoteFolder, folder_at


class StoredBank(ABC):
    """Bank in a folder.

    Args:
        folder: folder, or its path or URL.

    Attributes:
        folder: folder of the files.
        where: absolute path or URL of the folder.
        meta: content of ``meta.json``.
        version: SHA-256 of ``meta.json``, which has the digest of every file.
        layout, crop_size, class_frequencies, class_names, metric_depth: see `InstanceBank`.

    Raises:
        BankError: the folder has no bank or one of another format, or a file is missing or has another length.
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
                "segpaste.open_bank detects the format"
            )
        if isinstance(self.folder, RemoteFolder) and not self.in_object_store:
            raise BankError(
                f"{self.where}: expected a bank of format 'webdataset' in an object store, got {self.format!r}; "
                "copy it to a local disk, or build shards"
            )
        try:
            self.layout = meta.layout
        except ValueError as error:  # a group of a later version, or crops too large for any machine
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
        """Read one crop; it raises the errors of `read`."""
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
            indices: indices of the crops, integers; negative ones count from the end.
            columns: columns to read; by default all, or those of ``out``.
            out: contiguous arrays [n, ...] with the dtypes of the columns, to read into.

        Returns:
            Arrays [n, ...], by name.

        Raises:
            IndexError: an index is out of range, or no integer.
            KeyError: the bank does not keep a column.
            ValueError: an array to read into has another shape or dtype.
            BankError: a file is gone or shorter than before, or a crop has a value that no bank may have.
        """
        places, found = checked_read(self.where, len(self), self.layout, indices, columns, out)
        self._read(self._opened(), places, found)
        if (fault := first_fault(found)) is not None:
            raise BankError(
                f"{self.where}: crop {places[fault[0]]}: expected {fault[1]}; the bank is broken, build it again"
            )
        return found if out is None else out

    def crop_class_ids(self) -> NDArray[np.int64]:
        """Return the class of every crop, [N].

        Raises:
            BankError: the classes do not match the counts in ``meta.json``.
        """
        ids = self._class_ids(self._opened())
        num = self.meta.num_classes
        is_known = len(ids) == len(self) and (not len(ids) or (ids.min() >= 0 and ids.max() < num))
        if not is_known or tuple(np.bincount(ids, minlength=num).tolist()) != self.class_frequencies:
            raise BankError(
                f"{self.where}: expected the class counts of {META}, got others; run segpaste bank verify, copy or "
                "build the bank again"
            )
        return ids

    def verify(self) -> None:
        """Read every byte and compare the digests with ``meta.json``.

        Raises:
            BankError: a file has another digest.
        """
        self._files.verify()

    def facts(self) -> dict[str, Any]:
        """Return what ``segpaste bank info`` prints: size, version, columns, files and classes, as JSON."""
        meta = self.meta
        files = {name: entry.size for name, entry in meta.files.items()}
        files[META] = self.folder.size(META) or 0
        return {
            "where": self.where,
            "format": meta.format,
            "format_version": meta.format_version,
            "segpaste_version": meta.segpaste_version,
            "version": self.version,
            "num_crops": len(self),
            "crop_size": list(self.crop_size),
            "num_bytes": sum(files.values()),
            "columns": [column.name for column in self.layout.columns],
            "metric_depth": self.metric_depth,
            "build_seed": meta.build_seed,
            "built_from": dict(meta.built_from),
            "files": files,
            "classes": [
                {"class_id": i, "name": name, "crops": num}
                for i, (name, num) in enumerate(zip(self.class_names, self.class_frequencies, strict=True))
            ],
        }

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
                f"{self.version[:12]}; it has been replaced since"
            )

    def _opened(self) -> Any:
        """Return the handle of this process.

        Threads that open at once may each open the files. One handle is kept; dropping the others closes their files. A
        read in progress keeps its handle, also after `close`.
        """
        opened = self._opened_by
        if opened is None or opened[0] != os.getpid():
            opened = self._opened_by = os.getpid(), self._open()
        return opened[1]

    @abstractmethod
    def _files_needed(self) -> Mapping[str, tuple[int, int]]:
        """Return the data files of the format, with the minimum and maximum size of each in bytes."""

    @abstractmethod
    def _open(self) -> Any:
        """Open the files for this process alone; dropping the handle closes them."""

    @abstractmethod
    def _read(self, handle: Any, rows: Sequence[int], out: Columns) -> None:
        """Read rows into ``out``, for the columns that it has."""

    @abstractmethod
    def _class_ids(self, handle: Any) -> NDArray[np.int64]:
        """Return the class of every crop, [N]."""
