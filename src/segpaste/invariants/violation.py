"""Violations that a check returns, and the error that lists them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor

_MAX_LINES = 20
_PLACES = {
    1: ("in the image", ""),
    2: ("in slot {0}", "{num} slots"),
    3: ("at pixel (y {0}, x {1})", "{num} pixels"),
}


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule that one image breaks.

    Attributes:
        invariant: name of the check.
        image_idx: row of the batch.
        expected: expectation of the rule.
        came: value in the batch, and its place.
    """

    invariant: str
    image_idx: int
    expected: str
    came: str

    def __str__(self) -> str:
        return f"{self.invariant}: image {self.image_idx}: expected {self.expected}, got {self.came}"


class InvariantError(AssertionError):
    """Error raised for violations; ``violations`` has all of them, the message the first ones."""

    def __init__(self, violations: Iterable[Violation]) -> None:
        self.violations = tuple(violations)
        super().__init__(self.violations)

    def __str__(self) -> str:
        lines = [str(violation) for violation in self.violations[:_MAX_LINES]]
        more = len(self.violations) - len(lines)
        return "\n".join(lines + ([f"and {more} more"] if more else []))


def found(name: str, bad: Tensor, expected: str, came: str, **values: Tensor) -> list[Violation]:
    """Return one violation for each image that has a True in ``bad``, with the values at its first place.

    Args:
        name: name of the check.
        bad: bool, [B] per image, [B, K] per slot or [B, H, W] per pixel.
        expected: format string over ``values`` at that place.
        came: format string over ``values``, too.
        values: tensors whose first dimensions are those of ``bad``.
    """
    if not bool(bad.any()):
        return []
    where, others = _PLACES[bad.ndim]
    violations = []
    for image_idx in bad.reshape(bad.shape[0], -1).any(1).nonzero().flatten().tolist():
        places = bad[image_idx].nonzero()
        place = places[0].tolist()
        texts = {key: _text(value[(image_idx, *place)]) for key, value in values.items()}
        text = f"{came.format(**texts)} {where.format(*place)}"
        if len(places) > 1:
            text += f" (the first of {others.format(num=len(places))})"
        violations.append(Violation(name, image_idx, expected.format(**texts), text))
    return violations


def _text(value: Tensor) -> str:
    if value.ndim:
        return "(" + ", ".join(_text(v) for v in value) + ")"
    return f"{value.item():.6g}" if value.is_floating_point() else str(value.item())
