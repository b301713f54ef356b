"""Sources of `segpaste augment` and the photo itself: taken from it with ``source.kind=same_image``, else never."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli_world import CATEGORIES, SIZES, pasted_of, read_json, write_instances, write_json
from folder_runs import check_photos

from segpaste.augmenting.photos import PhotoSequence
from segpaste.cli import main

BY_OBJECT = ("placement.grouping=instance", "placement.layers=3")


def augment(folder: Path, out: Path, *words: str) -> int:
    start = ["augment", str(folder / "labels.json"), "--images", str(folder / "photos"), "--out", str(out)]
    return main([*start, "--num", "8", "--gallery", "0", *words])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    write_instances(folder)
    return folder


@pytest.mark.parametrize(
    "words",
    [
        (),
        BY_OBJECT,
        ("placement.layers=2", "placement.position=keep"),
        ("--preset", "ultralytics_flip", "--size", "own"),
    ],
    ids=["image", "instance", "keep", "preset"],
)
def test_same_image(words: tuple[str, ...], world: Path, tmp_path: Path) -> None:
    """All pastes are of the image's own photo, and a replay gives the same."""
    own = () if "--preset" in words else ("source.kind=same_image",)
    assert augment(world, tmp_path / "out", *own, *words) == 0
    pairs = pasted_of(tmp_path / "out")
    assert len(pairs) >= 3
    assert all(target["source_image_id"] == origin["source_image_id"] for target, origin in pairs)
    assert check_photos(world, tmp_path / "out") == 0


@pytest.mark.parametrize("words", [(), BY_OBJECT], ids=["photos", "objects"])
def test_never_the_own_photo(words: tuple[str, ...], tmp_path: Path) -> None:
    """If one image has all objects, pastes go into the others and that one gets none."""
    _, photos = write_instances(tmp_path)
    tables = read_json(tmp_path / "labels.json")
    kept = [row for row in tables["annotations"] if row["image_id"] == 501]
    write_json(tmp_path, tables["images"], kept, CATEGORIES)
    assert photos.is_dir()
    assert augment(tmp_path, tmp_path / "out", *words) == 0
    pairs = pasted_of(tmp_path / "out")
    assert pairs
    assert all((target["source_image_id"] != 501) and origin["source_image_id"] == 501 for target, origin in pairs)
    assert check_photos(tmp_path, tmp_path / "out") == 0


def test_a_single_photo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is pasted into itself unless that is asked for."""
    write_instances(tmp_path, SIZES[:1])
    for words in ((), BY_OBJECT):
        assert augment(tmp_path, tmp_path / "out", *words) == 1
        assert "got one (give source.kind=same_image, --bank, or a larger dataset)" in capsys.readouterr().err
    assert augment(tmp_path, tmp_path / "out", "source.kind=same_image") == 0


def test_sources_are_all_eligible_images_but_the_target() -> None:
    sequence, eligible = PhotoSequence(list(range(6)), 3), np.array([1, 3, 4])  # type: ignore[arg-type]
    found: dict[int, set[int]] = {}
    for position in range(60):
        target = sequence.pick(position)
        drawn = {pick.index for number in range(4) for pick in sequence.sources(target, number, eligible)}
        found.setdefault(target.index, set()).update(drawn)
    assert found == {index: {1, 3, 4} - {index} for index in range(6)}
