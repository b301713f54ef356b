"""Runs of the commands on folders, for the tests of those."""

from __future__ import annotations

from pathlib import Path

from segpaste.cli import main

NUM = 7


def augment(dataset: Path, out: Path, *words: str, num: int = NUM) -> int:
    options = ["--num", str(num), "--seed", "1", "--batch-size", "3", "--gallery", "2", "min_area_px=4"]
    return main(["augment", str(dataset), "--out", str(out), *options, *words])


def check(dataset: Path, out: Path, *words: str) -> int:
    return main(["replay", str(out), "--dataset", str(dataset), "--check", str(out), *words])
