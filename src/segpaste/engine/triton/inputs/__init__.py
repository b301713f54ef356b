"""Kernels before a paste: staging the crops of a bank, and extending the canvas and the slots of a batch."""

from segpaste.engine.triton.inputs.crops import stage_crops
from segpaste.engine.triton.inputs.extending import extend

__all__ = ["extend", "stage_crops"]
