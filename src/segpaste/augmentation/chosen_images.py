"""Images of a batch beyond its share, which are left out after the draws: nothing is tried for them."""

from __future__ import annotations

from dataclasses import fields, replace

from torch import Tensor

from segpaste.engine import Drawn


def without(drawn: Drawn, images: Tensor | None) -> Drawn:
    """Return draws without those of some images, [B] bool."""
    if images is None:
        return drawn
    placement, counts = drawn
    placement = replace(
        placement,
        translate=placement.translate.masked_fill(images[:, None, None], 0),
        carried=placement.carried & ~images[:, None, None],
    )
    given = {field.name: getattr(counts, field.name) for field in fields(counts)}
    kept = {name: value.masked_fill(images, 0) for name, value in given.items() if value is not None}
    return placement, replace(counts, **kept)
