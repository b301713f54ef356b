"""Division of the images of a dataset into parts: what each image shows, groups, and what became of each class."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from segpaste.datasets.contract import AnnotatedDataset
from segpaste.datasets.dataset_counts import class_pixels
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.splitting.stratify import Group, stratify
from segpaste.datasets.splitting.summary import ClassParts

FOLDER = "folder"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def expect_fractions(parts: Mapping[str, float]) -> None:
    """Check the names and fractions of parts.

    Raises:
        DatasetError: there are fewer than two parts, a name is no name of a folder, or the fractions are wrong.
    """
    given = ",".join(f"{name}={fraction:g}" for name, fraction in parts.items())
    if len(parts) < 2:
        raise DatasetError(f"parts: expected at least two, such as train=0.8,val=0.2, got {given!r}; add one")
    if wrong := [name for name in parts if not _NAME.fullmatch(name)]:
        raise DatasetError(f"parts: expected names of letters, digits, '_' and '-', got {wrong[0]!r}; choose another")
    if len({name.casefold() for name in parts}) < len(parts):
        raise DatasetError(f"parts: expected names that differ in more than case, got {given!r}; choose others")
    numbers = [*parts.values()]
    if not all(0 < number < 1 for number in numbers) or not math.isclose(sum(numbers), 1, abs_tol=1e-6):
        total = f"{sum(numbers):g}"
        raise DatasetError(
            f"parts: expected fractions above 0 whose sum is 1, such as train=0.8,val=0.2, got {given!r}, whose sum is "
            f"{total}; correct them"
        )


def group_names(names: Sequence[str], group_by: str | None) -> list[str]:
    """Return the name of the group of each image.

    Args:
        names: file names of the images, with slashes.
        group_by: ``folder`` for the folder of the file; or a regular expression that is found in the file name, whose
            groups in parentheses, or without any the whole match, name the group; None for a group for each image.

    Raises:
        DatasetError: it is no regular expression, or is not found in a name.
    """
    if group_by is None:
        return [f"{number}" for number in range(len(names))]
    if group_by == FOLDER:
        return [PurePosixPath(name).parent.as_posix() for name in names]
    try:
        pattern = re.compile(group_by)
    except re.error as error:
        raise DatasetError(
            f"group_by: expected 'folder' or a regular expression (--group-by), got {group_by!r} ({error}); correct it"
        ) from error
    found = [pattern.search(name) for name in names]
    if missing := [name for name, match in zip(names, found, strict=True) if match is None]:
        raise DatasetError(
            f"group_by: expected the pattern {group_by!r} (--group-by) in every file name, found it not in "
            f"{len(missing):,} of {len(names):,}, such as {missing[0]!r}; correct the pattern"
        )
    return ["/".join(str(part or "") for part in match.groups()) or match[0] for match in found if match is not None]


def shown_classes(photos: AnnotatedDataset, index: int) -> Counter[int]:
    """Return the objects of each class in an image; a class of a semantic map without objects has 0 of them.

    Annotations are enough, but for datasets of maps, which are read.
    """
    if photos.schema is not None and photos.map_row(index):
        by_id = {row["id"]: label for label, row in enumerate(sorted(photos.categories, key=lambda row: row["id"]))}
        segments = {by_id[row["category_id"]]: 0 for row in photos.annotation_rows(index)}
        found = Counter(segments)
        found.update(photos.instance_labels(index))
        return found
    if not photos.has_semantic_maps:
        return Counter(photos.instance_labels(index))
    sample = photos[index]
    found = Counter(dict.fromkeys(class_pixels(sample), 0))
    found.update(sample.labels.tolist())
    return found


@dataclass(frozen=True, slots=True)
class Division:
    """Images of a dataset in parts.

    Attributes:
        fractions: the wanted fraction of each part, by its name.
        counts: objects of each class in each image, see `shown_classes`.
        names: name of the group of each image.
        part_of: the part of each group, by its name.
    """

    fractions: Mapping[str, float]
    counts: Sequence[Counter[int]]
    names: Sequence[str]
    part_of: Mapping[str, str]

    @classmethod
    def of(
        cls,
        counts: Sequence[Counter[int]],
        files: Sequence[str],
        parts: Mapping[str, float],
        group_by: str | None,
        seed: int,
    ) -> Division:
        """Divide images.

        Raises:
            DatasetError: there are fewer groups than parts, or a name has no group.
        """
        names = group_names(files, group_by)
        groups: dict[str, list[int]] = {}
        for index, name in enumerate(names):
            groups.setdefault(name, []).append(index)
        if len(groups) < len(parts):
            by = "images" if group_by is None else f"groups of images (--group-by {group_by})"
            raise DatasetError(
                f"parts: expected at least {len(parts)} {by}, one for each part, got {len(groups)}; choose fewer parts"
                f"{'' if group_by is None else ', or other groups'}"
            )
        found = [Group(len(own), Counter(label for i in own for label in counts[i])) for own in groups.values()]
        order = [*parts]
        of_groups = stratify(found, [*parts.values()], seed)
        part_of = {name: order[part] for name, part in zip(groups, of_groups, strict=True)}
        return cls(parts, counts, names, part_of)

    @property
    def parts(self) -> dict[str, list[int]]:
        """Indices of the images of each part, ascending."""
        found: dict[str, list[int]] = {part: [] for part in self.fractions}
        for index, name in enumerate(self.names):
            found[self.part_of[name]].append(index)
        return found

    def classes(self, names: Sequence[str]) -> list[ClassParts]:
        """Return what became of each class that an image shows, the rarest first."""
        rows = []
        for label, name in enumerate(names):
            own = [
                [self.counts[index][label] for index in indices if label in self.counts[index]]
                for indices in self.parts.values()
            ]
            groups = {self.names[index] for index, count in enumerate(self.counts) if label in count}
            if groups:
                rows.append(ClassParts(name, tuple(map(len, own)), tuple(map(sum, own)), len(groups)))
        return sorted(rows, key=lambda row: sum(row.num_images))

    def deviations(self, classes: Sequence[ClassParts]) -> list[str]:
        """Return in words which parts have other sizes than wanted, and which classes are not in each part."""
        total, sizes = len(self.counts), {part: len(own) for part, own in self.parts.items()}
        found = []
        for part, fraction in self.fractions.items():
            if abs(sizes[part] - fraction * total) > max(1.0, 0.02 * total):
                found.append(
                    f"part {part}: {sizes[part]:,} of {total:,} images, {sizes[part] / total:.1%} instead of "
                    f"{fraction:.1%}, since groups stay together or for the sake of rare classes"
                )
        largest, size = Counter(self.names).most_common(1)[0]
        if smaller := [part for part, fraction in self.fractions.items() if 1 < size > fraction * total]:
            found.append(f"group {largest}: {size:,} images, more than the part {', '.join(smaller)} should have")
        for row in classes:
            if not row.is_in_each:
                missing = [part for part, num in zip(self.fractions, row.num_images, strict=True) if not num]
                why = f"it is in {row.num_groups} {'image' if len({*self.names}) == total else 'group'}" + (
                    "" if row.num_groups == 1 else "s"
                )
                found.append(f"class {row.name}: not in {', '.join(missing)}, {why}")
        return found
