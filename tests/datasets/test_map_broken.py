"""Errors in a dataset of maps are reported in one line that names the file and what to do."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import map_files
from map_files import save, save_photo, scene, write_yaml
from segpaste.datasets import DatasetError, check_dataset, convert_dataset, find_dataset, open_dataset
from segpaste.datasets.formats.maps.geometry import read_calibration
from segpaste.datasets.formats.maps.patterns import PathPattern

H, W = map_files.SIZE
PHOTOS = "photos: images/{name}.png\n"
SEMANTIC = "classes: [a, b]\nsemantic: {files: 'maps/{name}.png', void: [255]}\n"


def folder(root: Path, text: str, maps: dict[str, Any] | None = None) -> Path:
    """Write a photo, its maps and the declaration."""
    save_photo(root / "images" / "x.png", scene(0))
    for name, values in (maps or {}).items():
        save(root / name, values)
    write_yaml(root, text)
    return root


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("classes: [a]", "photos: expected this key, got none; add it"),
        (PHOTOS, "expected one of 'semantic', 'instances', 'depth', 'disparity', 'normals'; add it"),
        (PHOTOS + "semantic: {files: 'm/{name}.png'}", "expected 'classes', the names of the values of the maps"),
        (PHOTOS + SEMANTIC + "colour: red", "colour: expected no such key"),
        (PHOTOS + "depth: {files: 'd/{name}.png'}", "depth.unit: expected this key, got none; add it"),
        (PHOTOS + "depth: {files: 'd/{name}.png', unit: inch}", "depth.unit"),
        (PHOTOS + "normals: {files: 'd/{name}.png', axes: [right, up]}", "normals.axes"),
        (PHOTOS + "disparity: {files: 'd/{name}.png'}", "expected 'camera' with 'disparity'"),
        (PHOTOS + SEMANTIC + "things: [a]", "expected 'instances' with 'things'"),
        (PHOTOS + SEMANTIC + "camera: {fx: 3}", "camera: expected 'files', or 'fx', 'fy', 'cx' and 'cy'"),
        (
            "photos: images/{name.png\n" + SEMANTIC,
            "expected placeholders in braces such as {name}, got 'images/{name.png'",
        ),
        (
            PHOTOS + "classes: [a]\ninstances: {files: 'm/{name}/*.png', encoding: mask}",
            "expected 'class' in 'instances', or the placeholder {class} in its 'files'",
        ),
        (
            PHOTOS + "classes: [a]\ninstances: {files: 'm/{name}.png', encoding: number}",
            "expected 'class' in 'instances', or a semantic map",
        ),
        ("- photos", "expected keys such as"),
    ],
)
def test_a_declaration(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DatasetError, match=re.escape(message)) as caught:
        open_dataset(folder(tmp_path, text))
    assert str(tmp_path / "segpaste.yaml") in str(caught.value)
    assert "\n" not in str(caught.value)


COLORED = np.arange(29 * 43 * 3.0).reshape(29, 43, 3)
PHOTO = (np.arange(29 * 43 * 3) % 251).astype(np.uint8).reshape(29, 43, 3)
ZEROS = np.zeros((H, W), np.uint8)
NUMBERS = "classes: [a, b]\nthings: [b]\ninstances: {files: 'n/{name}.png', encoding: class_number, divisor: 10}\n"
DEPTH = "depth: {files: 'd/{name}.npy', unit: m}\n"


@pytest.mark.parametrize(
    ("text", "maps", "message"),
    [
        (
            SEMANTIC,
            {"maps/x.png": ZEROS + 7},
            "the ids of classes, 0, 1, or void ones, 255, got 7; add them to",
        ),
        (SEMANTIC, {"maps/x.png": ZEROS[:5]}, "x.png: expected 43 x 5 pixels as in the annotation file, got 43 x 29"),
        (SEMANTIC, {"maps/x.png": scene(0).image.permute(1, 2, 0).numpy()}, "if these are colours, declare 'encoding"),
        (
            SEMANTIC + DEPTH,
            {"maps/x.png": ZEROS, "d/x.npy": np.ones((H, W - 1))},
            "maps of one size, got 42 x 29, 43",
        ),
        (
            DEPTH,
            {"d/x.npy": np.arange(H * W * 3.0).reshape(H, W, 3)},
            "expected one number for each pixel, got float64 [29, 43, 3]",
        ),
        (DEPTH, {"d/x.npy": np.array([[b"a"]])}, "expected an array of numbers, got |S1"),
        (NUMBERS, {"n/x.png": ZEROS + 31}, "expected the ids of classes, 0, 1, or void ones, none, got 3"),
        (
            "classes: [a, b]\nthings: [b]\nsemantic: {files: 'maps/{name}.png'}\n"
            "instances: {files: 'n/{name}.png', encoding: class_number, divisor: 10}\n",
            {"maps/x.png": ZEROS, "n/x.png": ZEROS + 11},
            "expected maps of classes and of objects that agree, got 1247 pixels of another class, the first in row 0",
        ),
        (
            "classes: [a]\ninstances: {files: 'm/{class}/{name}.png', encoding: mask}\n",
            {"m/cup/x.png": ZEROS},
            "expected one of the classes a, got 'cup'; add it to 'classes'",
        ),
        (
            "classes: [a]\ninstances: {files: 'm/{name}_*.png', encoding: mask, class: a}\n",
            {"m/x_1.png": ZEROS, "m/x_2.png": ZEROS[1:]},
            "x_2.png: expected a mask of (29, 43) pixels like x_1.png, got [28, 43]",
        ),
        (
            "classes: [a]\nsemantic: {files: 'm/{name}_*.png'}\n",
            {"m/x_1.png": ZEROS, "m/x_2.png": ZEROS},
            "expected one file of 'semantic', got 2: m/x_1.png, m/x_2.png; make 'files' of 'semantic' more exact",
        ),
        (
            "classes: [{name: a, color: [0, 0, 0]}]\nsemantic: {files: 'maps/{name}.png', encoding: color}\n",
            {"maps/x.png": np.full((H, W, 3), 9, np.uint8)},
            "expected the colours of classes or void ones, got (9, 9, 9); add them",
        ),
    ],
)
def test_maps(tmp_path: Path, text: str, maps: dict[str, Any], message: str) -> None:
    photos = open_dataset(folder(tmp_path, PHOTOS + text, maps))
    with pytest.raises(DatasetError, match=re.escape(message)) as caught:
        photos[0]
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    folder(tmp_path, PHOTOS + SEMANTIC)
    with pytest.raises(DatasetError, match=r"files of 'semantic', such as maps/x\.png, found none for 1"):
        open_dataset(tmp_path)
    write_yaml(tmp_path, SEMANTIC + "photos: pictures/{name}.png")
    with pytest.raises(DatasetError, match=r"expected images pictures/\{name\}\.png, found none; correct 'photos'"):
        open_dataset(tmp_path)
    write_yaml(tmp_path, PHOTOS + "classes: names.txt\nsemantic: {files: 'maps/{name}.png'}")
    with pytest.raises(DatasetError, match=r"names\.txt: expected a list of class names, found no such file"):
        open_dataset(tmp_path)
    write_yaml(tmp_path, PHOTOS + SEMANTIC + "splits: {train: train.txt}")
    (tmp_path / "train.txt").write_text("x\ny\n")
    with pytest.raises(DatasetError, match="found no image of 1 of them, such as 'y'; correct the list"):
        open_dataset(tmp_path)
    write_yaml(tmp_path, SEMANTIC + "photos: images/{name}.*")
    save_photo(tmp_path / "images" / "x.jpg", scene(0))
    with pytest.raises(DatasetError, match=r"expected one image of this name, got images/x\.jpg, too"):
        open_dataset(tmp_path)


def test_files_that_break_off(tmp_path: Path) -> None:
    photos = open_dataset(folder(tmp_path, PHOTOS + SEMANTIC, {"maps/x.png": ZEROS}))
    path = tmp_path / "maps" / "x.png"
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(DatasetError, match=r"maps/x\.png: expected a map, could not decode it"):
        photos[0]
    path.write_text("no picture")
    with pytest.raises(DatasetError, match=r"maps/x\.png: expected an image that Pillow reads, got another file"):
        photos[0]


def test_arrays_of_numpy(tmp_path: Path) -> None:
    folder(tmp_path, PHOTOS + "depth: {files: 'd/{name}.npz', unit: m}")
    (tmp_path / "d").mkdir()
    path = tmp_path / "d" / "x.npz"
    np.savez(path, z=ZEROS, other=ZEROS)
    with pytest.raises(DatasetError, match="expected the name of one of its arrays, other, z, got None; set 'key'"):
        open_dataset(tmp_path)[0]
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(DatasetError, match=r"x\.npz: expected arrays of NumPy, could not read them"):
        open_dataset(tmp_path)[0]
    np.save(tmp_path / "d" / "x.npy", np.array([{"a": 1}]), allow_pickle=True)  # is never unpickled
    write_yaml(tmp_path, PHOTOS + DEPTH)
    with pytest.raises(DatasetError, match=r"x\.npy: expected an array of NumPy, could not read it"):
        open_dataset(tmp_path)[0]
    write_yaml(tmp_path, PHOTOS + "depth: {files: 'd/{name}.npy', key: z, unit: m}")
    with pytest.raises(DatasetError, match=r"expected no key with a \.npy file"):
        open_dataset(tmp_path)[0]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("k.txt", "1 2 3", "expected a 3 x 3 matrix or the four numbers fx fy cx cy, got 3 numbers"),
        ("k.txt", "focal length", "got no numbers"),
        ("k.txt", "500 0 320 0 510 240 0 0 2", "expected a matrix [[fx, 0, cx], [0, fy, cy], [0, 0, 1]]"),
        ("k.json", "{", "expected camera intrinsics, got text that does not parse"),
        ("k.yaml", "focal: 3", "expected fx, fy, cx, cy, or a 3 x 3 matrix, found none; write the four numbers"),
    ],
)
def test_cameras(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DatasetError, match=re.escape(message)):
        read_calibration(tmp_path / name)


CHECKS = (np.indices((H, W)).sum(0) % 4).astype(np.uint8)
TABLE = np.array([[0, 0, 0], [9, 0, 200], [0, 255, 7], [128, 64, 64]], np.uint8)
UNDECLARED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "masks": (
        {"images/a.png": PHOTO, "masks/a.png": CHECKS},
        ["classes: {0: background, 1: class_1, 2: class_2, 3: class_3}", "semantic: {files: 'masks/{name}.png'}"],
    ),
    "masks of other names, in upper case, with void": (
        {"images/a.png": PHOTO, "mask/gt_a_mask.PNG": np.where(CHECKS == 3, 255, CHECKS).astype(np.uint8)},
        ["semantic: {files: 'mask/gt_{name}_mask.PNG', void: [255]}"],
    ),
    "greys from black to white": (
        {"images/a.png": PHOTO, "masks/a.png": CHECKS * 85},
        ["classes: {0: background, 85: class_85, 170: class_170, 255: class_255}", "'masks/{name}.png'}}"],
    ),
    "PBM": (
        {"images/a.png": PHOTO, "masks/a.pbm": CHECKS > 1},
        ["classes: {0: background, 1: class_1}", "semantic: {files: 'masks/{name}.pbm'}"],
    ),
    "PGM in names": ({"1.png": PHOTO, "1_mask.pgm": CHECKS}, ["semantic: {files: '{name}_mask.pgm'}"]),
    "black and white": ({"images/a.png": PHOTO, "masks/a.png": CHECKS // 3 * 255}, ["{0: background, 255: class_255}"]),
    "colours": (
        {"images/a.png": PHOTO, "labels/a.png": TABLE[CHECKS]},
        ["{name: class_1, color: [0, 255, 7]}", "semantic: {files: 'labels/{name}.png', encoding: color}"],
    ),
    "numbers of objects": (
        {"images/a.png": PHOTO, "instances/a.png": CHECKS.astype(np.uint16) * 1001},
        ["instances: {files: 'instances/{name}.png', encoding: number, class: object}"],
    ),
    "a mask for each object": (
        {"images/a.png": PHOTO, "masks/a/1.png": CHECKS},
        ["instances: {files: 'masks/{name}/*', encoding: mask, class: object}"],
    ),
    "splits": (
        {"images/train/a.png": PHOTO, "depth/train/a.npy": CHECKS + 1.5, "normals/train/a.png": PHOTO},
        [
            "photos: 'images/{split}/{name}.*'",
            "depth: {files: 'depth/{split}/{name}.npy', unit: m}",
            "normals: {files: 'normals/{split}/{name}.png', axes: [right, up, backward]}",
        ],
    ),
    "splits outside": (
        {
            "train/images/a.png": PHOTO,
            "train/labels/a.png": CHECKS,
            "val/images/b.png": PHOTO,
            "val/labels/b.png": CHECKS,
        },
        ["photos: '{split}/images/{name}.*'", "semantic: {files: '{split}/labels/{name}.png'}"],
    ),
    "rgb and seg": ({"rgb/a.png": PHOTO, "seg/a.png": CHECKS}, ["'rgb/{name}.*'", "'seg/{name}.png'"]),
    "input and target": ({"Input/a.png": PHOTO, "Target/a.png": CHECKS}, ["'Input/{name}.*'", "'Target/{name}.png'"]),
    "side by side": (
        {"1.png": PHOTO, "1_mask.png": CHECKS, "2.png": PHOTO, "2_mask.png": CHECKS},
        ["photos: '{name}.png'", "semantic: {files: '{name}_mask.png'}"],
    ),
    "side by side in folders": (
        {"train/a.jpg": PHOTO, "train/a_gt.png": CHECKS, "val/b.jpg": PHOTO, "val/b_gt.png": CHECKS},
        ["photos: '{split}/{name}.jpg'", "semantic: {files: '{split}/{name}_gt.png'}"],
    ),
    "the same name beside it": ({"a.jpg": PHOTO, "a.png": CHECKS}, ["photos: '{name}.jpg'", "files: '{name}.png'"]),
    "splits in names of folders": (
        {
            "train_images/a.png": PHOTO,
            "train_masks/a.png": CHECKS,
            "val_images/b.png": PHOTO,
            "val_masks/b.png": CHECKS,
        },
        ["photos: '{split}_images/{name}.*'", "semantic: {files: '{split}_masks/{name}.png'}"],
    ),
    "a folder of maps after a split": (
        {"train/a.png": PHOTO, "train_masks/a_mask.png": CHECKS},
        ["photos: '{split}/{name}.*'", "semantic: {files: '{split}_masks/{name}_mask.png'}"],
    ),
    "words in both": (
        {"img_dir/train/a.png": PHOTO, "ann_dir/train/a.png": CHECKS},
        ["photos: 'img_dir/{split}/{name}.*'", "semantic: {files: 'ann_dir/{split}/{name}.png'}"],
    ),
    "words in both names": (
        {"image_1.png": PHOTO, "mask_1.png": CHECKS, "depth_1.png": CHECKS.astype(np.uint16)},
        ["photos: 'image_{name}.png'", "files: 'mask_{name}.png'", "depth: {files: 'depth_{name}.png', unit: mm}"],
    ),
    "other case": ({"images/IMG_1.JPG": PHOTO, "masks/img_1.png": CHECKS}, ["files: 'masks/{name}.png'"]),
    "other case side by side": ({"IMG_1.JPG": PHOTO, "img_1_mask.png": CHECKS}, ["'{name}.JPG'", "'{name}_mask.png'"]),
    "masks of objects in a folder for each image": (
        {"train/x1/images/x1.png": PHOTO, "train/x1/masks/m1.png": CHECKS, "train/x1/masks/m2.png": CHECKS},
        ["photos: '{split}/x1/images/{name}.*'", "instances: {files: '{split}/x1/masks/*.png', encoding: mask"],
    ),
    "folders of scenes": (
        {"rgb/one/x/a.png": PHOTO, "depth/one/x/a.png": CHECKS.astype(np.uint16)},
        ["photos: 'rgb/{folders}{name}.*'", "depth: {files: 'depth/{folders}{name}.png', unit: mm}"],
    ),
}


@pytest.mark.parametrize("case", UNDECLARED)
def test_undeclared_folders_show_what_to_write(tmp_path: Path, case: str) -> None:
    """The lines that are shown are a declaration that opens the folder as it is."""
    files, lines = UNDECLARED[case]
    for name, values in files.items():
        save(tmp_path / name, values)
    with pytest.raises(DatasetError, match=r"expected segpaste\.yaml with folders of maps") as caught:
        find_dataset(tmp_path)
    text = str(caught.value)
    assert [line for line in lines if line not in text] == []
    assert "\n" not in text  # commands print errors in one line
    write_yaml(tmp_path, text.partition("for example:")[2])
    photos = open_dataset(tmp_path, "train" if "{split}" in text else None)
    assert photos[0].canvas_size == (H, W)


@pytest.mark.parametrize("values", [(0, 1, 255), (0, 85, 255), (0, 11, 26, 255), (0, 50, 100, 255)])
def test_void_of_a_shown_declaration_is_asked_for(tmp_path: Path, values: tuple[int, ...]) -> None:
    """255 is void by custom, but may be a class, so the error asks for it."""
    save(tmp_path / "images/a.png", PHOTO)
    save(tmp_path / "masks/a.png", np.array(values, np.uint8)[CHECKS % len(values)])
    with pytest.raises(DatasetError, match=r"with what it calls void as a class if it is one, for example: .*void: \["):
        find_dataset(tmp_path)


@pytest.mark.parametrize(("image", "mask"), [("images/a.jpg", "masks/a.jpg"), ("a.png", "a_mask.jpeg")])
def test_maps_in_jpeg_are_refused(tmp_path: Path, image: str, mask: str) -> None:
    save(tmp_path / image, PHOTO)
    save(tmp_path / mask, CHECKS * 85)
    with pytest.raises(DatasetError, match=rf"got JPEG such as {mask}, .* save the maps as PNG") as caught:
        find_dataset(tmp_path)
    assert "\n" not in str(caught.value)
    (tmp_path / mask).unlink()
    save((tmp_path / mask).with_suffix(".png"), CHECKS * 85)
    with pytest.raises(DatasetError, match=r"found none; write it, for example"):
        find_dataset(tmp_path)


def test_other_folders_are_told_of_the_declaration(tmp_path: Path) -> None:
    for name, values in {"foo/a.png": PHOTO, "bar/a.png": CHECKS, "mask/b.png": CHECKS}.items():
        save(tmp_path / name, values)
    with pytest.raises(DatasetError, match=r"declare maps in segpaste\.yaml \(docs/guide/maps\.md\)"):
        find_dataset(tmp_path)


class TestNames:
    def test_maps_in_other_case(self, tmp_path: Path) -> None:
        """A map whose path differs in case is that of its image, if it can be no other's."""
        photos = ("img_1.png", "B.png", "a.png", "A.png")
        for name in photos:
            save(tmp_path / "images" / name, PHOTO)
        for name, value in {"IMG_1.png": 1, "b.png": 0, "A.png": 1, "c.png": 0}.items():
            save(tmp_path / "maps" / name, np.full((H, W), value, np.uint8))
        write_yaml(tmp_path, PHOTOS + SEMANTIC)
        with pytest.warns(UserWarning, match="left out 1 images: 1 without semantic"):
            found = open_dataset(tmp_path)
        seen = {found.file_name(i).split("/")[-1]: int(found[i].semantic_map[0, 0]) for i in range(len(found))}
        assert [seen.get(name) for name in photos] == [1, 0, None, 1]

    def test_a_map_is_no_image(self, tmp_path: Path) -> None:
        """Maps that the pattern of the images matches are not images without a map, nor is their folder a split."""
        text = "photos: '{split}/{name}.png'\nclasses: [a, b, c, d]\nsemantic: {files: '{split}_masks/{name}.png'}"
        for name in ("train/x.png", "train/y.png", "val/z.png"):
            save(tmp_path / name, PHOTO)
            save(tmp_path / name.replace("/", "_masks/"), CHECKS)
        write_yaml(tmp_path, text)
        assert find_dataset(tmp_path).splits == ("train", "val")
        write_yaml(tmp_path, text.replace("{split}/", "train/").replace("{split}_masks/{name}", "train/{name}_m"))
        for name in "xy":
            save(tmp_path / f"train/{name}_m.png", CHECKS)
        with warnings.catch_warnings(action="error"):
            assert len(open_dataset(tmp_path)) == 2


