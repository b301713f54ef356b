"""What a whole paste, and the draws before it, read and give, where the kernels do them at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from segpaste.engine.operands import Planes


class Rows(NamedTuple):
    """The instance rows of a batch, as in `PaddedBatchedDenseSample`: rows without an instance are zero."""

    boxes: Tensor
    labels: Tensor
    instance_ids: Tensor
    instance_valid: Tensor


class LayerMaps(NamedTuple):
    """The drawn part of a plan: `segpaste.augmentation.placement.Placement` in plain tensors.

    Attributes:
        source_idx: [B, L] int64.
        scale_num: [B, L, 2] int64, (x, y).
        scale_den: [B, L, 2] int64.
        translate: [B, L, 2] int64.
        hflip: [B, L] bool.
        carried: [B, L, K_s] bool.
        depth_scale: [B, L] float32, factor on source depth; None for 1.
    """

    source_idx: Tensor
    scale_num: Tensor
    scale_den: Tensor
    translate: Tensor
    hflip: Tensor
    carried: Tensor
    depth_scale: Tensor | None


class ClassKinds(NamedTuple):
    """Classes as tables [num_classes], None where no taxonomy is given or no class is watched.

    Attributes:
        is_thing: bool.
        is_stuff: bool.
        rank: int16, as in `segpaste.engine.operands.Ranks`; None where all are alike.
    """

    is_thing: Tensor | None
    is_stuff: Tensor | None
    rank: Tensor | None


class Survey(NamedTuple):
    """What a placement must know of a batch.

    Attributes:
        eligible: [B, K] bool, instances that may be pasted.
        occupied: [B, K, 4] int64, boxes rounded outwards to whole pixels.
        num_free: [B] int64, slots without an instance.
        extent: [B, 2] int64, (width, height) of the pictures.
        labels: [B, K] int64.
    """

    eligible: Tensor
    occupied: Tensor
    num_free: Tensor
    extent: Tensor
    labels: Tensor


class Rules(NamedTuple):
    """What a whole paste goes by, in integers.

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
        hidden_den: see above; equal where instances may be hidden.
        ignore_index: the semantic class that is neither pasted nor pasted over.
        largest_id: ids in the target above this count as this.
        exclusive: each pixel belongs to exactly one instance.
        with_owner: some field depends on whose a pasted pixel is.
        has_fragment: the last slot of each source holds pixels that belong to no instance, and takes no row.
    """

    num_taps: int
    min_area_px: int
    residual_num: int
    residual_den: int
    stuff_num: int
    stuff_den: int
    stuff_px: int
    reverts_stuff: bool
    hidden_num: int
    hidden_den: int
    ignore_index: int
    largest_id: int
    exclusive: bool
    with_owner: bool
    has_fragment: bool

    @classmethod
    def of(cls, numbers: Sequence[int]) -> Rules:
        """From a list of its fields, which an operator takes, truth as 0 and 1."""
        rules = cls(*numbers)  # type: ignore[arg-type]
        flags = {
            name: bool(getattr(rules, name)) for name in ("reverts_stuff", "exclusive", "with_owner", "has_fragment")
        }
        return rules._replace(**flags)


class Outcome(NamedTuple):
    """What a whole paste gives.

    Attributes:
        planes: of the output.
        rows: of the output.
        carried: [B, L, K_s] bool, the pastes that are in the output.
        num_gone: [B, 3] int64, carried pastes that are not: hidden, reverted, too small.
        paste_layer: [B, K] int64, layer of the paste that each output slot holds, -1 if none.
        paste_slot: [B, K] int64, its slot in the source, -1 if none.
        layer: [B, H, W] int16, the layer seen at each pixel, -1 for the target; [0, H, W] where nobody asks for it.
    """

    planes: Planes
    rows: Rows
    carried: Tensor
    num_gone: Tensor
    paste_layer: Tensor
    paste_slot: Tensor
    layer: Tensor


class DrawTables(NamedTuple):
    """What a placement is drawn from and may change between steps: the buffers of `segpaste.augmentation.Schedule`.

    Attributes:
        limits: [4] int64, the chance of pasting at all in units of 2**-32, the fewest and the most slots, and the class
            temperature in units of 2**-32.
        size_table: [C + 1, 2] int64, see `segpaste.augmentation.draw_scales.size_table`.
        inverse_weights: [257] int64, see `segpaste.augmentation.draw_weights.inverse_weights`.
        log_table: [257] int64, see `segpaste.augmentation.draw_weights.log_table`.
    """

    limits: Tensor
    size_table: Tensor
    inverse_weights: Tensor
    log_table: Tensor


class DrawRanges(NamedTuple):
    """What a placement is drawn from, in integers; ends of ranges are included, thresholds are out of 2 ** 32.

    Attributes:
        low_scale: the smallest numerator of a scale; where it is ``on_grid``, in patches.
        high_scale: the largest.
        scale_den: their denominator.
        size_den: sizes are drawn in parts of a pixel, so many to one.
        flip_threshold: of mirroring.
        max_attempts: places tried for each layer.
        patch: the side of a patch, 1 where nothing is aligned.
        on_grid: scales and places keep the source's canvas on patches.
        grid_tries: scales of that grid that are tried before the smallest one is taken.
        whole_patches: scales and places keep each object on patches.
        one_each: each layer carries one object.
        clips: what leaves the picture is cut, if enough of it stays.
        seen_num: at least ``seen_num / seen_den`` of its box.
        seen_den: see above.
    """

    low_scale: int
    high_scale: int
    scale_den: int
    size_den: int
    flip_threshold: int
    max_attempts: int
    patch: int
    on_grid: bool
    grid_tries: int
    whole_patches: bool
    one_each: bool
    clips: bool
    seen_num: int
    seen_den: int

    @classmethod
    def of(cls, numbers: Sequence[int]) -> DrawRanges:
        """From a list of its fields, which an operator takes, truth as 0 and 1."""
        ranges = cls(*numbers)  # type: ignore[arg-type]
        flags = ("on_grid", "whole_patches", "one_each", "clips")
        return ranges._replace(**{name: bool(getattr(ranges, name)) for name in flags})


class Draws(NamedTuple):
    """A drawn placement, and what became of each try.

    Attributes:
        scale_num: [B, L, 2] int64, (x, y).
        scale_den: [B, L, 2] int64.
        translate: [B, L, 2] int64.
        hflip: [B, L] bool.
        carried: [B, L, K_s] bool.
        tried: [B] int64, as the last three in `segpaste.augmentation.placement.PlacementCounts`.
        no_source: [B] int64.
        no_free_slot: [B] int64.
        does_not_fit: [B] int64.
    """

    scale_num: Tensor
    scale_den: Tensor
    translate: Tensor
    hflip: Tensor
    carried: Tensor
    tried: Tensor
    no_source: Tensor
    no_free_slot: Tensor
    does_not_fit: Tensor
