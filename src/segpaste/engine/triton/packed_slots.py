"""Memory for a paste in place: the bits of the target's masks that are unused until the paste is done.

A mask needs one bit of each byte. While a paste in place runs, a byte has three parts:

- bit 0 is the old mask of the instance; other pixels may read it;
- bit 1 is the new mask of a paste, see `segpaste.engine.triton._paste`;
- the other `SPARE_BITS` store a digit of an integer of the pixel: its visible layer, or pasted values.

The digits of an integer are stored in the bytes of consecutive slots, the lowest first. Values for which there are not
enough slots are stored in planes. Shapes and dtypes alone decide how many slots there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torch import Tensor

from segpaste.engine.reference.plan import LayerPlan, Visible
from segpaste.engine.schema import Scene
from segpaste.types import PaddedBatchedDenseSample

SPARE_BITS = 6
"""Number of bits in the byte of a mask that store a digit."""

WORD = 32
"""Number of bits of a float32, and of one half of a class."""


class VisibleArguments(NamedTuple):
    """`segpaste.engine.reference.plan.Visible`, in planes or in spare bits.

    Attributes:
        layer: plane, or None if the layer is in spare bits.
        owner: plane, or None if no field needs it, or it is in spare bits.
        first: slot whose spare bits have the lowest digit.
        end: one past the slot of the highest digit.
        shift: number of bits of the layer plus 1; the bits of the owner follow.
    """

    layer: Tensor | None
    owner: Tensor | None
    first: int
    end: int
    shift: int


HELD = {"images": "images", "normals": "normals", "depth": "depth", "semantic_maps": "semantic"}
"""Planes whose pasted values wait, in the order in which they get slots, and their names as arguments."""


class HeldArguments(NamedTuple):
    """First slots whose spare bits store the values of pasted pixels; without meaning for values that have a plane.

    The numbers of digits of a colour and of a float32 are not constants of the kernels, so that loops over them are not
    unrolled: unrolled loops keep all addresses in registers.
    """

    images: int
    normals: int
    depth: int
    semantic: int
    colour_digits: int
    word_digits: int


def num_digits(*num_bits: int) -> int:
    """Return the number of slots that integers of these numbers of bits take."""
    return sum(-(-bits // SPARE_BITS) for bits in num_bits)


def num_visible_digits(num_layers: int, num_slots: int, *, has_owner: bool) -> int:
    """Return the number of slots that layer and owner take; ``num_slots`` is the number of slots of a layer."""
    return num_digits(num_layers.bit_length() + ((num_slots - 1).bit_length() if has_owner else 0))


def has_room_for_visible(scene: Scene, num_layers: int, num_slots: int) -> bool:
    """Return whether the target has enough slots for layer and owner; ``num_slots`` is the number of a layer."""
    return first_visible_slot(scene, num_layers, num_slots) >= 0


def visible_arguments(scene: Scene, plan: LayerPlan, visible: Visible) -> VisibleArguments:
    """Return where layer and owner are stored; in spare bits of the last slots if their planes have no rows."""
    end, (num_layers, num_slots) = scene.target.max_instances, plan.carried.shape[1:]
    if len(visible.layer) == scene.target.batch_size:
        return VisibleArguments(visible.layer, visible.owner if scene.needs_owner else None, end, end, 0)
    return VisibleArguments(None, None, first_visible_slot(scene, num_layers, num_slots), end, num_layers.bit_length())


def first_visible_slot(scene: Scene, num_layers: int, num_slots: int) -> int:
    """Return the first of the target's last slots, whose spare bits store layer and owner."""
    return scene.target.max_instances - num_visible_digits(num_layers, num_slots, has_owner=scene.needs_owner)


def held_arguments(target: PaddedBatchedDenseSample, num_slots: int) -> tuple[HeldArguments, list[str]]:
    """Return the first slots of the values that fit into ``num_slots``, and the names of the planes of the others.

    With a panoptic map classes need no slots: they wait in the map, see `segpaste.engine.triton._paste`.
    """
    num_bits = {"images": [8 * target.images.element_size()] * target.images.shape[1]}
    if target.normals is not None:
        num_bits["normals"] = [WORD] * 3
    if target.depth is not None:
        num_bits["depth"] = [WORD]
    if target.semantic_maps is not None and target.panoptic_maps is None:
        num_bits["semantic_maps"] = [WORD] * 2
    places = places_of(num_bits, num_slots)
    first = HeldArguments(
        **{short: places.get(name, 0) for name, short in HELD.items()},
        colour_digits=num_digits(8 * target.images.element_size()),
        word_digits=num_digits(WORD),
    )
    return first, [name for name in num_bits if name not in places]


def places_of(num_bits: Mapping[str, Sequence[int]], num_slots: int) -> dict[str, int]:
    """Return the first slot of each name; a name whose values (``num_bits`` each) do not fit is left out."""
    places, first = {}, 0
    for name, bits in num_bits.items():
        if first + num_digits(*bits) <= num_slots:
            places[name], first = first, first + num_digits(*bits)
    return places
