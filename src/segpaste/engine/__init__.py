"""What a paste is: a survey of the batch, the draws, and everything after them, written once per kind of device.

Nothing outside this package reads or writes a pixel of a paste, or computes where one lies.
"""

from segpaste.engine.planes import empty_plane
from segpaste.engine.records import (
    Classes,
    Drawn,
    DrawRules,
    DrawTables,
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
from segpaste.engine.select import Engine, engine_for, use_backend

__all__ = [
    "Classes",
    "DrawRules",
    "DrawTables",
    "Drawn",
    "Engine",
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
