"""Report of a check for other tools: what each does to the dataset, and its text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from segpaste._printable import printable
from segpaste.datasets.checking.tools.rules import EFFECTS, HARMLESS, Effect


@dataclass(frozen=True, slots=True)
class ToolFinding:
    """Finding about a tool: what it does to the images and annotations that have a trait.

    Attributes:
        trait: a key of `segpaste.datasets.checking.tools.traits.TRAITS`.
        what: what has the trait, in words.
        effect: a key of `segpaste.datasets.checking.tools.rules.EFFECTS`.
        says: what the tool does.
        advice: what to do.
        num_images: images with it.
        num_objects: annotations that have it; for a trait of images the objects of these images.
        num_places: places where the trait was found.
        places: the first of them, as paths with the annotation if one is meant.
        of_images: True if it is a trait of the images, or of their maps.
    """

    trait: str
    what: str
    effect: Effect
    says: str
    advice: str
    num_images: int
    num_objects: int
    num_places: int
    places: tuple[str, ...]
    of_images: bool = False


@dataclass(frozen=True, slots=True)
class ToolReport:
    """Report about one tool: what it does to the dataset.

    Attributes:
        name: name of the tool.
        label: its title and the version that was observed.
        format: format of the dataset; empty if it is none that a tool reads.
        reads_format: False if the tool was not run on datasets of this format, so nothing is known.
        findings: what it does, the most serious first; empty if it keeps all.
        split: name of the split; empty if the dataset has none, or was opened as one.
        lacks: which splits the tool needs and does not find, with what to do; empty if it has them, or none was named.
        errors: errors of the split. What the tool does with their images was not tried.
    """

    name: str
    label: str
    format: str
    reads_format: bool
    findings: tuple[ToolFinding, ...] = ()
    split: str = ""
    lacks: str = ""
    errors: int = 0

    @property
    def keeps_labels(self) -> bool:
        """True if no label is lost or wrong in the tool, as far as is known; errors of the split are not."""
        return not self.errors and all(found.effect in HARMLESS for found in self.findings)


def tool_lines(report: ToolReport, num_shown: int) -> Iterator[str]:
    """Yield the lines about one tool.

    Args:
        report: what it does.
        num_shown: number of places of each finding to show.
    """
    split = f", split {printable(report.split)}" if report.split else ""
    yield f"\nfor {report.label}{split}{_verdict(report)}"
    if report.lacks:
        yield f"  {printable(report.lacks)}"
    for found in report.findings:
        yield f"  {found.what:<48} {_counted(found)}"
        yield f"      {EFFECTS[found.effect]}: {found.says}"
        yield from (f"      {printable(place)}" for place in found.places[:num_shown])
        if found.num_places > num_shown > 0:
            yield f"      and {found.num_places - num_shown:,} more"
        yield f"      {found.advice}"


def summary_lines(reports: Sequence[ToolReport]) -> Iterator[str]:
    """Yield a line for each of several tools; splits for which all lines are the same share them."""
    of_split: dict[str, list[str]] = {}
    for report in reports:
        words = [f"{found.what} ({_counted(found)}): {EFFECTS[found.effect]}" for found in report.findings]
        told = (
            "; ".join(words)
            if words and not report.errors
            else "; ".join([_verdict(report).removeprefix(": "), *words])
        )
        of_split.setdefault(report.split, []).append(f"  {report.label:<32} {told}")
    alike: dict[tuple[str, ...], list[str]] = {}
    for split, lines in of_split.items():
        alike.setdefault(tuple(lines), []).append(split)
    for shared, splits in alike.items():
        names = ", ".join(map(printable, filter(None, splits)))
        yield f"\ntools, {'splits' if len(splits) > 1 else 'split'} {names}" if names else "\ntools"
        yield from shared
    yield from (f"  {printable(report.lacks)}" for report in reports if report.lacks)


def _verdict(report: ToolReport) -> str:
    if not report.reads_format:
        return ": was not run on this format, so nothing is known"
    if report.errors:
        return f": not tried with {'the error' if report.errors == 1 else f'the {report.errors:,} errors'} of the split"
    return "" if report.findings else ": loses nothing, as far as is known"


def _counted(found: ToolFinding) -> str:
    images = f"{found.num_images:,} {'image' if found.num_images == 1 else 'images'}"
    if not found.of_images:
        return f"{found.num_objects:,} in {images}"
    objects = f"{found.num_objects:,} {'object' if found.num_objects == 1 else 'objects'}"
    return f"{images} with {objects}" if found.num_objects else images
