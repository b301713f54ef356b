"""Datasets of Datumaro: there and back, and what its own classes give."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import datumaro as dm
import numpy as np
import pytest
from datumaro.components.annotation import ExtractedMask, RotatedBbox
from PIL import Image
from there_and_back import LOST, SETS, assert_goes_everywhere, assert_same, everything, opened

from segpaste.datasets import DatasetError, SceneConfig, SceneDataset, from_datumaro, to_datumaro
from segpaste.datasets.formats.rle import decode_segmentation

pytestmark = pytest.mark.filterwarnings("ignore:to_datumaro", "ignore:.*no pixel", "ignore::UserWarning:segpaste")
SIZE = (20, 30)


@pytest.mark.parametrize("name", SETS)
def test_there_and_back(name: str, tmp_path: Path) -> None:
    before = opened(name, tmp_path)
    assert_same(before, from_datumaro(to_datumaro(before)))


@pytest.mark.parametrize("name", LOST)
def test_what_datumaro_does_not_hold_is_named(name: str, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=f"^to_datumaro: Datumaro does not hold {LOST[name]}"):
        to_datumaro(opened(name, tmp_path))


@pytest.mark.parametrize("name", ["scenes", "tiny_coco"])
def test_it_goes_everywhere(name: str, tmp_path: Path) -> None:
    assert_goes_everywhere(from_datumaro(to_datumaro(opened(name, tmp_path))), tmp_path)


def test_items_are_made_when_they_are_asked_for() -> None:
    read = []

    class Counting(SceneDataset):
        def __getitem__(self, index: int):  # type: ignore[no-untyped-def]
            read.append(index)
            return super().__getitem__(index)

    made = to_datumaro(Counting(5, SceneConfig(height=48, width=64), seed=2), subset="train")
    del read[:]
    first = next(iter(made))
    assert set(read) == {0}
    assert (first.subset, first.media.data.shape) == ("train", (48, 64, 3))


def test_its_own_operations_keep_what_we_need(tmp_path: Path) -> None:
    """Selected and renamed labels, and a copy in Datumaro's own format, have ids, regions and points still."""
    whole = to_datumaro(everything(tmp_path))
    original = from_datumaro(whole)
    chosen = dm.Dataset.from_extractors(whole.select(lambda item: item.id == "a"))
    back = from_datumaro(chosen)
    assert (len(back), back.annotation_ids(0)) == (1, original.annotation_ids(0))
    renamed = from_datumaro(dm.Dataset.from_extractors(whole).transform("remap_labels", mapping={"cat": "lion"}))
    assert renamed.class_names == ("lion", "dog")
    whole.export(str(tmp_path / "own"), "datumaro", save_media=True)
    again = from_datumaro(dm.Dataset.import_from(str(tmp_path / "own"), "datumaro"))
    assert np.array_equal(again[0].instance_masks, original[0].instance_masks)
    assert [c.is_ignored for c in again.crowds(0)] == [c.is_ignored for c in original.crowds(0)]


def item(*annotations: Any, name: str = "a") -> Any:
    pixels = np.zeros((*SIZE, 3), np.uint8)
    pixels[..., 0] = 200  # blue
    return dm.DatasetItem(name, media=dm.Image.from_numpy(pixels), annotations=list(annotations))


def of_items(*items: Any) -> Any:
    return dm.Dataset.from_iterable(items, categories=["cat", "dog"], media_type=dm.Image)


def test_every_shape_and_what_is_none() -> None:
    mask = np.zeros(SIZE, bool)
    mask[2:5, 3:9] = True
    index = np.zeros(SIZE, np.int32)
    index[10:14, 1:4] = 5
    parts = [dm.Polygon(points, label=1, group=4) for points in ([1, 1, 6, 1, 6, 6], [10, 1, 16, 1, 16, 6])]
    shapes = [
        dm.Mask(mask, label=0, attributes={"occluded": True}, z_order=2),
        dm.Mask(lambda: mask, label=0),
        ExtractedMask(index_mask=index, index=5, label=1),
        *parts,
        dm.Ellipse(5, 5, 15, 11, label=0),
        RotatedBbox(10, 10, 6, 4, 30, label=0),
        dm.Bbox(1, 2, 8, 9, label=1),
    ]
    others = [dm.Label(0), dm.Caption("a cat"), dm.PolyLine([1, 1, 4, 4], label=0), dm.Mask(mask)]
    with pytest.warns(UserWarning, match=r"^Datumaro: 1 labels of whole images, 1 captions, 1 lines, 1 annotations w"):
        back = from_datumaro(of_items(item(*shapes, *others)))
    sample = back[0]
    assert sample.image[:, 0, 0].tolist() == [0, 0, 200]
    assert sample.labels.tolist() == [0, 0, 1, 1, 0, 0]
    masks = sample.instance_masks.numpy()
    assert np.array_equal(masks[0], mask)
    assert np.array_equal(masks[1], mask)
    assert np.array_equal(masks[2], index == 5)
    assert np.array_equal(masks[3], decode_segmentation([part.points for part in parts], SIZE))
    assert abs(int(masks[4].sum()) - np.pi * 15) < 3
    assert abs(int(masks[5].sum()) - 24) < 5
    assert [crowd.box for crowd in back.crowds(0)] == [(1, 2, 9, 11)]
    assert back.annotation_rows(0)[0]["attributes"] == {"occluded": True, "z_order": 2}


def test_boxes_alone_are_boxes(tmp_path: Path) -> None:
    Image.new("RGB", SIZE[::-1]).save(tmp_path / "a.png")
    media = dm.Image.from_file(str(tmp_path / "a.png"))
    items = [dm.DatasetItem("a", media=media, annotations=[dm.Bbox(1, 2, 8.5, 9, label=1, id=5)])]
    back = from_datumaro(of_items(*items))
    assert not back.has_masks
    assert (back[0].boxes.tolist(), back.annotation_ids(0)) == ([[1, 2, 9.5, 11]], (5,))
    assert back.photo_file(0) == (tmp_path / "a.png", SIZE)


def test_workers_get_the_annotations(tmp_path: Path) -> None:
    back = from_datumaro(to_datumaro(opened("scenes", tmp_path)))
    assert_same(back, pickle.loads(pickle.dumps(back)))


def test_wrong_input_is_refused() -> None:
    with pytest.raises(TypeError, match=r"expected a datumaro.Dataset, got list"):
        from_datumaro([])
    with pytest.raises(DatasetError, match="expected one of the subsets default, got 'train'"):
        from_datumaro(of_items(item()), subset="train")
    with pytest.raises(
        DatasetError, match=r"annotation 0 of item 'a': expected a mask of 20 x 30 pixels, got \[9, 9\]"
    ):
        from_datumaro(of_items(item(dm.Mask(np.ones((9, 9), bool), label=0))))
