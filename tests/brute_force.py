"""Pastes written again: one pixel, one instance at a time, in plain loops over NumPy arrays and fractions.

`BatchCopyPaste` must equal this after its placement is drawn (`brute_force_draws` writes the draws again). It shares
no code with the module; it is far too slow for anything but small tests.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from brute_force_draws import pixel_box
from brute_force_pixels import (
    Array,
    Fields,
    Layer,
    class_at,
    colour_at,
    covering,
    depth_at,
    is_padding,
    layer_over,
    normal_at,
    source_pixel,
)
from segpaste.augmentation import BatchCopyPasteConfig, Placement
from segpaste.types import FIELDS, PaddedBatchedDenseSample

Carried = list[list[int]]  # for each layer the source slots that it carries, ascending


@dataclass(frozen=True)
class Scene:
    """One target and the layers over it; None stands for a layer that is not valid."""

    target: Fields
    layers: list[Layer | None]
    carried: Carried
    config: BatchCopyPasteConfig

    @property
    def size(self) -> tuple[int, int]:
        return self.target["images"].shape[-2:]


@dataclass(frozen=True)
class Outcome:
    """Result of a paste for one image.

    Attributes:
        fields: the output; the image in float64 and not rounded, unless it is uint8.
        visible_layer: [H, W], -1 where the target is seen.
        carried: the pastes that are in the output.
        slot_layer, slot_source: [K], the paste in each output slot, -1 where there is none.
        dropped: why the other pastes are not in the output.
    """

    fields: dict[str, Array]
    visible_layer: Array
    carried: Carried
    slot_layer: list[int]
    slot_source: list[int]
    dropped: dict[str, int]


def paste(
    batch: PaddedBatchedDenseSample,
    config: BatchCopyPasteConfig,
    placement: Placement,
    sources: list[Fields] | None = None,
) -> list[Outcome]:
    """Paste into every image of a batch that has instance masks, with a placement as it was drawn.

    Sources are those images too, or others.
    """
    images = prepared(batch, config)
    sources = images if sources is None else sources
    metric = batch.metric_depth and config.emit_depth is not False
    scenes = []
    for b, target in enumerate(images):
        layers, carried = [], []
        for j in range(placement.layer_valid.shape[1]):
            source = sources[int(placement.source_idx[b, j])]
            layers.append(layer_over(target, source, placement, (b, j), config, metric))
            carried.append([int(k) for k in np.flatnonzero(placement.carried[b, j].numpy())])
        scenes.append(Scene(target, layers, carried, config))
    return [settle(scene) for scene in scenes]


def prepared(batch: PaddedBatchedDenseSample, config: BatchCopyPasteConfig) -> list[Fields]:
    """Return the images of a batch, without the maps that the config excludes, with the output's number of slots."""
    closed = {"panoptic_maps"} if config.emit_panoptic is False else set()
    closed |= {"depth", "depth_valid"} if config.emit_depth is False else set()
    images: list[dict[str, Array]] = [{} for _ in range(batch.batch_size)]
    for field in FIELDS:
        name, value = field.batched_name, getattr(batch, field.batched_name)
        if value is None or name in closed:
            continue
        for image, array in zip(images, (value.float() if value.is_floating_point() else value).numpy(), strict=True):
            extra = max(0, (config.max_instances or 0) - len(array)) if field.shape[:1] == ("N",) else 0
            image[name] = np.concatenate([array, np.zeros((extra, *array.shape[1:]), array.dtype)]) if extra else array
    for image in images:
        if config.placement.pad_to_multiple is not None:
            _pad(image, config.placement.pad_to_multiple)
        if "depth" in image:  # what is no number is no measurement, whatever the mask says
            finite = np.isfinite(image["depth"])
            image["depth_valid"] = image["depth_valid"] & finite
            image["depth"] = np.where(finite, image["depth"], np.float32(0))
    return images


