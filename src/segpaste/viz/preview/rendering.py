"""Answers of the page: from what it asks for to pictures, a report and texts to copy. Pure functions."""

from __future__ import annotations

import base64
import time
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
from segpaste.viz.palette import UInt8Image
from segpaste.viz.preview import copies
from segpaste.viz.preview.controls import MAIN, Control, controls_of
from segpaste.viz.preview.reporting import report_of
from segpaste.viz.preview.studio import LARGEST_SEED, Draw, Pasted, Problem, RefusedError, Studio

LONGEST_PX = 1280
"""The longer side of a picture at most; smaller photos are enlarged up to half of it by whole factors."""


def setup_of(studio: Studio) -> dict[str, Any]:
    """Return what the page is made of: the controls, the presets, and what it shows first."""
    controls = controls_of(has_bank=studio.has_bank, is_panoptic=studio.is_panoptic)
    return {
        "dataset": printable(studio.name),
        "images": studio.num_images,
        "largestSeed": LARGEST_SEED,
        "presets": [{"name": name, "summary": summary} for name, summary in studio.presets.items()],
        "start": _as_json(studio.start),
        "controls": [_described(control) for control in controls],
    }


def render(studio: Studio, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a request of the page: all that it shows, or ``errors``.

    The values of all options, and those of the preset (``base``), are there as far as they are known.
    """
    start = time.perf_counter()
    known: dict[str, Any] = {}
    try:
        draw = draw_of(studio, asked)
        base = studio.config(draw.preset, {})
        known = {"base": _values(base), "values": {**_values(base), **draw.values}}
        config = studio.config(draw.preset, draw.values)
        known["values"] = _values(config)
        pasted = studio.paste(draw, config)
    except RefusedError as error:
        return {**known, "errors": [{"key": key, "text": printable(text)} for key, text in error.problems]}
    return {
        **known,
        **_shown_of(pasted, asked),
        "report": report_of(pasted),
        "copies": {
            "yaml": copies.as_yaml(config, _plainest(config), of_preset=bool(draw.preset)),
            "python": copies.as_python(config),
            "command": copies.as_command(studio.command(draw), copies.as_words(config, base)),
        },
        "name": printable(pasted.name),
        "note": pasted.note,
        "seconds": round(time.perf_counter() - start, 3),
    }


def _shown_of(pasted: Pasted, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pictures that are asked for."""
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


def draw_of(studio: Studio, asked: Mapping[str, Any]) -> Draw:
    """Return what a request wants drawn.

    Raises:
        RefusedError: it does not say so.
    """
    image, seed = asked.get("image", 0), asked.get("seed", 0)
    if not _is_index(image) or not image < studio.num_images:
        raise RefusedError(Problem("image", f"expected an image from 1 to {studio.num_images:,}"))
    if not _is_index(seed) or seed > LARGEST_SEED:
        raise RefusedError(Problem("seed", f"expected a whole number from 0 to {LARGEST_SEED:,}"))
    preset, values = asked.get("preset", ""), asked.get("values", {})
    if preset not in ("", *studio.presets):
        raise RefusedError(Problem("preset", f"expected one of {', '.join(studio.presets)}, got {preset!r:.60}"))
    known = {c.key: c for c in controls_of(has_bank=studio.has_bank, is_panoptic=studio.is_panoptic)}
    if not isinstance(values, Mapping):
        raise RefusedError(Problem("", f"expected values by key, got {values!r:.60}"))
    for key, value in values.items():
        if key in studio.start.values and value == _shown(studio.start.values[key]):
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
    """Return the view that is asked for, or the first that the image has."""
    views = _views(pasted)
    return asked["view"] if asked.get("view") in views else views[0]


def _views(pasted: Pasted) -> list[str]:
    there = (pasted.before.modalities | pasted.after.modalities | {Modality.INSTANCE}) - {Modality.IMAGE}
    return [modality.value for modality in VIEWS if modality in there]


def _options_of(asked: Mapping[str, Any]) -> dict[str, bool]:
    return {name: asked.get(name, True) is not False for name in ("overlay", "names")}


def _plainest(config: BatchCopyPasteConfig) -> BatchCopyPasteConfig:
    """Return what a command without options has for this dataset; the kind of source is always said."""
    values: dict[str, Any] = {"placement": {"paste_prob": 1.0}}
    values |= {} if config.panoptic is None else {"panoptic": {"taxonomy": config.panoptic.taxonomy}}
    return BatchCopyPasteConfig.model_validate(values)


def _values(config: BatchCopyPasteConfig) -> dict[str, Any]:
    """Return all values by key."""
    return {key: _shown(value) for key, value in copies.leaves_of(config)}


def _shown(value: Any) -> Any:
    """Return a value as its control has it; a table is YAML."""
    if isinstance(value, Mapping):
        return copies.flow(value) if value else ""
    return copies.plain(value)


def _described(control: Control) -> dict[str, Any]:
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
    """Return the key in words, without its group where the heading says it, or placement, the usual one."""
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
