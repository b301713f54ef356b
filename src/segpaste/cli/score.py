"""`segpaste score`: compute likelihood ratios of pairs of samples from the codes of an encoder."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segpaste.cli._errors import CommandError
from segpaste.workspace import WholeFiles, naming

if TYPE_CHECKING:
    from segpaste.encoder import TrainedEncoder
    from segpaste.encoder.trials import ScoredTrials, Trials
    from segpaste.encoder.vectors import NamedVectors

_EXAMPLE = """\
PAIRS.csv has the columns enrollment and test with ids of vectors, separated by commas or tabs. With a column key,
target or nontarget in each line, EER, Cllr and minDCF are printed; without it the labels of VECTORS.csv are used if it
has any.

VECTORS.csv has a column of ids, and the vectors in the columns that the encoder was trained on: paths of .npy files, or
numbers. A matrix VECTORS.npy with the ids in a VECTORS.csv beside it, Kaldi's .scp and .ark, and a bank with embeddings
can be used instead, as for segpaste train. The crops of a bank have the ids 0, 1 and so on.

SCORES.csv has a line for each pair: enrollment, test, score, llr, and the key if it is known. llr is the calibrated
log-likelihood ratio, a natural logarithm; above 0, the same class is more likely. The score is the sum before
calibration, which is not a likelihood ratio. With --contributions, the summand of each attribute is in another file.

--plots draws DIR/det.png, the misses over the false alarms, and DIR/tippett.png, the share of pairs whose ratio is at
least x. Both need the key or the labels.

examples:
  segpaste score trials.csv vectors.csv --model runs/encoder --out scores.csv
  segpaste score pairs.csv held_out --out scores.csv
  segpaste score trials.csv xvectors.scp --out scores.csv --contributions parts.csv --plots plots
"""


def add_to(commands: Any, summary: str) -> None:
    """Add the command to the parser, with a summary of a few words."""
    text = "Write the likelihood ratio of each pair of samples: same class against different classes."
    parser = commands.add_parser("score", help=summary, description=text, example=_EXAMPLE)
    parser.usage = "segpaste score PAIRS.csv VECTORS --out SCORES.csv [options]"
    add = parser.add_argument
    add("pairs", metavar="PAIRS.csv", type=Path, help="pairs of ids")
    add("vectors", metavar="VECTORS", help="the vector of each id: .csv, .npy, .scp, .ark or a bank")
    add("--out", metavar="SCORES.csv", type=Path, required=True, help="output file, replaced if it exists")
    text = "also write the log likelihood ratio of each attribute for each pair; they add up to the score"
    add("--contributions", metavar="PARTS.csv", type=Path, help=text)
    add("--plots", metavar="DIR", type=Path, help="also draw a DET curve and a Tippett plot")
    model = Path("runs/encoder")
    add("--model", metavar="RUN", type=Path, default=model, help=f"run of segpaste train, default: {model}")
    add("--id-column", metavar="NAME", default="id", help="column of VECTORS.csv, default: id")
    add("--label-column", metavar="NAME", help="default: as in training; may be missing")
    add("--path-column", metavar="NAME", help="default: as in training")
    add("--embedding-prefix", metavar="TEXT", help="default: as in training")
    add("--utt2spk", metavar="FILE", type=Path, help="speakers of a .scp or .ark, default: utt2spk beside it, if any")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Score pairs, write the ratios, and print their quality."""
    _expect_other_file(args)
    import torch

    from segpaste.cli.train import ratio_lines
    from segpaste.encoder import load_encoder
    from segpaste.encoder.evaluation import encode
    from segpaste.encoder.trials import contributions_csv, read_trials, score_trials, scores_csv
    from segpaste.encoder.vectors import read_named

    trained = load_encoder(args.model)
    if trained.evidence is None:
        raise CommandError(
            f"{args.model}: expected a run of segpaste train with evidence, got one without; finish the run, with "
            f"several vectors of each class in its training and its validation set"
        )
    data = trained.config["data"]
    label_column, path_column, prefix = (
        data[name] if getattr(args, name) is None else getattr(args, name)
        for name in ("label_column", "path_column", "embedding_prefix")
    )
    found = read_named(args.vectors, args.id_column, label_column, (path_column, prefix), args.utt2spk)
    _expect_vectors(args.vectors, found, trained)
    trials = read_trials(args.pairs, found.row_of, found.labels)
    codes = encode(trained.encoder, torch.from_numpy(found.vectors))
    scored = score_trials(trained.evidence, codes, trials, found.vectors)
    pictures = {} if args.plots is None else _plots(trials, scored)
    with naming(args.out), WholeFiles() as files:
        written = [files.write(args.out, scores_csv(trials, scored))]
        if args.contributions is not None:
            written.append(files.write(args.contributions, contributions_csv(trained.evidence, codes, trials)))
        written += [files.write(args.plots / name, png) for name, png in pictures.items()]
    ratios, num_same = scored.log_likelihood_ratios, int((~trials.is_counted).sum())
    print(f"pairs              {len(ratios):,}, of {len(found.vectors):,} vectors")
    if num_same:
        print(f"same vector        {num_same:,} pairs of a vector with itself; they are not in the figures")
    print(f"log ratios         {ratios.min():.3f} to {ratios.max():.3f}, natural logarithms")
    if trials.is_target is None:
        print("likelihood ratios  no figures: neither a key in the pairs nor labels of the vectors")
    else:
        print("\n".join(ratio_lines(scored.figures)))
    print(f"files              {', '.join(map(str, written))}")


