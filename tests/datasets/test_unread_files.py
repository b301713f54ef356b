"""Files that belong to no image of a dataset are losses by name: images without annotations, maps beside no image."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
from coco_files import annotation_row, image_row, write_coco
from drawn_files import photo, write_cvat, write_label_studio, write_labelme, write_via, write_voc

from ndjson_files import write_ndjson
from segpaste.cli import main
from segpaste.datasets import check_dataset, convert_dataset, open_dataset
from segpaste.datasets.formats.registry import find_dataset
from yolo_files import write_yolo

UNLISTED = "image files that the annotations do not list"
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def rgbd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An augmented dataset of scenes: tables, maps of segments, depth, normals and cameras."""
    out = tmp_path_factory.mktemp("rgbd") / "out"
    assert main(["augment", "scenes", "--out", str(out), "--num", "3", "--size", "40", "--gallery", "0"]) == 0
    return out


def kinds(path: Path, split: str | None = None, **options: Any) -> dict[str, list[str]]:
    """Return the files of the findings of a check about unread files, relative to the dataset, by kind."""
    found: dict[str, list[str]] = {}
    for finding in check_dataset(open_dataset(path, split, **options)).findings:
        if finding.kind in ("stray_labels", "unlisted_photo"):
            assert finding.file is not None
            found.setdefault(finding.kind, []).append(str(Path(finding.file).relative_to(path)))
    return found


def write_folder(path: Path) -> Path:
    """Write a COCO folder with two images."""
    rows = [annotation_row(n, n, [[1, 1, 9, 1, 9, 9]]) for n in (1, 2)]
    path.mkdir(exist_ok=True)
    write_coco(path, [image_row(n, (20, 30)) for n in (1, 2)], rows)
    (path / "photos").rename(path / "images")
    return path


class TestMaps:
    OURS = ("depth/{}.npy", "depth_valid/{}.png", "normals/{}.npy", "intrinsics/{}.txt")

    def copied(self, rgbd: Path, folder: Path, *, image: bool) -> Path:
        """Return a copy with maps of an image that no table lists, and possibly its file."""
        shutil.copytree(rgbd, folder)
        for name in (*self.OURS, "panoptic/{}.png", *(["images/{}.png"] if image else [])):
            shutil.copy(folder / name.format("000001"), folder / name.format("stray"))
        return folder

    @pytest.mark.parametrize("format", ["coco", "coco-panoptic"])
    @pytest.mark.parametrize("image", [False, True])
    def test_of_no_listed_image(self, format: str, image: bool, rgbd: Path, tmp_path: Path, capsys: Any) -> None:
        path = self.copied(rgbd, tmp_path / "in", image=image)
        wanted = {f"files of '{name.split('/')[0]}' without an image": 1 for name in self.OURS}
        wanted |= {UNLISTED: 1} if image else {}
        wanted |= {"maps of segments that the annotations do not list": 1} if format == "coco-panoptic" else {}
        words = [str(path), "--from", format]
        assert main(["convert", *words, "--to", "coco-panoptic", "--out", str(tmp_path / "out"), "--strict"]) == 1
        printed = capsys.readouterr()
        assert all(what in printed.out + printed.err for what in wanted)
        losses = convert_dataset(path, tmp_path / "again", "coco-panoptic", format=format).losses
        assert {what: num for what, num in losses.items() if "files" in what or "maps of seg" in what} == wanted
        words += ["--num", "2", "--gallery", "0", "--out", str(tmp_path / "made")]
        assert main(["augment", *words]) == 0
        said = json.loads((tmp_path / "made/annotations.json").read_text())["info"]["segpaste"]["left_out"]
        assert wanted.items() <= said.items()
        found = kinds(path, format=format)
        strays = {name.format("stray") for name in self.OURS}
        strays |= {"panoptic/stray.png"} if format == "coco-panoptic" else set()
        assert set(found["stray_labels"]) == strays
        assert found.get("unlisted_photo") == (["images"] if image else None)

    def test_of_listed_images_that_are_not_read(self, rgbd: Path, tmp_path: Path) -> None:
        """The first image decides which maps a dataset has."""
        shutil.copytree(rgbd, tmp_path / "in")
        (tmp_path / "in/normals/000001.npy").unlink()
        losses = convert_dataset(tmp_path / "in", tmp_path / "out", "coco", format="coco").losses
        assert losses["files of 'normals' that are not read"] == 2

    def test_of_another_split(self, rgbd: Path, tmp_path: Path) -> None:
        """Splits may share a folder of maps; nothing is lost, and a stray file is counted once."""
        path = tmp_path / "in"
        shutil.copytree(rgbd, path)
        tables = json.loads((path / "annotations.json").read_text())
        (path / "annotations").mkdir()
        for split, ids in (("train", {1, 2}), ("val", {3})):
            images = [row for row in tables["images"] if row["id"] in ids]
            rows = [row for row in tables["annotations"] if row["image_id"] in ids]
            text = json.dumps({**tables, "images": images, "annotations": rows})
            (path / f"annotations/instances_{split}.json").write_text(text)
            for row in images:
                (path / split).mkdir(exist_ok=True)
                (path / "images" / row["file_name"]).rename(path / split / row["file_name"])
        for name in ("annotations.json", "panoptic.json"):
            (path / name).unlink()
        shutil.rmtree(path / "images")
        assert not {what for what in convert_dataset(path, tmp_path / "out", "coco").losses if "files" in what}
        assert kinds(path, "train") == kinds(path, "val") == {}
        again = convert_dataset(tmp_path / "out", tmp_path / "again", "coco")
        assert not {what for what in again.losses if "files" in what}
        shutil.copy(path / "depth/000001.npy", path / "depth/stray.npy")
        for number, splits in enumerate((None, ["train"], ["val"])):
            losses = convert_dataset(path, tmp_path / f"stray{number}", "coco", splits=splits).losses
            assert {what: num for what, num in losses.items() if "files" in what} == {
                "files of 'depth' without an image": 1
            }

    def test_folders_that_only_a_declaration_reads(self, tmp_path: Path) -> None:
        path = write_folder(tmp_path)
        photo(path / "semantic/1.png")
        assert convert_dataset(path, tmp_path / "out", "coco").losses == {"folder 'semantic'": 1}

    def test_copies_of_a_dataset_know_them(self, rgbd: Path, tmp_path: Path) -> None:
        """As in spawned workers."""
        photos = open_dataset(self.copied(rgbd, tmp_path / "in", image=True))
        assert photos.unread_paths()
        assert pickle.loads(pickle.dumps(photos)).unread_paths() == photos.unread_paths()


