"""Inputs and outputs of an engine: records of plain tensors and integers, shared by all backends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from torch import Tensor

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
    """Facts about a batch that the draws need.

    Attributes:
        eligible: [B, K] bool, instances that may be pasted: with a nonempty box, of a thing class if there is a
            taxonomy, whole if that is asked for.
        occupied: [B, K, 4] int64 xyxy, boxes rounded outwards to whole pixels.
        num_free: [B] int64, number of slots without an instance.
        extent: [B, 2] int64, (width, height) of the images without padding.
        present: [B, num_classes] bool, semantic classes that may be mixed and have a pixel; None if not requested.
        has_present: [B] bool, images with such a class; None if not requested.
    """

    eligible: Tensor
    occupied: Tensor
    num_free: Tensor
    extent: Tensor
    present: Tensor | None = None
    has_present: Tensor | None = None


class Classes(NamedTuple):
    """Taxonomy as tables of shape [num_classes]; all None without a taxonomy.

    Attributes:
        is_thing: bool.
        is_stuff: bool.
        rank: int16, contact priorities; None if all are equal.
    """

    is_thing: Tensor | None = None
    is_stuff: Tensor | None = None
    rank: Tensor | None = None


class DrawTables(NamedTuple):
    """Parameters of the draws that may change between steps: the tensors of `segpaste.augmentation.Schedule`.

    Attributes:
        limits: [4] int64, the probability of pasting in units of 2**-32, the smallest and the largest number of slots,
            and the class temperature in units of 2**-32.
        size_table: [C + 1, 2] int64, see `segpaste.augmentation.rules.draw_rules.size_table`.
        inverse_weights: [257] int64, see `segpaste.augmentation.rules.class_weights.inverse_weights`.
        log_table: [257] int64, see `segpaste.augmentation.rules.class_weights.log_table`.
        region_table: [C + 1] int64, see `segpaste.augmentation.rules.draw_rules.region_table`.
    """

    limits: Tensor
    size_table: Tensor
    inverse_weights: Tensor
    log_table: Tensor
    region_table: Tensor


class DrawRules(NamedTuple):
    """Fixed parameters of the draws, as integers; ranges include both ends.

    Attributes:
        num_layers: L.
        low_scale: smallest numerator of a scale; in patches if ``on_grid``.
        high_scale: largest numerator of a scale.
        scale_den: denominator of both.
        flip_threshold: probability of flipping a layer, in units of 2**-32.
        max_attempts: number of places tried for each layer.
        patch: side of a patch in pixels, 1 if nothing is aligned.
        on_grid: 1 if scales and places keep the edges of the source canvas on patches, else 0.
        whole_patches: 1 if scales and places keep the edges of each object on patches, else 0.
        one_each: 1 if each layer carries one object, else 0.
        clips: 1 if objects that extend beyond the image are clipped, 0 if they are not pasted.
        seen_num: a clipped object keeps at least ``seen_num / seen_den`` of its box.
        seen_den: see ``seen_num``.
        keeps_place: 1 if objects stay where they are in their image, 0 if places are drawn.
        hides_cuts: 1 if an object that touches a border of its image is pasted only where it touches that border of the
            target, too; else 0.
        fits_scale: 1 if scales are limited to those at which the objects of a layer fit into the image, else 0.
        region_num: at least ``region_num / region_den`` of an object's box lies in its region.
        region_den: see ``region_num``.
        counts_available: 1 if the number of slots is drawn from the part of its range that the sources have, else 0.
        cover_num: an object covers less than ``cover_num / cover_den`` of the box of each instance of the target;
            above 1 it may cover any.
        cover_den: see ``cover_num``.
        candidate_num: of the objects that may be pasted, ``candidate_num / candidate_den`` are; if that is 1, all.
        candidate_den: see ``candidate_num``.
        needs_objects: 1 if nothing is tried for images in which no instance has a box with an area, else 0.
    """

    num_layers: int
    low_scale: int
    high_scale: int
    scale_den: int
    flip_threshold: int
    max_attempts: int
    patch: int
    on_grid: int
    whole_patches: int
    one_each: int
    clips: int
    seen_num: int
    seen_den: int
    keeps_place: int
    hides_cuts: int
    fits_scale: int
    region_num: int
    region_den: int
    counts_available: int
    cover_num: int
    cover_den: int
    candidate_num: int
    candidate_den: int
    needs_objects: int

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
    """`DrawRules` or `PasteRules` in a tensor: a graph of compiled code reads them, and serves any of their values.

    Attributes:
        numbers: [N] int64 on the CPU, all fields.
        num_layers: L, which decides shapes.
    """

    numbers: Tensor
    num_layers: int


class Targets(NamedTuple):
    """Target images that layers are drawn for.

    Attributes:
        seeds: [B] int64.
        occupied: [B, K_t, 4] int64 xyxy, boxes of their instances, zero in slots without one.
        num_free: [B] int64, number of instance slots that pastes may take.
        extent: [B, 2] int64, (width, height) without padding.
        regions: [B, R, H + 1, W + 1] int32, regions as sums of the pixels above and to the left, see
            `segpaste.engine.regions.region_sums`; None if objects may be pasted anywhere.
    """

    seeds: Tensor
    occupied: Tensor
    num_free: Tensor
    extent: Tensor
    regions: Tensor | None = None


class Sources(NamedTuple):
    """Instances that may be pasted: S rows of K_s slots each.

    Attributes:
        eligible: [S, K_s] bool.
        boxes: [S, K_s, 4] int64 xyxy.
        labels: [S, K_s] int64.
        extent: [S, 2] int64, (width, height) of the images without padding.
        shrunk: [S] int64 over `SCALE_DEN`, divisor of the drawn scales; None for 1.
    """

    eligible: Tensor
    boxes: Tensor
    labels: Tensor
    extent: Tensor
    shrunk: Tensor | None = None


class LayerRows(NamedTuple):
    """Source row of each layer.

    Attributes:
        source_idx: [B, L] int64 (0 where the layer is not valid).
        layer_valid: [B, L] bool.
    """

    source_idx: Tensor
    layer_valid: Tensor


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Placement(Movable):
    """L layers for each of B targets: a source row, a map, and the instance slots that it carries.

    Attributes:
        source_idx: [B, L] int64, row of the source batch (0 where the layer is not valid).
        layer_valid: [B, L] bool.
        scale_num: [B, L, 2] int64; the scales of (x, y) are ``scale_num / scale_den``.
        scale_den: [B, L, 2] int64.
        translate: [B, L, 2] int64, (x, y) in target pixels; may be negative.
        hflip: [B, L] bool, flip horizontally within the source's valid width before scaling.
        carried: [B, L, K_s] bool.
    """

    source_idx: Tensor
    layer_valid: Tensor
    scale_num: Tensor
    scale_den: Tensor
    translate: Tensor
    hflip: Tensor
    carried: Tensor


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PlacementCounts(Movable):
    """Numbers of pastes that the draws tried and dropped, [B] int64 each.

    An image without a source counts as one attempt.

    Attributes:
        tried: pastes that were drawn.
        no_source: attempts without a source row that has an eligible instance.
        no_free_slot: pastes beyond the free instance slots of the target.
        does_not_fit: pastes whose box would extend too far beyond the target image.
        outside_region: pastes that fit but are too far outside the region of their class; None for 0.
        covers_too_much: pastes that fit and are in their region, but would cover too much of the box of an instance of
            the target; None for 0.
    """

    tried: Tensor
    no_source: Tensor
    no_free_slot: Tensor
    does_not_fit: Tensor
    outside_region: Tensor | None = None
    covers_too_much: Tensor | None = None


register_pytree(Placement)
register_pytree(PlacementCounts)

Drawn = tuple[Placement, PlacementCounts]


class Mixture(NamedTuple):
    """Classes that ClassMix pastes, at the same position as in their source, and their instances.

    The placement has one slot more than the sources, the last: the fragment, which holds the pixels of the classes that
    belong to no instance. It takes no row of the output.

    Attributes:
        classes: [B, L, num_classes] bool.
        eligible: [S, K] bool, instances that may be pasted.
    """

    classes: Tensor
    eligible: Tensor


class GivenBoxes(NamedTuple):
    """Boxes as they were given, of instances whose masks were made from them; the batches' own may be written in place.

    Attributes:
        target: [B, K, 4] float32 xyxy.
        source: [S, K_s, 4] float32 xyxy; None if the source has masks of its own.
    """

    target: Tensor
    source: Tensor | None


class PasteRules(NamedTuple):
    """Fixed parameters of the composition, as integers.

    Attributes:
        num_taps: T, taps per axis of the image filter.
        min_area_px: a paste or an instance with fewer visible pixels is removed.
        residual_num: an instance with less than ``residual_num / residual_den`` of its area left is removed.
        residual_den: see ``residual_num``.
        residual_px: a partly hidden instance with fewer pixels left is removed, too.
        box_shift_px: an exception to the last two: the instance stays if no edge of its box moved by more than this, in
            pixels; -1 for no exception.
        stuff_num: a stuff class with less than ``stuff_num / stuff_den`` of its area left counts as wiped out.
        stuff_den: see ``stuff_num``.
        stuff_px: a stuff class with fewer pixels left counts as wiped out, too.
        reverts_stuff: 1 if such a class gets its pixels back, 0 if its remaining pixels become ignore.
        hidden_num: an instance that loses more than ``hidden_num / hidden_den`` of its pixels gets them back.
        hidden_den: see ``hidden_num``; equal to it if instances may be hidden.
        ignore_index: semantic class of void, which is not pasted, and pasted over only with ``covers_void``.
        perspective: 1 if the depth of a paste is divided by its scale, else 0.
        covers_void: 1 if pastes may cover void of the target, else 0.
        orders_by_value: 1 if every finite depth above 0 decides what is nearer, 0 if only valid depth does.
        tile_size: side in pixels of the tiles that the reference works on.
    """

    num_taps: int
    min_area_px: int
    residual_num: int
    residual_den: int
    residual_px: int
    box_shift_px: int
    stuff_num: int
    stuff_den: int
    stuff_px: int
    reverts_stuff: int
    hidden_num: int
    hidden_den: int
    ignore_index: int
    perspective: int
    covers_void: int
    orders_by_value: int
    tile_size: int


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """Target, source, and the rules by which the source is pasted over the target.

    Attributes:
        target: B images to paste into, with instance masks and ids.
        source: S images to paste from; may be the target.
        classes: taxonomy.
        rules: fixed parameters of the composition.
        mixture: classes that ClassMix pastes; None without ClassMix.
        given_boxes: boxes of the target, if its masks were made from them; no backend reads them, see
            `segpaste.engine.given_boxes`.
    """

    target: PaddedBatchedDenseSample
    source: PaddedBatchedDenseSample
    classes: Classes
    rules: PasteRules
    mixture: Mixture | None = None
    given_boxes: GivenBoxes | None = None

    @property
    def is_panoptic(self) -> bool:
        """True if the target has a panoptic map, so that no pixel belongs to two instances."""
        return self.target.panoptic_maps is not None

    @property
    def needs_owner(self) -> bool:
        """True if an output field depends on which instance owns a pasted pixel."""
        names_classes = self.target.semantic_maps is not None and self.source.semantic_maps is None
        return self.is_panoptic or names_classes

    @property
    def watched(self) -> Tensor | None:
        """Stuff classes that must not be wiped out, [num_classes] bool; None if no class is watched."""
        return self.classes.is_stuff if self.is_panoptic else None

    @property
    def rank(self) -> Tensor | None:
        """Priorities of classes, [num_classes] int16; None if all are equal, or pixels have no single owner."""
        return self.classes.rank if self.is_panoptic else None


class Outcome(NamedTuple):
    """Result of a paste.

    Attributes:
        batch: the target with its pastes; in place, the tensors are those of the target.
        carried: [B, L, K_s] bool, the pastes that are in the output.
        num_gone: [B, 3] int64, pastes that were placed and then removed: hidden, reverted, too small.
        slot_layer: [B, K] int64, layer of the paste in each output slot, -1 if none.
        slot_source: [B, K] int64, source slot of the paste in each output slot, -1 if none.
        slot_lost: [B, K] int64, 1 for an instance of the target that is gone because pastes hide all of its pixels, 2
            for one of which too little is visible, else 0; 0 too if its mask was empty.
        visible_layer: [B, H, W] int16, the visible layer of each pixel, -1 for the target; may be [0, H, W] if not
            requested.
    """

    batch: PaddedBatchedDenseSample
    carried: Tensor
    num_gone: Tensor
    slot_layer: Tensor
    slot_source: Tensor
    slot_lost: Tensor
    visible_layer: Tensor
