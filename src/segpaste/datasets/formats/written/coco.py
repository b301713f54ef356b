"""Formats of COCO: instances with keypoints and crowds, Roboflow's folders, and panoptic segments.

Entries are written unchanged, with all their keys. See `segpaste.datasets.formats.coco_writer` for their form.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from segpaste.datasets.contract import JsonRow
from segpaste.datasets.formats.carried import REGION_KEYS
from segpaste.datasets.formats.coco.folders import COCO_FILE, PANOPTIC_FILE, ROBOFLOW_FILE
from segpaste.datasets.formats.coco_writer import Crowds, json_lines, panoptic_row, panoptic_segments
from segpaste.datasets.formats.pixel_bytes import picture_bytes
from segpaste.datasets.formats.written.format import (
    UNMASKED,
    File,
    LabelForm,
    Losses,
    WrittenFormat,
    WrittenSplit,
)
from segpaste.datasets.formats.written.owners import owners_of
from segpaste.types import IGNORE_INDEX, DenseSample, InstanceMask, PanopticMap, SemanticMap


class CocoInstances(WrittenFormat):
    """COCO instances, with keypoints and crowds."""

    name = "coco"
    title = "COCO"
    files = "SPLIT/NAME and annotations/instances_SPLIT.json; without splits images/NAME and annotations.json"
    holds = "masks, boxes, keypoints, crowds, all keys of entries"
    of_entries = True
    one_class_list = False
    by_stem = False
    keeps_extra_keys = True

    def split_name(self, split: str) -> str:
        """Return the name unchanged."""
        return split

    def photos_dir(self, split: str) -> str:
        """Return COCO's folder, or ``images`` without splits."""
        return split or "images"

    def tables(self, split: str) -> str:
        """Return the file of a split."""
        return f"annotations/instances_{split}.json" if split else COCO_FILE

    def closing_files(self, splits: Sequence[WrittenSplit], form: LabelForm, losses: Losses) -> Iterator[File]:
        """Yield a file of all entries for each split."""
        for split in splits:
            images = (row.image for row in split.rows())
            annotations = (annotation for row in split.rows() for annotation in row.annotations)
            tables: dict[str, Any] = {**split.tables, "categories": split.categories, "images": images}
            yield self.tables(split.name), json_lines({**tables, "annotations": annotations})


class RoboflowCoco(CocoInstances):
    """Roboflow's export of COCO."""

    name = "roboflow"
    title = "Roboflow's COCO exports"
    files = f"SPLIT/NAME and SPLIT/{ROBOFLOW_FILE}"

    def split_name(self, split: str) -> str:
        """Return the name, ``train`` without splits."""
        return split or "train"

    def tables(self, split: str) -> str:
        """Return the file of a split, beside its images."""
        return f"{split}/{ROBOFLOW_FILE}"


class CocoSegments(WrittenFormat):
    """COCO panoptic segmentation."""

    name = "coco-panoptic"
    title = "COCO panoptic"
    files = (
        "SPLIT/NAME, annotations/panoptic_SPLIT.json and annotations/panoptic_SPLIT/NAME.png; without splits "
        "images/NAME, panoptic.json and panoptic/NAME.png"
    )
    holds = "segments of things and stuff, crowds, all keys of entries"
    one_class_list = False
    num_classes = range(256)
    keeps_semantic_maps = True
    keeps_extra_keys = True

    def split_name(self, split: str) -> str:
        """Return the name unchanged."""
        return split

    def photos_dir(self, split: str) -> str:
        """Return COCO's folder, or ``images`` without splits."""
        return split or "images"

    def tables(self, split: str) -> str:
        """Return the file of a split; the folder of its maps has the same name without the suffix."""
        return f"annotations/panoptic_{split}.json" if split else PANOPTIC_FILE

    def maps_dir(self, split: str) -> str:
        """Return the folder of the maps of a split."""
        return self.tables(split).removesuffix(".json")

    def closing_files(self, splits: Sequence[WrittenSplit], form: LabelForm, losses: Losses) -> Iterator[File]:
        """Yield a file of all segments for each split."""
        for split in splits:
            rows, images = split.rows, (row.image for row in split.rows())
            tables: dict[str, Any] = {**split.tables, "categories": split.categories, "images": images}
            yield self.tables(split.name), json_lines({**tables, "annotations": map(panoptic_row, rows())})


