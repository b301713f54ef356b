"""Index sequences of all samplers, for `golden_records`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from golden_inputs import Integers
from golden_sources import MemoryBank
from numpy.typing import NDArray

from segpaste import (
    BankSampler,
    ExhaustiveNxMSampler,
    NxMSampler,
    RandomNxMSampler,
    create_bank_dataloader,
    derive_seed,
)
from segpaste.samplers import epoch_batches, rarest_labels

EPOCHS = (0, 1, 7)
REPLICAS = ((0, 1), (0, 2), (1, 2), (2, 3))
TAIL = (1000, 316, 0, 100, 32, 10, 1)

NXM: tuple[type[NxMSampler], ...] = (RandomNxMSampler, ExhaustiveNxMSampler)

Sequences = dict[str, NDArray[Any]]


def sequences() -> Iterator[tuple[str, Sequences]]:
    """Run every sampler.

    Yields:
        A name, and integers by what they are.
    """
    yield from _nxm()
    yield from _bank()
    yield "sampler/seeds", {"seeds": np.array([derive_seed(n, n % 5, n % 3, n * n, n % 2) for n in range(200)])}


def _labels() -> dict[str, NDArray[Any]]:
    draws = Integers(77)
    words = np.array(["ant", "bee", "cat", "dog", "eel"])
    return {
        "page": np.array([0, 0, 0, 0, 0, 1, 1, 1, 2, 2]),
        "tail": np.array([0] * 100 + [c for c in range(1, 10) for _ in range(4)]),
        "even": np.arange(120) * 7 % 12,
        "drawn": draws.below(30, 400) * draws.below(30, 400) % 41 - 5,
        "words": words[draws.below(5, 60)],
        "wide": draws.below(90, 2000),
    }


def _nxm() -> Iterator[tuple[str, Sequences]]:
    for (name, labels), kind, size in itertools.product(_labels().items(), NXM, ((2, 2), (3, 4), (40, 2))):
        num_classes, per_class = size
        if len(np.unique(labels)) < num_classes:
            continue
        for shuffle, drop_last in itertools.product((True, False), (True, False)):
            found: Sequences = {}
            for rank, num_replicas in REPLICAS:
                of_rank = {"base_seed": 3 + num_classes, "rank": rank, "num_replicas": num_replicas}
                sampler = kind(labels, *size, shuffle, drop_last, **of_rank)
                found[f"rank {rank} of {num_replicas}"] = _epochs(sampler)
            yield f"sampler/{kind.__name__}/{name}/{num_classes}x{per_class}/{shuffle}/{drop_last}", found
    for exhaustive, name in itertools.product((True, False), ("tail", "wide")):
        batches = epoch_batches(_labels()[name], 4, 3, exhaustive=exhaustive, drop_last=False, seed=2**64 - 1)
        yield f"sampler/epoch_batches/{name}/{exhaustive}", {"batches": batches}
    rows = [row.tolist()[: n % 4] for n, row in enumerate(Integers(5).below(9, 80, 4))]
    yield "sampler/rarest_labels", {"labels": rarest_labels(rows)}


def _epochs(sampler: NxMSampler | BankSampler) -> NDArray[np.int64]:
    """Run some epochs, one row each."""
    rows = []
    for epoch in EPOCHS:
        sampler.set_epoch(epoch)
        rows.append(list(sampler))
    return np.array(rows, np.int64)


def _bank() -> Iterator[tuple[str, Sequences]]:
    bank = MemoryBank(TAIL)
    modes: tuple[Any, ...] = ("repeat_factor", "instance_aware", "tempered", "class_uniform")
    replicas: tuple[Any, ...] = ("independent", "disjoint")
    for mode, kind in itertools.product(modes, replicas):
        found: Sequences = {}
        for rank, num_replicas in REPLICAS:
            of_rank: dict[str, Any] = {"rank": rank, "num_replicas": num_replicas, "replicas": kind, "base_seed": 9}
            sampler = BankSampler(bank, 700, mode=mode, threshold=0.05, temperature=0.25, **of_rank)
            found[f"rank {rank} of {num_replicas}"] = _epochs(sampler)
        yield f"sampler/BankSampler/{mode}/{kind}", found
    for mode in modes:
        loader = create_bank_dataloader(
            bank, batch_size=4, crops_per_target=3, steps=20, mode=mode, threshold=1e-3, base_seed=1
        )
        yield f"sampler/bank loader/{mode}", {"crops": np.stack([staged.crop_idx.numpy() for staged in loader])}
    given = ExhaustiveNxMSampler(bank, 4, 3, base_seed=2, rank=1, num_replicas=2)
    loader = create_bank_dataloader(bank, batch_size=4, crops_per_target=3, sampler=given, rank=1, num_replicas=2)
    yield "sampler/bank loader/NxM", {"crops": np.stack([staged.crop_idx.numpy() for staged in loader])}
