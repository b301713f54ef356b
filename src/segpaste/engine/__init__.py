"""Engine of a paste: a survey of the batch, the draws and the composition, with a backend for each kind of device.

Only this package draws placements and composes pixels; `segpaste.augmentation.harmonize` adjusts pasted colours later.
"""

from segpaste.engine.dispatch import engine_for
from segpaste.engine.planes import empty_plane
from segpaste.engine.schema import (
    Classes,
    CropRows,
    Crops,
    Drawn,
    DrawRules,
    DrawTables,
    GivenBoxes,
    LayerRows,
    Mixture,
    Outcome,
    PasteRules,
    Placement,
    PlacementCounts,
    Scene,
    Sources,
    Survey,
    Targets,
)
from segpaste.engine.select import Engine, use_backend

__all__ = [
    "Classes",
    "CropRows",
    "Crops",
    "DrawRules",
    "DrawTables",
    "Drawn",
    "Engine",
    "GivenBoxes",
    "LayerRows",
    "Mixture",
    "Outcome",
    "PasteRules",
    "Placement",
    "PlacementCounts",
    "Scene",
    "Sources",
    "Survey",
    "Targets",
    "empty_plane",
    "engine_for",
    "use_backend",
]