def _pad(image: Fields, multiple: int) -> None:
    """Pad at the right and bottom to multiples: the image is mirrored, other fields are as outside of a picture."""
    height, width = image["images"].shape[-2:]
    extra = ((0, -height % multiple), (0, -width % multiple))
    if extra == ((0, 0), (0, 0)):
        return
    image.setdefault("padding_mask", np.zeros((1, height, width), bool))
    for name, fill in {"semantic_maps": 255, "padding_mask": True}.items():
        if name in image:
            image[name] = np.pad(image[name], (*((0, 0),) * (image[name].ndim - 2), *extra), constant_values=fill)
    for name in ("instance_masks", "panoptic_maps", "depth", "depth_valid", "normals"):
        if name in image:
            image[name] = np.pad(image[name], (*((0, 0),) * (image[name].ndim - 2), *extra))
    image["images"] = np.pad(image["images"], ((0, 0), *extra), mode="reflect")


# 1. Which layer is seen.


@dataclass(frozen=True)
class Guards:
    """Classes and pixels of the target that nothing may hide."""

    classes: frozenset[int]
    pixels: Array


def resolve(scene: Scene, carried: Carried, guards: Guards) -> Array:
    """[H, W], the layer that is seen at each pixel, -1 for the target."""
    seen = np.full(scene.size, -1)
    for y, x in np.ndindex(*scene.size):
        seen[y, x] = seen_at(scene, carried, guards, y, x)
    return seen


def seen_at(scene: Scene, carried: Carried, guards: Guards, y: int, x: int) -> int:
    target, ignore, by_value = scene.target, scene.config.ignore_index, scene.config.depth_order == "value"
    closed = set(guards.classes) if scene.config.placement.cover_void else {ignore, *guards.classes}
    if is_padding(target, y, x) or class_at(target, y, x) in closed or guards.pixels[y, x]:
        return -1
    has_depth = "depth" in target
    if has_depth:
        current = target["depth"][0, y, x]
        decides = by_value or target["depth_valid"][0, y, x]
        current_valid = bool(decides and np.isfinite(current) and current > 0)
    seen, front = -1, priority_of(scene, class_at(target, y, x))
    for j, layer in enumerate(scene.layers):
        if layer is None or not covering(layer, carried[j], y, x):
            continue
        highest = max(priority_of(scene, int(layer.source["labels"][k])) for k in covering(layer, carried[j], y, x))
        if highest < front:
            continue
        at = source_pixel(layer, y, x)
        if is_padding(layer.source, *at) or class_at(layer.source, *at) == ignore:
            continue
        if has_depth and "depth" in layer.source:
            depth, valid = depth_at(layer, y, x, by_value)
            if current_valid and not (valid and depth < current):
                continue
            current, current_valid = depth, valid
        seen, front = j, highest
    return seen


def priority_of(scene: Scene, label: int | None) -> int:
    """Return the contact priority of a class, 0 where it has none."""
    panoptic = scene.config.panoptic
    if panoptic is None or label is None or "panoptic_maps" not in scene.target:
        return 0
    return panoptic.contact_priority.get(label, 0)


def pasted_masks(scene: Scene, carried: Carried, seen: Array) -> dict[tuple[int, int], Array]:
    """Return the visible mask of each carried (layer, source slot); with a panoptic map each pixel has one owner."""
    masks = {(j, k): np.zeros(scene.size, bool) for j, slots in enumerate(carried) for k in slots}
    for y, x in np.argwhere(seen >= 0):
        j = int(seen[y, x])
        owners = covering(scene.layers[j], carried[j], y, x)
        labels = scene.layers[j].source["labels"]
        owners.sort(key=lambda k: (-priority_of(scene, int(labels[k])), k))
        for k in owners[:1] if "panoptic_maps" in scene.target else owners:
            masks[j, k][y, x] = True
    return masks


# 2. Stuff that must stay, and pastes of which too little is seen.


def driven_out(scene: Scene, seen: Array) -> frozenset[int]:
    """Return the stuff classes that lost pixels and have too few left."""
    panoptic, target = scene.config.panoptic, scene.target
    if panoptic is None or "panoptic_maps" not in target:
        return frozenset()
    found = set()
    for label, kind in panoptic.taxonomy.classes.items():
        before = int((target["semantic_maps"] == label).sum())
        after = int(((target["semantic_maps"] == label) & (seen < 0)).sum())
        too_few = after < Fraction(str(panoptic.tau_stuff_frac)) * before or after < panoptic.tau_stuff_px
        if kind == "stuff" and after < before and too_few:
            found.add(label)
    return frozenset(found)


