"""Entry points of a training: they check the arguments and set up the folder, the processes and the sampler."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import torch

from segpaste.encoder.data.vector_csv import VectorsError
from segpaste.encoder.data.vectors import LabelledVectors, expect_alike
from segpaste.encoder.training._processes import Processes, joined
from segpaste.encoder.training.checkpoints import claimed_run
from segpaste.encoder.training.config import TrainConfig, find_sampler
from segpaste.encoder.training.loop import Training, TrainResult
from segpaste.samplers import NxMSampler


def train(
    train_set: LabelledVectors,
    validation_set: LabelledVectors,
    config: TrainConfig,
    out: str | os.PathLike[str],
    test_set: LabelledVectors | None = None,
) -> TrainResult:
    """Train an encoder, or resume an interrupted run with the same arguments.

    Args:
        train_set: training set.
        validation_set: set on which each epoch is measured, to select the best epoch. Its classes may differ from those
            of the training set.
        config: configuration of the training.
        out: folder of the run, see `segpaste.encoder.training.checkpoints`.
        test_set: set on which the best epoch is measured at the end; training does not depend on it. By default the
            validation set is used, so these figures are too optimistic.

    Raises:
        ValueError: the folder belongs to another run, the batches cannot be made, the vectors do not match, the device
            does not exist, or the loss is no longer finite.
        ImportError: an optional dependency is missing; the message says how to install it.
        OSError: a file cannot be read or written.
    """
    with open_training(train_set, validation_set, config, out, test_set) as training:
        for _ in training.epochs():
            pass
        training.assess()
        return training.result()


@contextlib.contextmanager
def open_training(
    train_set: LabelledVectors,
    validation_set: LabelledVectors,
    config: TrainConfig,
    out: str | os.PathLike[str],
    test_set: LabelledVectors | None = None,
) -> Iterator[Training]:
    """Open a run to train it epoch by epoch; see `train` for arguments and errors.

    If the run ends before its first epoch is finished, its files are removed. While it is open,
    ``torch.use_deterministic_algorithms`` is on for the whole process. On CUDA the device of this process is selected
    and ``CUBLAS_WORKSPACE_CONFIG`` is set; both remain so afterwards.
    """
    folder = Path(out)
    expect_alike(train_set, validation_set, "validation")
    if test_set is not None:
        expect_alike(train_set, test_set, "test")
        for known, name in ((train_set, "training"), (validation_set, "validation")):
            if test_set.digest() == known.digest():
                raise VectorsError(f"expected test vectors of their own, got those for {name}; leave out the test set")
    trainer = config.trainer
    with contextlib.ExitStack() as stack:
        processes = stack.enter_context(joined(trainer.device, trainer.backend))
        stack.enter_context(_deterministic(processes.device))
        fingerprint = {
            "train": train_set.digest(),
            "validation": validation_set.digest(),
            "processes": processes.world_size,
            "device": processes.device.type,
            "backend": processes.backend,
            **config.fingerprint(),
        }
        sampler = processes.on_all(lambda: _make_sampler(train_set, config, processes))
        state = processes.from_first(lambda: stack.enter_context(claimed_run(folder, fingerprint)))
        training = Training(train_set, validation_set, test_set, config, folder, processes, sampler, fingerprint, state)
        stack.callback(training.close)
        yield training


def _make_sampler(train_set: LabelledVectors, config: TrainConfig, processes: Processes) -> NxMSampler:
    data = config.data
    try:
        return find_sampler(data.sampler)(
            train_set.labels,
            N_classes_per_batch=data.N_classes_per_batch,
            M_samples_per_class=data.M_samples_per_class,
            shuffle=data.shuffle,
            drop_last=data.drop_last,
            base_seed=config.trainer.seed,
            rank=processes.rank,
            num_replicas=processes.world_size,
        )
    except Exception as error:  # a sampler of the user may raise any error
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise ValueError(f"data.sampler {data.sampler}: {kind}{error}") from error


@contextlib.contextmanager
def _deterministic(device: torch.device) -> Iterator[None]:
    """Use deterministic algorithms; on CUDA, operations without one only warn."""
    if device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before, warn_only = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    torch.use_deterministic_algorithms(True, warn_only=device.type == "cuda")
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warn_only)
