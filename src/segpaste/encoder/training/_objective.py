"""Training objective: encoder and losses as one module."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from segpaste.encoder.model.encoder import BinaryAttributeEncoder
from segpaste.encoder.model.losses import EncoderLosses
from segpaste.encoder.training.config import TrainConfig


class Objective(nn.Module):
    """Module of the encoder and the losses, whose parameters are trained together.

    Args:
        encoder: encoder of the vectors.
        losses: losses of its output.
    """

    def __init__(self, encoder: BinaryAttributeEncoder, losses: EncoderLosses) -> None:
        super().__init__()
        self.encoder, self.losses = encoder, losses

    def forward(self, vectors: Tensor, labels: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return the total loss of a batch, and each loss in the order of the names.

        Args:
            vectors: float [B, D].
            labels: int64 [B].
        """
        values = self.losses(self.encoder(vectors), self.encoder.standardise(vectors), labels)
        return self.losses.total(values), list(values.values())


def make_objective(vectors: Tensor, num_classes: int, config: TrainConfig) -> Objective:
    """Create an objective on the device of the vectors; its parameters are a pure function of the arguments.

    Args:
        vectors: vectors of the training set, float [N, D].
        num_classes: number of classes of the training set.
        config: configuration with the sizes, losses and seed.
    """
    trainer = config.trainer
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(trainer.seed)
        encoder = BinaryAttributeEncoder(vectors.shape[1], **config.model.model_dump())
        losses = EncoderLosses(
            trainer.losses,
            trainer.loss_weights.model_dump(),
            num_attributes=config.model.num_attributes,
            num_classes=num_classes,
            triplet_margin=trainer.triplet_margin,
            sparsity_target=trainer.sparsity_target,
        )
    encoder.fit_standardisation(vectors.cpu())
    return Objective(encoder, losses).to(vectors.device)
