"""The form of a replay record: one line of JSON, strict about types, without tensors or pickles."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from segpaste.augmentation import BatchCopyPasteConfig
from segpaste.augmentation.rules.draw_rules import scale_limits, smallest_scale
from segpaste.engine.records import LARGEST_NUM, SCALE_DEN
from segpaste.seeding import SampleKey

ADR_VERSION = "0001"

_FAR_PX = 1 << 30
_Number = Annotated[int, Field(ge=0, lt=1 << 64)]
_Key = tuple[_Number, _Number, _Number, _Number, _Number]
_Offset = Annotated[int, Field(ge=-_FAR_PX, le=_FAR_PX)]
_Term = Annotated[int, Field(ge=1, le=1 << 30)]
_Size = Annotated[int, Field(ge=1, le=1 << 20)]


class ReplayError(ValueError):
    """A record cannot be read, or does not give the sample that it was made of; one line says why."""


class _Record(BaseModel):
    """Strict about types; keys that it does not know are left aside, for fields are only ever added."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class RecordedLayer(_Record):
    """One layer of a placement that carries something.

    Attributes:
        layer: which of the L layers; later ones lie over earlier ones.
        source: the five numbers of the source's `segpaste.seeding.SampleKey`; None for a crop of a bank.
        crop: its index, for a crop of a bank.
        label: the class that it was pasted with.
        scale_num: the numerators of the scales of (x, y).
        scale_den: their denominators.
        translate: (x, y), whole pixels.
        hflip: mirrored about the source's valid width, before scaling.
        slots: the source's instance slots as they were placed, ascending; some may not be seen in the result. With
            ClassMix there may be none: what it pastes follows from source and seed.
    """

    layer: int = Field(ge=0)
    source: _Key | None = None
    crop: Annotated[int, Field(ge=0)] | None = None
    label: Annotated[int, Field(ge=0, lt=1 << 31)] | None = None
    scale_num: tuple[_Term, _Term]
    scale_den: tuple[_Term, _Term]
    translate: tuple[_Offset, _Offset]
    hflip: bool
    slots: tuple[Annotated[int, Field(ge=0)], ...]

    @property
    def stands_still(self) -> bool:
        """It is neither scaled, moved nor mirrored."""
        return self.scale_num == self.scale_den and self.translate == (0, 0) and not self.hflip


class RecordedPhoto(_Record):
    """A photo that a sample was read from.

    Attributes:
        index: of the photo in the dataset.
        window: (top, left, height, width) that was cut out of it, pixels after the jitter; None for the whole photo.
    """

    index: int = Field(ge=0)
    window: tuple[_Offset, _Offset, _Size, _Size] | None = None


class RecordedJitter(_Record):
    """The large-scale jitter of every photo, see `segpaste.datasets.make_large_scale_jittering`.

    Attributes:
        size: (H, W) of every sample.
        scale_range: of the random factor.
        hflip_prob: the probability of flipping a photo.
    """

    size: tuple[_Size, _Size]
    scale_range: tuple[float, float]
    hflip_prob: float = Field(ge=0, le=1)


