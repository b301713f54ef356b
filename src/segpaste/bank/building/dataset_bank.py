"""Bank that cuts its crops out of a dataset when they are read: every object of a dataset is a source at once.

    augment = BatchCopyPaste(source_pool=DatasetBank(dataset), balance="class_uniform")

Nothing is written. A read of a crop decodes its image, a few milliseconds, and of a dataset whose objects cannot be
read one by one (`lone_objects`) all objects of the image, too. So read crops in the workers of a loader
(`segpaste.create_bank_dataloader`). Each process keeps the crops that it read last. If training still waits for crops,
build a bank: `segpaste.bank.build_bank`.
"""

from __future__ import annotations

import copy
import hashlib
import json
import operator
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from segpaste.bank.building.cropping import DEFAULT_MARGIN_FRAC, ImageObject, cut_object
from segpaste.bank.building.listing import (
    check_first,
    checked_names,
    first_readable,
    image_ids,
    objects_of,
)
from segpaste.bank.building.parts import Selection, frame_of, groups_for
from segpaste.bank.format.protocol import Columns, checked_read
from segpaste.bank.schema.record import Array, BankError, Crop, Layout, checked_size
from segpaste.datasets.lone_objects import LoneObjects
from segpaste.datasets.views import Samples, annotated
from segpaste.samplers.by_class import SamplesOfClasses
from segpaste.seeding import random_bits_numpy
from segpaste.types import DenseSample
from segpaste.types.fields import flags_of

MOST_TRIES = 16

Found = TypeVar("Found")


def objects_to_paste(*, whole_only: bool) -> Selection:
    """Return the selection of sources: all objects that have a pixel, or only those that are whole."""
    return Selection(min_area_px=1, min_part_frac=0.0, whole_only=whole_only)


WHOLE_OBJECTS = objects_to_paste(whole_only=True)


@dataclass(frozen=True, slots=True, eq=False)
class FoundObject:
    """Object read from a dataset.

    Attributes:
        index: index of the crop that shows it.
        image: index of its image.
        sample: sample of the image.
        position: index of the object among the instances of the sample.
        mask: pixels to cut out, [H, W] bool, not empty.
    """

    index: int
    image: int
    sample: DenseSample
    position: int
    mask: Tensor

    @property
    def instance_id(self) -> int:
        """Id of the object in the sample."""
        assert self.sample.instance_ids is not None
        return int(self.sample.instance_ids[self.position])


