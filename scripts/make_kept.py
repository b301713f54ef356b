#!/usr/bin/env python3
"""Write a dataset, a bank, replay records and unfinished runs of this version, which later versions must read.

    python scripts/make_kept.py tests/golden/kept

`scripts/golden_datasets.py` opens, replays and resumes them. Keep what is there: files of a newer version go into a
folder beside them. Everything is made from the scenes of segpaste, by its commands. The unfinished runs name a folder
of the dataset that does not exist, as runs that were moved do.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import segpaste
from segpaste import cli
from segpaste.datasets import SceneConfig, SceneDataset

SIDE_PX, SEED = 32, 11
SPLITS = {"train": 4, "val": 3}
AUGMENT = ["--num", "10", "--seed", "2", "--gallery", "1", "min_area_px=4", "placement.grouping=instance"]
"""Arguments of the unfinished run and of the records, after the dataset and ``--out``."""
OF_BANK = ["--num", "3", "--seed", "4", "--gallery", "0", "min_area_px=4", "source.crops_per_target=2"]
MOVED_FROM = "/data/scenes"


def main(folder: Path) -> None:
    """Write the files."""
    folder.mkdir(parents=True)
    dataset = folder / "dataset"
    write_dataset(dataset)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        run("bank", "build", dataset, "--split", "train", "--out", folder / "bank", "--crop-size", "16")
        run("augment", dataset, "--out", scratch / "whole", *AUGMENT)
        shutil.copy(scratch / "whole" / "replay.jsonl", folder / "replay.jsonl")
        run("augment", dataset, "--bank", folder / "bank", "--out", scratch / "pasted", *OF_BANK)
        shutil.copy(scratch / "pasted" / "replay.jsonl", folder / "replay_of_bank.jsonl")
        run("augment", dataset, "--out", scratch / "half", *AUGMENT, "--shard", "1/2")
        shutil.move(scratch / "half.shards" / "001-of-002", folder / "augmented.partial")
        broken = dataset / "val" / "0.png"
        content = broken.read_bytes()
        broken.write_bytes(content[: len(content) // 2])
        run("convert", dataset, "--to", "yolo", "--out", folder / "converted", code=2)
        broken.write_bytes(content)
    public = segpaste.__version__.partition("+")[0]
    for path in (*folder.glob("*.partial/run.json"), *folder.glob("*.partial/parts/*"), *folder.glob("*.jsonl")):
        text = path.read_text().replace(str(dataset.resolve()), MOVED_FROM)
        path.write_text(text.replace(segpaste.__version__, public))


def run(*words: Any, code: int = 0) -> None:
    """Run a command."""
    if (found := cli.main([str(word) for word in words])) != code:
        raise SystemExit(f"{words}: expected the exit code {code}, got {found}")


def write_dataset(folder: Path) -> None:
    """Write scenes in the folders of COCO."""
    (folder / "annotations").mkdir(parents=True)
    for number, (split, num) in enumerate(SPLITS.items()):
        scenes = SceneDataset(num, SceneConfig(height=SIDE_PX, width=SIDE_PX), SEED + number)
        things = [label for label, kind in scenes.schema.classes.items() if kind == "thing"]
        (folder / split).mkdir()
        images, annotations = [], list[dict[str, Any]]()
        for index in range(num):
            scene = scenes[index]
            Image.fromarray(scene.image.permute(1, 2, 0).numpy()).save(folder / split / f"{index}.png")
            images.append({"id": index + 1, "file_name": f"{index}.png", "height": SIDE_PX, "width": SIDE_PX})
            assert scene.instance_masks is not None
            for label, mask in zip(scene.labels.tolist(), scene.instance_masks.numpy(), strict=True):
                annotations.append(annotation(len(annotations) + 1, index + 1, label + 1, mask))
        categories = [{"id": label + 1, "name": scenes.class_names[label]} for label in things]
        tables = {"images": images, "annotations": annotations, "categories": categories}
        (folder / "annotations" / f"instances_{split}.json").write_text(json.dumps(tables))


def annotation(number: int, image: int, category: int, mask: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return the entry of an object, with run lengths."""
    rows, columns = np.nonzero(mask)
    values = np.concatenate([[0], mask.T.ravel().astype(np.int8), [0]])
    edges = [0, *np.flatnonzero(np.diff(values)).tolist(), mask.size]
    box = [columns.min(), rows.min(), columns.max() + 1 - columns.min(), rows.max() + 1 - rows.min()]
    return {
        "id": number,
        "image_id": image,
        "category_id": category,
        "segmentation": {"size": list(mask.shape), "counts": np.diff(edges).tolist()},
        "area": int(mask.sum()),
        "bbox": [int(edge) for edge in box],
        "iscrowd": 0,
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
