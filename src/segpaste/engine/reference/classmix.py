"""ClassMix: paste half of the classes of another image, with their instances, at the same position.

After Olsson et al., "ClassMix: Segmentation-Based Data Augmentation for Semi-Supervised Learning", WACV 2021.
All pasted pixels are put into instance slots, so that later stages treat them like any other paste: instances of the
chosen classes keep their slots, and one additional slot holds the fragment, the pixels that belong to no instance. The
fragment takes no row of the output.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from segpaste.engine.record_fields import names_of
from segpaste.engine.reference import geometry
from segpaste.engine.reference.draws.slots import draw_counts, largest, random_where
from segpaste.engine.reference.pixels import in_classes
from segpaste.engine.schema import (
    SCALE_DEN,
    Classes,
    DrawTables,
    LayerRows,
    Mixture,
    Placement,
    PlacementCounts,
    Scene,
    Survey,
)
from segpaste.types import PaddedBatchedDenseSample
from segpaste.types.check import not_none

COUNTED = ("tried", "no_source", "no_free_slot")
"""Counts that ClassMix has; the others are zero."""

NOT_COUNTED = tuple(name for name in names_of(PlacementCounts) if name not in COUNTED)

NUM_CLASSES = 1024
"""Number of classes without a taxonomy: those from 0 to `NUM_CLASSES` - 1 are mixed."""


def mixable(classes: Classes) -> Tensor | None:
    """Return the classes of a taxonomy, [num_classes] bool; None without a taxonomy."""
    if classes.is_thing is None or classes.is_stuff is None:
        return None
    return classes.is_thing | classes.is_stuff


def present_classes(batch: PaddedBatchedDenseSample, known: Tensor | None, ignore_index: int) -> Tensor:
    """Return the classes that have a pixel outside of padding in each image, [B, num_classes] bool.

    Args:
        batch: images with semantic maps.
        known: [num_classes] bool, the classes that may be mixed; None for all from 0 to `NUM_CLASSES` - 1.
        ignore_index: semantic class of unlabelled pixels.
    """
    num_classes = NUM_CLASSES if known is None else len(known)
    semantic = not_none(batch.semantic_maps)
    counts = (semantic >= 0) & (semantic < num_classes) & (semantic != ignore_index)
    if batch.padding_mask is not None:
        counts = counts & ~batch.padding_mask[:, 0]
    index = torch.where(counts, semantic, num_classes).flatten(1)
    found = torch.zeros(batch.batch_size, num_classes + 1, dtype=torch.bool, device=batch.device)
    found = found.scatter(1, index, torch.ones_like(index, dtype=torch.bool))[:, :num_classes]
    return found if known is None else found & known.to(found.device)


def choose_classes(seeds: Tensor, present: Tensor) -> Tensor:
    """Choose half of the present classes, rounded up, uniformly at random, [B, L, num_classes] bool.

    Args:
        seeds: [B] int64, the targets' seeds.
        present: [B, L, num_classes] bool, classes of each layer's source.
    """
    num_layers, num_classes = present.shape[1:]
    layers = torch.arange(num_layers, device=seeds.device)[:, None]
    classes = torch.arange(num_classes, device=seeds.device)
    priority = random_where(present, seeds[:, None, None], "class", layers, classes)
    half = (present.sum(2) + 1) // 2
    return largest(priority.flatten(0, 1), half.flatten()).view_as(present)


def draw_classes(
    batch: PaddedBatchedDenseSample, found: Survey, rows: LayerRows, tables: DrawTables
) -> tuple[Placement, PlacementCounts, Mixture]:
    """Choose classes of each layer's source, and as many of their instances as the target has free slots.

    Args:
        batch: targets and sources, with semantic maps, instance masks and seeds.
        found: survey of the batch, with ``present``.
        rows: row of the batch that each layer takes.
        tables: ``limits`` gives the probability of pasting.

    Returns:
        The placement, whose sources have one more slot, the fragment; the counts of the tries; and the classes.
    """
    seeds, index = not_none(batch.sample_seeds), rows.source_idx
    tries, _ = draw_counts(tables.limits, seeds)
    shown = rows.layer_valid & tries[:, None]  # [B, L]
    classes = choose_classes(seeds, not_none(found.present)[index]) & shown[..., None]
    mixture = Mixture(classes, found.eligible)
    wanted = _wanted(batch, index, mixture)
    layers = torch.arange(wanted.shape[1], device=wanted.device)[:, None]
    slots = torch.arange(wanted.shape[2], device=wanted.device)
    priority = random_where(wanted, seeds[:, None, None], "slot", layers, slots)
    kept = largest(priority.flatten(1), found.num_free).view_as(wanted)
    _, fragment, _ = _fragments(batch, index, mixture)
    has_fragment = fragment.flatten(1).any(1).view_as(shown)
    no_source = (tries & ~rows.layer_valid.any(1)).to(torch.int64)
    num_wanted = wanted.sum((1, 2))
    counts = PlacementCounts(
        tried=num_wanted + has_fragment.sum(1) + no_source,
        no_source=no_source,
        no_free_slot=num_wanted - kept.sum((1, 2)),
        **{name: torch.zeros_like(no_source) for name in NOT_COUNTED},
    )
    return where_they_stand(rows, torch.cat([kept, has_fragment[..., None]], 2)), counts, mixture


def unmixed(scene: Scene, mixture: Mixture, placement: Placement) -> tuple[Scene, Placement]:
    """Return the same paste with a source row for each layer, B * L rows, in which all other classes are ignored."""
    index = placement.source_idx
    rows, fragment, in_class = _fragments(scene.source, index, mixture)
    extent = geometry.valid_extent(rows)
    everywhere = torch.cat([torch.zeros_like(extent), extent], 1)[:, None]
    mixed = rows.derived(
        instance_masks=torch.cat([not_none(rows.instance_masks), fragment[:, None]], 1),
        boxes=torch.cat([rows.boxes, everywhere.to(rows.boxes.dtype)], 1),
        labels=F.pad(rows.labels, [0, 1]),
        instance_ids=F.pad(not_none(rows.instance_ids), [0, 1]),
        instance_valid=F.pad(rows.instance_valid, [0, 1]),
        semantic_maps=torch.where(in_class, not_none(rows.semantic_maps), scene.rules.ignore_index),
    )
    own = torch.arange(index.numel(), device=index.device).view_as(index)
    return replace(scene, source=mixed), replace(placement, source_idx=own)


def _wanted(source: PaddedBatchedDenseSample, index: Tensor, mixture: Mixture) -> Tensor:
    """Return the instances of the chosen classes in each layer's source, [B, L, K] bool."""
    of_class = mixture.classes.flatten(0, 1)
    labels, eligible = source.labels[index].flatten(0, 1), mixture.eligible[index].flatten(0, 1)
    return (eligible & in_classes(labels[:, :, None], of_class)[..., 0]).view(*index.shape, source.max_instances)