def test_what_datasets_saved_is_named(tmp_path: Path) -> None:
    (tmp_path / "dataset_dict.json").write_text("{}")
    with pytest.raises(DatasetError, match=r"Hugging Face datasets saved, .*HubSamples, which takes their names"):
        find_dataset(tmp_path)


def test_linked_folders(tmp_path: Path) -> None:
    """Folders of any depth are followed through links, and a link to a folder above ends."""
    for name in ("elsewhere/b", "images/train/a"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "x.png").touch()
    (tmp_path / "images/val").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (tmp_path / "images/train/a/up").symlink_to(tmp_path / "images", target_is_directory=True)
    found = dict(PathPattern("images/{split}/{folders}{name}.*").find(tmp_path))
    assert found == {
        "images/train/a/x.png": {"split": "train", "folders": "a/", "name": "x"},
        "images/val/b/x.png": {"split": "val", "folders": "b/", "name": "x"},
    }


STRAYS: dict[str, tuple[dict[str, str], str]] = {
    "declared": ({"x": "images/x.png", "map": "maps/{}.png"}, PHOTOS + SEMANTIC),
    "camvid": ({"x": "train/x.png", "map": "trainannot/{}.png"}, ""),
    "ade20k": ({"x": "images/training/x.jpg", "map": "annotations/training/{}.png"}, ""),
}


@pytest.mark.parametrize("name", STRAYS)
def test_maps_of_missing_images_are_counted(tmp_path: Path, name: str) -> None:
    (files, text), root, out = STRAYS[name], tmp_path / "maps", tmp_path / "out"
    save_photo(root / files["x"], scene(0))
    for stem in ("x", "y"):
        save(root / files["map"].format(stem), np.zeros((H, W), np.uint8))
    if text:
        write_yaml(root, text)
    split = None if text else "train" if name == "camvid" else "training"
    lost = convert_dataset(root, out, "label-maps", splits=split and [split]).losses
    assert lost["files of 'semantic' without an image"] == 1
    found = check_dataset(open_dataset(root, split=split)).findings
    stray = root / files["map"].format("y")
    assert [(one.file, one.kind) for one in found if one.kind == "stray_labels"] == [(str(stray), "stray_labels")]
    stray.unlink()
    assert not convert_dataset(root, tmp_path / "again", "label-maps", splits=split and [split]).losses
