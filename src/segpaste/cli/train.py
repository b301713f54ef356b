"""`segpaste train`: train a binary attribute encoder of embeddings on class-structured batches."""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segpaste._reprs import counted
from segpaste.cli._arguments import add_progress
from segpaste.cli._errors import expect_no_sigterm
from segpaste.cli._printed import progress
from segpaste.workspace import naming

if TYPE_CHECKING:
    from segpaste.encoder import Assessment, RatioFigures, Training

_SECONDS_BETWEEN_LINES = 30
_FEW_STEPS = 10
_NUM_ATTRIBUTES = 5
_EXAMPLE = """\
The vectors are in one of these, which can be mixed:

  x.csv         a column label, and columns embedding_0, embedding_1 and so on, or a column path of .npy files, each
                with a vector, or with a matrix whose row, from 0, is in a column row
  x.npy         a matrix with a vector in each row, and x.csv beside it with a column label and a line for each row
  x.scp, x.ark  vectors of Kaldi, in binary or text, and the file utt2spk beside them, or data.utt2spk=FILE
  a bank        with embeddings, as segpaste bank embed writes

KEY=VALUE overrides the configuration, with values in YAML; the keys are those of segpaste.encoder.TrainConfig:

  data.sampler=segpaste.samplers.RandomNxMSampler  data.N_classes_per_batch=8  data.M_samples_per_class=4
  data.shuffle=true  data.drop_last=true  data.label_column=label  data.path_column=path
  data.embedding_prefix=embedding_  data.utt2spk=null
  model.num_attributes=128  model.hidden=256
  trainer.losses=[mse,triplet,sparsity,angular_margin]  trainer.sparsity_target=0.2  trainer.triplet_margin=0.2
  trainer.loss_weights.mse=1  trainer.loss_weights.triplet=1  trainer.loss_weights.sparsity=1
  trainer.loss_weights.angular_margin=1  trainer.epochs=100  trainer.learning_rate=0.001  trainer.weight_decay=0
  trainer.seed=0  trainer.device=auto|cpu|cuda  trainer.backend=auto|gloo|nccl  trainer.log=csv|tensorboard|both

The same command resumes an interrupted run. Under torchrun several processes train together.
pip install 'pytorch-metric-learning>=2.5' 'tensorboard>=2.14'

examples:
  segpaste train train.csv validation.csv --test test.csv --out encoder
  segpaste train train.csv validation.csv data.sampler=segpaste.samplers.ExhaustiveNxMSampler trainer.epochs=20
  segpaste train objects validation --test held_out trainer.losses=[mse,triplet]
  segpaste train xvectors.scp validation.scp data.utt2spk=data/all/utt2spk
"""


def add_to(commands: Any, summary: str) -> None:
    """Add the command to the parser, with a summary of a few words."""
    text = "Train a binary attribute encoder, which converts embeddings to bits."
    parser = commands.add_parser("train", help=summary, description=text, example=_EXAMPLE)
    parser.usage = "segpaste train TRAIN VALIDATION [options] [KEY=VALUE ...]"
    add = parser.add_argument
    add("train", metavar="TRAIN", help="training vectors: .csv, .npy, .scp, .ark or a bank")
    add("validation", metavar="VALIDATION", help="vectors that select the best epoch and calibrate the scores")
    add("--test", metavar="TEST", help="vectors on which the best epoch is measured at the end")
    add("--out", metavar="DIR", type=Path, default=Path("runs/encoder"), help="default: runs/encoder")
    add("--config", metavar="FILE", help="configuration in YAML or JSON")
    add_progress(parser)
    parser.set_defaults(run=run, takes_overrides=True)


def run(args: argparse.Namespace) -> None:
    """Train, or resume an interrupted run; print its start and its results."""
    if os.getcwd() not in sys.path:  # like python -m, for a sampler in a file of the user
        sys.path.append(os.getcwd())
    from segpaste.augmentation.config import values
    from segpaste.encoder import TrainConfig, open_training, read_vectors

    config = values.load_model(TrainConfig, args.config, args.overrides)
    columns = config.data.model_dump(include={"label_column", "path_column", "embedding_prefix", "utt2spk"})
    train_set = read_vectors(args.train, **columns)
    columns["label_names"] = train_set.label_names
    validation_set = read_vectors(args.validation, **columns)
    test_set = None if args.test is None else read_vectors(args.test, **columns)
    opened = open_training(train_set, validation_set, config, args.out, test_set)
    with naming(args.out), opened as training:
        if training.processes.is_first:
            sizes = f"{counted(len(train_set), 'vector')} of {counted(len(train_set.label_names), 'class', 'classes')}"
            print(f"train              {sizes}\n{training.report()}\n{_steps(training)}", flush=True)
            if num_finished := len(training.history):
                print(f"resumes            after epoch {num_finished} of {config.trainer.epochs}", flush=True)
        _follow(training, config.trainer.epochs)
        assessment = training.assess()
        if training.processes.is_first:
            print("\n".join(_figures(training, assessment, len(validation_set))))


