"""``meta.json``: what a bank says of itself, and how it is told from a broken or another one.

It names every data file with size and SHA-256, and holds a SHA-256 of itself, over the JSON text of all other fields
with sorted keys and no spaces. So two banks of other pixels have other hashes: that hash is the bank's version.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from segpaste._point_names import KeypointSchema
from segpaste.bank.schema.blocks import DIGEST_CHARS, block_spans
from segpaste.bank.schema.record import BankError, Layout

META = "meta.json"
FORMAT_VERSION = 1
LARGEST_FILE = (1 << 63) - 1
"""Bytes that a file can have."""
Format = Literal["memmap", "lmdb", "webdataset"]


class FileEntry(BaseModel):
    """One data file.

    Attributes:
        size: bytes.
        sha256: hexadecimal digest of them.
        blocks: digests of the blocks of `segpaste.bank.schema.blocks`, one after the other; None for a bank of a
            version that wrote none.
    """

    model_config = ConfigDict(frozen=True, strict=True)

    size: int = Field(ge=0, le=LARGEST_FILE)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    blocks: str | None = Field(default=None, pattern="^[0-9a-f]*$")

    @model_validator(mode="after")
    def _check_blocks(self) -> FileEntry:
        expected = DIGEST_CHARS * len(block_spans(self.size))
        if self.blocks is not None and len(self.blocks) != expected:
            raise ValueError(f"expected {expected} digits in blocks for {self.size} bytes, got {len(self.blocks)}")
        return self


class BankMeta(BaseModel):
    """The fields of ``meta.json``; later versions only add some, which this one reads over.

    Attributes:
        format: how the crops lie on disk.
        format_version: 1.
        num_crops: N.
        crop_h, crop_w: pixels of every crop.
        num_classes: class ids are below it.
        has_embeddings: there is a column of them.
        metric_depth: depth is in metres.
        segpaste_version: of the package that built it.
        build_seed: of what was drawn while building.
        built_from: what the builder says of dataset and options.
        class_frequencies: crops of each class.
        class_names: of each class.
        groups: the optional columns, see `segpaste.bank.schema.record.COLUMNS`.
        keypoints: the `segpaste.types.KeypointSchema` of the crops' keypoints, by the names of its fields; None where
            the bank keeps none, and then not in the file.
        files: the data files, by name.
        sha256: of all other fields: the version.
    """

    model_config = ConfigDict(frozen=True, strict=True)

    format: Format
    format_version: Literal[1]
    num_crops: int = Field(ge=0, lt=1 << 48)
    crop_h: int = Field(ge=1, le=1 << 15)
    crop_w: int = Field(ge=1, le=1 << 15)
    num_classes: int = Field(ge=0, lt=1 << 31)
    has_embeddings: bool
    metric_depth: bool
    segpaste_version: str
    build_seed: int
    built_from: Mapping[str, Any]
    class_frequencies: tuple[Annotated[int, Field(ge=0)], ...]
    class_names: tuple[str, ...]
    groups: tuple[str, ...]
    keypoints: KeypointSchema | None = None
    files: Mapping[str, FileEntry]
    sha256: str

    @model_validator(mode="after")
    def _check_classes(self) -> BankMeta:
        counts = {len(self.class_frequencies), len(self.class_names), self.num_classes}
        if len(counts) > 1 or sum(self.class_frequencies) != self.num_crops:
            raise ValueError("class_frequencies, class_names, num_classes and num_crops disagree")
        if self.has_embeddings != ("embedding" in self.groups):
            raise ValueError("has_embeddings and groups disagree")
        if (self.keypoints is not None) != ("keypoints" in self.groups):
            raise ValueError("keypoints and groups disagree")
        return self

    @property
    def layout(self) -> Layout:
        """The columns of a crop."""
        return Layout((self.crop_h, self.crop_w), self.groups, self.keypoints)


def sealed(values: Mapping[str, Any]) -> bytes:
    """The bytes of ``meta.json`` with these values, its own hash among them."""
    return json.dumps({**values, "sha256": _digest(values)}, indent=2, sort_keys=True).encode() + b"\n"


def parse_meta(text: bytes, where: str) -> BankMeta:
    """Read ``meta.json``; errors call it ``where``.

    Raises:
        BankError: it is no JSON, lacks a field or its hash, was changed, or is of a format that is not known.
    """
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BankError(f"{where}: expected JSON, got {error}; build the bank again") from error
    if not isinstance(values, dict) or "format" not in values or "sha256" not in values:
        raise BankError(
            f"{where}: expected the fields of a bank, 'format' and 'sha256' among them; is it another file?"
        )
    version = values.get("format_version")
    if version != FORMAT_VERSION or type(version) is not int:
        raise BankError(
            f"{where}: expected format_version {FORMAT_VERSION}, got {version!r}; a newer segpaste may read it"
        )
    if (digest := _digest(values)) != values["sha256"]:
        raise BankError(
            f"{where}: expected the hash {digest} of its own fields, got {values['sha256']!r}; it was changed"
        )
    try:
        return BankMeta.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        came = f", got {first['input']!r:.60}" if field else ""
        raise BankError(f"{where}: {field or 'fields'}: {first['msg']}{came}; build the bank again") from error


def _digest(values: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in values.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
