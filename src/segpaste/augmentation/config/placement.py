"""Config of the draws: number, size and place of pasted objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    field_serializer,
    field_validator,
    model_serializer,
    model_validator,
)

from segpaste.augmentation.config.base import FrozenMapping, Probability, StrictConfig
from segpaste.engine.schema import LARGEST_SCALE
from segpaste.types import IGNORE_INDEX

SMALLEST_SCALE = 1 / 64
ClassId = Annotated[int, Field(ge=0, lt=1 << 16)]


class SizeRange(StrictConfig):
    """Range of sizes: the longer side of an object's box, in pixels of the target.

    Attributes:
        low: at least this.
        high: at most this.
    """

    low: float = Field(gt=0, le=1 << 16)
    high: float = Field(gt=0, le=1 << 16)

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"expected low <= high, got low={self.low}, high={self.high}")
        return self


class OriginalsConfig(StrictConfig):
    """Rules of other libraries' copy-pastes, for the presets that reproduce these.

    Files hold these keys without the group, as ``placement.candidate_frac`` and ``min_residual_area_px``. A config
    takes both; the group wins.

    Attributes:
        k_to_available: limit ``placement.k_range`` to the number of eligible slots that the sources of an image have
            before the number is drawn. If False, a number above it means all of them.
        candidate_frac: fraction of the placed objects that are pasted; their number is rounded half to even. Objects
            whose boxes cover the least of any instance's box come first; ties are resolved in the order of layers and
            slots.
        min_residual_area_px: a partly hidden instance of the target with fewer pixels left is dropped.
        max_box_shift_px: an instance that is dropped for its small rest, here or by ``min_residual_area_frac``, is kept
            if no edge of its box moved by more than this, in pixels; None keeps none.
    """

    k_to_available: bool = False
    candidate_frac: float = Field(default=1.0, gt=0, le=1)
    min_residual_area_px: int = Field(default=0, ge=0, lt=1 << 40)
    max_box_shift_px: int | None = Field(default=None, ge=0, lt=1 << 31)


OF_OUTPUT = {"max_box_shift_px": "min_residual_area_frac", "min_residual_area_px": "min_residual_area_frac"}
"""Keys of `OriginalsConfig` that stand at the top of a file, each with the key that it follows."""
_OF_DRAWS = {"k_to_available": "k_range", "candidate_frac": "cover_void"}
"""Likewise, of the other keys, which stand in ``placement``."""


def with_originals(values: Mapping[str, Any], keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a placement in which ``keys`` are in the group ``originals``, under those that it has."""
    group = values.get("originals", {})
    held = group.model_dump(exclude_unset=True) if isinstance(group, OriginalsConfig) else group
    return {**values, "originals": {**keys, **held} if isinstance(held, Mapping) else held}


def stored_key(key: str) -> str:
    """Return a dotted key as files hold it: those of `OriginalsConfig` without their group."""
    group, _, name = key.rpartition(".")
    if name in OF_OUTPUT:
        return name
    return f"placement.{name}" if group == "placement.originals" else key


def stored(values: Mapping[str, Any], places: Mapping[str, str], taken: Mapping[str, Any]) -> dict[str, Any]:
    """Return values with the keys of ``places`` from ``taken``, each after the key that it follows."""
    found = list(values.items())
    for key, before in places.items():
        if key in taken:
            names = [name for name, _ in found]
            found.insert(names.index(before) + 1 if before in names else len(names), (key, taken[key]))
    return dict(found)