def pairs(folder: Path) -> Path:
    """Write images/ and labels/ of labelme."""
    write_labelme(folder / "images")
    (folder / "labels").mkdir()
    for file in (folder / "images").glob("*.json"):
        file.rename(folder / "labels" / file.name)
    return folder


def flat_voc(folder: Path) -> Path:
    """Write XML files beside their images."""
    write_voc(folder / "tree")
    for file in [*folder.glob("tree/JPEGImages/*"), *folder.glob("tree/Annotations/*")]:
        file.rename(folder / file.name)
    shutil.rmtree(folder / "tree")
    return folder


def roboflow(folder: Path) -> Path:
    """Write one split."""
    write_folder(folder)
    (folder / "images").rename(folder / "train")
    (folder / "annotations.json").rename(folder / "train/_annotations.coco.json")
    return folder


FOLDERS: dict[Any, list[str]] = {
    write_labelme: ["."],
    pairs: ["images", "images/more"],
    flat_voc: ["."],
    write_voc: ["JPEGImages"],
    write_cvat: ["images", "images/more"],
    write_label_studio: ["images", "images/more"],
    write_via: ["."],
    write_ndjson: ["images/train"],
    write_folder: ["images", "images/more"],
    roboflow: ["train", "train/more"],
}
"""Folders of each format in which an image may be overlooked."""
BOTH_KINDS = (write_labelme, pairs, write_cvat, write_label_studio)


