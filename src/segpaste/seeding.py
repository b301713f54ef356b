"""Seeds and random numbers: each number is a pure function of a sample's seed, the draw's name and indices.

`derive_seed` gives each sample of each epoch its own 64-bit seed. The functions below hash that seed with a name and
indices by SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014; constants of
its ``mix64`` by David Stafford). They use integer tensor arithmetic only: they can be traced, they need no generator
object, and they return the same bits on every device, for every batch size and order, eager and compiled.

Do not use them for cryptography or for long streams. Where a plain stream is enough, use the generators of torch or
NumPy.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["SampleKey", "derive_seed", "keys_of", "random_bernoulli", "random_bits", "random_integers", "random_u32"]

GOLDEN = 0x9E3779B97F4A7C15
INDEX_SALT = 0xD1B54A32D192ED03
MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_UINT64 = 1 << 64


def derive_seed(base_seed: int, epoch: int, rank: int, worker_id: int, sample_idx: int) -> int:
    """Return the seed of one sample: the first 8 bytes of SHA-256 over the five numbers as little-endian uint64.

    Args:
        base_seed: the run's seed.
        epoch: the number of the pass over the data.
        rank: the number of the process in a distributed run.
        worker_id: the number of the loader worker, if the sample depends on it; else 0.
        sample_idx: the sample's index in its dataset, or its position in an endless sequence.

    Returns:
        An integer in [0, 2**64).

    Raises:
        ValueError: a number is not an integer in [0, 2**64).
    """
    key = SampleKey(base_seed, epoch, rank, worker_id, sample_idx)
    for name, value in key._asdict().items():
        check_uint64(value, name)
    return _hashed(b"".join(int(value).to_bytes(8, "little") for value in key))


def _hashed(payload: bytes) -> int:
    """Return the first 8 bytes of SHA-256, little-endian, in [0, 2**64)."""
    return int.from_bytes(hashlib.sha256(payload).digest()[:8], "little")


def check_uint64(value: int, name: str) -> None:
    """Check that the argument ``name``, such as a seed or an epoch, is an integer in [0, 2**64).

    Raises:
        ValueError: it is not.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ValueError(f"expected an integer as {name}, 0 <= {name} < 2**64, got {value!r}")
    if not 0 <= operator.index(value) < _UINT64:
        raise ValueError(f"expected 0 <= {name} < 2**64, got {value}")


class SampleKey(NamedTuple):
    """Five numbers that identify a sample of a run: the arguments of `derive_seed`, which returns its seed."""

    base_seed: int
    epoch: int
    rank: int
    worker_id: int
    sample_idx: int

    @property
    def seed(self) -> int:
        """Seed of the sample, by `derive_seed`, in [0, 2**64)."""
        return derive_seed(*self)


class KeyTensors(TypedDict):
    """Two fields of a batch that identify its samples, as keyword arguments of ``to_padded``.

    Attributes:
        sample_seeds: seed of each sample, [B] int64.
        sample_keys: `SampleKey` of each sample, [B, 5] int64.
    """

    sample_seeds: Tensor
    sample_keys: Tensor


def key_tensors(keys: Sequence[SampleKey]) -> KeyTensors:
    """Return keys and their seeds as the tensors of a batch."""
    return KeyTensors(
        sample_seeds=torch.tensor([to_int64(key.seed) for key in keys], dtype=torch.int64, device="cpu"),
        sample_keys=torch.tensor(
            [[to_int64(number) for number in key] for key in keys], dtype=torch.int64, device="cpu"
        ).view(-1, 5),
    )


def keys_of(sample_keys: Tensor) -> list[SampleKey]:
    """Return the keys in the ``sample_keys`` [B, 5] of a batch: the inverse of `key_tensors`."""
    return [SampleKey(*map(from_int64, row)) for row in sample_keys.tolist()]


def to_int64(value: int) -> int:
    """Return the signed integer with the same 64 bits, for the int64 tensors ``sample_seeds`` and ``sample_keys``."""
    value %= _UINT64
    return value - _UINT64 if value >= _UINT64 >> 1 else value


def from_int64(value: int) -> int:
    """Return the unsigned integer with the same 64 bits: the inverse of `to_int64`."""
    return value % _UINT64


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def name_key(name: str) -> int:
    """Return the first 8 bytes of the SHA-256 of a draw's name, as a signed integer."""
    return _known_key(name)


