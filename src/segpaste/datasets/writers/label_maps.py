"""Format of label maps: for each image a PNG of classes and one of objects, with a list of the classes.

    images/SPLIT/NAME  semantic/SPLIT/NAME.png  instances/SPLIT/NAME.png  classes.txt

Line i of ``classes.txt``, from 0, names the value i of semantic maps; see `segpaste.datasets.formats.text_files` for
names that no line can hold. In a dataset of instances 0 is the background.
The largest value is void: 255 for 8 bits or, with more classes, 65535 for 16 bits. In a map of objects 0 is no object,
and each object has its own number; its class is the one in the semantic map.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from segpaste.datasets.formats.folders import IMAGE_SUFFIXES
from segpaste.datasets.formats.pixel_bytes import picture_bytes
from segpaste.datasets.formats.text_files import class_list_text
from segpaste.datasets.writers.format import (
    File,
    LabelledImage,
    Losses,
    View,
    WrittenFormat,
    WrittenSplit,
    count_lost,
    count_split,
)
from segpaste.datasets.writers.owners import owners_of
from segpaste.types import IGNORE_INDEX

BACKGROUND = "background"


class LabelMaps(WrittenFormat):
    """Semantic and instance maps."""

    name = "label-maps"
    title = "Label maps"
    files = "images/SPLIT/NAME, semantic/SPLIT/NAME.png, instances/SPLIT/NAME.png and classes.txt"
    holds = "semantic maps, masks that do not overlap"
    suffixes = IMAGE_SUFFIXES
    num_mapped_classes = range(2**16 - 1)  # beside the background and void
    keeps_semantic_maps = True

    def photos_dir(self, split: str) -> str:
        """Return the folder of a split."""
        return f"images/{split}"

    def folders(self, split: str) -> tuple[str, ...]:
        """Return the folders of images and maps."""
        return f"images/{split}", f"semantic/{split}", f"instances/{split}"

    def label_files(self, image: LabelledImage, view: View, losses: Losses) -> Iterator[File]:
        """Yield the maps."""
        sample = image.labelled
        if sample.instance_masks is None and sample.semantic_map is None and sample.num_instances:
            raise ValueError("expected masks for label maps, got boxes only; add masks first (--masks-from)")
        count_lost(image, view, losses)
        owners = np.full(sample.canvas_size, -1)
        if sample.instance_masks is not None:
            owners = owners_of(sample, losses)
        if sample.instance_masks is not None or sample.semantic_map is None:  # else the map of classes is all there is
            objects = (owners + 1).astype(np.uint8 if sample.num_instances <= 255 else np.uint16)
            yield f"instances/{view.split}/{image.stem}.png", picture_bytes(objects)
        yield f"semantic/{view.split}/{image.stem}.png", picture_bytes(_semantic(image, owners, view))

    def closing_files(self, splits: Sequence[WrittenSplit], losses: Losses) -> Iterator[File]:
        """Yield the list of classes."""
        for split in splits:
            count_split(losses, split)
        yield "classes.txt", class_list_text(map_names(splits[0].view)).encode()


def map_names(view: View) -> list[str]:
    """Return the name of each value of semantic maps except void."""
    return [*([BACKGROUND] if view.first_value else []), *view.names]


def _semantic(image: LabelledImage, owners: NDArray[Any], view: View) -> NDArray[Any]:
    """Return the semantic map, [H, W] uint8 or uint16."""
    dtype = np.uint8 if len(map_names(view)) <= IGNORE_INDEX else np.uint16
    void = np.iinfo(dtype).max
    sample, first = image.labelled, view.first_value
    labels = np.concatenate([[0 if first else void], sample.labels.numpy() + first])
    values = labels[owners + 1]
    if sample.semantic_map is not None:
        semantic = sample.semantic_map.as_subclass(Tensor).numpy()
        values = np.where(owners >= 0, values, np.where(semantic == IGNORE_INDEX, void, semantic + first))
    if image.void is not None:
        values[image.void & (owners < 0)] = void
    for crowd, _ in image.crowds:
        values[crowd.mask & (owners < 0)] = void
    found: NDArray[Any] = values.astype(dtype)
    return found
