"""Form of a replay record: one line of JSON, with strict types, without tensors or pickles."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from segpaste._invalid_values import expectation
from segpaste._utf8 import NotUtf8Error, decode_utf8
from segpaste.augmentation import BatchCopyPasteConfig
from segpaste.augmentation.rules import scale_limits, smallest_scale
from segpaste.engine.schema import LARGEST_NUM, SCALE_DEN
from segpaste.seeding import SampleKey

ADR_VERSION = "0001"

_FAR_PX = 1 << 30
_Number = Annotated[int, Field(ge=0, lt=1 << 64)]
_Key = tuple[_Number, _Number, _Number, _Number, _Number]
_Offset = Annotated[int, Field(ge=-_FAR_PX, le=_FAR_PX)]
_Term = Annotated[int, Field(ge=1, le=1 << 30)]
_Size = Annotated[int, Field(ge=1, le=1 << 20)]


class ReplayError(ValueError):
    """Error raised for a record that cannot be read, or does not reproduce its sample; its one line says why."""


class _Record(BaseModel):
    """Base with strict types; unknown keys are ignored, because later versions only add fields."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class RecordedLayer(_Record):
    """Layer of a placement with at least one paste.

    Attributes:
        layer: index among the L layers; later layers are above earlier ones.
        source: five numbers of the source's `segpaste.seeding.SampleKey`; None for a crop of a bank.
        crop: index of a crop of a bank.
        label: pasted class of a crop of a bank.
        scale_num: numerators of the scales of (x, y).
        scale_den: denominators of the scales of (x, y).
        translate: translation (x, y), whole pixels.
        hflip: flipped about the valid width of the source, before scaling.
        vflip: flipped about the valid height of the source, before scaling.
        swap_axes: x and y of the source are swapped, before the flips.
        slots: placed instance slots of the source, ascending; some may be hidden in the result. With ClassMix there may
            be none: its pastes follow from source and seed.
    """

    layer: int = Field(ge=0)
    source: _Key | None = None
    crop: Annotated[int, Field(ge=0)] | None = None
    label: Annotated[int, Field(ge=0, lt=1 << 31)] | None = None
    scale_num: tuple[_Term, _Term]
    scale_den: tuple[_Term, _Term]
    translate: tuple[_Offset, _Offset]
    hflip: bool
    vflip: bool = False
    swap_axes: bool = False
    slots: tuple[Annotated[int, Field(ge=0)], ...]

    @property
    def stands_still(self) -> bool:
        """True if the layer is not scaled, moved, turned or flipped."""
        is_turned = self.hflip or self.vflip or self.swap_axes
        return self.scale_num == self.scale_den and self.translate == (0, 0) and not is_turned


class RecordedPhoto(_Record):
    """Image that a sample was read from.

    Attributes:
        index: index of the image in the dataset.
        window: window (top, left, height, width) of the crop, pixels after the jitter; None for the whole image.
    """

    index: int = Field(ge=0)
    window: tuple[_Offset, _Offset, _Size, _Size] | None = None


class RecordedJitter(_Record):
    """Large-scale jitter of every image, see `segpaste.datasets.make_large_scale_jittering`.

    Attributes:
        size: size (H, W) of every sample.
        scale_range: range of the random scale.
        hflip_prob: probability of flipping an image.
    """

    size: tuple[_Size, _Size]
    scale_range: tuple[float, float]
    hflip_prob: float = Field(ge=0, le=1)


class ReplayRecord(_Record):
    """Record of one augmented sample.

    Attributes:
        adr_version: version of the form of the record.
        segpaste_version: version of the package that pasted.
        config: configuration of the paste.
        target: five numbers of the target's `segpaste.seeding.SampleKey`.
        canvas_size: size (H, W) of the batch.
        max_instances: number of instance slots of the input batch, K.
        layers: placement.
        digest: `row_digest` of the result, or None if it was not taken.
        float_means: `segpaste.replay.recording.float_means` of the result, which the digest does not cover, or None
            if they were not taken.
        dataset: name of the content of the dataset, if given.
        bank: version of the bank of the crops.
        name: name of the result, if given.
        photos: image of each of ``sample_keys``, if they were read from a dataset by index.
        jitter: jitter of these images; None if they keep their size.
        crop_size: size (h, w) of crops that were cut out at their size in their images; ``bank`` is then the version of
            a `segpaste.bank.DatasetBank` of any size.
        depth_fill: True if holes in the depth of objects had values, see `segpaste.datasets.open_dataset`.
        sources_apart: True if the sources are no rows of the target's batch, and have their own canvas sizes.
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
    depth_fill: bool = False
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
                    "layers: expected layers at their own position (shift 0, scale 1, no flip), because "
                    f"emit_classmix is on, got {layer}"
                )
            if not layer.slots and not self.config.emit_classmix:
                raise ValueError(f"layers: expected slots that layer {layer.layer} carries, got none")
            if list(layer.slots) != sorted(set(layer.slots)) or (layer.slots and layer.slots[-1] >= num_slots):
                raise ValueError(f"layers: expected ascending slots below {num_slots}, got {list(layer.slots)}")
        return self

    @property
    def sample_keys(self) -> list[SampleKey]:
        """Keys of the samples that a replay reads, each once: the target, then the sources in order of the layers."""
        keys = (self.target, *(layer.source for layer in self.layers))
        return [SampleKey(*key) for key in dict.fromkeys(keys) if key is not None]

    @property
    def num_pastes(self) -> int:
        """Number of placed pastes."""
        return sum(len(layer.slots) for layer in self.layers)

    def to_json(self) -> str:
        """Return the record as one line of JSON, without a line break."""
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse a record: the inverse of `to_json`.

        Raises:
            ReplayError: the text is no JSON, has another ``adr_version``, or a field is missing or invalid.
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
    """Check the scale: it must be one that can be drawn; on patches, one for which the image filter has taps."""
    config = paste_config.placement
    low, high = scale_limits(config)
    if paste_config.source.relative_to == "photo":  # the crop may have been shrunk
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
    """Read a file of records, one per line, written by `ReplayRecord.to_json`; empty lines are skipped.

    Raises:
        ReplayError: a line is no record; the message has its number.
        OSError: the file cannot be read.
    """
    try:
        lines = decode_utf8(Path(path).read_bytes()).split("\n")
    except NotUtf8Error as error:
        raise ReplayError(f"{path}: {error}") from error
    found: list[ReplayRecord] = []
    configs: dict[BatchCopyPasteConfig, BatchCopyPasteConfig] = {}  # shared by the records of one run
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
    """Return the first of pydantic's errors, in one line."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{f'{where}: ' if where else ''}{expectation(first)}"
