"""Training of an encoder on class-structured batches, in one process or in those that torchrun started.

The vectors are in memory; a batch is a selection of their rows. After each epoch the encoder is measured on the whole
validation set, and a checkpoint is written. An interrupted run resumes there, and ends with the same parameters, bit
for bit, as an uninterrupted run on the same number of processes and the same kind of machine. At the end the best epoch
is measured on the test set, if there is one.

`train` and `open_training` check the arguments and set up the folder, the processes and the sampler.
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
from torch import Tensor, nn

from segpaste.encoder._processes import Processes, joined
from segpaste.encoder.checkpoints import (
    BEST,
    LAST,
    CheckpointError,
    RunLog,
    add_evidence,
    claimed_run,
    load_encoder,
    write_attributes,
    write_checkpoint,
)
from segpaste.encoder.config import TrainConfig, find_sampler
from segpaste.encoder.evaluation import Assessment, Part, assess, encode, find_evidence, is_better, validate
from segpaste.encoder.model import BinaryAttributeEncoder, EncoderLosses
from segpaste.encoder.vector_csv import VectorsError
from segpaste.encoder.vectors import LabelledVectors, expect_alike
from segpaste.samplers import NxMReport, NxMSampler


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
        out: folder of the run, see `segpaste.encoder.checkpoints`.
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


@dataclass(frozen=True)
class TrainResult:
    """Result of a run.

    Attributes:
        best: figures of the best epoch: ``epoch`` from 1, the ``loss`` and its parts, and those of
            `segpaste.encoder.Validation` on the validation set.
        history: figures of each epoch.
        folder: folder of the run.
        assessment: assessment of the best epoch, after `Training.assess`.
    """

    best: dict[str, float]
    history: tuple[dict[str, float], ...]
    folder: Path
    assessment: Assessment | None = None


class Training:
    """Training run; open it with `segpaste.encoder.open_training`.

    Attributes:
        config: configuration of the run.
        processes: processes that train together.
        sampler: sampler of the batches.
        encoder: encoder that is trained.
        history: figures of the finished epochs, see `TrainResult`.
        folder: folder of the run.
    """

    def __init__(
        self,
        train_set: LabelledVectors,
        validation_set: LabelledVectors,
        test_set: LabelledVectors | None,
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
        self._train = _tensors(train_set, processes.device)
        self._validation = _tensors(validation_set, processes.device)
        self._test_set = test_set
        self._assessment: Assessment | None = None
        self._objective = make_objective(self._train[0], len(self._label_names), config)
        self.encoder, trainer = self._objective.encoder, config.trainer
        self._optimizer = torch.optim.AdamW(
            self._objective.parameters(), lr=trainer.learning_rate, weight_decay=trainer.weight_decay
        )
        self.history: list[dict[str, float]] = []
        if state is not None:
            processes.on_all(lambda: self._load(state))
        processes.broadcast(self._objective.state_dict().values())
        self._log: RunLog | None = None
        processes.from_first(self._open_log)
        self._map_vectors: float | None = self.history[-1]["map_vectors"] if self.history else None

    def report(self) -> NxMReport:
        """Return the coverage of an epoch of the sampler, over all processes."""
        report, names = self.sampler.report(), self._label_names
        return replace(report, left_out=tuple(row._replace(label=names[row.label]) for row in report.left_out))

    def epochs(self) -> Iterator[dict[str, float]]:
        """Train the remaining epochs, and yield the figures of each epoch after its checkpoint is written.

        Raises:
            ValueError: the loss is no longer finite.
            OSError: a file cannot be written.
        """
        for epoch in range(len(self.history), self.config.trainer.epochs):
            row = self.processes.from_first(partial(self._measure, epoch, self._train_epoch(epoch)))
            is_best = is_better(row, self.best())
            self.history.append(row)
            self.processes.from_first(partial(self._save, is_best))
            yield row

    def best(self) -> dict[str, float] | None:
        """Return the figures of the best epoch so far."""
        found: dict[str, float] | None = None
        for row in self.history:
            found = row if is_better(row, found) else found
        return found

    def result(self) -> TrainResult:
        """Return the result of the finished epochs.

        Raises:
            ValueError: no epoch is finished.
        """
        best = self.best()
        if best is None:
            raise ValueError(f"{self.folder}: expected a run with a finished epoch, got none; run epochs first")
        return TrainResult(best, tuple(self.history), self.folder, self._assessment)

    def assess(self) -> Assessment:
        """Measure the best epoch, and store its evidence in its checkpoint; all processes must call this.

        Raises:
            ValueError: no epoch is finished, or the checkpoint is broken.
            OSError: the checkpoint cannot be read or written.
        """
        self.result()
        self._assessment = self.processes.from_first(self._assess_best)
        return self._assessment

    def close(self) -> None:
        """Close the log."""
        if self._log is not None:
            self._log.close()

    def _open_log(self) -> None:
        self._log = RunLog(self.folder, self.config.trainer.log, self.history)

    def _train_epoch(self, epoch: int) -> dict[str, float]:
        """Train an epoch, and return the means of the loss and its parts over the batches of all processes."""
        vectors, labels = self._train
        batches = self.sampler.batch_sampler()
        batches.set_epoch(epoch)
        sums = torch.zeros(1 + len(self.config.trainer.losses), dtype=torch.float64, device=vectors.device)
        self._objective.train()
        for batch in batches:
            rows = torch.tensor(batch, dtype=torch.int64, device=vectors.device)
            total, parts = self._objective(vectors[rows], labels[rows])
            self._optimizer.zero_grad()
            total.backward()
            self.processes.average_gradients(self._objective.parameters())
            self._optimizer.step()
            sums += torch.stack([total, *parts]).detach()
        means = (self.processes.all_reduce_(sums) / (len(batches) * self.processes.world_size)).tolist()
        return dict(zip(("loss", *(f"loss_{name}" for name in self.config.trainer.losses)), means, strict=True))

    def _measure(self, epoch: int, losses: dict[str, float]) -> dict[str, float]:
        """Measure the encoder on the validation set, and return the figures of the epoch."""
        self._objective.eval()
        figures = validate(self.encoder, *self._validation, self._map_vectors)
        for value in (losses["loss"], figures.mse):  # the losses are from before the last step
            if not math.isfinite(value):
                raise ValueError(
                    f"epoch {epoch + 1}: expected a finite loss, got {value}; lower trainer.learning_rate, or the "
                    "weights of the losses"
                )
        self._map_vectors = figures.map_vectors
        return {"epoch": epoch + 1, **losses, **figures.row()}

    def _assess_best(self) -> Assessment:
        device, seed = self.processes.device, self.config.trainer.seed
        trained = load_encoder(self.folder)
        encoder, evidence = trained.encoder.to(device), trained.evidence
        if evidence is None:
            evidence = find_evidence(encoder, self._train, self._validation)
            add_evidence(self.folder / BEST, evidence)
        untrained = make_objective(self._train[0], len(self._label_names), self.config).encoder
        measured = self._validation if self._test_set is None else _tensors(self._test_set, device)
        is_final = self._test_set is not None
        found = assess(encoder, untrained, evidence, measured, is_final=is_final, seed=seed)
        if evidence is None:
            return found
        codes, labels = encode(encoder, self._train.vectors), self._train.labels.cpu().numpy()
        return replace(found, attributes=write_attributes(self.folder, evidence, codes, labels))

    def _save(self, is_best: bool) -> None:
        """Write the checkpoints and the log of the last epoch in the history."""
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


def _tensors(data: LabelledVectors, device: torch.device) -> Part:
    return Part(torch.from_numpy(data.vectors).to(device), torch.from_numpy(data.labels).to(device))


class Objective(nn.Module):
    """Module of the encoder and the losses, whose parameters are trained together.

    Args:
        encoder: encoder of the vectors.
        losses: losses of its output.
    """

    def __init__(self, encoder: BinaryAttributeEncoder, losses: EncoderLosses) -> None:
        super().__init__()
        self.encoder, self.losses = encoder, losses

    def forward(self, vectors: Tensor, labels: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return the total loss of a batch, and each loss in the order of the names.

        Args:
            vectors: float [B, D].
            labels: int64 [B].
        """
        values = self.losses(self.encoder(vectors), self.encoder.standardise(vectors), labels)
        return self.losses.total(values), list(values.values())


def make_objective(vectors: Tensor, num_classes: int, config: TrainConfig) -> Objective:
    """Create an objective on the device of the vectors; its parameters are a pure function of the arguments.

    Args:
        vectors: vectors of the training set, float [N, D].
        num_classes: number of classes of the training set.
        config: configuration with the sizes, losses and seed.
    """
    trainer = config.trainer
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(trainer.seed)
        encoder = BinaryAttributeEncoder(vectors.shape[1], **config.model.model_dump())
        losses = EncoderLosses(
            trainer.losses,
            trainer.loss_weights.model_dump(),
            num_attributes=config.model.num_attributes,
            num_classes=num_classes,
            triplet_margin=trainer.triplet_margin,
            sparsity_target=trainer.sparsity_target,
        )
    encoder.fit_standardisation(vectors.cpu())
    return Objective(encoder, losses).to(vectors.device)
