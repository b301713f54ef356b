"""Which crops are drawn: a class first, then a crop of it, so that rare classes get their share.

With n_c crops of class c, f_c = n_c / N its frequency and the sum over all classes that have crops:

- ``repeat_factor``: p_c ~ n_c r_c with r_c = max(1, sqrt(t / f_c)), https://arxiv.org/abs/1908.03195
- ``instance_aware``: the same with r_c = max(1, sqrt(t / sqrt(f_c g_c))), g_c the fraction of photos that show the
  class, https://arxiv.org/abs/2305.08069
- ``tempered``: p_c ~ n_c ** (1 - temperature)
- ``class_uniform``: p_c the same for all

Draws are with replacement. Not for exact passes over a bank: iterate over its indices for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch.utils.data import Sampler

from segpaste import seeding
from segpaste.bank.record import BankError
from segpaste.bank.stored import InstanceBank

Mode = Literal["repeat_factor", "instance_aware", "tempered", "class_uniform"]

_BLOCK = 1 << 16


def class_probabilities(
    counts: ArrayLike,
    mode: Mode = "repeat_factor",
    *,
    threshold: float = 1e-3,
    temperature: float = 0.5,
    photo_fracs: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """How likely each class is to be drawn, [C], 0 for classes without crops.

    Args:
        counts: crops of each class, [C].
        mode: see above.
        threshold: t of the repeat factors.
        temperature: of ``tempered``, from 0, as frequent as the crops are, to 1, all classes alike.
        photo_fracs: g_c, for ``instance_aware``.

    Raises:
        ValueError: there are no crops, or a value that the mode needs is missing or out of range.
    """
    num = np.asarray(counts, np.float64)
    if num.ndim != 1 or not (num > 0).any() or (num < 0).any():
        raise ValueError(f"expected counts [C] of which some are above 0, got {np.asarray(counts)!r}")
    has_crops = num > 0
    frac = np.where(has_crops, num / num.sum(), 1.0)
    if mode == "class_uniform":
        weights = has_crops.astype(np.float64)
    elif mode == "tempered":
        if not 0 <= temperature <= 1:
            raise ValueError(f"expected 0 <= temperature <= 1, got {temperature}")
        weights = np.where(has_crops, np.where(has_crops, num, 1.0) ** (1 - temperature), 0.0)
    elif mode in ("repeat_factor", "instance_aware"):
        if not 0 < threshold <= 1:
            raise ValueError(f"expected 0 < threshold <= 1, got {threshold}")
        if mode == "instance_aware":
            if photo_fracs is None:
                raise ValueError(
                    "instance_aware: expected photo_fracs, the fraction of photos with each class, got None"
                )
            frac = np.sqrt(frac * np.where(has_crops, np.asarray(photo_fracs, np.float64), 1.0))
        weights = num * np.maximum(1.0, np.sqrt(threshold / frac))
    else:
        raise ValueError(f"expected mode repeat_factor, instance_aware, tempered or class_uniform, got {mode!r}")
    return np.asarray(weights / weights.sum())


@dataclass(frozen=True)
class DrawReport:
    """What a sampler is expected to draw in an epoch, before any training.

    Attributes:
        class_names: of each class.
        num_crops: of each class, as they lie in the bank.
        expected_draws: of each class, on one replica.
        factors: how much more often than uniformly a crop of the class is drawn.
    """

    class_names: tuple[str, ...]
    num_crops: tuple[int, ...]
    expected_draws: tuple[float, ...]
    factors: tuple[float, ...]

    def __str__(self) -> str:
        width = max([len(name) for name in self.class_names] + [5])
        lines = [f"{'class':{width}}  {'crops':>10}  {'share':>7}  {'draws':>12}  {'share':>7}  factor"]
        total, drawn = sum(self.num_crops), sum(self.expected_draws)
        for name, num, draws, factor in zip(
            self.class_names, self.num_crops, self.expected_draws, self.factors, strict=True
        ):
            lines.append(
                f"{name:{width}}  {num:10d}  {num / total:7.2%}  {draws:12.1f}  {draws / drawn:7.2%}  {factor:6.2f}"
            )
        if max(self.factors) < 1.05:
            lines.append(
                "no class is drawn noticeably more often than it occurs: raise threshold, or take class_uniform"
            )
        return "\n".join(lines)


class CropsOfClasses:
    """The crops of each class, so that a class can be drawn first: at most 12 bytes a crop.

    Args:
        class_ids: the class of every crop, [N].
        num_classes: C.
    """

    def __init__(self, class_ids: NDArray[np.int64], num_classes: int) -> None:
        narrow = np.uint32 if len(class_ids) < 1 << 32 else np.int64
        self.counts = np.bincount(class_ids, minlength=num_classes)
        self.starts = np.concatenate([[0], np.cumsum(self.counts)])
        small = class_ids.astype(np.min_scalar_type(max(num_classes - 1, 0)))  # NumPy sorts short ones by radix
        self.order = small.argsort(kind="stable").astype(narrow)

    def draw(self, probabilities: NDArray[np.float64], num: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """Indices of crops, [num]: a class by these probabilities [C], then a crop of it, all alike."""
        edges = np.cumsum(probabilities)
        classes = np.searchsorted(edges, generator.random(num) * edges[-1], side="right")
        classes = np.minimum(classes, np.flatnonzero(probabilities)[-1])  # where a sum was rounded
        within = (generator.random(num) * self.counts[classes]).astype(np.int64)
        return np.asarray(self.order[self.starts[classes] + within], np.int64)


class BankSampler(Sampler[int]):
    """Draws crops of a bank, rare classes more often; a pure function of (seed, epoch, rank, position).

    Args:
        bank: what is drawn from.
        num_samples: draws of an epoch on each replica; by default as many as the replica's part of the crops.
        mode, threshold, temperature: see `class_probabilities`.
        base_seed: of everything drawn.
        rank: this process's number; by default that of torch.distributed, else 0.
        num_replicas: how many processes there are; likewise.
        replicas: ``independent``, each replica draws on its own, or ``disjoint``, they share one sequence, so that the
            union of what they draw does not depend on how many there are.
    """

    def __init__(
        self,
        bank: InstanceBank,
        num_samples: int | None = None,
        *,
        mode: Mode = "repeat_factor",
        threshold: float = 1e-3,
        temperature: float = 0.5,
        base_seed: int = 0,
        rank: int | None = None,
        num_replicas: int | None = None,
        replicas: Literal["independent", "disjoint"] = "independent",
    ) -> None:
        self.rank, self.num_replicas = _place_among(rank, num_replicas)
        if replicas not in ("independent", "disjoint"):
            raise ValueError(f"BankSampler: expected replicas 'independent' or 'disjoint', got {replicas!r}")
        if num_samples is not None and num_samples < 0:
            raise ValueError(f"BankSampler: expected num_samples from 0, got {num_samples}")
        self._crops = CropsOfClasses(bank.crop_class_ids(), len(bank.class_frequencies))
        photo_fracs = bank_photo_fracs(bank, self._crops) if mode == "instance_aware" else None
        self.probabilities = class_probabilities(
            self._crops.counts, mode, threshold=threshold, temperature=temperature, photo_fracs=photo_fracs
        )
        self.num_samples = -(-len(bank) // self.num_replicas) if num_samples is None else num_samples
        self.base_seed, self.replicas = base_seed, replicas
        self.epoch, self._start = 0, 0
        self._class_names = bank.class_names

    def __len__(self) -> int:
        """Draws of an epoch on this replica; as many on every other."""
        return self.num_samples

    def __iter__(self) -> Iterator[int]:
        start, self._start = self._start, 0
        for position in range(start - start % _BLOCK, self.num_samples, _BLOCK):
            block = self._block(position // _BLOCK)[: self.num_samples - position]
            yield from block[max(start - position, 0) :].tolist()

    def set_epoch(self, epoch: int) -> None:
        """Draw others from now on; call it before each epoch."""
        self.epoch, self._start = epoch, 0

    def state_dict(self, num_drawn: int = 0) -> dict[str, int]:
        """Where an epoch is.

        Args:
            num_drawn: draws of this epoch that were used; loader workers draw ahead, so the training loop counts.
        """
        return {"epoch": self.epoch, "num_drawn": num_drawn}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on there: the next iteration gives what was left."""
        self.epoch, self._start = int(state["epoch"]), int(state["num_drawn"])

    def report(self) -> DrawReport:
        """What an epoch is expected to draw."""
        expected = self.probabilities * self.num_samples
        counts = self._crops.counts
        uniform = np.where(counts > 0, counts, 1) / counts.sum()
        factors = np.where(counts > 0, self.probabilities / uniform, 0.0)
        return DrawReport(self._class_names, *(tuple(t.tolist()) for t in (counts, expected, factors)))

    def _block(self, block: int) -> NDArray[np.int64]:
        if self.replicas == "independent":
            return self._draws(self.rank, block)
        shared = [self._draws(0, block * self.num_replicas + i) for i in range(self.num_replicas)]
        return np.concatenate(shared)[self.rank :: self.num_replicas]

    def _draws(self, rank: int, block: int) -> NDArray[np.int64]:
        seed = seeding.derive_seed(self.base_seed, self.epoch, rank, 0, 0)
        generator = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 0, block]))
        return self._crops.draw(self.probabilities, _BLOCK, generator)