def _plots(trials: Trials, scored: ScoredTrials) -> dict[str, bytes]:
    """Draw the plots, as PNG by the name of their file."""
    import numpy as np

    from segpaste.encoder import det_curve
    from segpaste.viz.gallery import png_bytes
    from segpaste.viz.score_curves import Rates, draw_det, draw_tippett

    found = scored.figures
    if found is None or scored.cosines is None:
        raise CommandError(
            "--plots: expected pairs of one class and of two classes, got not both; add a column key to the pairs, or "
            "labels to the vectors"
        )
    target, nontarget = trials.of_kind(True), trials.of_kind(False)
    of_vectors = f"raw vectors, EER {found.eer_of_vectors:.2%}, minDCF {found.min_dcf_of_vectors:.3f}"
    curves = {
        f"codes, EER {found.eer:.2%}, minDCF {found.min_dcf:.3f}": Rates(
            *det_curve(scored.scores[target], scored.scores[nontarget])
        ),
        of_vectors: Rates(*det_curve(*scored.cosines)),
    }
    ratios = {
        f"{found.num_target:,} target pairs": scored.log_likelihood_ratios[target],
        f"{found.num_nontarget:,} nontarget pairs": scored.log_likelihood_ratios[nontarget],
    }
    pictures = {"det.png": draw_det(curves), "tippett.png": draw_tippett(ratios)}
    return {name: png_bytes(np.asarray(picture)) for name, picture in pictures.items()}


def _expect_other_file(args: argparse.Namespace) -> None:
    """Check that no output is an input, or the other output."""
    vectors = Path(args.vectors)
    inputs = [args.pairs, vectors, args.utt2spk]
    if vectors.suffix in (".npy", ".ark", ".scp"):
        inputs += [vectors.with_suffix(".csv"), vectors.with_suffix(".ark"), vectors.with_name("utt2spk")]
    for name, out in (("--out", args.out), ("--contributions", args.contributions)):
        for given in filter(None, inputs):
            if out is not None and out.exists() and given.exists() and os.path.samefile(out, given):
                raise CommandError(f"{name}: expected a file that is not an input, got {given}; choose another name")
    if args.contributions is not None and args.contributions.absolute() == args.out.absolute():
        raise CommandError(f"--contributions: expected another file than --out, got {args.out}; choose another name")


def _expect_vectors(where: str, found: NamedVectors, trained: TrainedEncoder) -> None:
    """Check that the vectors are of the kind that the encoder was trained on."""
    if found.vectors.shape[1] != trained.encoder.num_inputs:
        raise CommandError(
            f"{where}: expected vectors of {trained.encoder.num_inputs} numbers, as the encoder was trained on, got "
            f"{found.vectors.shape[1]}"
        )
    if found.embedder and trained.embedder and found.embedder != trained.embedder:
        raise CommandError(f"{where}: expected embeddings of {trained.embedder}, got those of {found.embedder}")
