"""CVAT's further exports: YOLO 1.1, COCO with flat images, subsets named Train, one joint of a skeleton; labelImg.

The text files are those that Datumaro 1.13, which makes CVAT's exports, and labelImg 1.8 write.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from coco_files import annotation_row, image_row, write_coco
from drawn_files import BAR_BOX, SIZE, element, photo, write_cvat

from segpaste import convert_dataset
from segpaste.datasets import DatasetError, check_dataset, find_dataset, open_dataset

CUP, ZEBRA = "0 0.250000 0.350000 0.300000 0.500000\n", "1 0.725000 0.350000 0.450000 0.300000\n"
CUP_BOX = (4, 2, 16, 12)
SUBSETS = {("train",): "train", ("train", "valid"): "train", ("Train", "Validation"): "Train"}


def write_darknet(folder: Path, subsets: tuple[str, ...], *, in_data: bool = False) -> Path:
    """Write images `a` and `b` with their labels; the last subset has `b`."""
    root = folder / "data" if in_data else folder
    for name, text, subset in (("a", CUP, subsets[0]), ("b", ZEBRA, subsets[-1])):
        photo(root / f"obj_{subset}_data" / f"{name}.jpg")
        (root / f"obj_{subset}_data" / f"{name}.txt").write_text(text)
        with (root / f"{subset}.txt").open("a") as file:
            file.write(f"data/obj_{subset}_data/{name}.jpg\n")
    (root / "obj.names").write_text("cup\nzebra\n")
    lines = ["classes = 2", *(f"{subset} = data/{subset}.txt" for subset in subsets)]
    (folder / "obj.data").write_text("\n".join([*lines, "names = data/obj.names", "backup = backup/", ""]))
    return folder


class TestDarknet:
    @pytest.mark.parametrize("subsets", SUBSETS)
    @pytest.mark.parametrize("in_data", [False, True])
    def test_is_read(self, tmp_path: Path, subsets: tuple[str, ...], in_data: bool) -> None:
        folder = write_darknet(tmp_path / "in", subsets, in_data=in_data)
        found = find_dataset(folder)
        assert (found.format.name, found.splits) == ("yolo", subsets)
        photos = open_dataset(folder)
        assert photos.class_names == ("cup", "zebra")
        assert photos[0].boxes.tolist() == [list(CUP_BOX)]
        if len(subsets) > 1:
            assert found.chosen_split() == subsets[0]
            assert open_dataset(folder, subsets[1])[0].boxes.tolist() == [list(BAR_BOX)]
        assert len(open_dataset(folder / "obj.data", subsets[0])) == len(photos)

    def test_nothing_is_lost(self, tmp_path: Path) -> None:
        folder = write_darknet(tmp_path / "in", ("Train", "Validation"))
        for to in ("coco", "yolo"):
            assert not convert_dataset(folder, tmp_path / to, to).losses
        assert find_dataset(tmp_path / "coco").splits == ("Train", "Validation")
        assert find_dataset(tmp_path / "yolo").splits == ("train", "val")
        assert len(open_dataset(tmp_path / "yolo", "val")) == 1
        assert not [found for found in check_dataset(open_dataset(folder)).findings if found.severity == "error"]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ("names = data/obj.names", r"obj\.data: expected the file of classes .*, found none; export the dataset"),
            (
                "train = data/train.txt",
                r"obj\.data: expected a list of images, as 'train = .*', found none",
            ),
        ],
    )
    def test_what_it_lacks(self, tmp_path: Path, change: str, message: str) -> None:
        file = write_darknet(tmp_path / "in", ("train",)) / "obj.data"
        file.write_text(file.read_text().replace(change, ""))
        with pytest.raises(DatasetError, match=message):
            open_dataset(tmp_path / "in")

    def test_without_images(self, tmp_path: Path) -> None:
        """An export without images has labels and lists only."""
        folder = write_darknet(tmp_path / "in", ("train",))
        (folder / "obj_train_data/a.jpg").unlink()
        with pytest.raises(DatasetError, match=r"train\.txt: line 1: expected the path of an image"):
            open_dataset(folder)


class TestLabelImg:
    @pytest.mark.parametrize("name", ["photos", "images"])
    def test_labels_beside_images(self, tmp_path: Path, name: str) -> None:
        """Also in a folder called images, whose labels YOLO has in another one."""
        self.write(tmp_path / name)
        photos = open_dataset(tmp_path / name)
        assert (find_dataset(tmp_path / name).format.name, photos.class_names) == ("yolo", ("cup", "zebra"))
        assert [photos[index].boxes.tolist() for index in range(3)] == [[list(CUP_BOX)], [list(BAR_BOX)], []]
        assert not convert_dataset(tmp_path / name, tmp_path / "out", "yolo").losses

    def test_a_folder_a_split(self, tmp_path: Path) -> None:
        for name in ("train", "val"):
            self.write(tmp_path / "in" / name)
        assert find_dataset(tmp_path / "in").splits == ("train", "val")
        (tmp_path / "in/val/classes.txt").write_text("zebra\ncup\n")
        with pytest.raises(DatasetError, match=r"val/classes\.txt: expected the classes of .*, cup, zebra, got zebra"):
            find_dataset(tmp_path / "in")

    def test_a_list_of_classes_alone_is_no_dataset(self, tmp_path: Path) -> None:
        photo(tmp_path / "in" / "a.png")
        (tmp_path / "in/classes.txt").write_text("cup\n")
        with pytest.raises(DatasetError, match="expected a dataset of one of the formats"):
            find_dataset(tmp_path / "in")

    def test_an_image_without_labels_in_its_folder_has_none(self, tmp_path: Path) -> None:
        """Beside `labels`, a text beside an image is no label file unless a list of classes is there, too."""
        photo(tmp_path / "in/images/a.png")
        photo(tmp_path / "in/images/b.png")
        (tmp_path / "in/labels").mkdir()
        (tmp_path / "in/labels/b.txt").write_text(CUP)
        (tmp_path / "in/images/a.txt").write_text("a cup\n")
        assert open_dataset(tmp_path / "in")[0].num_instances == 0

    def write(self, folder: Path) -> None:
        for name in "abc":
            photo(folder / f"{name}.png")
        (folder / "a.txt").write_text(CUP)
        (folder / "b.txt").write_text(ZEBRA)
        (folder / "classes.txt").write_text("cup\nzebra\n")


class TestCoco:
    def write(self, folder: Path, *names: str) -> Path:
        """Write annotations of image n of each split; all images are in `images`."""
        for number, name in enumerate(names, start=1):
            write_coco(folder, [image_row(number, SIZE)], [annotation_row(number, number, [[4, 2, 16, 2, 16, 12]])])
            (folder / "annotations").mkdir(exist_ok=True)
            (folder / "images").mkdir(exist_ok=True)
            for image in (folder / "photos").iterdir():
                image.rename(folder / "images" / image.name)
            (folder / "photos").rmdir()
            next(folder.glob("*.json")).rename(folder / f"annotations/instances_{name}.json")
        return folder

    def test_flat_images(self, tmp_path: Path) -> None:
        folder = self.write(tmp_path, "default")
        assert (find_dataset(folder).format.name, find_dataset(folder).splits) == ("coco", ("default",))
        assert open_dataset(folder)[0].num_instances == 1

    def test_splits_share_a_folder(self, tmp_path: Path) -> None:
        (tmp_path / "in").mkdir()
        folder = self.write(tmp_path / "in", "Train", "Validation")
        found = find_dataset(folder)
        assert (found.splits, found.chosen_split()) == (("Train", "Validation"), "Train")
        assert [len(open_dataset(folder, name)) for name in found.splits] == [1, 1]
        assert not convert_dataset(folder, tmp_path / "out", "coco").losses
        assert not dict(open_dataset(folder).unread_paths())

    def test_images_that_are_not_there_are_no_split(self, tmp_path: Path) -> None:
        folder = self.write(tmp_path, "train", "test")
        second = json.loads((folder / "annotations/instances_test.json").read_text())["images"][0]["file_name"]
        (folder / "images" / second).unlink()
        assert find_dataset(folder).splits == ("train",)


@pytest.mark.parametrize("names", [("Train", "Validation"), ("TRAIN", "Test"), ("train", "Val"), ("Part", "Test")])
def test_subsets_in_upper_case(tmp_path: Path, names: tuple[str, str]) -> None:
    """A held-out subset is never trained on, and is one in the data YAML."""
    folder = write_cvat(tmp_path, {"a": element("box", label="cup", xtl=4, ytl=2, xbr=16, ybr=12), "b": ""})
    text = (folder / "annotations.xml").read_text()
    for name, subset in zip(("a.png", "b.png"), names, strict=True):
        text = text.replace(f'name="{name}"', f'name="{name}" subset="{subset}"', 1)
    (folder / "annotations.xml").write_text(text)
    assert find_dataset(folder).chosen_split() == names[0]
    if names[0] == "Part":  # which is no key of a data YAML
        return
    convert_dataset(folder, tmp_path / "out", "yolo")
    assert len(open_dataset(tmp_path / "out", "train")) == 1
    assert [*find_dataset(tmp_path / "out").splits] == ["train", "test" if names[1] == "Test" else "val"]


class TestSkeletons:
    LABELS = "".join(
        element("label", f"<name>{name}</name><type>{kind}</type>{parent}<attributes></attributes>")
        for name, kind, parent in (
            ("person", "skeleton", ""),
            *((joint, "points", "<parent>person</parent>") for joint in ("head", "tail")),
        )
    )

    @pytest.mark.parametrize(
        ("points", "box"),
        [
            ({"head": (5, 6)}, [5, 6, 6, 7]),
            ({"head": (5.5, 6.25)}, [5, 6, 6, 7]),
            ({"head": (40, 20)}, [39, 19, 40, 20]),
            ({"head": (5, 6), "tail": (5, 9)}, [5, 6, 6, 9]),
            ({"head": (5, 6), "tail": (7, 9)}, [5, 6, 7, 9]),
        ],
    )
    def test_joints_without_an_extent_have_the_box_of_their_pixel(
        self, tmp_path: Path, points: dict[str, tuple[float, float]], box: list[int]
    ) -> None:
        inside = "".join(
            element(
                "points",
                label=joint,
                outside=int(joint not in points),
                points=",".join(map(str, points.get(joint, (1, 1)))),
            )
            for joint in ("head", "tail")
        )
        folder = write_cvat(tmp_path, {"a": element("skeleton", inside, label="person")}, self.LABELS)
        sample = open_dataset(folder)[0]
        assert sample.boxes.tolist() == [box]
        assert sample.keypoints is not None
        assert (sample.keypoints[0, :, 2] > 0).sum() == len(points)
