"""Integer arithmetic of the draws in Triton: `segpaste.seeding` bit for bit, floor division, and entries of tables."""

from __future__ import annotations

import triton
import triton.language as tl

from segpaste import seeding

_GOLDEN = tl.constexpr(seeding.GOLDEN)
_INDEX_SALT = tl.constexpr(seeding.INDEX_SALT)
_FIRST_MULTIPLIER = tl.constexpr(seeding.MULTIPLIERS[0])
_SECOND_MULTIPLIER = tl.constexpr(seeding.MULTIPLIERS[1])


def name_key(name: str) -> tl.constexpr:
    """Return the 64-bit key of a draw's name, in [0, 2**64)."""
    return tl.constexpr(seeding.from_int64(seeding.name_key(name)))


SOURCE, CROP, CLASS = name_key("source"), name_key("crop"), name_key("class")
SLOT, LAYER = name_key("slot"), name_key("layer")
PASTE, COUNT = name_key("paste"), name_key("count")
HFLIP, VFLIP = name_key("hflip"), name_key("vflip")
TURN, QUARTERS = name_key("turn"), name_key("quarters")
SCALE, SIZE = name_key("scale"), name_key("size")
TRANSLATE, STRATUM = name_key("translate"), name_key("stratum")


@triton.jit
def floor_div(a, b):
    """Return the quotient rounded towards minus infinity; ``b`` is above 0. Triton rounds towards zero."""
    quotient = a // b
    return quotient - (a - quotient * b < 0).to(tl.int64)


@triton.jit
def clamped(value, low, high):
    """Return the value, at least ``low``, and then at most ``high``."""
    return tl.minimum(tl.maximum(value, low), high)


@triton.jit
def _mixed(z):
    z = (z ^ (z >> 30)) * _FIRST_MULTIPLIER
    z = (z ^ (z >> 27)) * _SECOND_MULTIPLIER
    return z ^ (z >> 31)


@triton.jit
def keyed(seed, NAME: tl.constexpr):
    """Return the state of a draw for a seed, uint64."""
    return _mixed(seed.to(tl.uint64) ^ NAME)


@triton.jit
def indexed(state, index):
    """Return the state of a draw for one more index, uint64."""
    return _mixed(state + (tl.cast(index, tl.uint64) ^ _INDEX_SALT) * _GOLDEN)


@triton.jit
def bits_62(state):
    """Return 62 random bits, int64."""
    return (state >> 2).to(tl.int64)


@triton.jit
def upper_32(state):
    """Return the upper 32 bits, int64."""
    return (state >> 32).to(tl.int64)


@triton.jit
def within(fractions, low, high):
    """Return the integers from ``low`` to ``high`` at ``fractions`` / 2**32 of the range, int64."""
    span = tl.maximum(high - low + 1, 1)
    return low + ((fractions * span).to(tl.uint64) >> 32).to(tl.int64)


@triton.jit
def is_known(table, label, asked, num_classes):
    """Return whether the byte of each label is set in a table of ``num_classes`` bytes; False for unknown labels."""
    asked = asked & (label >= 0) & (label < num_classes)
    return tl.load(table + label, mask=asked, other=0) != 0
