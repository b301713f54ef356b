"""Labels for the samplers of N classes."""

from __future__ import annotations

import torch

from segpaste.samplers import ExhaustiveNxMSampler, NxMSampler, RandomNxMSampler

LABELS = torch.tensor([0, 0, 0, 0, 0, 1, 1, 1, 2, 2])
TAIL = [0] * 100 + [c for c in range(1, 10) for _ in range(4)]
BOTH: tuple[type[NxMSampler], ...] = (RandomNxMSampler, ExhaustiveNxMSampler)
