"""Loader whose batches depend only on (dataset, seed, epoch, rank).

They do not depend on the number of workers, their start method, or torch's global generator. Each sample has its own
seed, from which its jitter and later its augmentation draw. The batch holds the seeds in ``sample_seeds`` and the
numbers that they derive from in ``sample_keys``. `EpochDataLoader.sample_for` reads a sample again by its key.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.context import BaseContext
from os import PathLike
from typing import Any, Literal, NamedTuple

from torch.utils.data import BatchSampler, Dataset, Sampler

from segpaste._worker_ends import end_after_sending
from segpaste.datasets._orders import DatasetOrder, PassSampler, SamplePlace, SamplerOrder
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.coco.dataset import CocoDetectionV2
from segpaste.datasets.jitter import LargeScaleJitter, SampleTransform, make_large_scale_jittering
from segpaste.epochs import EpochLoader, EpochProgress, EpochSampler, ReplicaFinder, callable_facts
from segpaste.samplers import NxMBatches, NxMSampler
from segpaste.seeding import SampleKey, check_uint64, key_tensors
from segpaste.types import BatchedDenseSample, DenseSample, PaddedBatchedDenseSample
from segpaste.types.check import check_class, check_count
from segpaste.types.tensors import MaskSlots, sent_batch


class Loaded(NamedTuple):
    """One sample with its key, or the error message if it could not be read."""

    sample: DenseSample | None
    key: SampleKey
    error: str = ""


class LoadedBatch(NamedTuple):
    """Samples of one batch, and the memory in which their masks were drawn."""

    loaded: list[Loaded]
    slots: MaskSlots


class FetchedSamples(NamedTuple):
    """Result of a worker for one batch: the batch, messages of broken samples, instance counts above the limit."""

    batch: PaddedBatchedDenseSample | None
    broken: list[str]
    overflows: list[int]


@dataclass(frozen=True)
class SeededSamples(Dataset[Loaded]):
    """Dataset indexed by `SamplePlace`. It returns dataset errors as messages, because workers wrap exceptions."""

    dataset: Dataset[DenseSample]
    jitter: SampleTransform | None
    base_seed: int
    max_instances: int

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]

    def __getitems__(self, places: Sequence[SamplePlace]) -> LoadedBatch:
        """Load the samples of a batch for `Collate`."""
        slots, loaded = MaskSlots(len(places), self.max_instances), list[Loaded]()
        for b, place in enumerate(places):
            with slots.drawing(b):
                loaded.append(self[place])
        return LoadedBatch(loaded, slots)

    def __getitem__(self, place: SamplePlace) -> Loaded:
        return self.load(SampleKey(self.base_seed, place.epoch, place.rank, 0, place.sample_idx))

    def load(self, key: SampleKey) -> Loaded:
        """Load and jitter the sample of a key."""
        index, jitter = key.sample_idx, self.jitter
        try:
            if isinstance(jitter, LargeScaleJitter) and hasattr(self.dataset, "read_jittered"):
                return Loaded(self.dataset.read_jittered(index, jitter, key.seed), key)
            sample = self.dataset[index]
        except DatasetError as error:
            return Loaded(None, key, str(error))
        if not isinstance(sample, DenseSample):
            raise TypeError(
                f"dataset[{index}]: expected a DenseSample, got {type(sample).__name__}; convert it in the dataset"
            )
        return Loaded(jitter(sample, key.seed) if jitter else sample, key)


@dataclass(frozen=True)
class Collate:
    """Collate function of loaded samples into a padded batch; each keeps its ``max_instances`` largest instances."""

    max_instances: int

    def __call__(self, given: LoadedBatch) -> FetchedSamples:
        """Return the batch of the samples that could be read."""
        end_after_sending()
        loaded, slots = given
        broken = [one.error for one in loaded if one.sample is None]
        samples = [one.sample for one in loaded if one.sample is not None]
        keys = [one.key for one in loaded if one.sample is not None]
        overflows = [s.num_instances for s in samples if s.num_instances > self.max_instances]
        if not samples:
            return FetchedSamples(None, broken, overflows)
        with sent_batch():
            batch = BatchedDenseSample.from_samples(samples)
            drawn = None if broken else slots  # of which each row is that of a sample
            padded = batch._padded(self.max_instances, "largest", slots=drawn, **key_tensors(keys))
        return FetchedSamples(padded, broken, overflows)


OnError = Literal["raise", "skip"]


@dataclass(frozen=True, slots=True)
class LoaderStats:
    """Counts of samples and instances that a loader has yielded or left out, over all workers and epochs.

    Attributes:
        num_samples: samples in the batches.
        num_broken: samples left out because a file could not be read.
        num_overflowed: samples with more than ``max_instances`` instances.
        num_dropped_instances: instances that those samples lost.
    """

    num_samples: int = 0
    num_broken: int = 0
    num_overflowed: int = 0
    num_dropped_instances: int = 0


class EpochDataLoader(EpochLoader):
    """`torch.utils.data.DataLoader` that yields `PaddedBatchedDenseSample`.

    Each new pass is a new epoch. On several ranks call `set_epoch` before each pass, see `segpaste.epochs.progress`.
    Rank and number of replicas are read when a pass begins, so the loader may be built before the process group.

    Sample i of an epoch has the seed ``derive_seed(base_seed, epoch, rank, 0, i)``. The worker is not part of the
    seed, so results do not depend on ``num_workers``.

    Args:
        dataset: a map-style dataset of `DenseSample`. All samples must have the same modalities, and the same size
            after ``jitter``.
        batch_size: B.
        max_instances: K. A sample with more instances keeps its K largest; the others are counted in `stats`.
        jitter: called with each sample and its seed.
        base_seed: seed of the run.
        shuffle: read the samples in a new order each epoch.
        sampler: yields the indices of an epoch on this replica, in place of ``shuffle``, such as a
            `segpaste.samplers.NxMSampler` of the same batch size; `set_epoch` sets its epoch too. A sample that it
            yields twice in an epoch is the same both times.
        drop_last: leave out samples that do not fill a batch on every replica. Without it the last batch may be
            smaller and samples are repeated.
        on_error: handling of a `DatasetError` of a sample: ``raise`` it here, or ``skip`` the sample and count it in
            `stats`. Skipping makes batches smaller and drops empty ones, so ranks may differ in their number of
            batches.
        num_workers: worker processes; 0 reads in this process.
        pin_memory: put batches into page-locked memory.
        multiprocessing_context: start method of the workers: ``fork``, ``spawn``, ``forkserver``, a context of
            multiprocessing, or None for the default.
        persistent_workers: keep the workers between epochs.
        prefetch_factor: batches that each worker reads ahead.
        rank: rank of this process; by default that of ``torch.distributed`` when a pass begins, else 0.
        num_replicas: number of processes, with the same default. Give both or neither.
        options: ``worker_init_fn``, ``timeout``, ``generator`` and ``pin_memory_device`` of torch's DataLoader. They do
            not change the batches.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: an argument is out of range.
    """

    def __init__(
        self,
        dataset: Dataset[DenseSample],
        *,
        batch_size: int,
        max_instances: int = 64,
        jitter: SampleTransform | None = None,
        base_seed: int = 0,
        shuffle: bool = True,
        sampler: Sampler[int] | None = None,
        drop_last: bool = False,
        on_error: OnError = "raise",
        num_workers: int = 0,
        pin_memory: bool = False,
        multiprocessing_context: str | BaseContext | None = None,
        persistent_workers: bool = False,
        prefetch_factor: int | None = None,
        rank: int | None = None,
        num_replicas: int | None = None,
        **options: Any,
    ) -> None:
        num = _num_samples(dataset)
        check_count("batch_size", batch_size, 1)
        check_count("max_instances", max_instances)
        flags = {"shuffle": shuffle, "drop_last": drop_last, "pin_memory": pin_memory}
        for name, flag in {**flags, "persistent_workers": persistent_workers}.items():
            check_class(name, flag, bool)
        _check_jitter(jitter, dataset)
        _check_sampler(sampler, batch_size)
        if on_error not in ("raise", "skip"):
            raise ValueError(f"on_error: expected 'raise' or 'skip', got {on_error!r}")
        check_uint64(base_seed, "base_seed")  # an error in a worker would lose its traceback
        replicas = ReplicaFinder("EpochDataLoader", rank, num_replicas)
        if sampler is None:
            progress = EpochProgress("EpochDataLoader", replicas=replicas)
            order: EpochSampler[int] = DatasetOrder(num, base_seed, shuffle, drop_last, progress)
        else:
            order = _order_of(sampler, num, replicas)
        self._order, self._samples = order, SeededSamples(dataset, jitter, base_seed, max_instances)
        super().__init__(
            self._samples,
            batch_size=batch_size,
            sampler=PassSampler(order),
            collate_fn=Collate(max_instances),
            drop_last=drop_last,
            num_workers=num_workers,
            pin_memory=pin_memory,
            multiprocessing_context=multiprocessing_context,
            persistent_workers=persistent_workers,
            prefetch_factor=prefetch_factor,
            options=options,
        )
        self.max_instances = max_instances
        self.on_error = on_error
        self.stats = LoaderStats()

    @property
    def _data(self) -> Any:
        return self._samples.dataset

    def state_values(self, num_drawn: int | None) -> dict[str, Any]:
        """Return the position, the loader's settings, and a digest of the indices that a `SamplerOrder` gave so far."""
        state = super().state_values(num_drawn)
        if isinstance(self._order, SamplerOrder):
            state["digest"] = self._order.digest(state["num_drawn"])
        return state

    def take_values(self, state: Mapping[str, Any]) -> None:
        """Set the position, and the digest to compare with."""
        super().take_values(state)
        if isinstance(self._order, SamplerOrder):
            self._order.expect(self.progress.num_done, state.get("digest"))

    def identity(self) -> dict[str, Any]:
        """Return the settings that determine an epoch; a state with other settings is rejected."""
        dataset, jitter = self._samples.dataset, self._samples.jitter
        return {
            "dataset": f"{len(self._samples)} samples of {type(dataset).__name__}",
            "jitter": callable_facts(jitter),
            "batch_size": self.batch_size,
            "drop_last": bool(self.drop_last),
            "loader_seed": int(self._samples.base_seed),
            **self._order.identity(),
        }

    def sample_for(self, key: SampleKey) -> DenseSample:
        """Read a sample of a batch again, with the same jitter.

        Args:
            key: the row of ``sample_keys`` of the sample; its epoch, rank and base seed may differ from the loader's.

        Raises:
            DatasetError: the sample cannot be read.
            ValueError: the dataset has no sample with the index of the key.
        """
        num = len(self._samples)
        if key.sample_idx >= num:
            raise ValueError(f"sample_for: expected a sample_idx below {num}, the dataset's length, got {key}")
        loaded = self._samples.load(key)
        if loaded.sample is None:
            raise DatasetError(loaded.error)
        return loaded.sample

    def __iter__(self) -> Iterator[PaddedBatchedDenseSample]:  # type: ignore[override]
        for fetched in self.fetched():
            if fetched.broken and self.on_error == "raise":
                raise DatasetError(fetched.broken[0])
            self._count(fetched)
            if fetched.batch is not None:
                yield fetched.batch

    def _count(self, fetched: FetchedSamples) -> None:
        before = self.stats
        if fetched.broken and not before.num_broken:
            warnings.warn(f"left out: {fetched.broken[0]} (more are only counted in stats)", stacklevel=3)
        if fetched.overflows and not before.num_overflowed:
            warnings.warn(
                f"kept the {self.max_instances} largest of {fetched.overflows[0]} instances of an image; raise "
                "max_instances to keep more (more are only counted in stats)",
                stacklevel=3,
            )
        self.stats = LoaderStats(
            before.num_samples + (fetched.batch.batch_size if fetched.batch is not None else 0),
            before.num_broken + len(fetched.broken),
            before.num_overflowed + len(fetched.overflows),
            before.num_dropped_instances + sum(n - self.max_instances for n in fetched.overflows),
        )