class TestImages:
    @pytest.mark.parametrize("write", FOLDERS)
    def test_without_annotations(self, write: Any, tmp_path: Path, capsys: Any) -> None:
        path = tmp_path / "in"
        path.mkdir()
        write(path)
        folders = FOLDERS[write]
        task = {"task": "segment"} if write in BOTH_KINDS else {}
        assert UNLISTED not in convert_dataset(path, tmp_path / "whole", "coco", **task).losses
        assert kinds(path, **task) == {}
        for folder in folders:
            photo(path / folder / "stray.jpg")
            photo(path / folder / ".hidden.jpg")
        losses = convert_dataset(path, tmp_path / "out", "coco", **task).losses
        assert losses[UNLISTED] == len(folders)
        assert sorted(kinds(path, **task)["unlisted_photo"]) == folders
        words = ["augment", str(path), "--num", "1", "--gallery", "0", "--out", str(tmp_path / "made")]
        words += ["--task", "segment"] if task else ["source.mask_from=boxes"] if write is flat_voc else []
        assert main(words) == 0
        assert UNLISTED in capsys.readouterr().out

    def test_of_another_split(self, tmp_path: Path) -> None:
        """Lists of VOC share a folder; an image that is in none is lost, whichever split is read."""
        path = write_voc(tmp_path / "in")
        for name, lines in (("train", "a"), ("val", "b\nc")):
            (path / "ImageSets/Segmentation").mkdir(parents=True, exist_ok=True)
            (path / f"ImageSets/Segmentation/{name}.txt").write_text(lines)
        assert UNLISTED not in convert_dataset(path, tmp_path / "one", "coco", splits=["train"]).losses
        photo(path / "JPEGImages/stray.png")
        for number, splits in enumerate((["train"], ["val"], None)):
            losses = convert_dataset(path, tmp_path / f"out{number}", "coco", splits=splits).losses
            assert losses[UNLISTED] == 1

    def test_beside_a_file(self, tmp_path: Path) -> None:
        """The file says what the dataset is; check remarks on others in the folder."""
        path = write_folder(tmp_path / "in")
        photo(path / "images/stray.png")
        file, images = path / "annotations.json", path / "images"
        assert not convert_dataset(file, tmp_path / "out", "coco", images_dir=images).losses
        found = check_dataset(open_dataset(file, images_dir=images)).findings
        assert "unlisted_photo" in [finding.kind for finding in found]

    def test_of_yolo_are_images_without_objects(self, tmp_path: Path) -> None:
        path = write_yolo(tmp_path / "in").parent
        num = len(list(path.rglob("images/train/*")))
        photo(path / "images/train/stray.png")
        done = convert_dataset(path, tmp_path / "out", "coco", splits=["train"])
        assert done.num_photos == {"train": num + 1}
        assert UNLISTED not in done.losses


def nested_labelme(folder: Path) -> None:
    """Write files of labelme in the folder and below."""
    write_labelme(folder)
    write_labelme(folder / "more/batch")


def nested_voc(folder: Path) -> None:
    """Write XML files beside their images, in a split and below another folder."""
    flat_voc(folder / "train")
    flat_voc(folder / "val/batch")


def half_yaml(folder: Path) -> None:
    """Write a YOLO dataset whose YAML leaves a split out, and lists of names that are no labels."""
    for split in ("train", "val"):
        photo(folder / f"images/{split}/{split}.png")
        (folder / f"labels/{split}").mkdir(parents=True)
        (folder / f"labels/{split}/{split}.txt").write_text("0 .5 .5 .2 .2\n")
    (folder / "train.txt").write_text("images/train/train.png\n")
    (folder / "README.txt").write_text("5 images, 2 of them with cups\n")
    (folder / "data.yaml").write_text("train: images/train\nnames: [cup]\n")


def split_coco(folder: Path, prefix: str = "instances") -> None:
    """Write two splits in COCO's form; the images of one are missing."""
    write_folder(folder)
    tables = (folder / "annotations.json").read_text()
    (folder / "annotations.json").unlink()
    (folder / "images").rename(folder / "train")
    (folder / "annotations").mkdir()
    for split in ("train", "val"):
        (folder / f"annotations/{prefix}_{split}.json").write_text(tables)


def split_lvis(folder: Path) -> None:
    """Write `split_coco` with the names of LVIS."""
    split_coco(folder, "lvis")


def images_alone(folder: Path) -> None:
    """Write a split of COCO, and a folder of images without a file."""
    split_coco(folder)
    (folder / "annotations/instances_val.json").unlink()
    photo(folder / "test/a.png")


def whole_and_split(folder: Path) -> None:
    """Write annotations.json beside a split of COCO, which is not read."""
    split_coco(folder / "other")
    (folder / "other/annotations").rename(folder / "annotations")
    (folder / "other/train").rename(folder / "val")
    (folder / "annotations/instances_train.json").unlink()
    (folder / "other").rmdir()
    write_folder(folder)


def copied_roboflow(folder: Path) -> None:
    """Write a split whose file has the name that a browser gives to a second download."""
    roboflow(folder)
    shutil.copytree(folder / "train", folder / "valid")
    (folder / "valid/_annotations.coco.json").rename(folder / "valid/_annotations.coco (1).json")


def boxes_without_image(folder: Path) -> None:
    """Write a VOC dataset with the boxes of an image that is in no list."""
    write_voc(folder)
    (folder / "ImageSets/Main").mkdir(parents=True, exist_ok=True)
    stems = sorted(path.stem for path in (folder / "Annotations").glob("*.xml"))
    shutil.copy(folder / f"Annotations/{stems[0]}.xml", folder / "Annotations/zz.xml")
    (folder / "ImageSets/Main/train.txt").write_text("\n".join(stems))


