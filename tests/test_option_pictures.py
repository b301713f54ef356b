"""Every option of a paste is in a picture of the documentation, or named there with the reason why it has none."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

from script_modules import script
from segpaste.augmentation import BatchCopyPasteConfig
from segpaste.viz.preview.controls import fields_of

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FOLDER = DOCS / "images" / "options"


@pytest.fixture(scope="module")
def pictures() -> ModuleType:
    return script("option_pictures")


@pytest.fixture(scope="module")
def pictured(pictures: ModuleType) -> set[str]:
    shown = (key for option in pictures.OPTIONS.values() for key in pictures.keys_of(option.on))
    return {*shown, *pictures.DRAWN_APART.values()}


def without_picture() -> dict[str, str]:
    """Return the keys of the table on the page, each with its reason."""
    text = (DOCS / "guide" / "configuration.md").read_text(encoding="utf-8")
    _, _, section = text.partition("### Options without a picture")
    rows = re.findall(r"^\| (`.+) \| (.+) \|$", section.partition("\n## ")[0], re.MULTILINE)
    return {key: why for keys, why in rows for key in re.findall(r"`([\w.]+)`", keys)}


def test_every_option_is_pictured_or_has_a_reason(pictured: set[str]) -> None:
    known = {".".join(path) for path, _, _ in fields_of(BatchCopyPasteConfig)}
    listed = without_picture()
    assert known - pictured - listed.keys() == set(), "draw it (scripts/option_pictures.py), or say on the page why not"
    assert pictured & listed.keys() == set()
    assert {*pictured, *listed} <= known
    assert all(len(why) > 10 for why in listed.values())


def test_every_picture_is_there_and_shown(pictures: ModuleType) -> None:
    names = {*pictures.OPTIONS, *pictures.DRAWN_APART}
    assert {path.stem for path in FOLDER.iterdir()} == names
    pages = "".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    assert set(re.findall(r"images/options/(\w+)\.", pages)) == names
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 3_000_000


def test_off_and_on_differ(pictures: ModuleType) -> None:
    for name in pictures.OPTIONS:
        grey = np.array(Image.open(FOLDER / f"{name}.jpg").convert("L"), np.int16)[25:-25]
        width = grey.shape[1] // 2
        changed = np.abs(grey[:, :width] - grey[:, -width:]) > 40
        assert changed.sum() > 50, name


def test_off_and_on_are_written_only_where_one_is_off(pictures: ModuleType) -> None:
    switches = {name for name, option in pictures.OPTIONS.items() if option.is_switch}
    assert {"antialias", "reinhard", "poisson", "feather", "blur", "cover", "region", "contact", "depth"} <= switches
    assert not switches & {"layers", "grouping", "keep", "count", "scale", "own", "boxes", "pyramid", "gain", "stuff"}


def test_a_zoom_shows_where_the_pictures_differ(pictures: ModuleType) -> None:
    views = [np.zeros((40, 60, 3), np.uint8) for _ in range(2)]
    views[1][28:33, 50:56] = 200
    rows, columns = script("draw_options")._window(views, 4)
    assert (rows.stop - rows.start, columns.stop - columns.start) == (10, 15)
    assert (rows.start <= 28, rows.stop >= 33, columns.start <= 50, columns.stop >= 56) == (True,) * 4