def _num_samples(dataset: object) -> int:
    if isinstance(dataset, str | PathLike) or not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise TypeError(
            f"dataset: expected a map-style dataset, with __len__ and __getitem__, got {type(dataset).__name__}; "
            "create_coco_dataloader(images_dir, annotations_file) opens one from paths"
        )
    return len(dataset)


def _check_jitter(jitter: object, dataset: object) -> None:
    if jitter is not None and (isinstance(jitter, type) or not callable(jitter)):
        raise TypeError(
            f"jitter: expected a function of a sample and its seed, or None, got {jitter!r:.80}; "
            "make_large_scale_jittering(size) makes one"
        )
    if getattr(jitter, "decode_reduced", False) and not hasattr(dataset, "read_jittered"):
        raise ValueError(
            "decode_reduced: expected a dataset with read_jittered, such as CocoDetectionV2, got "
            f"{type(dataset).__name__}; leave the option out"
        )


def _check_sampler(sampler: object, batch_size: int) -> None:
    if isinstance(sampler, str) or not (sampler is None or hasattr(sampler, "__iter__")):
        raise TypeError(
            f"sampler: expected a sampler of indices, or None, got {type(sampler).__name__} {sampler!r:.80}"
        )
    if isinstance(sampler, BatchSampler | NxMBatches):
        raise ValueError(
            f"sampler: expected a sampler of indices, got {type(sampler).__name__}, which yields lists; give the "
            "sampler itself, with batch_size=sampler.batch_size for an NxMSampler"
        )
    if (wanted := getattr(sampler, "batch_size", batch_size)) != batch_size:
        raise ValueError(
            f"batch_size: expected {wanted}, as in the sampler, got {batch_size}; write batch_size=sampler.batch_size"
        )


