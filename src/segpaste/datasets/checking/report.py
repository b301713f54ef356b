"""Result of a check: findings of two severities, and statistics.

An error stops a reader: `segpaste augment` or a training run fails there. In a sample, it breaks a rule of
`DenseSample`. A remark does not stop a reader, but may be a mistake.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from segpaste._printable import class_lines, printable
from segpaste.datasets.checking.tool_report import ToolReport, summary_lines, tool_lines

Severity = Literal["error", "remark"]

_FEW_TOOLS = 5
SCHEMA_VERSION = 1
"""Version of the form of `HealthReport.to_dict`; within one version keys are only added."""

_ERRORS = {
    "missing_file": "image or label map that does not exist",
    "broken_file": "file that is not an image, or is truncated",
    "wrong_size": "image of another size than in its annotations",
    "many_bits": "image of more than 8 bits per channel",
    "broken_entry": "invalid entry of a table, or invalid line of a label file",
    "duplicate_id": "id of two entries of a table",
    "unknown_reference": "id of an image or category that is not in its table",
    "unknown_class": "label without a class: negative, or beyond the last class name",
    "broken_mask": "segmentation that cannot be decoded",
    "broken_box": "box of a sample that does not enclose its mask",
    "broken_keypoints": "keypoints of another number or form than in their category",
    "missing_mask": "object without a mask, among annotations with masks",
    "broken_map": "map of classes, objects, depth or normals whose values cannot be used",
    "map_mismatch": "segment that is only in the table or only in the label map",
    "sample_mismatch": "sample that cannot share a batch with the first one, such as one with other fields",
    "unreadable": "other reason why the dataset, an image or a sample cannot be read",
}
_REMARKS = {
    "boxes_alone": "no annotation has a mask: objects are pasted with source.mask_from only",
    "boxed_object": "object with a box only, among objects with masks; it is not pasted, and written as a box",
    "empty_mask": "mask without a pixel; not pasted, written as a box if it has one (augment: and no outline)",
    "empty_polygon": "polygon without points, [[]], at which other readers stop",
    "zero_id": "annotation with id 0, which COCO's evaluation never counts as found",
    "broken_crowd": "crowd or ignored region that cannot be decoded; its box is used instead",
    "tiny_mask": "mask of very few pixels",
    "box_disagrees": "box that is far from the box of its mask",
    "outside_photo": "box that extends beyond the image",
    "duplicate_annotation": "annotation that repeats another one of its image, class and pixels",
    "near_identical_masks": "two masks of an image that are almost the same",
    "duplicate_photo": "image with the same bytes as another one",
    "duplicate_entry": "image that is listed twice",
    "duplicate_name": "name of two categories",
    "invalid_surface": "depth or normals without a valid pixel",
    "no_annotation": "image without annotations",
    "left_out": "image or shape that readers leave out, such as an image without a map, or a line",
    "unlisted_photo": "folder with image files that the annotations do not list, such as those of another split",
    "stray_labels": "label file or map without an image, or that no split reads, or file of another dataset below",
    "unused_category": "category without an annotation",
    "orientation_applied": "image that is rotated or flipped by its EXIF orientation, like its annotations",
    "orientation_ignored": "image whose EXIF orientation is ignored, since its annotations are on stored pixels",
}
KINDS: Mapping[str, tuple[Severity, str]] = MappingProxyType(
    {kind: ("error", text) for kind, text in _ERRORS.items()}
    | {kind: ("remark", text) for kind, text in _REMARKS.items()}
)
"""Severity and description of each kind of finding."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem of a dataset.

    Attributes:
        kind: a key of `KINDS`.
        message: one line that describes the problem, with the file, names and ids.
        photo: file name of the image; None if the problem belongs to no image.
        annotation: id of the annotation in its file; None if the problem belongs to no annotation.
        file: path of the file with the problem, such as the annotation file, a label file or the image; a folder if it
            belongs to no single file, None for samples without files.
    """

    kind: str
    message: str
    photo: str | None = None
    annotation: int | None = None
    file: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"Finding: expected a kind of {', '.join(KINDS)}, got {self.kind!r}")

    @classmethod
    def at(
        cls, file: Path | None, kind: str, text: str, image: str | None = None, annotation: int | None = None
    ) -> Finding:
        """Return a finding in a file; its message starts with the file."""
        if file is not None and not text.startswith(f"{file}"):
            text = f"{file}: {text}"
        return cls(kind, text, image, annotation, None if file is None else str(file))

    @property
    def severity(self) -> Severity:
        """``error`` or ``remark``."""
        return KINDS[self.kind][0]


@dataclass(frozen=True, slots=True)
class Spread:
    """Smallest, median and largest of some numbers; all None if there are no numbers."""

    min: float | None = None
    median: float | None = None
    max: float | None = None

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Return the spread of numbers; the median is one of them."""
        ordered = sorted(values)
        return cls(ordered[0], ordered[len(ordered) // 2], ordered[-1]) if ordered else cls()


@dataclass(frozen=True, slots=True)
class SurfaceHealth:
    """Depth or normals of a dataset.

    Attributes:
        unit: unit of the values, ``m`` for metres; None if it is unknown or there is none.
        num_images: images whose maps were read; 0 if pixels were not read.
        values: smallest and largest valid value of all images, and the median of the images' medians; None for normals.
        invalid_frac: share of invalid pixels in all images; None if no map was read.
        num_without: images without a valid pixel.
    """

    unit: str | None = None
    num_images: int = 0
    values: Spread = Spread()
    invalid_frac: float | None = None
    num_without: int = 0


@dataclass(frozen=True, slots=True)
class ClassHealth:
    """Annotations of one class.

    Attributes:
        name: name of the class.
        num_objects: annotations that are instances, empty masks included.
        num_photos: images with any of them.
        num_crowds: crowd and ignored regions.
    """

    name: str
    num_objects: int
    num_photos: int
    num_crowds: int


@dataclass(frozen=True, slots=True)
class HealthReport:
    """Result of a check.

    Attributes:
        findings: errors first, then in the order of `KINDS` and of the dataset.
        num_photos: listed images.
        num_objects: annotations that are instances.
        num_crowds: crowd and ignored regions; for a dataset of your own, images whose ``crowd_mask`` has such a pixel.
        num_with_keypoints: objects with labelled keypoints.
        num_stuff: segments of stuff, in panoptic datasets.
        was_decoded: True if the pixels of all images were read, not only their headers.
        has_annotations: True if annotations were listed; else all numbers of objects are unknown and 0.
        classes: one entry for each class.
        photo_width_px: widths of the readable images, in the frame of their annotations. Those of samples without files
            are known if ``was_decoded``, and so are their ``photo_modes``.
        photo_height_px: heights of the same images.
        photo_modes: number of images by color mode, in Pillow's names; for samples without files by dtype and
            channels, such as ``uint8 [3, H, W]``.
        objects_per_photo: number of objects of each image.
        object_area_px: pixels of each object: of its mask, or else of its box.
        object_area_frac: the same as a fraction of the image.
        object_sizes: number of objects by COCO's size: ``small`` below 32² pixels, ``medium`` below 96², ``large``.
        depth: depth of the images; None without depth.
        normals: normals of the images; None without normals.
        tools: what other tools do to the dataset, for each tool that was asked for.
    """

    findings: tuple[Finding, ...] = ()
    num_photos: int = 0
    num_objects: int = 0
    num_crowds: int = 0
    num_with_keypoints: int = 0
    num_stuff: int = 0
    was_decoded: bool = False
    has_annotations: bool = True
    classes: tuple[ClassHealth, ...] = ()
    photo_width_px: Spread = Spread()
    photo_height_px: Spread = Spread()
    photo_modes: Mapping[str, int] = field(default_factory=dict)
    objects_per_photo: Spread = Spread()
    object_area_px: Spread = Spread()
    object_area_frac: Spread = Spread()
    object_sizes: Mapping[str, int] = field(default_factory=dict)
    depth: SurfaceHealth | None = None
    normals: SurfaceHealth | None = None
    tools: tuple[ToolReport, ...] = ()

    @property
    def is_healthy(self) -> bool:
        """True if no finding is an error."""
        return all(finding.severity != "error" for finding in self.findings)

    def counts(self, severity: Severity | None = None) -> dict[str, int]:
        """Count the findings of each kind that occurs, in the order of `KINDS`; of one severity if given."""
        found = Counter(finding.kind for finding in self.findings)
        return {kind: found[kind] for kind in KINDS if found[kind] and severity in (None, KINDS[kind][0])}

    def of_kind(self, kind: str) -> Iterator[Finding]:
        """Yield the findings of one kind."""
        return (finding for finding in self.findings if finding.kind == kind)

    def __str__(self) -> str:
        """Return the text that ``segpaste check`` prints, with at most five findings of each kind."""
        return "\n".join(report_lines(self))

    def to_dict(self) -> dict[str, Any]:
        """Return the report for JSON: attributes by name, and ``schema``, ``healthy``, ``errors``, ``remarks``."""
        fields = asdict(self)
        findings = [{"severity": found.severity, **asdict(found)} for found in self.findings]
        counts: dict[str, Any] = {"errors": self.counts("error"), "remarks": self.counts("remark")}
        return {"schema": SCHEMA_VERSION, "healthy": self.is_healthy, **counts, **fields, "findings": findings}


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort findings by the order of their kinds in `KINDS`; the sort is stable."""
    rank = {kind: i for i, kind in enumerate(KINDS)}
    return tuple(sorted(findings, key=lambda finding: rank[finding.kind]))


def report_lines(
    report: HealthReport, name: str = "", *, num_shown: int = 5, decode: str = "decode=True"
) -> Iterator[str]:
    """Yield the lines of a report for reading.

    Args:
        report: the report.
        name: name of the dataset.
        num_shown: number of findings of each kind to show.
        decode: the option that reads pixels, as the reader of the lines would write it.
    """
    num = f"{report.num_objects:,} objects of " if report.has_annotations else ""
    head = f"{printable(name)}: " if name else ""
    yield f"{head}{report.num_photos:,} images, {num}{len(report.classes):,} classes"
    yield from _findings(report, "error", num_shown)
    yield from _findings(report, "remark", num_shown)
    modes = "".join(f", {num:,} {mode}" for mode, num in report.photo_modes.items())
    yield f"\nimages     width {_spread(report.photo_width_px)}, height {_spread(report.photo_height_px)}{modes}"
    yield from _surfaces(report, decode)
    if not report.has_annotations:
        yield f"objects    unknown: they are in the pixels of samples or maps, which {decode} reads"
        yield from _tools(report, num_shown)
        yield _verdict(report, decode)
        return
    yield f"objects    {_spread(report.objects_per_photo)} in an image; each {_percent(report)} of it"
    sizes = ", ".join(f"{num:,} {size}" for size, num in report.object_sizes.items())
    yield f"sizes      {sizes} (COCO's: below 32², below 96², larger)"
    yield f"others     {report.num_crowds:,} crowds, {report.num_stuff:,} segments of stuff"
    yield f"pose       {report.num_with_keypoints:,} objects with labelled points"
    yield "classes"
    yield from class_lines(((found.name, found.num_objects) for found in report.classes if found.num_objects), 32, 10)
    yield from _tools(report, num_shown)
    yield _verdict(report, decode)


def _findings(report: HealthReport, severity: Severity, num_shown: int) -> Iterator[str]:
    counts = report.counts(severity)
    yield f"\n{severity}s{'' if counts else ': none'}"
    for kind, num in counts.items():
        yield f"  {kind:<22} {num:>8,}  {KINDS[kind][1]}"
        for found in islice(report.of_kind(kind), num_shown):
            yield f"      {printable(found.message)}"
        if num > num_shown > 0:
            yield f"      and {num - num_shown:,} more"


def _tools(report: HealthReport, num_shown: int) -> Iterator[str]:
    """Yield a line for each of many tools, all that is known for few."""
    if len(report.tools) > _FEW_TOOLS:
        yield from summary_lines(report.tools)
    else:
        for tool in report.tools:
            yield from tool_lines(tool, num_shown)


def _surfaces(report: HealthReport, decode: str) -> Iterator[str]:
    """Yield a line about depth and one about normals, if there are any."""
    for name, found in (("depth", report.depth), ("normals", report.normals)):
        if found is None:
            continue
        if found.invalid_frac is None:
            yield f"{name:<10} not read; {decode} reads it"
            continue
        parts = [f"{found.num_images:,} images", f"{found.invalid_frac:.2%} of the pixels invalid"]
        if name == "depth":
            unit = " m" if found.unit == "m" else f" {found.unit or 'in an unknown unit'}"
            parts.insert(0, f"{_spread(found.values)}{unit}")
        if found.num_without:
            parts.append(f"{found.num_without:,} without a valid pixel")
        yield f"{name:<10} {', '.join(parts)}"


def _spread(spread: Spread) -> str:
    if spread.min is None:
        return "unknown"
    if spread.min == spread.max:
        return f"{spread.min:,g}"
    return f"{spread.min:,.6g} to {spread.max:,.6g} (median {spread.median:,.6g})"


def _percent(report: HealthReport) -> str:
    spread = report.object_area_frac
    if spread.min is None or spread.median is None or spread.max is None:
        return "an unknown share"
    return f"{spread.min:.2%} to {spread.max:.2%} (median {spread.median:.2%})"


def _verdict(report: HealthReport, decode: str) -> str:
    num_errors, num_remarks = (sum(report.counts(severity).values()) for severity in ("error", "remark"))
    heads = "" if report.was_decoded else f"; only headers of images were read, {decode} reads their pixels"
    return (
        f"\n{'healthy' if report.is_healthy else 'not healthy'}: {num_errors:,} errors, {num_remarks:,} remarks{heads}"
    )
