"""Copy-paste augmentation: the module, its config, sources of objects, and placements."""

from segpaste.augmentation.bank_source import BankSource
from segpaste.augmentation.batch_copy_paste import BatchCopyPaste
from segpaste.augmentation.config import (
    BatchCopyPasteConfig,
    PanopticConfig,
    PanopticTaxonomy,
    SourceConfig,
)
from segpaste.augmentation.harmonize_config import HarmonizeConfig
from segpaste.augmentation.placement import PlacementRequest
from segpaste.augmentation.placement_config import PlacementConfig, SizeRange
from segpaste.augmentation.report import DROP_REASONS, PasteReport, num_mixed_tokens
from segpaste.augmentation.schedule import Schedule
from segpaste.augmentation.source import IntraBatchSource, RowStrategy, SourceStrategy
from segpaste.augmentation.summary import PasteSummary
from segpaste.engine import LayerRows, Placement, PlacementCounts

__all__ = [
    "DROP_REASONS",
    "BankSource",
    "BatchCopyPaste",
    "BatchCopyPasteConfig",
    "HarmonizeConfig",
    "IntraBatchSource",
    "LayerRows",
    "PanopticConfig",
    "PanopticTaxonomy",
    "PasteReport",
    "PasteSummary",
    "Placement",
    "PlacementConfig",
    "PlacementCounts",
    "PlacementRequest",
    "RowStrategy",
    "Schedule",
    "SizeRange",
    "SourceConfig",
    "SourceStrategy",
    "num_mixed_tokens",
]