class ReplayRecord(_Record):
    """What made one augmented sample.

    Attributes:
        adr_version: of the form of the record.
        segpaste_version: of the package that pasted.
        config: of the paste.
        target: the five numbers of the target's `segpaste.seeding.SampleKey`.
        canvas_size: (H, W) of the batch.
        max_instances: K, the instance slots of the batch that was given to the module.
        layers: the placement.
        digest: `row_digest` of the result, or None where it was not taken.
        float_means: `segpaste.replay._float_means.float_means` of the result: what the digest leaves out. None where it
            was not taken.
        dataset: a name of the dataset's content, if the writer of the record gave one.
        bank: the version of the bank that the crops are of.
        name: what the writer calls the result, if anything.
        photos: the photo of each of ``sample_keys``, where the writer of the record read them from a dataset by index.
        jitter: of these photos; None if they keep their size.
        crop_size: (h, w) of the crops, where they were cut out at the size of their photos: the version of ``bank`` is
            that of `segpaste.bank.DatasetBank` for any size.
        sources_apart: the sources are no rows of the target's batch: their canvases have sizes of their own.
    """

    adr_version: Literal["0001"] = "0001"
    segpaste_version: str
    config: BatchCopyPasteConfig
    target: _Key
    canvas_size: tuple[_Size, _Size]
    max_instances: int = Field(ge=0, le=1 << 20)
    layers: tuple[RecordedLayer, ...] = ()
    digest: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    float_means: dict[str, tuple[Annotated[float, Field(allow_inf_nan=False)], ...]] | None = None
    dataset: str | None = None
    bank: str | None = None
    name: str | None = None
    photos: tuple[RecordedPhoto, ...] | None = None
    jitter: RecordedJitter | None = None
    crop_size: tuple[_Size, _Size] | None = None
    sources_apart: bool = False

    @model_validator(mode="after")
    def _check_layers(self) -> Self:
        num_slots = 1 << 20 if self.sources_apart else max(self.max_instances, self.config.max_instances or 0)
        if self.photos is not None and len(self.photos) != len(self.sample_keys):
            raise ValueError(
                f"photos: expected one for each of {len(self.sample_keys)} samples, got {len(self.photos)}"
            )
        order = [layer.layer for layer in self.layers]
        if order != sorted(set(order)) or (order and order[-1] >= self.config.num_layers):
            raise ValueError(f"layers: expected ascending ones below {self.config.num_layers}, got {order}")
        is_of_bank = self.config.source.kind == "bank"
        if (self.bank is not None) != is_of_bank:
            raise ValueError(f"bank: expected a version where source.kind='bank', and only there, got {self.bank!r}")
        for layer in self.layers:
            named = layer.source is None, layer.crop is None, layer.label is None
            if named != ((True, False, False) if is_of_bank else (False, True, True)):
                expected = "a crop and its label" if is_of_bank else "a source"
                raise ValueError(f"layers: expected {expected} of layer {layer.layer}, got {layer}")
            if is_of_bank and layer.slots != (0,):
                raise ValueError(f"layers: expected slots [0], for a crop is one object, got {list(layer.slots)}")
            _check_scale(layer, self.config)
            if self.config.emit_classmix and not layer.stands_still:
                raise ValueError(
                    f"layers: expected layers that stay where they are, for classes are mixed, got {layer}"
                )
            if not layer.slots and not self.config.emit_classmix:
                raise ValueError(f"layers: expected slots that layer {layer.layer} carries, got none")
            if list(layer.slots) != sorted(set(layer.slots)) or (layer.slots and layer.slots[-1] >= num_slots):
                raise ValueError(f"layers: expected ascending slots below {num_slots}, got {list(layer.slots)}")
        return self

    @property
    def sample_keys(self) -> list[SampleKey]:
        """The samples that a replay reads, each once: the target, then the sources in the order of the layers."""
        keys = (self.target, *(layer.source for layer in self.layers))
        return [SampleKey(*key) for key in dict.fromkeys(keys) if key is not None]

    @property
    def num_pastes(self) -> int:
        """Pastes that were placed."""
        return sum(len(layer.slots) for layer in self.layers)

    def to_json(self) -> str:
        """One line, without a line break at its end."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of `to_json`.

        Raises:
            ReplayError: no JSON, another ``adr_version``, or a field that is missing or not what it must be.
        """
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ReplayError(f"expected a replay record in JSON, got text that does not parse: {error}") from error
        if not isinstance(values, dict):
            raise ReplayError(f"expected a replay record, a JSON object, got a {type(values).__name__}")
        if values.get("adr_version") != ADR_VERSION:
            raise ReplayError(
                f"expected a replay record of adr_version {ADR_VERSION!r}, got {values.get('adr_version')!r}; "
                "replay it with the version of segpaste that wrote it"
            )
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise ReplayError(_first_of(error)) from error


def _check_scale(layer: RecordedLayer, paste_config: BatchCopyPasteConfig) -> None:
    """The scale may have been drawn; on patches it must be one for which the image filter has taps."""
    config = paste_config.placement
    low, high = scale_limits(config)
    if paste_config.source.relative_to == "photo":  # of a crop that was shrunk
        high = LARGEST_NUM
    pairs = list(zip(layer.scale_num, layer.scale_den, strict=True))
    if config.patch_aligned_paste:
        if min(num / den for num, den in pairs) < smallest_scale(config) * (1 - 1e-9):
            raise ValueError(f"layers: expected scales of at least {smallest_scale(config)}, got {pairs}")
    elif pairs[0] != pairs[1] or pairs[0][1] != SCALE_DEN or not low <= pairs[0][0] <= high:
        raise ValueError(
            f"layers: expected one scale of {low} to {high} over {SCALE_DEN} for both axes, as placement.scale_range "
            f"says, got {pairs}"
        )


def read_records(path: str | PathLike[str]) -> list[ReplayRecord]:
    """The records of a file with one per line, which `ReplayRecord.to_json` wrote; empty lines are passed over.

    Raises:
        ReplayError: a line is no record; the message has its number.
        OSError: the file cannot be read.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ReplayError(
            f"{path}: expected replay records in UTF-8, got other bytes; is it the right file?"
        ) from error
    found: list[ReplayRecord] = []
    configs: dict[BatchCopyPasteConfig, BatchCopyPasteConfig] = {}  # records of one run share theirs
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = ReplayRecord.from_json(line)
        except ReplayError as error:
            raise ReplayError(f"{path}: line {number}: {error}") from error
        found.append(record.model_copy(update={"config": configs.setdefault(record.config, record.config)}))
    return found


def _first_of(error: ValidationError) -> str:
    """The first of pydantic's errors, in one line."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    got = "" if ", got " in message or first["type"] == "missing" else f", got {first['input']!r:.60}"
    return f"{f'{where}: ' if where else ''}{message[:1].lower()}{message[1:]}{got}"
