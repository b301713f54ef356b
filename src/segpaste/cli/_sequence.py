"""An endless, seeded sequence of the photos of a dataset.

Position i depends on the dataset and the seed only: the dataset is gone through in one random order after another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from segpaste.cli._inputs import ReadPhotos
from segpaste.datasets._orders import shuffled_order
from segpaste.datasets.jitter import FixedSizeCrop
from segpaste.replay import ReplayError
from segpaste.seeding import SampleKey
from segpaste.types import DenseSample

RECORDS = "replay.jsonl"
"""The file of an augmented dataset that has a replay record of every image, one per line."""

_order_of = lru_cache(maxsize=2)(shuffled_order)


@dataclass(frozen=True, slots=True)
class PhotoPick:
    """Which photo stands at one position of the sequence.

    Attributes:
        key: names the sample; its index is the position, from 0, its epoch how many times the dataset was gone through
            before.
        index: of the photo in the dataset.
    """

    key: SampleKey
    index: int

    @property
    def position(self) -> int:
        """From 0."""
        return self.key.sample_idx


@dataclass(slots=True)
class PhotoSequence:
    """The sequence of one dataset and one seed.

    Attributes:
        photos: the dataset, not empty.
        seed: of the sequence.
    """

    photos: ReadPhotos
    seed: int

    def pick(self, position: int) -> PhotoPick:
        """What stands at this position."""
        epoch, place = divmod(position, len(self.photos))
        index = int(_order_of(len(self.photos), self.seed, epoch)[place])
        return PhotoPick(SampleKey(self.seed, epoch, 0, 0, position), index)

    def sample_for(self, key: SampleKey) -> DenseSample:
        """The photo that a key names, as it is in the dataset.

        Raises:
            ReplayError: the sequence has another key at that position.
        """
        pick = self.pick(key.sample_idx)
        if pick.key != key:
            raise ReplayError(f"expected a record of segpaste augment, with {pick.key} at that position, got {key}")
        return self.photos[pick.index]


def cornered(sample: DenseSample, size: tuple[int, int]) -> DenseSample:
    """A sample in the top left corner of a canvas (H, W), with a padding mask."""
    return FixedSizeCrop(size).transform(sample, (0, 0))


def cut_to(sample: DenseSample, size: tuple[int, int]) -> DenseSample:
    """The top left (H, W) of a sample, without a padding mask."""
    return replace(cornered(sample, size), padding_mask=None)