@lru_cache(1 << 10)
def _known_key(name: str) -> int:
    return to_int64(_hashed(name.encode()))


def random_bits(seeds: Tensor, name: str, *indices: Tensor) -> Tensor:
    """Return 64 random bits for each seed and index.

    Args:
        seeds: int64, any shape.
        name: the draw's name; different names give independent draws.
        indices: int64 tensors, broadcastable with ``seeds`` and one another; the value at an index does not depend
            on the number of indices.

    Returns:
        int64 of the broadcast shape, uniform over all 2**64 values.
    """
    state = _mix64(seeds ^ name_key(name))
    for index in indices:
        # xor first: a plain (arange + 1) * constant is folded into loop index arithmetic, whose overflow is undefined
        state = _mix64(state + (index ^ to_int64(INDEX_SALT)) * to_int64(GOLDEN))
    return state


def random_bits_of(seed: int, name: str, *indices: int) -> int:
    """Return `random_bits` of one seed and one place, all of them in [0, 2**64), as an integer in [0, 2**64)."""
    state = _mix64_of(seed ^ name_key(name) % _UINT64)
    for index in indices:
        state = _mix64_of((state + (index ^ INDEX_SALT) * GOLDEN) % _UINT64)
    return state


def random_bits_numpy(seed: int, name: str, *indices: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return `random_bits` of one seed in [0, 2**64), as a NumPy array of uint64 with the shape of the indices."""
    state: Any = np.uint64(random_bits_of(seed, name))
    with np.errstate(over="ignore"):
        for index in indices:
            state = _mix64_numpy(state + (index.astype(np.uint64) ^ np.uint64(INDEX_SALT)) * np.uint64(GOLDEN))
    return np.asarray(state)


def random_u32(seeds: Tensor, name: str, *indices: Tensor) -> Tensor:
    """Return the upper 32 bits of `random_bits`, as int64 in [0, 2**32)."""
    return _shift_right(random_bits(seeds, name, *indices), 32)


def random_u32_together(*draws: tuple[Tensor, str]) -> tuple[Tensor, ...]:
    """Return `random_u32` of each pair of seeds, [N] int64, and name, in as few operations as for one of them."""
    states = torch.cat([seeds ^ name_key(name) for seeds, name in draws])
    return torch.split(_shift_right(_mix64(states), 32), [len(seeds) for seeds, _ in draws])


def random_integers(seeds: Tensor, name: str, low: Tensor | int, high: Tensor | int, *indices: Tensor) -> Tensor:
    """Return integers uniform over ``low`` .. ``high`` inclusive (to within 1 in 2**32; the span is below 2**31).

    Returns:
        int64; ``low`` where the range is empty.
    """
    return within(random_u32(seeds, name, *indices), low, high)


def within(fractions: Tensor, low: Tensor | int, high: Tensor | int) -> Tensor:
    """Return the integers at ``fractions`` / 2**32 of the range ``low`` .. ``high`` inclusive.

    The span is below 2**31. An empty range gives ``low``.
    """
    span = high - low + 1
    span = span.clamp(min=1) if isinstance(span, Tensor) else max(span, 1)
    return low + _shift_right(fractions * span, 32)


def random_bernoulli(seeds: Tensor, name: str, probability: float, *indices: Tensor) -> Tensor:
    """Return bools that are True with the given probability, which is rounded to a multiple of 2**-32."""
    return random_u32(seeds, name, *indices) < round(probability * (1 << 32))


def _mix64(z: Tensor) -> Tensor:
    z = (z ^ _shift_right(z, 30)) * to_int64(MULTIPLIERS[0])
    z = (z ^ _shift_right(z, 27)) * to_int64(MULTIPLIERS[1])
    return z ^ _shift_right(z, 31)


def _mix64_of(z: int) -> int:
    z = (z ^ (z >> 30)) * MULTIPLIERS[0] % _UINT64
    z = (z ^ (z >> 27)) * MULTIPLIERS[1] % _UINT64
    return z ^ (z >> 31)


def _mix64_numpy(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(MULTIPLIERS[0])
    z = (z ^ (z >> np.uint64(27))) * np.uint64(MULTIPLIERS[1])
    return z ^ (z >> np.uint64(31))


def _shift_right(z: Tensor, bits: int) -> Tensor:
    """Shift right and fill with zeros; int64 is the only 64-bit integer type that torch supports everywhere."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)
