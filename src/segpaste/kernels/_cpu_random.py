"""The counter-based generator of `segpaste.seeding`, compiled by Numba and equal to it bit for bit."""

from __future__ import annotations

import numpy as np

from segpaste import seeding
from segpaste.kernels._cpu_compile import compiled

_GOLDEN = np.uint64(seeding.GOLDEN)
_SALT = np.uint64(seeding.INDEX_SALT)
_FIRST, _SECOND = (np.uint64(m) for m in seeding.MULTIPLIERS)
_NAMES = ("source", "scale", "size", "hflip", "paste", "count", "slot", "layer", "translate", "stratum")
SOURCE, SCALE, SIZE, HFLIP, PASTE, COUNT, SLOT, LAYER, TRANSLATE, STRATUM = (
    np.uint64(seeding.name_key(name) % (1 << 64)) for name in _NAMES
)


@compiled
def _mixed(z):
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


@compiled
def keyed(seed, name):
    return _mixed(np.uint64(seed) ^ name)


@compiled
def indexed(state, index):
    return _mixed(state + (np.uint64(index) ^ _SALT) * _GOLDEN)


@compiled
def integer(state, low, high):
    """Uniform over ``low`` to ``high``, by the upper half of the bits."""
    return within(state >> np.uint64(32), low, high)


@compiled
def within(fraction, low, high):
    """The integer of ``low`` to ``high`` at ``fraction`` / 2**32 of the range."""
    return low + np.int64((np.uint64(fraction) * np.uint64(max(high - low + 1, 1))) >> np.uint64(32))


@compiled
def happens(state, threshold):
    return np.int64(state >> np.uint64(32)) < threshold
