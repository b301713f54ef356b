"""Counts of the source that must not grow unseen, see `scripts/count_house.py`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from unittest import mock

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"
with mock.patch.object(sys, "path", [str(SCRIPTS), *sys.path]):
    import count_house


def test_no_count_is_above_its_ceiling() -> None:
    assert list(count_house.exceeded(count_house.House(count_house.PACKAGE).counts(), count_house.CEILINGS)) == []


def test_no_walk_is_longer_than_its_ceiling() -> None:
    with mock.patch.object(sys, "path", [str(SCRIPTS), *sys.path]):
        assert list(count_house.exceeded(count_house.walks(), count_house.WALKS)) == []


PROTOCOL = """
from typing import Protocol
class Photographs(Protocol):
    def __getitem__(self, index: int) -> DenseSample: ...
"""
DATASET = """
class Sketches:
    def __getitem__(self, index: int) -> DenseSample: ...
    def outline(self, index): ...
"""


@pytest.mark.parametrize(
    ("file", "text", "count"),
    [
        ("datasets/more.py", PROTOCOL, "protocols of a dataset with annotations"),
        (
            "cli/more.py",
            DATASET + "print(getattr(x, 'outline', None))\n",
            "getattr and hasattr of members of a dataset",
        ),
        ("bank/more.py", DATASET + "print(isinstance(x, Sketches))\n", "isinstance of single datasets"),
        (
            "replay/more.py",
            "def f(file):\n    return file['annotations'], file['image_id'], file.get('category_id')\n",
            "walks through COCO's tables",
        ),
        ("datasets/more.py", DATASET + "    has_masks = False\n", "readers of boxes only"),
        (
            "viz/more.py",
            "def f(box):\n    return math.floor(box[0]), math.ceil(box[1])\n",
            "functions that round outwards",
        ),
        ("types/more.py", "\n" * 401, "files over 400 lines"),
        ("seeds/more.py", "\n" * 3, "shared lines of seeds"),
    ],
)
def test_what_is_added_is_counted(tmp_path: Path, file: str, text: str, count: str) -> None:
    path = tmp_path / file
    path.parent.mkdir()
    before = count_house.House(tmp_path).counts().get(count, 0)
    path.write_text(text)
    added = 3 if count.startswith("shared lines") else 1
    assert count_house.House(tmp_path).counts()[count] == before + added


def test_a_further_format_counts_by_file(tmp_path: Path) -> None:
    """It is no shared code until several modules import it."""
    room = tmp_path / "datasets" / "formats"
    room.mkdir(parents=True)
    (room / "kitti.py").write_text("\n" * 30)
    for number in range(3):
        assert "shared lines of datasets" not in {
            name for name, value in count_house.House(tmp_path).counts().items() if value >= 30
        }
        (tmp_path / f"user_{number}.py").write_text("from segpaste.datasets.formats.kitti import read\n")
    assert count_house.House(tmp_path).counts()["shared lines of datasets"] == 30
    shutil.rmtree(room)
    assert list(count_house.exceeded({"files": 3}, {"files": 2})) != []


def test_files_with_one_importer(tmp_path: Path) -> None:
    for name, text in {"_one.py": "", "two.py": "from segpaste.room._one import x\n", "three.py": ""}.items():
        (tmp_path / "room").mkdir(exist_ok=True)
        (tmp_path / "room" / name).write_text(text)
    house = count_house.House(tmp_path)
    assert house.places["files with one importer, in their own folder"] == ["room/_one.py"]
