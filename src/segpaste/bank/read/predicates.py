"""Predicates on crops: a rejected crop is replaced by another crop of the same class.

The replacement is found by a walk that depends only on the draw, not on the worker or the batch. It is uniform over the
crops of the class that the predicate accepts, so the share of each class stays that of the sampler.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from segpaste.bank.format.protocol import Columns, InstanceBank
from segpaste.bank.read.class_draws import uniforms
from segpaste.bank.read.sampler import Draws
from segpaste.bank.schema.record import BankError, Crop
from segpaste.samplers.by_class import SamplesOfClasses
from segpaste.types.check import check_count


@runtime_checkable
class CropPredicate(Protocol):
    """Predicate on some columns of many crops at once; only these columns are read."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the columns, see `segpaste.bank.schema.record.COLUMNS`."""
        ...

    def accept(self, columns: Columns) -> NDArray[np.bool_]:
        """Return whether each of n crops may be drawn, [n]; the columns are [n, ...]."""
        ...


Predicate = CropPredicate | Callable[[Crop], bool]
"""A `CropPredicate`, or a function of each `Crop`, for which all columns are read."""


@dataclass
class CropChooser:
    """Chooser that replaces rejected crops by accepted ones.

    Its pickle has no table of crops: a spawned worker makes it at first need.

    Attributes:
        bank, predicate, max_tries: see `segpaste.bank.create_bank_dataloader`.
        distinct: prefer, among the tried crops, one that is not among the draws already.
    """

    bank: InstanceBank
    predicate: Predicate
    max_tries: int
    distinct: bool = False
    crops_of: SamplesOfClasses | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_count("max_tries", self.max_tries, 1)
        predicate = self.predicate
        if isinstance(predicate, type) or not (isinstance(predicate, CropPredicate) or callable(predicate)):
            raise TypeError(
                f"predicate: expected a CropPredicate, or a function of a Crop, got {predicate!r:.80}; if it is a "
                "class, give an instance"
            )
        kept = [column.name for column in self.bank.layout.columns]
        if isinstance(predicate, CropPredicate) and (missing := set(predicate.reads) - set(kept)):
            raise ValueError(
                f"predicate: expected a bank with {', '.join(sorted(missing))}, got one with {', '.join(kept)}; for "
                "embeddings run segpaste bank embed"
            )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "crops_of": None}

    def choose(self, draws: Draws, num_rejected: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the crops of the draws, with rejected crops replaced by others of their classes.

        Args:
            draws: n draws.
            num_rejected: counts [C], to which the rejected crops of each class are added.

        Returns:
            The indices of the crops, int64 [n].

        Raises:
            BankError: a walk found no crop, or a crop cannot be read.
        """
        crops = draws.crops.copy()
        waiting = np.flatnonzero(~self._accepts(crops))
        np.add.at(num_rejected, draws.classes[waiting], 1)
        if not len(waiting):
            return crops
        counts = self._crops_of().counts[draws.classes[waiting]]
        places = walk(draws.seed, draws.positions[waiting], counts, self.max_tries)
        repeats = np.full(len(crops), -1)  # last accepted crop of each walk that is among the draws already
        for turn in range(self.max_tries + 1):
            is_over = turn >= np.minimum(counts, self.max_tries)
            ended = waiting[is_over]
            if (without := ended[repeats[ended] < 0]).size:
                raise self._none_found(int(draws.classes[without[0]]), turn)
            crops[ended] = repeats[ended]
            waiting, counts, places = waiting[~is_over], counts[~is_over], places[~is_over]
            if not len(waiting):
                break
            tried = self._crops_of().pick(draws.classes[waiting], places[:, turn])
            accepted = self._accepts(tried)
            np.add.at(num_rejected, draws.classes[waiting[~accepted]], 1)
            is_repeat = accepted & self.distinct & _among(tried, accepted, np.delete(crops, waiting))
            repeats[waiting[is_repeat]] = tried[is_repeat]
            is_chosen = accepted & ~is_repeat
            crops[waiting[is_chosen]] = tried[is_chosen]
            waiting, counts, places = waiting[~is_chosen], counts[~is_chosen], places[~is_chosen]
        return crops

    def _accepts(self, crops: NDArray[np.int64]) -> NDArray[np.bool_]:
        if not isinstance(self.predicate, CropPredicate):
            columns = self.bank.read(crops)
            unpack = self.bank.layout.unpack
            each = (unpack({name: rows[n] for name, rows in columns.items()}) for n in range(len(crops)))
            return np.array([bool(self.predicate(crop)) for crop in each], bool)
        accepted = np.asarray(self.predicate.accept(self.bank.read(crops, self.predicate.reads)))
        if accepted.shape != crops.shape or accepted.dtype != np.bool_:
            raise ValueError(
                f"predicate: expected accept to return bool [{len(crops)}], got {accepted.dtype} {list(accepted.shape)}"
            )
        return accepted

    def _crops_of(self) -> SamplesOfClasses:
        if self.crops_of is None:
            self.crops_of = SamplesOfClasses(self.bank.crop_class_ids(), len(self.bank.class_names))
        return self.crops_of

    def _none_found(self, class_id: int, num_tried: int) -> BankError:
        num = int(self._crops_of().counts[class_id])
        tried = f"all {num} of them" if num_tried >= num else f"{num_tried} of them, drawn from {num}"
        return BankError(
            f"predicate: expected a crop of class {self.bank.class_names[class_id]!r} that it accepts, tried {tried}, "
            "got none; loosen it, raise max_tries, or build a bank without the class"
        )


def walk(seed: int, positions: NDArray[np.int64], counts: NDArray[np.int64], max_tries: int) -> NDArray[np.int64]:
    """Return places within a class, in the order in which they are tried, for some draws.

    A class of at most ``max_tries`` crops is visited in a random order, each crop once; places of a larger class are
    drawn with replacement.

    Args:
        seed: seed of the sequence of the draws.
        positions: positions of the draws in it, [n].
        counts: number of crops of their classes, [n].
        max_tries: maximum number of tries, T.

    Returns:
        Places [n, T] from 0; for a smaller class only as many columns as it has crops are valid.
    """
    turns = np.arange(max_tries, dtype=np.int64)
    drawn = uniforms(seed, "bank.walk", positions[:, None], turns[None])
    places = (drawn * counts[:, None]).astype(np.int64)
    small = counts <= max_tries
    ranks = np.where(turns < counts[small, None], drawn[small], 2.0)  # invalid places come last
    places[small] = ranks.argsort(axis=1, kind="stable")
    return places


def _among(tried: NDArray[np.int64], accepted: NDArray[np.bool_], held: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether each tried crop, [n], is held already, or accepted at an earlier place."""
    candidates = np.flatnonzero(accepted)
    is_repeat = np.ones(len(tried), bool)
    is_repeat[candidates[np.unique(tried[candidates], return_index=True)[1]]] = False
    return is_repeat | np.isin(tried, held)
