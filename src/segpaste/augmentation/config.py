"""What a paste may do: frozen pydantic models that refuse what they do not know.

Build them once, outside any compiled region. A config loads from and saves to YAML and JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_serializer, field_validator

from segpaste.types import IGNORE_INDEX, PanopticSchema

Probability = Annotated[float, Field(ge=0.0, le=1.0)]

Kind = Literal["thing", "stuff"]


class _Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PlacementConfig(_Config):
    """How many objects go where.

    Attributes:
        scale_range: the pasted object's size relative to its source, drawn uniformly.
        hflip_probability: of mirroring a layer left to right.
        paste_prob: of pasting anything into an image.
        k_range: how many slots are pasted into an image: a uniformly random subset of the eligible ones.
        layers: L, the number of source rows that one image draws from, each with its own map.
        max_attempts: places tried at once per layer; the one that keeps the most slots inside the image, then
            overlaps existing boxes least, is taken. With 1 a fitting object is uniform over where it fits.
    """

    scale_range: tuple[float, float] = (0.5, 2.0)
    hflip_probability: Probability = 0.5
    paste_prob: Probability = 1.0
    k_range: tuple[int, int] = (1, 256)
    layers: int = Field(default=1, ge=1, le=64)
    max_attempts: int = Field(default=1, ge=1, le=64)

    @field_validator("scale_range")
    @classmethod
    def _check_scale_range(cls, value: tuple[float, float]) -> tuple[float, float]:
        low, high = value
        if not 1 / 64 <= low <= high <= 64:
            raise ValueError(f"expected 1/64 <= low <= high <= 64, got {value}")
        return value

    @field_validator("k_range")
    @classmethod
    def _check_k_range(cls, value: tuple[int, int]) -> tuple[int, int]:
        low, high = value
        if not 1 <= low <= high < 1 << 31:
            raise ValueError(
                f"expected 1 <= low <= high < 2**31, got {value}; use paste_prob to paste nothing at times"
            )
        return value


class SourceConfig(_Config):
    """Where pasted objects come from.

    Attributes:
        kind: ``intra_batch`` takes them from the other rows of the batch.
        mask_from: what stands for the masks of a batch that has boxes and no masks: its ``boxes``, as filled
            rectangles; all its boxes come out rounded outwards to whole pixels. With None nothing is pasted there.
    """

    kind: Literal["intra_batch"] = "intra_batch"
    mask_from: Literal["boxes"] | None = None


class ClassKinds(Mapping[int, Kind]):
    """An immutable mapping from class id to kind that can be hashed, copied and pickled; ids ascend."""

    def __init__(self, kinds: Mapping[int, Kind]) -> None:
        self._kinds = dict(sorted(kinds.items()))

    def __getitem__(self, class_id: int) -> Kind:
        return self._kinds[class_id]

    def __iter__(self) -> Iterator[int]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)

    def __hash__(self) -> int:
        return hash(tuple(self._kinds.items()))

    def __repr__(self) -> str:
        return f"ClassKinds({self._kinds})"


class PanopticTaxonomy(_Config):
    """A `PanopticSchema` that travels in configs.

    Attributes:
        classes: class id to ``"thing"`` or ``"stuff"``.
        ignore_index: the semantic class of unlabelled pixels, 255 as in all containers; readers convert others.
        max_instances_per_image: more instance slots than this are refused.
    """

    classes: Mapping[int, Kind]
    ignore_index: int = IGNORE_INDEX
    max_instances_per_image: int = Field(default=256, ge=1)

    @field_validator("classes", mode="after")
    @classmethod
    def _freeze(cls, value: Mapping[int, Kind]) -> Mapping[int, Kind]:
        if not value or min(value) < 0:
            raise ValueError(f"expected at least one class, all ids >= 0, got {dict(value)}")
        if IGNORE_INDEX in value:
            raise ValueError(f"expected class ids other than {IGNORE_INDEX}, which means ignored, got it among them")
        return ClassKinds(value)

    @field_validator("ignore_index")
    @classmethod
    def _check_ignore_index(cls, value: int) -> int:
        if value != IGNORE_INDEX:
            raise ValueError(
                f"expected {IGNORE_INDEX}, the ignored class of all containers, got {value}; convert the maps"
            )
        return value

    @field_serializer("classes")
    def _plain(self, value: Mapping[int, str]) -> dict[int, str]:
        return dict(value)


class PanopticConfig(_Config):
    """What panoptic batches need to know, and how their stuff is protected.

    Attributes:
        taxonomy: things and stuff; any `PanopticSchema` is accepted and copied.
        stuff_policy: a stuff class driven below a threshold gets its pixels back (``revert``), or what is left of
            it becomes ignore (``ignore``).
        tau_stuff_frac: threshold as a fraction of the class's area before the paste.
        tau_stuff_px: threshold in pixels.
    """

    taxonomy: PanopticTaxonomy
    stuff_policy: Literal["revert", "ignore"] = "revert"
    tau_stuff_frac: Probability = 0.1
    tau_stuff_px: int = Field(default=64, ge=0)

    @field_validator("taxonomy", mode="before")
    @classmethod
    def _copy_schema(cls, value: Any) -> Any:
        if isinstance(value, PanopticSchema) and not isinstance(value, PanopticTaxonomy):
            return PanopticTaxonomy(
                classes=dict(value.classes),
                ignore_index=value.ignore_index,
                max_instances_per_image=value.max_instances_per_image,
            )
        return value


class BatchCopyPasteConfig(_Config):
    """Everything that `BatchCopyPaste` can be told.

    A gate ``emit_x`` says whether the output carries a modality: None, as the batch does; True, the batch must
    carry it; False, it is left out of the output and plays no part.

    Attributes:
        emit_instance: instance masks and ids.
        emit_panoptic: the panoptic map; with it each pixel belongs to exactly one instance.
        emit_depth: depth and its validity; with it the nearer surface is seen.
        blend_mode: how the image is composed; ``alpha`` is a hard mask.
        max_instances: output slots K; fewer than the input has are refused (None: as many as it has). Pastes need
            free slots.
        tile_size: pixels on a side that the reference kernels work on at once; bounds memory, changes no bit.
        antialias: filter the image where a layer shrinks its source.
        min_area_px: an instance with fewer visible pixels has no row.
        min_residual_area_frac: an instance of the target with less than this of its area left has no row.
        placement, source, panoptic: see there.
    """

    emit_instance: bool | None = None
    emit_panoptic: bool | None = None
    emit_depth: bool | None = None
    blend_mode: Literal["alpha"] = "alpha"
    max_instances: int | None = Field(default=None, ge=1)
    tile_size: int = Field(default=512, ge=1)
    antialias: bool = True
    min_area_px: int = Field(default=1, ge=1)
    min_residual_area_frac: Probability = 0.1
    placement: PlacementConfig = PlacementConfig()
    source: SourceConfig = SourceConfig()
    panoptic: PanopticConfig | None = None

    @property
    def ignore_index(self) -> int:
        """The semantic class that is never pasted, never pasted over."""
        return IGNORE_INDEX if self.panoptic is None else self.panoptic.taxonomy.ignore_index

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a ``.yaml``, ``.yml`` or ``.json`` file.

        Raises:
            ValueError: another suffix, a file that does not parse, or (pydantic) an unknown key or value, named.
        """
        import yaml

        path = Path(path)
        _check_suffix(path)
        try:
            text = path.read_text(encoding="utf-8")
            values = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
        except (yaml.YAMLError, json.JSONDecodeError) as error:
            raise ValueError(f"{path}: expected YAML or JSON, got text that does not parse: {error}") from error
        return cls.model_validate({} if values is None else values)

    def save(self, path: str | Path) -> None:
        """Write a ``.yaml``, ``.yml`` or ``.json`` file that `load` reads back equal."""
        import yaml

        path = Path(path)
        _check_suffix(path)
        if path.suffix == ".json":
            text = self.model_dump_json(indent=2) + "\n"
        else:
            text = yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)
        partial = path.with_name(path.name + ".partial")
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)


def _check_suffix(path: Path) -> None:
    if path.suffix not in (".yaml", ".yml", ".json"):
        raise ValueError(f"{path}: expected a file name ending in .yaml, .yml or .json")
