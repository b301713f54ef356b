"""Pictures of batches and samples: before and after on one sheet, galleries, and an HTML report.

Training does not need this package, so its names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segpaste._lazy import lazy_names

if TYPE_CHECKING:
    from segpaste.viz.bank_gallery import write_bank_gallery as write_bank_gallery
    from segpaste.viz.comparison import Comparison as Comparison
    from segpaste.viz.comparison import compare as compare
    from segpaste.viz.gallery import Tile as Tile
    from segpaste.viz.gallery import before_after_sheet as before_after_sheet
    from segpaste.viz.gallery import gallery_png as gallery_png
    from segpaste.viz.gallery import grid as grid
    from segpaste.viz.gallery import png_bytes as png_bytes
    from segpaste.viz.overlay import VIEWS as VIEWS
    from segpaste.viz.overlay import draw as draw
    from segpaste.viz.overlay import draw_depth as draw_depth
    from segpaste.viz.overlay import draw_image as draw_image
    from segpaste.viz.overlay import draw_instances as draw_instances
    from segpaste.viz.overlay import draw_normals as draw_normals
    from segpaste.viz.overlay import draw_panoptic as draw_panoptic
    from segpaste.viz.overlay import draw_semantic as draw_semantic
    from segpaste.viz.palette import class_color as class_color
    from segpaste.viz.palette import instance_color as instance_color
    from segpaste.viz.report_html import PastedObject as PastedObject
    from segpaste.viz.report_html import ReportItem as ReportItem
    from segpaste.viz.report_html import write_html_report as write_html_report
    from segpaste.viz.showing import show as show

_HOMES = {
    "segpaste.viz.bank_gallery": ("write_bank_gallery",),
    "segpaste.viz.comparison": ("Comparison", "compare"),
    "segpaste.viz.gallery": ("Tile", "before_after_sheet", "gallery_png", "grid", "png_bytes"),
    "segpaste.viz.overlay": (
        "VIEWS",
        "draw",
        "draw_depth",
        "draw_image",
        "draw_instances",
        "draw_normals",
        "draw_panoptic",
        "draw_semantic",
    ),
    "segpaste.viz.palette": ("class_color", "instance_color"),
    "segpaste.viz.report_html": ("PastedObject", "ReportItem", "write_html_report"),
    "segpaste.viz.showing": ("show",),
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
