"""Presets by name."""

from __future__ import annotations

import difflib

from segpaste.presets.preset import Preset
from segpaste.presets.recipes import RECIPES

_known: dict[str, Preset] = {recipe.name: recipe for recipe in RECIPES}


def register_preset(preset: Preset) -> Preset:
    """Make a preset known by its name; returns it.

    Raises:
        ValueError: another one has the name.
    """
    if _known.get(preset.name, preset) != preset:
        raise ValueError(f"register_preset: expected a name that is free, got {preset.name!r}; give it another one")
    _known[preset.name] = preset
    return preset


def get_preset(name: str) -> Preset:
    """The preset of this name.

    Raises:
        ValueError: there is none, naming the nearest.
    """
    if name not in _known:
        near = difflib.get_close_matches(name, _known, n=1, cutoff=0.0)[0]
        raise ValueError(f"get_preset: expected one of {', '.join(list_presets())}, got {name!r}; is it {near!r}?")
    return _known[name]


def list_presets() -> list[str]:
    """All names, sorted."""
    return sorted(_known)
