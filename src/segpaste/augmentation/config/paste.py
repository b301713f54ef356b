"""Config of a paste: frozen pydantic models that reject unknown keys.

Build them once, outside any compiled region. A config can be loaded from and saved to YAML and JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_serializer,
    field_validator,
    model_serializer,
    model_validator,
)

from segpaste.augmentation.config.base import FrozenMapping, Probability, SavedConfig, StrictConfig, checked_mask_from
from segpaste.augmentation.config.placement import OF_OUTPUT, PlacementConfig, stored, with_originals
from segpaste.types import IGNORE_INDEX, PanopticSchema

SMALLEST_BLUR = 0.1
"""Smallest standard deviation of a blur in pixels; a smaller one changes nothing."""

Kind = Literal["thing", "stuff"]
Priority = Annotated[int, Field(ge=-1000, le=1000)]

_OF_OBJECTS = ("k_to_available", "candidate_frac")
"""Keys of `OriginalsConfig` that choose objects, not limits of what they hide."""


class HarmonizeConfig(StrictConfig):
    """Config of harmonisation, which fits pasted colours to their surroundings; no label, depth or normal changes.

    Attributes:
        mode: ``reinhard`` shifts and scales each channel to the mean and spread of the surroundings; ``multiband``
            blends each band of detail over a different width; ``poisson`` keeps the gradients and takes the colours at
            the edge from the target.
        prob: probability of harmonising an image, 0 by default. Images that are not drawn keep every bit, unless
            ``feather_px`` or ``blur_px`` is set.
        pyramid_levels: bands of ``multiband``; the coarsest is blended over about 2**pyramid_levels pixels. With 1
            nothing is blended.
        surround_px: ``reinhard`` compares with the target's pixels at most this far from a pasted one.
        max_gain: ``reinhard`` changes the spread of a channel by at most this factor, up or down.
        poisson_cycles: steps of the solver of ``poisson``, a multigrid cycle each.
        feather_px: in every image, regardless of ``prob``, pasted colours fade into the target over this many pixels
            inside the edge of the pastes. 0 keeps hard edges.
        blur_px: in every image, regardless of ``prob``, the weight of pasted colours is the mask of all pastes smoothed
            by a Gaussian of this standard deviation in pixels. The target around them does not change. 0 keeps hard
            edges.
    """

    mode: Literal["reinhard", "multiband", "poisson"] = "reinhard"
    prob: Probability = 0.0
    pyramid_levels: int = Field(default=5, ge=1, le=12)
    surround_px: int = Field(default=32, ge=1, le=4096)
    max_gain: float = Field(default=4.0, ge=1.0, le=1e6)
    poisson_cycles: int = Field(default=6, ge=1, le=64)
    feather_px: int = Field(default=0, ge=0, le=64)
    blur_px: float = Field(default=0.0, ge=0, le=16)

    @model_validator(mode="after")
    def _check_edges(self) -> Self:
        if self.feather_px > 0 and self.blur_px > 0:
            raise ValueError(
                f"feather_px and blur_px: expected at most one of them above 0, got {self.feather_px} and "
                f"{self.blur_px}"
            )
        return self

    @field_validator("blur_px")
    @classmethod
    def _check_blur(cls, value: float) -> float:
        if 0 < value < SMALLEST_BLUR:
            raise ValueError(f"expected 0 or at least {SMALLEST_BLUR}, got {value}")
        return value

    @property
    def softens_edges(self) -> bool:
        """True if pasted colours fade at the edge in every image."""
        return self.feather_px > 0 or self.blur_px > 0

    @property
    def is_active(self) -> bool:
        """True if any image may change."""
        return self.prob > 0 or self.softens_edges


class SourceConfig(StrictConfig):
    """Source of the pasted objects.

    Attributes:
        kind: ``intra_batch`` takes objects from the other rows of the batch, ``same_image`` from the target's own row,
            ``bank`` from the crops of an instance bank that are staged for each call.
        whole_only: do not paste an object if its cut by the border of its own image would be visible. An object is cut
            if its box touches that border; padding at the right and at the bottom does not count. With
            ``placement.position`` ``random`` such objects are never pasted; with ``keep`` they are pasted if the cut
            also lies on the border of the target. A dataset as a pool leaves them out. Crops of a bank on disk do not
            record it, so all are pasted.
        mask_from: masks of a batch that has boxes and no masks: ``boxes``, filled rectangles; ``ellipse``, the pixels
            that the ellipse in each box touches; or a custom function, given as an object or by its name
            ``package.module:name``, see `segpaste.augmentation.config.base.MaskFunction`. A box of such a
            batch keeps every bit if no pixel that it touches was pasted over; otherwise it becomes its part within the
            box of the pixels that remain. The box of a paste is that of its source, moved and cut in the same way. With
            None nothing is pasted into such a batch.
        crops_per_target: with a bank, number of staged crops that are layers of a target, each with its own map.
        value_range: with a bank, the value of white in float images, 1 or 255, since crops are uint8. Without it only
            uint8 images are accepted. From 1e-6 to 1e9; it must also fit the dtype of the images.
        relative_to: with a bank, reference of ``placement.scale_range``: the ``crop`` as stored, or the object in its
            ``photo``, the original image, before it was shrunk to fit its crop.
        without_depth: with a bank, treatment of crops without depth where the target has depth: with ``invalid`` they
            are pasted and their depth is invalid, with ``skip`` they are left out.
    """

    kind: Literal["intra_batch", "same_image", "bank"] = "intra_batch"
    whole_only: bool = True
    mask_from: str | None = None
    crops_per_target: int = Field(default=1, ge=1, le=64)
    value_range: float | None = Field(default=None, gt=0)
    relative_to: Literal["crop", "photo"] = "crop"
    without_depth: Literal["invalid", "skip"] = "invalid"

    @field_validator("mask_from", mode="before")
    @classmethod
    def _check_mask_from(cls, value: object) -> object:
        return checked_mask_from(value)

    @field_validator("value_range")
    @classmethod
    def _check_value_range(cls, value: float | None) -> float | None:
        if value is not None and not 1e-6 <= value <= 1e9:
            raise ValueError(
                "expected a value of white from 1e-6 to 1e9, so that float32 can represent pixels and their sums, got "
                f"{value}; it is usually 1 or 255"
            )
        return value

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        names = ("crops_per_target", "value_range", "relative_to", "without_depth")
        given = [n for n in names if getattr(self, n) != SourceConfig.model_fields[n].default]
        if self.kind != "bank" and given:
            raise ValueError(f"expected kind='bank' with {', '.join(given)}, got kind={self.kind!r}")
        return self


class PanopticTaxonomy(StrictConfig):
    """`PanopticSchema` as part of a config.

    Attributes:
        classes: class id to ``"thing"`` or ``"stuff"``.
        ignore_index: semantic class of unlabelled pixels, 255 as in all containers; readers convert others.
        max_instances_per_image: largest number of instance slots; more are rejected.
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
            raise ValueError(f"expected class ids without {IGNORE_INDEX}, which means ignored, got {[*value]}")
        return FrozenMapping(dict(sorted(value.items())))

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


