"""Training of an encoder on class-structured batches, in one process or in those that torchrun started.

The vectors are in memory; a batch is some of their rows. After each epoch the encoder is measured on all of the test
set, and a checkpoint is written, which a run that was interrupted goes on from, with the same parameters, bit for bit,
as one that was not. That takes the same number of processes, and the same kind of machine.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from segpaste.encoder.checkpoints import BEST, LAST, CheckpointError, claimed_run, write_checkpoint
from segpaste.encoder.config import TrainConfig, find_sampler
from segpaste.encoder.evaluation import is_better, validate
from segpaste.encoder.logs import RunLog
from segpaste.encoder.objective import make_objective
from segpaste.encoder.processes import Processes, joined
from segpaste.encoder.vectors import LabelledVectors, VectorsError
from segpaste.samplers import NxMReport, NxMSampler


@dataclass(frozen=True)
class TrainResult:
    """What a run found.

    Attributes:
        best: the figures of the best epoch: ``epoch`` from 1, the ``loss`` and its parts, and those of
            `segpaste.encoder.Validation`.
        history: of every epoch.
        folder: where its files are.
    """

    best: dict[str, float]
    history: tuple[dict[str, float], ...]
    folder: Path


def train(
    train_set: LabelledVectors, test_set: LabelledVectors, config: TrainConfig, out: str | os.PathLike[str]
) -> TrainResult:
    """Train an encoder, or go on where a run with the same arguments was interrupted.

    Args:
        train_set: what it is trained on.
        test_set: what it is measured on. Its labels are compared with one another only, so the classes may be others.
        config: how.
        out: the folder of the run, see `segpaste.encoder.checkpoints`.

    Raises:
        ValueError: the folder holds another run, the batches cannot be made, the vectors do not match, there is no such
            device, or the loss is not finite any more.
        ImportError: an optional dependency is missing; the message says how to install it.
        OSError: a file cannot be read or written.
    """
    with open_training(train_set, test_set, config, out) as training:
        for _ in training.epochs():
            pass
        return training.result()


@contextlib.contextmanager
def open_training(
    train_set: LabelledVectors, test_set: LabelledVectors, config: TrainConfig, out: str | os.PathLike[str]
) -> Iterator[Training]:
    """A run that can be followed epoch by epoch; arguments and errors are those of `train`.

    A run that ends before its first epoch is finished leaves nothing behind. While it is open,
    ``torch.use_deterministic_algorithms`` is on for all of the process; on CUDA the device of this process is selected
    and ``CUBLAS_WORKSPACE_CONFIG`` set, and both stay so.
    """
    folder = Path(out)
    if train_set.vectors.shape[1] != test_set.vectors.shape[1]:
        raise VectorsError(
            f"expected test vectors of {train_set.vectors.shape[1]} numbers, as for training, got "
            f"{test_set.vectors.shape[1]}"
        )
    for mine, test in ((train_set.columns, test_set.columns), (train_set.embedder, test_set.embedder)):
        if mine and test and mine != test:
            raise VectorsError(f"expected test vectors of {_named(mine)}, as for training, got {_named(test)}")
    trainer = config.trainer
    with contextlib.ExitStack() as stack:
        processes = stack.enter_context(joined(trainer.device, trainer.backend))
        stack.enter_context(_deterministic(processes.device))
        fingerprint = {
            "train": train_set.digest(),
            "test": test_set.digest(),
            "processes": processes.world_size,
            "device": processes.device.type,
            "backend": processes.backend,
            **config.fingerprint(),
        }
        sampler = _make_sampler(train_set, config, processes)
        state = processes.from_first(lambda: stack.enter_context(claimed_run(folder, fingerprint)))
        training = Training(train_set, test_set, config, folder, processes, sampler, fingerprint, state)
        stack.callback(training.close)
        yield training


class Training:
    """One run; open it with `open_training`.

    Attributes:
        config: that it was opened with.
        processes: this one among those that train.
        sampler: of its batches.
        encoder: what is trained.
        history: figures of the epochs that are finished, see `TrainResult`.
        folder: of the run.
    """

    def __init__(
        self,
        train_set: LabelledVectors,
        test_set: LabelledVectors,
        config: TrainConfig,
        folder: Path,
        processes: Processes,
        sampler: NxMSampler,
        fingerprint: dict[str, Any],
        state: dict[str, Any] | None,
    ) -> None:
        self.config, self.folder, self.processes, self.sampler = config, folder, processes, sampler
        self._label_names, self._fingerprint = list(train_set.label_names), fingerprint
        self._embedder = train_set.embedder
        self._train, self._test = _tensors(train_set, processes.device), _tensors(test_set, processes.device)
        self._objective = make_objective(self._train[0], len(self._label_names), config)
        self.encoder, trainer = self._objective.encoder, config.trainer
        self._optimizer = torch.optim.AdamW(
            self._objective.parameters(), lr=trainer.learning_rate, weight_decay=trainer.weight_decay
        )
        self.history: list[dict[str, float]] = []
        if state is not None:
            self._load(state)
        processes.broadcast(self._objective.state_dict().values())
        self._log: RunLog | None = None
        processes.from_first(self._open_log)
        self._map_vectors: float | None = self.history[-1]["map_vectors"] if self.history else None

    def report(self) -> NxMReport:
        """What an epoch of the sampler covers, over all processes."""
        report, names = self.sampler.report(), self._label_names
        return replace(report, left_out=tuple(row._replace(label=names[row.label]) for row in report.left_out))

    def epochs(self) -> Iterator[dict[str, float]]:
        """Train what is left, and yield the figures of each epoch when its checkpoint is written.

        Raises:
            ValueError: the loss is not finite any more.
            OSError: a file cannot be written.
        """
        for epoch in range(len(self.history), self.config.trainer.epochs):
            row = self.processes.from_first(partial(self._measure, epoch, self._train_epoch(epoch)))
            is_best = is_better(row, self.best())
            self.history.append(row)
            self.processes.from_first(partial(self._save, is_best))
            yield row

    def best(self) -> dict[str, float] | None:
        """The figures of the best epoch so far."""
        found: dict[str, float] | None = None
        for row in self.history:
            found = row if is_better(row, found) else found
        return found

    def result(self) -> TrainResult:
        """What was found.

        Raises:
            ValueError: no epoch is finished.
        """
        best = self.best()
        if best is None:
            raise ValueError(f"{self.folder}: expected a run with a finished epoch, got none; go through epochs first")
        return TrainResult(best, tuple(self.history), self.folder)

    def close(self) -> None:
        """Write what is not written yet of the log."""
        if self._log is not None:
            self._log.close()

    def _open_log(self) -> None:
        self._log = RunLog(self.folder, self.config.trainer.log, self.history)

    def _train_epoch(self, epoch: int) -> dict[str, float]:
        """Means over the batches of all processes: of the loss, and of its parts."""
        vectors, labels = self._train
        batches = self.sampler.batch_sampler()
        batches.set_epoch(epoch)
        sums = torch.zeros(1 + len(self.config.trainer.losses), dtype=torch.float64, device=vectors.device)
        self._objective.train()
        for batch in batches:
            rows = torch.tensor(batch, device=vectors.device)
            total, parts = self._objective(vectors[rows], labels[rows])
            self._optimizer.zero_grad()
            total.backward()
            self.processes.average_gradients(self._objective.parameters())
            self._optimizer.step()
            sums += torch.stack([total, *parts]).detach()
        means = (self.processes.all_reduce_(sums) / (len(batches) * self.processes.world_size)).tolist()
        return dict(zip(("loss", *(f"loss_{name}" for name in self.config.trainer.losses)), means, strict=True))

    def _measure(self, epoch: int, losses: dict[str, float]) -> dict[str, float]:
        """The figures of an epoch."""
        self._objective.eval()
        figures = validate(self.encoder, *self._test, self._map_vectors)
        _expect_finite(epoch, losses["loss"], figures.mse)  # the last step is in no loss
        self._map_vectors = figures.map_vectors
        return {"epoch": epoch + 1, **losses, **figures.row()}

    def _save(self, is_best: bool) -> None:
        """Write the checkpoints and the log of the epoch that is the last of the history."""
        state = self._state()
        for name in (BEST, LAST) if is_best else (LAST,):
            write_checkpoint(self.folder / name, state)
        if self._log is not None:
            self._log.add(self.history[-1])

    def _state(self) -> dict[str, Any]:
        model = self.config.model
        return {
            "sizes": {"num_inputs": self.encoder.num_inputs, **model.model_dump()},
            "encoder": self.encoder.state_dict(),
            "losses": self._objective.losses.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "label_names": self._label_names,
            "embedder": self._embedder,
            "config": self.config.model_dump(mode="json"),
            "fingerprint": self._fingerprint,
            "history": self.history,
        }

    def _load(self, state: dict[str, Any]) -> None:
        if state.get("fingerprint") != self._fingerprint:
            raise CheckpointError(f"{self.folder / LAST}: expected a checkpoint of this run, got one of another")
        self.history = list(state["history"])
        if len(self.history) > self.config.trainer.epochs:
            raise ValueError(
                f"trainer.epochs: expected at least the {len(self.history)} that are finished in {self.folder}, got "
                f"{self.config.trainer.epochs}"
            )
        self.encoder.load_state_dict(state["encoder"])
        self._objective.losses.load_state_dict(state["losses"])
        self._optimizer.load_state_dict(state["optimizer"])


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
    except ValueError as error:
        raise ValueError(f"data.sampler {data.sampler}: {error}") from error
    except Exception as error:  # of a sampler of the user's
        raise ValueError(f"data.sampler {data.sampler}: {type(error).__name__}: {error}") from error


def _expect_finite(epoch: int, *values: float) -> None:
    for value in values:
        if not math.isfinite(value):
            raise ValueError(
                f"epoch {epoch + 1}: expected a finite loss, got {value}; lower trainer.learning_rate, or the weights "
                f"of the losses"
            )


def _named(source: str | tuple[str, ...]) -> str:
    """What vectors are, in words: the columns of a CSV, or the embedder of a bank."""
    return f"the embedder {source}" if isinstance(source, str) else f"the columns {source[0]} to {source[-1]}"


def _tensors(data: LabelledVectors, device: torch.device) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(data.vectors).to(device), torch.from_numpy(data.labels).to(device)


@contextlib.contextmanager
def _deterministic(device: torch.device) -> Iterator[None]:
    """Make gradients of indexing, and on CUDA matrix products, deterministic; what cannot be on CUDA only warns."""
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
