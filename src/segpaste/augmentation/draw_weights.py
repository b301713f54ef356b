"""How soon a slot is drawn: the more objects of its class a source holds, the later, as far as a temperature says.

Slots are drawn one after another without replacement, each time in proportion to their weights n ** -temperature, n
the objects of the slot's class: Efraimidis and Spirakis, "Weighted random sampling with a reservoir" (Information
Processing Letters, 2006). Their largest u ** (1 / w) are the smallest -log2(u) / w, the shortest waits. All of it is
integers, whose tables are made in decimal arithmetic, so that it is the same bits on every machine and device.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from functools import cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from segpaste.augmentation.schedule import Schedule

TEMPERATURE_ONE = 1 << 32
"""Temperatures are counted in units of 2**-32."""

MOST_ALIKE = 256
"""A class of more objects counts as one of this many."""

_WEIGHT_ONE = 1 << 16
_LOG_ONE = 1 << 32
_LOG_STEPS = 256
_HIGHEST = (1 << 62) - 1
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


def weighted(bits: Tensor, labels: Tensor, available: Tensor, schedule: Schedule) -> Tensor:
    """Random bits made priorities: the slots of the largest are those that are drawn first.

    Args:
        bits: [B, L, K_s] int64, 62 random ones for each slot.
        labels: [B, L, K_s] int64.
        available: [B, L, K_s] bool, slots that may be drawn. Those of its class in its layer are a slot's n.
        schedule: the temperature, and the tables.

    Returns:
        [B, L, K_s] int64 in [0, 2**62): the bits as they are where the temperature is 0.
    """
    same = labels[..., None] == labels[..., None, :]  # [B, L, K_s, K_s], less than what trying places takes
    num_alike = (same & available[..., None, :]).sum(-1)
    temperature, inverse, table = (
        t.to(bits.device) for t in (schedule.limits[3], schedule.inverse_weights, schedule.log_table)
    )
    waits = negative_log2(bits, table) * inverse[num_alike.clamp(max=MOST_ALIKE)]  # at most 62 * 2**(32 + 24)
    return torch.where(temperature == 0, bits, _HIGHEST - waits)


def negative_log2(bits: Tensor, table: Tensor) -> Tensor:
    """-log2((bits + 1) / 2**62) of 62 bits: waits of one rate, the integer part of which says how many zeros lead.

    Between the steps of the table it is a straight line, above the curve by one in a thousand at most and the last
    bit; it never grows with the bits, so that slots of equal rates come in the order of their bits.

    Args:
        bits: int64 in [0, 2**62), any shape.
        table: `log_table`.

    Returns:
        int64 in units of 2**-32, from 0 to 62.
    """
    number, zeros = bits + 1, torch.zeros_like(bits)
    for num_places in (32, 16, 8, 4, 2, 1):
        shift = (number < 1 << (63 - num_places)) * num_places
        number, zeros = number << shift, zeros + shift
    step, between = (number >> 54) & (_LOG_STEPS - 1), (number >> 24) & ((1 << 30) - 1)
    low, high = table[step], table[step + 1]
    return (zeros << 32) - low - ((high - low) * between >> 30)
