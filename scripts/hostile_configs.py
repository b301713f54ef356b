"""Random configs for `hostile_inputs`: all options that are valid for a batch and a kind of source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from segpaste import BatchCopyPasteConfig, PaddedBatchedDenseSample
from segpaste.augmentation import (
    HarmonizeConfig,
    OriginalsConfig,
    PanopticConfig,
    PanopticTaxonomy,
    PlacementConfig,
    SizeRange,
    SourceConfig,
)
from segpaste.types import Modality

T = TypeVar("T")

THINGS, STUFF = (1, 2, 3), (11, 12)
GATES = {"emit_instance": Modality.INSTANCE, "emit_panoptic": Modality.PANOPTIC, "emit_depth": Modality.DEPTH}
PRIORITIES: tuple[dict[int, int], ...] = ({}, {2: 1, 12: 1}, {1: -1000, 3: 7, 11: 3})


class Draws:
    """Random choices, in order."""

    def __init__(self, seed: int | np.random.Generator) -> None:
        self.rng = np.random.default_rng(seed)

    def one_of(self, choices: Sequence[T]) -> T:
        """One of them, each as likely."""
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return bool(self.rng.random() < probability)

    def noise(self, *shape: int) -> NDArray[Any]:
        """Floats from 0 to 1."""
        return self.rng.random(shape)


def hostile_config(draws: Draws, kind: str, batch: PaddedBatchedDenseSample, inplace: bool) -> BatchCopyPasteConfig:
    """Draw any options that go together.

    Args:
        draws: random choices.
        kind: of the source: ``rows``, ``classmix`` or ``bank``.
        batch: that is pasted into.
        inplace: whether the canvas and the slots must stay.
    """
    options: dict[str, Any] = {}
    if batch.panoptic_maps is not None or kind == "bank" or draws.chance(0.5):
        options["panoptic"] = PanopticConfig(
            taxonomy=PanopticTaxonomy(classes={**dict.fromkeys(THINGS, "thing"), **dict.fromkeys(STUFF, "stuff")}),
            stuff_policy=draws.one_of(("revert", "ignore")),
            tau_stuff_frac=draws.one_of((0.1, 0.0, 0.9)),
            tau_stuff_px=draws.one_of((0, 3, 64)),
            contact_priority={} if kind == "classmix" else draws.one_of(PRIORITIES),
        )
    for gate in GATES:
        options[gate] = False if draws.chance(0.1) else None
    slots = batch.max_instances
    more = None if inplace else max(slots, 1) + int(draws.rng.integers(0, 6))
    takes_boxes = batch.panoptic_maps is None and (draws.chance(0.5) or kind == "classmix")
    mask_from = "boxes" if takes_boxes else None
    of_rows = "same_image" if kind == "rows" and draws.chance(0.2) else "intra_batch"
    source: dict[str, Any] = {"kind": "bank" if kind == "bank" else of_rows, "mask_from": mask_from}
    source["whole_only"] = draws.chance(0.2)
    if kind == "bank":
        source |= {"crops_per_target": int(draws.rng.integers(1, 4)), "value_range": draws.one_of((1, 255))}
        source |= {"without_depth": draws.one_of(("invalid", "invalid", "skip"))}
    config = BatchCopyPasteConfig(
        **options,
        emit_classmix=kind == "classmix",
        max_instances=None if draws.chance(0.2) else more,
        tile_size=draws.one_of((512, 5)),
        antialias=draws.chance(0.7),
        perspective_depth=kind != "classmix" and draws.chance(0.3),
        min_area_px=draws.one_of((1, 1, 2, 6)),
        min_residual_area_frac=draws.one_of((0.1, 0.0, 0.0, 0.7, 1.0)),
        max_hidden_frac=draws.one_of((1.0, 1.0, 1.0, 0.9, 0.5, 0.0)),
        placement=_placement(draws, kind, inplace, has_classes=batch.semantic_maps is not None),
        source=source,  # type: ignore[arg-type]
        harmonize=_harmonize(draws),
    )
    own, of_shares, of_rest = (Draws(rng) for rng in draws.rng.spawn(3))  # other draws stay as they are
    config = _limited(own, config) if kind != "classmix" and own.chance(0.2) else config
    return _rest(of_rest, _shared(of_shares, config), batch)


def _shared(draws: Draws, config: BatchCopyPasteConfig) -> BatchCopyPasteConfig:
    """Add sizes of classes, where each object has a size, and the same share of every batch."""
    placement: dict[str, Any] = {"fixed_share": draws.chance(0.15)}
    if config.placement.grouping == "instance" and draws.chance(0.4):
        placement["class_sizes"] = {2: SizeRange(low=3, high=12)}
    return config.model_copy(update={"placement": PlacementConfig(**{**dict(config.placement), **placement})})


def _rest(draws: Draws, config: BatchCopyPasteConfig, batch: PaddedBatchedDenseSample) -> BatchCopyPasteConfig:
    """Add required modalities, a last part of training, the photo's scale, soft edges, ellipses, and few slots."""
    placement, source, harmonize = dict(config.placement), dict(config.source), dict(config.harmonize)
    options: dict[str, Any] = {}
    if config.placement.scale_range[0] < 0.1:
        options["tile_size"] = 512  # the reference loops over 128 x 128 taps for each tile
    for gate, modality in GATES.items():
        if getattr(config, gate) is None and modality in batch.modalities and draws.chance(0.3):
            options[gate] = True
    if draws.chance(0.2):
        placement |= {"fade_last": draws.one_of((0.3, 0.9)), "fade_curve": draws.one_of(("step", "linear", "linear"))}
    if source["mask_from"] == "boxes" and draws.chance(0.3):
        source["mask_from"] = "ellipse"
    is_fixed = placement["size_range"] is not None or (
        config.placement.patch_aligned_paste and config.placement.align == "canvas"
    )
    if config.source.kind == "bank" and not is_fixed and draws.chance(0.5):
        source["relative_to"] = "photo"
    if draws.chance(0.1):
        harmonize |= {"mode": "reinhard", "prob": 1.0, "surround_px": draws.one_of((1, 5))}
        harmonize["max_gain"] = draws.one_of((1.0, 2.5))
    if not config.harmonize.feather_px and draws.chance(0.1):
        harmonize["blur_px"] = draws.one_of((0.5, 3.0))
    if config.panoptic is not None and draws.chance(0.3):
        most = max(batch.max_instances, config.max_instances or 0, 1)
        taxonomy = PanopticTaxonomy(classes=config.panoptic.taxonomy.classes, max_instances_per_image=most)
        options["panoptic"] = config.panoptic.model_copy(update={"taxonomy": taxonomy})
    placement["cover_void"] = draws.chance(0.3)
    if options.get("emit_depth", config.emit_depth) is not False and draws.chance(0.3):
        options["depth_order"] = "value"
    if not config.emit_classmix:
        placement["into_empty"] = not draws.chance(0.3)
    options |= {"placement": PlacementConfig(**placement), "source": SourceConfig(**source)}
    return BatchCopyPasteConfig(**{**dict(config), **options, "harmonize": HarmonizeConfig(**harmonize)})


