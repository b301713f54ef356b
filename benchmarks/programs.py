"""Command line of a single benchmark: measure one section, print its table, and write its figures on request."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from segpaste.workspace import write_whole

from . import peers, report, timing
from .machine import machine
from .plan import FULL, QUICK


def main(section: str, doc: str | None, measure: Callable[..., dict[str, Any]], device: str = "cpu") -> None:
    """Measure, print, and write JSON if asked to; exit with 1 if the section has ``errors`` or ``missed`` goals.

    Args:
        section: a key of `report.SECTIONS`.
        doc: the program's docstring, whose first line is the help.
        measure: the section's function.
        device: where, unless the command line says otherwise.
    """
    prog = f"python -m {__package__}.{Path(sys.argv[0]).stem}"
    parser = argparse.ArgumentParser(prog=prog, description=(doc or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer and smaller batches")
    parser.add_argument("--threads", type=int, default=1, help="torch's threads, default: 1")
    parser.add_argument("--device", choices=("cpu", "cuda"), default=device, help=f"default: {device}")
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("expected a CUDA device, torch sees none")
    timing.keep_freed_memory()
    torch.manual_seed(0)
    found = measure(QUICK if args.quick else FULL, args.threads, args.device)
    settings = {"threads": args.threads, "device": args.device}
    results = {"settings": settings, "machine": machine(sorted(peers.packages())), section: found}
    print(f"{report.SECTIONS[section](found)}\n\n{report.setting(results)}")
    if args.out is not None:
        write_whole(args.out, (json.dumps(results, indent=2) + "\n").encode())
    if wrong := [*found.get("errors", ()), *found.get("missed", ())]:
        sys.exit("\n".join(["", *wrong]))
