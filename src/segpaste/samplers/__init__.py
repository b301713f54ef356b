"""Samplers of class-structured batches: N classes and M samples of each class; see `segpaste.samplers.nxm`."""

from segpaste.samplers.classes import Labels, rarest_labels
from segpaste.samplers.epoch import epoch_batches
from segpaste.samplers.nxm import ExhaustiveNxMSampler, LeftOut, NxMBatches, NxMReport, NxMSampler, RandomNxMSampler

__all__ = [
    "ExhaustiveNxMSampler",
    "Labels",
    "LeftOut",
    "NxMBatches",
    "NxMReport",
    "NxMSampler",
    "RandomNxMSampler",
    "epoch_batches",
    "rarest_labels",
]