class PanopticConfig(StrictConfig):
    """Taxonomy of panoptic batches, and protection of their stuff.

    Attributes:
        taxonomy: things and stuff; any `PanopticSchema` is accepted and copied.
        stuff_policy: with ``revert``, a stuff class that falls below a threshold gets its pixels back; with
            ``ignore``, its remaining pixels become ignore.
        tau_stuff_frac: threshold as a fraction of the class's area before the paste.
        tau_stuff_px: threshold in pixels.
        contact_priority: class id to priority, -1000 to 1000; 0 for a class that is not named, or outside the taxonomy.
            A paste is visible only over classes of at most its own priority, in the target and among other pastes; all
            other conditions hold as well. Priorities are used only if the output has a panoptic map, so that each pixel
            has one owner.
    """

    taxonomy: PanopticTaxonomy
    stuff_policy: Literal["revert", "ignore"] = "revert"
    tau_stuff_frac: Probability = 0.1
    tau_stuff_px: int = Field(default=64, ge=0, lt=1 << 40)
    contact_priority: Mapping[int, Priority] = FrozenMapping({})

    @field_validator("taxonomy", mode="before")
    @classmethod
    def _copy_schema(cls, value: Any) -> Any:
        if isinstance(value, PanopticSchema) and not isinstance(value, PanopticTaxonomy):
            return PanopticTaxonomy(**{name: getattr(value, name) for name in PanopticTaxonomy.model_fields})
        return value

    @field_validator("contact_priority", mode="after")
    @classmethod
    def _check_classes(cls, value: Mapping[int, int], info: ValidationInfo) -> Mapping[int, int]:
        taxonomy: PanopticTaxonomy | None = info.data.get("taxonomy")  # None if it was rejected
        if taxonomy is not None and not value.keys() <= taxonomy.classes.keys():
            unknown = sorted(value.keys() - taxonomy.classes.keys())
            raise ValueError(f"expected class ids that the taxonomy names, got {unknown} among them")
        return FrozenMapping(dict(sorted(value.items())))

    @field_serializer("contact_priority")
    def _plain(self, value: Mapping[int, int]) -> dict[int, int]:
        return dict(value)


