"""Rules of a module: its config as the integers that an engine draws and composes by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, cast

import torch
from torch import Tensor

from segpaste.augmentation.config.base import as_fraction
from segpaste.augmentation.config.paste import BatchCopyPasteConfig
from segpaste.augmentation.config.placement import PlacementConfig
from segpaste.augmentation.tables import holds_numbers, table
from segpaste.engine import DrawRules, PasteRules
from segpaste.engine.schema import SCALE_DEN, SIZE_DEN, HeldRules

ANY_COVER = Fraction(2)
"""Limit that no covered fraction of a box reaches."""

FEW_SCALES = 4
"""Smallest number of scales of the canvas grid within the range that gives no warning."""


class ModuleRules:
    """Rules of the draws and of the composition, as numbers or in tensors, see `holds_numbers`.

    Args:
        draw: rules of the draws.
        paste: rules of the composition.
    """

    def __init__(self, draw: DrawRules, paste: PasteRules) -> None:
        self._draw, self._paste = draw, paste
        self._held = [HeldRules(table([*map(int, rules)]), draw.num_layers) for rules in (draw, paste)]
        self._depend_on_canvas = bool(draw.on_grid)

    def draw(self, device: torch.device) -> DrawRules:
        """Return the rules of the draws for a batch on a device."""
        return cast(DrawRules, self._held[0]) if holds_numbers(device) and not self._depend_on_canvas else self._draw

    def paste(self, device: torch.device) -> PasteRules:
        """Return the rules of the composition for a batch on a device."""
        return cast(PasteRules, self._held[1]) if holds_numbers(device) else self._paste

    def __reduce__(self) -> tuple[Any, ...]:
        return ModuleRules, (self._draw, self._paste)


class RegionSets:
    """Semantic classes of each region, as numbers or in tensors, see `holds_numbers`.

    Args:
        sets: the classes of each region.
    """

    def __init__(self, sets: Sequence[Sequence[int]]) -> None:
        self._sets = sets
        self._held = [table(classes) for classes in sets]

    def on(self, device: torch.device) -> Sequence[Sequence[int] | Tensor]:
        """Return the classes of each region for a batch on a device."""
        return self._held if holds_numbers(device) else self._sets

    def __reduce__(self) -> tuple[Any, ...]:
        return RegionSets, (self._sets,)


def paste_rules(config: BatchCopyPasteConfig) -> PasteRules:
    """Return the rules of a config as integers."""
    residual, hidden = as_fraction(config.min_residual_area_frac), as_fraction(config.max_hidden_frac)
    panoptic, shift = config.panoptic, config.placement.originals.max_box_shift_px
    stuff = as_fraction(0.0 if panoptic is None else panoptic.tau_stuff_frac)
    return PasteRules(
        num_taps=num_filter_taps(config.placement, antialias=config.antialias),
        min_area_px=config.min_area_px,
        residual_num=residual.numerator,
        residual_den=residual.denominator,
        residual_px=config.placement.originals.min_residual_area_px,
        box_shift_px=-1 if shift is None else shift,
        stuff_num=stuff.numerator,
        stuff_den=stuff.denominator,
        stuff_px=0 if panoptic is None else panoptic.tau_stuff_px,
        reverts_stuff=panoptic is not None and panoptic.stuff_policy == "revert",
        hidden_num=hidden.numerator,
        hidden_den=hidden.denominator,
        ignore_index=config.ignore_index,
        perspective=config.perspective_depth,
        covers_void=config.placement.cover_void,
        orders_by_value=config.depth_order == "value",
        tile_size=config.tile_size,
    )


def fixed_rules(config: PlacementConfig, *, whole_only: bool = False) -> DrawRules:
    """Return the parameters of the draws for any canvas; see `on_canvas`.

    Args:
        config: ranges and probabilities.
        whole_only: see `segpaste.augmentation.SourceConfig`.
    """
    low, high = scale_limits(config)
    seen, region = as_fraction(config.min_visible_frac), as_fraction(config.region_frac)
    cover = ANY_COVER if config.max_cover_frac is None else as_fraction(config.max_cover_frac)
    candidates = as_fraction(config.originals.candidate_frac)
    return DrawRules(
        num_layers=config.layers,
        low_scale=low,
        high_scale=high,
        scale_den=SCALE_DEN,
        flip_threshold=round(config.hflip_probability * (1 << 32)),
        vflip_threshold=round(config.vflip_probability * (1 << 32)),
        turn_threshold=round(config.quarter_turn_probability * (1 << 32)),
        max_attempts=config.max_attempts,
        patch=(config.pad_to_multiple or 1) if config.patch_aligned_paste else 1,
        on_grid=config.patch_aligned_paste and config.align == "canvas",
        whole_patches=config.align == "instance",
        one_each=config.grouping == "instance",
        clips=config.partial == "clip",
        seen_num=seen.numerator,
        seen_den=seen.denominator,
        keeps_place=config.position == "keep",
        hides_cuts=config.position == "keep" and whole_only,
        fits_scale=config.scale_to_fit,
        region_num=region.numerator,
        region_den=region.denominator,
        counts_available=config.originals.k_to_available,
        cover_num=cover.numerator,
        cover_den=cover.denominator,
        candidate_num=candidates.numerator,
        candidate_den=candidates.denominator,
        needs_objects=not config.into_empty,
    )


def on_canvas(fixed: DrawRules, config: PlacementConfig, canvas_size: tuple[int, int]) -> DrawRules:
    """Return the parameters of the draws for sources of this canvas (H, W), whose edges may be aligned to patches."""
    if not fixed.on_grid:
        return fixed
    low, high, den = canvas_grid(config, canvas_size)
    return fixed._replace(low_scale=low, high_scale=high, scale_den=den)


def scale_limits(config: PlacementConfig) -> tuple[int, int]:
    """Return the smallest and the largest numerator of a scale over `SCALE_DEN`."""
    return _steps(*config.scale_range, SCALE_DEN)


def smallest_scale(config: PlacementConfig) -> float:
    """Return a lower bound on the scale of an axis: almost 2.5 patches may become 1 patch if 2 do not fit."""
    return config.scale_range[0] * (2 / 5 if config.align == "instance" else 1)


def num_filter_taps(config: PlacementConfig, *, antialias: bool) -> int:
    """Return the number of taps per axis that the image filter needs at the smallest scale."""
    return max(2, math.ceil(2 / smallest_scale(config))) if antialias else 2


def canvas_grid(config: PlacementConfig, canvas_size: tuple[int, int]) -> tuple[int, int, int]:
    """Return the scales n * p / gcd(H, W) that keep the canvas edges on patches: first n, last n, and the gcd.

    Raises:
        RuntimeError: none lies in the scale range, or one alone in a range of several, which every paste would have.
    """
    patch, edge = config.pad_to_multiple, math.gcd(*canvas_size)
    assert patch is not None
    low, high = scale_limits(config)
    first, last = -(-low * edge // (SCALE_DEN * patch)), high * edge // (SCALE_DEN * patch)
    if first > last or (first == last and low < high):
        found = "none" if first > last else f"{Fraction(first * patch, edge)} alone, for every paste"
        height, width = canvas_size
        raise RuntimeError(
            f"BatchCopyPaste: expected multiples of {patch}/{edge} in scale_range={config.scale_range}, got {found}: "
            f"on {height} x {width} pixels only these scales keep the edges of a canvas on patches of {patch}; widen "
            "placement.scale_range, make canvases whose sides share a larger divisor, or set align='instance'"
        )
    return first, last, edge


def may_have_few_scales(config: PlacementConfig) -> bool:
    """Return whether the canvas decides the scales, see `few_scales_warning`."""
    return config.patch_aligned_paste and config.align == "canvas"


def few_scales_warning(config: PlacementConfig, canvas_size: tuple[int, int]) -> str | None:
    """Return a warning if the canvas leaves fewer than `FEW_SCALES` scales in a range of several, else None."""
    if not may_have_few_scales(config):
        return None
    first, last, edge = canvas_grid(config, canvas_size)
    low, high = scale_limits(config)
    if last - first + 1 >= FEW_SCALES or low == high:
        return None
    assert config.pad_to_multiple is not None
    scales = ", ".join(str(Fraction(n * config.pad_to_multiple, edge)) for n in range(first, last + 1))
    height, width = canvas_size
    return (
        f"BatchCopyPaste: expected at least {FEW_SCALES} scales in placement.scale_range={config.scale_range}, got "
        f"{last - first + 1} ({scales}): on {height} x {width} pixels only multiples of "
        f"{config.pad_to_multiple}/{edge} keep the edges of a canvas on patches of {config.pad_to_multiple}; make or "
        "pad canvases whose sides share a larger divisor, set placement.align='instance', or widen "
        "placement.scale_range"
    )


def pastes_per_image(config: PlacementConfig, num_layers: int, paste_prob: float, k_range: tuple[int, int]) -> float:
    """Return the expected number of objects drawn for an image.

    Args:
        config: the other parameters of the draws.
        num_layers: largest number of objects.
        paste_prob: current probability of a paste.
        k_range: current range of the number of objects.
    """
    low, high = k_range
    if config.originals.k_to_available:
        low, high = min(low, num_layers), min(high, num_layers)
    num = high - low + 1
    counted = range(low, min(high, num_layers) + 1)  # larger ones are limited to ``num_layers``
    return paste_prob * (sum(counted) + num_layers * (num - len(counted))) / num * config.originals.candidate_frac


def size_table(config: PlacementConfig) -> Tensor:
    """Return size ranges in 1 / `SIZE_DEN` pixels, [C + 1, 2] int64, the last for other classes; 0 for relative."""
    others = (0, 0) if config.size_range is None else _steps(config.size_range.low, config.size_range.high, SIZE_DEN)
    ranges = [others] * (max(config.class_sizes, default=-1) + 2)
    for label, size in config.class_sizes.items():
        ranges[label] = _steps(size.low, size.high, SIZE_DEN)
    return table(ranges)


def region_classes(config: PlacementConfig) -> tuple[tuple[int, ...], ...]:
    """Return the different sets of semantic classes in ``config.region``, in the order of their first use."""
    return tuple(dict.fromkeys(config.region.values()))


def region_table(config: PlacementConfig) -> Tensor:
    """Return the index of each class's region among `region_classes`, [C + 1] int64, the last for other classes.

    Other classes have the index after these regions: that of a mask for all classes, if there is one.
    """
    sets = region_classes(config)
    indices = [len(sets)] * (max(config.region, default=-1) + 2)
    for label, classes in config.region.items():
        indices[label] = sets.index(classes)
    return table(indices)


def _steps(low: float, high: float, den: int) -> tuple[int, int]:
    """Return the first and the last multiple of 1 / ``den`` in a range, as numerators; at least one, above 0."""
    first = max(1, math.ceil(low * den))
    return first, max(first, math.floor(high * den))
