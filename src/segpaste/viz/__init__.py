"""Seeing it: pictures of samples, before and after on one sheet, galleries, and an HTML report.

Nothing here is needed to train, so the names load when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from segpaste.viz.comparison import Comparison, compare
    from segpaste.viz.gallery import Tile, before_after_sheet, gallery_png, grid, png_bytes
    from segpaste.viz.overlay import (
        VIEWS,
        draw,
        draw_depth,
        draw_image,
        draw_instances,
        draw_normals,
        draw_panoptic,
        draw_semantic,
    )
    from segpaste.viz.palette import class_color, instance_color
    from segpaste.viz.report_html import PastedObject, ReportItem, write_html_report

_EXPORTS = {
    "comparison": ("Comparison", "compare"),
    "gallery": ("Tile", "before_after_sheet", "gallery_png", "grid", "png_bytes"),
    "overlay": (
        "VIEWS",
        "draw",
        "draw_depth",
        "draw_image",
        "draw_instances",
        "draw_normals",
        "draw_panoptic",
        "draw_semantic",
    ),
    "palette": ("class_color", "instance_color"),
    "report_html": ("PastedObject", "ReportItem", "write_html_report"),
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names}

__all__ = [
    "VIEWS",
    "Comparison",
    "PastedObject",
    "ReportItem",
    "Tile",
    "before_after_sheet",
    "class_color",
    "compare",
    "draw",
    "draw_depth",
    "draw_image",
    "draw_instances",
    "draw_normals",
    "draw_panoptic",
    "draw_semantic",
    "gallery_png",
    "grid",
    "instance_color",
    "png_bytes",
    "write_html_report",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
