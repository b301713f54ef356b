"""Cases of `golden_records`: the inputs and the config of each forward.

Only ``--write`` needs them: a check reads inputs and config from the record.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import combinations
from typing import Any, NamedTuple

from golden_inputs import DTYPES, LAYOUTS, MODALITIES, STUFF, THINGS, CropSpec, Integers, Spec

from segpaste import BatchCopyPasteConfig, get_preset, list_presets

Options = dict[str, Any]

TAXONOMY: Options = {"classes": {**dict.fromkeys(THINGS, "thing"), **dict.fromkeys(STUFF, "stuff")}}
FITTING: Options = {
    "paste_prob": 1.0,
    "layers": 2,
    "k_range": (1, 4),
    "scale_range": (0.5, 1.5),
    "scale_to_fit": False,
    "max_attempts": 4,
}
"""Placements of which most fit."""
LATER_PRESETS = ("documents", "mmdet", "simple_copy_paste", "ultralytics_flip", "ultralytics_mixup")
"""Presets that come after the others: seeds follow the order."""
SOURCE: Options = {"whole_only": False}
"""Objects at the border are pasted, too: small canvases have few others."""
PRIORITIES: tuple[dict[int, int], ...] = ({2: 1, 12: 1}, {1: -5, 3: 7, 11: 3})
NO_PANOPTIC = tuple(m for m in MODALITIES if m != "panoptic")


class Case(NamedTuple):
    """One forward.

    Attributes:
        name: of the record.
        spec: the inputs.
        config: of the module.
    """

    name: str
    spec: Spec
    config: BatchCopyPasteConfig


def cases() -> Iterator[Case]:
    """List all forwards, each with a seed of its own."""
    groups = (_subsets, _options, _classmix, _crops, _mixtures, _degenerate, _large, _presets, _sources)
    for num, group in enumerate(groups):
        for place, case in enumerate(group()):
            yield case._replace(spec=dataclasses.replace(case.spec, seed=1000 * num + place))


def _config(placement: Options | None = None, *, panoptic: Options | None = None, **options: Any) -> Any:
    """Build a config: `FITTING`, unless other values are given, and a taxonomy, unless ``panoptic`` is empty."""
    source = SOURCE | options.pop("source", {})
    values: Options = {"placement": FITTING | (placement or {}), **options, "source": source}
    if panoptic != {}:
        values["panoptic"] = {"taxonomy": TAXONOMY, "tau_stuff_px": 8, **(panoptic or {})}
    return BatchCopyPasteConfig.model_validate(values)


def subsets() -> list[tuple[str, ...]]:
    """List the 20 sets of modalities that a batch may have."""
    found = [s for num in range(len(MODALITIES) + 1) for s in combinations(MODALITIES, num)]
    return [s for s in found if "panoptic" not in s or {"instance", "semantic"} <= {*s}]


def _subsets() -> Iterator[Case]:
    """Every set of modalities, with every dtype, layout, in place and not, with a report and without."""
    for i, subset in enumerate(subsets()):
        has_masks = "instance" in subset
        for j, dtype in enumerate(DTYPES):
            spec = Spec(
                seed=0,
                modalities=subset,
                dtype=dtype,
                layout=LAYOUTS[(i + j) % 2],
                inplace=(i // 2 + j) % 2 == 1,
                report=i // 4 % 2 == 0,
                overlap="panoptic" not in subset and i % 2 == 1,
                cameras="depth" in subset and j % 2 == 1,
                metric_depth="depth" in subset and j % 2 == 1,
                padding=("none", "edges")[i // 2 % 2],
            )
            options: Options = {"source": {"mask_from": "boxes"}} if not has_masks and j != 3 else {}
            panoptic: Options | None = {} if "semantic" not in subset and j % 2 else None
            name = f"subset/{'+'.join(subset) or 'image'}/{dtype}"
            yield Case(name, spec, _config({"grouping": ("image", "instance")[j // 2]}, panoptic=panoptic, **options))


def _variants() -> Iterator[tuple[str, Options]]:
    """Values of each option beside those of `_config`."""
    by_object: Options = {"grouping": "instance", "layers": 4}
    by_canvas: Options = {"patch_aligned_paste": True, "scale_range": (0.5, 2.0)}
    placements: dict[str, Options] = {
        **{f"layers={n}": {"layers": n} for n in (1, 3, 4, 5)},
        **{f"instance,layers={n}": {"layers": n, "grouping": "instance"} for n in (1, 2, 3, 5)},
        **{f"hflip={p}": {"hflip_probability": p} for p in (0.0, 1.0)},
        **{f"k_range={r}": {"k_range": r} for r in ((1, 1), (2, 3), (1, 256))},
        **{f"scale={r}": {"scale_range": r} for r in ((1, 1), (0.5, 0.5), (0.25, 0.5), (0.1, 0.3), (1 / 64, 1))},
        "scale=(1.5, 4)": {"scale_range": (1.5, 4), "partial": "clip", "min_visible_frac": 0.0},
        **{f"temperature={t}": {"class_temperature": t, "k_range": (1, 2)} for t in (0.5, 1.0)},
        "instance,temperature": {**by_object, "class_temperature": 0.75},
        **{f"attempts={n}": {"max_attempts": n} for n in (1, 16)},
        "prob=0.5": {"paste_prob": 0.5},
        "prob=0": {"paste_prob": 0.0},
        "clip": {"partial": "clip"},
        "clip,any": {"partial": "clip", "min_visible_frac": 0.0, "max_attempts": 1, "layers": 4},
        "clip,whole": {"partial": "clip", "min_visible_frac": 1.0},
        "clip,objects": {**by_object, "partial": "clip", "min_visible_frac": 0.25, "scale_range": (0.5, 3)},
        "sizes": {**by_object, "size_range": {"low": 4, "high": 14}},
        "sizes,one": {**by_object, "size_range": {"low": 7.5, "high": 7.5}, "scale_range": (0.25, 4)},
        "class_sizes": {**by_object, "class_sizes": {1: {"low": 3, "high": 6}, 3: {"low": 9, "high": 16}}},
        "sizes,class_sizes": {
            **by_object,
            "size_range": {"low": 5, "high": 9},
            "class_sizes": {2: {"low": 10, "high": 20}},
        },
        "multiple=16": {"pad_to_multiple": 16},
        "multiple=7": {"pad_to_multiple": 7},
        "canvas,patch=4": {**by_canvas, "pad_to_multiple": 4},
        "canvas,patch=7": {**by_canvas, "pad_to_multiple": 7},
        "canvas,patch=4,clip": {**by_canvas, "pad_to_multiple": 4, "partial": "clip"},
        "object,patch=4": {**by_object, "pad_to_multiple": 4, "patch_aligned_paste": True, "align": "instance"},
        "object,patch=7,sizes": {
            **by_object,
            "pad_to_multiple": 7,
            "patch_aligned_paste": True,
            "align": "instance",
            "size_range": {"low": 6, "high": 24},
        },
    }
    for name, placement in placements.items():
        yield name, {"placement": placement}
    harmonize: dict[str, Options] = {
        **{mode: {"mode": mode, "prob": 1.0} for mode in ("reinhard", "multiband", "poisson")},
        "reinhard,near": {"mode": "reinhard", "prob": 1.0, "surround_px": 3, "max_gain": 1.25},
        "multiband,1": {"mode": "multiband", "prob": 1.0, "pyramid_levels": 1},
        "multiband,2,half": {"mode": "multiband", "prob": 0.5, "pyramid_levels": 2},
        "poisson,2,feather": {"mode": "poisson", "prob": 0.75, "poisson_cycles": 2, "feather_px": 2},
        "feather": {"feather_px": 4},
    }
    for name, values in harmonize.items():
        yield name, {"harmonize": values}
    yield "antialias=False", {"antialias": False, "placement": {"scale_range": (0.2, 0.8)}}
    yield "perspective", {"perspective_depth": True}
    yield "perspective,objects", {"perspective_depth": True, "placement": by_object}
    yield "tiles", {"tile_size": 16}
    for slots in (9, 16, 40):
        yield f"slots={slots}", {"max_instances": slots, "placement": {"layers": 4}}
    for area in (4, 30):
        yield f"min_area={area}", {"min_area_px": area}
    for frac in (0.0, 0.6, 1.0):
        yield f"min_residual={frac}", {"min_residual_area_frac": frac}
    for frac in (0.75, 0.3, 0.0):
        yield f"max_hidden={frac}", {"max_hidden_frac": frac}
    yield "max_hidden,small", {"max_hidden_frac": 0.5, "min_area_px": 6, "placement": by_object}
    for gate in ("emit_instance", "emit_panoptic", "emit_depth"):
        yield f"{gate}=False", {gate: False}
    for policy in ("revert", "ignore"):
        for frac, px in ((0.9, 0), (0.3, 200), (0.0, 0)):
            values = {"stuff_policy": policy, "tau_stuff_frac": frac, "tau_stuff_px": px}
            yield f"stuff={policy},{frac},{px}", {"panoptic": values}
    for n, priority in enumerate(PRIORITIES):
        yield f"priority={n}", {"panoptic": {"contact_priority": priority}, "placement": by_object}
    yield (
        "priority,hidden",
        {
            "panoptic": {"contact_priority": PRIORITIES[1], "stuff_policy": "ignore"},
            "max_hidden_frac": 0.8,
            "min_area_px": 2,
            "placement": {**by_object, "layers": 5},
        },
    )
    yield "taxonomy,slots", {"panoptic": {"taxonomy": {**TAXONOMY, "max_instances_per_image": 12}}, "max_instances": 12}
    for n, progress in enumerate(((1, 2), (7, 8), (1, 1))):
        for curve in ("step", "linear"):
            fading = {"fade_last": 0.75 if n == 0 and curve == "linear" else 0.25, "fade_curve": curve}
            yield f"fade={curve},{progress}", {"placement": fading, "progress": progress}
    kept: Options = {"position": "keep", "max_attempts": 1, "scale_range": (1, 1)}
    yield "keep", {"placement": kept}
    yield "keep,objects,whole", {"placement": {**by_object, **kept}, "source": {"whole_only": True}}
    yield "keep,sizes", {"placement": {**kept, "scale_range": (0.5, 1.25)}}
    yield "whole", {"source": {"whole_only": True}, "placement": by_object}
    yield "same_image", {"source": {"kind": "same_image"}, "placement": by_object}
    yield "fixed_share", {"placement": {"fixed_share": True, "paste_prob": 0.5}}
    yield "same_image,keep", {"source": {"kind": "same_image"}, "placement": {**kept, "hflip_probability": 1.0}}
    wide: Options = {"scale_to_fit": True, "scale_range": (0.5, 3)}
    yield "fit", {"placement": wide}
    yield "fit,objects", {"placement": {**by_object, **wide}}
    yield "fit,sizes", {"placement": {**by_object, **wide, "size_range": {"low": 20, "high": 80}}}
    on_stuff: Options = {"region": {1: [11], 2: [11, 12], 3: [12, 2]}, "region_frac": 0.75, "scale_range": (0.25, 1)}
    yield "region", {"placement": {**by_object, **on_stuff, "max_attempts": 16}}
    yield "region,image", {"placement": {"region": {1: [11, 12]}, "region_frac": 0.5, "max_attempts": 16}}
    yield "counts", {"placement": {**by_object, "k_range": (0, 9), "k_to_available": True}}
    yield "cover", {"placement": {**by_object, "max_cover_frac": 0.3, "scale_range": (0.25, 1), "max_attempts": 4}}
    yield "candidates", {"placement": {**kept, "max_cover_frac": 0.75, "candidate_frac": 0.5, "k_range": (99, 99)}}
    hides: Options = {"layers": 3, "scale_range": (0.5, 1.5)}
    yield "residual", {"min_residual_area_frac": 0.0, "min_residual_area_px": 120, "placement": hides}
    yield "residual,shift", {"min_residual_area_px": 200, "max_box_shift_px": 3, "placement": hides}
    yield "blur", {"harmonize": {"blur_px": 1.5}}
    yield "cover_void", {"placement": {"cover_void": True, "layers": 2}}
    yield "depth_order", {"depth_order": "value", "placement": {"layers": 3}, "filled_depth": True}
    yield "vflip", {"placement": {"vflip_probability": 0.5, "layers": 3}}
    yield "vflip,objects", {"placement": {**by_object, "vflip_probability": 1.0, "partial": "clip"}}
    yield "vflip,keep", {"placement": {**kept, "vflip_probability": 1.0}, "source": {"whole_only": True}}
    yield "turns", {"placement": {"quarter_turn_probability": 0.75, "layers": 3}}
    yield "turns,objects", {"placement": {**by_object, "quarter_turn_probability": 1.0, "partial": "clip"}}
    yield "turns,keep", {"placement": {**kept, "quarter_turn_probability": 0.75}, "source": {"whole_only": True}}
    turned_patches: Options = {**by_canvas, "pad_to_multiple": 4, "quarter_turn_probability": 0.75}
    yield "turns,patches", {"placement": turned_patches}


def _options() -> Iterator[Case]:
    """Each option by itself: in panoptic uint8 batches, and in others with float images and metric depth."""
    for i, (name, options) in enumerate(_variants()):
        values = dict(options)
        progress, filled = values.pop("progress", None), values.pop("filled_depth", False)
        padding = ("none", "none", "edges")[i % 3]
        whole = Spec(0, size=(44, 56), progress=progress, padding=padding, large_ids=i % 5 == 0)
        yield Case(f"option/{name}/panoptic", whole, _config(**values))
        if name.startswith(("stuff", "priority", "emit_panoptic", "taxonomy", "prob=0", "fade")):
            continue
        other = Spec(
            0,
            batch=4,
            size=(61, 48),
            modalities=NO_PANOPTIC,
            dtype=("float32", "float16", "float32", "bfloat16")[i % 4],
            channels=(3, 1, 3, 4)[i % 4],
            white=(1, 255, 0)[i % 3],
            layout=LAYOUTS[i % 3],
            overlap=i % 2 == 0,
            loose_boxes=i % 4 == 1,
            filled_depth=filled,
            cameras=True,
            metric_depth=i % 3 > 0,
            wild_depth=i % 3 == 1,
            padding=("none", "holes")[i % 2],
            report=i % 5 > 0,
        )
        yield Case(f"option/{name}/objects", other, _config(**(values if i % 2 else {"panoptic": {}, **values})))


def _classmix() -> Iterator[Case]:
    """ClassMix, with and without instances and a taxonomy."""
    mixed = [s for s in subsets() if "semantic" in s]
    for i in range(30):
        subset = mixed[i % len(mixed)]
        in_place = i % 3 == 1
        placement: Options = {"layers": 1 + i % 5, "paste_prob": (1.0, 1.0, 1.0, 0.6)[i % 4]}
        placement |= {"pad_to_multiple": 16} if not in_place and i % 5 == 0 else {}
        placement |= {"fade_last": 0.5, "fade_curve": "linear"} if i % 7 == 3 else {}
        values: Options = {"emit_classmix": True, "placement": placement, "min_area_px": (1, 1, 8)[i % 3]}
        values |= {"max_instances": 14} if not in_place and i % 2 else {}
        values |= {"max_hidden_frac": 0.6} if i % 6 == 2 else {}
        values |= {"harmonize": {"mode": "multiband", "prob": 1.0}} if i % 8 == 5 else {}
        values |= {"source": {"mask_from": "boxes"}} if "instance" not in subset else {}
        if "panoptic" in subset or i % 4:
            values["panoptic"] = {"taxonomy": TAXONOMY, "stuff_policy": ("revert", "ignore")[i % 2]}
        spec = Spec(
            0,
            modalities=subset,
            dtype=DTYPES[i % 4],
            layout=LAYOUTS[i // 2 % 2],
            inplace=in_place,
            padding=("none", "edges", "holes")[i % 3],
            progress=(3, 4) if i % 7 == 3 else None,
            report=i % 5 != 4,
            source="fixed" if i % 10 == 9 else "config",
            cameras="depth" in subset,
            metric_depth="depth" in subset and i % 2 == 0,
        )
        yield Case(f"classmix/{i}/{'+'.join(subset)}", spec, BatchCopyPasteConfig.model_validate(values))


def _crops() -> Iterator[Case]:
    """Crops of a bank, with and without depth, normals, cameras and scales."""
    for i in range(56):
        subset = subsets()[i * 7 % 20] if i % 3 else MODALITIES
        has_depth, num_layers = "depth" in subset, (1, 2, 3, 5)[i // 2 % 4]
        keeps_depth = has_depth and i % 3 != 1
        is_metric = keeps_depth and i % 2 == 0
        in_place = i % 4 == 2
        crops = CropSpec(
            num=num_layers + i % 3,
            size=((20, 24), (9, 14), (32, 16))[i % 3],
            depth=keeps_depth,
            normals="normals" in subset and i % 4 != 1,
            cameras=is_metric or i % 5 == 0,
            scales=i % 4 == 1 or i % 7 == 0,
        )
        source: Options = {"kind": "bank", "crops_per_target": num_layers, "value_range": (1, 255)[i // 4 % 2]}
        source |= {"without_depth": ("invalid", "skip")[i // 3 % 2]}
        source |= {"mask_from": "boxes"} if "instance" not in subset else {}
        placement: Options = {"layers": 1, "scale_range": ((0.5, 1.5), (0.25, 0.75), (1, 2.5))[i // 2 % 3]}
        option = i % 8
        placement |= {"grouping": "instance"} if option in (1, 3, 4) else {}
        if option == 1 and not in_place:
            placement |= {"pad_to_multiple": 6, "patch_aligned_paste": True, "align": "instance"}
        elif option == 2:
            placement |= {"partial": "clip", "min_visible_frac": 0.25}
        elif option == 3:
            placement |= {"size_range": {"low": 6, "high": 18}}
        elif option == 4:
            placement |= {"class_sizes": {1: {"low": 4, "high": 8}}, "paste_prob": 0.75}
        elif option == 5 and crops.scales:
            source |= {"relative_to": "photo"}
        values: Options = {"source": source, "perspective_depth": i % 6 == 3, "antialias": i % 5 != 4}
        values |= {"max_instances": 13} if not in_place and i % 2 else {}
        values |= {"max_hidden_frac": 0.5, "min_area_px": 4} if i % 7 == 6 else {}
        modes = ("reinhard", "multiband", "poisson")
        values |= {"harmonize": {"mode": modes[i % 3], "prob": 1.0, "feather_px": i % 2}} if i % 9 == 8 else {}
        priority = {"contact_priority": PRIORITIES[i % 2]} if i % 5 == 0 else None
        spec = Spec(
            0,
            size=(40 + i % 3, 48),
            modalities=subset,
            dtype=("uint8", "float32", "uint8", "float16", "bfloat16")[i % 5],
            white=(1, 255)[i // 4 % 2],
            layout=LAYOUTS[i // 3 % 2],
            cameras=is_metric,
            metric_depth=is_metric,
            wild_depth=i % 4 == 3,
            padding=("none", "edges")[i // 2 % 2],
            crops=crops,
            inplace=in_place,
            report=i % 4 != 1,
            source="crops" if i % 10 == 0 else "config",
        )
        yield Case(f"crops/{i}", spec, _config(placement, panoptic=priority, **values))


def _mixtures() -> Iterator[Case]:
    """Options together, drawn."""
    for i in range(64):
        draws = Integers(7_000 + i)
        subset = draws.one_of([s for s in subsets() if "instance" in s])
        in_place, by_object = bool(draws.one_below(4) == 0), bool(draws.one_below(2))
        spec = Spec(
            0,
            batch=2 + draws.one_below(4),
            size=(24 + draws.one_below(60), 24 + draws.one_below(73)),
            slots=6 + draws.one_below(8),
            instances=2 + draws.one_below(5),
            modalities=subset,
            dtype=draws.one_of(DTYPES),
            white=draws.one_of((1, 255, 0)),
            layout=draws.one_of(LAYOUTS),
            overlap="panoptic" not in subset and bool(draws.one_below(2)),
            large_ids=draws.one_below(4) == 0,
            padding=draws.one_of(("none", "none", "edges", "holes")),
            cameras=True,
            metric_depth="depth" in subset and bool(draws.one_below(2)),
            wild_depth=draws.one_below(3) == 0,
            inplace=in_place,
            report=draws.one_below(4) > 0,
        )
        placement: Options = {
            "layers": draws.one_of((1, 2, 3, 5)),
            "scale_range": draws.one_of(((0.5, 1.5), (0.25, 1), (0.7, 1.3), (1, 3))),
            "hflip_probability": draws.one_of((0.5, 0.25, 1.0)),
            "k_range": draws.one_of(((1, 256), (1, 3), (2, 4))),
            "class_temperature": draws.one_of((0.0, 0.0, 1.0)),
            "max_attempts": draws.one_of((2, 4, 8)),
        }
        multiple = None if in_place else draws.one_of((None, None, 4, 7))
        if multiple is not None:
            placement |= {"pad_to_multiple": multiple, "patch_aligned_paste": bool(draws.one_below(2))}
        whole = multiple is not None and by_object and draws.one_below(2) == 0
        if whole:
            placement |= {"patch_aligned_paste": True, "align": "instance"}
        elif draws.one_below(2):
            placement |= {"partial": "clip", "min_visible_frac": draws.one_of((0.0, 0.5, 1.0))}
        if placement.get("patch_aligned_paste") and not whole:
            placement["scale_range"] = (0.5, 3.0)  # at least two scales of any canvas
        if by_object:
            placement["grouping"] = "instance"
        if by_object and (whole or not placement.get("patch_aligned_paste", False)) and draws.one_below(3) == 0:
            placement |= {"size_range": {"low": 3, "high": 12.5}, "class_sizes": {2: {"low": 8, "high": 16}}}
        values: Options = {
            "antialias": draws.one_below(4) > 0,
            "perspective_depth": draws.one_below(4) == 0,
            "min_area_px": draws.one_of((1, 1, 3, 12)),
            "min_residual_area_frac": draws.one_of((0.1, 0.0, 0.5)),
            "max_hidden_frac": draws.one_of((1.0, 1.0, 0.8, 0.4)),
            "max_instances": None if in_place or draws.one_below(2) else spec.slots + draws.one_below(12),
            "tile_size": draws.one_of((512, 9)),
        }
        if draws.one_below(4) == 0:
            values["harmonize"] = {
                "mode": draws.one_of(("reinhard", "multiband", "poisson")),
                "prob": draws.one_of((0.5, 1.0)),
                "feather_px": draws.one_of((0, 2)),
                "pyramid_levels": draws.one_of((3, 5)),
            }
        policy: Options = {
            "stuff_policy": draws.one_of(("revert", "ignore")),
            "tau_stuff_frac": draws.one_of((0.1, 0.5)),
            "contact_priority": draws.one_of(({}, *PRIORITIES)),
        }
        panoptic = policy if "panoptic" in subset or draws.one_below(2) else {}
        yield Case(f"mixture/{i}", spec, _config(placement, panoptic=panoptic, **values))


def _degenerate() -> Iterator[Case]:
    """No image, no slot, no instance, one image, canvases of one pixel or one row."""
    specs = {
        "no image": Spec(0, batch=0),
        "one image": Spec(0, batch=1),
        "no slot": Spec(0, slots=0),
        "no slot, more": Spec(0, slots=0, modalities=NO_PANOPTIC),
        "one slot": Spec(0, slots=1, modalities=("instance",)),
        "no instance": Spec(0, instances=0),
        "full": Spec(0, slots=4, instances=4, modalities=NO_PANOPTIC, dtype="float32"),
        "1x1": Spec(0, size=(1, 1), modalities=NO_PANOPTIC, overlap=True, instances=2),
        "1x1, one value": Spec(0, size=(1, 1), modalities=("instance",), overlap=True, dtype="float32", channels=1),
        "1x9": Spec(0, size=(1, 9), overlap=False),
        "9x1": Spec(0, size=(9, 1), modalities=NO_PANOPTIC, dtype="bfloat16", layout="channels_last"),
        "2x3": Spec(0, size=(2, 3), dtype="float16", padding="edges"),
        "5x17": Spec(0, size=(5, 17), channels=4, modalities=("instance", "depth")),
    }
    for name, spec in specs.items():
        for place in (False, True):
            more: Options = {"max_instances": max(spec.slots, 1) + 3} if not place and "more" in name else {}
            config = _config({"scale_range": (0.5, 1.0), "partial": "clip", "layers": 3}, **more)
            yield Case(f"degenerate/{name}/{place}", dataclasses.replace(spec, inplace=place), config)
    bank: Options = {"kind": "bank", "crops_per_target": 2, "value_range": 1.0}
    for name, spec in specs.items():
        if name in ("no image", "one image", "1x1", "2x3") and spec.channels == 3:
            crops = CropSpec(num=2, size=(1, 1) if "x" in name else (6, 5), depth=True, normals=True)
            config = _config({"layers": 1, "scale_range": (0.5, 1.0)}, source=bank)
            yield Case(f"degenerate/{name}/crops", dataclasses.replace(spec, crops=crops), config)
    mixed = BatchCopyPasteConfig.model_validate({"emit_classmix": True, "placement": {"paste_prob": 1.0}})
    for name in ("no image", "one image", "no slot, more", "1x9"):
        yield Case(f"degenerate/{name}/classmix", specs[name], mixed)


def _large() -> Iterator[Case]:
    """Canvases of 256 x 320 with many instances."""
    spec = Spec(0, batch=2, size=(256, 320), slots=70, instances=30)
    layers: Options = {"layers": 5, "k_range": (1, 256), "scale_range": (0.3, 1.7)}
    by_object: Options = {**layers, "grouping": "instance", "layers": 24, "partial": "clip"}
    yield Case("large/panoptic", spec, _config(layers))
    yield Case("large/objects", spec, _config(by_object, max_hidden_frac=0.7, max_instances=90))
    floats = dataclasses.replace(spec, dtype="float32", layout="channels_last", modalities=NO_PANOPTIC, overlap=True)
    yield Case("large/floats", floats, _config(layers, min_area_px=9))
    yield Case("large/in place", dataclasses.replace(floats, layout="rows", inplace=True), _config(by_object))
    yield Case(
        "large/classmix",
        spec,
        BatchCopyPasteConfig.model_validate({"emit_classmix": True, "placement": {"paste_prob": 1.0}}),
    )
    crops = CropSpec(num=12, size=(64, 64), depth=True, normals=True)
    bank: Options = {"kind": "bank", "crops_per_target": 10}
    config = _config({"layers": 1, "scale_range": (0.5, 1.5)}, source=bank)
    yield Case("large/crops", dataclasses.replace(spec, crops=crops), config)


def _presets() -> Iterator[Case]:
    """Every preset of the package that needs no bank, with the taxonomy."""
    for name in sorted(list_presets(), key=LATER_PRESETS.count):
        config = get_preset(name).config_for(None, panoptic={"taxonomy": TAXONOMY})
        if config.source.kind == "bank":
            continue
        for dtype, size in (("uint8", (56, 70)), ("float32", (84, 71)), ("bfloat16", (90, 64))):
            spec = Spec(0, batch=4, size=size, slots=14, dtype=dtype, cameras=True, metric_depth=dtype == "uint8")
            yield Case(f"preset/{name}/{dtype}", spec, config)


def _sources() -> Iterator[Case]:
    """Every source strategy, given by itself."""
    for name in ("rows", "fixed", "other"):
        for modalities, dtype in ((NO_PANOPTIC, "uint8"), (("instance", "depth"), "float32"), (MODALITIES, "uint8")):
            spec = Spec(0, modalities=modalities, dtype=dtype, slots=12, source=name, cameras=True, metric_depth=True)
            yield Case(f"source/{name}/{len(modalities)}", spec, _config())
    crops = CropSpec(num=3, scales=True)
    bank: Options = {"kind": "bank", "crops_per_target": 2, "relative_to": "photo"}
    yield Case("source/crops", Spec(0, crops=crops, source="crops"), _config({"layers": 1}, source=bank))
    mixed = BatchCopyPasteConfig.model_validate({"emit_classmix": True, "placement": {"layers": 2, "paste_prob": 1.0}})
    for name in ("rows", "fixed"):
        yield Case(f"source/{name}/classmix", Spec(0, modalities=NO_PANOPTIC, source=name), mixed)
    for dtype in ("uint8", "float32"):
        pool: Options = {"kind": "bank", "crops_per_target": 3, "value_range": 1.0}
        yield Case(f"source/pool/{dtype}", Spec(0, dtype=dtype, source="pool"), _config({"layers": 1}, source=pool))
