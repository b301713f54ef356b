"""`segpaste tune`: find out whether pasting helps on a dataset, and with which options, by training on it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segpaste._printable import printable
from segpaste.cli._arguments import add_photos, integer, number
from segpaste.cli._errors import CommandError
from segpaste.tuning.plan import BALANCES, FEWEST_PAIRS, MOST_HELD_OUT, PLACEMENTS, Plan, listed

if TYPE_CHECKING:
    from segpaste.cli._tuning import Setup
    from segpaste.tuning.search import Found

_EXAMPLE = """\
CMD is the command of your trainer, which may be any program. It is started without a shell, once per run, with these
placeholders:

  {config}      paste config in YAML, or the word none for a run without paste
  {balance}     balance of the classes, such as class_uniform, or the word none
  {train}       COCO file of the images to train on
  {val}         COCO file of the held-out images
  {images}      folder to which the file names in these files are relative
  {train_list}  instead of {train}: text file with the path of an image to train on in each line
  {val_list}    instead of {val}: the same for the held-out images
  {seed}        seed of the run
  {out}         file to which the trainer writes its scores on the held-out images: {"scores": {"CLASS": NUMBER, ...}},
                where higher is better, and null means a class without held-out objects

The search tries balances and shares (probability of pasting into an image), then counts (objects drawn for an image),
then placements. The best arm is then compared with no paste on new splits, whose held-out images the search never
scored. The interval of the gain is for other images like these, not only for these. Values in a LIST are separated by
commas. The first count and the first placement are used until their stage. KEY=VALUE and --config set other keys of the
paste config, for all arms.

Every finished run is a file in DIR: after an interruption, the same command resumes. DIR/tuned.yaml is the config to
train with; it pastes nothing unless a gain is shown. DIR/tune.json has all runs.

examples:
  segpaste tune instances.json --images photos --trainer './train.sh {config} {balance} {train} {val} {seed} {out}'
  segpaste tune data.yaml --runs 20 --trainer './train.sh {config} {balance} {train_list} {val_list} {seed} {out}'
  segpaste tune roboflow_export --shares 0.25,0.5 --counts 2 --balances natural --dry-run \\
    --trainer './train.sh {config} {train} {val} {seed} {out}' placement.scale_range=[0.8,1.25]
