"""Rules about tools: what a tool was seen to do with images and annotations that have a trait.

A rule is an observation of the versions that its tool names, never a guess. `tests/tools` has for each tool a program
that runs it on small datasets, one for each trait, and compares what it did with these rules; ``make tools`` runs them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

from segpaste.datasets.entries import JsonRow
from segpaste.datasets.formats.format import WrittenTask

Effect = Literal[
    "stops",
    "image_lost",
    "object_lost",
    "object_split",
    "mask_changed",
    "box_changed",
    "class_changed",
    "points_lost",
    "shifted",
    "crowd_kept",
    "crowd_made",
    "never_matched",
    "ids_lost",
    "pixels_changed",
    "background_lost",
]

EFFECTS: Mapping[Effect, str] = MappingProxyType(
    {
        "stops": "the tool stops with an error",
        "image_lost": "the image is left out, with its objects",
        "object_lost": "the object is left out",
        "object_split": "one object becomes several",
        "mask_changed": "the mask has other pixels",
        "box_changed": "the box has other edges",
        "class_changed": "the object has another class",
        "points_lost": "the keypoints are left out",
        "shifted": "the label is at another place than the object",
        "crowd_kept": "the crowd region is read as an object",
        "crowd_made": "the object is written as a crowd region",
        "never_matched": "the object counts as missed, also if it was found",
        "ids_lost": "the annotation gets no id, or the id 0",
        "pixels_changed": "the image has other values",
        "background_lost": "the image without objects is left out",
    }
)
"""What a tool does to what has a trait; the more serious first."""

HARMLESS: frozenset[Effect] = frozenset({"background_lost"})
"""Effects by which no label is lost or wrong."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Observation of what a tool does with whatever has a trait.

    Attributes:
        format: format of the dataset, see `Tool`.
        trait: a key of `segpaste.datasets.checking.tools.traits.TRAITS`.
        effect: what becomes of it.
        says: the same in the words of the tool's behaviour, for a reader who does not know it.
        advice: what to do instead; ``{tool}`` stands for the name of the tool.
    """

    format: str
    trait: str
    effect: Effect
    says: str
    advice: str


SHARED_LABELS = Rule(
    "yolo",
    "same_stem",
    "object_lost",
    "the images have one label file together, so that one of them has the labels of the other",
    "rename the images, and give each a label file",
)


SAME_CLASSES = "segpaste convert --to yolo joins classes by name"
"""Advice for splits whose classes differ."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool, and what it was seen to do.

    Attributes:
        name: name for the command line.
        title: name for readers.
        package: its name on the package index.
        versions: the versions that were run, ascending.
        does: one word: ``trains``, ``evaluates`` or ``converts``.
        formats: formats on which it was run: ``coco``, ``yolo``, ``voc``, ``panoptic`` or ``maps``.
        rules: what it does with traits; whatever has no rule it was seen to keep.
        reads_best: name of the written format for it, and its task in YOLO's labels; None if nothing is written for it.
        starts: what starts it, by the written format, with ``{out}`` for the folder; empty if that is code of its user.
        needs: splits without which it does not start: ``train``, ``val``.
        joins_classes: False if it takes the ids of the classes of the first split for those of all.
    """

    name: str
    title: str
    package: str
    versions: tuple[str, ...]
    does: Literal["trains", "evaluates", "converts"]
    formats: tuple[str, ...]
    rules: tuple[Rule, ...] = ()
    reads_best: tuple[str, WrittenTask | None] | None = None
    starts: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    joins_classes: bool = True

    def __post_init__(self) -> None:
        named = [replace(rule, advice=rule.advice.replace("{tool}", self.name)) for rule in self.rules]
        object.__setattr__(self, "rules", tuple(named))

    def other_classes(self, first: Sequence[JsonRow], others: Sequence[JsonRow]) -> str:
        """Return which class of another split the tool takes for another one; empty if none."""
        known = {row["id"]: row["name"] for row in first}
        for row in () if self.joins_classes else others:
            if (name := known.get(row["id"])) != row["name"]:
                taken = "no class" if name is None else repr(name)
                return f"{row['name']!r} has the id {row['id']}, which is {taken} in the first split"
        return ""

    def split_name(self, split: str, to: str) -> str:
        """Return the name under which a split of a dataset is written in a format, so that the tool finds it.

        Tools that read Roboflow's folders search for train, valid and test.
        """
        if to != "roboflow":
            return split
        kind = split.rstrip("0123456789_- ")
        return {"val": "valid", "validation": "valid", "train": "train", "test": "test"}.get(kind.lower(), split)

    @property
    def label(self) -> str:
        """Title with the last version that was run."""
        return f"{self.title} {self.versions[-1]}"
