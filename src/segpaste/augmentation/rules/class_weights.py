"""Tables for draws of slots that are balanced over classes, to a degree set by a temperature.

Slots are drawn one after another without replacement, in proportion to their weights w = n ** -temperature, where n is
the number of objects of the slot's class: Efraimidis and Spirakis, "Weighted random sampling with a reservoir"
(Information Processing Letters, 2006). The largest keys u ** (1 / w) of the paper are the smallest -log2(u) / w, the
shortest waiting times. All arithmetic is in integers, from tables made in decimal arithmetic, so every machine and
device gives the same bits.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from functools import cache

from torch import Tensor

from segpaste.augmentation.rules.tables import table

TEMPERATURE_ONE = 1 << 32
"""Temperature 1 in units of 2**-32."""

MOST_ALIKE = 256
"""Largest number of objects of a class that is distinguished; larger numbers count as this."""

_WEIGHT_ONE = 1 << 16
_LOG_ONE = 1 << 32
_LOG_STEPS = 256
_DIGITS = Context(prec=20, rounding=ROUND_HALF_EVEN)  # its logarithms and powers of e are rounded correctly everywhere


def inverse_weights(temperature: int) -> Tensor:
    """Return n ** temperature, the waiting time of a slot relative to that of the only slot of a class.

    Args:
        temperature: in units of 2**-32, from 0 to `TEMPERATURE_ONE`.

    Returns:
        [257] int64 for n = 0 .. `MOST_ALIKE`, in units of 2**-16; 1 for n = 0, which does not occur.
    """
    with localcontext(_DIGITS):
        exponent = Decimal(temperature) / TEMPERATURE_ONE
        powers = [round((log * exponent).exp() * _WEIGHT_ONE) for log in _logarithms(MOST_ALIKE)]
    return table([_WEIGHT_ONE, *powers])


def log_table() -> Tensor:
    """Return log2(1 + i / 256) for i = 0 .. 256, in units of 2**-32, [257] int64."""
    logs = _logarithms(2 * _LOG_STEPS)
    with localcontext(_DIGITS):
        octave = [(log - logs[_LOG_STEPS - 1]) / logs[1] for log in logs[_LOG_STEPS - 1 :]]
        return table([round(log * _LOG_ONE) for log in octave])


@cache
def _logarithms(last: int) -> tuple[Decimal, ...]:
    """Return the natural logarithms of 1 .. ``last``."""
    with localcontext(_DIGITS):
        return tuple(Decimal(number).ln() for number in range(1, last + 1))
