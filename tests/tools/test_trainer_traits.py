"""Traits that trainers treat in their own ways: each place in a dataset that has one is found, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest
from all_probes import PROBES, write
from probe_traits import list_probe

from segpaste.datasets.checking.listings.file_listings import list_yolo
from segpaste.datasets.checking.listings.listing import ListedImage, ListedObject, Listing
from segpaste.datasets.checking.tools.traits import ListedSplit, Place, find_traits
from segpaste.datasets.formats.image_files import ImageHead
from segpaste.datasets.formats.yolo.data import read_data

SIZE = (40, 50)
SQUARE = [10.0, 10.0, 20.0, 10.0, 20.0, 20.0, 10.0, 20.0]


def split_of(
    *objects: ListedObject, format: str = "coco", names: tuple[str, ...] = ("a.png",), size: tuple[int, int] = SIZE
) -> ListedSplit:
    """A listing of images of one size."""
    images = [ListedImage(name, None, size, in_subfolder="/" in name) for name in names]
    listing = Listing(images, list(objects), class_names=["cat", "dog"], format=format)
    return ListedSplit(listing, [ImageHead(size, 1, "RGB")] * len(images), [size] * len(images))


def polygon(
    number: int, points: list[float] = SQUARE, image: int = 0, label: int = 0, **options: object
) -> ListedObject:
    return ListedObject(number, image, label, lambda size: [points], (10, 10, 20, 20), **options)  # type: ignore[arg-type]


def box(number: int, x: float = 10, image: int = 0, **options: object) -> ListedObject:
    return ListedObject(number, image, 0, None, (x, 10, 20, 20), **options)  # type: ignore[arg-type]


def places(trait: str, split: ListedSplit) -> list[tuple[int, int | None]]:
    return [tuple(place) for place in find_traits(split, [trait])[trait]]


def test_keys_that_entries_lack() -> None:
    entries = [
        polygon(1),
        polygon(2, lacks=("area",)),
        polygon(3, lacks=("bbox", "iscrowd")),
        polygon(4, area=0.0),
        polygon(5, area=0.5),
        polygon(6, lacks=("area",), is_crowd=True, area=0.0),
    ]
    split = split_of(*entries)
    assert places("no_area", split) == [(0, 2)]
    assert places("no_box", split) == [(0, 3)]
    assert places("no_iscrowd", split) == [(0, 3)]
    assert places("area_zero", split) == [(0, 4)]


@pytest.mark.parametrize(
    ("size", "found"),
    [
        ((9, 50), "small_image"),
        ((50, 9), "small_image"),
        ((10, 50), "low_image"),
        ((50, 31), "low_image"),
        ((32, 32), ""),
    ],
)
def test_images_of_few_rows_or_columns(size: tuple[int, int], found: str) -> None:
    split = split_of(box(1), names=("a.png", "without.png"), size=size)
    for trait in ("small_image", "low_image"):
        assert places(trait, split) == [(0, None)] * (trait == found)


def test_images_of_boxes_alone() -> None:
    split = split_of(
        *(box(1), box(2), box(1, image=1), polygon(2, image=1), polygon(1, image=2)),
        format="yolo",
        names=("boxes.png", "both.png", "outlines.png", "without.png"),
    )
    assert places("box_rows", split) == [(0, None)]
    assert places("mixed_rows", split) == [(1, None)]


@pytest.mark.parametrize("shape", [None, (2, 2), (2, 3), (3, 3), (17, 3)])
def test_rows_with_keypoints(shape: tuple[int, int] | None) -> None:
    split = split_of(box(1), box(2), box(1, image=2), format="yolo", names=("a.png", "without.png", "b.png"))
    split.listing.keypoint_shape = shape
    rows, is_odd = [(0, 1), (0, 2), (2, 1)], shape in ((3, 3), (17, 3))
    assert places("pose_odd", split) == rows * is_odd
    assert places("pose_pairs", split) == rows * (shape is not None and not is_odd)
    assert places("no_points", split) == places("box_rows", split) == [(0, None), (2, None)] * (shape is None)


def test_masks_by_how_they_are_written() -> None:
    written = [None, [], [SQUARE], {"size": SIZE, "counts": [0, 2000]}, {"size": SIZE, "counts": "`n1"}]
    of_rows = [polygon(1)._replace(segmentation=None)]
    of_rows += [polygon(i)._replace(segmentation=lambda size, of=of: of) for i, of in enumerate(written[1:], 2)]
    split = split_of(*of_rows, polygon(6, is_crowd=True)._replace(segmentation=lambda size: []))
    assert places("box_only", split) == [(0, 1)]
    assert places("empty_outline", split) == [(0, 2)]
    assert places("compressed", split) == [(0, 5)]


@pytest.mark.parametrize(
    ("word", "is_found"), [("0", False), ("+0", False), ("0.0", True), ("0.", True), ("0e0", True), ("00", False)]
)
def test_classes_with_a_point_or_an_exponent(word: str, is_found: bool, tmp_path: Path) -> None:
    write(PROBES["yolo"]["ordinary"], "yolo", tmp_path)
    (tmp_path / "labels" / "ordinary.txt").write_text(f"\n  {word} 0.5 0.5 0.2 0.2\n1 0.5 0.5 0.2 0.2\n")
    assert places("float_class", list_probe("yolo", tmp_path)) == [(0, 2)] * is_found


def test_label_files_with_a_byte_order_mark(tmp_path: Path) -> None:
    write(PROBES["yolo"]["byte_order_mark"], "yolo", tmp_path)
    for name, text in (("more", None), ("empty", "\ufeff"), ("later", "0 0.5 0.5 0.2 0.2\n0 0.5 0.5 0.2 0.3")):
        (tmp_path / "images" / f"{name}.png").write_bytes((tmp_path / "images" / "ordinary.png").read_bytes())
        if text is not None:
            (tmp_path / "labels" / f"{name}.txt").write_text(text, encoding="utf-8")
    split = list_probe("yolo", tmp_path)
    found = places("byte_order_mark", split)
    assert [split.listing.images[image].name for image, _ in found] == ["images/special.png"]
    assert places("float_class", split) == []


def test_images_of_which_some_objects_have_keypoints() -> None:
    without = ("keypoints",)
    split = split_of(
        *(box(1), box(2, lacks=without), box(3, image=1), box(4, image=1, is_crowd=True, lacks=without)),
        *(box(5, image=2, lacks=without), box(6, image=2, lacks=(*without, "area"))),
        names=("some.png", "all.png", "none.png", "without.png"),
    )
    assert places("some_keypoints", split) == [(0, None)]


def test_suffixes_of_both_cases() -> None:
    names = ("a.png", "A.PNG", "a.Png", "A.b.jpeg", "b.jpG", "c.Png")
    split = split_of(*(box(1, image=i) for i in range(5)), names=names)
    assert places("mixed_suffix", split) == [(2, None), (4, None)]


def test_rows_that_repeat_others() -> None:
    rows = [polygon(1), polygon(2), polygon(3, label=1), polygon(4, [*SQUARE[:-1], 20.5]), box(5), box(6, 11), box(7)]
    others = [polygon(1, image=1), box(2, image=1, has_keypoints=True), box(3, image=1, has_keypoints=True)]
    assert places("repeated", split_of(*rows, *others, format="yolo", names=("a.png", "b.png"))) == [(0, 2), (0, 7)]
    assert places("repeated", split_of(*rows)) == []


def test_outlines_with_a_hole_by_way_of_their_first_point() -> None:
    hole = [13.0, 13.0, 13.0, 17.0, 17.0, 17.0, 17.0, 13.0, 13.0, 13.0]
    first, second = SQUARE[:2], SQUARE[2:4]
    through_first = [*SQUARE, *first, *hole, *first]
    through_second = [*SQUARE[:4], *hole, *second, *SQUARE[4:]]
    closed = [*SQUARE, *first]
    beside = [*through_second, 10.0, 10.0, 25.0, 10.0, 25.0, 5.0]  # a second part, from the first point
    outlines = (through_first, through_second, closed, SQUARE, beside)
    split = split_of(*(polygon(i, of) for i, of in enumerate(outlines, 1)))
    assert places("hole", split) == [(0, 1), (0, 2), (0, 5)]
    assert places("hole_from_first", split) == [(0, 1)]


def test_images_in_subfolders() -> None:
    split = split_of(box(1), box(1, image=1), names=("a.png", "more/b.png", "more/without.png"))
    assert places("subfolder", split) == [(1, None)]


def test_a_subfolder_is_one_of_the_folder_that_the_split_names(tmp_path: Path) -> None:
    write(PROBES["yolo"]["subfolder"], "yolo", tmp_path)
    data = tmp_path / "data.yaml"
    for folders, expected in (("images", [True, False]), ("[images, images/a]", [False, False])):
        data.write_text(f"train: {folders}\nval: images\nnames: [cat, dog, bird]\n")
        images = list_yolo(read_data(data), "train").images
        assert [image.name for image in images] == ["images/a/special.png", "images/ordinary.png"]
        assert [image.in_subfolder for image in images] == expected


def test_places_are_those_of_the_dataset() -> None:
    assert find_traits(split_of(polygon(7, area=0.0)), ["area_zero"]) == {"area_zero": [Place(0, 7)]}
