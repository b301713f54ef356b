"""`segpaste train`: a binary attribute encoder of embeddings, on class-structured batches."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segpaste.cli._errors import CommandError, expect_no_sigterm, naming

if TYPE_CHECKING:
    from segpaste.encoder import Training

_SECONDS_BETWEEN_LINES = 30
_FEW_STEPS = 10
_EXAMPLE = """\
A CSV has a column label, and either a column path of .npy files, each with a vector, or columns embedding_0,
embedding_1 and so on. A bank with embeddings may stand for it. KEY=VALUE words set what --config may have, with values
in YAML; the keys are those of segpaste.encoder.TrainConfig:

  data.sampler=segpaste.samplers.RandomNxMSampler  data.N_classes_per_batch=8  data.M_samples_per_class=4
  data.shuffle=true  data.drop_last=true  data.label_column=label  data.path_column=path
  data.embedding_prefix=embedding_
  model.num_attributes=128  model.hidden=256
  trainer.losses=[mse,triplet,sparsity,angular_margin]  trainer.sparsity_target=0.2  trainer.triplet_margin=0.2
  trainer.loss_weights.mse=1  trainer.loss_weights.triplet=1  trainer.loss_weights.sparsity=1
  trainer.loss_weights.angular_margin=1  trainer.epochs=100  trainer.learning_rate=0.001  trainer.weight_decay=0
  trainer.seed=0  trainer.device=auto|cpu|cuda  trainer.backend=auto|gloo|nccl  trainer.log=csv|tensorboard|both

An interrupted run goes on when the same command is given again. Under torchrun several processes train together.
pip install 'segpaste[encoder]'

examples:
  segpaste train train.csv test.csv --out encoder
  segpaste train train.csv test.csv data.sampler=segpaste.samplers.ExhaustiveNxMSampler trainer.losses=[mse,triplet]
  segpaste train objects held_out --out encoder trainer.epochs=20
"""


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    text = "Train a binary attribute encoder: embeddings into bits."
    parser = commands.add_parser("train", help="train an attribute encoder", description=text, example=_EXAMPLE)
    parser.usage = "segpaste train TRAIN.csv|BANK TEST.csv|BANK [options] [KEY=VALUE ...]"
    add = parser.add_argument
    add("train", metavar="TRAIN.csv|BANK", help="what it is trained on")
    add("test", metavar="TEST.csv|BANK", help="what it is measured on, all of it, after each epoch")
    add("--out", metavar="DIR", type=Path, default=Path("runs/encoder"), help="default: runs/encoder")
    add("--config", metavar="FILE", help="configuration in YAML or JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Train.

    Raises:
        CommandError: an argument or the configuration is not what it must be, or a dependency is missing.
        ValueError: a file, a vector or the output folder is not what it must be, see `segpaste.encoder.train`.
        OSError: a file cannot be read or written.
        KeyboardInterrupt: interrupted; the message says what is left.
    """
    if os.getcwd() not in sys.path:  # for a sampler in a file of the user's, as python -m has it
        sys.path.append(os.getcwd())
    from segpaste.cli import _values
    from segpaste.encoder import TrainConfig, open_training, read_vectors

    config = _values.load_model(TrainConfig, args.config, args.overrides)
    columns = config.data.model_dump(include={"label_column", "path_column", "embedding_prefix"})
    train_set = read_vectors(args.train, **columns)
    test_set = read_vectors(args.test, **columns, label_names=train_set.label_names)
    try:
        with naming(args.out), open_training(train_set, test_set, config, args.out) as training, _keeping(training):
            if training.processes.is_first:
                sizes = f"{len(train_set):,} vectors of {len(train_set.label_names):,} classes"
                print(f"train              {sizes}\n{training.report()}\n{_steps(training)}", flush=True)
                if num_finished := len(training.history):
                    print(f"goes on            after epoch {num_finished} of {config.trainer.epochs}", flush=True)
            _follow(training, config.trainer.epochs)
            if training.processes.is_first:
                print(_figures(training, len(test_set)))
    except ImportError as error:
        if "segpaste[" in str(error):  # an optional dependency, with its hint
            raise CommandError(str(error)) from error
        raise


def _steps(training: Training) -> str:
    """How many steps an epoch has; where those are few, a sampler that makes more."""
    num = training.sampler.num_batches
    line = f"steps              {num:,} in an epoch, {num * training.config.trainer.epochs:,} in all"
    if num < _FEW_STEPS and not training.sampler.exhaustive:
        line += "; few: data.sampler=segpaste.samplers.ExhaustiveNxMSampler takes all samples in an epoch"
    return line


def _follow(training: Training, num_epochs: int) -> None:
    """Show a bar on stderr where that is a terminal, else now and then a line."""
    from tqdm import tqdm

    is_first, said = training.processes.is_first, time.monotonic()
    hidden = None if is_first else True
    with tqdm(total=num_epochs, initial=len(training.history), unit="epoch", disable=hidden, dynamic_ncols=True) as bar:
        expect_no_sigterm()
        for row in training.epochs():
            figures = {"loss": f"{row['loss']:.4g}", "mAP": f"{row['map_codes']:.4f}"}
            bar.set_postfix(figures, refresh=False)
            bar.update()
            if bar.disable and is_first and time.monotonic() - said > _SECONDS_BETWEEN_LINES:
                said = time.monotonic()
                numbers = ", ".join(f"{name} {value}" for name, value in figures.items())
                print(f"epoch              {row['epoch']} of {num_epochs}, {numbers}", flush=True)
            expect_no_sigterm()


def _figures(training: Training, num_test: int) -> str:
    """The best epoch, line by line."""
    best = training.result().best
    return "\n".join(
        [
            f"best               epoch {best['epoch']} of {len(training.history)}, on all {num_test:,} test vectors",
            f"retrieval mAP      {best['map_codes']:.4f} by codes, {best['map_vectors']:.4f} by the vectors themselves",
            f"reconstruction     {best['mse']:.4f} mean square, of standardised vectors",
            f"attributes         {best['active_frac']:.2%} of the bits are 1",
            f"files              {training.folder}/: "
            + ", ".join(sorted(path.name for path in training.folder.iterdir())),
        ]
    )


@contextlib.contextmanager
def _keeping(training: Training) -> Iterator[None]:
    """What interrupts a run says what is left of it; the other processes leave that to the first."""
    from segpaste.encoder.checkpoints import LAST

    try:
        yield
    except KeyboardInterrupt:
        if not training.processes.is_first:
            raise SystemExit(130) from None
        kept = f"{training.folder} keeps what is finished; the same command goes on from there"
        raise KeyboardInterrupt(kept if (training.folder / LAST).exists() else "nothing was finished") from None
