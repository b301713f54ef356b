"""Report beside the picture: what was pasted, what was not and why, and which objects of the image were lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from segpaste._printable import printable
from segpaste.viz.palette import instance_color
from segpaste.viz.preview.preview_source import Pasted
from segpaste.viz.report_html import PastedObject

_MOST_LISTED = 200


def report_of(pasted: Pasted) -> dict[str, Any]:
    """Return the report as JSON: numbers, dropped pastes and lost objects by reason, pasted objects, and classes."""
    num_dropped = sum(pasted.dropped.values())
    lost = Counter(name for name, _ in pasted.lost)
    names = {*pasted.counts_before, *pasted.counts_after}
    rows = [(name, pasted.counts_before.get(name, 0), lost[name], pasted.counts_after.get(name, 0)) for name in names]
    rows.sort(key=lambda row: (row[1] - row[3], row[0]))
    return {
        "tried": pasted.num_tried,
        "placed": pasted.num_tried - num_dropped,
        "pastedFrac": round(pasted.pasted_frac, 4),
        "dropped": _by_reason(pasted.dropped, pasted.advice),
        "lost": _by_reason(Counter(reason for _, reason in pasted.lost), pasted.lost_advice),
        "classes": [
            {"name": printable(name), "before": before, "lost": gone, "after": after}
            for name, before, gone, after in rows[:_MOST_LISTED]
        ],
        "objects": [_described(thing) for thing in pasted.objects[:_MOST_LISTED]],
    }


def _by_reason(counts: Mapping[str, int], advice: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the counts, the largest first, each with the setting that helps."""
    return [
        {"reason": reason.replace("_", " "), "count": count, "advice": advice.get(reason, "")}
        for reason, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    ]


def _described(thing: PastedObject) -> dict[str, Any]:
    color = None if thing.instance_id is None else "#" + bytes(instance_color(thing.instance_id)).hex()
    return {
        "class": printable(thing.class_name),
        "source": printable(thing.source),
        "scale": round(thing.scale, 3),
        "flipped": thing.hflip,
        "area": thing.area_px,
        "color": color,
    }
