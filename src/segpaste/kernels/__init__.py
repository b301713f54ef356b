"""The pixels: resolve, measure, render. One meaning, written once per kind of device.

Nothing outside this package reads or writes a pixel of a paste, and nothing inside it computes a coordinate.
"""

from segpaste.kernels.operands import AxisTable, LayerPlan, Measures, Planes, SlotPlan, Visible
from segpaste.kernels.ops import focal_ratio, measure, render, resolve
from segpaste.kernels.select import use_kernels

__all__ = [
    "AxisTable",
    "LayerPlan",
    "Measures",
    "Planes",
    "SlotPlan",
    "Visible",
    "focal_ratio",
    "measure",
    "render",
    "resolve",
    "use_kernels",
]
