"""Inputs and outputs of an engine: records of plain tensors and integers, shared by all backends.

Each field is declared here and nowhere else: its name, shape and dtype, and the backends that have it if not all do.
What allocates, packs or checks records follows from it, see `segpaste.engine.record_fields`. Boxes are xyxy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import torch
from torch import Tensor

from segpaste.engine.orientation import Orientation
from segpaste.engine.record_fields import FLAG, NOT_NATIVE, ONLY_REFERENCE
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.movable import Movable, register_pytree

Pick = Literal["others", "same", "own"]
"""Rule by which layers choose rows of the sources, see `segpaste.engine.reference.draws.draw.draw`."""

LARGEST_SCALE = 64.0
"""Largest scale that is drawn for an axis, before rounding to whole patches."""

SCALE_DEN = 1 << 16
"""Denominator of scales that are not aligned to patches."""

LARGEST_NUM = round(LARGEST_SCALE * SCALE_DEN)
"""`LARGEST_SCALE` as a numerator over `SCALE_DEN`."""

SIZE_DEN = 16
"""Sizes are drawn in steps of 1 / `SIZE_DEN` pixels."""

GRID_TRIES = 8
"""Number of scales of the canvas grid that are tried before the smallest one is taken."""


class Survey(NamedTuple):
    """Facts about a batch that the draws need."""

    eligible: Annotated[Tensor, "[B, K] bool"]
    """Instances that may be pasted: with a nonempty box, of a thing class if there is a taxonomy, whole if asked."""
    occupied: Annotated[Tensor, "[B, K, 4] int64"]
    """Boxes rounded outwards to whole pixels."""
    num_free: Annotated[Tensor, "[B] int64"]
    """Number of slots without an instance."""
    extent: Annotated[Tensor, "[B, 2] int64"]
    """(width, height) of the images without padding."""
    present: Annotated[Tensor | None, "[B, num_classes] bool"] = None
    """Semantic classes that may be mixed and have a pixel; None if not requested."""
    has_present: Annotated[Tensor | None, "[B] bool", NOT_NATIVE] = None
    """Images with such a class; None if not requested."""


class Classes(NamedTuple):
    """Taxonomy as tables of one length, the number of classes; all None without a taxonomy."""

    is_thing: Annotated[Tensor | None, "[num_things] bool"] = None
    is_stuff: Annotated[Tensor | None, "[num_stuff] bool"] = None
    rank: Annotated[Tensor | None, "[num_ranks] int16"] = None
    """Contact priorities; None if all are equal."""


class DrawTables(NamedTuple):
    """Parameters of the draws that may change between steps: the tensors of `segpaste.augmentation.Schedule`."""

    limits: Annotated[Tensor, "[4] int64"]
    """Probability of pasting in units of 2**-32, the smallest and the largest number of slots, and the class
    temperature in units of 2**-32.
    """
    size_table: Annotated[Tensor, "[num_sizes, 2] int64"]
    """See `segpaste.augmentation.rules.size_table`."""
    inverse_weights: Annotated[Tensor, "[num_weights] int64"]
    """See `segpaste.augmentation.tables.inverse_weights`."""
    log_table: Annotated[Tensor, "[257] int64"]
    """See `segpaste.augmentation.tables.log_table`."""
    region_table: Annotated[Tensor, "[num_region_classes] int64"]
    """See `segpaste.augmentation.rules.region_table`."""


class DrawRules(NamedTuple):
    """Fixed parameters of the draws, as integers; ranges include both ends."""

    num_layers: int
    """L."""
    low_scale: int
    """Smallest numerator of a scale; in patches if ``on_grid``."""
    high_scale: int
    """Largest numerator of a scale."""
    scale_den: int
    """Denominator of both."""
    flip_threshold: int
    """Probability of flipping a layer horizontally, in units of 2**-32."""
    vflip_threshold: int
    """Probability of flipping a layer vertically, in units of 2**-32."""
    turn_threshold: int
    """Probability of turning a layer by one, two or three quarters, in units of 2**-32."""
    max_attempts: int
    """Number of places tried for each layer."""
    patch: int
    """Side of a patch in pixels, 1 if nothing is aligned."""
    on_grid: Annotated[int, FLAG]
    """1 if scales and places keep the edges of the source canvas on patches, else 0."""
    whole_patches: Annotated[int, FLAG]
    """1 if scales and places keep the edges of each object on patches, else 0."""
    one_each: Annotated[int, FLAG]
    """1 if each layer carries one object, else 0."""
    clips: Annotated[int, FLAG]
    """1 if objects that extend beyond the image are clipped, 0 if they are not pasted."""
    seen_num: int
    """A clipped object keeps at least ``seen_num / seen_den`` of its box."""
    seen_den: int
    keeps_place: Annotated[int, FLAG]
    """1 if objects stay where they are in their image, 0 if places are drawn."""
    hides_cuts: Annotated[int, FLAG]
    """1 if an object that touches a border of its image is pasted only where it touches that of the target, else 0."""
    fits_scale: Annotated[int, FLAG]
    """1 if scales are limited to those at which the objects of a layer fit into the image, else 0."""
    region_num: int
    """At least ``region_num / region_den`` of an object's box lies in its region."""
    region_den: int
    counts_available: Annotated[int, FLAG]
    """1 if the number of slots is drawn from the part of its range that the sources have, else 0."""
    cover_num: int
    """An object covers less than ``cover_num / cover_den`` of the box of each instance of the target; above 1 it may
    cover any.
    """
    cover_den: int
    candidate_num: int
    """Of the objects that may be pasted, ``candidate_num / candidate_den`` are; if that is 1, all."""
    candidate_den: int
    needs_objects: Annotated[int, FLAG]
    """1 if nothing is tried for images in which no instance has a box with an area, else 0."""

    @property
    def limits_cover(self) -> bool:
        """True if objects may not cover any fraction of an instance's box."""
        return self.cover_num <= self.cover_den

    @property
    def takes_part(self) -> bool:
        """True if only some of the objects that may be pasted are."""
        return self.candidate_num < self.candidate_den

    @property
    def is_aligned(self) -> bool:
        """True if places lie on patches."""
        return bool(self.on_grid or self.whole_patches)


