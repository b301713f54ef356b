"""Vectors around the centres of classes, as arrays and as files; a sampler that waits."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from segpaste.encoder import LabelledVectors, TrainConfig
from segpaste.samplers import ExhaustiveNxMSampler, RandomNxMSampler

NUM_CLASSES, SIZE = 6, 11

SMALL = ["data.N_classes_per_batch=3", "data.M_samples_per_class=2", "model.num_attributes=16", "trainer.device=cpu"]


def clusters(num: int, seed: int, noise: float = 1.0) -> LabelledVectors:
    """``num`` vectors of each class."""
    centres = np.random.default_rng(99).normal(size=(NUM_CLASSES, SIZE))
    labels = np.repeat(np.arange(NUM_CLASSES), num)
    vectors = centres[labels] + noise * np.random.default_rng(seed).normal(size=(len(labels), SIZE))
    return LabelledVectors(vectors.astype(np.float32), labels, tuple(f"class {c}" for c in range(NUM_CLASSES)))


def config(data: dict[str, Any] | None = None, **trainer: Any) -> TrainConfig:
    """Return a small configuration."""
    values = {"sampler": "segpaste.samplers.ExhaustiveNxMSampler", "N_classes_per_batch": 3, "M_samples_per_class": 2}
    return TrainConfig.model_validate(
        {
            "data": {**values, **(data or {})},
            "model": {"num_attributes": 16, "hidden": 13},
            "trainer": {"epochs": 4, "device": "cpu", **trainer},
        }
    )


def write_numbers(path: Path, data: LabelledVectors) -> Path:
    """Write the vectors as columns of a CSV."""
    lines = [",".join(["label", *(f"embedding_{i}" for i in range(data.vectors.shape[1]))])]
    for label, vector in zip(data.labels.tolist(), data.vectors, strict=True):
        lines.append(",".join([data.label_names[label], *map(repr, vector.tolist())]))
    path.write_text("\n".join(lines) + "\n")
    return path


def bits(state: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """The parameters of a checkpoint, its optimizer's numbers included."""
    found = {f"{part}.{name}": value.numpy() for part in ("encoder", "losses") for name, value in state[part].items()}
    for index, row in state["optimizer"]["state"].items():
        found |= {f"optimizer.{index}.{name}": value.numpy() for name, value in row.items()}
    return found


class WaitingSampler(ExhaustiveNxMSampler):
    """Waits before the epoch that WAIT_AT in the environment names."""

    def set_epoch(self, epoch: int) -> None:
        if os.environ.get("WAIT_AT") == str(epoch):
            time.sleep(300)
        super().set_epoch(epoch)


class OwnArguments(RandomNxMSampler):
    """Sampler that does not take the arguments of its base class."""

    def __init__(self, labels: Any) -> None:
        super().__init__(labels, 2, 2)


class Failing(RandomNxMSampler):
    """Sampler that raises an error that none of the package raises."""

    def __init__(self, *args: Any, **named: Any) -> None:
        raise KeyError("speaker")


@st.composite
def labelled_codes(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    num, num_attributes = draw(st.integers(1, 12)), draw(st.sampled_from([1, 3, 8, 9, 17]))
    likely = rng.random(num_attributes)
    return rng.random((num, num_attributes)) < likely, rng.integers(0, 4, num)


def train_words(folder: Path) -> list[str]:
    """The words of a small training on numbers, whose files it writes."""
    write_numbers(folder / "train.csv", clusters(7, seed=1))
    write_numbers(folder / "test.csv", clusters(5, seed=2))
    return ["train", str(folder / "train.csv"), str(folder / "test.csv"), "--out", str(folder / "run"), *SMALL]