def _order_of(sampler: Sampler[int], num: int, replicas: ReplicaFinder) -> EpochSampler[int]:
    """Return the order of a sampler; an `NxMSampler` shares its progress with the loader."""
    if not isinstance(sampler, NxMSampler):
        return SamplerOrder(sampler, EpochProgress("EpochDataLoader", replicas=replicas, leads=(sampler,)))
    if sampler.num_samples != num:
        raise ValueError(f"sampler: expected one of the dataset's {num} samples, got one of {sampler.num_samples}")
    sampler.progress.replicas.expect_same(replicas)
    return sampler


def create_coco_dataloader(
    images_dir: str | PathLike[str] | None = None,
    annotations_file: str | PathLike[str] | None = None,
    *,
    batch_size: int,
    size: int | tuple[int, int] = 512,
    scale_range: tuple[float, float] = (0.1, 2.0),
    hflip_prob: float = 0.5,
    min_area_px: float = 1,
    decode_reduced: bool = False,
    dataset: Dataset[DenseSample] | None = None,
    **options: Any,
) -> EpochDataLoader:
    """Return a loader of padded batches of jittered samples, from images and annotations or from a dataset.

    Args:
        images_dir: the folder of the images.
        annotations_file: COCO instances in JSON.
        batch_size: B.
        size: (H, W) of every sample, or the side of a square.
        scale_range: see `segpaste.datasets.jitter`.
        hflip_prob: the probability of flipping an image.
        min_area_px: instances with less area after the jitter are dropped, pixels.
        decode_reduced: decode a JPEG at 1/2, 1/4 or 1/8 of its size where the jitter shrinks it at least that much and
            its sides are divisible. Several times faster on large images; colours differ slightly, masks do not.
        dataset: any map-style dataset of `DenseSample`, of any modality, in place of the two paths.
        options: for `EpochDataLoader`: max_instances, base_seed, shuffle, sampler, drop_last, on_error, num_workers,
            pin_memory, multiprocessing_context, persistent_workers, prefetch_factor, rank, num_replicas, and those of
            torch's DataLoader: worker_init_fn, timeout, generator, pin_memory_device.

    Returns:
        An `EpochDataLoader`.

    Raises:
        DatasetError: the image folder or the annotation file is missing or broken.
        ValueError: an argument is out of range, or both a dataset and paths are given.
    """
    paths = [path for path in (images_dir, annotations_file) if path is not None]
    if len(paths) != (2 if dataset is None else 0):
        raise ValueError("create_coco_dataloader: expected either images_dir and annotations_file, or dataset=")
    if dataset is None:
        dataset = CocoDetectionV2(*paths)
    jitter = make_large_scale_jittering(
        size, scale_range, hflip_prob=hflip_prob, min_area_px=min_area_px, decode_reduced=decode_reduced
    )
    return EpochDataLoader(dataset, batch_size=batch_size, jitter=jitter, **options)
