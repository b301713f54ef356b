"""What an engine reads and gives: plain tensors and integers, the common language of all backends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from torch import Tensor

from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.movable import Movable, register_pytree

Pick = Literal["others", "own"]
"""Which rows of the sources the layers take, see `segpaste.engine.reference.draws.draw`."""

LARGEST_SCALE = 64.0
"""No axis is scaled by more."""

SCALE_DEN = 1 << 16
"""The denominator of scales that no grid asks for another one."""

LARGEST_NUM = round(LARGEST_SCALE * SCALE_DEN)
"""The largest numerator over `SCALE_DEN`."""

SIZE_DEN = 16
"""Sizes in pixels are drawn in steps of one part in this many."""

GRID_TRIES = 8
"""Scales of a canvas' grid that are tried before the smallest one is taken."""


class Survey(NamedTuple):
    """What the draws must know of a batch.

    Attributes:
        eligible: [B, K] bool, instances that may be pasted: with an extent, of a thing class where a taxonomy is given.
        occupied: [B, K, 4] int64 xyxy, boxes rounded outwards to whole pixels.
        num_free: [B] int64, slots without an instance.
        extent: [B, 2] int64, (width, height) of the pictures.
        present: [B, num_classes] bool, semantic classes that may be mixed and have a pixel; None where nobody asks.
    """

    eligible: Tensor
    occupied: Tensor
    num_free: Tensor
    extent: Tensor
    present: Tensor | None = None


class Classes(NamedTuple):
    """A taxonomy as tables [num_classes], None where none is given.

    Attributes:
        is_thing: bool.
        is_stuff: bool.
        rank: int16, contact priorities; None where all are alike.
    """

    is_thing: Tensor | None = None
    is_stuff: Tensor | None = None
    rank: Tensor | None = None


class DrawTables(NamedTuple):
    """What a placement is drawn from and may change between steps: the buffers of `segpaste.augmentation.Schedule`.

    Attributes:
        limits: [4] int64, the chance of pasting at all in units of 2**-32, the fewest and the most slots, and the class
            temperature in units of 2**-32.
        size_table: [C + 1, 2] int64, see `segpaste.augmentation.draw_rules.size_table`.
        inverse_weights: [257] int64, see `segpaste.augmentation.class_weights.inverse_weights`.
        log_table: [257] int64, see `segpaste.augmentation.class_weights.log_table`.
    """

    limits: Tensor
    size_table: Tensor
    inverse_weights: Tensor
    log_table: Tensor


