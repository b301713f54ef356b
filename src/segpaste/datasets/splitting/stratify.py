"""Stratified division of groups of images into parts, by iterative stratification.

A group is a number of images that stay together. Groups of the rarest class are given out first, each to the part that
lacks most images of this class. Then two passes move groups: one until every class that enough groups show is in each
part, and one until the sizes of the parts are right, as far as that takes no class out of a part.

Source of the first step: Sechidis, Tsoumakas, Vlahavas, "On the Stratification of Multi-Label Data", ECML PKDD 2011.
The splits of `segpaste tune` are another kind: they hold out other images for each seed, see `segpaste.tuning.splits`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from segpaste.seeding import derive_seed

_ANY = -1
"""Class of every image. Its counts are the sizes of parts, so an empty part lacks a class like any other."""
_MOST_TRIED, _MOST_COMPARED = 256, 64


@dataclass(frozen=True, slots=True)
class Group:
    """Images that stay together.

    Attributes:
        size: number of images.
        showing: number of these images that show each class.
    """

    size: int
    showing: Mapping[int, int]


def stratify(groups: Sequence[Group], fractions: Sequence[float], seed: int) -> list[int]:
    """Return the part of each group, an index of ``fractions``.

    Args:
        groups: at least as many as parts.
        fractions: fraction of the images of each part; their sum is 1.
        seed: seed of the order of equally good groups.

    Raises:
        ValueError: there are fewer groups than parts.
    """
    if len(groups) < len(fractions):
        raise ValueError(f"expected at least {len(fractions)} groups, one for each part, got {len(groups)}")
    division = _Division(groups, fractions, seed)
    division.give_out()
    division.cover()
    division.balance()
    return division.parts


def apportioned(total: int, fractions: Sequence[float], least: int = 0) -> list[int]:
    """Return ``total`` divided by fractions into integers of at least ``least``, by the largest remainders."""
    wanted = [total * fraction for fraction in fractions]
    found = [max(least, int(number + 1e-9)) for number in wanted]
    while (missing := total - sum(found)) != 0:
        step = 1 if missing > 0 else -1
        free = [part for part, number in enumerate(found) if step > 0 or number > least]
        found[max(free, key=lambda part: (step * (wanted[part] - found[part]), -part))] += step
    return found


class _Division:
    """Groups in parts, with the number of images of each class in each part, and the wanted ones."""

    def __init__(self, groups: Sequence[Group], fractions: Sequence[float], seed: int) -> None:
        self._groups = [{_ANY: group.size, **group.showing} for group in groups]
        self._order = sorted(range(len(groups)), key=lambda number: derive_seed(seed, 0, 0, 0, number))
        self._shown: dict[int, list[int]] = {}
        for number in self._order:
            for label in self._groups[number]:
                self._shown.setdefault(label, []).append(number)
        self._num_parts = len(fractions)
        self._enough = {label for label, shown in self._shown.items() if len(shown) >= self._num_parts}
        totals = {label: sum(self._groups[n][label] for n in shown) for label, shown in self._shown.items()}
        self._wanted = {
            label: apportioned(total, fractions, int(label in self._enough)) for label, total in totals.items()
        }
        self._have = {label: [0] * self._num_parts for label in totals}
        self.parts = [-1] * len(groups)

    def give_out(self) -> None:
        """Give all groups to parts, those of the class with the fewest remaining groups first."""
        left = {label: len(shown) for label, shown in self._shown.items() if label != _ANY}
        while left:
            label = min(left, key=lambda label: (left[label], label))
            del left[label]
            own = [number for number in self._shown[label] if self.parts[number] < 0]
            own.sort(key=lambda number: self._groups[number][label])  # the largest are at the end, and the first
            while own:
                part = max(range(self._num_parts), key=lambda part: self._lack(label, part))
                number = max(own[-_MOST_COMPARED:], key=lambda number: self._gain(label, number, part))
                own.remove(number)
                self._put(number, part)
                for other in self._groups[number].keys() & left.keys():
                    left[other] -= 1
        rest = [number for number in self._order if self.parts[number] < 0]
        for number in sorted(rest, key=lambda number: -self._groups[number][_ANY]):
            self._put(number, max(range(self._num_parts), key=lambda part: self._lack(_ANY, part)))

    def cover(self) -> None:
        """Move groups into parts that lack a class which enough groups show, while no part loses its last one."""
        for label in sorted(self._enough, key=lambda label: (len(self._shown[label]), label)):
            for part in range(self._num_parts):
                if self._have[label][part]:
                    continue
                free = [number for number in self._shown[label] if self._may_leave(number)]
                if free:
                    self._put(min(free, key=lambda number: self._cost(number, part)), part)

    def balance(self) -> None:
        """Move groups from parts that are too large to parts that are too small, those that change classes least."""
        while (move := self._next_move()) is not None:
            self._put(*move)

    def _next_move(self) -> tuple[int, int] | None:
        surplus = [have - want for have, want in zip(self._have[_ANY], self._wanted[_ANY], strict=True)]
        parts = range(self._num_parts)
        for source in sorted(parts, key=lambda part: -surplus[part]):
            for target in sorted(parts, key=lambda part: surplus[part]):
                most = min(surplus[source], -surplus[target])
                free = list(self._movable(source, most))
                if free:
                    return min(free, key=lambda number: self._cost(number, target)), target
        return None

    def _movable(self, source: int, most: int) -> Iterator[int]:
        """Yield some groups of a part that have at most ``most`` images and are no class's last ones there."""
        num = 0
        for number in self._order if most > 0 else ():
            if self.parts[number] == source and self._groups[number][_ANY] <= most and self._may_leave(number):
                yield number
                num += 1
                if num == _MOST_TRIED:
                    return

    def _lack(self, label: int, part: int) -> tuple[int, int, int]:
        """Return how many images of a class a part lacks, and how many of all."""
        of_class, of_all = (self._wanted[own][part] - self._have[own][part] for own in (label, _ANY))
        return of_class, of_all, -part

    def _gain(self, label: int, number: int, part: int) -> tuple[int, int]:
        """Return how large a group is for a class, and how many classes a part gets with it less those in excess."""
        gain = 0
        for other in self._groups[number]:
            have, wanted = self._have[other][part], self._wanted[other][part]
            gain += 1 if have == 0 < wanted and other in self._enough else -1 if have >= wanted else 0
        return self._groups[number][label], gain

    def _may_leave(self, number: int) -> bool:
        """Return whether the part of a group keeps each class that should be in all parts without it."""
        part = self.parts[number]
        own = self._groups[number].items()
        return all(self._have[label][part] > num for label, num in own if label in self._enough)

    def _cost(self, number: int, target: int) -> float:
        """Return by how much a move increases the differences from the wanted counts, in fractions of each class."""
        source, cost = self.parts[number], 0.0
        for label, num in self._groups[number].items():
            have, wanted = self._have[label], self._wanted[label]
            before = abs(have[source] - wanted[source]) + abs(have[target] - wanted[target])
            after = abs(have[source] - num - wanted[source]) + abs(have[target] + num - wanted[target])
            cost += (after - before) / sum(have)
        return cost if source != target else inf

    def _put(self, number: int, part: int) -> None:
        """Give a group to a part."""
        source = self.parts[number]
        for label, num in self._groups[number].items():
            if source >= 0:
                self._have[label][source] -= num
            self._have[label][part] += num
        self.parts[number] = part
