"""Views of augmented images: a gallery, sheets of all modalities, the HTML report."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from segpaste.augmenting.inputs import Inputs
from segpaste.augmenting.pasting import Augmented, Paster
from segpaste.augmenting.photos import cut_to
from segpaste.augmenting.summary import AugmentSummary, lost_advice
from segpaste.datasets.contract import Crowd
from segpaste.replay.record import RecordedLayer
from segpaste.viz import Comparison, PastedObject, ReportItem, Tile, gallery_png, write_html_report
from segpaste.viz import compare as compare_samples
from segpaste.viz.comparison import reduced

_PAIRS_PER_ROW = 3
_NUM_SHEETS = 3
_DRAWN_PX = 1280
"""Smallest longer side of a drawn image, unless the image itself is smaller; pages show it at half size."""


def describe(augmented: Augmented, inputs: Inputs, name: str) -> dict[str, Any]:
    """Describe one image, called ``name``, for report and summary, as JSON."""
    sample, names = augmented.after, inputs.class_names
    if sample.instance_masks is None or sample.instance_ids is None:
        sides = sample.boxes[:, 2:] - sample.boxes[:, :2]
        areas, ids = sides.prod(1).int().tolist(), list(range(1, sample.num_instances + 1))
    else:
        masks = sample.instance_masks.as_subclass(torch.Tensor).numpy()
        areas, ids = [int(np.count_nonzero(mask)) for mask in masks], sample.instance_ids.tolist()
    rows = zip(augmented.origins, sample.labels.tolist(), ids, areas, strict=True)
    pasted = [
        PastedObject(names[label], origin.name, _mean_scale(origin.paste), _is_flipped(origin.paste), area, instance_id)
        for origin, label, instance_id, area in rows
        if origin.paste is not None
    ]
    return {
        "name": name,
        "before": Counter(names[label] for label in augmented.labels_before),
        "after": Counter(names[label] for label in sample.labels.tolist()),
        "pixels_before": _by_name(augmented.pixels_before, names),
        "pixels_after": _by_name(augmented.pixels_after, names),
        "num_instances": sample.num_instances,
        "num_tried": augmented.num_tried,
        "pasted": [asdict(thing) for thing in pasted],
        "dropped": augmented.dropped,
        "pasted_frac": augmented.pasted_frac,
        "lost": [(names[label], reason) for label, reason in augmented.lost],
        "has_depth": sample.depth is not None,
    }


def with_crowds(
    shown: dict[str, Any], names: Sequence[str], before: Sequence[Crowd], after: Sequence[Crowd]
) -> dict[str, Any]:
    """Return the description of an image with its objects without a mask, and its crowd and ignored regions.

    Args:
        shown: the description.
        names: the name of each class.
        before: objects and regions of the image.
        after: those of which pixels are visible after the paste.
    """
    counts = [Counter(_name_of(crowd, names) for crowd in crowds if crowd.mask.any()) for crowds in (before, after)]
    return {
        **shown,
        "before": shown["before"] + counts[0],
        "after": shown["after"] + counts[1],
        "num_instances": shown["num_instances"] + sum(crowd.box is not None for crowd in after),
        "lost": [*shown["lost"], *((name, "hidden") for name in (counts[0] - counts[1]).elements())],
    }


def _name_of(crowd: Crowd, names: Sequence[str]) -> str:
    """Return the name of an object, that of its class, or of a region."""
    kind = "" if crowd.box is not None else " (ignored region)" if crowd.is_ignored else " (crowd region)"
    return names[crowd.label] + kind


def _by_name(counts: Mapping[int, int], names: Sequence[str]) -> dict[str, int]:
    """Return counts by class name; values of semantic maps that are not a class are named by their number."""
    return {names[label] if label < len(names) else str(label): num for label, num in counts.items()}


def _mean_scale(paste: RecordedLayer) -> float:
    """Return the size relative to the size in the source: the geometric mean of both axes."""
    (x_num, y_num), (x_den, y_den) = paste.scale_num, paste.scale_den
    return math.sqrt(x_num / x_den * y_num / y_den)


def _is_flipped(paste: RecordedLayer) -> bool:
    return paste.hflip or paste.vflip or paste.swap_axes


def draw(augmented: Augmented, paster: Paster) -> list[Comparison]:
    """Draw an image before and after, for every modality; the target is read again. Large images are drawn smaller."""
    pasted = torch.tensor([origin.paste is not None for origin in augmented.origins], dtype=torch.bool, device="cpu")
    size, position = augmented.after.canvas_size, augmented.pick.position
    factor = max(1, max(size) // _DRAWN_PX)
    after = reduced(augmented.after, factor)
    del augmented  # before another large image is read
    before = reduced(cut_to(paster.target(position).sample, size), factor)
    return compare_samples(before, after, pasted, paster.inputs.class_names)


def report_item(item: Mapping[str, Any], pictures: Sequence[Comparison] = ()) -> ReportItem:
    """Make an item of the report from the result of `describe`."""
    things = [PastedObject(**thing) for thing in item["pasted"]]
    before, after = (item[side] or item.get(f"pixels_{side}", {}) for side in ("before", "after"))
    lost = [(name, reason) for name, reason in item["lost"]]
    return ReportItem(item["name"], pictures, things, item["dropped"], before, after, lost)


def write_pages(
    folder: Path, items: Iterable[ReportItem], num_pictured: int, summary: AugmentSummary, title: str
) -> list[Path]:
    """Write ``report.html``, and ``gallery.png`` and ``modalities.png`` of images with pictures; return the paths."""
    drawn: list[ReportItem] = []

    def watched() -> Iterator[ReportItem]:
        for item in items:
            if item.pictures:
                drawn.append(item)
            yield item

    counted = "pixels" if summary.pixels_after and not summary.after else "objects"
    options: dict[str, Any] = {"advice": summary.advice, "lost_advice": lost_advice(summary.config), "counted": counted}
    options |= {"left_out": summary.left_out, "num_pictured": num_pictured}
    paths = [write_html_report(folder / "report.html", watched(), summary.headline(), title, **options)]
    if drawn:
        paths.append(_write_gallery(folder / "gallery.png", drawn))
    if drawn and len(drawn[0].pictures) > 2:
        paths.append(_write_sheets(folder / "modalities.png", drawn[:_NUM_SHEETS]))
    return paths


def _write_gallery(path: Path, items: Sequence[ReportItem]) -> Path:
    """Write a sheet of instances before and after, some pairs per row."""
    pairs = []
    for item in items:
        views = {picture.title: picture for picture in item.pictures}
        view = views.get("instances", item.pictures[-1])
        pairs.append((Tile(view.before, item.name), Tile(view.after, f"{len(item.pasted)} pasted")))
    starts = range(0, len(pairs), _PAIRS_PER_ROW)
    rows = [[tile for pair in pairs[start : start + _PAIRS_PER_ROW] for tile in pair] for start in starts]
    headings = ("before", "after") * min(_PAIRS_PER_ROW, len(pairs))
    return gallery_png(path, rows, columns=headings, note="pasted objects", tile_px=320)


def _write_sheets(path: Path, items: Sequence[ReportItem]) -> Path:
    """Write a sheet with a row before and a row after for each image, and a column for each modality."""
    rows = [[getattr(picture, side) for picture in item.pictures] for item in items for side in ("before", "after")]
    columns = [picture.title for picture in items[0].pictures]
    names = ("before", "after") * len(items)
    return gallery_png(path, rows, columns=columns, names=names, note="pasted objects", tile_px=256)
