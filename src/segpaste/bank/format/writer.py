"""Base of the writers of all formats: a bank can be opened only after all of it is written."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from segpaste._version import __version__
from segpaste.bank.schema.meta import FORMAT_VERSION, META, FileEntry, Format, sealed
from segpaste.bank.schema.record import Array, BankError, Crop, Layout, first_fault
from segpaste.bank.storage.destination import destination_at
from segpaste.bank.storage.folder import is_url
from segpaste.workspace import write_whole


class BankWriter(Protocol):
    """Writer that takes one crop after another."""

    def add(self, crop: Crop) -> None:
        """Append a crop; its index is the number of crops before it."""
        ...

    def finish(self) -> Path | str:
        """Complete the bank; return its folder, or its URL."""
        ...


class FolderWriter(ABC):
    """Writer of ``PATH.partial``, which `finish` renames to ``PATH``; memory does not grow with the number of crops.

    Leaving the ``with`` block without `finish` removes the written files. To a URL each file is uploaded when it is
    finished, see `segpaste.bank.storage.destination`.

    Args:
        path: folder of the bank, or for shards its URL; it must not exist, or be empty.
        layout: size of the crops and the kept columns.
        class_names: name of each class.
        build_seed, metric_depth, built_from: values for the meta.
        storage_options: options of fsspec's file system for a URL.

    Raises:
        BankError: the folder is taken, or cannot be written.
    """

    format: ClassVar[Format]
    in_object_store: ClassVar[bool] = False

    def __init__(
        self,
        path: str | os.PathLike[str],
        layout: Layout,
        class_names: Sequence[str],
        *,
        build_seed: int = 0,
        metric_depth: bool = False,
        built_from: Mapping[str, Any] | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        if is_url(path) and not self.in_object_store:
            raise BankError(
                f"{path}: expected format 'webdataset' for an object store, got {self.format!r}; write shards, or "
                "write to a local disk"
            )
        self.layout = layout
        self.class_names = tuple(class_names)
        self.build_seed = build_seed
        self.metric_depth = metric_depth
        self.built_from = dict(built_from or {})
        self._counts = np.zeros(len(self.class_names), np.int64)
        self._destination = destination_at(path, storage_options)
        self.path = self._destination.path
        self._folder = self._destination.folder
        try:
            self._start()
        except BaseException:
            self._destination.discard()
            raise

    @property
    def num_crops(self) -> int:
        """Number of crops so far."""
        return int(self._counts.sum())

    def add(self, crop: Crop) -> None:
        """Append a crop.

        Raises:
            BankError: the crop does not fit the layout, its class has no name, or a value is out of range: see
                `segpaste.bank.schema.record.first_fault`.
        """
        self.add_row(self.layout.pack(crop))

    def add_row(self, row: Array) -> None:
        """Append a packed record of ``layout.dtype``.

        Raises:
            BankError: its class has no name, or a value is out of range, see `add`.
        """
        class_id = int(row["class_id"])
        if not 0 <= class_id < len(self.class_names):
            raise BankError(f"crop: expected class_id from 0 to {len(self.class_names) - 1}, got {class_id}")
        if (fault := first_fault({name: row[name][None] for name in self.layout.shapes})) is not None:
            raise BankError(f"crop {self.num_crops}: expected {fault[1]}; correct it, or leave the crop out")
        self._append(row)
        self._counts[class_id] += 1

    def finish(self) -> Path | str:
        """Close the data files, write ``meta.json`` and rename the folder; return the folder, or its URL."""
        files = {name: entry.model_dump() for name, entry in self._finish().items()}
        values: dict[str, Any] = {
            "format": self.format,
            "format_version": FORMAT_VERSION,
            "num_crops": self.num_crops,
            "crop_h": self.layout.crop_size[0],
            "crop_w": self.layout.crop_size[1],
            "num_classes": len(self.class_names),
            "has_embeddings": "embedding" in self.layout.groups,
            "metric_depth": self.metric_depth,
            "segpaste_version": __version__,
            "build_seed": self.build_seed,
            "built_from": self.built_from,
            "class_frequencies": self._counts.tolist(),
            "class_names": list(self.class_names),
            "groups": list(self.layout.groups),
            "files": files,
        }
        if self.layout.keypoint_schema is not None:
            values["keypoints"] = asdict(self.layout.keypoint_schema)
        write_whole(self._folder / META, sealed(values))
        self._destination.publish()
        return self.path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder.exists():
            try:
                self._discard()
            finally:
                self._destination.discard()

    @abstractmethod
    def _start(self) -> None:
        """Open the data files."""

    @abstractmethod
    def _append(self, row: Array) -> None:
        """Write one packed record."""

    @abstractmethod
    def _finish(self) -> dict[str, FileEntry]:
        """Close the data files; return their entries by name."""

    @abstractmethod
    def _discard(self) -> None:
        """Close the data files of an unfinished bank."""
