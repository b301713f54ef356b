"""Options of the paste that the documentation shows with two values: a configuration, and what the second one adds.

Each picture shows the keys that are added. `tests/test_option_pictures.py` demands that every key of the config is in a
picture, or on the page among those without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np
from drawing import Subject, photographs, scenes

from segpaste.augmentation import BatchCopyPasteConfig, PanopticConfig
from segpaste.datasets.scenes import SceneDataset
from segpaste.viz import draw_depth, draw_image, draw_instances, draw_panoptic, draw_semantic

SCHEMA = SceneDataset(1).schema
BALL, FLOOR = (SceneDataset(1).class_names.index(name) for name in ("plain ball", "floor"))
EACH = {"grouping": "instance", "layers": 6, "k_range": (6, 6), "scale_range": (0.8, 1.3), "max_attempts": 8}
"""Six objects, each with a size and place of its own."""
LARGE = {**EACH, "max_attempts": 1, "scale_range": (1.0, 2.0), "scale_to_fit": False}
TAXONOMY: dict[str, Any] = {"taxonomy": SCHEMA}


@cache
def fruits() -> Subject:
    """Return the photographs that most options are shown on."""
    return photographs((8, 0, 1, 4, 12), seed=3)


@cache
def boxes_alone() -> Subject:
    """Return the same photographs with boxes and without masks."""
    subject = fruits()
    return replace(subject, batch=subject.batch.derived(instance_masks=None))


@cache
def on_white() -> Subject:
    """Return a photograph on white cloth, whose ground has no hue, with sources on coloured cloth in another light."""
    return photographs((10, 3, 4, 9, 7), seed=3)


def rooms(row: int, seed: int) -> Callable[[], Subject]:
    """Return the function that renders the scenes on which options of depth and semantic maps are shown."""
    return partial(scenes, row=row, seed=seed, height=240, width=320)


@dataclass(frozen=True)
class Option:
    """An option to draw.

    Attributes:
        off: configuration without it.
        on: what it adds to the configuration; dictionaries are merged.
        captions: lines under the two pictures.
        view: function of `segpaste.viz`.
        subject: function that returns the batch.
        zoom: how many times the part in which the pictures differ most is enlarged.
    """

    off: Mapping[str, Any]
    on: Mapping[str, Any]
    captions: tuple[str, str]
    view: Callable[..., np.ndarray] = draw_instances
    subject: Callable[[], Subject] = field(default=fruits)
    zoom: int = 1

    @property
    def is_switch(self) -> bool:
        """True if the first picture is without the option: off, and not another value of it."""
        return not any(_value(self.off, key) for key in keys_of(self.on) if key not in HOW)


def placed(**values: Any) -> dict[str, Any]:
    """Return six objects, each with a size and place of its own, with other values of ``placement``."""
    return {"placement": {**EACH, **values}}


OPTIONS = {
    "layers": Option(
        {"placement": {"scale_range": (0.6, 0.9), "k_range": (6, 6), "max_attempts": 8}},
        {"placement": {"layers": 3}},
        ("layers=1: one other image", "layers=3: three draws of other images"),
    ),
    "grouping": Option(
        {"placement": {"layers": 6, "k_range": (6, 6), "scale_range": (0.6, 0.9), "max_attempts": 8}},
        {"placement": {"grouping": "instance"}},
        ('grouping="image": one map for a group', 'grouping="instance": one map for each object'),
    ),
    "sizes": Option(
        placed(scale_range=(0.1, 8.0), scale_to_fit=False, k_range=(6, 6)),
        {"placement": {"size_range": {"low": 60, "high": 70}}},
        ("scale_range=(0.1, 8)", "size_range: 60 to 70 pixels"),
    ),
    "attempts": Option(
        placed(max_attempts=1),
        {"placement": {"max_attempts": 32}},
        ("max_attempts=1", "max_attempts=32: where least is covered"),
    ),
    "clip": Option(
        {"placement": {**LARGE, "scale_range": (1.2, 1.6)}},
        {"placement": {"partial": "clip", "min_visible_frac": 0.3}},
        ('partial="drop"', 'partial="clip", min_visible_frac=0.3'),
    ),
    "hidden": Option(
        {"placement": {**LARGE, "scale_to_fit": True}},
        {"max_hidden_frac": 0.1},
        ("max_hidden_frac=1", "max_hidden_frac=0.1: own stay in front"),
        zoom=2,
    ),
    "keep": Option(
        {"placement": {"k_range": (1, 6), "scale_range": (1.0, 1.0)}},
        {"placement": {"position": "keep"}},
        ('position="random"', 'position="keep": where they were'),
    ),
    "antialias": Option(
        {**placed(scale_range=(0.25, 0.3)), "antialias": False},
        {"antialias": True},
        ("antialias=False", "antialias=True"),
        draw_image,
        zoom=4,
    ),
    "patches": Option(
        placed(pad_to_multiple=28),
        {"placement": {"patch_aligned_paste": True, "align": "instance"}},
        ("pad_to_multiple=28", 'patch_aligned_paste=True, align="instance"'),
    ),
    **{
        mode: Option(
            placed(),
            {"harmonize": {"mode": mode, "prob": 1.0}},
            ("harmonize.prob=0", f'harmonize.mode="{mode}", prob=1'),
            draw_image,
            on_white,
            zoom=2,
        )
        for mode in ("reinhard", "multiband", "poisson")
    },
    "feather": Option(
        placed(),
        {"harmonize": {"feather_px": 6}},
        ("feather_px=0", "harmonize.feather_px=6"),
        draw_image,
        on_white,
        zoom=3,
    ),
    "pyramid": Option(
        {**placed(), "harmonize": {"mode": "multiband", "prob": 1.0, "pyramid_levels": 2}},
        {"harmonize": {"pyramid_levels": 8}},
        ("multiband, pyramid_levels=2", "pyramid_levels=8"),
        draw_image,
        on_white,
        zoom=2,
    ),
    "gain": Option(
        {**placed(), "harmonize": {"mode": "reinhard", "prob": 1.0, "max_gain": 1.0}},
        {"harmonize": {"max_gain": 4.0}},
        ("reinhard, max_gain=1: colours only", "max_gain=4: contrast too"),
        draw_image,
        on_white,
        zoom=3,
    ),
    "count": Option(placed(k_range=(1, 1)), {"placement": {"k_range": (6, 6)}}, ("k_range=(1, 1)", "k_range=(6, 6)")),
    "scale": Option(
        placed(scale_range=(1.0, 1.0)),
        {"placement": {"scale_range": (0.3, 0.6)}},
        ("scale_range=(1, 1)", "scale_range=(0.3, 0.6)"),
    ),
    "flip": Option(
        placed(hflip_probability=0.0),
        {"placement": {"hflip_probability": 1.0}},
        ("hflip_probability=0", "hflip_probability=1"),
    ),
    "vflip": Option(
        placed(vflip_probability=0.0),
        {"placement": {"vflip_probability": 1.0}},
        ("vflip_probability=0", "vflip_probability=1"),
    ),
    "turns": Option(
        placed(),
        {"placement": {"quarter_turn_probability": 0.75}},
        ("quarter_turn_probability=0", "quarter_turn_probability=0.75"),
    ),
    "cover": Option(
        {"placement": {**LARGE, "scale_to_fit": True}},
        {"placement": {"max_cover_frac": 0.1}},
        ("max_cover_frac=None", "max_cover_frac=0.1"),
    ),
    "candidates": Option(
        {"placement": {**LARGE, "scale_to_fit": True}},
        {"placement": {"originals": {"candidate_frac": 0.2}}},
        ("candidate_frac=1", "candidate_frac=0.2"),
    ),
    "own": Option(
        placed(),
        {"source": {"kind": "same_image"}},
        ('source.kind="intra_batch"', 'source.kind="same_image"'),
    ),
    "blur": Option(
        placed(scale_range=(1.0, 1.5)),
        {"harmonize": {"blur_px": 8.0}},
        ("blur_px=0", "harmonize.blur_px=8"),
        draw_image,
        on_white,
        zoom=2,
    ),
    "class_sizes": Option(
        placed(scale_range=(0.1, 8.0), size_range={"low": 80, "high": 90}),
        {"placement": {"class_sizes": {0: {"low": 30, "high": 40}}}},
        ("size_range: 80 to 90 pixels", "class_sizes: dates of 30 to 40 pixels"),
    ),
    "boxes": Option(
        {**placed(scale_range=(1.0, 1.5)), "source": {"mask_from": "boxes"}},
        {"source": {"mask_from": "ellipse"}},
        ('source.mask_from="boxes"', 'source.mask_from="ellipse"'),
        subject=boxes_alone,
    ),
    "fit": Option(
        {"placement": {"scale_range": (1.0, 3.0), "k_range": (6, 6), "scale_to_fit": False}},
        {"placement": {"scale_to_fit": True}},
        ("scale_to_fit=False: most are too large", "scale_to_fit=True: smaller, and all are pasted"),
    ),
    "residual": Option(
        {"placement": {**EACH, "scale_range": (1.0, 1.5), "max_attempts": 1}, "min_residual_area_frac": 0.0},
        {"min_residual_area_frac": 0.7},
        ("min_residual_area_frac=0", "min_residual_area_frac=0.7"),
        zoom=2,
        subject=partial(photographs, (8, 0, 1, 4, 12), seed=1),
    ),
    "perspective": Option(
        placed(scale_range=(0.5, 2.0)),
        {"perspective_depth": True},
        ("perspective_depth=False", "perspective_depth=True"),
        draw_depth,
        rooms(0, 10),
    ),
    "depth": Option(
        {**placed(scale_range=(1.0, 2.0)), "emit_depth": False},
        {"emit_depth": None},
        ("emit_depth=False: pastes are in front", "with depth: the nearer surface is seen"),
        subject=rooms(1, 10),
    ),
    "contact": Option(
        {"placement": {**LARGE, "scale_to_fit": True}, "emit_depth": False, "panoptic": TAXONOMY},
        {"panoptic": {**TAXONOMY, "contact_priority": {0: 1, 5: 1}}},
        ("contact_priority={}", "contact_priority={0: 1, 5: 1}"),
        draw_panoptic,
        rooms(1, 20),
    ),
    "stuff": Option(
        {"placement": {**EACH, "scale_range": (1.5, 2.0)}, "emit_depth": False, "panoptic": TAXONOMY},
        {"panoptic": {**TAXONOMY, "stuff_policy": "ignore", "tau_stuff_frac": 0.8}},
        ('stuff_policy="revert"', 'stuff_policy="ignore", tau_stuff_frac=0.8'),
        draw_semantic,
        rooms(1, 10),
    ),
    "region": Option(
        placed(max_attempts=32, scale_range=(0.3, 1.0)),
        {"placement": {"region": {BALL: (FLOOR,)}, "region_frac": 0.5}},
        ("region={}", "region={ball: (floor,)}"),
        subject=rooms(0, 20),
    ),
    "classmix": Option(
        {"emit_depth": False},
        {"emit_classmix": True},
        ("objects are pasted", "emit_classmix=True: half of the classes are"),
        draw_image,
        rooms(1, 10),
    ),
}

HOW = ("harmonize.mode", "placement.min_visible_frac", "placement.region_frac")
"""Keys that say how, beside the one that turns something on."""

DRAWN_APART = {"temperature": "placement.class_temperature"}
"""Pictures that `draw_options` draws in its own way, and the key that each shows."""


def keys_of(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the dotted keys of the values of a configuration."""
    for name, value in values.items():
        if name in ("placement", "source", "harmonize", "panoptic"):
            nested = (f"{name}.{key}" for key in value if key not in ("taxonomy", "originals"))
            yield from (*nested, *(f"{name}.originals.{key}" for key in value.get("originals", {})))
        else:
            yield name


def _value(values: Mapping[str, Any], key: str) -> Any:
    """Return the value of a dotted key, the default if the values do not have it."""
    config: Any = BatchCopyPasteConfig()
    for part in key.split("."):
        values = values.get(part, {}) if isinstance(values, Mapping) and part in values else {}
        is_absent = config is None  # the panoptic part, which has no default
        config = PanopticConfig.model_fields[part].default if is_absent else getattr(config, part)
    return config if values == {} else values
