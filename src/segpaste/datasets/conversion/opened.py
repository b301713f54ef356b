"""A dataset of Python with what a conversion asks of one that was found at a path."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from segpaste.datasets.contract import AnnotatedDataset
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.annotated_images import AnnotatedImages
from segpaste.datasets.formats.format import NO_SPLIT, Format, ReadOptions
from segpaste.datasets.formats.registry import FoundDataset
from segpaste.datasets.identity import digests_of


class _OfPython(Format):
    name, title, files, gives = "python", "a dataset of Python", "", ""

    def splits(self, path: Path) -> tuple[str, ...] | None:
        return None

    def open(self, path: Path, split: str, options: ReadOptions) -> AnnotatedImages:
        raise DatasetError(f"{path}: expected the dataset itself, which is no file; pass it")


@dataclass(frozen=True, slots=True)
class OpenedDataset(FoundDataset):
    """Dataset of Python, which has no splits.

    Attributes:
        dataset: the dataset.
    """

    dataset: AnnotatedDataset

    def open(self, split: object = None, options: object = None, opened: object = None) -> Any:
        """Return the dataset."""
        return self.dataset

    def digest_of(self, dataset: Any) -> str:
        """Return the digest of the dataset, or of some of its samples if it has none."""
        return digests_of(dataset)[0]

    @classmethod
    def of(cls, dataset: AnnotatedDataset) -> OpenedDataset:
        """Return a dataset whose annotations are those of its samples.

        Raises:
            DatasetError: it has ``transforms``, which annotations and files do not follow.
        """
        title = type(dataset).__name__
        if dataset.transforms is not None:
            raise DatasetError(
                f"{title}: expected a dataset without transforms, since files and annotations are copied, got some; "
                "open it without them, or write its samples with augment_dataset"
            )
        return cls(Path(title), _OfPython(), (NO_SPLIT,), dataset)
