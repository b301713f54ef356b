"""Rules of one module, as the engine of a call takes them: numbers, or a tensor that compiled code reads."""

from __future__ import annotations

from typing import Any, cast

import torch

from segpaste.augmentation.rules.tables import table
from segpaste.engine import DrawRules, PasteRules
from segpaste.engine.schema import HeldRules


class ModuleRules:
    """Rules of the draws and of the composition.

    Compiled code is compiled again for every number that it reads from a module, and torch allows eight such versions.
    So on the CPU it gets the rules as tensors. On other devices it gets the numbers: their operators are recorded with
    them in CUDA graphs.

    Args:
        draw: rules of the draws.
        paste: rules of the composition.
    """

    def __init__(self, draw: DrawRules, paste: PasteRules) -> None:
        self._draw, self._paste = draw, paste
        self._held = [HeldRules(table([*map(int, rules)]), draw.num_layers) for rules in (draw, paste)]
        self._depend_on_canvas = bool(draw.on_grid)

    def draw(self, device: torch.device) -> DrawRules:
        """Return the rules of the draws for a batch on a device."""
        return cast(DrawRules, self._held[0]) if self._are_held(device) and not self._depend_on_canvas else self._draw

    def paste(self, device: torch.device) -> PasteRules:
        """Return the rules of the composition for a batch on a device."""
        return cast(PasteRules, self._held[1]) if self._are_held(device) else self._paste

    @staticmethod
    def _are_held(device: torch.device) -> bool:
        return device.type == "cpu" and torch.compiler.is_compiling() and not torch.compiler.is_exporting()

    def __reduce__(self) -> tuple[Any, ...]:
        return ModuleRules, (self._draw, self._paste)
