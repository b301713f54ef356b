"""The draws of a placement, written again: SplitMix64 in wrapping np.uint64, then one image, layer and slot at a time.

With `brute_force` it is the whole of a forward with intra-batch sources. It shares no code with `segpaste.seeding` or
`segpaste.augmentation`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor

import numpy as np

from brute_force_pixels import Array, Fields, extent
from segpaste.augmentation import BatchCopyPasteConfig

U = np.uint64
Box = tuple[int, int, int, int]
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
    """The placement of one image, a list entry for each layer, and what became of its tries."""

    source_idx: list[int] = field(default_factory=list)
    layer_valid: list[bool] = field(default_factory=list)
    scale_num: list[int] = field(default_factory=list)
    hflip: list[bool] = field(default_factory=list)
    translate: list[tuple[int, int]] = field(default_factory=list)
    carried: list[list[int]] = field(default_factory=list)
    tried: int = 0
    no_source: int = 0
    no_free_slot: int = 0
    does_not_fit: int = 0


def draw(images: list[Fields], config: BatchCopyPasteConfig, b: int) -> Drawn:
    """The placement of image ``b`` of `brute_force.prepared` images, before anything is settled."""
    seed, rules, drawn = int(images[b]["sample_seeds"]), config.placement, Drawn()
    candidates = [s for s in range(len(images)) if s != b and eligible(images[s], config)]
    low, high = ceil(rules.scale_range[0] * SCALE_DEN), floor(rules.scale_range[1] * SCALE_DEN)
    for j in range(rules.layers):
        seeds = [int(image["sample_seeds"]) for image in images]
        keys = {s: bits(seed, "source", j, seeds[s], seeds[:s].count(seeds[s])) // 4 for s in candidates}
        drawn.source_idx.append(max(candidates, key=keys.__getitem__, default=0))
        drawn.layer_valid.append(bool(candidates))
        drawn.scale_num.append(integer(seed, "scale", low, max(low, high), j))
        drawn.hflip.append(bernoulli(seed, "hflip", rules.hflip_probability, j))
    chosen = _choose(images, config, b, drawn, bool(candidates))
    for j, slots in enumerate(chosen):
        translate, carried = _place(images, config, b, drawn, j, slots)
        drawn.translate.append(translate)
        drawn.carried.append(carried)
        drawn.does_not_fit += len(slots) - len(carried)
    return drawn


def eligible(image: Fields, config: BatchCopyPasteConfig) -> list[int]:
    """Slots that may be pasted: they hold an instance with an extent, of a thing class where classes are known."""
    found = []
    for k, (x1, y1, x2, y2) in enumerate(image["boxes"]):
        is_thing = config.panoptic is None or config.panoptic.taxonomy.classes.get(int(image["labels"][k])) == "thing"
        if image["instance_valid"][k] and x2 > x1 and y2 > y1 and is_thing:
            found.append(k)
    return found


def _choose(
    images: list[Fields], config: BatchCopyPasteConfig, b: int, drawn: Drawn, has_source: bool
) -> list[list[int]]:
    """For each layer a part of a random subset of all eligible slots of all layers."""
    seed, rules = int(images[b]["sample_seeds"]), config.placement
    tries = bernoulli(seed, "paste", rules.paste_prob)
    if not has_source:
        drawn.tried = drawn.no_source = int(tries)
        return [[] for _ in range(rules.layers)]
    available = [(j, k) for j, s in enumerate(drawn.source_idx) for k in eligible(images[s], config)]
    wanted = integer(seed, "count", *rules.k_range) if tries else 0
    num_free = int((~images[b]["instance_valid"]).sum())
    shuffled = sorted(available, key=lambda jk: bits(seed, "slot", *jk) // 4, reverse=True)
    taken = shuffled[: min(wanted, num_free)]
    drawn.tried = min(wanted, len(available))
    drawn.no_free_slot = drawn.tried - len(taken)
    return [sorted(k for i, k in taken if i == j) for j in range(rules.layers)]


def _place(
    images: list[Fields], config: BatchCopyPasteConfig, b: int, drawn: Drawn, j: int, slots: list[int]
) -> tuple[tuple[int, int], list[int]]:
    """The best of ``max_attempts`` places of one layer, and the slots that fit there."""
    source = images[drawn.source_idx[j]]
    scale = Fraction(drawn.scale_num[j], SCALE_DEN)
    boxes = {k: mapped_box(source["boxes"][k], extent(source)[0], scale, drawn.hflip[j]) for k in slots}
    size = extent(images[b])
    best = None
    for attempt in range(config.placement.max_attempts):
        translate = [0, 0]
        for a in range(2):
            first = -min((box[a] for box in boxes.values()), default=0)
            last = size[a] - max((box[a + 2] for box in boxes.values()), default=size[a])
            low, high = min(first, last), max(first, last)
            translate[a] = integer(int(images[b]["sample_seeds"]), "translate", low, high, j, attempt, a)
        tx, ty = translate
        placed = {k: (x1 + tx, y1 + ty, x2 + tx, y2 + ty) for k, (x1, y1, x2, y2) in boxes.items()}
        fits = [k for k, (x1, y1, x2, y2) in placed.items() if x1 >= 0 and y1 >= 0 and x2 <= size[0] and y2 <= size[1]]
        overlap = sum(shared(placed[k], pixel_box(other)) for k in fits for other in images[b]["boxes"])
        score = (len(fits), -overlap)
        if best is None or score > best[0]:
            best = score, (tx, ty), fits
    assert best is not None
    return best[1], best[2]


def pixel_box(box: Array) -> Box:
    """The whole pixels that a box touches."""
    x1, y1, x2, y2 = (float(v) for v in box)
    return floor(x1), floor(y1), ceil(x2), ceil(y2)


def mapped_box(box: Array, width: int, scale: Fraction, flip: bool) -> Box:
    """The output pixels whose nearest source pixel is in the box, at translation 0."""
    x1, y1, x2, y2 = pixel_box(box)
    if flip:
        x1, x2 = width - x2, width - x1
    a, b, c, d = (ceil(v * scale - Fraction(1, 2)) for v in (x1, y1, x2, y2))
    return a, b, c, d


def shared(one: Box, other: Box) -> int:
    """Pixels in both boxes."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(width, 0) * max(height, 0)
