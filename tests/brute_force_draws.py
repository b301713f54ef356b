"""The draws of a placement, written again: SplitMix64 in wrapping np.uint64, then one image, layer and slot at a time.

With `brute_force` it is the whole of a forward with intra-batch sources. It shares no code with `segpaste.seeding` or
`segpaste.augmentation`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from fractions import Fraction
from math import ceil, floor, gcd

import numpy as np

from brute_force_pixels import Array, Fields, extent
from segpaste.augmentation import BatchCopyPasteConfig

U = np.uint64
Box = tuple[int, int, int, int]
Flips = tuple[bool, bool, bool]
"""Whether a layer is flipped horizontally, and vertically, and whether its axes are swapped before."""
SCALE_DEN = 65536


def mix(z: U) -> U:
    z = (z ^ (z >> U(30))) * U(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> U(27))) * U(0x94D049BB133111EB)
    return z ^ (z >> U(31))


def bits(seed: int, name: str, *indices: int) -> int:
    """64 random bits."""
    key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    with np.errstate(over="ignore"):
        state = mix(U(seed % 2**64) ^ U(key))
        for index in indices:
            state = mix(state + (U(index % 2**64) ^ U(0xD1B54A32D192ED03)) * U(0x9E3779B97F4A7C15))
    return int(state)


def u32(seed: int, name: str, *indices: int) -> int:
    return bits(seed, name, *indices) // 2**32


def integer(seed: int, name: str, low: int, high: int, *indices: int) -> int:
    """Uniform over low..high; low if that is empty."""
    return low + u32(seed, name, *indices) * max(high - low + 1, 1) // 2**32


def bernoulli(seed: int, name: str, probability: float, *indices: int) -> bool:
    return u32(seed, name, *indices) < round(probability * 2**32)


@dataclass
class Drawn:
    """Placement of one image, with a list entry for each layer, and the outcome of its tries."""

    source_idx: list[int] = field(default_factory=list)
    layer_valid: list[bool] = field(default_factory=list)
    scale: list[tuple[Fraction, Fraction]] = field(default_factory=list)
    flips: list[Flips] = field(default_factory=list)
    translate: list[tuple[int, int]] = field(default_factory=list)
    carried: list[list[int]] = field(default_factory=list)
    tried: int = 0
    no_source: int = 0
    no_free_slot: int = 0
    does_not_fit: int = 0
    outside_region: int = 0
    covers_too_much: int = 0


def draw(images: list[Fields], config: BatchCopyPasteConfig, b: int) -> Drawn:
    """The placement of image ``b`` of `brute_force.prepared` images, before anything is settled."""
    seed, rules, drawn = int(images[b]["sample_seeds"]), config.placement, Drawn()
    candidates = [s for s in range(len(images)) if s != b and eligible(images[s], config)]
    if config.source.kind == "same_image":
        candidates = [b] if eligible(images[b], config) else []
    for j in range(rules.layers):
        seeds = [int(image["sample_seeds"]) for image in images]
        keys = {s: bits(seed, "source", j, seeds[s], seeds[:s].count(seeds[s])) // 4 for s in candidates}
        drawn.source_idx.append(max(candidates, key=keys.__getitem__, default=0))
        drawn.layer_valid.append(bool(candidates))
        drawn.flips.append(flips_of(seed, config, j))
    place(images, config, b, drawn, bool(candidates))
    return drawn


def flips_of(seed: int, config: BatchCopyPasteConfig, j: int) -> Flips:
    """The flips of one layer after turns by a quarter, each of which swaps the axes and flips vertically."""
    rules, flips = config.placement, (False, False, False)
    turns = bernoulli(seed, "turn", rules.quarter_turn_probability, j)
    for _ in range(integer(seed, "quarters", 1, 3, j) if turns else 0):
        flips = flips[1], not flips[0], not flips[2]
    return (
        flips[0] != bernoulli(seed, "hflip", rules.hflip_probability, j),
        flips[1] != bernoulli(seed, "vflip", rules.vflip_probability, j),
        flips[2],
    )


def place(
    images: list[Fields],
    config: BatchCopyPasteConfig,
    b: int,
    drawn: Drawn,
    has_source: bool,
    shrunk: list[Fraction] | None = None,
) -> None:
    """Draw slots, scale and place of each layer whose source is drawn; scales are relative to it before it shrunk."""
    chosen = _choose(images, config, b, drawn, has_source)
    for j, slots in enumerate(chosen):
        drawn.scale.append(_scale(images, config, b, drawn, j, slots, shrunk[j] if shrunk else Fraction(1)))
        translate, fitting, inside, carried = _place(images, config, b, drawn, j, slots)
        drawn.translate.append(translate)
        drawn.carried.append(carried)
        drawn.does_not_fit += len(slots) - len(fitting)
        drawn.outside_region += len(fitting) - len(inside)
        drawn.covers_too_much += len(inside) - len(carried)
    if config.placement.originals.candidate_frac < 1:
        _take_part(images, config, b, drawn)


def _take_part(images: list[Fields], config: BatchCopyPasteConfig, b: int, drawn: Drawn) -> None:
    """Keep the placed objects that cover the least, as many as the fraction and the free slots allow."""
    covers = []
    for j, slots in enumerate(drawn.carried):
        source, (tx, ty) = images[drawn.source_idx[j]], drawn.translate[j]
        for k in slots:
            x1, y1, x2, y2 = mapped_box(source["boxes"][k], extent(source), drawn.scale[j], drawn.flips[j])
            part = cover(images[b], (x1 + tx, y1 + ty, x2 + tx, y2 + ty))
            covers.append((floor(part * 2**22), j, k))
    wanted = round(Fraction(str(config.placement.originals.candidate_frac)) * len(covers))
    kept = sorted(covers)[: min(wanted, int((~images[b]["instance_valid"]).sum()))]
    drawn.carried = [[k for _, i, k in sorted(kept) if i == j] for j in range(len(drawn.carried))]
    drawn.carried = [sorted(slots) for slots in drawn.carried]
    drawn.tried -= len(covers) - wanted
    drawn.no_free_slot += wanted - len(kept)


def cover(target: Fields, box: Box) -> Fraction:
    """The largest part of an instance's box that a box covers."""
    parts = [Fraction(0)]
    for other in map(pixel_box, target["boxes"]):
        area = (other[2] - other[0]) * (other[3] - other[1])
        parts += [Fraction(shared(box, other), area)] if area > 0 else []
    return max(parts)


