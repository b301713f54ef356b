"""Format of COCO panoptic segmentation: a table of segments, and a PNG of their ids for each image."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from segpaste.datasets.entries import JsonRow
from segpaste.datasets.formats.coco.folders import PANOPTIC_FILE
from segpaste.datasets.formats.pixel_bytes import picture_bytes
from segpaste.datasets.writers.coco import CocoInstances, Crowds, table_lines, tight_xywh, without_region
from segpaste.datasets.writers.counterparts import among_segments
from segpaste.datasets.writers.format import (
    POINTS,
    UNMASKED,
    File,
    LabelledImage,
    Losses,
    SampleRows,
    View,
    WrittenSplit,
    copied_bytes,
    made_of,
)
from segpaste.datasets.writers.owners import owners_of
from segpaste.types import IGNORE_INDEX, DenseSample, InstanceMask, PanopticMap, SemanticMap

_SEGMENT_ID_STEP = 0x9E3779  # odd, so that multiples of it modulo 2**24 are distinct, and spread over the colours


class CocoSegments(CocoInstances):
    """COCO panoptic segmentation."""

    name = "coco-panoptic"
    title = "COCO panoptic"
    files = (
        "SPLIT/NAME, annotations/panoptic_SPLIT.json and annotations/panoptic_SPLIT/NAME.png; without splits "
        "images/NAME, panoptic.json and panoptic/NAME.png"
    )
    holds = "segments of things and stuff, crowds, all keys of entries"
    of_entries = False
    by_stem = True
    num_classes = range(256)
    keeps_semantic_maps = True

    def tables(self, split: str) -> str:
        """Return the file of a split; the folder of its maps has the same name without the suffix."""
        return f"annotations/panoptic_{split}.json" if split else PANOPTIC_FILE

    def maps_dir(self, split: str) -> str:
        """Return the folder of the maps of a split."""
        return self.tables(split).removesuffix(".json")

    def labels(self, image: LabelledImage, view: View, losses: Losses) -> tuple[SampleRows, Sequence[File]]:
        """Return the segments, and the file of their ids."""
        folder = self.maps_dir(view.split)
        if (same := image.unchanged) is not None and same.map is not None:
            row, file = same.map
            name = f"{image.stem}{file.suffix or '.png'}"
            rows = SampleRows(image.entry, [], [*same.rows], {**row, "file_name": name})
            return rows, [(f"{folder}/{name}", copied_bytes(file))]
        png, segments = segments_of(image, view.categories, losses)
        return SampleRows(image.entry, [], segments), [(f"{folder}/{image.stem}.png", png)]

    def closing_files(self, splits: Sequence[WrittenSplit], losses: Losses) -> Iterator[File]:
        """Yield a file of all segments for each split."""
        for split in splits:
            yield self.tables(split.name), table_lines(split, map(panoptic_row, split.rows()))


def segments_of(image: LabelledImage, categories: Sequence[JsonRow], losses: Losses) -> tuple[bytes, list[JsonRow]]:
    """Return the PNG of the segments of a sample, and their entries.

    A sample without a panoptic map gets one from its masks. Where they overlap, the smaller object is on top.

    Args:
        image: an image whose sample has instance masks; stuff comes from its semantic map.
        categories: the category of each class, with ``isthing``.
        losses: counts partly and completely covered objects, those without a mask, and keypoints that entries lack.

    Raises:
        ValueError: the sample has no masks.
    """
    if num := len(image.boxed):
        losses[UNMASKED] += num
    whole, crowds = image.labelled, image.crowds
    if whole.keypoints is not None:
        has_points = (whole.keypoints[..., 2] > 0).any(1).tolist()
        losses[POINTS] += sum(has and "keypoints" not in row for has, row in zip(has_points, image.rows, strict=True))
    if whole.panoptic_map is None:
        whole = _with_panoptic_map(whole, losses)
        crowds = _apart(crowds, _free(whole, categories))
    ids, segments = panoptic_segments(whole, categories, image.rows, crowds)
    shown = [segment for segment in segments if segment["area"]]  # covered crowds and objects have none
    rgb = np.stack([ids & 255, ids >> 8 & 255, ids >> 16], -1).astype(np.uint8)
    return picture_bytes(rgb), among_segments(shown, losses)


def panoptic_segments(
    sample: DenseSample, categories: Sequence[JsonRow], rows: Sequence[JsonRow], crowds: Crowds
) -> tuple[NDArray[np.int64], list[JsonRow]]:
    """Return the segment ids, [H, W] int64, 0 if unlabelled, and ``segments_info``: things, stuff, crowds."""
    assert sample.panoptic_map is not None
    assert sample.semantic_map is not None
    assert sample.instance_ids is not None
    panoptic, semantic = (m.as_subclass(Tensor).numpy() for m in (sample.panoptic_map, sample.semantic_map))
    ids = np.zeros(panoptic.shape, np.int64)
    found: list[tuple[NDArray[np.bool_], int, JsonRow]] = []
    for instance_id, label, own in zip(sample.instance_ids.tolist(), sample.labels.tolist(), rows, strict=True):
        found.append((panoptic == instance_id, label, {"iscrowd": 0, **without_region(own), **made_of(own)}))
    for label in np.unique(semantic[(panoptic == 0) & (semantic != IGNORE_INDEX)]).tolist():
        if not categories[label]["isthing"]:
            found.append(((panoptic == 0) & (semantic == label), label, {"iscrowd": 0}))
    for crowd, origin in crowds:
        if crowd.box is None:
            flags = {"iscrowd": 1, **({"ignore": 1} if crowd.is_ignored else {})}
            found.append((crowd.mask, crowd.label, {**flags, **without_region(origin), **made_of(origin)}))
    segments = []
    for number, (mask, label, own) in enumerate(found, start=1):
        segment_id = number * _SEGMENT_ID_STEP % 256**3
        ids[mask] = segment_id
        row = {"id": segment_id, "category_id": categories[label]["id"], "area": int(np.count_nonzero(mask))}
        segments.append({**row, "bbox": tight_xywh(mask), **own})
    return ids, segments


def panoptic_row(row: SampleRows) -> JsonRow:
    """Return the entry of a panoptic map."""
    if row.map is not None:
        return {**row.map, "segments_info": row.segments}
    name = Path(row.image["file_name"]).with_suffix(".png").as_posix()
    return {"image_id": row.image["id"], "file_name": name, "segments_info": row.segments}


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