class DatasetBank:
    """`InstanceBank` of all objects of a dataset, cut out when they are read.

    Crop i is an object of the dataset, in the order of its images and instances. If ``selection`` rejects that object,
    crop i is another object of its class, always the same one; after 16 rejected objects it is an empty crop, which is
    never pasted.

    Args:
        dataset: samples of uint8 images [3, H, W] with instance masks and without padding, the same at every read: a
            dataset with ``transforms`` is refused. The labels come from its ``instance_labels(index)`` if it has that
            method, as readers of segpaste do, also through a `torch.utils.data.Subset` or `ConcatDataset`. Of any other
            dataset each sample is read once.
        class_names: the name of each label, a list or a dictionary; by default the ``class_names`` of the dataset.
        crop_size: (h, w) of every crop, pixels. Larger objects are shrunk.
        fit_into: size (H, W), or side, to which your loader resizes images, pixels: objects of larger images are shrunk
            as if their image was resized to fit into it. By default they keep the size that they have in their image,
            and are too large for smaller batches. Images are never enlarged.
        margin_frac: background kept about each object, see `segpaste.bank.build_bank`.
        selection: which objects may be pasted; by default all that have a pixel and do not touch the border of their
            image, since the cut would show. As ``source_pool`` of a config with ``source.whole_only=False``, the
            default is all that have a pixel.
        cache_bytes: memory for crops that each process keeps, bytes; those read last are kept. A crop of 256 x 256
            pixels without depth takes 256 KiB.
        skips_unreadable: whether an image that cannot be read counts as one whose objects are all rejected.

    Attributes:
        layout, crop_size, class_frequencies, class_names, metric_depth: see `InstanceBank`.
        version: digest of the dataset's ids and labels and of the options; changed pixels do not change it.
        skips_unreadable: as given.
        unreadable: why such images cannot be read, by index; they are not tried again.

    Raises:
        BankError: the dataset has transforms, no objects, no class names, labels that are no classes, or samples that
            nothing can be cut out of.
        ValueError, OSError: an image cannot be read, and is not skipped or there is no other.

    A bank of this class can be pickled if its dataset can; its cached crops are not pickled.
    """

    def __init__(
        self,
        dataset: Samples,
        *,
        class_names: Sequence[str] | Mapping[int, str] | None = None,
        crop_size: int | tuple[int, int] = (256, 256),
        fit_into: int | tuple[int, int] | None = None,
        margin_frac: float = DEFAULT_MARGIN_FRAC,
        selection: Selection | None = None,
        cache_bytes: int = 256 << 20,
        skips_unreadable: bool = False,
    ) -> None:
        self.dataset, self.margin_frac, self.cache_bytes = dataset, margin_frac, cache_bytes
        self._annotated = annotated(dataset)
        self.fit_into = None if fit_into is None else checked_size("fit_into", fit_into)
        self.depth_fill = self._annotated.depth_fill is True
        self.selection, self._has_own_selection = selection or WHOLE_OBJECTS, selection is not None
        if self._annotated.transforms is not None:
            raise BankError(
                "DatasetBank: expected a dataset without transforms, so that an object is the same each time it is "
                "read, got one with transforms; open it a second time without them"
            )
        self.class_names = checked_names(self._annotated, type(dataset), class_names)
        self._image_idx, self._ordinals, self._class_ids = objects_of(self._annotated, len(self.class_names))
        self._image_ids = image_ids(self._annotated)
        self._of_class = SamplesOfClasses(self._class_ids, len(self.class_names))
        self.class_frequencies: tuple[int, ...] = tuple(self._of_class.counts.tolist())
        self.skips_unreadable = skips_unreadable
        self.unreadable: dict[int, str] = {}
        first = first_readable(self._annotated, self._image_idx, self.unreadable if skips_unreadable else None)
        check_first(first)
        self.layout = Layout(crop_size, groups_for(self._annotated, first), first.keypoint_schema)
        self.crop_size, self.metric_depth = self.layout.crop_size, first.metric_depth
        self._flags = flags_of(first)
        self.version = self._digest()
        self._forget()

    def __len__(self) -> int:
        return len(self._class_ids)

    def __repr__(self) -> str:
        return f"DatasetBank({type(self.dataset).__name__}, {len(self)} crops of {self.crop_size})"

    def __getitem__(self, index: int) -> Crop:
        """Read one crop; it raises the errors of `read`."""
        columns = self.read([operator.index(index)])
        return self.layout.unpack({name: rows[0] for name, rows in columns.items()})

    def read(
        self,
        indices: Sequence[int] | NDArray[np.int64],
        columns: Iterable[str] | None = None,
        out: Columns | None = None,
    ) -> Columns:
        """Read several crops; see `segpaste.bank.StoredBank.read`.

        Raises:
            IndexError, KeyError, ValueError: see `segpaste.bank.StoredBank.read`.
            BankError: a sample is invalid.
            ValueError, OSError: an image cannot be read.
        """
        places, found = checked_read(repr(self), len(self), self.layout, indices, columns, out)
        if set(found) <= {"image_id", "class_id"}:  # known without a read, and requested for whole datasets
            for name, rows in found.items():
                rows[:] = (self._class_ids if name == "class_id" else self._image_ids[self._image_idx])[places]
            return found if out is None else out
        for n in sorted(range(len(places)), key=lambda n: int(self._image_idx[places[n]])):  # one image after another
            row = self._row(places[n])
            for name, rows in found.items():
                rows[n] = row[name]
        return found if out is None else out

    def crop_class_ids(self) -> NDArray[np.int64]:
        """Return the class of every crop, [N]."""
        return self._class_ids.copy()

    def resized(self, crop_size: tuple[int, int]) -> DatasetBank:
        """Return a bank of the same objects and the same version, whose crops have another size (h, w), pixels.

        The version is that of this bank: a caller that stores it must store the size, too.
        """
        bank = copy.copy(self)
        bank.layout = Layout(crop_size, self.layout.groups, self.layout.keypoint_schema)
        bank.crop_size = bank.layout.crop_size
        return bank

    def for_pool(self, *, whole_only: bool) -> DatasetBank:
        """Return a bank of the objects that ``source.whole_only`` allows; this bank if it has an own selection."""
        if whole_only or self._has_own_selection:
            return self
        bank = copy.copy(self)
        bank.selection = objects_to_paste(whole_only=False)
        bank.version = bank._digest()
        bank._forget()
        return bank

    def image_of(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the image of each crop, [n], unless the crop is replaced by another object."""
        return self._image_idx[indices]

    def close(self) -> None:
        """Drop the cached crops."""
        self._forget()

    def __getstate__(self) -> dict[str, Any]:
        kept = "_rows", "_lock", "_sample", "_lone"
        return {name: value for name, value in self.__dict__.items() if name not in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def _forget(self) -> None:
        self._rows: OrderedDict[int, Array] = OrderedDict()
        self._sample: tuple[int, DenseSample] | None = None  # the last one read
        self._lone: tuple[int, LoneObjects | None] | None = None  # likewise
        self._lock = threading.Lock()

    def _row(self, index: int) -> Array:
        """Return a crop as one row of the layout, from memory if it is cached."""
        with self._lock:
            if (row := self._rows.get(index)) is not None:
                self._rows.move_to_end(index)
                return row
        row = self.layout.pack(self._cut(index))
        with self._lock:
            self._rows[index] = row
            while len(self._rows) * self.layout.dtype.itemsize > self.cache_bytes:
                self._rows.popitem(last=False)
        return row

    def _cut(self, index: int) -> Crop:
        """Cut out an object, or another one of its class if it is rejected."""
        for other in self._candidates(index):
            crop = self._if_readable(other, self._cut_one)
            if crop is not None and crop.alpha.any():
                return crop
        return self.empty(int(self._class_ids[index]))

    def found(self, index: int) -> Iterator[FoundObject]:
        """Yield the object of a crop if it may be pasted, then the objects of its class that may replace it.

        Raises:
            BankError: a sample is invalid.
        """
        for other in self._candidates(index):
            if (found := self._if_readable(other, self._read_one)) is not None:
                yield found

    def _candidates(self, index: int) -> Iterator[int]:
        """Yield the index of a crop, then those of the objects of its class that may replace it."""
        yield index
        class_id = self._class_ids[index]
        turns = np.arange(MOST_TRIES - 1, dtype=np.int64)
        places = random_bits_numpy(index, "dataset_bank.instead", turns) % np.uint64(self._of_class.counts[class_id])
        yield from self._of_class.pick(np.full(len(turns), class_id), places.astype(np.int64)).tolist()

    def _if_readable(self, index: int, read: Callable[[int, int], Found | None]) -> Found | None:
        """Return what ``read`` returns for an object and its image; None if it is rejected or skipped."""
        image = int(self._image_idx[index])
        if image in self.unreadable:
            return None
        try:
            return read(index, image)
        except BankError:
            raise
        except (ValueError, OSError) as error:
            if not self.skips_unreadable:
                raise
            self.unreadable[image] = str(error)
            return None

    def _read_one(self, index: int, image: int) -> FoundObject | None:
        """Read an object with its whole image; None if it is rejected."""
        sample = self._sample_of(image)
        masks = self._checked_masks(sample, image)
        position = self._position_of(index, sample.labels.tolist())
        mask = None if position is None else self._accepted(masks[position])
        return None if position is None or mask is None else FoundObject(index, image, sample, position, mask)

    def _cut_one(self, index: int, image: int) -> Crop | None:
        """Cut out an object, without the others of its image where that is possible; None if it is rejected."""
        if (lone := self._lone_of(image)) is None:
            if (whole := self._read_one(index, image)) is None:
                return None
            try:
                found = ImageObject.of(whole.sample, whole.position, whole.mask)
            except BankError as error:
                raise BankError(f"DatasetBank: sample {image}: {error}") from error
            return self._crop_of(image, found, whole.instance_id)
        if (position := self._position_of(index, lone.labels)) is None:
            return None
        chosen, _ = self.selection.chosen(lone, position)
        if isinstance(chosen, str):
            return None
        self._check_flags(lone.flags, image)
        return self._crop_of(image, chosen, position + 1)

    def _position_of(self, index: int, labels: Sequence[int]) -> int | None:
        """Return the position of an object in its sample; None if it has no pixel, since readers leave it out then."""
        of_class = [position for position, label in enumerate(labels) if label == self._class_ids[index]]
        return of_class[self._ordinals[index]] if self._ordinals[index] < len(of_class) else None

    def _accepted(self, whole: Tensor) -> Tensor | None:
        """Return the pixels of an object to cut out; None if it is rejected."""
        mask = self.selection.without_strays(whole)
        return mask if self.selection.reason_against(mask) is None else None

    def _checked_masks(self, sample: DenseSample, image: int) -> Tensor:
        """Return the masks of a sample; raise BankError if it has none, or other flags than the first."""
        if sample.instance_masks is None or sample.instance_ids is None:
            raise BankError(
                f"DatasetBank: sample {image}: expected instance_masks, got none; objects are cut out by their masks"
            )
        self._check_flags(flags_of(sample), image)
        masks: Tensor = sample.instance_masks.as_subclass(Tensor)
        return masks

    def _check_flags(self, flags: Mapping[str, Any], image: int) -> None:
        if flags != self._flags:
            raise BankError(f"DatasetBank: sample {image}: expected {self._flags} as in the first image, got {flags}")

    def image_id_of(self, found: FoundObject) -> int:
        """Return the id in the dataset of the image of an object."""
        return int(self._image_ids[found.image])

    def _crop_of(self, image: int, found: ImageObject, instance_id: int) -> Crop:
        """Cut an object out of its image."""
        crop = cut_object(
            found,
            self.layout.crop_size,
            margin_frac=self.margin_frac,
            frame=frame_of(self._annotated, image, found.box),
            fit_into=self.fit_into,
            depth_fill=self.depth_fill,
            image_id=int(self._image_ids[image]),
            annotation_id=instance_id,
        )
        return replace(crop, dataset_idx=self._annotated.dataset_idx(image))

    def _lone_of(self, image: int) -> LoneObjects | None:
        last = self._lone
        if last is None or last[0] != image:
            last = self._lone = image, self._annotated.lone_objects(image)
        return last[1]

    def _sample_of(self, image: int) -> DenseSample:
        last = self._sample
        if last is None or last[0] != image:
            last = self._sample = image, self.dataset[image]
        return last[1]

    def empty(self, class_id: int) -> Crop:
        """Return a crop without an object, which is never pasted."""
        row = np.zeros((), self.layout.dtype)
        row["class_id"] = class_id
        for name, value in (("scale", 1), ("intrinsics", 1)):
            if name in self.layout.shapes:
                row[name] = value
        return self.layout.unpack(row)

    def _digest(self) -> str:
        facts = {
            "class_names": self.class_names,
            "crop_size": self.crop_size,
            "margin_frac": self.margin_frac,
            **({} if self.fit_into is None else {"fit_into": self.fit_into}),
            **({"depth_fill": True} if self.depth_fill else {}),
            "selection": {name: getattr(self.selection, name) for name in Selection.__slots__},
            "groups": self.layout.groups,
            "dataset": str(self._annotated.digest or ""),
            "subset": self._annotated.facts(),
        }
        digest = hashlib.sha256(json.dumps(facts).encode())
        for column in (self._image_ids, self._image_idx, self._class_ids):
            digest.update(np.ascontiguousarray(column, "<i8").tobytes())
        return digest.hexdigest()
