"""The known tools, and what they do to a checked dataset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from segpaste.datasets.checking.listings.listing import Listing
from segpaste.datasets.checking.tools import (
    datumaro,
    faster_coco_eval,
    globox,
    hotcoco,
    labelformat,
    libreyolo,
    lightly_train,
    lvis,
    mmdetection,
    panopticapi,
    pycocotools,
    rfdetr,
    sahi,
    smp,
    supervision,
    torchmetrics,
    torchvision,
    transformers,
    ultralytics,
)
from segpaste.datasets.checking.tools.layout_traits import OF_DATA_YAML
from segpaste.datasets.checking.tools.rules import EFFECTS, Rule, Tool
from segpaste.datasets.checking.tools.tool_report import ToolFinding, ToolReport
from segpaste.datasets.checking.tools.trait import ListedSplit, Place
from segpaste.datasets.checking.tools.traits import TRAITS, find_traits
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.format import WrittenTask

TOOLS: Mapping[str, Tool] = MappingProxyType(
    {
        tool.name: tool
        for tool in (
            *ultralytics.TOOLS,
            *rfdetr.TOOLS,
            *libreyolo.TOOLS,
            lightly_train.TOOL,
            mmdetection.TOOL,
            *transformers.TOOLS,
            torchvision.TOOL,
            smp.TOOL,
            pycocotools.TOOL,
            faster_coco_eval.TOOL,
            hotcoco.TOOL,
            hotcoco.PANOPTIC,
            panopticapi.TOOL,
            lvis.TOOL,
            *torchmetrics.TOOLS,
            supervision.TOOL,
            datumaro.TOOL,
            labelformat.TOOL,
            globox.TOOL,
            sahi.TOOL,
        )
    }
)
"""Each tool that ``segpaste check --for`` knows, by name."""

_READ_AS = {"roboflow": "coco", "lvis": "coco", "coco-panoptic": "panoptic", "label-maps": "maps"}
"""The format of `Tool.formats` of written formats that have another name."""
NUM_PLACES = 20
"""Places of each finding that a report keeps."""
_ORDER = {effect: number for number, effect in enumerate(EFFECTS)}


def chosen_tools(names: Iterable[str | Tool]) -> list[Tool]:
    """Return the tools of these names, in the order of `TOOLS`; ``all`` stands for each. Tools of your own come last.

    Raises:
        DatasetError: a name is unknown.
    """
    chosen = [names] if isinstance(names, str) else list(names)
    given = [name for name in chosen if isinstance(name, str)]
    for name in given:
        if name not in TOOLS and name != "all":
            raise DatasetError(f"expected tools of {', '.join(TOOLS)}, or all, got {name!r}; choose among them")
    known = [tool for tool in TOOLS.values() if tool.name in given or "all" in given]
    return known + [tool for tool in chosen if isinstance(tool, Tool)]


def written_for(
    name: str, to: str | None = None, task: WrittenTask | None = None
) -> tuple[Tool, str, WrittenTask | None]:
    """Return the tool that will read a written dataset, the format to write, and its task in YOLO's labels.

    Args:
        name: name of the tool.
        to: the format; by default the one that the tool reads best.
        task: the task; by default that of the tool. One of a tool with another task chooses the tool of the same
            package that has it.

    Raises:
        DatasetError: there is no such tool, nothing is written for it, or it was not seen to read this format.
    """
    known = {tool.name: tool for tool in TOOLS.values() if tool.reads_best is not None}
    if name not in known:
        text = f"tool (--for): expected one of {', '.join(known)}, got {name!r}"
        raise DatasetError(f"{text}; choose one of them, or a format instead")
    tool = known[name]
    if task is not None:
        of_task = (other for other in known.values() if other.package == tool.package)
        tool = next((other for other in of_task if other.reads_best == ("yolo", task)), tool)
    assert tool.reads_best is not None
    best, of_best = tool.reads_best
    if to is not None and _READ_AS.get(to, to) not in tool.formats:
        text = f"{name} (--for): expected a format that it was seen to read, such as {best}, got {to}"
        raise DatasetError(f"{text}; leave the format out, which writes {best}")
    return tool, to or best, task or (of_best if to in (None, best) else None)


def tool_reports(split: ListedSplit, tools: Sequence[Tool]) -> tuple[ToolReport, ...]:
    """Return what each tool does to a dataset.

    Args:
        split: the dataset.
        tools: the tools.
    """
    format = split.listing.format
    rules = {tool.name: _rules_for(tool, split.listing) for tool in tools}
    found = find_traits(split, sorted({rule.trait for of_tool in rules.values() for rule in of_tool}))
    return tuple(
        ToolReport(
            tool.name,
            tool.label,
            format,
            format in tool.formats,
            tuple(
                _finding(split, rule, found[rule.trait])
                for rule in sorted(rules[tool.name], key=lambda rule: _ORDER[rule.effect])
                if found[rule.trait]
            ),
        )
        for tool in tools
    )


def _rules_for(tool: Tool, listing: Listing) -> list[Rule]:
    """Return the rules about a dataset; those about its data YAML only if the tool has no file of its own beside it."""
    rules = [rule for rule in tool.rules if rule.format == listing.format]
    own = None if listing.file is None else listing.file.with_name(f"{tool.package}.yaml")
    is_started_from_own = own is not None and own != listing.file and own.is_file()
    return [rule for rule in rules if rule.trait not in OF_DATA_YAML] if is_started_from_own else rules


def _finding(split: ListedSplit, rule: Rule, places: Sequence[Place]) -> ToolFinding:
    images = {place.image for place in places}
    num_objects = sum(place.annotation is not None for place in places)
    if of_images := num_objects == 0:
        num_objects = sum(of.image in images and not of.is_crowd and not of.is_stuff for of in split.listing.objects)
    return ToolFinding(
        rule.trait,
        TRAITS[rule.trait].text,
        rule.effect,
        rule.says,
        rule.advice,
        len(images),
        num_objects,
        len(places),
        tuple(_named(split, place) for place in places[:NUM_PLACES]),
        of_images,
    )


def _named(split: ListedSplit, place: Place) -> str:
    """Return the file of a place, with its annotation."""
    image = split.listing.images[place.image]
    return image.name if place.annotation is None else f"{image.name}: {image.entry} {place.annotation}"
