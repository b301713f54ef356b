"""Survey of a batch in two launches; in one launch without a padding mask and ClassMix."""

from __future__ import annotations

import torch
from torch import Tensor

from segpaste.engine.record_fields import empty
from segpaste.engine.reference.classmix import NUM_CLASSES
from segpaste.engine.schema import Classes, Survey
from segpaste.engine.triton.draws import _survey
from segpaste.engine.triton.launching import launch, plain, power_of_two
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.check import not_none

STRIPS = 64
"""Largest number of strips of an image, each of which has a program."""

PIXELS = 1024
"""Number of pixels that a program reads at once."""

SLOT_BLOCK = 128
"""Largest number of slots that a program handles at once."""

CLASS_BLOCK = 128
"""Largest number of classes that a program handles at once."""


def survey(
    batch: PaddedBatchedDenseSample, classes: Classes, ignore_index: int | None = None, *, whole_only: bool = False
) -> Survey:
    """See `segpaste.engine.reference.inputs.survey`."""
    (b, k), (height, width), device = batch.labels.shape, batch.canvas_size, batch.device
    is_thing, is_stuff = (None if t is None else plain(t.to(device)) for t in (classes.is_thing, classes.is_stuff))
    asks = ignore_index is not None
    num_classes = NUM_CLASSES if is_thing is None or is_stuff is None else len(is_thing)
    absent = {} if asks else dict.fromkeys(("present", "has_present"))
    found = empty(Survey, device, {"B": b, "K": k, "num_classes": num_classes}, **absent)
    num_strips, _ = strips_of(height * width)
    corners = strips = None
    if asks or batch.padding_mask is not None:
        corners, strips = _find_pixels(batch, found.present, ignore_index or 0, num_strips)
    launch(
        _survey.survey_rows,
        b,
        *(None if t is None else plain(t) for t in found),
        *(plain(t) for t in (batch.boxes, batch.labels, batch.instance_valid)),
        is_thing,
        is_stuff,
        corners,
        strips,
        *(k, height, width, num_strips),
        0 if is_thing is None else len(is_thing),
        0 if found.present is None else found.present.shape[1],
        WHOLE_ONLY=whole_only,
        SLOTS=min(power_of_two(k), SLOT_BLOCK),
        STRIPS=power_of_two(num_strips),
        CLASSES=CLASS_BLOCK,
    )
    return found


def strips_of(size: int) -> tuple[int, int]:
    """Return the number of strips of an image of ``size`` pixels, at least one, and their size."""
    blocks = -(-size // PIXELS)
    num_strips = max(1, min(STRIPS, blocks))
    return num_strips, -(-blocks // num_strips) * PIXELS


def _find_pixels(
    batch: PaddedBatchedDenseSample, present: Tensor | None, ignore_index: int, num_strips: int
) -> tuple[Tensor | None, Tensor | None]:
    """Return the ends of the strips of each image, and their classes; see `_survey.find_pixels`."""
    b, (height, width), device = batch.batch_size, batch.canvas_size, batch.device
    padding = None if batch.padding_mask is None else plain(batch.padding_mask)
    corners = torch.empty(b, num_strips, 2, dtype=torch.int32, device=device)
    found = semantic = None
    if present is not None:
        semantic = plain(not_none(batch.semantic_maps))
        found = torch.empty(b, num_strips, present.shape[1], dtype=torch.uint8, device=device)
    launch(
        _survey.find_pixels,
        b * num_strips,
        corners,
        found,
        padding,
        semantic,
        *(height, width, *strips_of(height * width)),
        0 if present is None else present.shape[1],
        ignore_index,
        PIXELS=PIXELS,
        CLASSES=CLASS_BLOCK,
    )
    return None if padding is None else corners, found
