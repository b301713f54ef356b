"""How soon a slot is drawn: the more objects of its class a source holds, the later, as far as a temperature says.

Slots are drawn one after another without replacement, each time in proportion to their weights n ** -temperature, n
the objects of the slot's class: Efraimidis and Spirakis, "Weighted random sampling with a reservoir" (Information
Processing Letters, 2006). Their largest u ** (1 / w) are the smallest -log2(u) / w, the shortest waits. All of it is
integers, whose tables are made in decimal arithmetic, so that it is the same bits on every machine and device.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from functools import cache

import torch
from torch import Tensor

TEMPERATURE_ONE = 1 << 32
"""Temperatures are counted in units of 2**-32."""

MOST_ALIKE = 256
"""A class of more objects counts as one of this many."""

_WEIGHT_ONE = 1 << 16
_LOG_ONE = 1 << 32
_LOG_STEPS = 256
_DIGITS = Context(prec=20, rounding=ROUND_HALF_EVEN)  # its logarithms and powers of e are rounded correctly everywhere


def inverse_weights(temperature: int) -> Tensor:
    """How many times as long a slot waits as one that is alone in its class: n ** temperature.

    Args:
        temperature: in units of 2**-32, from 0 to `TEMPERATURE_ONE`.

    Returns:
        [257] int64 for n = 0 .. `MOST_ALIKE`, in units of 2**-16; 1 for n = 0, which nothing has.
    """
    with localcontext(_DIGITS):
        exponent = Decimal(temperature) / TEMPERATURE_ONE
        powers = [round((log * exponent).exp() * _WEIGHT_ONE) for log in _logarithms(MOST_ALIKE)]
    return torch.tensor([_WEIGHT_ONE, *powers])


def log_table() -> Tensor:
    """log2(1 + i / 256) for i = 0 .. 256, in units of 2**-32: [257] int64."""
    logs = _logarithms(2 * _LOG_STEPS)
    with localcontext(_DIGITS):
        octave = [(log - logs[_LOG_STEPS - 1]) / logs[1] for log in logs[_LOG_STEPS - 1 :]]
        return torch.tensor([round(log * _LOG_ONE) for log in octave])


@cache
def _logarithms(last: int) -> tuple[Decimal, ...]:
    """Of 1 .. ``last``."""
    with localcontext(_DIGITS):
        return tuple(Decimal(number).ln() for number in range(1, last + 1))
