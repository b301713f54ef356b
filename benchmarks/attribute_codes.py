"""Test whether codes separate classes: retrieval by codes, by the embeddings they are made of, and by random codes.

    python -m benchmarks.attribute_codes

Three banks hold objects of different synthetic scenes, with the embeddings that need no weights. The encoder is trained
on the first bank; the second chooses the epoch and calibrates the evidence; all figures come from the third. There are
two controls. With labels shuffled in the training bank, the encoder must not separate classes better than an untrained
one, apart from what reconstruction preserves. With labels shuffled in all banks, no code can separate classes.

The second table uses vectors around class centres, with isotropic noise of standard deviation 1. Each set has its own
classes, as in speaker verification. The smaller the spread of the centres, the harder the task.

Retrieval is measured by mean average precision: each crop of the third bank is a query for the crops of its class, and
the value of a random order is given beside it. Likelihood ratios of pairs are measured by equal error rate, Cllr after
calibration, and Cllr of the scores before it. A Cllr of 0 is perfect; 1 is that of no evidence.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from segpaste.bank import embed_bank, open_bank
from segpaste.cli import main as segpaste
from segpaste.encoder import Assessment, LabelledVectors, TrainConfig, read_vectors, train
from segpaste.encoder.evaluation import Part, assess, find_evidence
from segpaste.encoder.training import make_objective


def crops_of(folder: Path, num_scenes: int, seed: int) -> Path:
    """A bank of the scenes' objects, with embeddings."""
    plain = folder / f"plain{seed}"
    words = ["--num", str(num_scenes), "--seed", str(seed), "--size", "128", "--crop-size", "48", "--out", str(plain)]
    with contextlib.redirect_stdout(None):
        assert segpaste(["bank", "build", "scenes", *words]) == 0
    with open_bank(plain) as bank:
        return Path(embed_bank(bank, folder / f"embedded{seed}"))


def make_config(epochs: int, num_attributes: int, losses: Sequence[str] = ("mse", "triplet")) -> TrainConfig:
    """All samples, four classes and eight crops of each in a batch."""
    return TrainConfig.model_validate(
        {
            "data": {
                "sampler": "segpaste.samplers.ExhaustiveNxMSampler",
                "N_classes_per_batch": 4,
                "M_samples_per_class": 8,
            },
            "model": {"num_attributes": num_attributes},
            "trainer": {"epochs": epochs, "losses": losses},
        }
    )


def chance(labels: np.ndarray[Any, np.dtype[np.int64]]) -> float:
    """Mean average precision of a random order, measured."""
    rng, found = np.random.default_rng(0), []
    for label in labels:
        relevant = rng.permutation(np.delete(labels, np.flatnonzero(labels == label)[0]) == label)
        if relevant.any():
            found.append((np.cumsum(relevant) / np.arange(1, len(relevant) + 1))[relevant].mean())
    return float(np.mean(found))


def isotropic(num_classes: int, num: int, seed: int, spread: float) -> LabelledVectors:
    """``num`` vectors of 32 numbers around the centre of each class."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(num_classes), num)
    vectors = spread * rng.normal(size=(num_classes, 32))[labels] + rng.normal(size=(len(labels), 32))
    return LabelledVectors.of(vectors, [f"{seed}_{label}" for label in labels])


def without_training(sets: Sequence[LabelledVectors], config: TrainConfig) -> Assessment:
    """Figures of the encoder with its first parameters."""
    parts = [Part(torch.from_numpy(data.vectors), torch.from_numpy(data.labels)) for data in sets]
    encoder = make_objective(parts[0].vectors, len(sets[0].label_names), config).encoder
    return assess(encoder, encoder, find_evidence(encoder, *parts[:2]), parts[2], is_final=True)


def assessed(sets: Sequence[LabelledVectors], config: TrainConfig, out: Path) -> Assessment:
    """Figures of the encoder after training."""
    found = train(sets[0], sets[1], config, out, sets[2]).assessment
    assert found is not None
    return found


def print_row(what: str, found: Assessment, *more: float) -> None:
    """A line of the table."""
    ratios = found.ratios
    assert ratios is not None
    figures = [found.map_codes, found.map_vectors, *more, ratios.eer, ratios.cllr, ratios.cllr_of_scores]
    print(f"| {what} | " + " | ".join(f"{figure:.3f}" for figure in figures) + " |", flush=True)


def scenes_table(folder: Path, args: argparse.Namespace) -> None:
    """True labels, shuffled ones, and no training."""
    nums = args.scenes, args.scenes // 2, args.scenes // 2
    sets: list[LabelledVectors] = []
    for seed, num in enumerate(nums, start=1):
        names = sets[0].label_names if sets else ()
        sets.append(read_vectors(crops_of(folder, num, seed), label_names=names))
    rng = np.random.default_rng(0)
    shuffled = [replace(data, labels=rng.permutation(data.labels)) for data in sets]
    sizes = " and ".join(f"{len(data):,}" for data in sets)
    print(f"{sizes} crops of {len(sets[0].label_names)} classes, {args.attributes} attributes, {args.epochs} epochs\n")
    print("| trained with | mAP of codes | mAP of embeddings | at random | EER | Cllr | before calibration |")
    print("|---|---|---|---|---|---|---|")
    both, triplet = ("mse", "triplet"), ("triplet",)
    rows = (
        ("true labels, mse + triplet", sets, both),
        ("true labels, triplet", sets, triplet),
        ("shuffled training labels, mse + triplet", [shuffled[0], *sets[1:]], both),
        ("shuffled training labels, triplet", [shuffled[0], *sets[1:]], triplet),
        ("all labels shuffled, mse + triplet", shuffled, both),
    )
    for number, (what, given, losses) in enumerate(rows):
        found = assessed(given, make_config(args.epochs, args.attributes, losses), folder / f"run{number}")
        print_row(what, found, chance(given[2].labels))
    found = without_training(sets, make_config(args.epochs, args.attributes))
    print_row("nothing: the first parameters", found, chance(sets[2].labels))
    print(f"\n{args.attributes} random projections: mAP {found.map_random:.3f}\n")


def isotropic_table(folder: Path, args: argparse.Namespace) -> None:
    """Classes of their own in each set."""
    print("| spread | mAP of codes | mAP of vectors | mAP without training | EER | Cllr | before calibration |")
    print("|---|---|---|---|---|---|---|")
    for spread in (2.0, 1.0, 0.5, 0.0):
        sets = [isotropic(num, 8, seed, spread) for seed, num in enumerate((200, 100, 100), start=1)]
        found = assessed(sets, make_config(args.epochs, args.attributes), folder / f"spread{spread}")
        print_row(f"{spread:g}", found, found.map_untrained)


def main() -> None:
    """Train, measure, print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=300)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--attributes", type=int, default=64)
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        scenes_table(folder, args)
        isotropic_table(folder, args)


if __name__ == "__main__":
    main()
