"""Answers to requests of the page: pictures, a report and texts to copy. All functions are pure."""

from __future__ import annotations

import base64
import time
from collections import Counter
from collections.abc import Mapping
from io import BytesIO
from typing import Any

from PIL import Image

from segpaste._printable import printable
from segpaste.augmentation import BatchCopyPasteConfig
from segpaste.types import Modality
from segpaste.viz.comparison import Comparison, compare_view, reduced
from segpaste.viz.gallery import shrunk
from segpaste.viz.overlay import VIEWS
from segpaste.viz.palette import UInt8Image, instance_color
from segpaste.viz.preview.controls import (
    MAIN,
    Control,
    as_command,
    as_python,
    as_words,
    as_yaml,
    controls_of,
    flow,
    leaves_of,
    plain,
)
from segpaste.viz.preview.preview_source import LARGEST_SEED, Draw, Pasted, PreviewSource, Problem, RefusedError
from segpaste.viz.report_html import PastedObject

LONGEST_PX = 1280
"""Largest side of a picture; smaller images are enlarged by whole factors, up to half of it."""
_MOST_LISTED = 200
"""Maximum number of classes and of pasted objects in a report."""


def setup_of(source: PreviewSource) -> dict[str, Any]:
    """Return the data that the page is built from: the controls, the presets, and its first request."""
    controls = controls_of(has_bank=source.has_bank, is_panoptic=source.is_panoptic)
    return {
        "dataset": printable(source.name),
        "images": source.num_images,
        "largestSeed": LARGEST_SEED,
        "presets": [{"name": name, "summary": summary} for name, summary in source.presets.items()],
        "start": _as_json(source.start),
        "controls": [_control_described(control) for control in controls],
    }


def render(source: PreviewSource, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a request of the page: all that the page shows, or ``errors``.

    The values of all options and those of the preset (``base``) are included if they are known.
    """
    start = time.perf_counter()
    known: dict[str, Any] = {}
    try:
        draw = draw_of(source, asked)
        base = source.config(draw.preset, {})
        known = {"base": _values(base), "values": {**_values(base), **draw.values}}
        config = source.config(draw.preset, draw.values)
        known["values"] = _values(config)
        pasted = source.paste(draw, config)
    except RefusedError as error:
        return {**known, "errors": [{"key": key, "text": printable(text)} for key, text in error.problems]}
    return {
        **known,
        **_shown_of(pasted, asked),
        "report": _report_of(pasted),
        "copies": {
            "yaml": as_yaml(config, _plainest(config), of_preset=bool(draw.preset)),
            "python": as_python(config),
            "command": as_command(source.command(draw), as_words(config, base)),
        },
        "name": printable(pasted.name),
        "note": pasted.note,
        "seconds": round(time.perf_counter() - start, 3),
    }


def _shown_of(pasted: Pasted, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pictures of a request."""
    view, options = _view_of(pasted, asked), _options_of(asked)
    shown = picture_of(pasted, Modality(view) if options["overlay"] else Modality.IMAGE, names=options["names"])
    return {
        "views": [{"name": name, "title": VIEWS[Modality(name)].title} for name in _views(pasted)],
        "view": view,
        "before": _data_url(shown.before),
        "after": _data_url(shown.after),
        "width": shown.after.shape[1],
        "height": shown.after.shape[0],
    }


def _report_of(pasted: Pasted) -> dict[str, Any]:
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
        "objects": [_object_described(thing) for thing in pasted.objects[:_MOST_LISTED]],
    }


