"""Choice of a split of a dataset; validation and test splits are opened only by name."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from segpaste.datasets.errors import DatasetError

_HELD_OUT = ("val", "test")


def chosen_split(path: Path, splits: Collection[str], split: str | None) -> str:
    """Return the named split, or without a name the training split.

    Args:
        path: path of the dataset, for errors.
        splits: the names of its splits.
        split: the name; by default ``train``, or the only one that is named neither ``val...`` nor ``test...``.

    Raises:
        DatasetError: there is no such split; or no name is given, and there is not exactly one training split.
    """
    if split is not None:
        if split in splits:
            return split
        raise DatasetError(f"{path}: expected one of the splits {', '.join(splits)}, got {split!r}")
    free = [name for name in splits if not name.startswith(_HELD_OUT)]
    if "train" in free or len(free) == 1:
        return "train" if "train" in free else free[0]
    raise DatasetError(
        f"{path}: expected a split to train on, got {', '.join(splits)}; name the split (split=..., --split)"
    )