class BatchCopyPasteConfig(SavedConfig):
    """Config of `BatchCopyPaste`.

    A gate ``emit_x`` decides whether the output has a modality. None: if the batch has it. True: always, and the batch
    must have it. False: never. Depth and panoptic maps that are left out do not affect the paste; instance masks do.

    Attributes:
        emit_instance: instance masks and ids.
        emit_panoptic: the panoptic map; with it each pixel belongs to at most one instance.
        emit_depth: depth and its validity; with it the nearer surface is visible.
        emit_classmix: paste classes instead of objects: half of the semantic classes of each source, rounded up, with
            their instances, at the same position. Batches must have semantic maps. Of ``placement`` only
            ``paste_prob``, ``fixed_share``, ``layers``, ``fade_last``, ``fade_curve``, ``cover_void`` and
            ``pad_to_multiple`` are used.
            Without a taxonomy classes below 1024 are mixed.
        blend_mode: how the image is composed; ``alpha`` is a hard mask.
        max_instances: number of output slots K, at least that of the input; None: the same as the input. Pastes need
            free slots.
        tile_size: side in pixels of the tiles that the reference backend works on; it limits memory and does not change
            the result.
        antialias: filter the image where a layer shrinks its source.
        perspective_depth: an enlarged object is nearer: its depth is divided by its scale.
        depth_order: depths that decide what is nearer: with ``valid`` only valid ones, with ``value`` all that are
            finite and above 0, on both sides. Use ``value`` if holes of the sensor were filled, see ``depth_fill`` of
            the readers. It changes neither the depth that is written nor its validity.
        min_area_px: an instance with fewer visible pixels is dropped.
        min_residual_area_frac: an instance of the target with less than this fraction of its area left is dropped.
        max_hidden_frac: an instance of the target that would lose more than this fraction of its pixels to pastes
            stays in front of them and loses none.
        placement, source, harmonize, panoptic: see the classes of these configs.
    """

    _NO_KEYS: ClassVar[Mapping[str, str]] = {
        "inplace": "which is an argument of the module: BatchCopyPaste(config, inplace=True)",
        "always": "which is an argument of the module: BatchCopyPaste(config, always=True)",
        "source_pool": "which is an argument of the module: BatchCopyPaste(config, source_pool=bank)",
    }

    emit_instance: bool | None = None
    emit_panoptic: bool | None = None
    emit_depth: bool | None = None
    emit_classmix: bool = False
    blend_mode: Literal["alpha"] = "alpha"
    max_instances: int | None = Field(default=None, ge=1, lt=1 << 15)
    tile_size: int = Field(default=512, ge=1)
    antialias: bool = True
    perspective_depth: bool = False
    depth_order: Literal["valid", "value"] = "valid"
    min_area_px: int = Field(default=1, ge=1, lt=1 << 40)
    min_residual_area_frac: Probability = 0.1
    max_hidden_frac: Probability = 1.0
    placement: PlacementConfig = PlacementConfig()
    source: SourceConfig = SourceConfig()
    harmonize: HarmonizeConfig = HarmonizeConfig()
    panoptic: PanopticConfig | None = None

    @model_validator(mode="before")
    @classmethod
    def _group_originals(cls, values: Any) -> Any:
        """Accept the limits of `OriginalsConfig` at the top, too."""
        given = {k: values[k] for k in OF_OUTPUT if k in values} if isinstance(values, Mapping) else {}
        placement = values.get("placement", {}) if given else None
        if isinstance(placement, PlacementConfig):
            placement = {name: getattr(placement, name) for name in placement.model_fields_set}
        if not isinstance(placement, Mapping):
            return values
        rest = {k: values[k] for k in values if k not in given}
        return {**rest, "placement": with_originals(placement, given)}

    @model_serializer(mode="wrap")
    def _without_group(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write the limits of `OriginalsConfig` at the top."""
        values = handler(self)
        placement = values.get("placement", {})
        limits = {key: placement.pop(key) for key in OF_OUTPUT if key in placement}
        return stored(values, OF_OUTPUT, limits)

    @model_validator(mode="after")
    def _check_classmix(self) -> Self:
        usual = PlacementConfig()
        heeded = "paste_prob", "fixed_share", "layers", "fade_last", "fade_curve", "cover_void", "pad_to_multiple"
        names = [n for n in PlacementConfig.model_fields if n not in (*heeded, "originals")]
        others = [n for n in names if getattr(self.placement, n) != getattr(usual, n)]
        rules, usual_rules = self.placement.originals, usual.originals
        others += [n for n in _OF_OBJECTS if getattr(rules, n) != getattr(usual_rules, n)]
        if self.emit_classmix and others:
            raise ValueError(
                f"emit_classmix: expected no options of placement but {', '.join(heeded)}, since classes keep their "
                f"position, got {', '.join(others)}"
            )
        if self.emit_classmix and self.panoptic is not None and any(self.panoptic.contact_priority.values()):
            raise ValueError(
                "emit_classmix: expected no panoptic.contact_priority, which applies only to objects, got "
                f"{dict(self.panoptic.contact_priority)}"
            )
        if self.emit_classmix and self.perspective_depth:
            raise ValueError("emit_classmix: expected perspective_depth=False, since nothing is scaled, got True")
        return self

    @model_validator(mode="after")
    def _check_depth_order(self) -> Self:
        if self.emit_depth is False and self.depth_order != "valid":
            raise ValueError(
                "depth_order: expected emit_depth=None or True, since without depth nothing is ordered by it, got "
                f"emit_depth=False and {self.depth_order!r}"
            )
        return self

    @model_validator(mode="after")
    def _check_residual(self) -> Self:
        rules = self.placement.originals
        if rules.max_box_shift_px is not None and not (self.min_residual_area_frac or rules.min_residual_area_px):
            raise ValueError(
                "max_box_shift_px: expected min_residual_area_frac or min_residual_area_px above 0, to which it is an "
                f"exception, got 0 for both and {rules.max_box_shift_px}"
            )
        return self

    @model_validator(mode="after")
    def _check_same_image(self) -> Self:
        if self.emit_classmix and self.source.kind == "same_image":
            raise ValueError(
                "emit_classmix: expected source.kind='intra_batch', since an image mixed with itself does not change, "
                "got 'same_image'"
            )
        return self

    @model_validator(mode="after")
    def _check_bank(self) -> Self:
        if self.source.kind != "bank":
            return self
        if self.placement.position != "random":
            share = "" if self.placement.originals.candidate_frac == 1 else " placement.originals.candidate_frac=1"
            raise ValueError(
                "source.kind='bank': expected placement.position='random', since a crop has no place in an image, got "
                f"{self.placement.position!r}; give placement.position=random{share}, or paste without a bank"
            )
        if self.emit_classmix:
            raise ValueError(
                "source.kind='bank': expected emit_classmix=False, since crops are objects, got True; mix "
                "classes without a bank, or give emit_classmix=false"
            )
        if self.placement.layers != 1:
            raise ValueError(
                "source.kind='bank': expected placement.layers=1, since source.crops_per_target sets the number of "
                f"layers, got {self.placement.layers}"
            )
        if self.placement.class_temperature != 0:
            raise ValueError(
                "source.kind='bank': expected placement.class_temperature=0, since the sampler of the bank balances "
                f"classes, got {self.placement.class_temperature}"
            )
        is_fixed = self.placement.size_range is not None or (
            self.placement.patch_aligned_paste and self.placement.align == "canvas"
        )
        if self.source.relative_to == "photo" and is_fixed:
            raise ValueError(
                "source.relative_to='photo': expected neither placement.size_range nor align='canvas', which set the "
                "scale themselves, got one of them"
            )
        return self

    @property
    def num_layers(self) -> int:
        """Number of layers, L."""
        return self.source.crops_per_target if self.source.kind == "bank" else self.placement.layers

    @property
    def ignore_index(self) -> int:
        """Semantic class of void: never pasted, and pasted over only with ``placement.cover_void``."""
        return IGNORE_INDEX if self.panoptic is None else self.panoptic.taxonomy.ignore_index