class HeldRules(NamedTuple):
    """`DrawRules` or `PasteRules` in a tensor: a graph of compiled code reads them, and serves any of their values."""

    numbers: Annotated[Tensor, "[N] int64"]
    """All fields, on the CPU."""
    num_layers: int
    """L, which decides shapes."""


class Targets(NamedTuple):
    """Target images that layers are drawn for."""

    seeds: Annotated[Tensor, "[B] int64"]
    occupied: Annotated[Tensor, "[B, K_t, 4] int64"]
    """Boxes of their instances, zero in slots without one."""
    num_free: Annotated[Tensor, "[B] int64"]
    """Number of instance slots that pastes may take."""
    extent: Annotated[Tensor, "[B, 2] int64"]
    """(width, height) without padding."""
    regions: Annotated[Tensor | None, "[B, R, H + 1, W + 1] int32"] = None
    """Sums of the pixels above and to the left, see `segpaste.engine.regions.region_sums`; None for no region."""


class Sources(NamedTuple):
    """Instances that may be pasted: S rows of K_s slots each."""

    eligible: Annotated[Tensor, "[S, K_s] bool"]
    boxes: Annotated[Tensor, "[S, K_s, 4] int64"]
    labels: Annotated[Tensor, "[S, K_s] int64"]
    extent: Annotated[Tensor, "[S, 2] int64"]
    """(width, height) of the images without padding."""
    shrunk: Annotated[Tensor | None, "[S] int64"] = None
    """Divisors of the drawn scales, over `SCALE_DEN`; None for 1."""


