"""The rules of a config that a paste goes by, as the integers that an engine takes."""

from __future__ import annotations

from segpaste.augmentation.config import BatchCopyPasteConfig
from segpaste.augmentation.draw_rules import num_filter_taps
from segpaste.augmentation.strict import as_decimal
from segpaste.engine import PasteRules


def paste_rules(config: BatchCopyPasteConfig) -> PasteRules:
    """Return what a paste goes by."""
    residual, hidden = as_decimal(config.min_residual_area_frac), as_decimal(config.max_hidden_frac)
    panoptic = config.panoptic
    stuff = as_decimal(0.0 if panoptic is None else panoptic.tau_stuff_frac)
    return PasteRules(
        num_taps=num_filter_taps(config.placement, antialias=config.antialias),
        min_area_px=config.min_area_px,
        residual_num=residual.numerator,
        residual_den=residual.denominator,
        stuff_num=stuff.numerator,
        stuff_den=stuff.denominator,
        stuff_px=0 if panoptic is None else panoptic.tau_stuff_px,
        reverts_stuff=panoptic is not None and panoptic.stuff_policy == "revert",
        hidden_num=hidden.numerator,
        hidden_den=hidden.denominator,
        ignore_index=config.ignore_index,
        perspective=config.perspective_depth,
        tile_size=config.tile_size,
    )
