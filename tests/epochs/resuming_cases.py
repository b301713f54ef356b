"""Every loader that has epochs, small, and the content of its batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, DistributedSampler, SequentialSampler

from samples import make_sample
from segpaste import BatchCopyPaste, BatchCopyPasteConfig, create_bank_dataloader, open_bank, stage_bank_batch
from segpaste.augmentation import PlacementConfig
from segpaste.bank import zip_loaders
from segpaste.datasets import EpochDataLoader, make_large_scale_jittering
from segpaste.samplers import ExhaustiveNxMSampler
from segpaste.types import DenseSample, Modality, PaddedBatchedDenseSample
from small_bank import small_bank

K = 4
CONFIG = BatchCopyPasteConfig(placement=PlacementConfig(paste_prob=1.0, scale_range=(0.5, 1.0)))
CLASSES = [0, 1, 2, 0, 1, 2, 0, 0, 1, 0, 2]


class Images:
    """One object in each."""

    def __len__(self) -> int:
        return len(CLASSES)

    def __getitem__(self, index: int) -> DenseSample:
        sample = make_sample((19, 17), 1, [Modality.INSTANCE], image_dtype=torch.uint8, seed=index)
        sample.labels[:] = CLASSES[index]
        return sample


def digest(item: Any) -> Any:
    """Return the content of a batch, as values that compare."""
    if isinstance(item, tuple):
        return tuple(map(digest, item))
    if isinstance(item, PaddedBatchedDenseSample):
        return item.sample_seeds.tolist(), item.images.tolist(), item.boxes.tolist(), item.labels.tolist()
    return item.crop_idx.tolist()


def values(state: Any) -> Any:
    """Return a state with lists for its tensors, so that it compares."""
    if isinstance(state, dict):
        return {name: values(value) for name, value in state.items()}
    return state.tolist() if isinstance(state, torch.Tensor) else state


def epoch_loader(_: Path, num_workers: int, **options: Any) -> EpochDataLoader:
    return EpochDataLoader(
        Images(),  # type: ignore[arg-type]
        batch_size=2,
        max_instances=K,
        jitter=make_large_scale_jittering((19, 17)),
        num_workers=num_workers,
        persistent_workers=num_workers > 0,
        **options,
    )


def bank_loader(folder: Path, num_workers: int, **options: Any) -> Any:
    path = folder / "bank"
    bank = open_bank(path) if path.exists() else small_bank(path, CLASSES * 3)
    given = {"batch_size": 2, "crops_per_target": 2, "num_workers": num_workers, **options}
    return create_bank_dataloader(bank, persistent_workers=num_workers > 0, **given)


def class_batches(folder: Path, num_workers: int) -> EpochDataLoader:
    sampler = ExhaustiveNxMSampler(CLASSES, 2, 1)
    return epoch_loader(folder, num_workers, sampler=sampler)


def class_crops(folder: Path, num_workers: int) -> Any:
    sampler = ExhaustiveNxMSampler(CLASSES * 3, 2, 2, base_seed=3)
    return bank_loader(folder, num_workers, sampler=sampler)


def distributed_sampler(folder: Path, num_workers: int) -> EpochDataLoader:
    return epoch_loader(folder, num_workers, sampler=DistributedSampler(Images(), num_replicas=1, rank=0))  # type: ignore[arg-type]


def augmented(folder: Path, num_workers: int) -> Any:
    return BatchCopyPaste.from_dataloader(epoch_loader(folder, num_workers), K, CONFIG)


def augmented_from_a_bank(folder: Path, num_workers: int) -> Any:
    crops = bank_loader(folder, num_workers, steps=6, crops_per_target=1)
    return BatchCopyPaste.from_dataloader(epoch_loader(folder, num_workers), K, source_pool=crops)


def augmented_with_draws_of_a_bank(folder: Path, num_workers: int) -> Any:
    bank_loader(folder, 0)
    return BatchCopyPaste.from_dataloader(epoch_loader(folder, num_workers), K, source_pool=open_bank(folder / "bank"))


def augmented_plain(_: Path, num_workers: int) -> Any:
    """A plain loader of samples: its batches are counted, its seeds are of the epoch."""
    sampler = DistributedSampler(Images(), num_replicas=1, rank=0)  # type: ignore[arg-type]
    loader: Any = DataLoader(Images(), batch_size=2, sampler=sampler, collate_fn=list, num_workers=num_workers)  # type: ignore[arg-type]
    torch.manual_seed(3)
    return BatchCopyPaste.from_dataloader(loader, K, CONFIG)


def pairs(folder: Path, num_workers: int) -> Any:
    return zip_loaders(epoch_loader(folder, num_workers), bank_loader(folder, num_workers, steps=6))


LOADERS = [
    epoch_loader,
    bank_loader,
    class_batches,
    class_crops,
    distributed_sampler,
    augmented,
    augmented_from_a_bank,
    augmented_with_draws_of_a_bank,
    augmented_plain,
    pairs,
]

NEED_EPOCHS = [distributed_sampler, augmented_plain]  # their order is that of torch's DistributedSampler


def plain(_: Path, num_workers: int) -> Any:
    """A plain loader without any sampler of its own: its order is the same in each epoch, its pastes are others."""
    loader: Any = DataLoader(Images(), batch_size=2, collate_fn=list, num_workers=num_workers)  # type: ignore[arg-type]
    torch.manual_seed(3)
    return BatchCopyPaste.from_dataloader(loader, K, CONFIG)


def plain_list(_: Path, __: int) -> Any:
    torch.manual_seed(3)
    return BatchCopyPaste.from_dataloader([[Images()[i], Images()[i + 1]] for i in range(0, 10, 2)], K, CONFIG)


def plain_with_class_batches(_: Path, num_workers: int) -> Any:
    sampler = ExhaustiveNxMSampler(CLASSES, 2, 1)
    loader: Any = DataLoader(
        Images(),  # type: ignore[arg-type]
        batch_sampler=sampler.batch_sampler(),
        collate_fn=list,
        num_workers=num_workers,
    )
    torch.manual_seed(3)
    return BatchCopyPaste.from_dataloader(loader, K, CONFIG)


def in_sequence(folder: Path, num_workers: int) -> EpochDataLoader:
    return epoch_loader(folder, num_workers, sampler=SequentialSampler(CLASSES))


def plain_from_a_bank(folder: Path, num_workers: int) -> Any:
    """More crops than targets: their epoch is never read to its end."""
    torch.manual_seed(3)
    loader: Any = DataLoader(Images(), batch_size=2, collate_fn=list, num_workers=num_workers)  # type: ignore[arg-type]
    crops = bank_loader(folder, num_workers, steps=9, crops_per_target=1)
    return BatchCopyPaste.from_dataloader(loader, K, source_pool=crops)


def plain_from_a_list(folder: Path, num_workers: int) -> Any:
    torch.manual_seed(3)
    bank_loader(folder, 0)
    bank = open_bank(folder / "bank")
    crops = [stage_bank_batch(bank, [[i], [i + 1]]) for i in range(7)]
    loader: Any = DataLoader(Images(), batch_size=2, collate_fn=list, num_workers=num_workers)  # type: ignore[arg-type]
    return BatchCopyPaste.from_dataloader(loader, K, source_pool=crops)


EVERYWHERE = [*LOADERS, plain, plain_list, plain_with_class_batches, in_sequence, plain_from_a_bank, plain_from_a_list]
