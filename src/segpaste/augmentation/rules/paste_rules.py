"""Conversion of a config to the integer rules that an engine composes by."""

from __future__ import annotations

from segpaste.augmentation.config.base import as_fraction
from segpaste.augmentation.config.paste import BatchCopyPasteConfig
from segpaste.augmentation.rules.draw_rules import num_filter_taps
from segpaste.engine import PasteRules


def paste_rules(config: BatchCopyPasteConfig) -> PasteRules:
    """Return the rules of a config as integers."""
    residual, hidden = as_fraction(config.min_residual_area_frac), as_fraction(config.max_hidden_frac)
    panoptic = config.panoptic
    stuff = as_fraction(0.0 if panoptic is None else panoptic.tau_stuff_frac)
    return PasteRules(
        num_taps=num_filter_taps(config.placement, antialias=config.antialias),
        min_area_px=config.min_area_px,
        residual_num=residual.numerator,
        residual_den=residual.denominator,
        residual_px=config.min_residual_area_px,
        box_shift_px=-1 if config.max_box_shift_px is None else config.max_box_shift_px,
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
