"""Reference backend: torch operations on any device, slow and simple. It defines what a paste is."""

from segpaste.engine.reference.classmix import draw_classes
from segpaste.engine.reference.draws.draw import choose_rows, draw
from segpaste.engine.reference.inputs import extend, stage_crops, survey
from segpaste.engine.reference.stages import compose

__all__ = ["choose_rows", "compose", "draw", "draw_classes", "extend", "stage_crops", "survey"]
