"""Do codes separate classes? Retrieval by codes, by the embeddings that they are made of, and by codes of no meaning.

    python -m benchmarks.attribute_codes

Objects of synthetic scenes go into two banks, of other scenes each, and get the embeddings that need no weights. An
encoder is trained on the one and measured on the other: with the labels; with labels that are shuffled among the crops
to train on, which must not teach it more than what one knows that was never trained, whose bits are random projections,
and what the reconstruction asks it to keep; and with labels shuffled in both, which no code can tell apart.

Mean average precision: each crop of the test bank asks for those of its class; what a random order gives is beside it.
Pairs told apart: how often two crops of one class have a higher likelihood ratio than two of two classes, the area
under the ROC curve; 0.5 is nothing.
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
from sklearn.metrics import roc_auc_score

from segpaste.bank import embed_bank, open_bank
from segpaste.cli import main as segpaste
from segpaste.encoder import (
    AttributeEvidence,
    BinaryAttributeEncoder,
    LabelledVectors,
    TrainConfig,
    load_encoder,
    read_vectors,
    train,
    validate,
)


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


def untrained(train_set: LabelledVectors, num_attributes: int) -> BinaryAttributeEncoder:
    """One that has its first parameters."""
    torch.manual_seed(0)
    encoder = BinaryAttributeEncoder(train_set.vectors.shape[1], num_attributes)
    encoder.fit_standardisation(torch.from_numpy(train_set.vectors))
    return encoder


def separation(encoder: BinaryAttributeEncoder, train_set: LabelledVectors, test_set: LabelledVectors) -> float:
    """How often a pair of one class of the test set has a higher likelihood ratio than a pair of two classes."""
    bits = [encoder.encode(torch.from_numpy(data.vectors)).numpy() for data in (train_set, test_set)]
    scores = AttributeEvidence.of(bits[0], train_set.labels).scores(bits[1], bits[1])
    upper = np.triu_indices(len(scores), 1)
    same = test_set.labels[upper[0]] == test_set.labels[upper[1]]
    return float(roc_auc_score(same, scores[upper]))


def main() -> None:
    """Train, measure, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=300)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--attributes", type=int, default=64)
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train_set = read_vectors(crops_of(folder, args.scenes, seed=1))
        test_set = read_vectors(crops_of(folder, args.scenes // 2, seed=2), label_names=train_set.label_names)
        rng = np.random.default_rng(0)
        no_train, no_test = (replace(s, labels=rng.permutation(s.labels)) for s in (train_set, test_set))
        num = np.bincount(train_set.labels)
        print(f"{len(train_set.labels)} crops of {len(num)} classes ({num.min()} to {num.max()}) to train on, ", end="")
        print(f"{len(test_set.labels)} to test on; {args.attributes} attributes, {args.epochs} epochs\n")
        print("| trained with | mAP of codes | mAP of embeddings | at random | pairs told apart | attributes set |")
        print("|---|---|---|---|---|---|")
        both, triplet = ("mse", "triplet"), ("triplet",)
        for number, (what, data, test, losses) in enumerate(
            (
                ("true labels, mse + triplet", train_set, test_set, both),
                ("true labels, triplet", train_set, test_set, triplet),
                ("shuffled training labels, mse + triplet", no_train, test_set, both),
                ("shuffled training labels, triplet", no_train, test_set, triplet),
                ("shuffled training and test labels, mse + triplet", no_train, no_test, both),
                ("an untrained encoder", train_set, test_set, ()),
            )
        ):
            config = make_config(args.epochs, args.attributes, losses or both)
            if not losses:
                encoder = untrained(data, args.attributes)
            else:
                encoder = load_encoder(train(data, test, config, folder / f"run{number}").folder).encoder
            found = validate(encoder, torch.from_numpy(test.vectors), torch.from_numpy(test.labels))
            apart = separation(encoder, data, test)
            print(
                f"| {what} | {found.map_codes:.3f} | {found.map_vectors:.3f} | {chance(test.labels):.3f} | "
                f"{apart:.3f} | {found.active_frac:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