def _steps(training: Training) -> str:
    """Return a line with the number of steps; if there are few, it names a sampler that makes more."""
    num = training.sampler.num_batches
    line = f"steps              {num:,} in an epoch, {num * training.config.trainer.epochs:,} in total"
    if num < _FEW_STEPS and not training.sampler.exhaustive:
        line += "; few: data.sampler=segpaste.samplers.ExhaustiveNxMSampler takes all samples in an epoch"
    return line


def _follow(training: Training, num_epochs: int) -> None:
    """Train, with a progress bar on stderr if that is a terminal, else with a line from time to time."""
    is_first, said = training.processes.is_first, time.monotonic()
    with progress(num_epochs, "epoch", initial=len(training.history), disable=None if is_first else True) as bar:
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


def _figures(training: Training, found: Assessment, num_validation: int) -> Iterator[str]:
    """Yield lines about the best epoch."""
    best, num_bits = training.result().best, training.config.model.num_attributes
    chosen = f"by the mAP of codes on {num_validation:,} validation vectors"
    yield f"best               epoch {best['epoch']} of {len(training.history)}, {chosen}"
    if found.is_final:
        yield f"measured on        {found.num_vectors:,} test vectors"
    else:
        yield "measured on        the same vectors, which chose the epoch, so the figures are too good: give --test"
    yield f"retrieval mAP      {found.map_codes:.4f} by codes, {found.map_vectors:.4f} by the vectors themselves"
    random = f"{found.map_random:.4f} by {num_bits} random projections"
    yield f"without training   {found.map_untrained:.4f} by the codes of the first parameters, {random}"
    if found.has_learnt is False:
        yield "verdict            NOTHING WAS LEARNT: the codes are no better than those without training"
    yield f"reconstruction     {found.mse:.4f} mean square, of standardised vectors"
    yield f"attributes         {found.active_frac:.2%} of the bits are 1"
    yield from ratio_lines(found.ratios)
    yield from _attribute_lines(found)
    names = ", ".join(sorted(path.name for path in training.folder.iterdir()))
    yield f"files              {training.folder}/: {names}"


def _attribute_lines(found: Assessment) -> Iterator[str]:
    """Yield a table of the attributes that are the strongest evidence if two samples have them."""
    if found.attributes is None:
        return
    strongest = (-found.attributes["score_both"]).argsort(kind="stable")[:_NUM_ATTRIBUTES].tolist()
    all_of_them = f"{len(found.attributes['share'])} attributes, if two samples have them; all are in attributes.csv"
    yield f"strongest          {len(strongest)} of {all_of_them}"
    yield "                   attribute  typicality  drop-out  drop-in  log ratio of both, one, neither"
    for k in strongest:
        at = {name: float(column[k]) for name, column in found.attributes.items()}
        shares = f"{at['typicality']:10.2%}  {at['dropout']:8.2%}  {at['dropin']:7.2%}".replace("nan%", "   -")
        ratios = f"{at['score_both']:+17.3f}{at['score_one']:+8.3f}{at['score_neither']:+8.3f}"
        yield f"                   {k:9}  {shares}  {ratios}"


def ratio_lines(found: RatioFigures | None) -> Iterator[str]:
    """Yield lines about the quality of likelihood ratios, with a clear warning if they are worse than none."""
    if found is None:
        yield "likelihood ratios  no figures: they need pairs of one class and pairs of two classes"
        return
    costs = f"Cllr {found.cllr:.3f} (at best {found.min_cllr:.3f})"
    pairs = f"{found.num_target:,} target and {found.num_nontarget:,} nontarget pairs"
    yield f"likelihood ratios  EER {found.eer:.2%}, {costs}, of {pairs}"
    if found.cllr >= 1:
        yield "                   Cllr is 1 or more: THESE RATIOS ARE NO BETTER THAN NO EVIDENCE; do not use them"
    below, above = f"{found.misleading_target:.2%} of the target", f"{found.misleading_nontarget:.2%} of the nontarget"
    yield f"misleading         {below} pairs have a ratio below 1, {above} pairs one above 1"
    yield f"detection cost     minDCF {found.min_dcf:.3f}, where 1 % of the pairs are targets"
    if not math.isnan(found.eer_of_vectors):
        figures = f"EER {found.eer_of_vectors:.2%}, minDCF {found.min_dcf_of_vectors:.3f}"
        yield f"raw vectors        {figures}, by their cosine"
    worse = "; 1 or more: worse than no evidence, use calibrated ratios only" if found.cllr_of_scores >= 1 else ""
    yield f"uncalibrated       Cllr {found.cllr_of_scores:.3f}{worse}"