def covers_little(target: Fields, box: Box, config: BatchCopyPasteConfig) -> bool:
    limit = config.placement.max_cover_frac
    return limit is None or cover(target, box) < Fraction(str(limit))


def _scale(
    images: list[Fields],
    config: BatchCopyPasteConfig,
    b: int,
    drawn: Drawn,
    j: int,
    slots: list[int],
    shrunk: Fraction,
) -> tuple[Fraction, Fraction]:
    """The scales of x and y of one layer."""
    seed, rules, patch = int(images[b]["sample_seeds"]), config.placement, config.placement.pad_to_multiple
    if rules.patch_aligned_paste and rules.align == "canvas":
        edge = gcd(*images[drawn.source_idx[j]]["images"].shape[-2:])
        steps = [
            n for n in range(64 * edge + 1) if rules.scale_range[0] <= Fraction(n * patch, edge) <= rules.scale_range[1]
        ]
        tried = [integer(seed, "scale", steps[0], steps[-1], j, attempt) for attempt in range(8)]
        scales = [Fraction(n * patch, edge) for n in tried]
        scale = next((s for s in scales if _has_room(images, config, b, drawn, j, slots, s)), None)
        scale = Fraction(steps[0] * patch, edge) if scale is None else scale
        return scale, scale
    low, high = ceil(rules.scale_range[0] * SCALE_DEN), floor(rules.scale_range[1] * SCALE_DEN)
    largest = min(
        _largest_fitting(images, b, images[drawn.source_idx[j]], slots, config, drawn.flips[j][2]), 64 * SCALE_DEN
    )
    high = max(low, high)
    limit = min(max(floor(largest * shrunk), low), high)
    num = min(floor(integer(seed, "scale", low, limit, j) / shrunk), 64 * SCALE_DEN)
    if rules.grouping == "instance":
        source, slot = images[drawn.source_idx[j]], slots[0] if slots else 0
        x1, y1, x2, y2 = pixel_box(source["boxes"][slot])
        sides = max(x2 - x1, 1), max(y2 - y1, 1)
        sides = sides[::-1] if drawn.flips[j][2] else sides
        sizes = rules.class_sizes.get(int(source["labels"][slot]), rules.size_range)
        if sizes is not None:
            least, most = ceil(sizes.low * 16), floor(sizes.high * 16)
            size = Fraction(integer(seed, "size", max(least, 1), max(least, most, 1), j), 16)
            num = max(min(floor(size / max(sides) * SCALE_DEN), high, largest), low)
        if rules.align == "instance":
            found = []
            for side, room in zip(sides, extent(images[b]), strict=True):
                count = max(1, floor(Fraction(side * num, SCALE_DEN * patch) + Fraction(1, 2)))
                if count * patch > room and count > 1:
                    count -= 1
                found.append(Fraction(count * patch, side))
            return found[0], found[1]
    return Fraction(num, SCALE_DEN), Fraction(num, SCALE_DEN)


