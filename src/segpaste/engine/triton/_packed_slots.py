"""Integers in the spare bits of masks, in Triton: see `segpaste.engine.triton.packed_slots`.

Common arguments of the functions:
    at: pointers to the pixels of a tile in the mask of the first slot; the mask of the next slot is ``size`` bytes on.
    wanted: pixels that have an integer.
    num: number of digits.
"""

from __future__ import annotations

import triton
import triton.language as tl

from segpaste.engine.triton import packed_slots

_BITS = tl.constexpr(packed_slots.SPARE_BITS)
_DIGIT = tl.constexpr((1 << packed_slots.SPARE_BITS) - 1)
_OWN = tl.constexpr((1 << (8 - packed_slots.SPARE_BITS)) - 1)
_OWN_BITS = tl.constexpr(8 - packed_slots.SPARE_BITS)
_SIGN = tl.constexpr(-(1 << 31))


@triton.jit
def holds(byte):
    """Return whether bytes of a mask belong to the instance, ignoring their spare bits."""
    return (byte & 1) != 0


@triton.jit
def slot_at(target, b, slot, place):
    """Return pointers to pixels in the mask of a slot of row ``b``."""
    return target.masks + (b * target.num_slots + slot) * target.size + place


@triton.jit
def put(at, size, value, wanted, num):
    """Store the low digits of integers."""
    for _ in range(num):
        byte = tl.load(at, mask=wanted, other=0).to(tl.int32) & _OWN
        tl.store(at, (byte | ((value & _DIGIT) << _OWN_BITS)).to(tl.uint8), mask=wanted)
        value = value >> _BITS
        at += size


@triton.jit
def put_three(at, size, one, two, three, wanted, wanted_too, num):
    """Store three integers at once in consecutive slots; ``wanted`` applies to the first one only.

    The bytes of all three are read before any is written, so that no read waits for a write.

    Own arguments:
        wanted_too: pixels that have the second and the third integer, two blocks.
    """
    step = num * tl.cast(size, tl.int64)
    for _ in range(num):
        byte = tl.load(at, mask=wanted, other=0).to(tl.int32) & _OWN
        byte_2 = tl.load(at + step, mask=wanted_too[0], other=0).to(tl.int32) & _OWN
        byte_3 = tl.load(at + 2 * step, mask=wanted_too[1], other=0).to(tl.int32) & _OWN
        tl.store(at, (byte | ((one & _DIGIT) << _OWN_BITS)).to(tl.uint8), mask=wanted)
        tl.store(at + step, (byte_2 | ((two & _DIGIT) << _OWN_BITS)).to(tl.uint8), mask=wanted_too[0])
        tl.store(at + 2 * step, (byte_3 | ((three & _DIGIT) << _OWN_BITS)).to(tl.uint8), mask=wanted_too[1])
        one, two, three = one >> _BITS, two >> _BITS, three >> _BITS
        at += size


@triton.jit
def take_three(at, size, wanted, wanted_too, num):
    """Return three integers that `put_three` stored, int32, and set their bits to zero."""
    step = num * tl.cast(size, tl.int64)
    one = tl.zeros(wanted.shape, tl.int32)
    two, three = one, one
    for i in range(num):
        byte = tl.load(at, mask=wanted, other=0).to(tl.int32)
        byte_2 = tl.load(at + step, mask=wanted_too[0], other=0).to(tl.int32)
        byte_3 = tl.load(at + 2 * step, mask=wanted_too[1], other=0).to(tl.int32)
        tl.store(at, (byte & _OWN).to(tl.uint8), mask=wanted)
        tl.store(at + step, (byte_2 & _OWN).to(tl.uint8), mask=wanted_too[0])
        tl.store(at + 2 * step, (byte_3 & _OWN).to(tl.uint8), mask=wanted_too[1])
        one |= (byte >> _OWN_BITS) << (i * _BITS)
        two |= (byte_2 >> _OWN_BITS) << (i * _BITS)
        three |= (byte_3 >> _OWN_BITS) << (i * _BITS)
        at += size
    return one, two, three


@triton.jit
def take(at, size, wanted, num):
    """Return integers that `put` stored, int32, and set their bits to zero."""
    value = tl.zeros(wanted.shape, tl.int32)
    for i in range(num):
        byte = tl.load(at, mask=wanted, other=0).to(tl.int32)
        tl.store(at, (byte & _OWN).to(tl.uint8), mask=wanted)
        value |= (byte >> _OWN_BITS) << (i * _BITS)
        at += size
    return value


@triton.jit
def put_visible(visible, target, b, place, seen, whose, wanted):
    """Store the visible layer of pixels of row ``b``, -1 for the target, and its slot."""
    at = slot_at(target, b, visible.first, place)
    code = tl.where(seen >= 0, (seen + 1) | (whose << visible.shift), 0)
    put(at, target.size, code, wanted, visible.end - visible.first)


@triton.jit
def clear_visible(visible, target, b, place, wanted):
    """Set the bits of layers and owners to zero."""
    at = slot_at(target, b, visible.first, place)
    take(at, target.size, wanted, visible.end - visible.first)


@triton.jit
def load_visible(visible, target, b, place, there):
    """Return the visible layer of pixels of row ``b``, -1 for the target, and the slot of the layer that owns them.

    The slot has no meaning where no layer is visible, or if no field needs it.
    """
    if visible.layer is None:
        at = slot_at(target, b, visible.first, place)
        code = tl.zeros(there.shape, tl.int32)
        for i in range(visible.end - visible.first):
            digit = tl.load(at, mask=there, other=0).to(tl.int32) >> _OWN_BITS
            code |= digit << (i * _BITS)
            at += target.size
        return (code & ((1 << visible.shift) - 1)) - 1, code >> visible.shift
    else:
        here = b * target.size + place
        seen = tl.load(visible.layer + here, mask=there, other=-1).to(tl.int32)
        if visible.owner is None:
            return seen, seen
        else:
            return seen, tl.load(visible.owner + here, mask=seen >= 0, other=0).to(tl.int32)


@triton.jit
def as_bits(value):
    """Return the bits of colours as int32."""
    if value.dtype == tl.uint8:
        return value.to(tl.int32)
    elif value.dtype == tl.float32:
        return value.to(tl.int32, bitcast=True)
    else:
        return value.to(tl.int16, bitcast=True).to(tl.int32)


@triton.jit
def from_bits(bits, dtype: tl.constexpr):
    """Return the colours that `as_bits` encoded."""
    if dtype == tl.uint8:
        return bits.to(tl.uint8)
    elif dtype == tl.float32:
        return bits.to(tl.float32, bitcast=True)
    else:
        return bits.to(tl.int16).to(dtype, bitcast=True)


@triton.jit
def signed(value, is_valid):
    """Return the bits of values that are not negative, with the sign set where they are not valid."""
    bits = value.to(tl.int32, bitcast=True)
    return tl.where(is_valid, bits, bits | _SIGN)


@triton.jit
def unsigned(bits):
    """Return the values that `signed` encoded, and where they are valid."""
    return (bits & ~_SIGN).to(tl.float32, bitcast=True), bits >= 0