def hidden_too_much(scene: Scene, seen: Array) -> Array:
    """Return the pixels of instances of which more is hidden than allowed, [H, W]."""
    pixels = np.zeros(scene.size, bool)
    for mask, valid in zip(scene.target["instance_masks"], scene.target["instance_valid"], strict=True):
        if valid and (mask & (seen >= 0)).sum() > Fraction(str(scene.config.max_hidden_frac)) * int(mask.sum()):
            pixels |= mask
    return pixels


def settle(scene: Scene) -> Outcome:
    """Resolve, restore what must stay, remove what is too small, resolve again, and write the output."""
    free = resolve(scene, scene.carried, Guards(frozenset(), np.zeros(scene.size, bool)))
    area_free = {paste: int(m.sum()) for paste, m in pasted_masks(scene, scene.carried, free).items()}
    reverts = scene.config.panoptic is not None and scene.config.panoptic.stuff_policy == "revert"
    guards = Guards(driven_out(scene, free) if reverts else frozenset(), hidden_too_much(scene, free))
    masks = pasted_masks(scene, scene.carried, resolve(scene, scene.carried, guards))
    dropped = {"hidden": 0, "reverted": 0, "too_small": 0}
    carried: Carried = [[] for _ in scene.layers]
    for (j, k), mask in masks.items():
        if mask.sum() >= scene.config.min_area_px:
            carried[j].append(k)
        elif area_free[j, k] >= scene.config.min_area_px:
            dropped["reverted"] += 1
        else:
            dropped["too_small" if area_free[j, k] else "hidden"] += 1
    carried, num_more = _settled(scene, carried, guards)
    dropped["too_small"] += num_more
    seen = resolve(scene, carried, guards)
    outcome = Outcome({}, seen, carried, *_slots(scene, carried, seen), dropped)
    fields = render(scene, outcome)
    for label in frozenset() if reverts else driven_out(scene, seen):
        fields["semantic_maps"][(scene.target["semantic_maps"] == label) & (seen < 0)] = scene.config.ignore_index
    return replace(outcome, fields=fields)


def _settled(scene: Scene, carried: Carried, guards: Guards) -> tuple[Carried, int]:
    """Return the pastes that are left once none is too small, and how many were removed.

    Without priorities none goes here: what has gone before only uncovered the others. With priorities and depth it may
    have uncovered a paste that is farther than a third one and yet outranked what let it by.
    """
    masks = pasted_masks(scene, carried, resolve(scene, carried, guards))
    small = {paste for paste, mask in masks.items() if mask.sum() < scene.config.min_area_px}
    if not small:
        return carried, 0
    assert scene.config.panoptic is not None
    assert any(scene.config.panoptic.contact_priority.values())
    left = [[k for k in slots if (j, k) not in small] for j, slots in enumerate(carried)]
    settled, num_more = _settled(scene, left, guards)
    return settled, num_more + len(small)


def survives(scene: Scene, slot: int, seen: Array) -> bool:
    mask = scene.target["instance_masks"][slot]
    before, after = int(mask.sum()), int((mask & (seen < 0)).sum())
    least = Fraction(str(scene.config.min_residual_area_frac)) * before
    is_large = after >= least and (after >= scene.config.placement.originals.min_residual_area_px or after == before)
    shift = scene.config.placement.originals.max_box_shift_px
    if shift is not None and after > 0:
        rows, cols = np.nonzero(mask & (seen < 0))
        box = cols.min(), rows.min(), cols.max() + 1, rows.max() + 1
        limits = scene.size[::-1] * 2
        before_paste = (min(max(e, 0), m) for e, m in zip(pixel_box(scene.target["boxes"][slot]), limits, strict=True))
        is_large = is_large or all(abs(e - f) <= shift for e, f in zip(box, before_paste, strict=True))
    return bool(scene.target["instance_valid"][slot]) and after >= scene.config.min_area_px and is_large