def segments_of(
    sample: DenseSample, categories: Sequence[JsonRow], rows: Sequence[JsonRow], crowds: Crowds, losses: Losses
) -> tuple[bytes, list[JsonRow]]:
    """Return the PNG of the segments of a sample, and their entries.

    A sample without a panoptic map gets one from its masks. Where they overlap, the smaller object is on top.

    Args:
        sample: a sample with instance masks; stuff comes from its semantic map.
        categories: the category of each class, with ``isthing``.
        rows: the entry of each instance.
        crowds: crowd regions and objects without a mask, each with its ``carried`` keys.
        losses: counts partly and completely covered objects, and those without a mask.

    Raises:
        ValueError: the sample has no masks.
    """
    if num := sum(crowd.box is not None for crowd, _ in crowds):
        losses[UNMASKED] += num
    more = [{key: value for key, value in row.items() if key not in REGION_KEYS} for row in rows]
    whole = sample
    if sample.panoptic_map is None:
        whole = _with_panoptic_map(sample, losses)
        crowds = _apart(crowds, _free(whole, categories))
    ids, segments = panoptic_segments(whole, categories, more, crowds)
    shown = {segment["id"] for segment in segments if segment["area"]}  # covered crowds and objects have none
    rgb = np.stack([ids & 255, ids >> 8 & 255, ids >> 16], -1).astype(np.uint8)
    return picture_bytes(rgb), [segment for segment in segments if segment["id"] in shown]


def _apart(crowds: Crowds, free: NDArray[np.bool_]) -> Crowds:
    """Return the parts of regions in free pixels; where regions overlap, the smaller one is on top."""
    parts = [crowd.mask & free for crowd, _ in crowds]
    regions = [i for i, (crowd, _) in enumerate(crowds) if crowd.box is None]
    left = free.copy()
    for i in sorted(regions, key=lambda i: int(parts[i].sum())):
        parts[i] &= left
        left &= ~parts[i]
    return [(crowd._replace(mask=part), origin) for part, (crowd, origin) in zip(parts, crowds, strict=True)]


def _free(sample: DenseSample, categories: Sequence[JsonRow]) -> NDArray[np.bool_]:
    """Return the pixels [H, W] without a segment of an object or of stuff."""
    assert sample.panoptic_map is not None
    assert sample.semantic_map is not None
    panoptic, semantic = (m.as_subclass(Tensor).numpy() for m in (sample.panoptic_map, sample.semantic_map))
    stuff = [label for label, row in enumerate(categories) if not row["isthing"]]
    free: NDArray[np.bool_] = (panoptic == 0) & ~np.isin(semantic, stuff)
    return free


def _with_panoptic_map(sample: DenseSample, losses: Losses) -> DenseSample:
    if sample.semantic_map is not None and not sample.num_instances:
        return replace(
            sample,
            panoptic_map=PanopticMap(torch.zeros(sample.canvas_size, dtype=torch.int64, device="cpu")),
            instance_ids=torch.zeros(0, dtype=torch.int32, device="cpu"),
            instance_masks=InstanceMask(torch.zeros(0, *sample.canvas_size, dtype=torch.bool, device="cpu")),
        )
    if sample.instance_masks is None or sample.instance_ids is None:
        raise ValueError("expected masks for panoptic segments, got boxes only; add masks first (--masks-from)")
    owners = owners_of(sample, losses)
    ids = np.concatenate([[0], sample.instance_ids.numpy()])[owners + 1]
    labels = np.concatenate([[IGNORE_INDEX], sample.labels.numpy()])[owners + 1]
    semantic: NDArray[Any] = labels
    if sample.semantic_map is not None:
        semantic = np.where(owners >= 0, labels, sample.semantic_map.as_subclass(Tensor).numpy())
    return replace(
        sample,
        panoptic_map=PanopticMap(torch.from_numpy(ids.astype(np.int64))),
        semantic_map=SemanticMap(torch.from_numpy(semantic.astype(np.int64))),
    )
