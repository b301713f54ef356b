"""All photos that cannot be read are found from their heads, each with its reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import ExifTags, Image

from samples import make_samples
from segpaste._reprs import counted
from segpaste.datasets.contract import AnnotatedDataset
from segpaste.datasets.errors import DatasetError
from segpaste.datasets.formats.image_pixels import read_pixels
from segpaste.datasets.formats.image_scan import ImageProblem, image_problem, problem_lines, scan_images
from segpaste.datasets.views import annotated
from segpaste.types import DenseSample

SIZE = (7, 11)


class Files(AnnotatedDataset):
    """Photos in a folder, as a reader gives them."""

    def __init__(self, folder: Path, names: list[str], size: tuple[int, int] | None = SIZE) -> None:
        self.folder, self.names, self.size = folder, names, size
        self.drawn_upright = False

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> DenseSample:
        raise AssertionError("a scan reads no pixels")

    def photo_file(self, index: int) -> tuple[Path, Any]:
        return self.folder / self.names[index], self.size

    def is_drawn_upright(self, index: int) -> bool:
        return self.drawn_upright


def write(path: Path, size: tuple[int, int] = SIZE, mode: str = "RGB", turned: bool = False) -> None:
    exif = Image.Exif()
    if turned:
        exif[ExifTags.Base.Orientation] = 6
    Image.new(mode, size[::-1]).save(path, exif=exif)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "good.png")
    write(tmp_path / "grey.jpg", mode="L")
    write(tmp_path / "turned.jpg", SIZE[::-1], turned=True)
    write(tmp_path / "stored.jpg", turned=True)
    write(tmp_path / "swapped.png", SIZE[::-1])
    write(tmp_path / "small.png", (3, 3))
    Image.fromarray(np.zeros(SIZE, np.uint16)).save(tmp_path / "deep.png")
    (tmp_path / "text.png").write_text("no image")
    (tmp_path / "cut.png").write_bytes((tmp_path / "good.png").read_bytes()[:20])
    (tmp_path / "folder.png").mkdir()
    return tmp_path


NAMES = [
    *("good.png", "grey.jpg", "turned.jpg", "stored.jpg", "swapped.png"),
    *("small.png", "deep.png", "text.png", "cut.png", "folder.png", "none.png"),
]
REASONS = {
    "swapped.png": "expected 11 x 7 pixels as in the annotation file, got 7 x 11",
    "small.png": "expected 11 x 7 pixels as in the annotation file, got 3 x 3",
    "deep.png": "expected an image of 8 bits per channel, got mode I;16",
    "text.png": "expected an image, got another file",
    "cut.png": "expected an image, ",
    "folder.png": "expected an image, got a folder",
    "none.png": "expected an image, found no such file",
}


def test_each_problem_has_its_reason(folder: Path) -> None:
    found = scan_images(Files(folder, NAMES), num_threads=2).problems
    assert [problem.path.name for problem in found] == [name for name in NAMES if name in REASONS]
    for problem in found:
        assert problem.reason.startswith(REASONS[problem.path.name])
        assert NAMES[problem.index] == problem.path.name


def test_a_scan_agrees_with_the_reader(folder: Path) -> None:
    for name in NAMES:
        try:
            read_pixels(folder / name, SIZE)
            is_read = True
        except DatasetError:
            is_read = False
        assert (image_problem(folder / name, SIZE) is None) == is_read, name


def test_sizes_that_nobody_gives(folder: Path) -> None:
    assert [p.path.name for p in scan_images(Files(folder, ["small.png", "none.png"], None)).problems] == ["none.png"]


def test_only_heads_are_read(folder: Path) -> None:
    """Otherwise the scan of a large dataset takes as long as reading it."""
    content = (folder / "good.png").read_bytes()
    (folder / "cut.png").write_bytes(content[: content.index(b"IDAT") + 6])
    assert scan_images(Files(folder, ["cut.png"])).problems == []


def test_some_of_many(folder: Path) -> None:
    many = Files(folder, ["good.png", "none.png"] * 600)
    assert [p.index for p in scan_images(many).problems] == list(range(1, 1200, 2))
    assert [p.index for p in scan_images(many, indices=[0, 2, 5]).problems] == [5]


def test_datasets_without_files_have_no_problems() -> None:
    assert scan_images(annotated(make_samples(1))).problems == []


def test_lines_are_few() -> None:
    problems = [ImageProblem(i, Path(f"{i}.png"), "is gone") for i in range(23)]
    lines = list(problem_lines(problems))
    assert len(lines) == 21
    assert (lines[0], lines[-1]) == ("0.png: is gone", "and 3 more")
    assert list(problem_lines(problems[:2])) == ["0.png: is gone", "1.png: is gone"]


@pytest.mark.parametrize(
    ("size", "upright", "followed"),
    [
        (SIZE, False, (1, 1)),
        (SIZE, True, (1, 1)),
        (None, False, (2, 0)),
        ((11, 11), False, (0, 1)),
        ((11, 11), True, (1, 0)),
    ],
)
def test_orientations_are_counted(folder: Path, size: Any, upright: bool, followed: tuple[int, int]) -> None:
    """Annotations whose size fits both ways lie as the format draws them."""
    write(folder / "square.jpg", (11, 11), turned=True)
    names = ["square.jpg"] if size == (11, 11) else ["good.png", "turned.jpg", "stored.jpg"]
    photos = Files(folder, names, size)
    photos.drawn_upright = upright
    scan = scan_images(photos)
    assert (scan.problems, (scan.num_rotated, scan.num_as_stored)) == ([], followed)
    assert f"{counted(followed[0], 'image')} rotated by orientation, {followed[1]}" in str(scan.orientation_line())


def test_upright_photos_are_no_news(folder: Path) -> None:
    assert scan_images(Files(folder, ["good.png", "grey.jpg"])).orientation_line() is None
