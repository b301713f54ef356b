"""Samplers of class-structured batches: N classes and M samples of each class; see `segpaste.samplers.nxm`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segpaste._lazy import lazy_names

if TYPE_CHECKING:
    from segpaste.samplers.classes import Labels as Labels
    from segpaste.samplers.classes import rarest_labels as rarest_labels
    from segpaste.samplers.epoch import epoch_batches as epoch_batches
    from segpaste.samplers.nxm import ExhaustiveNxMSampler as ExhaustiveNxMSampler
    from segpaste.samplers.nxm import LeftOut as LeftOut
    from segpaste.samplers.nxm import NxMBatches as NxMBatches
    from segpaste.samplers.nxm import NxMReport as NxMReport
    from segpaste.samplers.nxm import NxMSampler as NxMSampler
    from segpaste.samplers.nxm import RandomNxMSampler as RandomNxMSampler

_HOMES = {
    "segpaste.samplers.classes": ("Labels", "rarest_labels"),
    "segpaste.samplers.epoch": ("epoch_batches",),
    "segpaste.samplers.nxm": (
        "ExhaustiveNxMSampler",
        "LeftOut",
        "NxMBatches",
        "NxMReport",
        "NxMSampler",
        "RandomNxMSampler",
    ),
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