def bank_photo_fracs(bank: InstanceBank, crops: CropsOfClasses) -> NDArray[np.float64]:
    """Of each class the fraction of the bank's photos that show it, [C].

    Raises:
        BankError: the bank does not say from which photo a crop is.
    """
    try:
        photos = bank.read(np.arange(len(bank)), ["image_id"])["image_id"]
    except KeyError as error:
        raise BankError(
            "instance_aware: expected a bank that keeps provenance, for it counts photos; build one"
        ) from error
    numbers = np.unique(photos, return_inverse=True)[1]
    num_photos = numbers.max(initial=-1) + 1
    classes = np.repeat(np.arange(len(crops.counts)), crops.counts)
    pairs = np.unique(classes * max(num_photos, 1) + numbers[crops.order.astype(np.int64)])
    photos_of = np.bincount(pairs // max(num_photos, 1), minlength=len(crops.counts))
    return np.asarray(photos_of / max(num_photos, 1))


def _place_among(rank: int | None, num_replicas: int | None) -> tuple[int, int]:
    """This process's number and how many there are."""
    if (rank is None) != (num_replicas is None):
        raise ValueError(f"BankSampler: expected both rank and num_replicas or neither, got {rank} and {num_replicas}")
    if rank is None or num_replicas is None:
        from torch import distributed

        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
        return 0, 1
    if not 0 <= rank < num_replicas:
        raise ValueError(f"BankSampler: expected 0 <= rank < num_replicas, got {rank} and {num_replicas}")
    return rank, num_replicas
