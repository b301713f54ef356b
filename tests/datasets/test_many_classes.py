"""Label maps with more classes than a semantic map of a sample holds: void stays void, and what is lost is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from on_disk import noise
from segpaste import augment_dataset, convert_dataset, replay_dataset

SIZE, NUM = (24, 32), 3
WITHOUT_OBJECT = "pixels of classes without an object, of maps with more classes than samples hold, in images"
VOID = "void pixels of maps with more classes than samples hold, in images"


def dataset(folder: Path, *, stuff: bool = True, void: bool = True) -> Path:
    """Write label maps of 16 bits with 400 classes, two objects in an image, and stuff and void around them."""
    semantic, objects = np.zeros(SIZE, np.uint16), np.zeros(SIZE, np.uint8)
    semantic[:6] = 300 if stuff else 0
    semantic[20:] = 65535 if void else 0
    for number, left in enumerate((3, 18), start=1):
        semantic[8:16, left : left + 8], objects[8:16, left : left + 8] = 1, number
    for i in range(NUM):
        for name, values in (("images", noise(SIZE, i)), ("semantic", semantic), ("instances", objects)):
            (folder / name / "train").mkdir(parents=True, exist_ok=True)
            Image.fromarray(values).save(folder / name / "train" / f"{i}.png")
    names = ["background", "cup", *(f"c{i}" for i in range(2, 400))]
    (folder / "classes.txt").write_text("\n".join(names) + "\n")
    return folder


def voids(out: Path) -> list[bool]:
    """Whether the void of each written map is where it was, in pixels that no object covers."""
    found = []
    for path in sorted((out / "semantic").rglob("*.png")):
        values = np.array(Image.open(path))
        objects = np.array(Image.open(out / "instances" / path.relative_to(out / "semantic")))
        is_void = np.broadcast_to(np.arange(SIZE[0])[:, None] >= 20, SIZE)
        found.append(bool(np.array_equal(values[objects == 0] == 65535, is_void[objects == 0])))
    return found


@pytest.mark.parametrize("to", ["label-maps", "coco", "yolo", "lvis", "roboflow"])
def test_converted(to: str, tmp_path: Path) -> None:
    summary = convert_dataset(dataset(tmp_path / "in"), tmp_path / "out", to)
    lost = {key: num for key, num in summary.losses.items() if "more classes" in key}
    assert lost == {WITHOUT_OBJECT: NUM, **({} if to == "label-maps" else {VOID: NUM})}
    if to == "label-maps":
        assert voids(tmp_path / "out") == [True] * NUM


def test_nothing_is_named_where_nothing_is_lost(tmp_path: Path) -> None:
    assert convert_dataset(dataset(tmp_path / "in", stuff=False, void=False), tmp_path / "out", "coco").losses == {}


@pytest.mark.parametrize(("size", "preset"), [((48, 64), None), ((40, 40), None), ((48, 64), "mmdet")])
def test_void_is_resized_with_its_image(size: tuple[int, int], preset: str | None, tmp_path: Path) -> None:
    """Void has the place that a class in the same pixels has, whatever the size, the flip and the window."""
    given, out = dataset(tmp_path / "in"), tmp_path / "out"
    few = dataset(tmp_path / "few", stuff=False)
    (few / "classes.txt").write_text("background\ncup\n")
    for path in (few / "semantic").rglob("*.png"):
        values = np.array(Image.open(path))
        Image.fromarray(np.where(values == 65535, 255, values).astype(np.uint8)).save(path)
    options = {"num": 2 * NUM, "size": size, "preset": preset, "layout": "label-maps", "gallery": 0}
    overrides = {"placement.paste_prob": 0}
    augment_dataset(given, out, **options, overrides=overrides)
    augment_dataset(few, tmp_path / "others", **options, overrides=overrides)
    num_void = 0
    for path in sorted((out / "semantic").rglob("*.png")):
        name = path.relative_to(out)
        values, wanted = (np.array(Image.open(folder / name)) for folder in (out, tmp_path / "others"))
        is_padding = np.array(Image.open(out / "images" / path.relative_to(out / "semantic"))).max(-1) == 0
        assert ((values == 65535) == (wanted == 255))[~is_padding].all()
        num_void += int((values == 65535).sum())
    assert num_void


@pytest.mark.parametrize(("layout", "size"), [("label-maps", None), ("label-maps", 32), ("coco", 32), ("coco", None)])
def test_augmented(layout: str, size: int | None, tmp_path: Path) -> None:
    given, out = dataset(tmp_path / "in"), tmp_path / "out"
    overrides = {"min_area_px": 1, "placement.scale_range": [1, 1]}
    summary = augment_dataset(given, out, num=NUM, layout=layout, size=size, gallery=0, overrides=overrides)
    is_held = layout == "label-maps"
    assert summary.left_out == {WITHOUT_OBJECT: NUM, **({} if is_held else {VOID: NUM})}
    if is_held and size is None:
        assert voids(out) == [True] * NUM
    again = replay_dataset(out, given, tmp_path / "again")
    assert again.left_out == summary.left_out
    assert replay_dataset(out, given, check=out).is_identical
