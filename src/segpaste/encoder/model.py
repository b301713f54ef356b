"""Encoder of vectors as K binary attributes, with a decoder, and its losses.

    z = encoder((x - mean) / std)             logits, [B, K]
    b = [z > 0]                               codes, 0 or 1
    y = decoder(b)                            reconstruction of the standardised x, [B, D]

Rounding has no gradient, so the gradient of the sigmoid is used, db/dz = s(z) (1 - s(z)): the straight-through
estimator of Bengio, Léonard and Courville, "Estimating or propagating gradients through stochastic neurons for
conditional computation", arXiv 1308.3432.

The weighted sum of the losses is minimised:

    mse             mean squared error of the reconstruction of standardised vectors; predicting their mean gives 1
    triplet         mean of relu(d(a, p) - d(a, n) + margin) over the triplets of the batch where it is not 0, with p of
                    the class of a and n of another class; d is the share of attributes that differ
    sparsity        mean over the attributes of (share of the batch that has the attribute - target)^2
    angular_margin  ArcFace (Deng et al., CVPR 2019) over codes of -1 and 1, whose cosine is 1 - 2 d

Triplet and angular margin are the losses of pytorch-metric-learning. The angular margin has parameters, a direction for
each class, which are trained together with the encoder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from segpaste.extras import require

LossName = Literal["mse", "triplet", "sparsity", "angular_margin"]


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


class EncoderLosses(nn.Module):
    """Module of the selected losses.

    Args:
        names: names of the losses.
        weights: weight of each loss by name, 1 by default; weights of other losses are ignored.
        num_attributes: number of attributes, K.
        num_classes: number of classes of the training set.
        triplet_margin: margin of the triplet loss, as a share of the attributes.
        sparsity_target: target of the sparsity loss, as a share of the batch.

    Raises:
        ValueError: no loss is named, or a name is unknown.
        ImportError: pytorch-metric-learning is needed but not installed; the message says how to install it.
    """

    def __init__(
        self,
        names: Sequence[LossName],
        weights: Mapping[str, float],
        *,
        num_attributes: int,
        num_classes: int,
        triplet_margin: float = 0.2,
        sparsity_target: float = 0.2,
    ) -> None:
        super().__init__()
        makers: dict[str, Any] = {
            "mse": _Reconstruction,
            "triplet": lambda: _Triplet(triplet_margin),
            "sparsity": lambda: _Sparsity(sparsity_target),
            "angular_margin": lambda: _AngularMargin(num_attributes, num_classes),
        }
        if unknown := [name for name in (*names, *weights) if name not in makers]:
            raise ValueError(f"EncoderLosses: expected the losses {', '.join(makers)}, got {unknown[0]!r}")
        if not names:
            raise ValueError(f"EncoderLosses: expected at least one of {', '.join(makers)}, got none")
        self.weights: dict[str, float] = {name: float(weights.get(name, 1.0)) for name in names}
        self.parts = nn.ModuleDict({name: makers[name]() for name in names})

    def forward(self, encoded: Encoded, standardised: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Return each loss of a batch, unweighted, by name.

        Args:
            encoded: output of the encoder.
            standardised: standardised input of the encoder, float [B, D].
            labels: int64 [B].
        """
        return {name: part(encoded, standardised, labels) for name, part in self.parts.items()}

    def total(self, values: Mapping[str, Tensor]) -> Tensor:
        """Return the weighted sum of the losses that `forward` returned."""
        return torch.stack([self.weights[name] * value for name, value in values.items()]).sum()


class _Reconstruction(nn.Module):
    def forward(self, encoded: Encoded, standardised: Tensor, labels: Tensor) -> Tensor:
        return nn.functional.mse_loss(encoded.reconstruction, standardised)


class _Triplet(nn.Module):
    def __init__(self, margin: float) -> None:
        super().__init__()
        distances = require("pytorch_metric_learning.distances")
        distance = distances.LpDistance(p=1, normalize_embeddings=False)  # number of attributes that differ
        self.loss = require("pytorch_metric_learning.losses").TripletMarginLoss(margin=margin, distance=distance)

    def forward(self, encoded: Encoded, standardised: Tensor, labels: Tensor) -> Tensor:
        value: Tensor = self.loss(encoded.codes / encoded.codes.shape[1], labels)
        return value


class _Sparsity(nn.Module):
    def __init__(self, target: float) -> None:
        super().__init__()
        self.target = target

    def forward(self, encoded: Encoded, standardised: Tensor, labels: Tensor) -> Tensor:
        return (encoded.codes.mean(dim=0) - self.target).square().mean()


class _AngularMargin(nn.Module):
    def __init__(self, num_attributes: int, num_classes: int) -> None:
        super().__init__()
        self.loss = require("pytorch_metric_learning.losses").ArcFaceLoss(num_classes, num_attributes)

    def forward(self, encoded: Encoded, standardised: Tensor, labels: Tensor) -> Tensor:
        value: Tensor = self.loss(2 * encoded.codes - 1, labels)
        return value
