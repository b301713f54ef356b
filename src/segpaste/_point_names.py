"""`KeypointSchema`, in a module that does not import torch, so that describing a bank is fast."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class KeypointSchema:
    """Names, skeleton and flip pairs of the keypoints of an object, the same for all objects of a dataset.

    Attributes:
        names: names of the points.
        skeleton: pairs of points, from 0, that are connected by lines when drawn.
        flip_pairs: pairs of points, from 0, that swap when an image is flipped, such as left and right eye.

    Raises:
        TypeError: a name is not a string, or a pair does not hold integers.
        ValueError: there are no names, a name occurs twice, a pair names a point that does not exist or the same point
            twice, or a point is in two flip pairs.
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
        """Create a schema in which each ``left`` point swaps with the ``right`` point of the same name, as in COCO.

        Args:
            names: names such as ``left_eye`` and ``right_eye``; points without a counterpart do not swap.
            skeleton: pairs of points, from 0.
        """
        place = {name: point for point, name in enumerate(names)}
        others = ((point, place.get(name.replace("left", "right"))) for name, point in place.items() if "left" in name)
        return cls(tuple(names), tuple(skeleton), tuple((a, b) for a, b in others if b is not None))

    @property
    def num_points(self) -> int:
        """Number of points, P."""
        return len(self.names)

    def fits(self, other: KeypointSchema | None) -> bool:
        """Return whether two schemas have the same names and flip pairs; skeletons are only drawn and may differ."""
        return other is not None and (self.names, self.flip_pairs) == (other.names, other.flip_pairs)

    @property
    def flip_order(self) -> tuple[int, ...]:
        """Index that each point of a flipped object had before the flip."""
        order = list(range(len(self.names)))
        for one, other in self.flip_pairs:
            order[one], order[other] = other, one
        return tuple(order)