def _largest_fitting(
    images: list[Fields], b: int, source: Fields, slots: list[int], config: BatchCopyPasteConfig, swap_axes: bool
) -> int:
    """The largest numerator at which no side of the rectangle around the slots is longer than the picture."""
    largest = 64 * SCALE_DEN
    for a, size in enumerate(extent(images[b])):
        edges = [edge for k in slots for edge in pixel_box(source["boxes"][k])[a ^ swap_axes :: 2]]
        if edges and config.placement.scale_to_fit:
            largest = min(largest, floor(Fraction(size * SCALE_DEN, max(edges) - min(edges))))
    return largest


def _has_room(
    images: list[Fields], config: BatchCopyPasteConfig, b: int, drawn: Drawn, j: int, slots: list[int], scale: Fraction
) -> bool:
    """Return whether some translation by whole patches keeps the rectangle around the slots in the picture."""
    if not slots:
        return True
    source, rules = images[drawn.source_idx[j]], config.placement
    boxes = [mapped_box(source["boxes"][k], extent(source), (scale, scale), drawn.flips[j]) for k in slots]
    for a, size in enumerate(extent(images[b])):
        start, end = min(box[a] for box in boxes), max(box[a + 2] for box in boxes)
        least = ceil(Fraction(-start, rules.pad_to_multiple)) * rules.pad_to_multiple
        if end + least > size:
            return False
    return True


def eligible(image: Fields, config: BatchCopyPasteConfig) -> list[int]:
    """Slots that may be pasted: they hold an instance with an extent, of a thing class where classes are known."""
    found = []
    for k, (x1, y1, x2, y2) in enumerate(image["boxes"]):
        is_thing = config.panoptic is None or config.panoptic.taxonomy.classes.get(int(image["labels"][k])) == "thing"
        has_rows = config.source.kind != "bank" and not config.emit_classmix
        leaves_out = config.source.whole_only and has_rows and config.placement.position == "random"
        is_cut = leaves_out and any(cut_sides(pixel_box(image["boxes"][k]), extent(image)))
        if image["instance_valid"][k] and x2 > x1 and y2 > y1 and is_thing and not is_cut:
            found.append(k)
    return found


def cut_sides(box: Box, size: tuple[int, int]) -> list[bool]:
    """Return whether the border of a picture cuts the left, top, right and bottom side."""
    return [box[0] <= 0, box[1] <= 0, box[2] >= size[0], box[3] >= size[1]]


def _choose(
    images: list[Fields], config: BatchCopyPasteConfig, b: int, drawn: Drawn, has_source: bool
) -> list[list[int]]:
    """For each layer a part of a random subset of all eligible slots of all layers."""
    seed, rules = int(images[b]["sample_seeds"]), config.placement
    tries = bernoulli(seed, "paste", rules.paste_prob) and (rules.into_empty or _has_objects(images[b]))
    if not has_source:
        drawn.tried = drawn.no_source = int(tries)
        return [[] for _ in range(rules.layers)]
    layers = enumerate(drawn.source_idx)
    keys = {(j, k): key for j, s in layers for k, key in _slot_keys(images[s], config, seed, j).items()}
    if rules.grouping == "instance":
        keys = _one_for_each_layer(images, config, seed, drawn)
    limit = len(keys) if rules.originals.k_to_available else rules.k_range[1]
    wanted = integer(seed, "count", *(min(number, limit) for number in rules.k_range)) if tries else 0
    num_free = int((~images[b]["instance_valid"]).sum())
    num_free = num_free if rules.originals.candidate_frac == 1 else len(keys)
    taken = sorted(keys, key=keys.__getitem__, reverse=True)[: min(wanted, num_free)]
    drawn.tried = min(wanted, len(keys))
    drawn.no_free_slot = drawn.tried - len(taken)
    return [sorted(k for i, k in taken if i == j) for j in range(rules.layers)]


def _has_objects(image: Fields) -> bool:
    """Return whether the box of an instance has pixels."""
    boxes = image["boxes"][image["instance_valid"]]
    return any(np.floor(x1) < np.ceil(x2) and np.floor(y1) < np.ceil(y2) for x1, y1, x2, y2 in boxes)


