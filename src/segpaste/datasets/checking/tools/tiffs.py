"""Rules that tools share about TIFFs with an orientation, which Pillow and OpenCV apply unasked."""

from __future__ import annotations

from segpaste.datasets.checking.tools.rules import Effect, Rule

_AS_PNG = "save these images upright as PNG"
_FOR_TOOL = f"{_AS_PNG}: segpaste convert DATASET --for {{tool}} --out DIR"


def _rule(format: str, trait: str, effect: Effect, says: str, converts: bool) -> Rule:
    return Rule(format, trait, effect, says, _FOR_TOOL if converts else _AS_PNG)


def as_stored(converts: bool = True) -> Rule:
    """Return the rule of a tool that reads TIFFs with Pillow or OpenCV, and has labels on stored pixels."""
    says = "a TIFF is turned by its orientation when it is read, and the labels are on the stored pixels"
    return _rule("coco", "tiff_as_stored", "shifted", says, converts)


def mapped(*formats: str, converts: bool = True) -> tuple[Rule, ...]:
    """Return the rules of a tool that opens files with Pillow by their names."""
    says = "Pillow takes the lines of such a file for as long as those of the turned image, which makes stripes of it"
    return tuple(_rule(format, "tiff_mapped", "shifted", says, converts) for format in formats)


SUPERVISION = (
    *(
        _rule(
            format,
            "tiff_oriented",
            "shifted",
            "the image is written with its size as stored, and its labels are on the turned one",
            converts=False,
        )
        for format in ("coco", "yolo")
    ),
    _rule("voc", "tiff_oriented", "stops", "OpenCV reads no TIFF that is turned onto its other side", converts=False),
)
