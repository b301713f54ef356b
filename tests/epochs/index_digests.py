"""Digests of the indices that every sampler and loader gives, for `test_golden_indices`.

    PYTHONPATH=tests python tests/epochs/index_digests.py            # compares all seeds with golden_indices.json
    PYTHONPATH=tests python tests/epochs/index_digests.py --write    # writes it, after a change that is wanted

Each reader has two digests, of the first seeds, which the tests compare, and of all 300. For each seed they cover three
epochs, a pass that was stopped in the middle and its state, the rest of that pass in a new reader, and the next pass.
The options of a reader rotate with the seed, and so does the rank.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Sampler

from samples import make_sample
from segpaste import BankSampler, ExhaustiveNxMSampler, NxMSampler, RandomNxMSampler, create_bank_dataloader
from segpaste.augmentation.loading import AugmentedLoader
from segpaste.augmentation.sources.crop_pool import CropPool
from segpaste.bank import zip_loaders
from segpaste.datasets import EpochDataLoader
from segpaste.epochs import EpochLoader
from segpaste.types import BatchedDenseSample, DenseSample, Modality, PaddedBatchedDenseSample
from small_bank import small_bank

FILE = Path(__file__).with_name("golden_indices.json")
NUM_SEEDS, NUM_FIRST, NUM_REPLICAS, NUM_EPOCHS = 300, 30, (1, 2, 3), 3
LABELS = [0] * 9 + [1] * 5 + [2] * 4 + [3] * 2 + [4, 5, 5, 6, 6, 6]
NUM = len(LABELS)
MODES: tuple[Any, ...] = ("repeat_factor", "instance_aware", "tempered", "class_uniform")

Make = Callable[[int, dict[str, int]], Any]
"""Makes a reader of a seed and of a rank, rank= and num_replicas=."""


class Stepping(Sampler[int]):
    """Sampler of another kind: its order depends on its seed and epoch, and is shared out."""

    def __init__(self, seed: int, rank: int, num_replicas: int) -> None:
        self.seed, self.rank, self.num_replicas, self.epoch = seed, rank, num_replicas, 0

    def __len__(self) -> int:
        return NUM // self.num_replicas

    def __iter__(self) -> Iterator[int]:
        turns = range(self.rank, len(self) * self.num_replicas, self.num_replicas)
        return iter([(turn * 5 + self.seed + 7 * self.epoch) % NUM for turn in turns])

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


class Samples:
    """The index of a sample is its label."""

    def __init__(self, num: int = NUM) -> None:
        self.samples = [make_sample((4, 4), 1, [Modality.INSTANCE], image_dtype=torch.uint8) for _ in range(num)]
        for index, sample in enumerate(self.samples):
            sample.labels[:] = index

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> DenseSample:
        return self.samples[index]


def nxm(kind: type[NxMSampler], labels: Any, seed: int, ranks: dict[str, int]) -> NxMSampler:
    size = ((2, 2), (3, 1), (4, 3))[seed % 3]
    return kind(labels, *size, shuffle=seed % 5 > 0, drop_last=seed % 2 > 0, base_seed=seed, **ranks)


def samplers(bank: Any) -> dict[str, Make]:
    """Return the samplers of indices."""

    def balanced(mode: Any, seed: int, ranks: dict[str, int]) -> BankSampler:
        replicas: Any = ("independent", "disjoint")[seed % 2]
        num = (None, 17)[seed % 3 > 0]
        options: dict[str, Any] = {"threshold": 0.3, "temperature": 0.25, "base_seed": seed}
        return BankSampler(bank, num, mode=mode, replicas=replicas, **options, **ranks)

    made: dict[str, Make] = {f"BankSampler {mode}": partial(balanced, mode) for mode in MODES}
    made["RandomNxMSampler"] = partial(nxm, RandomNxMSampler, LABELS)
    made["ExhaustiveNxMSampler"] = partial(nxm, ExhaustiveNxMSampler, LABELS)
    made["NxMBatches"] = lambda seed, ranks: nxm(RandomNxMSampler, LABELS, seed, ranks).batch_sampler()
    return made


def loaders(bank: Any) -> dict[str, Make]:
    """Return the loaders whose ``sampler`` gives what their workers fetch."""
    dataset: Any = Samples()

    def of_dataset(seed: int, ranks: dict[str, int]) -> EpochDataLoader:
        options: dict[str, Any] = {"shuffle": seed % 5 > 0, "drop_last": seed % 2 > 0, "base_seed": seed}
        return EpochDataLoader(dataset, batch_size=3, **options, **ranks)

    def of_batches(seed: int, ranks: dict[str, int]) -> EpochDataLoader:
        sampler = nxm(ExhaustiveNxMSampler, LABELS, seed, ranks)
        return EpochDataLoader(dataset, batch_size=sampler.batch_size, sampler=sampler)

    def of_sampler(seed: int, ranks: dict[str, int]) -> EpochDataLoader:
        return EpochDataLoader(dataset, batch_size=2, sampler=Stepping(seed, **ranks), **ranks)

    def of_bank(seed: int, ranks: dict[str, int]) -> Any:
        options: dict[str, Any] = {"crops_per_target": 1 + seed % 2, "mode": MODES[seed % 4], "base_seed": seed}
        options |= {"threshold": 1e-3} if options["mode"] in ("repeat_factor", "instance_aware") else {}
        return create_bank_dataloader(bank, batch_size=2, steps=(None, 5)[seed % 3 > 0], **options, **ranks)

    def of_class_crops(seed: int, ranks: dict[str, int]) -> Any:
        sampler = nxm(RandomNxMSampler, bank, seed, ranks)
        return create_bank_dataloader(bank, batch_size=sampler.batch_size, sampler=sampler)

    return {
        "EpochDataLoader": of_dataset,
        "EpochDataLoader of N x M batches": of_batches,
        "EpochDataLoader of another sampler": of_sampler,
        "BankDataLoader": of_bank,
        "BankDataLoader of N x M batches": of_class_crops,
    }


def whole_loaders(bank: Any) -> dict[str, Make]:
    """Return the loaders that are read batch by batch, for a few seeds."""
    few: Any = Samples(12)
    every: Any = Samples()

    def targets(seed: int, ranks: dict[str, int]) -> EpochDataLoader:
        return EpochDataLoader(few, batch_size=2, max_instances=1, base_seed=seed, **ranks)

    def crops(seed: int, ranks: dict[str, int]) -> Any:
        return create_bank_dataloader(bank, batch_size=4, steps=8, base_seed=seed, threshold=1e-3, **ranks)

    def plain(seed: int, ranks: dict[str, int]) -> Any:
        return DataLoader(every, batch_size=4, sampler=Stepping(seed, **ranks), collate_fn=list)

    def augmented(loader: Make, pool: Callable[[int, dict[str, int]], Any] | None, seed: int, ranks: Any) -> Any:
        def augment(batch: PaddedBatchedDenseSample, staged: Any = None) -> Any:
            return batch, staged

        torch.manual_seed(seed)
        source = None if pool is None else CropPool(pool(seed, ranks), 1)
        made = AugmentedLoader(loader(seed, ranks), augment, 1, crops=source)
        made.state_dict()  # takes torch's seed
        return made

    return {
        "BankDataLoader, whole": crops,
        "EpochDataLoader, whole": targets,
        "zip_loaders": lambda seed, ranks: zip_loaders(targets(seed, ranks), crops(seed, ranks)),
        "zip_loaders of another loader": lambda seed, ranks: zip_loaders(
            Batched(plain(seed, ranks)), crops(seed, ranks)
        ),
        "from_dataloader": partial(augmented, targets, None),
        "from_dataloader with crops": partial(augmented, targets, crops),
        "from_dataloader with draws of a bank": partial(augmented, targets, lambda *_: bank),
        "from_dataloader of another loader": partial(augmented, plain, None),
        "from_dataloader of another loader with crops": partial(augmented, plain, crops),
        "from_dataloader of another loader with draws of a bank": partial(augmented, plain, lambda *_: bank),
        "from_dataloader of a list": partial(augmented, lambda *_: [[few[i], few[i + 1]] for i in range(5)], crops),
    }


class Batched:
    """A loader of lists, as one of padded batches without seeds and without a state."""

    def __init__(self, loader: Any) -> None:
        self.loader, self.sampler = loader, loader.sampler

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[PaddedBatchedDenseSample]:
        for rows in self.loader:
            yield BatchedDenseSample.from_samples(rows).to_padded(1)


def plain_values(item: Any) -> Any:
    """Return the indices of an item, as JSON has them."""
    if isinstance(item, int) or item is None:
        return item
    if isinstance(item, PaddedBatchedDenseSample):
        seeds = None if item.sample_seeds is None else item.sample_seeds.tolist()
        return [item.labels.tolist(), seeds]
    if hasattr(item, "crop_idx"):
        return item.crop_idx.tolist()
    if hasattr(item, "crops"):
        return item.seed, item.positions.tolist(), item.classes.tolist(), item.crops.tolist()
    return [plain_values(part) for part in item]


def place_of(state: Any) -> Any:
    """Return a state without the entries that differ from release to release."""
    if isinstance(state, dict):
        return {key: place_of(value) for key, value in state.items() if key not in ("bank", "augment")}
    return state


def digests_of(make: Make, read: Callable[[Any], Iterable[Any]], num_replicas: int, seeds: range) -> Iterator[str]:
    """Read every way; the digest after each seed."""
    found = hashlib.sha256()

    def add(values: Any) -> None:
        found.update(json.dumps(values, sort_keys=True).encode())

    for seed in seeds:
        ranks = {"rank": seed % num_replicas, "num_replicas": num_replicas}
        sets_epochs = num_replicas > 1 or seed % 2 > 0
        reader, resumed = make(seed, ranks), make(seed, ranks)
        num = 0
        for epoch in range(NUM_EPOCHS):
            if sets_epochs:
                reader.set_epoch(epoch)
            items = [plain_values(item) for item in read(reader)]
            num = len(items)
            add(items)
        reader.set_epoch(1)
        add([plain_values(item) for item in islice(read(reader), seed % (num + 1))])
        state = reader.state_dict()
        if isinstance(reader, EpochLoader) and state["num_drawn"] == 0:  # its sampler was read, not the loader
            state["num_drawn"] = reader.items_per_batch * (seed % len(reader))
            if "digest" in state:
                state["digest"] = reader._order.digest(state["num_drawn"])
        add(place_of(state))
        resumed.load_state_dict(state if "augment" in state else json.loads(json.dumps(state)))
        add(place_of(resumed.state_dict()))
        add([plain_values(item) for item in read(resumed)])
        if sets_epochs:
            resumed.set_epoch(2)
        add([plain_values(item) for item in read(resumed)])
        add(place_of(resumed.state_dict()))
        yield found.hexdigest()[:20]


def readers(bank: Any) -> Iterator[tuple[str, Callable[[], list[str]], Callable[[], list[str]]]]:
    """Return, by reader and number of replicas, the functions that compute its first digest, and both."""
    every, few = range(NUM_SEEDS), range(0, NUM_SEEDS, 37)
    groups = (
        (samplers(bank), iter, every),
        (loaders(bank), lambda loader: iter(loader.sampler), every),
        (whole_loaders(bank), iter, few),
    )
    for made, read, seeds in groups:
        for name, make in made.items():
            for num_replicas in NUM_REPLICAS:
                compute = partial(digests_of, make, read, num_replicas)
                first = seeds[: NUM_FIRST if seeds is every else 2]
                yield (
                    f"{name}/{num_replicas}",
                    partial(_at, compute, first, (first,)),
                    partial(_at, compute, seeds, (first, seeds)),
                )


def _at(compute: Callable[[range], Iterator[str]], seeds: range, ends: Iterable[range]) -> list[str]:
    """The digests after some of the seeds."""
    found = list(compute(seeds))
    return [found[len(end) - 1] for end in ends]


def digests(folder: Path) -> dict[str, list[str]]:
    """All of them."""
    bank = small_bank(folder / "bank", LABELS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: compute() for name, _, compute in readers(bank)}


def main() -> int:
    """Write or compare; 0 if all are the same."""
    with tempfile.TemporaryDirectory() as folder:
        found = digests(Path(folder))
    if "--write" in sys.argv:
        FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    golden = json.loads(FILE.read_text(encoding="utf-8"))
    different = sorted(name for name in golden.keys() | found.keys() if golden.get(name) != found.get(name))
    print(*different, f"{len(golden) - len(different)} of {len(golden)} readers give the same indices", sep="\n")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
