"""Copy-paste augmentation: the module, its config, sources of objects, and placements."""

from segpaste.augmentation.batch_copy_paste import BatchCopyPaste
from segpaste.augmentation.config.paste import (
    BatchCopyPasteConfig,
    HarmonizeConfig,
    PanopticConfig,
    PanopticTaxonomy,
    SourceConfig,
)
from segpaste.augmentation.config.placement import OriginalsConfig, PlacementConfig, SizeRange
from segpaste.augmentation.report import DROP_REASONS, LOSS_REASONS, PasteReport, PasteSummary, num_mixed_tokens
from segpaste.augmentation.schedule import Schedule
from segpaste.augmentation.sources.bank_source import BankSource
from segpaste.augmentation.sources.strategies import IntraBatchSource, PlacementRequest, RowStrategy, SourceStrategy
from segpaste.engine import LayerRows, Placement, PlacementCounts

__all__ = [
    "DROP_REASONS",
    "LOSS_REASONS",
    "BankSource",
    "BatchCopyPaste",
    "BatchCopyPasteConfig",
    "HarmonizeConfig",
    "IntraBatchSource",
    "LayerRows",
    "OriginalsConfig",
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
