"""Reference backend: torch operations on any device, slow and simple. It defines what a paste is."""

from segpaste.engine.reference.classmix import draw_classes
from segpaste.engine.reference.crops import stage_crops
from segpaste.engine.reference.draws.draw import choose_rows, draw
from segpaste.engine.reference.extend import extend
from segpaste.engine.reference.stages import compose
from segpaste.engine.reference.survey import survey

__all__ = ["choose_rows", "compose", "draw", "draw_classes", "extend", "stage_crops", "survey"]