class LayerRows(NamedTuple):
    """Source row of each layer."""

    source_idx: Annotated[Tensor, "[B, L] int64"]
    """0 where the layer is not valid."""
    layer_valid: Annotated[Tensor, "[B, L] bool"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Placement(Movable):
    """L layers for each of B targets: a source row, a map, and the instance slots that it carries."""

    source_idx: Annotated[Tensor, "[B, L] int64"]
    """Row of the source batch (0 where the layer is not valid)."""
    layer_valid: Annotated[Tensor, "[B, L] bool"]
    scale_num: Annotated[Tensor, "[B, L, 2] int64"]
    """The scales of (x, y) are ``scale_num / scale_den``."""
    scale_den: Annotated[Tensor, "[B, L, 2] int64"]
    translate: Annotated[Tensor, "[B, L, 2] int64"]
    """(x, y) in target pixels; may be negative."""
    hflip: Annotated[Tensor, "[B, L] bool"]
    """Flip horizontally within the source's valid width before scaling."""
    carried: Annotated[Tensor, "[B, L, K_s] bool"]
    vflip: Annotated[Tensor, "[B, L] bool"] = None  # type: ignore[assignment]
    """Flip vertically within the source's valid height before scaling; by default False in all layers."""
    swap_axes: Annotated[Tensor, "[B, L] bool"] = None  # type: ignore[assignment]
    """Swap x and y of the source before the flips: with one flip a quarter turn. By default False in all layers."""

    def __post_init__(self) -> None:
        """Fill in the fields that sources may leave out."""
        for name in ("vflip", "swap_axes"):
            if getattr(self, name) is None and isinstance(self.hflip, Tensor):
                object.__setattr__(self, name, torch.zeros_like(self.hflip))

    @property
    def orientation(self) -> Orientation:
        """How all layers turn and flip their sources."""
        return Orientation(self.hflip, self.vflip, self.swap_axes)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PlacementCounts(Movable):
    """Numbers of pastes that the draws tried and dropped.

    An image without a source counts as one attempt.
    """

    tried: Annotated[Tensor, "[B] int64"]
    """Pastes that were drawn."""
    no_source: Annotated[Tensor, "[B] int64"]
    """Attempts without a source row that has an eligible instance."""
    no_free_slot: Annotated[Tensor, "[B] int64"]
    """Pastes beyond the free instance slots of the target."""
    does_not_fit: Annotated[Tensor, "[B] int64"]
    """Pastes whose box would extend too far beyond the target image."""
    outside_region: Annotated[Tensor | None, "[B] int64"] = None
    """Pastes that fit but are too far outside the region of their class; None for 0."""
    covers_too_much: Annotated[Tensor | None, "[B] int64"] = None
    """Pastes that fit and are in their region, but would cover too much of an instance's box; None for 0."""


register_pytree(Placement)
register_pytree(PlacementCounts)

Drawn = tuple[Placement, PlacementCounts]


class Mixture(NamedTuple):
    """Classes that ClassMix pastes, at the same position as in their source, and their instances.

    The placement has one slot more than the sources, the last: the fragment, which holds the pixels of the classes that
    belong to no instance. It takes no row of the output.
    """

    classes: Annotated[Tensor, "[B, L, num_classes] bool"]
    eligible: Annotated[Tensor, "[S, K] bool"]
    """Instances that may be pasted."""


class GivenBoxes(NamedTuple):
    """Boxes as given, of instances whose masks were made from them; the batches' own may be written in place."""

    target: Annotated[Tensor, "[B, K, 4] float32"]
    source: Annotated[Tensor | None, "[S, K_s, 4] float32"]
    """None if the source has masks of its own."""


class PasteRules(NamedTuple):
    """Fixed parameters of the composition, as integers."""

    num_taps: int
    """T, taps per axis of the image filter."""
    min_area_px: int
    """A paste or an instance with fewer visible pixels is removed."""
    residual_num: int
    """An instance with less than ``residual_num / residual_den`` of its area left is removed."""
    residual_den: int
    residual_px: int
    """A partly hidden instance with fewer pixels left is removed, too."""
    box_shift_px: int
    """An exception to the last two: the instance stays if no edge of its box moved by more than this, in pixels; -1 for
    no exception.
    """
    stuff_num: int
    """A stuff class with less than ``stuff_num / stuff_den`` of its area left counts as wiped out."""
    stuff_den: int
    stuff_px: int
    """A stuff class with fewer pixels left counts as wiped out, too."""
    reverts_stuff: int
    """1 if such a class gets its pixels back, 0 if its remaining pixels become ignore."""
    hidden_num: int
    """An instance that loses more than ``hidden_num / hidden_den`` of its pixels gets them back."""
    hidden_den: int
    """See ``hidden_num``; equal to it if instances may be hidden."""
    ignore_index: int
    """Semantic class of void, which is not pasted, and pasted over only with ``covers_void``."""
    perspective: int
    """1 if the depth of a paste is divided by its scale, else 0."""
    covers_void: int
    """1 if pastes may cover void of the target, else 0."""
    orders_by_value: int
    """1 if every finite depth above 0 decides what is nearer, 0 if only valid depth does."""
    tile_size: Annotated[int, ONLY_REFERENCE]
    """Side in pixels of the tiles that the reference works on."""


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """Target, source, and the rules by which the source is pasted over the target."""

    target: PaddedBatchedDenseSample
    """B images to paste into, with instance masks and ids."""
    source: PaddedBatchedDenseSample
    """S images to paste from; may be the target."""
    classes: Classes
    rules: PasteRules
    mixture: Mixture | None = None
    """Classes that ClassMix pastes; None without ClassMix."""
    given_boxes: GivenBoxes | None = None
    """Boxes of the target, if its masks were made from them; see `segpaste.engine.derived`."""
    upright: bool = False
    """True if it is known before the draws that no layer is flipped vertically or has swapped axes."""

    @property
    def is_panoptic(self) -> bool:
        """True if the target has a panoptic map, so that no pixel belongs to two instances."""
        return self.target.panoptic_maps is not None

    @property
    def needs_owner(self) -> bool:
        """True if an output field depends on which instance owns a pasted pixel."""
        return self.is_panoptic or (self.target.semantic_maps is not None and self.source.semantic_maps is None)

    @property
    def watched(self) -> Tensor | None:
        """Stuff classes that must not be wiped out, [num_classes] bool; None if no class is watched."""
        return self.classes.is_stuff if self.is_panoptic else None

    @property
    def rank(self) -> Tensor | None:
        """Priorities of classes, [num_classes] int16; None if all are equal, or pixels have no single owner."""
        return self.classes.rank if self.is_panoptic else None


class Outcome(NamedTuple):
    """Result of a paste."""

    batch: PaddedBatchedDenseSample
    """The target with its pastes; in place, the tensors are those of the target."""
    carried: Annotated[Tensor, "[B, L, K_s] bool"]
    """The pastes that are in the output."""
    num_gone: Annotated[Tensor, "[B, 3] int64"]
    """Pastes that were placed and then removed: hidden, reverted, too small."""
    slot_layer: Annotated[Tensor, "[B, K] int64"]
    """Layer of the paste in each output slot, -1 if none."""
    slot_source: Annotated[Tensor, "[B, K] int64"]
    """Source slot of the paste in each output slot, -1 if none."""
    slot_lost: Annotated[Tensor, "[B, K] int64"]
    """1 for an instance of the target that is gone because pastes hide all of its pixels, 2 for one of which too little
    is visible, else 0; 0 too if its mask was empty.
    """
    visible_layer: Annotated[Tensor, "[V, H, W] int16"]
    """The visible layer of each pixel, -1 for the target. V is B; it may be 0 if the layers are not requested."""


class Crops(NamedTuple):
    """Crops of one size, S of them."""

    images: Annotated[Tensor, "[S, 3, h, w] uint8"]
    alphas: Annotated[Tensor, "[S, 1, h, w] bool"]
    """The objects."""
    boxes: Annotated[Tensor, "[S, 4] int64"]
    """Pixels that each object spans; zero where there is none."""
    labels: Annotated[Tensor, "[S] int64"]
    depth_valid: Annotated[Tensor | None, "[S, 1, h, w] bool"] = None
    """If given, crops whose object has no valid depth may not be pasted."""


class CropRows(NamedTuple):
    """Rows of a source batch with one instance slot each."""

    images: Annotated[Tensor, "[S, 3, h, w]"]
    """Images of the targets' dtype."""
    boxes: Annotated[Tensor, "[S, 1, 4] float32"]
    labels: Annotated[Tensor, "[S, 1] int64"]
    """0 where there is no object."""
    instance_valid: Annotated[Tensor, "[S, 1] bool"]
    """Crops with an object."""
    instance_ids: Annotated[Tensor, "[S, 1] int32"]
    """1 where there is an object, else 0."""
    eligible: Annotated[Tensor, "[S, 1] bool"]
    """Crops that may be pasted: with an object, of a thing class with a taxonomy, not negative, with depth if asked."""
    extent: Annotated[Tensor, "[S, 2] int64"]
    """(w, h)."""
