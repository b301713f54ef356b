"""Report beside the picture: what was pasted, and what was not and why."""

from __future__ import annotations

from typing import Any

from segpaste._printable import printable
from segpaste.viz.palette import instance_color
from segpaste.viz.preview.studio import Pasted
from segpaste.viz.report_html import PastedObject

_MOST_LISTED = 200


def report_of(pasted: Pasted) -> dict[str, Any]:
    """Return the report as JSON: numbers, dropped pastes by reason, pasted objects, and classes before and after."""
    num_dropped = sum(pasted.dropped.values())
    reasons = sorted(pasted.dropped.items(), key=lambda pair: (-pair[1], pair[0]))
    names = {*pasted.counts_before, *pasted.counts_after}
    rows = [(name, pasted.counts_before.get(name, 0), pasted.counts_after.get(name, 0)) for name in names]
    rows.sort(key=lambda row: (row[1] - row[2], row[0]))
    return {
        "tried": pasted.num_tried,
        "placed": pasted.num_tried - num_dropped,
        "pastedFrac": round(pasted.pasted_frac, 4),
        "dropped": [
            {"reason": reason.replace("_", " "), "count": count, "advice": pasted.advice.get(reason, "")}
            for reason, count in reasons
        ],
        "classes": [
            {"name": printable(name), "before": before, "after": after} for name, before, after in rows[:_MOST_LISTED]
        ],
        "objects": [_described(thing) for thing in pasted.objects[:_MOST_LISTED]],
    }


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
