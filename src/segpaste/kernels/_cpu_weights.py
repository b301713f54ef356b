"""What `segpaste.augmentation.draw_weights` does, compiled by Numba: equal to it bit for bit."""

from __future__ import annotations

from segpaste.kernels._cpu_compile import compiled

_TOP = 1 << 62


@compiled
def count_alike(eligible, labels, temperature, num_alike):
    """Into ``num_alike`` [B, K]: the eligible slots of a row that are of a slot's class, 0 where it is not eligible.

    At temperature 0 nobody asks how many: 1 where it is eligible.
    """
    num_rows, num_slots = eligible.shape
    for s in range(num_rows):
        for k in range(num_slots):
            num_alike[s, k] = eligible[s, k]
            if temperature > 0 and eligible[s, k]:
                for other in range(num_slots):
                    num_alike[s, k] += other != k and eligible[s, other] and labels[s, other] == labels[s, k]


@compiled
def weighted(bits, num_alike, tables):
    """The priority of a slot of 62 random ``bits``, one of ``num_alike`` of its class."""
    if tables.limits[3] == 0:
        return bits
    number, zeros = bits + 1, 0
    while number < _TOP:
        number <<= 1
        zeros += 1
    step, between = (number >> 54) & 255, (number >> 24) & ((1 << 30) - 1)
    low, high = tables.log_table[step], tables.log_table[step + 1]
    wait = (zeros << 32) - low - ((high - low) * between >> 30)
    return _TOP - 1 - wait * tables.inverse_weights[min(num_alike, len(tables.inverse_weights) - 1)]
