"""Traits that segpaste finds in each probe. A probe has the trait of its name, and others that follow from it."""

from __future__ import annotations

from pathlib import Path

from all_probes import PROBES, file_of, write

from segpaste.datasets import open_dataset
from segpaste.datasets.checking.check import listed_files, with_heads
from segpaste.datasets.checking.listings.file_listings import list_coco, list_yolo
from segpaste.datasets.checking.listings.image_files import look_at
from segpaste.datasets.checking.listings.sample_listing import list_samples
from segpaste.datasets.checking.tools.trait import ListedSplit, Place
from segpaste.datasets.checking.tools.traits import TRAITS, find_traits
from segpaste.datasets.formats.yolo.data import read_data


def list_probe(format: str, folder: Path) -> ListedSplit:
    """Return the listing of a written probe."""
    file = file_of(format, folder)
    if format == "yolo":
        listing = list_yolo(read_data(file), "train")
    elif format == "voc":
        listing = listed_files(open_dataset(file, split="train"))
        assert listing is not None
    elif format == "maps":
        listing = list_samples(open_dataset(file), 1, decode=False)
    else:
        listing = list_coco(file, folder / "images", folder / "panoptic" if format == "panoptic" else None)
    return with_heads(listing, look_at(listing.images, 1)[0])


def places_in(format: str, folder: Path) -> dict[str, list[Place]]:
    """Return the places of each trait of a written probe that has some."""
    return {trait: places for trait, places in find_traits(list_probe(format, folder), TRAITS).items() if places}


def traits_of_probes(folder: Path) -> dict[tuple[str, str], frozenset[str]]:
    """Write all probes into a folder, and return the traits of each, by format and name.

    Programs of trainers of poses add keypoints to every probe but ``no_points``, so that no other one has this trait.
    """
    traits = {}
    for format, probes in PROBES.items():
        for name, probe in probes.items():
            place = write(probe, format, folder / format / name)
            traits[format, name] = frozenset(places_in(format, place)) - ({"no_points"} - {name})
    return traits
