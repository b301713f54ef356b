"""Runs of the commands on folders, for the tests of those."""

from __future__ import annotations

from pathlib import Path

from segpaste.cli import main
from yolo_files import write_yolo

NUM = 7


def augment(dataset: Path, out: Path, *words: str, num: int = NUM) -> int:
    options = ["--num", str(num), "--seed", "1", "--gallery", "0", "min_area_px=4"]
    return main(["augment", str(dataset), "--out", str(out), *options, *words])


def check(dataset: Path, out: Path, *words: str) -> int:
    return main(["replay", str(out), "--dataset", str(dataset), "--check", str(out), *words])


def check_photos(folder: Path, out: Path) -> int:
    """Check a run on the instances that `cli_world.write_instances` has written to a folder."""
    return check(folder / "labels.json", out, "--images", str(folder / "photos"))


def augmented_yolo(folder: Path) -> Path:
    """Write a YOLO dataset to ``in`` of a folder and augment it into ``out``; return the folder."""
    data = write_yolo(folder / "in")
    assert augment(data, folder / "out") == 0
    return folder