def _limited(draws: Draws, config: BatchCopyPasteConfig) -> BatchCopyPasteConfig:
    """Add limits on what covers and what is covered."""
    to_available, cover = draws.chance(0.5), draws.one_of((None, None, 0.3, 1.0))
    frac, area, shift = (draws.one_of(values) for values in ((1.0, 0.9, 0.6), (0, 0, 9), (None, None, 0, 4)))
    has_rule = config.min_residual_area_frac > 0 or area > 0
    originals = OriginalsConfig(
        k_to_available=to_available,
        candidate_frac=frac,
        min_residual_area_px=area,
        max_box_shift_px=shift if has_rule else None,
    )
    placement = config.placement.model_copy(update={"max_cover_frac": cover, "originals": originals})
    return config.model_copy(update={"placement": placement})


def _placement(draws: Draws, kind: str, inplace: bool, *, has_classes: bool) -> PlacementConfig:
    multiple = None if inplace or draws.chance(0.7) else draws.one_of((1, 2, 4, 7))
    options: dict[str, Any] = {"pad_to_multiple": multiple, "paste_prob": draws.one_of((1.0, 1.0, 0.5))}
    options["layers"] = 1 if kind == "bank" else draws.one_of((1, 2, 3, 5))
    if kind == "classmix":
        return PlacementConfig(**options)
    by_object = draws.chance(0.4)
    if multiple is not None and draws.chance(0.6):
        options |= {"patch_aligned_paste": True, "align": "instance" if by_object else "canvas"}
    elif draws.chance(0.5):
        options |= {"partial": "clip", "min_visible_frac": draws.one_of((0.5, 0.0, 0.0, 1.0))}
    if by_object:
        options["grouping"] = "instance"
        options["size_range"] = draws.one_of((None, SizeRange(low=1, high=9.5)))
    wide = options.get("patch_aligned_paste", False)
    keeps = kind == "rows" and not wide and draws.chance(0.2)
    options["position"] = "keep" if keeps else "random"
    if has_classes and draws.chance(0.3):
        options["region"] = draws.one_of(({1: (11,)}, {1: (1, 11), 2: (12,), 3: (11, 12)}))
        options["region_frac"] = draws.one_of((0.1, 0.5, 1.0))
    ranges = ((0.5, 2.0), (0.5, 0.5), (1.0, 1.0), (0.5, 1.0), (0.1, 0.3), (3.0, 4.0), (1 / 64, 64.0))
    return PlacementConfig(
        **options,
        scale_range=(0.5, 2.0) if wide else draws.one_of(ranges),
        scale_to_fit=draws.chance(0.5),
        hflip_probability=draws.one_of((0.5, 0.0, 1.0)),
        vflip_probability=draws.one_of((0.0, 0.5, 1.0)),
        quarter_turn_probability=draws.one_of((0.0, 0.75, 1.0)),
        k_range=draws.one_of(((1, 256), (1, 2), (2, 3))),
        class_temperature=0.0 if kind == "bank" else draws.one_of((0.0, 1.0)),
        max_attempts=1 if keeps else draws.one_of((1, 3, 8)),
    )


def _harmonize(draws: Draws) -> HarmonizeConfig:
    if draws.chance(0.7):
        return HarmonizeConfig()
    return HarmonizeConfig(
        mode=draws.one_of(("reinhard", "multiband", "poisson")),
        prob=draws.one_of((0.0, 0.5, 1.0)),
        pyramid_levels=draws.one_of((1, 3)),
        poisson_cycles=2,
        feather_px=draws.one_of((0, 0, 2)),
    )
