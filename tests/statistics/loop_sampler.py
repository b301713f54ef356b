"""Draws and visible pixels of one forward, written again in plain loops: the reference of the statistics gate.

Written from the rules, one picture at a time, with Python's random numbers; it shares neither code nor random numbers
with the package, so only distributions can be compared. `brute_force` is the one to compare pixel by pixel.

What is seen of a placement is in `loop_view`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from random import Random
from typing import Any

from loop_view import Layer, Paste, settle
from population import NUM_SLOTS, Box, Picture, Rules


def draw_image(world: Sequence[Picture], rules: Rules, b: int, random: Random) -> list[Paste]:
    """Return the visible pastes of picture ``b``."""
    layers = draw_layers(world, rules, b, random)
    return settle(world[b], layers, rules)


def draw_layers(world: Sequence[Picture], rules: Rules, b: int, random: Random) -> list[Layer]:
    """The layers over picture ``b`` and what each carries; none where nothing is to be pasted."""
    givers = [picture for s, picture in enumerate(world) if s != b and picture.offers]
    if not givers or random.random() >= rules.paste_prob:
        return []
    layers = [mapped(one_of(givers, random), rules, random) for _ in range(rules.layers)]
    place_all(layers, world[b], rules, random)
    return layers


def draw_bank_image(
    target: Picture, crops_of_classes: Sequence[Sequence[Picture]], num_staged: int, rules: Rules, random: Random
) -> list[Paste]:
    """Return the visible pastes from a bank: crops are staged by class, then by crop, and some become layers."""
    staged = [one_of(one_of(crops_of_classes, random), random) for _ in range(num_staged)]
    hat = [crop for crop in staged if crop.offers]
    if not hat or random.random() >= rules.paste_prob:
        return []
    num_layers = min(rules.layers, len(hat))
    layers = [mapped(hat.pop(int(random.random() * len(hat))), rules, random) for _ in range(num_layers)]
    place_all(layers, target, rules, random)
    return settle(target, layers, rules)


def mapped(source: Picture, rules: Rules, random: Random) -> Layer:
    """A layer of a random size, maybe mirrored."""
    low, high = rules.scale_range
    return Layer(source, low + (high - low) * random.random(), random.random() < rules.hflip_probability)


def place_all(layers: list[Layer], target: Picture, rules: Rules, random: Random) -> None:
    """Choose the slots that the layers carry, and their places."""
    choose_slots(layers, rules, NUM_SLOTS - len(target.labels), random)
    for layer in layers:
        if layer.carried:
            place(layer, target, rules, random)


def one_of(options: Sequence[Any], random: Random) -> Any:
    return options[int(random.random() * len(options))]


def integer(low: int, high: int, random: Random) -> int:
    """Uniform over low..high."""
    return low + int(random.random() * (high - low + 1))


def choose_slots(layers: list[Layer], rules: Rules, num_free: int, random: Random) -> None:
    """A random number of all that the layers offer, at most as many as there are free slots, drawn from a hat."""
    hat = [(layer, k) for layer in layers for k in layer.source.offers]
    for _ in range(min(integer(*rules.k_range, random), num_free, len(hat))):
        layer, k = hat.pop(int(random.random() * len(hat)))
        layer.carried.append(k)


# Where it goes.


def place(layer: Layer, target: Picture, rules: Rules, random: Random) -> None:
    """The best of some places; what does not fit there is not carried.

    All chosen instances move as one: the rectangle around them is anywhere inside the picture, or anywhere around it
    where it is larger.
    """
    boxes = {k: mapped_box(layer, k) for k in layer.carried}
    best: tuple[int, int] | None = None
    for _ in range(rules.max_attempts):
        shift = []
        for axis in range(2):
            first = -min(box[axis] for box in boxes.values())
            last = target.size[axis] - max(box[axis + 2] for box in boxes.values())
            shift.append(integer(min(first, last), max(first, last), random))
        tx, ty = shift
        moved = {k: (x1 + tx, y1 + ty, x2 + tx, y2 + ty) for k, (x1, y1, x2, y2) in boxes.items()}
        fitting = [k for k, box in moved.items() if fits(box, target.size)]
        merit = len(fitting), -sum(shared(moved[k], box) for k in fitting for box in target.boxes)
        if best is None or merit > best:
            best, layer.shift, layer.carried = merit, (tx, ty), fitting


def mapped_box(layer: Layer, k: int) -> Box:
    """The output pixels whose centres fall into the box of an instance, before it is moved."""
    x1, y1, x2, y2 = layer.source.boxes[k]
    if layer.flip:
        x1, x2 = layer.source.size[0] - x2, layer.source.size[0] - x1
    first = [ceil(edge * layer.scale - 0.5) for edge in (x1, y1, x2, y2)]  # x + 0.5 >= edge * s
    return first[0], first[1], first[2], first[3]


def fits(box: Box, size: tuple[int, int]) -> bool:
    return box[0] >= 0 and box[1] >= 0 and box[2] <= size[0] and box[3] <= size[1]


def shared(one: Box, other: Box) -> int:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(width, 0) * max(height, 0)