class DrawRules(NamedTuple):
    """What a placement is drawn from and stays, in integers; ends of ranges are included, thresholds out of 2 ** 32.

    Attributes:
        num_layers: L.
        low_scale: the smallest numerator of a scale; where it is ``on_grid``, in patches.
        high_scale: the largest.
        scale_den: their denominator.
        flip_threshold: of mirroring.
        max_attempts: places tried for each layer.
        patch: the side of a patch, 1 where nothing is aligned.
        on_grid: scales and places keep the source's canvas on patches.
        whole_patches: scales and places keep each object on patches.
        one_each: each layer carries one object.
        clips: what leaves the picture is cut, if enough of it stays.
        seen_num: at least ``seen_num / seen_den`` of its box.
        seen_den: see above.
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

    @property
    def is_aligned(self) -> bool:
        """Places lie on patches."""
        return bool(self.on_grid or self.whole_patches)


class Targets(NamedTuple):
    """What layers are drawn for.

    Attributes:
        seeds: [B] int64.
        occupied: [B, K_t, 4] int64 xyxy, boxes of their instances, zero where there is none.
        num_free: [B] int64, instance slots that a paste may take.
        extent: [B, 2] int64, (width, height) of their pictures.
    """

    seeds: Tensor
    occupied: Tensor
    num_free: Tensor
    extent: Tensor


class Sources(NamedTuple):
    """What may be pasted: S rows of K_s slots each.

    Attributes:
        eligible: [S, K_s] bool.
        boxes: [S, K_s, 4] int64 xyxy.
        labels: [S, K_s] int64.
        extent: [S, 2] int64, (width, height) of their pictures.
        shrunk: [S] int64 over `SCALE_DEN`: scales that are drawn are divided by it; None for 1.
    """

    eligible: Tensor
    boxes: Tensor
    labels: Tensor
    extent: Tensor
    shrunk: Tensor | None = None


class LayerRows(NamedTuple):
    """Which row each layer takes.

    Attributes:
        source_idx: [B, L] int64 (0 where the layer is not valid).
        layer_valid: [B, L] bool.
    """

    source_idx: Tensor
    layer_valid: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Placement(Movable):
    """L layers for each of B targets: a source row, a map, and the instance slots that it carries.

    Attributes:
        source_idx: [B, L] int64, row of the source batch (0 where the layer is not valid).
        layer_valid: [B, L] bool.
        scale_num: [B, L, 2] int64; the scales of (x, y) are ``scale_num / scale_den``.
        scale_den: [B, L, 2] int64.
        translate: [B, L, 2] int64, (x, y) in target pixels; may be negative.
        hflip: [B, L] bool, mirror about the source's valid width before scaling.
        carried: [B, L, K_s] bool.
    """

    source_idx: Tensor
    layer_valid: Tensor
    scale_num: Tensor
    scale_den: Tensor
    translate: Tensor
    hflip: Tensor
    carried: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class PlacementCounts(Movable):
    """What became of the pastes that a placement tried, [B] int64 each; one try is counted where no source is.

    Attributes:
        tried: pastes that were drawn.
        no_source: no row of the source has an eligible instance.
        no_free_slot: beyond the free instance slots of the target.
        does_not_fit: its box would leave the target's picture.
    """

    tried: Tensor
    no_source: Tensor
    no_free_slot: Tensor
    does_not_fit: Tensor


register_pytree(Placement)
register_pytree(PlacementCounts)

Drawn = tuple[Placement, PlacementCounts]


class Mixture(NamedTuple):
    """What ClassMix pastes, where it stands in its source: classes, and the instances of them.

    The placement that belongs to it carries one slot more than its sources have, the last: the fragment, which is what
    lies in the classes and belongs to no instance. It takes no row of the output.

    Attributes:
        classes: [B, L, num_classes] bool.
        eligible: [S, K] bool, instances that may be pasted.
    """

    classes: Tensor
    eligible: Tensor


class PasteRules(NamedTuple):
    """What a paste goes by, in integers.

    Attributes:
        num_taps: T of the image filter.
        min_area_px: a paste or an instance of fewer visible pixels goes.
        residual_num: an instance of which less than ``residual_num / residual_den`` is left goes.
        residual_den: see above.
        stuff_num: a stuff class below ``stuff_num / stuff_den`` of its area is wiped out.
        stuff_den: see above.
        stuff_px: so is one of fewer pixels.
        reverts_stuff: such a class gets its pixels back, instead of losing its label.
        hidden_num: an instance that loses more than ``hidden_num / hidden_den`` of its pixels gets them back.
        hidden_den: its denominator; equal to ``hidden_num`` where instances may be hidden.
        ignore_index: the semantic class that is neither pasted nor pasted over.
        perspective: depth of a paste is divided by its scale.
        tile_size: pixels on a side that the reference works on at once.
    """

    num_taps: int
    min_area_px: int
    residual_num: int
    residual_den: int
    stuff_num: int
    stuff_den: int
    stuff_px: int
    reverts_stuff: int
    hidden_num: int
    hidden_den: int
    ignore_index: int
    perspective: int
    tile_size: int


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """A target, a source, and the rules by which one is pasted over the other.

    Attributes:
        target: B images that are pasted into, with instance masks and ids.
        source: S images that are pasted from; may be the target.
        classes: the taxonomy.
        rules: see there.
        mixture: what ClassMix pastes, or None.
    """

    target: PaddedBatchedDenseSample
    source: PaddedBatchedDenseSample
    classes: Classes
    rules: PasteRules
    mixture: Mixture | None = None

    @property
    def is_panoptic(self) -> bool:
        """Each pixel belongs to exactly one instance."""
        return self.target.panoptic_maps is not None

    @property
    def needs_owner(self) -> bool:
        """Some field depends on whose a pasted pixel is."""
        names_classes = self.target.semantic_maps is not None and self.source.semantic_maps is None
        return self.is_panoptic or names_classes

    @property
    def watched(self) -> Tensor | None:
        """[num_classes] bool, the stuff classes that must not be wiped out; None where no class is watched."""
        return self.classes.is_stuff if self.is_panoptic else None

    @property
    def rank(self) -> Tensor | None:
        """[num_classes] int16, the priorities of classes; None where all are alike, or a pixel has no owner."""
        return self.classes.rank if self.is_panoptic else None


class Outcome(NamedTuple):
    """What a paste gives.

    Attributes:
        batch: the target with its pastes; in place its tensors are those of the target.
        carried: [B, L, K_s] bool, the pastes that are in the output.
        num_gone: [B, 3] int64, pastes that were placed and are not: hidden, reverted, too small.
        slot_layer: [B, K] int64, layer of the paste that each output slot holds, -1 if none.
        slot_source: [B, K] int64, its slot in the source, -1 if none.
        visible_layer: [B, H, W] int16, the layer seen at each pixel, -1 for the target; [0, H, W] where nobody asks.
    """

    batch: PaddedBatchedDenseSample
    carried: Tensor
    num_gone: Tensor
    slot_layer: Tensor
    slot_source: Tensor
    visible_layer: Tensor


WRITTEN: Sequence[str] = (
    "images",
    "boxes",
    "labels",
    "instance_valid",
    "instance_ids",
    "instance_masks",
    "semantic_maps",
    "panoptic_maps",
    "depth",
    "depth_valid",
    "normals",
)
"""The fields of a batch that a paste changes."""