class PlacementConfig(StrictConfig):
    """Number, size and place of pasted objects.

    Attributes:
        scale_range: range of the scale of a layer relative to its source, drawn uniformly.
        scale_to_fit: draw from the part of ``scale_range`` at which the rectangle around the objects of a layer fits
            into the image; if there is none, use the smallest scale. A size in pixels is limited in the same way. If
            False, an object that is drawn too large is not pasted. It has no effect if canvases are aligned to patches.
        size_range: range of the longer side of an object's box in pixels of the target, drawn instead of a relative
            scale. The resulting scale stays within ``scale_range``. It needs ``grouping`` instance, also with a bank,
            whose crops are single objects, because this class is checked without the source.
        class_sizes: class id to the ``size_range`` of its objects; other classes use ``size_range`` if it is given,
            else a relative scale. It needs ``grouping`` instance, too.
        hflip_probability: probability of flipping a layer horizontally.
        vflip_probability: probability of flipping a layer vertically, for objects without an upright, as in aerial and
            microscopic images. Both flips together turn a layer by 180 degrees.
        quarter_turn_probability: probability of turning a layer by 90, 180 or 270 degrees, each equally likely,
            before it is flipped. With 0.75 all four orientations are equally likely.
        paste_prob: probability of pasting anything into an image.
        fixed_share: paste into the same share of every batch, ``paste_prob`` of its images, instead of into each image
            independently with that probability. A number that is not whole is rounded up or down at random for each
            batch. The output of an image then depends on the other images of its batch.
        into_empty: paste into images without objects, too.
        fade_last: last part of training, as a fraction, in which less or nothing is pasted; `Schedule.at` of
            ``BatchCopyPaste.schedule`` sets the progress of training.
        fade_curve: with ``step``, nothing is pasted in that part; with ``linear``, the probability falls from
            ``paste_prob`` at its start to 0 at the end of training.
        k_range: range of the number of slots pasted into an image, a random subset of the eligible ones.
        class_temperature: balance of that subset over classes. At 0 all objects of a source are equally likely, so that
            common classes are pasted most; at 1 all its classes are, regardless of their number of objects. Slots are
            drawn one after another without replacement, in proportion to n ** -class_temperature, where n is the number
            of eligible slots of their class in the source (at most 256). With ``grouping`` instance the layers of a
            source carry them in this order; if fewer slots are wanted, the layers to leave out are drawn uniformly.
        layers: L, the number of source rows that one image draws from, each with its own map.
        grouping: with ``image`` all slots of a layer share its map; with ``instance`` each layer carries one object,
            with its own scale, place and flip. Then at most ``layers`` objects are pasted.
        position: ``random`` draws the place of a layer; ``keep`` leaves its objects at their position in the source
            image: the centre of the rectangle around them stays at the same pixel, turned and flipped with the layer.
            Scales are then 1, unless ``scale_range`` is given.
        region: class of an object to the semantic classes of the target that it may be pasted on; objects of other
            classes may be pasted anywhere. Batches must have semantic maps. A mask that is given to `BatchCopyPaste`
            as ``region`` limits all classes in addition.
        region_frac: an object is pasted only if at least this fraction of its box, clipped to the image, is in its
            region. Increase ``max_attempts`` if regions are small.
        max_cover_frac: an object is not pasted where its box covers this fraction or more of the box of an instance of
            the target. None sets no limit.
        cover_void: let pastes cover void of the target: pixels whose semantic class is 255. Use it where void is only a
            contour around objects, as in PASCAL VOC; otherwise pastes show gaps along contours. Void of a source is
            never pasted.
        max_attempts: number of places tried per layer; the one that keeps the most slots inside the image is used,
            among equal ones the one that overlaps existing boxes least. With 1 an object is uniform over the places
            where it fits.
        partial: treatment of a slot whose box extends beyond the image: it is not pasted (``drop``), or clipped
            (``clip``) if at least ``min_visible_frac`` of its box remains.
        min_visible_frac: see ``partial``.
        pad_to_multiple: pad the canvas to the right and below to multiples of this, pixels: the patch size of a ViT.
        patch_aligned_paste: put edges on multiples of ``pad_to_multiple``, see ``align``.
        align: edges to align. ``canvas``: those of the source's canvas; ``instance``, which needs ``grouping``
            instance: those of the pasted object's box, each axis scaled to whole patches.
        originals: rules that only presets of other libraries' copy-pastes need.
    """

    scale_range: tuple[float, float] = (0.5, 2.0)
    scale_to_fit: bool = True
    size_range: SizeRange | None = None
    class_sizes: Mapping[int, SizeRange] = FrozenMapping({})
    hflip_probability: Probability = 0.5
    vflip_probability: Probability = 0.0
    quarter_turn_probability: Probability = 0.0
    paste_prob: Probability = 0.5
    fixed_share: bool = False
    into_empty: bool = True
    fade_last: Probability = 0.0
    fade_curve: Literal["step", "linear"] = "step"
    k_range: tuple[int, int] = (1, 256)
    class_temperature: Probability = 0.0
    layers: int = Field(default=1, ge=1, le=64)
    grouping: Literal["image", "instance"] = "image"
    position: Literal["random", "keep"] = "random"
    region: Mapping[int, tuple[ClassId, ...]] = FrozenMapping({})
    region_frac: float = Field(default=1.0, gt=0, le=1)
    max_cover_frac: float | None = Field(default=None, gt=0, le=1)
    cover_void: bool = False
    max_attempts: int = Field(default=1, ge=1, le=64)
    partial: Literal["drop", "clip"] = "drop"
    min_visible_frac: Probability = 0.5
    pad_to_multiple: int | None = Field(default=None, ge=1, le=1024)
    patch_aligned_paste: bool = False
    align: Literal["canvas", "instance"] = "canvas"
    originals: OriginalsConfig = OriginalsConfig()

    @model_validator(mode="before")
    @classmethod
    def _keep_scale(cls, values: Any) -> Any:
        """Fill in a scale of 1 for objects that stay where they are."""
        if isinstance(values, Mapping) and values.get("position") == "keep":
            return {"scale_range": (1.0, 1.0), **values}
        return values

    @model_validator(mode="before")
    @classmethod
    def _group_originals(cls, values: Any) -> Any:
        """Accept the keys of `OriginalsConfig` without their group."""
        given = (
            {k: values[k] for k in OriginalsConfig.model_fields if k in values} if isinstance(values, Mapping) else {}
        )
        return with_originals({k: values[k] for k in values if k not in given}, given) if given else values

    @field_validator("scale_range")
    @classmethod
    def _check_scale_range(cls, value: tuple[float, float]) -> tuple[float, float]:
        low, high = value
        if not SMALLEST_SCALE <= low <= high <= LARGEST_SCALE:
            raise ValueError(f"expected 1/64 <= low <= high <= 64, got {value}")
        return value

    @field_validator("k_range")
    @classmethod
    def _check_k_range(cls, value: tuple[int, int]) -> tuple[int, int]:
        low, high = value
        if not (0 <= low <= high < 1 << 31 and high > 0):
            raise ValueError(f"expected 0 <= low <= high, high from 1 to 2**31 - 1, got {value}")
        return value

    @field_validator("class_sizes", mode="after")
    @classmethod
    def _check_classes(cls, value: Mapping[int, SizeRange]) -> Mapping[int, SizeRange]:
        if any(not 0 <= label < 1 << 16 for label in value):
            raise ValueError(f"expected class ids from 0 to 65535, got {sorted(value)}")
        return FrozenMapping(dict(sorted(value.items())))

    @field_validator("region", mode="after")
    @classmethod
    def _check_region(cls, value: Mapping[int, tuple[int, ...]]) -> Mapping[int, tuple[int, ...]]:
        if any(not 0 <= label < 1 << 16 for label in value):
            raise ValueError(f"expected class ids from 0 to 65535, got {sorted(value)}")
        for label, classes in value.items():
            if not classes or IGNORE_INDEX in classes:
                raise ValueError(
                    f"expected at least one semantic class to paste class {label} on, without {IGNORE_INDEX}, which is "
                    f"void and no region, got {list(classes)}"
                )
        return FrozenMapping({label: tuple(sorted(set(value[label]))) for label in sorted(value)})

    @field_serializer("region")
    def _plain_region(self, value: Mapping[int, tuple[int, ...]]) -> dict[int, list[int]]:
        return {label: list(classes) for label, classes in value.items()}

    @field_serializer("class_sizes")
    def _plain(self, value: Mapping[int, SizeRange]) -> dict[int, dict[str, float]]:
        return {label: size.model_dump() for label, size in value.items()}

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        if self.fade_curve != "step" and self.fade_last == 0:
            raise ValueError(
                f"fade_curve: expected fade_last above 0, the fading part of training, got 0 and {self.fade_curve!r}"
            )
        if self.draws_sizes and self.grouping != "instance":
            raise ValueError(
                "size_range and class_sizes: expected grouping='instance', a size for each object, got 'image'; "
                "set it, also with source.kind='bank'"
            )
        if self.patch_aligned_paste and self.pad_to_multiple is None:
            raise ValueError("patch_aligned_paste: expected pad_to_multiple, the size of a patch, got None")
        if self.align == "instance" and not self.patch_aligned_paste:
            raise ValueError("align='instance': expected patch_aligned_paste=True, got False")
        if self.align == "instance" and (self.grouping != "instance" or self.partial != "drop"):
            raise ValueError(
                "align='instance': expected grouping='instance' and partial='drop', one whole object for each map, got "
                f"grouping={self.grouping!r}, partial={self.partial!r}"
            )
        if self.partial == "drop" and self.min_visible_frac != PlacementConfig.model_fields["min_visible_frac"].default:
            raise ValueError(
                "min_visible_frac: expected partial='clip', since without it a slot that extends beyond the image is "
                f"not pasted, got partial='drop' and {self.min_visible_frac}"
            )
        if self.position == "keep" and (self.max_attempts != 1 or self.patch_aligned_paste):
            raise ValueError(
                "position='keep': expected max_attempts=1 and patch_aligned_paste=False, since no place is drawn, got "
                f"max_attempts={self.max_attempts}, patch_aligned_paste={self.patch_aligned_paste}"
            )
        if self.align == "canvas" and self.patch_aligned_paste and self.draws_sizes:
            raise ValueError(
                "size_range and class_sizes: expected align='instance' with patch_aligned_paste=True, got 'canvas'"
            )
        return self

    @model_serializer(mode="wrap")
    def _without_group(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write the keys of `OriginalsConfig` without their group, as every version reads them."""
        values = handler(self)
        group = values.pop("originals", {})
        return {**stored(values, _OF_DRAWS, group), **{key: group[key] for key in OF_OUTPUT if key in group}}

    @property
    def draws_sizes(self) -> bool:
        """True if some sizes are drawn in pixels."""
        return self.size_range is not None or len(self.class_sizes) > 0
