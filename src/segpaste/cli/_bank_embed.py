"""`segpaste bank embed` and `segpaste bank dedupe`: write a bank with embeddings, or without near-duplicates."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from segpaste._printable import printable
from segpaste.cli._arguments import BANK_FORMATS, integer, number
from segpaste.cli._errors import CommandError
from segpaste.cli._printed import progress
from segpaste.workspace import naming

_EMBED_EXAMPLE = """\
EMBEDDER is statistics (colours, edges and outline; needs no weights), torchvision:NAME, timm:NAME or open_clip:NAME.
Nothing is downloaded: --weights is a file of torch.save or safetensors. timm and open_clip are installed separately:
pip install 'timm>=1.0.3' 'open_clip_torch>=2.24'
With --codes an encoder of segpaste train converts the bank's embeddings to codes of -1 and 1. The similarity of two
codes of K attributes, d of which differ, is 1 - 2 d / K.

examples:
  segpaste bank embed objects --out embedded
  segpaste bank embed objects --out embedded --embedder torchvision:resnet50 --weights resnet50.pth
  segpaste bank embed embedded --out coded --codes runs/encoder
"""
_DEDUPE_EXAMPLE = """\
Only the first of several crops of one class is kept if they are at least this similar. The bank must have embeddings.

example:
  segpaste bank dedupe embedded --out unique --threshold 0.99
"""


def add_to(commands: Any) -> None:
    """Add both commands to the parser of ``segpaste bank``."""
    text = "Write a bank with the same crops and an embedding for each."
    parser = commands.add_parser("embed", help="add embeddings", description=text, example=_EMBED_EXAMPLE)
    _add_paths(parser)
    parser.add_argument("--embedder", metavar="EMBEDDER", help="default: statistics")
    parser.add_argument("--weights", metavar="FILE", type=Path, help="file of a model's parameters")
    parser.add_argument("--batch-size", metavar="B", type=integer(1), default=64, help="crops per batch, default: 64")
    parser.add_argument("--device", metavar="DEVICE", help="device of a model, default: cpu")
    parser.add_argument("--codes", metavar="RUN", type=Path, help="a folder of segpaste train, or a checkpoint in it")
    parser.set_defaults(run=run)
    text = "Write a bank without near-duplicates, crops that are very similar to another one of their class."
    parser = commands.add_parser("dedupe", help="leave out near-duplicates", description=text, example=_DEDUPE_EXAMPLE)
    _add_paths(parser)
    similarity = number(1, above_zero=True)
    parser.add_argument("--threshold", metavar="T", type=similarity, default=0.98, help="similarity, default: 0.98")
    parser.set_defaults(run=run_dedupe)


def run(args: argparse.Namespace) -> None:
    """Write a bank with embeddings; with ``--codes``, one with codes instead of embeddings."""
    given = {"--embedder": args.embedder, "--weights": args.weights, "--device": args.device}
    not_used = [name for name, value in given.items() if value is not None]
    if args.codes is not None and not_used:
        raise CommandError(
            f"{not_used[0]}: expected no --codes, which uses the bank's own embeddings; leave one of them out"
        )
    from segpaste.bank import embed_bank, open_bank
    from segpaste.encoder import encode_bank, load_encoder

    trained = None if args.codes is None else load_encoder(args.codes)
    with open_bank(args.bank) as bank, naming(args.out), progress(len(bank), "crop") as bar:
        options: dict[str, Any] = {"batch_size": args.batch_size, "format": args.format, "announce": bar.update}
        if trained is not None:
            encode_bank(bank, args.out, trained.encoder, embedder=trained.embedder, **options)
            made = f"codes of {trained.encoder.num_attributes} attributes, by {args.codes}"
        else:
            embedder = args.embedder or "statistics"
            embed_bank(bank, args.out, embedder, weights=args.weights, device=args.device or "cpu", **options)
            made = f"embeddings of {embedder}"
        print(f"{args.out}: {len(bank):,} crops with {made}")


def run_dedupe(args: argparse.Namespace) -> None:
    """Write a bank without near-duplicates, and print how many each class had."""
    import numpy as np

    from segpaste.bank import copy_crops, near_duplicates, open_bank

    with open_bank(args.bank) as bank, naming(args.out):
        left_out = near_duplicates(bank, args.threshold)
        kept = np.setdiff1d(np.arange(len(bank)), left_out)
        with progress(len(kept), "crop") as bar:
            copy_crops(bank, args.out, kept, format=args.format, announce=bar.update)
        num_of = np.bincount(bank.crop_class_ids()[left_out], minlength=len(bank.class_names))
        print(f"{args.out}: {len(kept):,} of {len(bank):,} crops, {len(left_out):,} near-duplicates left out")
        for name, num in zip(bank.class_names, num_of.tolist(), strict=True):
            if num:
                print(f"  {printable(name)}: {num:,}")


def _add_paths(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bank", metavar="BANK", help="a bank's folder or URL")
    text = "the new bank's folder, or a URL for --format webdataset"
    parser.add_argument("--out", metavar="NEW", required=True, help=text)
    parser.add_argument("--format", choices=BANK_FORMATS, help="format of the new bank, default: the same")