LABELS = "annotation files that no split reads"
IMAGES = "image files that no split reads"
UNREAD: dict[Any, tuple[dict[str, Any], tuple[str, ...]]] = {
    nested_labelme: ({"task": "segment"}, (LABELS, IMAGES)),
    nested_voc: ({}, (LABELS, IMAGES)),
    half_yaml: ({}, (f"{LABELS}: labels/val/val.txt", f"{IMAGES}: images/val/val.png")),
    split_coco: ({}, (f"{LABELS}: annotations/instances_val.json",)),
    split_lvis: ({}, (f"{LABELS}: annotations/lvis_val.json",)),
    images_alone: ({}, (f"{IMAGES}: test/a.png",)),
    whole_and_split: ({}, (f"{LABELS}: annotations/instances_val.json", f"{IMAGES}: val/1.png, val/2.png")),
    copied_roboflow: ({}, (f"{LABELS}: valid/_annotations.coco (1).json", f"{IMAGES}: valid/1.png, valid/2.png")),
    boxes_without_image: ({}, (f"{LABELS}: Annotations/zz.xml",)),
}


class TestWhatNoSplitReads:
    """Files of a format below the folder of a dataset that none of its splits reads."""

    @pytest.mark.parametrize("write", UNREAD)
    def test_of_each_format(self, write: Any, tmp_path: Path, capsys: Any) -> None:
        path, (options, wanted) = tmp_path / "in", UNREAD[write]
        path.mkdir()
        write(path)
        losses = convert_dataset(path, tmp_path / "out", "coco", **options).losses
        found = sorted(what for what in losses if "that no split reads" in what)
        assert [what for what, start in zip(found, sorted(wanted), strict=True) if not what.startswith(start)] == []
        words = ["convert", str(path), "--to", "coco", "--out", str(tmp_path / "strict"), "--strict"]
        assert main([*words, *(["--task", "segment"] if options else [])]) == 1
        kinds_there = {"stray_labels"} if LABELS in wanted[0] else set()
        kinds_there |= {"unlisted_photo"} if IMAGES in wanted[-1] else set()
        first = next(iter(open_splits(path)), None)
        assert kinds_there <= {*kinds(path, first, **options)}

    def test_maps_of_a_split_without_images(self, tmp_path: Path) -> None:
        path = write_folder(tmp_path / "source")
        convert_dataset(path, tmp_path / "in", "label-maps")
        split = next((tmp_path / "in/semantic").iterdir())
        shutil.copytree(split, split.with_name("zz"))
        losses = convert_dataset(tmp_path / "in", tmp_path / "out", "label-maps").losses
        assert losses["files of 'semantic' without an image"] == 2

    def test_other_files_are_not_counted(self, tmp_path: Path) -> None:
        """Descriptions, unfinished runs, other JSON, and the files of a split that is not converted."""
        path = tmp_path / "in"
        path.mkdir()
        split_coco(path)
        shutil.copytree(path / "train", path / "val")
        photo(path / "overview.png")
        photo(path / "out.partial/files/train/1.png")
        (path / "stats.json").write_text('{"images": 3}')
        (path / "README.txt").write_text("1 2 3 4 5\n")
        for splits in (None, ["train"], ["val"]):
            out = tmp_path / "-".join(["out", *(splits or ["all"])])
            assert convert_dataset(path, out, "coco", splits=splits).losses == {}
        assert kinds(path, "train") == kinds(path, "val") == {}

    @pytest.mark.parametrize("to", ["coco", "lvis", "coco-panoptic", "roboflow", "yolo", "voc", "label-maps"])
    @pytest.mark.parametrize("write", [split_coco, write_voc])
    def test_a_written_dataset_in_the_folder_of_its_source(self, write: Any, to: str, tmp_path: Path) -> None:
        """It is named as a dataset; its files are not named one by one."""
        path = tmp_path / "in"
        path.mkdir()
        write(path)
        before = dict(convert_dataset(path, path / "more/out", to).losses)
        after = dict(convert_dataset(path, tmp_path / "again", to).losses)
        assert after.pop("files of another dataset in 'more/out', which is not read") > 0
        assert after == before
        assert kinds(path, next(iter(open_splits(path)), None)).keys() == {"stray_labels"}

    def test_an_augmented_dataset_in_the_folder_of_its_source_is_left_out(self, tmp_path: Path) -> None:
        path = tmp_path / "in"
        path.mkdir()
        write_voc(path)
        for layout in ("coco", "yolo", "voc"):
            words = ["--layout", layout, "--out", str(path / layout), "--num", "3", "--gallery", "1"]
            assert main(["augment", str(path), *words]) == 0
        assert convert_dataset(path, tmp_path / "out", "voc").losses == {}
        assert kinds(path) == {}


def open_splits(path: Path) -> list[str]:
    """Return the names of the splits of a dataset; empty without splits."""
    return [split for split in find_dataset(path).splits if split]
