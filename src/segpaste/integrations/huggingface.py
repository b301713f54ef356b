"""Adapter for Hugging Face transformers: inputs of its models, a collator for its Trainer, and datasets of the Hub.

    model(**to_mask_labels(batch, mean=processor.image_mean, std=processor.image_std))

Paste first and normalise afterwards: harmonisation, value checks and uint8 banks expect colours before normalisation.
These functions therefore take the processor's mean and standard deviation, and the processor itself is not called.

Float images are checked: values that are negative, above ``scale``, NaN, or fractions of at most 1 with a ``scale`` of
255 raise a ValueError. Their minimum and maximum are read for it, which waits for their device; uint8 images are not
read.

``pixel_mask`` is 1 where a pixel belongs to the image: the inverse of our ``padding_mask``.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from segpaste.augmentation import BatchCopyPasteConfig
from segpaste.augmentation.modes import pasting
from segpaste.augmentation.prepare import unpasted
from segpaste.epochs.replicas import this_process
from segpaste.integrations._hub import HubSamples
from segpaste.integrations._training import PICTURE, FirstBatch, expect_augmentation, fades, module_of, print_expected
from segpaste.seeding import derive_seed, from_int64, to_int64
from segpaste.targets.detr import to_detr
from segpaste.targets.mask_labels import to_mask_labels, to_oneformer
from segpaste.targets.objects import warn_of_overflow
from segpaste.types import BatchedDenseSample, DenseSample, PaddedBatchedDenseSample
from segpaste.types.check import check_count

__all__ = ["CopyPasteCollator", "HubSamples", "to_detr", "to_mask_labels", "to_oneformer", "with_copy_paste"]

Inputs = dict[str, Any]


class CopyPasteCollator:
    """A ``data_collator`` of the Trainer, or ``collate_fn`` of a loader: it pastes samples and makes a model's inputs.

        collator = CopyPasteCollator(BatchCopyPaste(), 64, partial(to_mask_labels, mean=mean, std=std))
        with_copy_paste(Trainer)(model, args, train_dataset=dataset, eval_dataset=val, data_collator=collator)

    It pastes in the process that collates batches, that is in the workers of the loader. The seeds of a batch come from
    torch's generator, which the loader seeds in each worker and each epoch, and from the rank, since trainers seed all
    ranks alike. The Trainer must keep the samples (``remove_unused_columns=False`` in its arguments).

    A plain Trainer collates its batches for evaluation with the same collator, so they are pasted, too: see
    `with_copy_paste`, and `without_paste` for a custom loop.

    Args:
        augment: the augmentation, such as `segpaste.BatchCopyPaste`. With ``source_pool=dataset`` objects of the whole
            dataset are cut out by the collator, in the workers of the Trainer's loader; with ``balance`` the expected
            pastes of each class are printed here.
        max_instances: K; an image with more instances keeps its largest.
        convert: makes the inputs from a pasted batch, such as `to_mask_labels` with its options bound.
        first_batch: file of a picture of the first pasted batch, ``.png`` or ``.jpg``. With None the trainer of
            `with_copy_paste` sets it, and others save no picture; False saves none. Float images are drawn in
            0..``scale`` of ``convert``.
        class_names: names of the labels for the picture, from a list or a dictionary.

    Raises:
        TypeError, ValueError: ``max_instances`` is not an integer, or negative.
    """

    def __init__(
        self,
        augment: Callable[..., PaddedBatchedDenseSample],
        max_instances: int,
        convert: Callable[[PaddedBatchedDenseSample], Inputs],
        *,
        first_batch: str | os.PathLike[str] | Literal[False] | None = None,
        class_names: Mapping[int, str] | Sequence[str] | None = None,
    ) -> None:
        expect_augmentation("CopyPasteCollator", augment)
        check_count("max_instances", max_instances)
        self.augment = augment
        if fades(augment):
            warnings.warn(
                "CopyPasteCollator: expected placement.fade_last=0, since a collator does not know the progress of "
                "training, got more; nothing fades unless a callback calls augment.schedule.at, with 0 workers",
                stacklevel=2,
            )
        print_expected("CopyPasteCollator", augment)
        self.max_instances = max_instances
        self.convert = convert
        self.path = first_batch
        self.class_names = class_names
        self.first_batch = FirstBatch()

    def __call__(self, samples: Sequence[DenseSample]) -> Inputs:
        """Paste between samples of one size, and return the inputs."""
        if any(sample.num_instances > self.max_instances for sample in samples):
            warn_of_overflow(self.max_instances)
        batch = BatchedDenseSample.from_samples(samples).to_padded(
            self.max_instances, overflow="largest", sample_seeds=_seeds(len(samples))
        )
        pasted = self._pasted(batch)
        white = getattr(self.convert, "keywords", {}).get("scale", 255.0)  # of a partial
        path = None if self.path is False else self.path
        self.first_batch.draw(pasted, path, class_names=self.class_names, value_range=(0.0, white))
        return self.convert(pasted)

    def _pasted(self, batch: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
        crops = getattr(module_of(self.augment), "crops", None)  # compiled code cannot read the pool
        options = {} if crops is None else {"staged": crops.staged(batch.sample_seeds)}
        with pasting(self.augment):
            return self.augment(batch, **options)

    def without_paste(self) -> Callable[[Sequence[DenseSample]], Inputs]:
        """Return a collator for evaluation, with the same conversion, without pastes, and with all objects.

        It also leaves out the modalities that the config of the augmentation leaves out, and pads to its
        ``pad_to_multiple``.
        """
        return _PlainCollator(self.convert, getattr(module_of(self.augment), "config", None))


class _PlainCollator:
    """Collator that makes a model's inputs from samples of one size."""

    def __init__(
        self, convert: Callable[[PaddedBatchedDenseSample], Inputs], config: BatchCopyPasteConfig | None
    ) -> None:
        self.convert, self.config = convert, config

    def __call__(self, samples: Sequence[DenseSample]) -> Inputs:
        """Return the inputs of the samples."""
        most = max(sample.num_instances for sample in samples)
        batch = BatchedDenseSample.from_samples(samples).to_padded(most)
        return self.convert(batch if self.config is None else unpasted(batch, self.config))


