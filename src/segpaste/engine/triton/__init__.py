"""Backend for CUDA devices: survey, draws and pixels in Triton kernels, the decisions between them as in the reference.

Without such a device it runs on the CPU, slowly, through Triton's interpreter: set ``TRITON_INTERPRET=1`` before
anything imports triton.
"""

from __future__ import annotations

from segpaste.engine import reference
from segpaste.engine.records import Outcome, Placement, Scene
from segpaste.engine.triton import pixels
from segpaste.engine.triton.crops import stage_crops
from segpaste.engine.triton.draws.classes import draw_classes
from segpaste.engine.triton.draws.draw import choose_rows, draw
from segpaste.engine.triton.draws.survey import survey

__all__ = ["choose_rows", "compose", "draw", "draw_classes", "stage_crops", "survey"]


def compose(scene: Scene, placement: Placement, *, with_layer: bool, in_place: bool) -> Outcome:
    """See `segpaste.engine.reference.stages.compose`."""
    return reference.compose(scene, placement, with_layer=with_layer, in_place=in_place, pixels=pixels)
