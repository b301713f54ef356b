"""Result of a check: findings of two severities, and statistics.

An error stops a reader: `segpaste augment` or a training run fails there. In a sample, it breaks a rule of
`DenseSample`. A remark does not stop a reader, but may be a mistake.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any

from segpaste._printable import class_lines, printable
from segpaste._reprs import counted
from segpaste.datasets.checking.listings.findings import KINDS as KINDS
from segpaste.datasets.checking.listings.findings import Finding as Finding
from segpaste.datasets.checking.listings.findings import Severity, Spread, SurfaceHealth
from segpaste.datasets.checking.tools.tool_report import ToolReport, summary_lines, tool_lines

_FEW_TOOLS = 5
_UNKNOWN = Spread()
SCHEMA_VERSION = 1
"""Version of the form of `HealthReport.to_dict`; within one version keys are only added."""


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
        tools: what other tools do to the dataset, for each tool that was asked for, and with several splits for each.
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
    photo_width_px: Spread = _UNKNOWN
    photo_height_px: Spread = _UNKNOWN
    photo_modes: Mapping[str, int] = field(default_factory=dict)
    objects_per_photo: Spread = _UNKNOWN
    object_area_px: Spread = _UNKNOWN
    object_area_frac: Spread = _UNKNOWN
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
    num = f"{counted(report.num_objects, 'object')} of " if report.has_annotations else ""
    head = f"{printable(name)}: " if name else ""
    yield f"{head}{counted(report.num_photos, 'image')}, {num}{counted(len(report.classes), 'class', 'classes')}"
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
    yield f"pose       {counted(report.num_with_keypoints, 'object')} with labelled points"
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
    if len({tool.name for tool in report.tools}) > _FEW_TOOLS:
        yield from summary_lines(report.tools)
    else:
        for tool in report.tools:
            yield from tool_lines(tool, num_shown)
    if any(tool.errors for tool in report.tools):
        yield "\ncorrect the errors first: what tools do with these was not tried, and many stop or leave out the image"


def _surfaces(report: HealthReport, decode: str) -> Iterator[str]:
    """Yield a line about depth and one about normals, if there are any."""
    for name, found in (("depth", report.depth), ("normals", report.normals)):
        if found is None:
            continue
        if found.invalid_frac is None:
            yield f"{name:<10} not read; {decode} reads it"
            continue
        parts = [f"{counted(found.num_images, 'image')}", f"{found.invalid_frac:.2%} of the pixels invalid"]
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
    errors, remarks = counted(num_errors, "error"), counted(num_remarks, "remark")
    return f"\n{'healthy' if report.is_healthy else 'not healthy'}: {errors}, {remarks}{heads}"
