"""Tables in COCO's form: what a reader raises first, a check finds with the same words, and more."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from coco_files import annotation_row, image_row

from segpaste.datasets import CocoDetectionV2, CocoPanoptic, DatasetError, learned_sizes
from segpaste.datasets.checking.listings.file_listings import list_coco
from segpaste.datasets.class_counts import count_annotations
from segpaste.datasets.errors import collected, each, refuse

SIZE = (7, 9)
SQUARE = [[1, 1, 5, 1, 5, 5, 1, 5]]
Document = dict[str, Any]
Change = Callable[[Document], object]


def instances() -> Document:
    return {
        "images": [image_row(5, SIZE), image_row(6, SIZE)],
        "annotations": [annotation_row(10 + i, 5 + i % 2, SQUARE) for i in range(4)],
        "categories": [{"id": 3, "name": "cup", "keypoints": ["left", "right"]}, {"id": 8, "name": "car"}],
    }


def segments() -> Document:
    """Three images, one of them without a map."""
    rows = [{"id": 1, "category_id": 3}, {"id": 2, "category_id": 8, "iscrowd": 0}]
    return {
        "images": [image_row(i, SIZE) for i in (5, 6, 7)],
        "annotations": [{"image_id": i, "file_name": f"{i}.png", "segments_info": [*map(dict, rows)]} for i in (5, 6)],
        "categories": [{"id": 3, "name": "cup", "isthing": 1}, {"id": 8, "name": "sky", "isthing": 0}],
    }


def entry(table: str, index: int, **values: Any) -> Change:
    return lambda document: document[table][index].update(values)


def segment(**values: Any) -> Change:
    return lambda document: document["annotations"][1]["segments_info"][1].update(values)


def without(table: str, index: int, key: str) -> Change:
    return lambda document: document[table][index].pop(key)


def replaced(table: str, index: int, row: Any) -> Change:
    return lambda document: document[table].__setitem__(index, row)


OF_INSTANCES: dict[str, Change] = {
    "image without a height": without("images", 1, "height"),
    "image of text": replaced("images", 1, "6.png"),
    "image twice": entry("images", 1, id=5),
    "image without pixels": entry("images", 1, width=0),
    "image without a name": without("images", 1, "file_name"),
    "list of no ids": entry("images", 1, neg_category_ids=3),
    "list of an unknown class": entry("images", 1, not_exhaustive_category_ids=[3, 4]),
    "annotation without an id": without("annotations", 2, "id"),
    "annotation that is a list": replaced("annotations", 2, []),
    "id that is true": entry("annotations", 2, id=True),
    "annotation twice": entry("annotations", 2, id=10),
    "unknown image": entry("annotations", 2, image_id=7),
    "unknown class": entry("annotations", 2, category_id=4),
    "crowd of text": entry("annotations", 2, iscrowd="no"),
    "ignored by text": entry("annotations", 2, ignore="no"),
    "half the keypoints": entry("annotations", 2, keypoints=[1, 1, 2]),
    "category without a name": without("categories", 1, "name"),
    "category twice": entry("categories", 1, id=3),
    "keypoints twice": entry("categories", 0, keypoints=["left", "left"]),
}
OF_SEGMENTS: dict[str, Change] = {
    "image without a name": without("images", 1, "file_name"),
    "map without a name": without("annotations", 1, "file_name"),
    "map of an unknown image": entry("annotations", 1, image_id=9),
    "two maps of an image": entry("annotations", 1, image_id=5),
    "no list of segments": entry("annotations", 1, segments_info={}),
    "segment of text": lambda document: document["annotations"][1]["segments_info"].append("1"),
    "id of a segment beyond its colours": segment(id=256**3),
    "segment twice": segment(id=1),
    "unknown class": segment(category_id=4),
    "class of a list": segment(category_id=[3]),
    "crowd of text": segment(iscrowd="no"),
    "category that is no thing and no stuff": without("categories", 1, "isthing"),
}


def written(folder: Path, document: Document) -> Path:
    (folder / "file.json").write_text(json.dumps(document))
    return folder / "file.json"


def raised(path: Path, *, panoptic: bool) -> str:
    """The error at which a reader stops."""
    with pytest.raises(DatasetError) as error:
        CocoPanoptic(path.parent, path, path.parent) if panoptic else CocoDetectionV2(path.parent, path)
    return str(error.value)


@pytest.mark.parametrize(
    ("make", "change"),
    [
        *(pytest.param(instances, change, id=f"instances, {name}") for name, change in OF_INSTANCES.items()),
        *(pytest.param(segments, change, id=f"segments, {name}") for name, change in OF_SEGMENTS.items()),
    ],
)
def test_a_check_finds_in_the_words_of_the_reader(tmp_path: Path, make: Callable[[], Document], change: Change) -> None:
    document, is_panoptic = make(), make is segments
    change(document)
    path = written(tmp_path, document)
    listing = list_coco(path, tmp_path, tmp_path if is_panoptic else None)
    assert raised(path, panoptic=is_panoptic) in [found.message for found in listing.findings]


@pytest.mark.parametrize("make", [instances, segments])
def test_what_is_whole_has_no_finding(tmp_path: Path, make: Callable[[], Document]) -> None:
    listing = list_coco(written(tmp_path, make()), tmp_path, tmp_path if make is segments else None)
    assert (listing.findings, len(listing.images), len(listing.objects)) == ([], 2 + (make is segments), 4)


def test_all_problems_of_a_file_with_their_places(tmp_path: Path) -> None:
    document = instances()
    document["annotations"] += [
        annotation_row(20, 7, SQUARE, iscrowd="no"),
        annotation_row(21, 6, SQUARE, 4),
        annotation_row(10, 6, SQUARE),
        {"id": 22},
    ]
    document["images"].append(image_row(8, (0, 3), "eight.png"))
    listing = list_coco(written(tmp_path, document), tmp_path)
    places = sorted((found.kind, str(found.photo), found.annotation or 0) for found in listing.findings)
    assert places == [
        ("broken_entry", "None", 0),
        ("broken_entry", "None", 20),
        ("broken_entry", "eight.png", 0),
        ("duplicate_id", "None", 0),
        ("unknown_reference", "6.png", 21),
        ("unknown_reference", "None", 20),
    ]
    assert [found.id for found in listing.objects] == [10, 11, 12, 13, 21]


def test_problems_of_segments_name_their_image(tmp_path: Path) -> None:
    document = segments()
    document["annotations"].append(document["annotations"][0])
    segment(category_id=4)(document)
    listing = list_coco(written(tmp_path, document), tmp_path, tmp_path)
    assert [(found.kind, found.photo) for found in listing.findings] == [
        ("unknown_reference", "6.png"),
        ("duplicate_id", "5.png"),
    ]
    assert [(found.id, found.image) for found in listing.objects] == [(1, 0), (2, 0), (1, 1), (2, 1)]


def test_errors_are_raised_again_after_a_collection() -> None:
    def read(item: int) -> int:
        if item < 0:
            raise DatasetError(f"{item} is negative")
        return item

    with collected() as outer:
        assert [*each([1, -2, 3, -4], read, image="a.png")] == [1, 3]
        with collected() as inner:
            refuse(DatasetError("inner"), annotation=7)
    assert [(str(error), error.image) for error in outer] == [("-2 is negative", "a.png"), ("-4 is negative", "a.png")]
    assert [error.annotation for error in inner] == [7]
    with pytest.raises(DatasetError, match="-2 is negative"):
        [*each([1, -2], read)]


def test_counts_leave_regions_and_stuff_out(tmp_path: Path) -> None:
    document = instances()
    document["annotations"] += [annotation_row(20, 5, SQUARE, 8, iscrowd=1), annotation_row(21, 9, SQUARE, 8)]
    counts = count_annotations(written(tmp_path, document))
    assert (counts.names, counts.num_objects, counts.num_showing) == (("cup", "car"), (4, 1), (2, 1))
    document = segments()
    document["annotations"][0]["segments_info"].append({"id": 5, "category_id": 3, "iscrowd": 1})
    counts = count_annotations(written(tmp_path, document))
    assert (counts.names, counts.num_objects) == (("cup",), (2,))


def test_sizes_are_learned_without_holding_outlines(tmp_path: Path) -> None:
    """Of a file that is not held in memory either."""
    outline = [round(x * 0.37, 2) for x in range(600)]
    document = instances()
    document["annotations"] = [annotation_row(i, 5 + i % 2, [outline], bbox=[0, 0, 3, 2]) for i in range(1, 2001)]
    path = written(tmp_path, document)
    (quantiles, size), held = with_peak(lambda: learned_sizes(path))
    assert (quantiles["cup"][50], size) == (pytest.approx(3 / (7 * 9) ** 0.5), SIZE)
    assert held < with_peak(lambda: json.loads(path.read_text()))[1] * 0.7


def with_peak(read: Callable[[], Any]) -> tuple[Any, int]:
    """The result of a function, and the most bytes that it holds at once."""
    tracemalloc.start()
    try:
        return read(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_tables_are_read_without_torch() -> None:
    modules = "segpaste.datasets.tables", "segpaste.datasets.formats.size_priors"
    code = f"import sys, {', '.join(modules)}; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False"]
