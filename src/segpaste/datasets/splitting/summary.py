"""Summary of a divided dataset: what is in which part, and what could not be divided as wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class ClassParts:
    """A class, and the parts that show it.

    Attributes:
        name: its name.
        num_images: number of images that show it, in each part.
        num_objects: number of its objects in each part; 0 for classes of semantic maps only.
        num_groups: number of groups of images that show it, in all parts.
    """

    name: str
    num_images: tuple[int, ...]
    num_objects: tuple[int, ...]
    num_groups: int

    @property
    def is_in_each(self) -> bool:
        """True if each part shows the class."""
        return all(self.num_images)


@dataclass(frozen=True, slots=True)
class SplitSummary:
    """Parts of a divided dataset.

    Attributes:
        out: the folder of the new dataset.
        format: name of its format.
        seed: seed of the division.
        fractions: the wanted fraction of each part.
        num_images: number of images of each part.
        classes: classes that an image shows, from the rarest to the most frequent.
        deviations: what differs from the wanted parts, in words.
        left_out: number of each kind of file or image that is not in the new dataset, by description.
        num_verified: number of images whose annotations were read again.
        image_names: file names of the images of each part.
    """

    out: Path
    format: str
    seed: int
    fractions: Mapping[str, float]
    num_images: Mapping[str, int]
    classes: Sequence[ClassParts]
    deviations: Sequence[str]
    left_out: Mapping[str, int] = field(default_factory=dict)
    num_verified: int = 0
    image_names: Mapping[str, Sequence[str]] = field(default_factory=dict, repr=False)

    @property
    def not_in_each(self) -> list[ClassParts]:
        """Classes that a part does not show."""
        return [row for row in self.classes if not row.is_in_each]

    def to_dict(self) -> dict[str, Any]:
        """Return the summary for JSON, with the files of each part."""
        given = {
            name: getattr(self, name)
            for name in ("format", "seed", "fractions", "num_images", "deviations", "left_out", "num_verified")
        }
        classes = {row.name: {"parts": list(self.num_images), **asdict(row)} for row in self.classes}
        files = {part: list(names) for part, names in self.image_names.items()}
        return {"out": str(self.out), **given, "deviations": list(self.deviations), "classes": classes, "files": files}
