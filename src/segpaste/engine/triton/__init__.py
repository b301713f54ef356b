"""Backend for CUDA devices: the reference, with its pixel functions replaced by Triton kernels.

Without such a device it runs on the CPU, slowly, through Triton's interpreter: set ``TRITON_INTERPRET=1`` before
anything imports triton.
"""

from __future__ import annotations

from segpaste.engine import reference
from segpaste.engine.records import Outcome, Placement, Scene
from segpaste.engine.reference import choose_rows, draw, draw_classes, survey
from segpaste.engine.triton import pixels
from segpaste.engine.triton.crops import stage_crops

__all__ = ["choose_rows", "compose", "draw", "draw_classes", "stage_crops", "survey"]


def compose(scene: Scene, placement: Placement, *, with_layer: bool, in_place: bool) -> Outcome:
    """See `segpaste.engine.reference.stages.compose`."""
    return reference.compose(scene, placement, with_layer=with_layer, in_place=in_place, pixels=pixels)
