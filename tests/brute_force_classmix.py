"""ClassMix written again, in plain loops: its draws, and its paste as a scene that `brute_force` settles."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

import brute_force
from brute_force_draws import Drawn, bernoulli, bits, eligible
from brute_force_pixels import Array, Fields, Layer, axis, extent, focal_length
from segpaste.augmentation import BatchCopyPasteConfig

NO_TAXONOMY = range(1024)


def mix(
    images: list[Fields], config: BatchCopyPasteConfig, metric: bool
) -> tuple[list[brute_force.Outcome], list[Drawn]]:
    """Return `brute_force.prepared` images after ClassMix, and the draws for each."""
    scenes, draws = zip(*(_scene(images, config, b, metric) for b in range(len(images))), strict=True)
    return [brute_force.settle(scene) for scene in scenes], list(draws)


def _scene(images: list[Fields], config: BatchCopyPasteConfig, b: int, metric: bool) -> tuple[brute_force.Scene, Drawn]:
    target, drawn, layers = images[b], Drawn(), []
    seeds = [int(image["sample_seeds"]) for image in images]
    tries = bernoulli(seeds[b], "paste", config.placement.paste_prob)
    candidates = [s for s in range(len(images)) if s != b and classes_in(images[s], config)]
    wanted = {}
    for j in range(config.placement.layers):
        keys = {s: bits(seeds[b], "source", j, seeds[s], seeds[:s].count(seeds[s])) // 4 for s in candidates}
        drawn.source_idx.append(max(candidates, key=keys.__getitem__, default=0))
        drawn.layer_valid.append(bool(candidates))
        source = images[drawn.source_idx[j]]
        chosen = half_of(classes_in(source, config), seeds[b], j) if tries and candidates else set()
        for k in eligible(source, config):
            if int(source["labels"][k]) in chosen:
                wanted[j, k] = bits(seeds[b], "slot", j, k) // 4
        layers.append(chosen)
    num_free = int((~target["instance_valid"]).sum())
    kept = sorted(wanted, key=wanted.__getitem__, reverse=True)[:num_free]
    drawn.no_free_slot = len(wanted) - len(kept)
    drawn.no_source = int(tries and not candidates)
    drawn.tried = len(wanted) + drawn.no_source
    shown: list[Layer | None] = []
    for j, chosen in enumerate(layers):
        source = images[drawn.source_idx[j]]
        drawn.carried.append(sorted(k for i, k in kept if i == j))
        all_wanted = [k for i, k in wanted if i == j]
        mixed = _mixed(source, chosen, all_wanted)
        if mixed["instance_masks"][-1].any():
            drawn.carried[j].append(len(source["labels"]))
            drawn.tried += 1
        shown.append(_as_it_stands(target, mixed, config, metric) if candidates else None)
    return brute_force.Scene(target, shown, drawn.carried, config), drawn


def classes_in(image: Fields, config: BatchCopyPasteConfig) -> set[int]:
    """The classes that have a pixel in the picture and may be mixed."""
    known = NO_TAXONOMY if config.panoptic is None else config.panoptic.taxonomy.classes
    semantic = image["semantic_maps"]
    picture = semantic if "padding_mask" not in image else semantic[~image["padding_mask"][0]]
    return {int(label) for label in np.unique(picture)} & set(known) - {config.ignore_index}


def half_of(classes: set[int], seed: int, j: int) -> set[int]:
    """Half of the classes, rounded up: those of the largest random numbers."""
    keys = {label: bits(seed, "class", j, label) // 4 for label in classes}
    return set(sorted(keys, key=keys.__getitem__, reverse=True)[: -(-len(classes) // 2)])


def _mixed(source: Fields, chosen: set[int], wanted: list[int]) -> dict[str, Array]:
    """Return the source showing only the chosen classes, with a last mask of those pixels that no instance owns."""
    mixed = dict(source)
    semantic, rest = source["semantic_maps"].copy(), np.zeros_like(source["semantic_maps"], dtype=bool)
    for y, x in np.ndindex(*semantic.shape):
        if int(semantic[y, x]) not in chosen:
            semantic[y, x] = 255
            continue
        owned = any(source["instance_masks"][k, y, x] for k in wanted)
        if "panoptic_maps" in source:
            owned = source["panoptic_maps"][y, x] != 0
        padded = "padding_mask" in source and source["padding_mask"][0, y, x]
        rest[y, x] = not owned and not padded
    mixed["semantic_maps"] = semantic
    mixed["instance_masks"] = np.concatenate([source["instance_masks"], rest[None]])
    mixed["labels"] = np.append(source["labels"], 0)
    return mixed


def _as_it_stands(target: Fields, source: Fields, config: BatchCopyPasteConfig, metric: bool) -> Layer:
    height, width = target["images"].shape[-2:]
    source_width, source_height = extent(source)
    columns = axis(width, 0, Fraction(1), source_width, False, config.antialias)
    rows = axis(height, 0, Fraction(1), source_height, False, config.antialias)
    depth_scale = np.float32(focal_length(target) / focal_length(source) if metric else 1)
    return Layer(source, columns, rows, hflip=False, vflip=False, swap_axes=False, depth_scale=depth_scale)
