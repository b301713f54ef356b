"""Named recipes: configurations of a paste and its loader, from published or well-tried trainings."""

from segpaste.presets.preset import LoaderOptions, Preset
from segpaste.presets.recipes import get_preset, list_presets, register_preset
from segpaste.presets.sizes import class_size_ranges

__all__ = ["LoaderOptions", "Preset", "class_size_ranges", "get_preset", "list_presets", "register_preset"]
