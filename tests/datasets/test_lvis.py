"""LVIS: boxes that disagree with polygons, photos named by URL, and lists of classes that a paste may contradict."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from coco_files import annotation_row, image_row, write_coco
from PIL import Image

from on_disk import noise, rectangle, runs
from samples import EVERY_IMAGE
from segpaste import BatchCopyPaste, create_coco_dataloader
from segpaste.cli import main
from segpaste.datasets import CocoDetectionV2, DatasetError, FederatedLabels, convert_dataset, open_dataset
from segpaste.seeding import keys_of

SIZE = (24, 32)


def lvis(folder: Path, *annotations: Any, **image: Any) -> CocoDetectionV2:
    """One photo; the classes 0, 1, 2 have the ids 3, 7, 90."""
    return CocoDetectionV2(*write_coco(folder, [{**image_row(5, SIZE), **image}], list(annotations)))


class TestRule:
    def test_all_ways_of_one_class(self) -> None:
        """Present or not, each list or not, pasted or not: what is true of the photo afterwards."""
        for present, negative, partly, pasted in itertools.product((False, True), repeat=4):
            if present and negative:
                continue  # the file would contradict itself
            before = FederatedLabels(*[(4,) if flag else () for flag in (present, negative, partly)])
            after = before.with_pasted([4, 4] if pasted else [])
            assert (4 in after.positive) == (present or pasted)
            assert (4 in after.negative) == (negative and not pasted)
            unknown = not present and not negative
            assert (4 in after.not_exhaustive) == (partly or (pasted and unknown))

    def test_what_comes_along_is_neither_absent_nor_all_marked(self) -> None:
        before = FederatedLabels(positive=(1,), negative=(2, 3), not_exhaustive=())
        assert before.with_pasted([2], [1, 3, 6]) == FederatedLabels((1, 2), (), (1, 3, 6))

    def test_other_classes_stay(self) -> None:
        before = FederatedLabels(positive=(1,), negative=(2, 8), not_exhaustive=(1,))
        assert before.with_pasted([5, 2]) == FederatedLabels((1, 2, 5), (8,), (1, 5))


class TestReader:
    def test_lists_become_classes(self, tmp_path: Path) -> None:
        row = annotation_row(1, 5, runs(rectangle(SIZE, 2, 2, 9, 9)), category_id=7)
        dataset = lvis(tmp_path, row, neg_category_ids=[90, 3], not_exhaustive_category_ids=[7])
        assert dataset.federated(0) == FederatedLabels(positive=(1,), negative=(0, 2), not_exhaustive=(1,))

    def test_coco_has_no_lists(self, tmp_path: Path) -> None:
        assert lvis(tmp_path).federated(0) is None

    def test_a_crowd_region_is_present(self, tmp_path: Path) -> None:
        row = annotation_row(1, 5, runs(rectangle(SIZE, 2, 2, 9, 9)), category_id=90, iscrowd=1)
        assert lvis(tmp_path, row, neg_category_ids=[]).federated(0) == FederatedLabels((2,), (), ())

    def test_boxes_come_from_the_polygons(self, tmp_path: Path) -> None:
        polygon = [4, 5, 11, 5, 11, 15, 4, 15]
        sample = lvis(tmp_path, annotation_row(1, 5, [polygon], bbox=[0.0, 0.0, 30.5, 2.25]))[0]
        assert sample.boxes.tolist() == [[4, 5, 11, 15]]

    def test_the_url_names_the_photo(self, tmp_path: Path) -> None:
        images, file = write_coco(tmp_path, [image_row(5, SIZE)], [], photos=False)
        tables = json.loads(file.read_text())
        del tables["images"][0]["file_name"]
        tables["images"][0]["coco_url"] = "http://images.example.org/val2017/000000000139.png"
        file.write_text(json.dumps(tables))
        (images / "val2017").mkdir()
        Image.fromarray(noise(SIZE)).save(images / "val2017" / "000000000139.png")
        dataset = CocoDetectionV2(images, file)
        assert dataset.file_name(0) == "val2017/000000000139.png"
        assert dataset[0].canvas_size == SIZE

    @pytest.mark.parametrize("is_named", [False, True], ids=["url", "file_name"])
    @pytest.mark.parametrize("folder", ["", "val2017"])
    def test_the_folder_of_the_photos_or_the_one_above_is_given(
        self, tmp_path: Path, folder: str, is_named: bool
    ) -> None:
        """The advice to give the folder of the images is right, though their names begin with it."""
        images, file = write_coco(tmp_path, [image_row(5, SIZE)], [], photos=False)
        tables = json.loads(file.read_text())
        del tables["images"][0]["file_name"]
        key = "file_name" if is_named else "coco_url"
        tables["images"][0][key] = ("" if is_named else "http://images.example.org/") + "val2017/139.png"
        file.write_text(json.dumps(tables))
        (images / "val2017").mkdir()
        Image.fromarray(noise(SIZE)).save(images / "val2017/139.png")
        dataset = open_dataset(file, images_dir=images / folder)
        assert dataset[0].canvas_size == SIZE
        assert convert_dataset(file, tmp_path / "out", "lvis", images_dir=images / folder).num_photos == {"train": 1}

    @pytest.mark.parametrize("key", ["neg_category_ids", "not_exhaustive_category_ids"])
    @pytest.mark.parametrize(("ids", "message"), [([4], "got 4; add it there"), (7, "expected a list of ids")])
    def test_lists_that_are_wrong(self, tmp_path: Path, key: str, ids: Any, message: str) -> None:
        with pytest.raises(DatasetError, match=message):
            lvis(tmp_path, **{key: ids})


class TestAugment:
    def test_the_written_lists_are_true(self, tmp_path: Path) -> None:
        """Photo 1 has cars, verified no cup, and nobody looked for zebras; photo 2 has all three."""
        boxes = [rectangle(SIZE, 2, 2, 12, 12), rectangle(SIZE, 3, 14, 15, 26), rectangle(SIZE, 14, 2, 22, 12)]
        images = [
            {**image_row(1, SIZE), "neg_category_ids": [7], "not_exhaustive_category_ids": []},
            {**image_row(2, SIZE), "neg_category_ids": [], "not_exhaustive_category_ids": [3]},
        ]
        rows = [annotation_row(1, 1, runs(boxes[0]), 3)]
        rows += [
            annotation_row(2 + i, 2, runs(box), category)
            for i, (box, category) in enumerate(zip(boxes, (3, 7, 90), strict=True))
        ]
        photos, file = write_coco(tmp_path, images, rows)
        out = tmp_path / "out"
        words = ["--images", str(photos), "--out", str(out), "--num", "40", "--seed", "3"]
        assert main(["augment", str(file), *words]) == 0
        tables = json.loads((out / "annotations.json").read_text())
        sources = {row["id"]: row for row in images}
        present = {1: {3}, 2: {3, 7, 90}}
        seen = set()
        for image in tables["images"]:
            source = sources[image["segpaste"]["source_image_id"]]
            pasted = {
                row["category_id"]
                for row in tables["annotations"]
                if row["image_id"] == image["id"] and row["segpaste"]["pasted"]
            }
            negative, partly = set(image["neg_category_ids"]), set(image["not_exhaustive_category_ids"])
            assert negative == set(source["neg_category_ids"]) - pasted
            new = pasted - present[source["id"]] - set(source["neg_category_ids"])
            along = {3} if source["id"] == 1 and pasted & {7, 90} else set()  # unmarked cars of photo 2 may lie on them
            assert partly == set(source["not_exhaustive_category_ids"]) | new | along
            seen |= {(source["id"], category) for category in pasted}
        assert {(1, 7), (1, 90), (2, 3)} <= seen  # every rule was at work

    def test_a_hat_comes_along_with_its_head(self, tmp_path: Path) -> None:
        """The hat lies inside the person; only one object is pasted at a time."""
        person, hat = rectangle(SIZE, 4, 4, 20, 16), rectangle(SIZE, 5, 6, 9, 12)
        images = [
            {**image_row(1, SIZE), "neg_category_ids": [], "not_exhaustive_category_ids": []},
            {**image_row(2, SIZE), "neg_category_ids": [7, 90], "not_exhaustive_category_ids": []},
        ]
        rows = [annotation_row(1, 1, runs(person), 3), annotation_row(2, 1, runs(hat), 7)]
        photos, file = write_coco(tmp_path, images, rows)
        words = ["--images", str(photos), "--out", str(tmp_path / "out"), "--num", "24"]
        assert main(["augment", str(file), *words, "placement.k_range=[1,1]", "placement.scale_range=[0.5,1]"]) == 0
        tables = json.loads((tmp_path / "out" / "annotations.json").read_text())
        alone = 0
        for image in tables["images"]:
            of_image = [row for row in tables["annotations"] if row["image_id"] == image["id"]]
            pasted = {row["category_id"] for row in of_image if row["segpaste"]["pasted"]}
            if image["segpaste"]["source_image_id"] == 2 and pasted == {3}:
                alone += 1
                assert image["neg_category_ids"] == [90]
                assert image["not_exhaustive_category_ids"] == [3, 7]
        assert alone > 2

    def test_coco_output_has_no_lists(self, tmp_path: Path) -> None:
        photos, file = write_coco(
            tmp_path, [image_row(1, SIZE)], [annotation_row(1, 1, runs(rectangle(SIZE, 2, 2, 9, 9)))]
        )
        words = ["--images", str(photos), "--out", str(tmp_path / "out"), "--num", "1", "source.kind=same_image"]
        assert main(["augment", str(file), *words]) == 0
        assert "neg_category_ids" not in json.loads((tmp_path / "out" / "annotations.json").read_text())["images"][0]


class TestRealFile:
    def test_lvis_dev(self, test_data: Path, tmp_path: Path) -> None:
        """Every list of the real file, with noise for the photos, which are not at hand."""
        path = test_data / "lvis_val_100" / "split" / "lvis_val_100_dev.json"
        tables = json.loads(path.read_text())
        for row in tables["images"]:
            Image.fromarray(noise((row["height"], row["width"]))).save(tmp_path / row["file_name"])
        dataset = CocoDetectionV2(tmp_path, path)
        ids = dataset.category_ids
        for i, row in enumerate(tables["images"]):
            lists = dataset.federated(i)
            assert lists is not None
            assert {ids[label] for label in lists.negative} == set(row["neg_category_ids"])
            assert {ids[label] for label in lists.not_exhaustive} == set(row["not_exhaustive_category_ids"])
            assert not set(lists.positive) & set(lists.negative)
            masks = dataset[i].instance_masks
            assert masks is not None
            for mask, box in zip(masks, dataset[i].boxes.tolist(), strict=True):
                ys, xs = mask.nonzero().unbind(1)
                assert box == [xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]


class TestBatches:
    """The recipe of the guide: the lists of every row of an augmented batch."""

    NUM_PHOTOS, NUM_CLASSES = 6, 3

    def photos(self, folder: Path) -> CocoDetectionV2:
        """Photo i has one object of class i % 3, one more class was looked for and is absent, the third is unknown."""
        images, annotations = [], []
        for i in range(self.NUM_PHOTOS):
            image = image_row(i + 1, SIZE, f"{i}.png")
            ids = [(3, 7, 90)[(i + k) % 3] for k in range(2)]
            images.append({**image, "neg_category_ids": [ids[1]], "not_exhaustive_category_ids": []})
            mask = rectangle(SIZE, 2 + i, 3, 8, 9)
            annotations.append(annotation_row(i + 1, i + 1, runs(mask), category_id=ids[0]))
        return CocoDetectionV2(*write_coco(folder, images, annotations))

    @pytest.mark.parametrize("num_workers", [0, 2])
    def test_lists_of_the_rows(self, tmp_path: Path, num_workers: int) -> None:
        photos = self.photos(tmp_path)
        federated = [photos.federated(i) for i in range(len(photos))]
        loader = create_coco_dataloader(
            dataset=photos, batch_size=3, size=SIZE, max_instances=8, num_workers=num_workers, base_seed=4
        )
        augment = BatchCopyPaste(EVERY_IMAGE)
        num_added = 0
        for batch in loader:
            out, report = augment(batch, return_report=True)
            keys = keys_of(out.sample_keys)
            before = [federated[key.sample_idx] for key in keys]
            for b, lists in enumerate(before):
                assert torch.equal(loader.sample_for(keys[b]).image, batch.images[b])
                pasted = set(out.labels[b, report.slot_source[b] >= 0].tolist())
                sources = report.placement.source_idx[b, report.placement.layer_valid[b]].tolist()
                along = {label for row in sources for label in (*before[row].positive, *before[row].not_exhaustive)}
                after = lists.with_pasted(pasted, along - pasted)
                shown = set(out.labels[b, out.instance_valid[b]].tolist())
                assert shown <= set(after.positive)
                assert not shown & set(after.negative)
                assert pasted - set(lists.positive) - set(lists.negative) <= set(after.not_exhaustive)
                num_added += len(set(after.positive) - set(lists.positive))
        assert num_added
