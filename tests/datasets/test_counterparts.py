"""Counterparts of annotations whose ids several images use, such as those of panoptic segments, and of images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from segpaste import DenseSample
from segpaste.datasets import AnnotatedDataset
from segpaste.datasets.formats.references import NO_ANNOTATION, NO_IMAGE, Copy, kind_of
from segpaste.datasets.writers.counterparts import WrittenCounterparts
from segpaste.datasets.writers.format import MADE_OF, SampleRows

Row = dict[str, Any]


class Images(AnnotatedDataset):
    """Images 10 and 20, each with annotations of these ids."""

    def __init__(self, ids: tuple[list[int], list[int]], image_ids: tuple[int, int] = (10, 20)) -> None:
        self.ids, self.image_ids = ids, image_ids

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> DenseSample:
        raise NotImplementedError

    def image_id(self, index: int) -> int:
        return self.image_ids[index]

    def file_name(self, index: int) -> str:
        return f"{index}.png"

    def annotation_rows(self, index: int) -> list[Row]:
        return [{"id": number, "image_id": self.image_ids[index]} for number in self.ids[index]]

    def tables(self) -> Row:
        return {"notes": [{"annotation_id": 7, "text": "x"}]}


def rows() -> Iterator[SampleRows]:
    """One copy of each image; annotation 7 of image 10 is hidden."""
    for number, (source, ids) in enumerate(((10, [8]), (20, [7])), start=1):
        annotations = [{"image_id": number, "parent": 7, MADE_OF: [source, own]} for own in ids]
        yield SampleRows(
            {"id": number, "file_name": f"{number:06d}.png", "next_image_id": 20}, annotations, refers=True
        )


COPIES = [Copy(10, 1, "000001.png"), Copy(20, 2, "000002.png")]


def test_ids_that_two_images_use() -> None:
    """The hidden annotation is not that of another image."""
    found = WrittenCounterparts(Images(([7, 8], [7])), COPIES, rows)
    first, second = found.rows()
    assert "parent" not in first.annotations[0]
    assert second.annotations[0]["parent"] == second.annotations[0]["id"] == 2
    assert found.losses == {f"key 'parent' of objects: {NO_ANNOTATION}": 1}
    tables, left_out = found.tables()
    assert (tables, sum(left_out.values())) == ({}, 1)


def test_ids_that_one_image_uses() -> None:
    found = WrittenCounterparts(Images(([8], [7])), COPIES, rows)
    first, second = found.rows()
    assert first.annotations[0]["parent"] == second.annotations[0]["id"]
    assert [row.image["next_image_id"] for row in (first, second)] == [2, 2]
    assert found.tables() == ({"notes": [{"annotation_id": 2, "text": "x"}]}, {})
    assert not found.losses


def test_equal_ids_of_images_have_no_counterparts() -> None:
    """As those of joined datasets."""
    found = WrittenCounterparts(Images(([8], [7]), (20, 20)), [Copy(20, 1, "a"), Copy(20, 2, "b")], rows)
    assert not any("next_image_id" in row.image for row in found.rows())
    assert found.losses[f"key 'next_image_id' of images: {NO_IMAGE}"] == 2


@pytest.mark.parametrize(
    ("owner", "key", "kind"),
    [
        *(("images", key, "image") for key in ("prev_image_id", "nextImageId", "first_frame_image_id", "image_id")),
        *(("images", key, "may be an image") for key in ("source_image_id", "prev", "parent_id", "image")),
        *(("images", key, "may be an image") for key in ("stereo_pair", "left_id", "ref_id", "duplicate_of", "rgb_id")),
        *(("images", key, "may be an image") for key in ("original_id", "neighbors", "key_frame", "similar_to")),
        *(("images", key, None) for key in ("frame_id", "video_id", "license", "num_images", "scan_id", "instance_id")),
        *(("images", key, None) for key in ("depth", "left", "source", "original", "start", "end", "num_pairs")),
        *(("objects", key, "annotation") for key in ("parent", "children", "annotation_ids", "ann_ref")),
        *(("objects", key, "annotation") for key in ("matched_annotation", "linked_ann", "same_as", "overlapping_ids")),
        *(("objects", key, None) for key in ("person_id", "pair_id", "num_annotations", "left_id", "annotations_left")),
        *(("objects", key, "unclear") for key in ("object_id", "instance_id", "segment_ids", "annotation_index")),
        *(("objects", key, None) for key in ("track_id", "category_id", "parent_name", "annotator", "segpaste")),
        ("categories", "example_image_id", "image"),
        ("categories", "parent_id", None),
    ],
)
def test_kinds_of_keys(owner: Any, key: str, kind: str | None) -> None:
    assert kind_of(owner, key) == kind
