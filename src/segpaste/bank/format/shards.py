"""Format of packed records in tar files with an index: for many terabytes, on disk or in an object store.

A shard is a plain tar, ``shard-000000.tar``, whose members ``crop_00000000.bin`` are packed records of
`segpaste.bank.schema.record`, so that webdataset reads it too. ``index.parquet`` has a row for each crop: ``shard``
int32, ``offset`` int64 of the first byte of its record, ``size`` int64 and ``class_id`` int64. A crop is read at its
offset, without reading the headers of the tar. Members have no time, owner or mode, so two builds are equal.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from segpaste.bank.format.data_files import Readers
from segpaste.bank.format.protocol import Columns
from segpaste.bank.format.stored import StoredBank
from segpaste.bank.format.writer import FolderWriter
from segpaste.bank.schema.meta import LARGEST_FILE, FileEntry, Format
from segpaste.bank.schema.record import Array, BankError, Layout, byte_view
from segpaste.bank.storage.files import HashedFile, Request, entry_of
from segpaste.extras import require

INDEX = "index.parquet"
_SCHEMA = {"shard": "int32", "offset": "int64", "size": "int64", "class_id": "int64"}
_BLOCK = tarfile.BLOCKSIZE
_ROW_BYTES, _INDEX_BYTES = 64, 1 << 20
"""Maximum size of the index, which is read as a whole: bytes per row (a row has 28), and bytes in addition."""


def shard_name(shard: int) -> str:
    """Return the file name of a shard."""
    return f"shard-{shard:06d}.tar"


class WebDatasetBank(StoredBank):
    """Bank in tar shards."""

    format: ClassVar[Format] = "webdataset"
    in_object_store: ClassVar[bool] = True
    _places: tuple[Array, Array] | None = None

    def _files_needed(self) -> dict[str, tuple[int, int]]:
        shards = {shard_name(i): (0, LARGEST_FILE) for i in range(len(self.meta.files) - 1)}
        return {INDEX: (0, _ROW_BYTES * len(self) + _INDEX_BYTES), **shards}

    def _open(self) -> Readers:
        return Readers(self._files)

    def _read(self, handle: Readers, rows: Sequence[int], out: Columns) -> None:
        shards, offsets = (places[list(rows)].tolist() for places in self._index)
        flat = {name: byte_view(array) for name, array in out.items()}
        wanted, runs = sorted(set(shards)), _runs(self.layout, tuple(flat))
        for first in range(0, len(wanted), handle.most):  # no more shards at once than may be open
            names = {shard: shard_name(shard) for shard in wanted[first : first + handle.most]}
            readers = handle.of(names.values())
            self.folder.read_many(
                [
                    Request(
                        readers[names[shard]],
                        [flat[name][n * size : (n + 1) * size] for name, size in fields],
                        at + start,
                    )
                    for n, (shard, at) in enumerate(zip(shards, offsets, strict=True))
                    if shard in names
                    for start, fields in runs
                ]
            )

    @property
    def _index(self) -> tuple[Array, Array]:
        """Shard and offset of every crop, in plain memory that a forked child shares.

        Threads that need it first may each read it. It has no lock, unlike `functools.cached_property`: another
        thread could hold it at a fork, and the child would wait for it for ever.
        """
        if self._places is None:
            self._places = self._read_index()
        return self._places

    def _read_index(self) -> tuple[Array, Array]:
        table = self._table("shard", "offset", "size")
        shards, offsets, sizes = (table.column(name).to_numpy().astype(np.int64) for name in table.column_names)
        ends = np.array([self.meta.files[shard_name(i)].size for i in range(len(self.meta.files) - 1)], np.int64)
        is_whole = (sizes == self.layout.dtype.itemsize) & (shards >= 0) & (shards < len(ends)) & (offsets >= 0)
        if not is_whole.all() or (offsets + sizes > ends[shards]).any():
            raise BankError(
                f"{self.where}/{INDEX}: expected places within the shards, got others; build the bank again"
            )
        return shards.astype(np.int32), offsets

    def _table(self, *names: str) -> Any:
        """Return columns of the index, after a check of its digest."""
        content = bytearray(self.meta.files[INDEX].size)
        self._files.open([INDEX])[INDEX].read_into([memoryview(content)], 0)
        if hashlib.sha256(content).hexdigest() != self.meta.files[INDEX].sha256:
            raise BankError(
                f"{self.where}/{INDEX}: expected the bytes that meta.json says, got others; the file was changed, copy "
                "or build the bank again"
            )
        arrow, parquet = require("pyarrow"), require("pyarrow.parquet")
        try:
            # Arrow's threads do not survive a fork.
            table = parquet.read_table(io.BytesIO(content), columns=list(names), use_threads=False)
            table = table.select(list(names)).cast(arrow.schema([(name, _SCHEMA[name]) for name in names]))
        except (arrow.ArrowException, KeyError) as error:
            raise BankError(f"{self.where}/{INDEX}: expected {', '.join(names)}, got {error}") from error
        if len(table) != len(self) or any(column.null_count for column in table.columns):
            raise BankError(f"{self.where}/{INDEX}: expected {len(self)} rows without gaps, got {len(table)}")
        return table

    def _class_ids(self, handle: Readers) -> NDArray[np.int64]:
        ids: NDArray[np.int64] = self._table("class_id").column("class_id").to_numpy()
        return ids


@lru_cache
def _runs(layout: Layout, names: tuple[str, ...]) -> list[tuple[int, list[tuple[str, int]]]]:
    """Return the runs of adjacent columns in a record: the start of each, and its columns with their sizes in bytes."""
    fields = layout.dtype.fields
    assert fields is not None
    runs: list[tuple[int, list[tuple[str, int]]]] = []
    end = -1
    for name, (dtype, start, *_) in fields.items():
        if name not in names:
            continue
        if start != end:
            runs.append((start, []))
        runs[-1][1].append((name, dtype.itemsize))
        end = start + dtype.itemsize
    return runs


class WebDatasetWriter(FolderWriter):
    """Writer of a `WebDatasetBank`, with the arguments of `FolderWriter` and one more.

    Args:
        shard_bytes: size of a shard, bytes; the record that reaches it is its last.
    """

    format: ClassVar[Format] = "webdataset"
    in_object_store: ClassVar[bool] = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        layout: Layout,
        class_names: Sequence[str],
        *,
        shard_bytes: int = 1 << 30,
        **kept: Any,
    ) -> None:
        self.shard_bytes = shard_bytes
        super().__init__(path, layout, class_names, **kept)

    def _start(self) -> None:
        self._arrow, self._parquet = require("pyarrow"), require("pyarrow.parquet")
        self._schema = self._arrow.schema(list(_SCHEMA.items()))
        self._index = self._parquet.ParquetWriter(str(self._folder / INDEX), self._schema)
        self._rows: list[tuple[int, int, int, int]] = []
        self._entries: dict[str, FileEntry] = {}
        self._shard: HashedFile | None = None

    def _append(self, row: Array) -> None:
        if self._shard is None:
            self._shard = HashedFile(self._folder / shard_name(len(self._entries)))
        data = byte_view(row)
        member = tarfile.TarInfo(f"crop_{self.num_crops:08d}.bin")
        member.size = len(data)
        self._shard.append(member.tobuf(tarfile.USTAR_FORMAT))
        self._rows.append((len(self._entries), self._shard.size, len(data), int(row["class_id"])))
        self._shard.append(data)
        self._shard.append(b"\0" * (-len(data) % _BLOCK))
        if self._shard.size >= self.shard_bytes:
            self._finish_shard()
        if len(self._rows) == 1 << 16:
            self._write_rows()

    def _finish(self) -> dict[str, FileEntry]:
        self._finish_shard()
        self._write_rows()
        self._index.close()
        self._entries[INDEX] = entry_of(self._folder, INDEX)
        self._destination.take(INDEX)
        return self._entries

    def _finish_shard(self) -> None:
        if self._shard is not None:
            self._shard.append(b"\0" * 2 * _BLOCK)
            name = self._shard.path.name
            self._entries[name] = self._shard.finish()
            self._shard = None
            self._destination.take(name)

    def _write_rows(self) -> None:
        columns = list(zip(*self._rows, strict=True)) or [()] * 4
        arrays = [self._arrow.array(c, field.type) for c, field in zip(columns, self._schema, strict=True)]
        self._index.write_table(self._arrow.Table.from_arrays(arrays, schema=self._schema))
        self._rows = []

    def _discard(self) -> None:
        if self._shard is not None:
            self._shard.close()
        self._index.close()
