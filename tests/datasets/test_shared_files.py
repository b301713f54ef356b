"""Images are told apart: no file, map or image is read for two of them, and no image is read from the wrong place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from coco_files import annotation_row, image_row, write_coco
from drawn_files import (
    ELL_POINTS,
    SIZE,
    cvat_points,
    element,
    labelme_shape,
    percents,
    photo,
    region,
    task,
    write_label_studio,
    write_labelme,
    write_voc,
)
from PIL import Image

from segpaste.datasets import DatasetError, convert_dataset, open_dataset
from segpaste.datasets.checking.check import check_unopened
from segpaste.datasets.formats.labelme import DESCRIBED_AGAIN
from segpaste.datasets.formats.registry import find_dataset

CUP = element("polygon", label="cup", points=cvat_points(ELL_POINTS))


def write_cvat(folder: Path, *images: dict[str, Any], inside: str = CUP) -> Path:
    """Write the XML file alone; images are given by their attributes."""
    size = {"width": SIZE[1], "height": SIZE[0]}
    texts = [element("image", inside, id=i, **size, **facts) for i, facts in enumerate(images)]
    (folder / "annotations.xml").write_text(f"<annotations><meta></meta>{''.join(texts)}</annotations>")
    return folder


class TestTwoNamesOfOneFile:
    """The last place of a listed image is its name without folders; it is that of one image only."""

    def cvat(self, folder: Path) -> Path:
        photo(folder / "images/1.png")
        return write_cvat(folder, {"name": "cam1/1.png"}, {"name": "cam2/1.png"})

    def label_studio(self, folder: Path, *addresses: str) -> Path:
        cup = region("c", "polygonlabels", "cup", value={"points": percents(ELL_POINTS)})
        tasks = [{**task(i, "1.png", [cup]), "data": {"image": address}} for i, address in enumerate(addresses)]
        write_label_studio(folder, tasks)
        for path in (folder / "images").iterdir():
            path.unlink()
        photo(folder / "images/1.png")
        return folder

    def labelme(self, folder: Path, *names: str) -> Path:
        write_labelme(folder, {"1": []})
        for i, name in enumerate(names, start=1):
            facts = {"imagePath": name, "imageData": None, "imageHeight": SIZE[0], "imageWidth": SIZE[1]}
            (folder / f"{i}.json").write_text(json.dumps({"shapes": [labelme_shape("cup", ELL_POINTS)], **facts}))
        return folder

    def test_cvat(self, tmp_path: Path) -> None:
        file = self.cvat(tmp_path) / "annotations.xml"
        with pytest.raises(DatasetError, match=r"image 'cam2/1.png': .* got 1.png for 'cam1/1.png' and 'cam2/1.png'"):
            open_dataset(file, images_dir=tmp_path / "images")

    def test_the_advice_works(self, tmp_path: Path) -> None:
        self.cvat(tmp_path)
        for i in (1, 2):
            photo(tmp_path / f"cam{i}/1.png", i)
        photos = open_dataset(tmp_path)
        assert [photos.file_name(i) for i in (0, 1)] == ["cam1/1.png", "cam2/1.png"]

    def test_a_check_names_it_once(self, tmp_path: Path) -> None:
        path = self.labelme(tmp_path, "../x/1.png", "../y/1.png")
        findings = check_unopened(path, DatasetError("")).findings
        assert [finding.message for finding in findings if "for each image" in finding.message] == [
            f"{path / '2.json'}: expected a file for each image, got 1.png for '../x/1.png' and '../y/1.png'; give "
            f"each its own file below {path}, at the path that its name says, or correct the names"
        ]

    @pytest.mark.parametrize(
        "addresses",
        [
            ("s3://b/cam1/1.png", "s3://b/cam2/1.png"),
            ("s3://b1/1.png", "s3://b2/1.png"),
            ("/data/upload/3/aaaaaaaa-1.png", "/data/upload/3/bbbbbbbb-1.png"),
            ("/data/local-files/?d=cam1/1.png", "/data/local-files/?d=cam2/1.png"),
        ],
    )
    def test_label_studio(self, tmp_path: Path, addresses: tuple[str, str]) -> None:
        with pytest.raises(DatasetError, match="task 1: expected a file for each image, got"):
            open_dataset(self.label_studio(tmp_path, *addresses))

    def test_one_image_of_two_tasks(self, tmp_path: Path) -> None:
        address = "https://h/1.png"
        assert len(open_dataset(self.label_studio(tmp_path, f"{address}?token=1", f"{address}?token=2"))) == 2

    def test_labelme(self, tmp_path: Path) -> None:
        with pytest.raises(DatasetError, match=r"2.json: .* 1.png for '../x/1.png' and '../y/1.png'"):
            open_dataset(self.labelme(tmp_path, "../x/1.png", "../y/1.png"))

    def test_names_that_are_equal_are_one_image(self, tmp_path: Path) -> None:
        """A copy of a file of labelme is often meant for another image, so it is named."""
        folder = self.labelme(tmp_path / "in", "1.png", "1.png")
        assert len(open_dataset(folder)) == 2
        assert convert_dataset(folder, tmp_path / "out", "coco").losses[DESCRIBED_AGAIN] == 1


class TestSubsetsOfCvat:
    def test_the_file_of_a_subset_comes_first(self, tmp_path: Path) -> None:
        photo(tmp_path / "images/1.png", 1)
        photo(tmp_path / "images/Train/1.png", 2)
        write_cvat(tmp_path, {"name": "1.png", "subset": "Train"}, {"name": "1.png", "subset": "default"})
        names = {split: open_dataset(tmp_path, split).file_name(0) for split in find_dataset(tmp_path).splits}
        assert names == {"Train": "images/Train/1.png", "default": "images/1.png"}

    def test_two_subsets_do_not_share_a_file(self, tmp_path: Path) -> None:
        photo(tmp_path / "images/1.png", 1)
        write_cvat(tmp_path, {"name": "1.png", "subset": "Train"}, {"name": "1.png", "subset": "Val"})
        for split in ("Train", "Val"):
            with pytest.raises(DatasetError, match=r"expected a file for each image, got images/1.png"):
                open_dataset(tmp_path, split)

    @pytest.mark.parametrize("without", [{}, {"subset": ""}, {"subset": "default"}])
    def test_images_without_a_subset_are_those_of_the_default_one(self, tmp_path: Path, without: Any) -> None:
        for i in (1, 2):
            photo(tmp_path / f"images/{i}.png", i)
        write_cvat(tmp_path, {"name": "1.png", **without}, {"name": "2.png", "subset": "Train"})
        summary = convert_dataset(tmp_path, tmp_path / "out", "coco")
        assert (summary.num_photos, summary.losses) == ({"Train": 1, "default": 1}, {})
        assert open_dataset(tmp_path, "default").file_name(0) == "images/1.png"

    def test_the_default_subset_may_have_a_folder(self, tmp_path: Path) -> None:
        for name in ("default", "Train"):
            photo(tmp_path / f"images/{name}/1.png")
        write_cvat(tmp_path, {"name": "1.png"}, {"name": "1.png", "subset": "Train"})
        names = {split: open_dataset(tmp_path, split).file_name(0) for split in find_dataset(tmp_path).splits}
        assert names == {"Train": "images/Train/1.png", "default": "images/default/1.png"}

    @pytest.mark.parametrize("subsets", [("", ""), ("default", "default"), ("default", "")])
    def test_without_other_subsets_there_is_no_split(self, tmp_path: Path, subsets: tuple[str, str]) -> None:
        for i in (1, 2):
            photo(tmp_path / f"images/{i}.png", i)
        facts = [{"subset": subset} if subset else {} for subset in subsets]
        write_cvat(tmp_path, {"name": "1.png", **facts[0]}, {"name": "2.png", **facts[1]})
        assert find_dataset(tmp_path).splits == ("",)
        assert len(open_dataset(tmp_path)) == 2


class TestSuffixesOfVoc:
    """Several image files of one name: the one in the XML file is read, or none."""

    def write(self, folder: Path, said: str, images: str = "JPEGImages", xml: str = "Annotations") -> Path:
        for i, suffix in enumerate(("jpg", "png", "webp")):
            photo(folder / images / f"a.{suffix}", i)
        (folder / xml).mkdir(exist_ok=True)
        text = f"<annotation><filename>{said}</filename><size><width>{SIZE[1]}</width><height>{SIZE[0]}</height></size>"
        box = "<bndbox><xmin>3</xmin><ymin>3</ymin><xmax>13</xmax><ymax>13</ymax></bndbox>"
        (folder / xml / "a.xml").write_text(f"{text}<object><name>dog</name>{box}</object></annotation>")
        return folder

    @pytest.mark.parametrize("folders", [("JPEGImages", "Annotations"), ("", ""), ("images", "labels")])
    def test_the_xml_file_says_which(self, tmp_path: Path, folders: tuple[str, str]) -> None:
        for suffix in ("jpg", "png", "webp"):
            folder = self.write(tmp_path / "in", f"a.{suffix}", *folders)
            assert open_dataset(folder).file_name(0) == f"a.{suffix}"
        losses = convert_dataset(folder, tmp_path / "out", "coco").losses
        assert losses == {"image files that the annotations do not list": 2}
        assert open_dataset(self.write(tmp_path / "windows", "C:\\x\\a.png", *folders)).file_name(0) == "a.png"

    @pytest.mark.parametrize("said", ["", "b.jpg", "a.bmp"])
    def test_without_a_name_there_is_an_error(self, tmp_path: Path, said: str) -> None:
        with pytest.raises(DatasetError, match=r"a.jpg: expected one image of this name, got a.jpg, a.png, a.webp;"):
            open_dataset(self.write(tmp_path, said))

    def test_maps_alone(self, tmp_path: Path) -> None:
        write_voc(tmp_path, xml=False)
        photo(tmp_path / "JPEGImages/a.jpg")
        with pytest.raises(DatasetError, match=r"a.jpg: expected one image of this name, got a.jpg, a.png; move"):
            open_dataset(tmp_path)

    def test_one_file_of_any_suffix(self, tmp_path: Path) -> None:
        """One that is not searched for is found by its name in the XML file."""
        self.write(tmp_path, "a.ppm")
        (tmp_path / "JPEGImages/a.png").rename(tmp_path / "JPEGImages/a.ppm")
        for suffix in ("jpg", "webp"):
            (tmp_path / f"JPEGImages/a.{suffix}").unlink()
        assert open_dataset(tmp_path).file_name(0) == "a.ppm"
        convert_dataset(tmp_path, tmp_path / "out", "coco")


class TestSplitsOfYolo:
    """Folders without a data YAML."""

    def write(self, folder: Path, *splits: str) -> Path:
        for name in splits:
            photo(folder / f"images/{name}/1.png")
            (folder / f"labels/{name}").mkdir(parents=True, exist_ok=True)
            (folder / f"labels/{name}/1.txt").write_text("0 .5 .5 .2 .2\n")
        (folder / "classes.txt").write_text("cup\n")
        return folder

    @pytest.mark.parametrize("stray", ["preview.png", "._x.png", ".hidden.jpg"])
    def test_an_image_beside_the_folders(self, tmp_path: Path, stray: str) -> None:
        photo(self.write(tmp_path, "train", "val") / "images/stray.png").rename(tmp_path / f"images/{stray}")
        summary = convert_dataset(tmp_path, tmp_path / "out", "coco")
        assert summary.num_photos == {"train": 1, "val": 1}
        named = {} if stray[0] == "." else {f"image files that no split reads: images/{stray}": 1}
        assert summary.losses == named

    def test_a_labelled_image_beside_the_folders(self, tmp_path: Path) -> None:
        """Images to validate on are never those to train on."""
        self.write(tmp_path, "train", "val", ".")
        summary = convert_dataset(tmp_path, tmp_path / "out", "coco")
        assert summary.num_photos == {"train": 1, "val": 1}
        assert set(summary.losses) == {
            "image files that no split reads: images/1.png",
            "annotation files that no split reads: labels/1.txt",
        }

    @pytest.mark.parametrize("name", ["testing_street", "validated", "devices"])
    def test_folders_that_only_begin_like_splits(self, tmp_path: Path, name: str) -> None:
        self.write(tmp_path, name, ".")
        assert convert_dataset(tmp_path, tmp_path / "out", "coco").num_photos == {"train": 2}

    def test_hidden_folders_are_no_splits(self, tmp_path: Path) -> None:
        photo(self.write(tmp_path, "train", "val") / "images/.thumbs/1.png")
        assert find_dataset(tmp_path).splits == ("train", "val")

    @pytest.mark.parametrize("folders", [(".", "batch1"), (".",)])
    def test_one_folder_of_images(self, tmp_path: Path, folders: tuple[str, ...]) -> None:
        assert find_dataset(self.write(tmp_path, *folders)).splits == ("train",)
        assert len(open_dataset(tmp_path)) == len(folders)

    def test_images_without_labels(self, tmp_path: Path) -> None:
        photo(self.write(tmp_path, ".") / "images/more/2.png")
        (tmp_path / "labels/1.txt").unlink()
        assert len(open_dataset(tmp_path)) == 2


class TestMapsOfTwoImages:
    """Files of depth and normals beside the annotations are those of one image."""

    def maps(self, root: Path, *names: str, folder: str = "depth") -> None:
        for name in names:
            for kind in (folder, "depth_valid"):
                (root / kind / name).parent.mkdir(parents=True, exist_ok=True)
            values = np.full(SIZE, 1.5, np.float32) if folder == "depth" else np.zeros((3, *SIZE), np.float32) - 0.5
            np.save(root / folder / f"{name}.npy", values)
            Image.fromarray(np.full(SIZE, 255, np.uint8)).save(root / "depth_valid" / f"{name}.png")

    def coco(self, root: Path, *names: str) -> Path:
        images = [{**image_row(i, SIZE), "file_name": name} for i, name in enumerate(names, start=1)]
        rows = [annotation_row(i, i, [[1, 1, 9, 1, 9, 9]]) for i in range(1, len(names) + 1)]
        for name in names:
            photo(root / "photos" / name)
        write_coco(root, images, rows)
        (root / "photos").rename(root / "images")
        return root

    @pytest.mark.parametrize("folder", ["depth", "normals"])
    @pytest.mark.parametrize("names", [("train/1.png", "val/1.png"), ("a.jpg", "a.png")])
    def test_of_one_split(self, tmp_path: Path, names: tuple[str, str], folder: str) -> None:
        self.coco(tmp_path, *names)
        self.maps(tmp_path, Path(names[0]).stem, folder=folder)
        with pytest.raises(DatasetError, match=r"expected depth and normals of one image each, got '(1|a)' for "):
            open_dataset(tmp_path)

    def test_the_advice_works(self, tmp_path: Path) -> None:
        self.coco(tmp_path, "train/1.png", "val/1.png")
        self.maps(tmp_path, "train/1", "val/1")
        assert open_dataset(tmp_path)[1].depth is not None

    def test_of_two_splits(self, tmp_path: Path) -> None:
        (tmp_path / "annotations").mkdir()
        for split in ("train", "val"):
            photo(tmp_path / f"{split}/1.png")
            self.coco(tmp_path / f"{split}/x", "1.png")
            (tmp_path / f"{split}/x/annotations.json").rename(tmp_path / f"annotations/instances_{split}.json")
        self.maps(tmp_path, "1")
        for split in ("train", "val"):
            with pytest.raises(DatasetError, match="expected depth and normals of one image each"):
                open_dataset(tmp_path, split)
        self.maps(tmp_path, "train/1", "val/1")
        assert open_dataset(tmp_path, "val")[0].depth is not None

    def test_lists_of_one_image(self, tmp_path: Path) -> None:
        """An image of several lists is one image."""
        write_voc(tmp_path)
        (tmp_path / "ImageSets/Segmentation").mkdir(parents=True)
        for split in ("train", "trainval"):
            (tmp_path / f"ImageSets/Segmentation/{split}.txt").write_text("a\n")
        self.maps(tmp_path, "a")
        assert open_dataset(tmp_path, "train")[0].depth is not None

    @pytest.mark.parametrize("word", ["split", "folders", "place"])
    def test_of_a_declaration(self, tmp_path: Path, word: str) -> None:
        """A declaration that leaves a word out, other than the split and the folders, gives a map to several images."""
        for i, name in enumerate(("train", "val")):
            photo(tmp_path / f"images/{name}/1.png", i)
        (tmp_path / "depth/train").mkdir(parents=True)
        for name in ("1.png", "train/1.png"):
            Image.fromarray(np.full(SIZE, 1500, np.uint16)).save(tmp_path / "depth" / name)
        split, slash = "train" if word == "split" else None, "" if word == "folders" else "/"
        for files in ("{name}.png", f"{{{word}}}{slash}{{name}}.png"):
            text = f"photos: images/{{{word}}}{slash}{{name}}.png\ndepth: {{files: 'depth/{files}', unit: mm}}\n"
            (tmp_path / "segpaste.yaml").write_text(text)
            if word == "place":
                assert len(open_dataset(tmp_path)) == (2 if files == "{name}.png" else 1)
            elif files == "{name}.png":
                with pytest.raises(DatasetError, match=r"one for images/train/1.png and images/val/1.png;"):
                    open_dataset(tmp_path, split)
            else:
                assert len(open_dataset(tmp_path, split)) == 1
