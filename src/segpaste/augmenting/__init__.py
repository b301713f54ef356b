"""An augmented dataset: its inputs, pastes, steps, report and replay, as functions that the command line calls, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segpaste._lazy import lazy_names

if TYPE_CHECKING:
    from segpaste.augmenting.augment import augment_dataset as augment_dataset
    from segpaste.augmenting.options import AugmentError as AugmentError
    from segpaste.augmenting.options import NothingToPasteError as NothingToPasteError
    from segpaste.augmenting.replay import ReplaySummary as ReplaySummary
    from segpaste.augmenting.replay import replay_dataset as replay_dataset
    from segpaste.augmenting.summary import AugmentSummary as AugmentSummary

_HOMES = {
    "segpaste.augmenting.augment": ("augment_dataset",),
    "segpaste.augmenting.replay": ("ReplaySummary", "replay_dataset"),
    "segpaste.augmenting.summary": ("AugmentSummary",),
    "segpaste.augmenting.options": ("AugmentError", "NothingToPasteError"),
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
