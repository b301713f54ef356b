"""Names of classes in a data YAML that YAML does not read as text."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from segpaste import augment_dataset, convert_dataset
from segpaste.datasets import open_dataset
from yolo_files import SQUARE, photo

READ = {"no": "False", "yes": "True", "010": "8", "12:30": "750", "null": "None", "1.10": "1.1", "~": "None"}


def write(folder: Path, names: str) -> Path:
    photo(folder / "images/train/1.png")
    photo(folder / "images/train/2.png")
    (folder / "labels/train").mkdir(parents=True)
    for i in (1, 2):
        (folder / f"labels/train/{i}.txt").write_text(f"{SQUARE}\n")
    (folder / "data.yaml").write_text(f"train: images/train\nval: images/train\nnames: {names}\n")
    return folder


@pytest.mark.parametrize("is_table", [False, True])
@pytest.mark.parametrize("to", ["coco", "yolo", "voc"])
@pytest.mark.filterwarnings("ignore:data.yaml")
def test_they_are_named(to: str, is_table: bool, tmp_path: Path) -> None:
    """They are what trainers read; what is written there is told."""
    names = ", ".join(f"{i}: {name}" for i, name in enumerate(READ)) if is_table else ", ".join(READ)
    folder = write(tmp_path / "in", f"{{{names}}}" if is_table else f"[{names}]")
    told = {
        f"name {text!r} of a class of the data YAML, which YAML reads as {name!r}": 1 for text, name in READ.items()
    }
    assert open_dataset(folder).class_names == tuple(READ.values())
    assert told.items() <= convert_dataset(folder, tmp_path / "out", to).losses.items()
    done = augment_dataset(folder, tmp_path / "more", num=2, gallery=0, layout=to)
    assert told.items() <= done.left_out.items()


@pytest.mark.filterwarnings("ignore:data.yaml")
def test_numbers_and_quoted_names_are_not(tmp_path: Path) -> None:
    names = ["no", "8", 0, 1.5, "cup", "null", "a: b"]
    folder = write(tmp_path / "in", yaml.safe_dump(names, default_flow_style=True).strip())
    assert open_dataset(folder).class_names == tuple(map(str, names))
    assert not any("YAML reads" in what for what in convert_dataset(folder, tmp_path / "out", "coco").losses)
