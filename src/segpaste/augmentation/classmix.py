"""ClassMix: half of the classes of another image, pasted where they stand, and the instances of them with them.

After Olsson et al., "ClassMix: Segmentation-Based Data Augmentation for Semi-Supervised Learning", WACV 2021. What is
pasted is put into instance slots, so that every later stage is that of any other paste: the instances of the chosen
classes keep theirs, and one slot more holds the rest, which belongs to no instance. The rest takes no row of the
output.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from segpaste.augmentation import draw_slots, geometry
from segpaste.augmentation.placement import SCALE_DEN, Placement, PlacementCounts
from segpaste.augmentation.schedule import draw_counts
from segpaste.engine.reference import in_classes
from segpaste.types import PaddedBatchedDenseSample

NUM_CLASSES = 1024
"""Without a taxonomy classes from 0 to one below this are mixed; others stay where they are."""


def present_classes(batch: PaddedBatchedDenseSample, known: Tensor | None, ignore_index: int) -> Tensor:
    """Which classes have a pixel in the pictures of a batch, [B, num_classes] bool.

    Args:
        batch: with semantic maps.
        known: [num_classes] bool, the classes that may be mixed; None for all from 0 to `NUM_CLASSES` - 1.
        ignore_index: the class that is none.
    """
    assert batch.semantic_maps is not None
    num_classes = NUM_CLASSES if known is None else len(known)
    semantic = batch.semantic_maps
    counts = (semantic >= 0) & (semantic < num_classes) & (semantic != ignore_index)
    if batch.padding_mask is not None:
        counts = counts & ~batch.padding_mask[:, 0]
    index = torch.where(counts, semantic, num_classes).flatten(1)
    found = torch.zeros(batch.batch_size, num_classes + 1, dtype=torch.bool, device=batch.device)
    found = found.scatter(1, index, torch.ones_like(index, dtype=torch.bool))[:, :num_classes]
    return found if known is None else found & known.to(found.device)


def choose_classes(seeds: Tensor, present: Tensor) -> Tensor:
    """Half of the classes that are present, rounded up, uniformly at random, [B, L, num_classes] bool.

    Args:
        seeds: [B] int64, the targets' seeds.
        present: [B, L, num_classes] bool, of each layer's source.
    """
    num_layers, num_classes = present.shape[1:]
    layers = torch.arange(num_layers, device=seeds.device)[:, None]
    classes = torch.arange(num_classes, device=seeds.device)
    priority = draw_slots.random_where(present, seeds[:, None, None], "class", layers, classes)
    half = (present.sum(2) + 1) // 2
    return draw_slots.largest(priority.flatten(0, 1), half.flatten()).view_as(present)


class Mixture(NamedTuple):
    """The source rows and classes that are mixed into each target.

    Attributes:
        source_idx: [B, L] int64, the row of the batch that is the source of each layer (0 where it is not valid).
        layer_valid: [B, L] bool.
        seeds: [B] int64, the targets' seeds.
        limits: [4] int64, of the `segpaste.augmentation.schedule.Schedule`.
        num_free: [B] int64, their instance slots that a paste may take.
        present: [B, num_classes] bool, from `present_classes`.
        eligible: [B, K] bool, instances that may be pasted.
    """

    source_idx: Tensor
    layer_valid: Tensor
    seeds: Tensor
    limits: Tensor
    num_free: Tensor
    present: Tensor
    eligible: Tensor


def mixed_layers(
    batch: PaddedBatchedDenseSample, mixture: Mixture, ignore_index: int
) -> tuple[PaddedBatchedDenseSample, Placement, PlacementCounts]:
    """Make a source batch of what is pasted, and its placement.

    Args:
        batch: with semantic maps and instance masks.
        mixture: which rows and slots.
        ignore_index: the class that is none.

    Returns:
        A source batch of B * L rows with K + 1 slots, the last of them for what belongs to no instance; a placement
        that names its rows, one after the other; and what became of each try.
    """
    source_idx, layer_valid, seeds, limits, num_free, present, eligible = mixture
    tries, _ = draw_counts(limits, seeds)
    index, (num_targets, num_layers) = source_idx.flatten(), source_idx.shape
    shown = layer_valid & tries[:, None]  # [B, L]
    classes = choose_classes(seeds, present[source_idx]) & shown[..., None]
    of_class = classes.flatten(0, 1)  # [B * L, num_classes]

    source = batch.map_tensors(lambda t: t.index_select(0, index))
    assert source.semantic_maps is not None
    semantic = source.semantic_maps
    in_class = in_classes(semantic, of_class)
    wanted = eligible[index] & in_classes(source.labels[:, :, None], of_class)[..., 0]
    rest = in_class & ~_of_instances(source, wanted)
    if source.padding_mask is not None:
        rest = rest & ~source.padding_mask[:, 0]
    has_rest = rest.flatten(1).any(1).view(num_targets, num_layers)

    wanted = wanted.view(num_targets, num_layers, batch.max_instances)
    priority = draw_slots.random_where(
        wanted,
        seeds[:, None, None],
        "slot",
        torch.arange(num_layers, device=wanted.device)[:, None],
        torch.arange(wanted.shape[2], device=wanted.device),
    )
    kept = draw_slots.largest(priority.flatten(1), num_free).view_as(wanted)
    placement = _where_they_stand(source_idx, layer_valid, torch.cat([kept, has_rest[..., None]], 2))
    no_source = (tries & ~layer_valid.any(1)).to(torch.int64)
    num_wanted = wanted.sum((1, 2))
    counts = PlacementCounts(
        tried=num_wanted + has_rest.sum(1) + no_source,
        no_source=no_source,
        no_free_slot=num_wanted - kept.sum((1, 2)),
        does_not_fit=torch.zeros_like(no_source),
    )
    return _with_rest(source, rest, in_class, ignore_index), placement, counts


def _of_instances(source: PaddedBatchedDenseSample, wanted: Tensor) -> Tensor:
    """The pixels that are pasted with an instance or not at all, [S, H, W] bool."""
    if source.panoptic_maps is not None:
        return source.panoptic_maps != 0
    return geometry.covered(source, wanted)


def _with_rest(
    source: PaddedBatchedDenseSample, rest: Tensor, in_class: Tensor, ignore_index: int
) -> PaddedBatchedDenseSample:
    """The source with one slot more, and nothing to see outside of the chosen classes."""
    assert source.instance_masks is not None
    assert source.instance_ids is not None
    assert source.semantic_maps is not None
    extent = geometry.valid_extent(source.padding_mask, source.batch_size, source.canvas_size, source.device)
    everywhere = torch.cat([torch.zeros_like(extent), extent], 1)[:, None]
    return source.derived(
        instance_masks=torch.cat([source.instance_masks, rest[:, None]], 1),
        boxes=torch.cat([source.boxes, everywhere.to(source.boxes.dtype)], 1),
        labels=F.pad(source.labels, [0, 1]),
        instance_ids=F.pad(source.instance_ids, [0, 1]),
        instance_valid=F.pad(source.instance_valid, [0, 1]),
        semantic_maps=torch.where(in_class, source.semantic_maps, ignore_index),
    )


def _where_they_stand(layers: Tensor, layer_valid: Tensor, carried: Tensor) -> Placement:
    """Every layer where it stands in its source; it names rows of what `mixed_layers` makes."""
    one = torch.full((*layers.shape, 2), SCALE_DEN, dtype=torch.int64, device=layers.device)
    return Placement(
        source_idx=torch.arange(layers.numel(), device=layers.device).view_as(layers),
        layer_valid=layer_valid,
        scale_num=one,
        scale_den=one.clone(),
        translate=torch.zeros_like(one),
        hflip=torch.zeros_like(layer_valid),
        carried=carried,
    )
