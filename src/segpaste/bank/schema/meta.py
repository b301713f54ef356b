"""``meta.json``: the description of a bank, which detects broken and swapped banks.

It has the size and SHA-256 of every data file, and a SHA-256 of itself, over the JSON text of all other fields with
sorted keys and no spaces. So banks with other pixels have another hash; that hash is the version of the bank.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from segpaste._invalid_values import expectation
from segpaste._point_names import KeypointSchema
from segpaste.bank.schema.blocks import DIGEST_CHARS, block_spans
from segpaste.bank.schema.record import BankError, Layout

META = "meta.json"
FORMAT_VERSION = 1
LARGEST_FILE = (1 << 63) - 1
"""Maximum number of bytes of a file."""
Format = Literal["memmap", "lmdb", "webdataset"]


class FileEntry(BaseModel):
    """Entry of one data file.

    Attributes:
        size: number of bytes.
        sha256: hexadecimal digest of the bytes.
        blocks: digests of the blocks of `segpaste.bank.schema.blocks`, one after another; None for banks of older
            versions.
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
    """Fields of ``meta.json``; later versions only add fields, which this version ignores.

    Attributes:
        format: format of the data files.
        format_version: version of the format, 1.
        num_crops: number of crops, N.
        crop_h, crop_w: size of every crop, pixels.
        num_classes: number of classes; class ids are below it.
        has_embeddings: True if there is a column of embeddings.
        metric_depth: True if depth is in metres.
        segpaste_version: version of the package that built the bank.
        build_seed: seed of the build.
        built_from: facts about the dataset and the options, as the builder states them.
        class_frequencies: number of crops of each class.
        class_names: name of each class.
        groups: optional columns, see `segpaste.bank.schema.record.COLUMNS`.
        keypoints: `segpaste.types.KeypointSchema` of the crops, by the names of its fields; None, and not in the file,
            if the bank keeps no keypoints.
        files: data files, by name.
        sha256: digest of all other fields, the version of the bank.
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
        """Layout of a crop."""
        return Layout((self.crop_h, self.crop_w), self.groups, self.keypoints)


def sealed(values: Mapping[str, Any]) -> bytes:
    """Return the bytes of ``meta.json`` with these values and their hash."""
    return json.dumps({**values, "sha256": _digest(values)}, indent=2, sort_keys=True).encode() + b"\n"


def parse_meta(text: bytes, where: str) -> BankMeta:
    """Parse ``meta.json``; ``where`` is its name in errors.

    Raises:
        BankError: it is no JSON, lacks a field or its hash, was changed, or has an unknown format.
    """
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BankError(f"{where}: expected JSON, got {error}; build the bank again") from error
    if not isinstance(values, dict) or "format" not in values or "sha256" not in values:
        raise BankError(f"{where}: expected the fields of a bank, including 'format' and 'sha256'; is it another file?")
    version = values.get("format_version")
    if version != FORMAT_VERSION or type(version) is not int:
        raise BankError(f"{where}: expected format_version {FORMAT_VERSION}, got {version!r}; use a newer segpaste")
    if (digest := _digest(values)) != values["sha256"]:
        raise BankError(
            f"{where}: expected the hash {digest} of its own fields, got {values['sha256']!r}; it was changed"
        )
    try:
        return BankMeta.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise BankError(f"{where}: {field or 'fields'}: {expectation(first)}; build the bank again") from error


def _digest(values: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in values.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