def with_copy_paste(trainer_cls: type[Any], *others: object) -> type[Any]:
    """Return a Trainer of transformers that pastes into training batches, and not into those for evaluation.

        with_copy_paste(Trainer)(model, args, train_dataset=dataset, eval_dataset=val, data_collator=collator)

    Its ``data_collator`` is a `CopyPasteCollator`; evaluation and prediction use `CopyPasteCollator.without_paste`. A
    picture of the first pasted batch is saved as ``copy_paste_batch.jpg`` in ``output_dir`` by the first process,
    unless ``first_batch`` of the collator is set, with the ``class_names`` of the collator or of the training dataset.

    Args:
        trainer_cls: the Trainer or a subclass of it.
        others: none; what other adapters take here belongs to the collator.

    Returns:
        A subclass of ``trainer_cls``.

    Raises:
        TypeError: ``trainer_cls`` is not a trainer class; or, when the trainer is made, ``data_collator`` is not a
            `CopyPasteCollator`.
    """
    if others:
        raise TypeError(
            f"with_copy_paste: expected a trainer class only, got {others[0]!r:.80}, too; the augmentation "
            "belongs to the collator: data_collator=CopyPasteCollator(BatchCopyPaste(config), max_instances, convert)"
        )
    if not (isinstance(trainer_cls, type) and hasattr(trainer_cls, "get_eval_dataloader")):
        raise TypeError(f"with_copy_paste: expected a trainer class of transformers, got {trainer_cls!r:.80}")

    class CopyPasteTrainer(trainer_cls):
        """The trainer, with pasted training batches."""

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            names = getattr(self.train_dataset, "class_names", None)
            path = Path(self.args.output_dir) / PICTURE
            self.data_collator: CopyPasteCollator = _with_picture(self.data_collator, path, names)

        def get_eval_dataloader(self, *args: Any, **options: Any) -> Any:
            """Return the loader for evaluation, without pastes."""
            with _no_paste(self):
                return super().get_eval_dataloader(*args, **options)

        def get_test_dataloader(self, *args: Any, **options: Any) -> Any:
            """Return the loader for prediction, without pastes."""
            with _no_paste(self):
                return super().get_test_dataloader(*args, **options)

    CopyPasteTrainer.__name__ = f"CopyPaste{trainer_cls.__name__}"
    return CopyPasteTrainer


def _with_picture(collator: object, path: Path, class_names: Any) -> CopyPasteCollator:
    """Return a collator that saves its picture at ``path`` if it has no path of its own."""
    if not isinstance(collator, CopyPasteCollator):
        raise TypeError(
            f"with_copy_paste: expected a CopyPasteCollator as data_collator, got a {type(collator).__name__}; make one"
        )
    if collator.path is not None:
        return collator
    own = copy.copy(collator)
    own.path, own.first_batch = path, FirstBatch()  # each trainer has its own first batch
    own.class_names = class_names if collator.class_names is None else collator.class_names
    return own


@contextmanager
def _no_paste(trainer: Any) -> Iterator[None]:
    """Make a trainer's loaders without pastes within the context."""
    collator = trainer.data_collator
    trainer.data_collator = collator.without_paste()
    try:
        yield
    finally:
        trainer.data_collator = collator


def _seeds(num: int) -> Tensor:
    """Draw a seed for each of ``num`` samples, [num] int64."""
    drawn = from_int64(int(torch.randint(-(1 << 63), (1 << 63) - 1, (), device="cpu")))
    keys = drawn, 0, this_process().rank, 0
    return torch.tensor([to_int64(derive_seed(*keys, row)) for row in range(num)], dtype=torch.int64, device="cpu")
