"""Format with a file for each kind of pixel: the fastest to read, without decoding.

    images.dat      uint8 [N, 3, h, w]
    alpha.dat       bool [N, 1, h, w]
    classes.npy     int64 [N], a NumPy file
    details.dat     one packed structure for each crop, with the other columns
    embeddings.dat  float16 [N, 256]
    depth.dat, depth_valid.dat, normals.dat

Only the files of columns that the bank keeps exist; only ``classes.npy`` has a header. A read is a positioned read of
the requested bytes: a file that is truncated while it is open gives an error, while a mapped file would kill the
process. This format is for one machine and banks that fit its disk; for object stores use shards.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.lib.format import write_array_header_1_0
from numpy.typing import NDArray

from segpaste.bank.format.protocol import Columns
from segpaste.bank.format.stored import StoredBank
from segpaste.bank.format.writer import FolderWriter
from segpaste.bank.schema.meta import FileEntry, Format
from segpaste.bank.schema.record import Array, Column, Layout, byte_view
from segpaste.bank.storage.files import HashedFile, Reader

CLASSES, DETAILS = "classes.npy", "details.dat"
_NAMES = {"image": "images.dat", "class_id": CLASSES, "embedding": "embeddings.dat"}


def file_name(column: Column) -> str:
    """Return the name of the file of a column."""
    return _NAMES.get(column.name, f"{column.name}.dat" if "h" in column.shape else DETAILS)


def row_dtypes(layout: Layout) -> dict[str, np.dtype[Any]]:
    """Return the packed dtype of one crop in each file."""
    columns: dict[str, list[Any]] = {}
    for column in layout.columns:
        columns.setdefault(file_name(column), []).append((column.name, column.dtype, layout.shape(column)))
    return {name: np.dtype(fields) for name, fields in columns.items()}


def npy_header(num: int) -> bytes:
    """Return the header of a NumPy file of ``num`` int64; it has the same length for every number."""
    header = io.BytesIO()
    write_array_header_1_0(header, {"descr": "<i8", "fortran_order": False, "shape": (num,)})
    return header.getvalue()


_START = {CLASSES: len(npy_header(0))}


_Handle = dict[str, tuple[Reader, np.dtype[Any]]]
"""Open files by name, with the dtype of one crop in each."""


class MemmapBank(StoredBank):
    """Bank with a file for each kind of pixel."""

    format: ClassVar[Format] = "memmap"

    def _files_needed(self) -> dict[str, tuple[int, int]]:
        sizes = {n: _START.get(n, 0) + len(self) * dtype.itemsize for n, dtype in row_dtypes(self.layout).items()}
        return {name: (size, size) for name, size in sizes.items()}

    def _open(self) -> _Handle:
        dtypes = row_dtypes(self.layout)
        return {name: (reader, dtypes[name]) for name, reader in self._files.open(list(dtypes)).items()}

    def _read(self, handle: _Handle, rows: Sequence[int], out: Columns) -> None:
        for name, (reader, dtype) in handle.items():
            columns, size = dtype.names or (), dtype.itemsize
            wanted = [column for column in columns if column in out]
            if not wanted:
                continue
            target = out[wanted[0]] if len(columns) == 1 else np.empty(len(rows), dtype)
            flat, start = byte_view(target), _START.get(name, 0)
            for n, row in enumerate(rows):
                reader.read_into((flat[n * size : (n + 1) * size],), start + row * size)
            if len(columns) > 1:
                for column in wanted:
                    out[column][...] = target[column]

    def _class_ids(self, handle: _Handle) -> NDArray[np.int64]:
        ids = np.empty(len(self), np.int64)
        handle[CLASSES][0].read_into([byte_view(ids)], _START[CLASSES])
        return ids


class MemmapWriter(FolderWriter):
    """Writer of a `MemmapBank`, with the arguments of `FolderWriter`."""

    format: ClassVar[Format] = "memmap"

    def _start(self) -> None:
        names = {name: f"{name}.raw" if name == CLASSES else name for name in row_dtypes(self.layout)}
        self._files = {name: HashedFile(self._folder / raw) for name, raw in names.items()}

    def _append(self, row: Array) -> None:
        record, start = byte_view(row), 0
        for column in self.layout.columns:
            end = start + self.layout.dtype[column.name].itemsize
            self._files[file_name(column)].append(record[start:end])
            start = end

    def _finish(self) -> dict[str, FileEntry]:
        entries = {name: file.finish() for name, file in self._files.items()}
        return entries | {CLASSES: self._finish_classes(self._files[CLASSES].path)}

    def _finish_classes(self, raw: Path) -> FileEntry:
        """Copy the classes to a file with a header that states their number."""
        file = HashedFile(self._folder / CLASSES)
        file.append(npy_header(self.num_crops))
        with raw.open("rb") as source:
            while block := source.read(1 << 22):
                file.append(block)
        raw.unlink()
        return file.finish()

    def _discard(self) -> None:
        for file in self._files.values():
            file.close()