def _by_reason(counts: Mapping[str, int], advice: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the counts, the largest first, each with the setting that helps."""
    return [
        {"reason": reason.replace("_", " "), "count": count, "advice": advice.get(reason, "")}
        for reason, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    ]


def _object_described(thing: PastedObject) -> dict[str, Any]:
    color = None if thing.instance_id is None else "#" + bytes(instance_color(thing.instance_id)).hex()
    return {
        "class": printable(thing.class_name),
        "source": printable(thing.source),
        "scale": round(thing.scale, 3),
        "flipped": thing.hflip,
        "area": thing.area_px,
        "color": color,
    }


def draw_of(source: PreviewSource, asked: Mapping[str, Any]) -> Draw:
    """Return the image, the seed and the options of a request.

    Raises:
        RefusedError: one of them is invalid.
    """
    image, seed = asked.get("image", 0), asked.get("seed", 0)
    if not _is_index(image) or not image < source.num_images:
        raise RefusedError(Problem("image", f"expected an image from 1 to {source.num_images:,}"))
    if not _is_index(seed) or seed > LARGEST_SEED:
        raise RefusedError(Problem("seed", f"expected a whole number from 0 to {LARGEST_SEED:,}"))
    preset, values = asked.get("preset", ""), asked.get("values", {})
    if preset not in ("", *source.presets):
        raise RefusedError(Problem("preset", f"expected one of {', '.join(source.presets)}, got {preset!r:.60}"))
    known = {c.key: c for c in controls_of(has_bank=source.has_bank, is_panoptic=source.is_panoptic)}
    if not isinstance(values, Mapping):
        raise RefusedError(Problem("", f"expected values by key, got {values!r:.60}"))
    for key, value in values.items():
        if key in source.start.values and value == _shown(source.start.values[key]):
            continue
        if key not in known:
            raise RefusedError(Problem("", f"expected the key of a control, got {key!r:.60}"))
        if known[key].kind == "choice" and value not in known[key].choices:
            raise RefusedError(Problem(key, f"expected one of {known[key].choices}, got {value!r:.60}"))
    return Draw(image, seed, preset, values)


def picture_of(pasted: Pasted, modality: Modality, *, names: bool) -> Comparison:
    """Draw one modality of an image before and after; a large image is drawn smaller, a small one enlarged."""
    factor = max(1, max(pasted.after.canvas_size) // LONGEST_PX)
    before, after = (reduced(sample, factor) for sample in (pasted.before, pasted.after))
    found = compare_view(
        before, after, modality, pasted.pasted, pasted.class_names, tile_px=LONGEST_PX // 2, show_labels=names
    )
    return Comparison(found.title, shrunk(found.before, LONGEST_PX), shrunk(found.after, LONGEST_PX))


def _view_of(pasted: Pasted, asked: Mapping[str, Any]) -> str:
    """Return the requested view, or the first one of the image."""
    views = _views(pasted)
    return asked["view"] if asked.get("view") in views else views[0]


def _views(pasted: Pasted) -> list[str]:
    there = (pasted.before.modalities | pasted.after.modalities | {Modality.INSTANCE}) - {Modality.IMAGE}
    return [modality.value for modality in VIEWS if modality in there]


def _options_of(asked: Mapping[str, Any]) -> dict[str, bool]:
    return {name: asked.get(name, True) is not False for name in ("overlay", "names")}


def _plainest(config: BatchCopyPasteConfig) -> BatchCopyPasteConfig:
    """Return the configuration of a command without options for this dataset, without its kind of source."""
    values: dict[str, Any] = {"placement": {"paste_prob": 1.0}}
    values |= {} if config.panoptic is None else {"panoptic": {"taxonomy": config.panoptic.taxonomy}}
    return BatchCopyPasteConfig.model_validate(values)


def _values(config: BatchCopyPasteConfig) -> dict[str, Any]:
    """Return all values by key."""
    return {key: _shown(value) for key, value in leaves_of(config)}


def _shown(value: Any) -> Any:
    """Return a value in the form of its control; a table is YAML."""
    if isinstance(value, Mapping):
        return flow(value) if value else ""
    return plain(value)


def _control_described(control: Control) -> dict[str, Any]:
    extent = control.extent
    return {
        "key": control.key,
        "kind": control.kind,
        "group": control.group,
        "label": _label(control),
        "help": control.help,
        "choices": list(control.choices),
        "optional": control.optional,
        "whole": control.whole,
        "low": extent.low,
        "high": extent.high,
        "step": extent.step,
        "log": extent.is_log,
        "parts": list(control.parts),
        "note": control.note,
    }


def _label(control: Control) -> str:
    """Return the key in words, without its group if the heading names it or if it is placement."""
    group, _, name = control.key.rpartition(".")
    is_said = control.group != MAIN or group in ("", "placement")
    return (name if is_said else control.key).replace("_", " ").replace(".", " ")


def _is_index(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _as_json(draw: Draw) -> dict[str, Any]:
    values = {key: _shown(value) for key, value in draw.values.items()}
    return {"image": draw.image, "seed": draw.seed, "preset": draw.preset, "values": values}


def _data_url(picture: UInt8Image) -> str:
    buffer = BytesIO()
    Image.fromarray(picture).save(buffer, format="PNG", compress_level=1)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