def _fragments(
    source: PaddedBatchedDenseSample, index: Tensor, mixture: Mixture
) -> tuple[PaddedBatchedDenseSample, Tensor, Tensor]:
    """Return the rows of all layers, the pixels of their classes outside of instances, and all pixels of their classes.

    Both are [B * L, H, W] bool.
    """
    rows = source.map_tensors(lambda t: t.index_select(0, index.flatten()))
    in_class = in_classes(not_none(rows.semantic_maps), mixture.classes.flatten(0, 1))
    fragment = in_class
    if rows.panoptic_maps is not None:
        fragment = fragment & (rows.panoptic_maps == 0)
    else:
        fragment = fragment & ~geometry.covered(rows, _wanted(source, index, mixture).flatten(0, 1))
    if rows.padding_mask is not None:
        fragment = fragment & ~rows.padding_mask[:, 0]
    return rows, fragment, in_class


def where_they_stand(rows: LayerRows, carried: Tensor) -> Placement:
    """Return the placement that puts every layer at the same position as in its source."""
    shape = *rows.source_idx.shape, 2
    one = torch.full(shape, SCALE_DEN, dtype=torch.int64, device=carried.device)
    return Placement(
        source_idx=rows.source_idx,
        layer_valid=rows.layer_valid,
        scale_num=one,
        scale_den=one.clone(),
        translate=torch.zeros_like(one),
        hflip=torch.zeros_like(rows.layer_valid),
        carried=carried,
        vflip=torch.zeros_like(rows.layer_valid),
        swap_axes=torch.zeros_like(rows.layer_valid),
    )