"""


def add_to(commands: Any, summary: str) -> None:
    """Add the command to the parser, with a summary of a few words."""
    text = (
        "Train with and without paste on parts of a dataset, and report whether pasting helps, and with which options."
    )
    parser = commands.add_parser("tune", help=summary, description=text, example=_EXAMPLE)
    parser.usage = "segpaste tune ANNOTATIONS.json|FOLDER|DATA.yaml --trainer CMD [options] [KEY=VALUE ...]"
    plan = Plan()
    add = parser.add_argument
    add("dataset", metavar="DATASET", help="any dataset with masks that segpaste augment reads")
    add_photos(parser)
    add("--trainer", metavar="CMD", required=True, help="command that trains and scores one run")
    add("--out", metavar="DIR", type=Path, default=Path("tuning"), help="folder of the runs, default: tuning")
    add("--config", metavar="FILE", help="paste configuration in YAML or JSON that all arms share")
    _add_values(
        parser, "--balances", _one_of(BALANCES), plan.balances, f"balances to try, out of {', '.join(BALANCES)}"
    )
    share = number(1, above_zero=True)
    _add_values(parser, "--shares", share, plan.shares, "shares to try: probabilities of pasting into an image")
    _add_values(parser, "--counts", integer(1, 64), plan.counts, "counts to try: objects drawn for an image")
    _add_values(
        parser,
        "--placements",
        _one_of(PLACEMENTS),
        plan.placements,
        f"placements to try, out of {', '.join(PLACEMENTS)}",
    )
    text = f"runs of each arm in the search, default: {plan.num_search}"
    add("--seeds", metavar="N", type=integer(1, 100), default=plan.num_search, help=text)
    text = f"pairs of runs of the final comparison, default: {plan.num_pairs}, at least {FEWEST_PAIRS}"
    add("--pairs", metavar="N", type=integer(FEWEST_PAIRS, 100), default=plan.num_pairs, help=text)
    add("--runs", metavar="N", type=integer(1), help="at most this many runs: the plan is reduced until it fits")
    text = f"fraction of the images to hold out in each run, at most {MOST_HELD_OUT:g}, default: {plan.held_out:g}"
    add("--held-out", metavar="F", type=number(MOST_HELD_OUT, above_zero=True), default=plan.held_out, help=text)
    add("--seed", metavar="S", type=integer(0, (1 << 63) - 1), default=0, help="seed of the splits, default: 0")
    add("--dry-run", action="store_true", help="print the plan without running it")
    parser.set_defaults(run=run, takes_overrides=True)


def run(args: argparse.Namespace) -> None:
    """Print the plan, do the runs that are not done, and write and print the result."""
    if args.dataset is None:
        raise CommandError("expected DATASET before KEY=VALUE, got none; see segpaste tune --help")
    if args.dataset == "scenes":
        raise CommandError("scenes: expected a dataset of files, got synthetic scenes; name a dataset")
    from segpaste.cli import _tuning
    from segpaste.tuning.trainer import TrainerError

    setup = _tuning.open_setup(args)
    print("\n".join(_tuning.plan_lines(setup)), flush=True)
    if args.dry_run:
        return
    try:
        found = _tune(args.out, setup)
    except TrainerError as error:
        for line in error.last_lines.splitlines():
            print(f"  | {printable(line)}", file=sys.stderr)
        raise
    print("\n".join(_final_lines(found, args.out)))


def _tune(out: Path, setup: Setup) -> Found:
    """Do the runs, and write their result."""
    import json

    from segpaste.datasets.formats.format import expect_outside
    from segpaste.tuning import report, runs, search
    from segpaste.tuning.trainer import TuningError
    from segpaste.workspace import Run, WholeFiles

    expect_outside(setup.photos, out)
    space = Run(out.absolute(), TuningError, results=runs.RESULTS, owned=runs.OWNED, what="a tuning")
    with space.claim({**setup.facts, **setup.plan.facts()}):
        say = lambda line: print(line, flush=True)  # noqa: E731
        doing = runs.Runs(space.folder, setup.photos, setup.plan, setup.trainer, setup.base, say)
        found = search.tune(setup.plan, doing.train, doing.scored)
        document = report.document(found, setup.plan, doing.done, setup.facts)
        config = runs.arm_config(setup.base, found.arm)
        with WholeFiles() as files:
            files.write(space.folder / "tune.json", json.dumps(document, indent=1).encode())
            files.write(space.folder / "tuned.yaml", report.config_text(found, config).encode())
    return found


def _final_lines(found: Found, out: Path) -> Iterator[str]:
    from segpaste.tuning import report

    yield ""
    yield from report.lines(found)
    yield f"files    {out}/: tuned.yaml, tune.json, and a file for each run in runs/"
    if report.pastes(found):
        yield (
            f'next     BatchCopyPaste.from_dataloader(..., config=BatchCopyPasteConfig.load("{out}/tuned.yaml"), '
            f'source_pool=pool, balance="{found.arm.balance}"), where pool is the source_pool of your trainer'
        )


def _add_values(
    parser: argparse.ArgumentParser, name: str, convert: Callable[[str], Any], default: tuple[Any, ...], what: str
) -> None:
    """Add an option of values that are tried, separated by commas; None if it is not given."""

    def values(text: str) -> tuple[Any, ...]:
        return tuple(dict.fromkeys(convert(word.strip()) for word in text.split(",")))

    parser.add_argument(name, metavar="LIST", type=values, help=f"{what}, default: {listed(default)}")


def _one_of(names: Any) -> Callable[[str], str]:
    """Return the type of a value that is one of some names."""

    def convert(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"expected {', '.join(names)}, got {text!r}")
        return text

    return convert
