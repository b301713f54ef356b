"""The counts of the reference, kept in a small file: 50,000 images a case would take minutes in every test run.

A case is a modality, whose pictures are sources too, or the bank.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from random import Random
from typing import Any

import bank_population
import population
from histograms import Counts
from loop_sampler import draw_bank_image, draw_image
from loop_view import Paste

Report = Callable[[str], object]

SNAPSHOT = Path(__file__).with_name("ks_snapshot.json")
SEED = 20_260_101
NUM_IMAGES = 50_000
NUM_HEAD = 1_000
"""So many images are drawn again by a check."""

BANK = "bank"
CASES = (*population.MODALITIES, BANK)


def reference_images(case: str, num_images: int, seed: int = SEED) -> Iterator[list[Paste]]:
    """Images of the reference; every picture is the target equally often. Image i is a function of (seed, i) alone."""
    if case == BANK:
        yield from _reference_images_from_bank(num_images, seed)
        return
    world, rules = population.pictures(case), population.RULES[case]
    for i in range(num_images):
        yield draw_image(world, rules, i % len(world), Random(f"{seed}/{case}/{i}"))


def _reference_images_from_bank(num_images: int, seed: int) -> Iterator[list[Paste]]:
    world, classes = population.pictures(bank_population.MODALITY), bank_population.crops_of_classes()
    given = classes, bank_population.NUM_STAGED, bank_population.RULES
    for i in range(num_images):
        yield draw_bank_image(world[i % len(world)], *given, Random(f"{seed}/{BANK}/{i}"))


def made(num_images: int = NUM_IMAGES, seed: int = SEED, report: Report = lambda _: None) -> dict[str, Any]:
    """The content of a snapshot: the same for the same arguments."""
    entries = {}
    for case in CASES:
        images = reference_images(case, num_images, seed)
        head = list(islice(images, NUM_HEAD))
        counts = Counts.of(chain(head, images))
        entries[case] = {"population": _digest(case), "head": images_digest(head), "counts": counts.to_json()}
        report(f"{case}: {counts.num_images} images, {int(counts.classes.sum())} pastes")
    bank = entries.pop(BANK)
    return {"seed": seed, "num_images": num_images, "modalities": entries, BANK: bank}


def images_digest(images: Iterable[Iterable[Paste]]) -> str:
    """A SHA-256 over every paste of these images."""
    return hashlib.sha256(repr([list(image) for image in images]).encode()).hexdigest()


def dumps(snapshot: dict[str, Any]) -> str:
    """JSON with a list to a line."""
    text = json.dumps(snapshot, indent=1)
    return re.sub(r"\[[^][]*]", lambda numbers: re.sub(r"\s+", " ", numbers[0]), text) + "\n"


def load(path: Path = SNAPSHOT) -> dict[str, Counts]:
    """The counts by case.

    Raises:
        ValueError: it was made of other pictures or rules than those of today.
    """
    stored = json.loads(path.read_text(encoding="utf-8"))
    counts: dict[str, Counts] = {}
    for case in CASES:
        entry = _entry(stored, case)
        if entry.get("population") != _digest(case):
            raise ValueError(f"{path}: {_stale(case)} its population changed")
        counts[case] = Counts.from_json(entry["counts"])
        found, expected = counts[case].num_images, stored["num_images"]
        if found != expected:
            raise ValueError(f"{path}: expected {expected} images of {case}, got {found}")
    return counts


def check_head(path: Path = SNAPSHOT) -> None:
    """Draw the first images again.

    Raises:
        ValueError: the reference draws others than it did.
    """
    load(path)
    stored = json.loads(path.read_text(encoding="utf-8"))
    for case in CASES:
        if images_digest(reference_images(case, NUM_HEAD, stored["seed"])) != _entry(stored, case)["head"]:
            raise ValueError(f"{path}: {_stale(case)} its sampler changed")


def _entry(stored: dict[str, Any], case: str) -> dict[str, Any]:
    found: dict[str, Any] = (stored if case == BANK else stored["modalities"]).get(case, {})
    return found


def _digest(case: str) -> str:
    return bank_population.digest() if case == BANK else population.digest(case)


def _stale(case: str) -> str:
    return f"expected counts of {case} as it is now, got older ones: run scripts/gen_ks_snapshot.py, see its help;"