def _one_for_each_layer(
    images: list[Fields], config: BatchCopyPasteConfig, seed: int, drawn: Drawn
) -> dict[tuple[int, int], int]:
    """A slot for each layer, and the layer's random number; layers of one source deal its slots out."""
    layers = list(range(len(drawn.source_idx)))
    if config.placement.class_temperature > 0:  # the first slots to those that stay if not all do
        layers.sort(key=lambda j: bits(seed, "layer", j) // 4, reverse=True)
    hands: dict[int, list[int]] = {}
    keys = {}
    for j in layers:
        s = drawn.source_idx[j]
        if s not in hands:
            order = _slot_keys(images[s], config, seed, drawn.source_idx.index(s))
            hands[s] = sorted(order, key=order.__getitem__, reverse=True)
        if hands[s]:
            keys[j, hands[s].pop(0)] = bits(seed, "layer", j) // 4
    return keys


def _slot_keys(source: Fields, config: BatchCopyPasteConfig, seed: int, j: int) -> dict[int, int]:
    """Return the keys of eligible source slots, the largest taken first: random, or larger for a shorter wait."""
    random = {k: bits(seed, "slot", j, k) // 4 for k in eligible(source, config)}
    temperature = Decimal(round(config.placement.class_temperature * 2**32)) / 2**32
    if temperature == 0:
        return random
    num_objects = Counter(int(source["labels"][k]) for k in random)
    keys = {}
    for k in random:
        with localcontext() as context:
            context.prec = 50
            factor = round(Decimal(min(num_objects[int(source["labels"][k])], 256)) ** temperature * 2**16)
        keys[k] = -minus_log2(random[k] + 1) * factor
    return keys


def minus_log2(number: int) -> int:
    """Return -log2(number / 2**62) times 2**32, from logarithms at every 1/256 and straight lines in between."""
    exponent = number.bit_length() - 1
    steps = Fraction(number * 2**38 // 2**exponent - 2**38, 2**30)  # from 0 to 256, in 30 binary places
    with localcontext() as context:
        context.prec = 50
        low, high = (round((1 + Decimal(floor(steps) + i) / 256).ln() / Decimal(2).ln() * 2**32) for i in range(2))
    return (62 - exponent) * 2**32 - (low + floor((high - low) * (steps - floor(steps))))


Found = tuple[tuple[int, int], list[int], list[int], list[int]]
"""A place, the slots that fit there, those of them in their region, and those of these that cover little."""


def _place(images: list[Fields], config: BatchCopyPasteConfig, b: int, drawn: Drawn, j: int, slots: list[int]) -> Found:
    """The best of ``max_attempts`` places of one layer, and the slots that are pasted there."""
    source = images[drawn.source_idx[j]]
    boxes = {k: mapped_box(source["boxes"][k], extent(source), drawn.scale[j], drawn.flips[j]) for k in slots}
    size, rules, best = extent(images[b]), config.placement, None
    if rules.position == "keep":
        return _keep(images[b], source, boxes, drawn.flips[j], config)
    visible = Fraction(str(rules.min_visible_frac))
    for attempt in range(config.placement.max_attempts):
        translate = [0, 0]
        for a in range(2):
            first = -min((box[a] for box in boxes.values()), default=0)
            last = size[a] - max((box[a + 2] for box in boxes.values()), default=size[a])
            low, high = min(first, last), max(first, last)
            if rules.partial == "clip" and boxes:
                hidden = floor((size[a] - last + first) * (1 - visible))
                low, high = low - hidden, high + hidden
            seed = int(images[b]["sample_seeds"])
            if rules.patch_aligned_paste:
                patch, phase = rules.pad_to_multiple, -first if rules.align == "instance" else 0
                low, high = ceil(Fraction(low + phase, patch)), floor(Fraction(high + phase, patch))
                keys = [bits(seed, "stratum", i, attempt, a) // 4 for i in range(len(drawn.source_idx))]
                part = (sorted(range(len(keys)), key=keys.__getitem__).index(j) * 2**32) + u32(
                    seed, "translate", j, attempt, a
                )
                translate[a] = (low + part // len(keys) * max(high - low + 1, 1) // 2**32) * patch - phase
            else:
                translate[a] = integer(seed, "translate", low, high, j, attempt, a)
        tx, ty = translate
        placed = {k: (x1 + tx, y1 + ty, x2 + tx, y2 + ty) for k, (x1, y1, x2, y2) in boxes.items()}
        fits = [k for k, box in placed.items() if _fits(box, size, None if rules.partial == "drop" else visible)]
        inside = [k for k in fits if in_region(images[b], placed[k], int(source["labels"][k]), config)]
        kept = [k for k in inside if covers_little(images[b], placed[k], config)]
        overlap = sum(shared(placed[k], pixel_box(other)) for k in kept for other in images[b]["boxes"])
        score = (len(kept), -overlap)
        if best is None or score > best[0]:
            best = score, (tx, ty), fits, inside, kept
    assert best is not None
    return best[1:]


def in_region(target: Fields, box: Box, label: int, config: BatchCopyPasteConfig) -> bool:
    """Return whether enough of a box inside the picture is on allowed classes, and in the mask."""
    width, height = extent(target)
    classes, inside = config.placement.region.get(label), []
    for y in range(max(box[1], 0), min(box[3], height)):
        for x in range(max(box[0], 0), min(box[2], width)):
            is_of_class = classes is None or int(target["semantic_maps"][y, x]) in classes
            inside.append(is_of_class and ("region" not in target or bool(target["region"][y, x])))
    return sum(inside) >= Fraction(str(config.placement.region_frac)) * len(inside)


def _keep(target: Fields, source: Fields, boxes: dict[int, Box], flips: Flips, config: BatchCopyPasteConfig) -> Found:
    """The centre of all of them stays, and those fit whose cut sides are borders of the target, too."""
    if not boxes:
        return (0, 0), [], [], []
    size = extent(target)
    one = Fraction(1), Fraction(1)
    before = [mapped_box(source["boxes"][k], extent(source), one, flips) for k in boxes]
    translate = []
    for a in range(2):
        centre = Fraction(min(box[a] for box in before) + max(box[a + 2] for box in before), 2)
        moved = Fraction(min(box[a] for box in boxes.values()) + max(box[a + 2] for box in boxes.values()), 2)
        translate.append(floor(centre - moved))
    visible = None if config.placement.partial == "drop" else Fraction(str(config.placement.min_visible_frac))
    fits, inside, kept = [], [], []
    for k, (x1, y1, x2, y2) in boxes.items():
        box = (x1 + translate[0], y1 + translate[1], x2 + translate[0], y2 + translate[1])
        cut = cut_sides(pixel_box(source["boxes"][k]), extent(source))
        cut = [cut[1], cut[0], cut[3], cut[2]] if flips[2] else cut
        cut = [cut[i ^ 2 if flips[i % 2] else i] for i in range(4)]
        shows = any(c and not e for c, e in zip(cut, cut_sides(box, size), strict=True))
        if _fits(box, size, visible) and not (config.source.whole_only and shows):
            fits.append(k)
            inside += [k] if in_region(target, box, int(source["labels"][k]), config) else []
            kept += [k] if k in inside and covers_little(target, box, config) else []
    return (translate[0], translate[1]), fits, inside, kept


def _fits(box: Box, size: tuple[int, int], visible: Fraction | None) -> bool:
    """Return whether the box lies inside, or as much of it as required."""
    x1, y1, x2, y2 = box
    if x1 >= 0 and y1 >= 0 and x2 <= size[0] and y2 <= size[1]:
        return True
    inside = shared(box, (0, 0, *size))
    return visible is not None and inside > 0 and Fraction(inside, (x2 - x1) * (y2 - y1)) >= visible


def pixel_box(box: Array) -> Box:
    """The whole pixels that a box touches."""
    x1, y1, x2, y2 = (float(v) for v in box)
    return floor(x1), floor(y1), ceil(x2), ceil(y2)


def mapped_box(box: Array, size: tuple[int, int], scale: tuple[Fraction, Fraction], flips: Flips) -> Box:
    """The output pixels whose nearest source pixel is in the box, at translation 0."""
    x1, y1, x2, y2 = pixel_box(box)
    if flips[2]:
        x1, y1, x2, y2, size = y1, x1, y2, x2, size[::-1]
    if flips[0]:
        x1, x2 = size[0] - x2, size[0] - x1
    if flips[1]:
        y1, y2 = size[1] - y2, size[1] - y1
    a, b, c, d = (ceil(v * scale[i % 2] - Fraction(1, 2)) for i, v in enumerate((x1, y1, x2, y2)))
    return a, b, c, d


def shared(one: Box, other: Box) -> int:
    """Pixels in both boxes."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(width, 0) * max(height, 0)
