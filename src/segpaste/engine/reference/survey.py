"""Survey of a batch: the facts that the draws need."""

from __future__ import annotations

from segpaste.engine.reference import geometry
from segpaste.engine.reference.classmix import mixable, present_classes
from segpaste.engine.reference.pixels import looked_up
from segpaste.engine.schema import Classes, Survey
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.sampling import outward_boxes


def survey(
    batch: PaddedBatchedDenseSample, classes: Classes, ignore_index: int | None = None, *, whole_only: bool = False
) -> Survey:
    """Find the instances that may be pasted, the boxes and free slots of each image, and its extent.

    Args:
        batch: images with instance masks, K slots.
        classes: the taxonomy.
        ignore_index: semantic class of unlabelled pixels; if given, the classes that ClassMix may paste are found, too.
        whole_only: instances whose box touches the border of their image may not be pasted.
    """
    has_extent = (batch.boxes[..., 2:] > batch.boxes[..., :2]).all(-1)
    eligible = batch.instance_valid & has_extent
    if classes.is_thing is not None:
        eligible = eligible & looked_up(classes.is_thing, batch.labels)
    boxes, extent = outward_boxes(batch.boxes), geometry.valid_extent(batch)
    if whole_only:
        eligible = eligible & ~geometry.cut_sides(boxes, extent[:, None]).any(-1)
    present = None if ignore_index is None else present_classes(batch, mixable(classes), ignore_index)
    return Survey(
        eligible=eligible,
        occupied=boxes,
        num_free=(~batch.instance_valid).sum(1),
        extent=extent,
        present=present,
        has_present=None if present is None else present.any(1),
    )
