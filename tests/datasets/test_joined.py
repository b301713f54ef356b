"""Joined datasets: classes by name, ids and rows that stay true, fields that fit a batch; images without objects."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from coco_files import annotation_row, image_row, write_coco
from PIL import Image

from cutout_files import write_backgrounds, write_cutouts
from on_disk import rectangle, runs
from samples import EVERY_IMAGE, make_samples
from segpaste import BatchCopyPaste, BatchCopyPasteConfig, create_coco_dataloader
from segpaste.augmentation import SourceConfig
from segpaste.bank import DatasetBank
from segpaste.datasets import (
    BackgroundImages,
    CocoDetectionV2,
    CutOuts,
    DatasetError,
    FederatedLabels,
    JoinedPhotos,
    SceneConfig,
    SceneDataset,
    read_class_map,
)
from segpaste.types import DenseSample, Modality

SIZE = (24, 32)
PANOPTIC = (Modality.INSTANCE, Modality.SEMANTIC, Modality.PANOPTIC)


def coco(folder: Path, *rows: Any, names: tuple[str, ...] = ("car", "cup", "zebra"), **image: Any) -> CocoDetectionV2:
    """One photo of id 5; the classes have the ids 3, 7, 90."""
    folder.mkdir()
    categories = [{"id": i, "name": name} for i, name in zip((3, 7, 90), names, strict=True)]
    return CocoDetectionV2(*write_coco(folder, [{**image_row(5, SIZE), **image}], list(rows), categories))


def row(number: int, category_id: int, **more: Any) -> Any:
    mask = rectangle(SIZE, 2 + number, 3, 9 + number, 9)
    return annotation_row(10 * number, 5, runs(mask), category_id, **more)


@pytest.fixture
def two(tmp_path: Path) -> tuple[CocoDetectionV2, CocoDetectionV2]:
    first = coco(tmp_path / "a", row(1, 3), row(2, 90), row(3, 7), row(4, 3, iscrowd=1), row(5, 7, iscrowd=1))
    return first, coco(tmp_path / "b", row(1, 7), row(2, 90), row(6, 3), names=("auto", "zebra", "cup"))


MAP = {"auto": "car", "cup": None}


class TestClasses:
    def test_by_name(self, two: Any) -> None:
        joined = JoinedPhotos(two)
        assert joined.class_names == ("car", "cup", "zebra", "auto")
        assert [joined[i].labels.tolist() for i in range(2)] == [[0, 2, 1], [2, 1, 3]]
        assert [joined.instance_labels(i) for i in range(2)] == [(0, 2, 1), (2, 1, 3)]

    def test_mapped_and_dropped(self, two: Any) -> None:
        joined = JoinedPhotos(two, class_map=MAP)
        assert joined.class_names == ("car", "zebra")
        assert [joined[i].labels.tolist() for i in range(2)] == [[0, 1], [1, 0]]
        assert [joined.instance_labels(i) for i in range(2)] == [(0, 1), (1, 0)]
        assert [joined[i].instance_ids.tolist() for i in range(2)] == [[1, 2], [1, 3]]  # type: ignore[union-attr]
        assert [list(joined.annotation_ids(i)) for i in range(2)] == [[10, 20, 30], [10, 20, 60]]
        for i in range(2):
            own = two[i][0]
            for number, mask in zip(joined[i].instance_ids, joined[i].instance_masks, strict=True):  # type: ignore[arg-type]
                assert mask.equal(own.instance_masks[int(number) - 1])
            assert joined[i].image.equal(own.image)
        assert [joined.left_out(i) for i in range(2)] == [
            {"crowd": 2, "empty": 0, "unmapped": 1},
            {"crowd": 0, "empty": 0, "unmapped": 1},
        ]
        assert [(crowd.annotation_id, crowd.label) for crowd in joined.crowds(0)] == [(40, 0)]
        assert joined[0].crowd_mask.equal(two[0][0].crowd_mask)  # type: ignore[union-attr,arg-type]
        assert not joined[1].crowd_mask.any()  # type: ignore[union-attr]
        rows = [[(r["id"], r["category_id"]) for r in joined.annotation_rows(i)] for i in range(2)]
        assert rows == [[(10, 1), (20, 2), (40, 1)], [(10, 2), (60, 1)]]
        assert joined.categories == [{"id": 1, "name": "car"}, {"id": 2, "name": "zebra"}]

    def test_a_map_for_each(self, two: Any) -> None:
        joined = JoinedPhotos(two, class_map=[{"cup": "mug"}, None])
        assert joined.class_names == ("car", "mug", "zebra", "auto", "cup")

    @pytest.mark.parametrize(
        ("class_map", "words"),
        [
            (
                {"auto": "car", "cow": "car", "dog": None},
                r"the datasets \(auto, car, cup, zebra\), got cow, dog",
            ),
            ([None, {"car": "auto"}], r"classes of annotations.json 2 \(auto, cup, zebra\), got car"),
        ],
    )
    def test_unknown_names(self, two: Any, class_map: Any, words: str) -> None:
        with pytest.raises(DatasetError, match=words):
            JoinedPhotos(two, class_map=class_map)

    def test_semantic_maps(self) -> None:
        """A dropped class is ignored where it was, and no instance is left of it; other classes move."""
        parts = [Listed(make_samples(2, modalities=PANOPTIC, num_instances=6, seed=s)) for s in (0, 1)]
        own = parts[1][0]
        dropped = int(own.labels[0])
        joined = JoinedPhotos(parts, class_map=[{"c0": None}, {f"c{dropped}": None, "c11": "grass"}])
        assert joined.class_names == (*Listed.class_names[1:], "c0", "grass")
        out = joined[2]
        renamed = {n: "grass" if n == 11 else f"c{n}" for n in range(13)}
        label_of = {n: joined.class_names.index(name) for n, name in renamed.items() if n != dropped}
        expected = np.vectorize(lambda n: label_of.get(n, 255))(own.semantic_map.numpy())
        np.testing.assert_array_equal(out.semantic_map.numpy(), expected)
        assert (expected != own.semantic_map.numpy()).any()
        kept = own.labels != dropped
        assert 0 < kept.sum() < len(kept)
        assert out.instance_ids.tolist() == own.instance_ids[kept].tolist()  # type: ignore[index,union-attr]
        z = own.panoptic_map.numpy()
        np.testing.assert_array_equal(out.panoptic_map.numpy(), np.where(np.isin(z, out.instance_ids), z, 0))

    def test_semantic_maps_alone(self) -> None:
        photos = Listed(make_samples(1, modalities=[Modality.INSTANCE, Modality.SEMANTIC]))
        before = photos[0].semantic_map.numpy()  # type: ignore[union-attr]
        after = JoinedPhotos([photos], class_map={"c11": None})[0].semantic_map.numpy()  # type: ignore[union-attr]
        assert (before == 11).any()
        np.testing.assert_array_equal(after == 255, (before == 11) | (before == 255))

    def test_lists_of_lvis(self, tmp_path: Path) -> None:
        lists = {"neg_category_ids": [7, 90], "not_exhaustive_category_ids": [3]}
        lvis = coco(tmp_path / "a", row(1, 3), names=("car", "cup", "mug"), **lists)
        other = coco(tmp_path / "b", names=("x", "car", "y"))
        assert JoinedPhotos([other, lvis]).federated(0) is None
        assert JoinedPhotos([other, lvis]).federated(1) == FederatedLabels((1,), (3, 4), (1,))
        both = JoinedPhotos([other, lvis], class_map={"mug": "cup"})
        assert both.federated(1) == FederatedLabels((1,), (3,), (1,))
        halfway = JoinedPhotos([other, lvis], class_map={"mug": "car", "cup": None})
        assert halfway.federated(1) == FederatedLabels((1,), (), (1,))


class Listed:
    """Samples from memory."""

    class_names = tuple(f"c{i}" for i in range(13))

    def __init__(self, samples: list[DenseSample]) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> DenseSample:
        return self.samples[index]


class TestIds:
    def test_of_each_dataset(self, two: Any, tmp_path: Path) -> None:
        backgrounds = BackgroundImages(write_backgrounds(tmp_path / "rooms", 2))
        joined = JoinedPhotos([two[0], backgrounds, two[1]])
        assert [joined.dataset_idx(i) for i in range(-4, 4)] == [0, 1, 1, 2] * 2
        assert [joined.image_id(i) for i in range(4)] == [5, 1, 2, 5]
        assert joined.names == ("annotations.json 1", "rooms", "annotations.json 3")
        assert [joined.file_name(i) for i in (0, 1)] == ["annotations.json 1/5.png", "rooms/0.png"]
        assert joined.photo_file(2) == (tmp_path / "rooms" / "1.png", None)
        with pytest.raises(IndexError):
            joined[4]

    def test_the_only_one_with_classes_stays_as_it_is(self, two: Any, tmp_path: Path) -> None:
        joined = JoinedPhotos([BackgroundImages(write_backgrounds(tmp_path / "rooms", 2)), two[0]])
        assert joined.file_name(2) == "5.png"
        assert joined.categories == two[0].categories
        assert joined.annotation_rows(2) == two[0].annotation_rows(0)
        assert joined.image_row(2) == two[0].image_row(0)
        assert joined.annotation_rows(0) == []

    def test_order_and_map_are_part_of_the_digest(self, two: Any) -> None:
        digests = {
            joined.digest
            for joined in (
                JoinedPhotos(two),
                JoinedPhotos(two[::-1]),
                JoinedPhotos(two, class_map=MAP),
                JoinedPhotos(two, class_map={"auto": "car"}),
                JoinedPhotos(two, class_map=[None, {"auto": "zebra", "zebra": "car"}]),
                JoinedPhotos(two[:1]),
            )
        }
        assert len(digests) == 6
        assert JoinedPhotos(two).digest in digests
        again = pickle.loads(pickle.dumps(JoinedPhotos(two, class_map=MAP)))
        assert again.digest in digests
        assert again[1].image.equal(two[1][0].image)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"names": ["a"]}, "names: expected 2"),
            ({"class_map": [{}]}, "class_map: expected one for all datasets, or 2, one for each, got 1"),
            ({"fields": "all"}, "fields: expected 'same' or 'common'"),
        ],
    )
    def test_bad_arguments(self, two: Any, options: Any, words: str) -> None:
        with pytest.raises(ValueError, match=words):
            JoinedPhotos(two, **options)

    def test_bad_datasets(self, two: Any) -> None:
        with pytest.raises(ValueError, match="expected at least one dataset"):
            JoinedPhotos([])
        with pytest.raises(DatasetError, match="list: expected a dataset with class_names"):
            JoinedPhotos([two[0], [two[1][0]]])
        twice = Listed(make_samples(1))
        twice.class_names = ("car", "cup", "car")
        with pytest.raises(DatasetError, match="Listed: expected a unique name for each class, got car twice"):
            JoinedPhotos([twice])


class TestFields:
    def test_others_are_refused_or_left_out(self, two: Any) -> None:
        rooms = SceneDataset(2, SceneConfig(height=32, width=48))
        with pytest.raises(
            DatasetError, match=r"SceneDataset: .* those of annotations.json, got a difference in camera"
        ):
            JoinedPhotos([two[0], rooms])
        joined = JoinedPhotos([two[0], rooms], fields="common")
        samples = [joined[i] for i in range(3)]
        assert len({frozenset(sample.modalities) for sample in samples}) == 1
        assert {sample.depth is None and not sample.metric_depth for sample in samples} == {True}
        assert [sample.num_instances for sample in samples] == [
            two[0][0].num_instances,
            *(s.num_instances for s in rooms),
        ]

    def test_depth_in_two_units(self) -> None:
        metric = Listed(make_samples(1, modalities=[Modality.INSTANCE, Modality.DEPTH], metric_depth=True))
        other = Listed(make_samples(1, modalities=[Modality.INSTANCE, Modality.DEPTH], camera=True))
        with pytest.raises(DatasetError, match="difference in metric_depth"):
            JoinedPhotos([metric, other])
        joined = JoinedPhotos([metric, other], fields="common")
        assert [(joined[i].depth, joined[i].metric_depth) for i in (0, 1)] == [(None, False)] * 2

    def test_keypoints_where_some_have_none(self, two: Any, tmp_path: Path) -> None:
        with_points = Listed(make_samples(1, modalities=[Modality.INSTANCE], keypoints=True))
        joined = JoinedPhotos([two[0], with_points, BackgroundImages(write_backgrounds(tmp_path / "rooms", 1))])
        schema = with_points[0].keypoint_schema
        assert schema is not None
        assert {joined[i].keypoint_schema for i in range(3)} == {schema}
        assert [joined[i].keypoints.shape for i in range(3)] == [(n, schema.num_points, 3) for n in (3, 3, 0)]  # type: ignore[union-attr]
        assert not joined[0].keypoints.any()  # type: ignore[union-attr]

    def test_boxes_alone_with_backgrounds(self, tmp_path: Path) -> None:
        boxes = Listed(make_samples(1, modalities=[]))
        joined = JoinedPhotos([boxes, BackgroundImages(write_backgrounds(tmp_path / "rooms", 1))])
        assert [joined[i].instance_masks for i in (0, 1)] == [None, None]
        assert not joined.has_masks

    @pytest.mark.parametrize(("first", "kind", "label"), [("_background_", "stuff", 0), ("sky", "stuff", 255)])
    def test_maps_with_backgrounds(self, first: str, kind: str, label: int, tmp_path: Path) -> None:
        """Pixels of an image without a map are background if the maps have such a class, else void."""
        panoptic = Listed(make_samples(1, modalities=PANOPTIC))
        names = (first, *panoptic.class_names[1:])
        panoptic.class_names = names
        backgrounds = BackgroundImages(write_backgrounds(tmp_path / "rooms", 1))
        joined = JoinedPhotos([panoptic, backgrounds], names=["Listed", "rooms"])
        assert joined.background_label == label
        room = joined[1]
        assert (room.semantic_map == label).all()  # type: ignore[union-attr]
        assert not room.panoptic_map.any()  # type: ignore[union-attr]
        assert room.modalities == joined[0].modalities

    def test_a_sample_that_differs_later(self, two: Any) -> None:
        odd = Listed([*make_samples(1, modalities=[Modality.INSTANCE]), *make_samples(1)])
        joined = JoinedPhotos([two[0], odd])
        assert joined[1].num_instances
        with pytest.raises(DatasetError, match="Listed: expected samples with the same fields"):
            joined[2]


class TestBackgrounds:
    def test_images(self, tmp_path: Path) -> None:
        folder = write_backgrounds(tmp_path / "rooms")
        (folder / "more").mkdir()
        image = Image.open(folder / "0.png")
        exif = image.getexif()
        exif[0x0112] = 6
        image.save(folder / "more" / "turned.jpg", exif=exif)
        (folder / "notes.txt").write_text("none")
        (folder / ".a.png").write_bytes((folder / "0.png").read_bytes())
        backgrounds = BackgroundImages(folder)
        assert [backgrounds.file_name(i) for i in range(4)] == ["0.png", "1.png", "2.png", "more/turned.jpg"]
        assert [sample.num_instances for sample in backgrounds] == [0] * 4
        assert backgrounds[3].canvas_size == (47, 33)
        assert np.array_equal(backgrounds[0].image.permute(1, 2, 0).numpy(), np.array(image))
        assert backgrounds[0].instance_masks.shape == (0, 33, 47)  # type: ignore[union-attr]
        before = backgrounds.digest
        (folder / "3.png").write_bytes(b"")
        assert BackgroundImages(folder).digest != before
        with pytest.raises(DatasetError, match=r"3\.png: expected an image, got another file"):
            BackgroundImages(folder)[3]

    def test_none(self, tmp_path: Path) -> None:
        with pytest.raises(DatasetError, match="expected at least one image, got none"):
            BackgroundImages(tmp_path)

    @pytest.mark.parametrize("num_workers", [0, 1])
    def test_targets_of_other_images(self, num_workers: int, two: Any, tmp_path: Path) -> None:
        """In a batch, objects come from images that have some, and backgrounds receive them too."""
        joined = JoinedPhotos([two[0], BackgroundImages(write_backgrounds(tmp_path / "rooms", 5))])
        loader = create_coco_dataloader(
            dataset=joined, batch_size=6, size=48, scale_range=(1, 1), shuffle=False, num_workers=num_workers
        )
        (batch,) = loader
        assert batch.instance_valid.sum(1).tolist() == [3, 0, 0, 0, 0, 0]
        out, report = BatchCopyPaste(EVERY_IMAGE)(batch, return_report=True)
        pasted = report.placement.layer_valid
        assert pasted[1:].any(1).tolist() == [True] * 5
        assert set(report.placement.source_idx[pasted].tolist()) == {0}
        assert not pasted[0].any()
        assert int(out.instance_valid[1:].sum()) == int(report.num_placed.sum()) > 5

    def test_targets_of_a_bank(self, tmp_path: Path) -> None:
        """All images of a batch are without objects, and all get crops."""
        cutouts = CutOuts(write_cutouts(tmp_path / "cutouts"))
        backgrounds = BackgroundImages(write_backgrounds(tmp_path / "rooms", 4, size=(64, 64)))
        loader = create_coco_dataloader(dataset=backgrounds, batch_size=4, size=64, scale_range=(1, 1))
        config = BatchCopyPasteConfig(placement={"paste_prob": 1.0}, source=SourceConfig(kind="bank"))
        augment = BatchCopyPaste(config, source_pool=DatasetBank(cutouts, crop_size=(24, 24)))
        (batch,) = loader
        out = augment(batch)
        assert out.instance_valid.sum(1).tolist() == [1] * 4
        assert set(out.labels[out.instance_valid].tolist()) <= {0, 1}


class TestClassMapFiles:
    def test_forms(self, tmp_path: Path) -> None:
        path = tmp_path / "map.yaml"
        path.write_text("auto: car\ncup: null\n")
        assert read_class_map(path) == MAP
        path.write_text('{"auto": "car", "cup": null}')
        assert read_class_map(path) == MAP
        path.write_text("- auto: car\n  cup:\n-\n")
        assert read_class_map(path) == [MAP, None]

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("car", "expected class names and their new names, got 'car'"),
            ("- car", "expected class names"),
            ("car: 3", "expected a name, or null to drop the class, for each class name, got 'car': 3"),
            ("no: car", "got False: 'car'; put numbers and words such as 'no' in quotes"),
            ("car: ''", "got 'car': ''"),
            ("car: [", "expected a class map in YAML or JSON, got text that is neither"),
        ],
    )
    def test_bad_ones(self, text: str, words: str, tmp_path: Path) -> None:
        (tmp_path / "map.yaml").write_text(text)
        with pytest.raises(DatasetError, match=words):
            read_class_map(tmp_path / "map.yaml")
