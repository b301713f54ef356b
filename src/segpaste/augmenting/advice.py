"""Advice on settings for objects that were not pasted, given the configuration of a run."""

from __future__ import annotations

from collections.abc import Mapping

from segpaste.augmentation import BatchCopyPasteConfig

_WHOLE_ONLY = "objects cut by the border of their image are left out: source.whole_only=false"


def advice_of(config: BatchCopyPasteConfig, *, has_jitter: bool = False, has_depth: bool = False) -> Mapping[str, str]:
    """Return advice for each reason of `segpaste.augmentation.DROP_REASONS` that has any.

    Args:
        config: config of the run.
        has_jitter: True if images are jittered to one size.
        has_depth: True if images have depth.
    """
    panoptic = config.panoptic
    keeps = config.placement.position == "keep"
    scale = "" if keeps else ", or lower placement.scale_range"
    return {
        "no_source": _no_source(config, has_jitter),
        "no_free_slot": "raise max_instances"
        if panoptic is None
        else "raise max_instances, or max_instances_per_image of the taxonomy",
        "does_not_fit": _does_not_fit(config),
        "hidden": _hidden(config, has_depth),
        "reverted": "raise max_hidden_frac"
        if panoptic is None
        else "lower panoptic.tau_stuff_frac or panoptic.tau_stuff_px, or raise max_hidden_frac",
        "outside_region": "lower placement.region_frac"
        if keeps
        else "raise placement.max_attempts or placement.layers, or lower placement.region_frac",
        "too_small": "lower min_area_px" if keeps else "raise placement.scale_range, or lower min_area_px",
        "covers_too_much": f"raise placement.max_cover_frac{'' if keeps else ' or placement.max_attempts'}{scale}",
    }


def lost_advice(config: BatchCopyPasteConfig) -> Mapping[str, str]:
    """Return advice for each reason of `segpaste.augmentation.LOSS_REASONS`."""
    cover = config.placement.max_cover_frac
    settings = ["lower max_hidden_frac"] if config.max_hidden_frac else []
    settings += [] if config.emit_classmix else [f"{'set' if cover is None else 'lower'} placement.max_cover_frac"]
    limits = {"min_residual_area_frac": 0, "min_residual_area_px": 0, "min_area_px": 1}
    raised = [name for name, least in limits.items() if getattr(config, name) > least]
    lower = [f"lower {' or '.join(raised)}"] if raised else []
    return {"hidden": ", or ".join(settings), "too_small": ", or ".join([*lower, *settings])}


def nothing_drawn(config: BatchCopyPasteConfig) -> str:
    """Return the reason why no paste was drawn for an image, with the settings that may cause it."""
    place = config.placement
    settings = ["placement.paste_prob"] if place.paste_prob < 1 else []
    if not config.emit_classmix:
        settings += ["placement.k_range"] if place.k_range[0] == 0 else []
        settings += ["placement.candidate_frac"] if place.candidate_frac < 1 else []
    named = ", ".join(settings)
    return f"no paste was drawn ({named})" if named else "no paste was drawn"


def _hidden(config: BatchCopyPasteConfig, has_depth: bool) -> str:
    ranked = config.panoptic is not None and any(config.panoptic.contact_priority.values())
    kinds = ["nearer objects"] if has_depth else []
    kinds += ["objects of a higher panoptic.contact_priority"] if ranked else []
    return f"{' or '.join([*kinds, 'later pastes'])} hide them"


def _no_source(config: BatchCopyPasteConfig, has_jitter: bool) -> str:
    kind = config.source.kind
    if config.emit_classmix:
        return "no other image has a class that can be pasted"
    if kind == "bank":
        without = config.source.without_depth == "skip"
        return "give a bank with depth, or source.without_depth=invalid" if without else "crops without a pixel"
    where = "the image itself shows" if kind == "same_image" else "the drawn source images show"
    hints = ["a smaller jitter keeps more: --size own"] if has_jitter else []
    hints += [_WHOLE_ONLY] if config.source.whole_only and config.placement.position == "random" else []
    return "; ".join([f"{where} no object that may be pasted", *hints])


def _does_not_fit(config: BatchCopyPasteConfig) -> str:
    place, hints = config.placement, []
    if place.position == "random":
        hints += ["lower placement.scale_range", "raise placement.max_attempts"]
    if place.partial != "clip":
        hints += ["set placement.partial=clip"]
    elif place.min_visible_frac > 0:
        hints += ["lower placement.min_visible_frac"]
    if place.position == "keep" and config.source.whole_only:
        hints += [_WHOLE_ONLY]
    return ", or ".join(hints) or "their place is outside of the image"
