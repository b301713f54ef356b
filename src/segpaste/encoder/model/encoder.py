"""Encoder of vectors as K binary attributes, with a decoder.

    z = encoder((x - mean) / std)             logits, [B, K]
    b = [z > 0]                               codes, 0 or 1
    y = decoder(b)                            reconstruction of the standardised x, [B, D]

Rounding has no gradient, so the gradient of the sigmoid is used, db/dz = s(z) (1 - s(z)): the straight-through
estimator of Bengio, Léonard and Courville, "Estimating or propagating gradients through stochastic neurons for
conditional computation", arXiv 1308.3432.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn


class Encoded(NamedTuple):
    """Output of `BinaryAttributeEncoder`.

    Attributes:
        codes: float [B, K], 0 or 1, with a gradient.
        logits: float [B, K]; a vector has an attribute if its logit is above 0.
        reconstruction: reconstruction of the standardised vectors, float [B, D].
    """

    codes: Tensor
    logits: Tensor
    reconstruction: Tensor


def binarise(logits: Tensor) -> Tensor:
    """Return 1 for each logit above 0, else 0, with the gradient of the sigmoid; same shape and dtype."""
    soft = logits.sigmoid()
    return (logits > 0).to(logits.dtype) + (soft - soft.detach())


class BinaryAttributeEncoder(nn.Module):
    """Autoencoder of two small networks with a layer of bits between them.

    Args:
        num_inputs: length of a vector, D.
        num_attributes: number of bits of a code, K.
        hidden: number of units in the hidden layer of each network.

    Attributes:
        mean, std: mean and standard deviation of the training vectors, [D]; see `fit_standardisation`.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, num_inputs: int = 256, num_attributes: int = 128, hidden: int = 256) -> None:
        super().__init__()
        self.num_inputs, self.num_attributes = num_inputs, num_attributes
        self.encoder = nn.Sequential(nn.Linear(num_inputs, hidden), nn.ReLU(), nn.Linear(hidden, num_attributes))
        self.decoder = nn.Sequential(nn.Linear(num_attributes, hidden), nn.ReLU(), nn.Linear(hidden, num_inputs))
        weight = next(self.parameters())
        self.register_buffer("mean", weight.new_zeros(num_inputs))
        self.register_buffer("std", weight.new_ones(num_inputs))

    def fit_standardisation(self, vectors: Tensor) -> None:
        """Set mean and standard deviation to those of vectors [N, D]; constant components are only centred."""
        exact = vectors.double()
        std = exact.std(dim=0, correction=0).to(self.std)
        self.mean.copy_(exact.mean(dim=0))
        self.std.copy_(torch.where(std > 0, std, 1.0))

    def standardise(self, vectors: Tensor) -> Tensor:
        """Scale vectors [B, D] so that the training set has mean 0 and standard deviation 1."""
        return (vectors - self.mean) / self.std

    def forward(self, vectors: Tensor) -> Encoded:
        """Encode and decode vectors, float [B, D]."""
        logits = self.encoder(self.standardise(vectors))
        codes = binarise(logits)
        return Encoded(codes, logits, self.decoder(codes))

    @torch.no_grad()
    def encode(self, vectors: Tensor) -> Tensor:
        """Return the codes of vectors, float [B, D], as bool [B, K]."""
        logits: Tensor = self.encoder(self.standardise(vectors))
        return logits > 0

    @torch.no_grad()
    def decode(self, codes: Tensor) -> Tensor:
        """Return the vectors of codes, bool or float [B, K], as float [B, D] in the scale of the training set."""
        vectors: Tensor = self.decoder(codes.to(self.mean.dtype)) * self.std + self.mean
        return vectors
