"""An endless, seeded sequence of the images of a dataset as targets, and of the sources of each.

Position i depends on the dataset and the seed only: the dataset is traversed in a new random order in each epoch. The
sources of a position are drawn from the whole dataset.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from segpaste.datasets._orders import shuffled_order
from segpaste.datasets.contract import AnnotatedDataset
from segpaste.datasets.jitter import FixedSizeCrop
from segpaste.seeding import SampleKey, random_bits_numpy
from segpaste.types import DenseSample

RECORDS = "replay.jsonl"
"""File of an augmented dataset with a replay record of every image, one per line."""

MOST_TRIES = 16
"""Largest number of images that are tried at one position."""

_order_of = lru_cache(maxsize=2)(shuffled_order)


@dataclass(frozen=True, slots=True)
class PhotoPick:
    """An image at one position of the sequence.

    Attributes:
        key: key of the sample; its index is the position, from 0, its epoch the number of complete passes over the
            dataset before. Its rank is 0 for the target, and counts the sources from 1.
        index: index of the image in the dataset.
    """

    key: SampleKey
    index: int

    @property
    def position(self) -> int:
        """Position in the sequence, from 0."""
        return self.key.sample_idx


@dataclass(frozen=True, slots=True, eq=False)
class PhotoSequence:
    """The sequence of one dataset and one seed.

    Attributes:
        photos: the dataset, not empty.
        seed: seed of the sequence.
        skipped: indices of images that are left out.
    """

    photos: AnnotatedDataset
    seed: int
    skipped: Collection[int] = ()

    def pick(self, position: int) -> PhotoPick:
        """Return the first choice for this position, which may be a skipped image."""
        epoch, place = divmod(position, len(self.photos))
        index = int(_order_of(len(self.photos), self.seed, epoch)[place])
        return PhotoPick(SampleKey(self.seed, epoch, 0, 0, position), index)

    def position_of(self, index: int) -> int:
        """Return the position of an image in the order of epoch 0."""
        return int(np.flatnonzero(_order_of(len(self.photos), self.seed, 0) == index)[0])

    def picks(self, position: int) -> Iterator[PhotoPick]:
        """Yield the image at this position, then its replacements for the case that it cannot be read."""
        pick = self.pick(position)
        if pick.index not in self.skipped:
            yield pick
        others = np.setdiff1d(np.arange(len(self.photos)), [*self.skipped, pick.index])
        if len(others):
            bits = random_bits_numpy(pick.key.seed, "augment.instead", np.arange(MOST_TRIES))
            for place in dict.fromkeys((bits % np.uint64(len(others))).tolist()):
                yield PhotoPick(pick.key, int(others[place]))

    def sources(self, target: PhotoPick, number: int, eligible: NDArray[np.int64]) -> Iterator[PhotoPick]:
        """Yield a source image, then its replacements for the case that nothing in it can be pasted.

        Each is uniform over the eligible images other than the target; nothing is yielded if there is no other.

        Args:
            target: the target.
            number: number of the source among those of the target, from 0.
            eligible: [N] indices of images with something to paste, ascending.
        """
        place = int(np.searchsorted(eligible, target.index))
        is_among = place < len(eligible) and eligible[place] == target.index
        num_others = len(eligible) - bool(is_among)
        if not num_others:
            return
        tries = np.arange(MOST_TRIES)
        bits = random_bits_numpy(target.key.seed, "augment.source", np.full_like(tries, number), tries)
        for turn, at in enumerate((bits % np.uint64(num_others)).tolist()):
            index = int(eligible[at + (is_among and at >= place)])
            if index not in self.skipped:
                yield PhotoPick(target.key._replace(rank=number + 1, worker_id=turn), index)


def cornered(sample: DenseSample, size: tuple[int, int]) -> DenseSample:
    """Return a sample in the top left corner of a canvas (H, W), with a padding mask."""
    return FixedSizeCrop(size).transform(sample, (0, 0))


def cut_to(sample: DenseSample, size: tuple[int, int]) -> DenseSample:
    """Return the top left (H, W) of a sample, without a padding mask."""
    cut = sample if sample.canvas_size == size else cornered(sample, size)
    return cut if cut.padding_mask is None else replace(cut, padding_mask=None)
