"""panopticapi: evaluates COCO's panoptic maps."""

from __future__ import annotations

from segpaste.datasets.checking.tools.rules import Rule, Tool

_WRITE_AREAS = "write the areas of the pixels: segpaste convert DATASET --for {tool} --out DIR"
_WRITE_COLOURS = "write maps in RGB: segpaste convert DATASET --for {tool} --out DIR"

OTHER_AREA = Rule(
    "panoptic",
    "other_area",
    "never_matched",
    "the area of an annotation is that of the table: one too large lowers the overlap until nothing matches, as after "
    "maps are made smaller, and one too small gives a quality above 1",
    _WRITE_AREAS,
)
CROWD_TWICE = Rule(
    "panoptic",
    "crowd_twice",
    "crowd_kept",
    "predictions are excused in the last crowd region of each class and image; in the others they are false ones",
    "join those of a class and image: segpaste convert DATASET --for {tool} --out DIR",
)
NO_SEGMENTS = Rule(
    "panoptic",
    "no_segments",
    "background_lost",
    "all of the image is void, over which no prediction is a false one",
    "make what is around the objects a segment",
)
MAP_GREY = Rule(
    "panoptic",
    "map_grey",
    "stops",
    "a map in grey ends with an error, for ids are read from three colours",
    _WRITE_COLOURS,
)
MAP_PALETTE = Rule(
    "panoptic",
    "map_palette",
    "stops",
    "the indices of a palette are read, and the run ends with a TypeError",
    _WRITE_COLOURS,
)


def lacks(trait: str, key: str) -> Rule:
    """Return the rule about segments without a key."""
    advice = f"write {key}: segpaste convert DATASET --for {{tool}} --out DIR"
    return Rule("panoptic", trait, "stops", f"a segment without {key!r} ends the run with a KeyError", advice)


TOOL = Tool(
    "panopticapi",
    "panopticapi",
    "panopticapi-lite",
    ("0.2.0",),
    "evaluates",
    ("panoptic",),
    (
        lacks("no_area", "area"),
        lacks("no_iscrowd", "iscrowd"),
        OTHER_AREA,
        CROWD_TWICE,
        MAP_GREY,
        MAP_PALETTE,
        NO_SEGMENTS,
    ),
    ("coco-panoptic", None),
)
