"""`KeypointSchema`, which `segpaste.types` exports: in a module without torch, so that banks are described at once."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class KeypointSchema:
    """The points of an object, the same for all objects of a dataset.

    Attributes:
        names: of the points.
        skeleton: pairs of points, from 0, that are drawn joined.
        flip_pairs: pairs of points, from 0, that swap when an image is mirrored, such as left and right eye.

    Raises:
        TypeError: a name is no text, or a pair does not hold integers.
        ValueError: there is no name, one is there twice, or a pair names a point that is not there or swaps already.
    """

    names: tuple[str, ...]
    skeleton: tuple[Pair, ...] = ()
    flip_pairs: tuple[Pair, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.names, str) or not all(isinstance(name, str) for name in self.names):
            raise TypeError(f"KeypointSchema.names: expected a list of names, got {self.names!r:.80}")
        object.__setattr__(self, "names", tuple(self.names))
        if not self.names or len(set(self.names)) != len(self.names):
            raise ValueError(f"KeypointSchema.names: expected at least one name, each once, got {list(self.names)}")
        for name in ("skeleton", "flip_pairs"):
            pairs = tuple((operator.index(a), operator.index(b)) for a, b in getattr(self, name))
            object.__setattr__(self, name, pairs)
            for pair in pairs:
                if not all(0 <= point < len(self.names) for point in pair) or pair[0] == pair[1]:
                    raise ValueError(
                        f"KeypointSchema.{name}: expected pairs of two points below {len(self.names)}, got {pair}"
                    )
        swapped = [point for pair in self.flip_pairs for point in pair]
        if len(set(swapped)) != len(swapped):
            raise ValueError(
                f"KeypointSchema.flip_pairs: expected each point in one pair at most, got {list(self.flip_pairs)}"
            )

    @classmethod
    def of_sides(cls, names: Sequence[str], skeleton: Sequence[Pair] = ()) -> Self:
        """Make a schema whose ``left`` and ``right`` points swap, found by their names, as in COCO.

        Args:
            names: such as ``left_eye`` and ``right_eye``; names without a counterpart do not swap.
            skeleton: pairs of points, from 0.
        """
        place = {name: point for point, name in enumerate(names)}
        others = ((point, place.get(name.replace("left", "right"))) for name, point in place.items() if "left" in name)
        return cls(tuple(names), tuple(skeleton), tuple((a, b) for a, b in others if b is not None))

    @property
    def num_points(self) -> int:
        """P."""
        return len(self.names)

    def fits(self, other: KeypointSchema | None) -> bool:
        """Tell whether the points of two schemas are the same; skeletons are only drawn."""
        return other is not None and (self.names, self.flip_pairs) == (other.names, other.flip_pairs)

    @property
    def flip_order(self) -> tuple[int, ...]:
        """For each point of a mirrored object, the point that it was."""
        order = list(range(len(self.names)))
        for one, other in self.flip_pairs:
            order[one], order[other] = other, one
        return tuple(order)
