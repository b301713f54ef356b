"""The commands of the README and the docs: all of them parse, and those of the README run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from cli_world import CATEGORIES, write_json

from segpaste.cli import main, parse
from yolo_files import photo, write_yolo

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
SERVES = {"preview"}
"""Commands that run until they are interrupted."""


def commands(page: Path) -> list[list[str]]:
    """Return the words after ``segpaste`` of the commands in a page's ```sh fences."""
    fences = re.findall(r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    lines = "\n".join(fences).replace("\\\n", " ").splitlines()
    words = [shlex.split(line, comments=True) for line in lines]
    unredirected = [line[: line.index(">")] if ">" in line else line for line in words]
    return [line[1:] for line in unredirected if line[:1] == ["segpaste"]]


def write_photos(folder: Path) -> None:
    """Write ``photos/`` and ``instances.json``: four images with two objects of 24 x 24 pixels each."""
    images, annotations = [], []
    for i in range(4):
        images.append(
            {"id": i, "file_name": photo(folder / "photos" / f"{i}.jpg", (96, 96), i).name, "height": 96, "width": 96}
        )
        for j in range(2):
            x, y = 10 + 40 * j, 8 + 12 * i
            outline = [x, y, x + 24, y, x + 24, y + 24, x, y + 24]
            annotations.append(
                {
                    "id": 2 * i + j,
                    "image_id": i,
                    "category_id": CATEGORIES[j]["id"],
                    "segmentation": [outline],
                    "iscrowd": 0,
                    "bbox": [x, y, 24, 24],
                    "area": 576,
                }
            )
    write_json(folder, images, annotations, CATEGORIES).rename(folder / "instances.json")


@pytest.mark.parametrize("page", [p for p in PAGES if commands(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_parse(page: Path) -> None:
    for words in commands(page):
        assert parse([word.replace("...", "") for word in words]).command == words[0]


def test_commands_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_photos(tmp_path)
    write_yolo(tmp_path)
    taken: set[str] = set()
    for words in commands(ROOT / "README.md"):
        if words[0] in SERVES:
            continue
        if "--num" in words:
            words[words.index("--num") + 1] = "2"
        elif words[0] == "demo" and "--on" not in words:
            words += ["--num", "1", "--size", "64"]
        if words[0] == "augment":
            where = words.index("--out") + 1
            words[where] = f"{words[where]}-{len(taken)}"
            taken.add(words[where])
        assert main(words) in ((0, 1) if words[0] == "check" else (0,)), words
    assert len(taken) >= 2
