"""The pixels: resolve, measure, render. One meaning, written once per kind of device.

Nothing outside this package reads or writes a pixel of a paste. Nothing inside it computes a coordinate, except the
native backend, which does a whole paste at once.
"""

from segpaste.engine.operands import (
    AxisTable,
    LayerPlan,
    Measures,
    Planes,
    Ranks,
    SlotPlan,
    Visible,
    no_ranks,
)
from segpaste.engine.ops import focal_ratio, inverse_scale, measure, render, resolve
from segpaste.engine.select import pastes_whole, use_kernels
from segpaste.engine.whole_operands import (
    ClassKinds,
    DrawRanges,
    DrawTables,
    LayerMaps,
    Rows,
    Rules,
    Survey,
)
from segpaste.engine.whole_ops import draw, paste, survey

__all__ = [
    "AxisTable",
    "ClassKinds",
    "DrawRanges",
    "DrawTables",
    "LayerMaps",
    "LayerPlan",
    "Measures",
    "Planes",
    "Ranks",
    "Rows",
    "Rules",
    "SlotPlan",
    "Survey",
    "Visible",
    "draw",
    "focal_ratio",
    "inverse_scale",
    "measure",
    "no_ranks",
    "paste",
    "pastes_whole",
    "render",
    "resolve",
    "survey",
    "use_kernels",
]
