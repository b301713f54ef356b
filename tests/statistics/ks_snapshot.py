"""The counts of the reference, kept in a small file: 50,000 images a modality would take minutes in every test run."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from random import Random
from typing import Any

import population
from histograms import Counts
from loop_sampler import draw_image
from loop_view import Paste

Report = Callable[[str], object]

SNAPSHOT = Path(__file__).with_name("ks_snapshot.json")
SEED = 20_260_101
NUM_IMAGES = 50_000
NUM_HEAD = 1_000
"""So many images are drawn again by a check."""


def reference_images(modality: str, num_images: int, seed: int = SEED) -> Iterator[list[Paste]]:
    """Images of the reference; every picture is the target equally often. Image i is a function of (seed, i) alone."""
    world, rules = population.pictures(modality), population.RULES[modality]
    for i in range(num_images):
        yield draw_image(world, rules, i % len(world), Random(f"{seed}/{modality}/{i}"))


def made(num_images: int = NUM_IMAGES, seed: int = SEED, report: Report = lambda _: None) -> dict[str, Any]:
    """The content of a snapshot: the same for the same arguments."""
    modalities = {}
    for modality in population.MODALITIES:
        images = reference_images(modality, num_images, seed)
        head = list(islice(images, NUM_HEAD))
        counts = Counts.of(chain(head, images))
        modalities[modality] = {
            "population": population.digest(modality),
            "head": images_digest(head),
            "counts": counts.to_json(),
        }
        report(f"{modality}: {counts.num_images} images, {int(counts.classes.sum())} pastes")
    return {"seed": seed, "num_images": num_images, "modalities": modalities}


def images_digest(images: Iterable[Iterable[Paste]]) -> str:
    """A SHA-256 over every paste of these images."""
    return hashlib.sha256(repr([list(image) for image in images]).encode()).hexdigest()


def dumps(snapshot: dict[str, Any]) -> str:
    """JSON with a list to a line."""
    text = json.dumps(snapshot, indent=1)
    return re.sub(r"\[[^][]*]", lambda numbers: re.sub(r"\s+", " ", numbers[0]), text) + "\n"


def load(path: Path = SNAPSHOT) -> dict[str, Counts]:
    """The counts by modality.

    Raises:
        ValueError: it was made of other pictures or rules than those of today.
    """
    stored = json.loads(path.read_text(encoding="utf-8"))
    counts: dict[str, Counts] = {}
    for modality in population.MODALITIES:
        entry = stored["modalities"].get(modality, {})
        if entry.get("population") != population.digest(modality):
            raise ValueError(f"{path}: {_stale(modality)} its population changed")
        counts[modality] = Counts.from_json(entry["counts"])
        found, expected = counts[modality].num_images, stored["num_images"]
        if found != expected:
            raise ValueError(f"{path}: expected {expected} images of {modality}, got {found}")
    return counts


def check_head(path: Path = SNAPSHOT) -> None:
    """Draw the first images again.

    Raises:
        ValueError: the reference draws others than it did.
    """
    load(path)
    stored = json.loads(path.read_text(encoding="utf-8"))
    for modality, entry in stored["modalities"].items():
        if images_digest(reference_images(modality, NUM_HEAD, stored["seed"])) != entry["head"]:
            raise ValueError(f"{path}: {_stale(modality)} its sampler changed")


def _stale(modality: str) -> str:
    return f"expected counts of {modality} as it is now, got older ones: run scripts/gen_ks_snapshot.py, see its help;"