def _slots(scene: Scene, carried: Carried, seen: Array) -> tuple[list[int], list[int]]:
    """Return the layer and source slot of the paste in each output slot: in order, in slots without a survivor."""
    num_slots = len(scene.target["instance_valid"])
    layers, sources = [-1] * num_slots, [-1] * num_slots
    free = [k for k in range(num_slots) if not survives(scene, k, seen)]
    pastes = [(j, k) for j, slots in enumerate(carried) for k in slots if k < num_slots]
    for slot, (j, k) in zip(free, pastes, strict=False):
        layers[slot], sources[slot] = j, k
    return layers, sources


# 3. Every field of the output, once.


def render(scene: Scene, outcome: Outcome) -> dict[str, Array]:
    out = {name: value.copy() for name, value in scene.target.items()}
    if out["images"].dtype != np.uint8:
        out["images"] = out["images"].astype(np.float64)
    for y, x in np.argwhere(outcome.visible_layer >= 0):
        j = int(outcome.visible_layer[y, x])
        _render_pixel(out, scene, j, outcome.carried[j], y, x)
    _render_slots(out, scene, outcome)
    return out


def _render_pixel(out: dict[str, Array], scene: Scene, j: int, carried: list[int], y: int, x: int) -> None:
    layer = scene.layers[j]
    assert layer is not None
    out["images"][:, y, x] = colour_at(layer, y, x)
    if "semantic_maps" in out:
        out["semantic_maps"][y, x] = _class_of(scene, layer, carried, y, x)
    if "panoptic_maps" in out:
        out["panoptic_maps"][y, x] = 0  # of those that have an owner: see _render_slots
    if "depth" in out:
        depth, valid = depth_at(layer, y, x) if "depth" in layer.source else (np.float32(0), False)
        out["depth"][0, y, x] = depth
        out["depth_valid"][0, y, x] &= valid
    if "normals" in out:
        out["normals"][:, y, x] = normal_at(layer, y, x) if "normals" in layer.source else 0


def _class_of(scene: Scene, layer: Layer, carried: list[int], y: int, x: int) -> int:
    """Return the class of the source, or without its map that of the object, if the taxonomy knows it as a thing."""
    if "semantic_maps" in layer.source:
        found = class_at(layer.source, *source_pixel(layer, y, x))
        assert found is not None
        return found
    (slot,) = covering(layer, carried, y, x)
    label, panoptic = int(layer.source["labels"][slot]), scene.config.panoptic
    is_thing = panoptic is not None and panoptic.taxonomy.classes.get(label) == "thing"
    return label if is_thing else scene.config.ignore_index


def _render_slots(out: dict[str, Array], scene: Scene, outcome: Outcome) -> None:
    target, seen = scene.target, outcome.visible_layer
    pasted = pasted_masks(scene, outcome.carried, seen)
    fresh = int(target["instance_ids"][target["instance_valid"]].max(initial=0))
    fresh = max(fresh, int(target["panoptic_maps"].max(initial=0))) if "panoptic_maps" in target else fresh
    for slot in range(len(target["instance_valid"])):
        j, k = outcome.slot_layer[slot], outcome.slot_source[slot]
        mask = target["instance_masks"][slot] & (seen < 0)
        if j >= 0:
            fresh += 1
            if "panoptic_maps" in out:
                out["panoptic_maps"][pasted[j, k]] = fresh
            _write_slot(out, slot, int(scene.layers[j].source["labels"][k]), fresh, pasted[j, k])
        elif survives(scene, slot, seen):
            _write_slot(out, slot, int(target["labels"][slot]), int(target["instance_ids"][slot]), mask)
        else:
            _write_slot(out, slot, 0, 0, np.zeros_like(mask))
        if target["instance_valid"][slot] and not survives(scene, slot, seen) and "panoptic_maps" in out:
            out["semantic_maps"][mask], out["panoptic_maps"][mask] = scene.config.ignore_index, 0


def _write_slot(out: dict[str, Array], slot: int, label: int, instance_id: int, mask: Array) -> None:
    rows, columns = np.nonzero(mask)
    box = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1] if len(rows) else [0, 0, 0, 0]
    out["boxes"][slot], out["labels"][slot], out["instance_ids"][slot] = box, label, instance_id
    out["instance_masks"][slot], out["instance_valid"][slot] = mask, instance_id > 0
