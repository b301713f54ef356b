"""The encoder: vectors into K attributes that are there or not, and back.

    z = encoder((x - mean) / std)             logits, [B, K]
    b = [z > 0]                               codes, 0 or 1
    y = decoder(b)                            the standardised x again, [B, D]

Rounding has no gradient; that of the sigmoid stands for it, db/dz = s(z) (1 - s(z)): the straight-through estimator of
Bengio, Léonard and Courville, "Estimating or propagating gradients through stochastic neurons for conditional
computation", arXiv 1308.3432.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn


class Encoded(NamedTuple):
    """What `BinaryAttributeEncoder` makes of vectors.

    Attributes:
        codes: float [B, K], 0 or 1, with a gradient.
        logits: float [B, K]; an attribute is there where it is above 0.
        reconstruction: float [B, D], of the standardised vectors.
    """

    codes: Tensor
    logits: Tensor
    reconstruction: Tensor


def binarise(logits: Tensor) -> Tensor:
    """1 where a logit is above 0, else 0, with the gradient of the sigmoid; same shape and dtype."""
    soft = logits.sigmoid()
    return (logits > 0).to(logits.dtype) + (soft - soft.detach())


class BinaryAttributeEncoder(nn.Module):
    """Two small networks with a layer of bits between them.

    Args:
        num_inputs: D, numbers of a vector.
        num_attributes: K, bits of a code.
        hidden: units of the one hidden layer of each network.

    Attributes:
        mean, std: of the vectors that it was trained on, [D]; see `fit_standardisation`.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, num_inputs: int = 256, num_attributes: int = 128, hidden: int = 256) -> None:
        super().__init__()
        self.num_inputs, self.num_attributes = num_inputs, num_attributes
        self.encoder = nn.Sequential(nn.Linear(num_inputs, hidden), nn.ReLU(), nn.Linear(hidden, num_attributes))
        self.decoder = nn.Sequential(nn.Linear(num_attributes, hidden), nn.ReLU(), nn.Linear(hidden, num_inputs))
        self.register_buffer("mean", torch.zeros(num_inputs))
        self.register_buffer("std", torch.ones(num_inputs))

    def fit_standardisation(self, vectors: Tensor) -> None:
        """Take mean and standard deviation of these, [N, D]; numbers that never differ are only centred."""
        exact = vectors.double()
        std = exact.std(dim=0, correction=0).to(self.std)
        self.mean.copy_(exact.mean(dim=0))
        self.std.copy_(torch.where(std > 0, std, 1.0))

    def standardise(self, vectors: Tensor) -> Tensor:
        """Vectors [B, D] with mean 0 and standard deviation 1 over the training set."""
        return (vectors - self.mean) / self.std

    def forward(self, vectors: Tensor) -> Encoded:
        """Encode and decode vectors, float [B, D]."""
        logits = self.encoder(self.standardise(vectors))
        codes = binarise(logits)
        return Encoded(codes, logits, self.decoder(codes))

    @torch.no_grad()
    def encode(self, vectors: Tensor) -> Tensor:
        """The codes of vectors, float [B, D]: bool [B, K]."""
        logits: Tensor = self.encoder(self.standardise(vectors))
        return logits > 0

    @torch.no_grad()
    def decode(self, codes: Tensor) -> Tensor:
        """The vectors that codes, bool or float [B, K], stand for: float [B, D], in the unit of the training set."""
        vectors: Tensor = self.decoder(codes.to(self.mean.dtype)) * self.std + self.mean
        return vectors
