#!/usr/bin/env bash
# RF-DETR and LightlyTrain take the classes of the training file for all files of COCO, so a dog is validated as a cat.
#
# Most expect: each COCO file has its table of categories, and an annotation is of the class that its own file names. Tools
# that export each split by itself number the classes in the order in which they meet them.
# What happens: the ids of the training file become the classes of the model, which is right. But annotations of the
# validation file are joined by their id alone, and the names in that file are not read: id 1 is "cat" in one file and "dog"
# in the other, and the dog is validated as a cat. There is no error and no warning.
#
# Why it matters: validation tells of a bad model where there is a good one, so that its best weights are not kept and early
# stopping ends the run. Join the files by name before training.
#
# Prints versions and the classes, and exits with 1 if the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check torch==2.15.0 numpy==2.4.6 pillow==13.0.0 \
    albumentations==2.0.8 pycocotools==2.0.11 pydantic==2.14.3 omegaconf==2.4.1rc1 fsspec==2026.9.0 packaging==26.4 requests==2.34.2 tqdm==4.70.1
"$folder/env/bin/pip" install --quiet --disable-pip-version-check --no-deps torchvision==0.29.2 rfdetr==1.11.2 lightly-train==0.18.0 \
    lightly==1.6.0 lightning-utilities==0.15.3
cd "$folder"
"$folder/env/bin/python" - 2> /dev/null <<'PYTHON'
import contextlib
import importlib.util
import io
import json
import pathlib
import sys
import types
import warnings
from importlib.metadata import version

from PIL import Image

warnings.simplefilter("ignore")
for package in ("rfdetr", "lightly_train"):  # what they import for models and training is not needed to read data
    found = types.ModuleType(package)
    found.__path__ = importlib.util.find_spec(package).submodule_search_locations
    sys.modules[package] = found
from lightly_train._data.instance_segmentation_dataset import COCOInstanceSegmentationDataArgs
from rfdetr.datasets.coco import build_roboflow_from_coco

folder, names = pathlib.Path("animals"), {"train": ("cat", "dog"), "valid": ("dog", "cat")}
for split, of_split in names.items():
    (folder / split).mkdir(parents=True)
    Image.new("RGB", (64, 64)).save(folder / split / "a.png")
    dog = {"id": 1, "image_id": 1, "category_id": of_split.index("dog") + 1, "iscrowd": 0, "area": 400}
    dog |= {"bbox": [5, 5, 20, 20], "segmentation": [[5, 5, 25, 5, 25, 25, 5, 25]]}
    image = {"id": 1, "file_name": "a.png", "width": 64, "height": 64}
    categories = [{"id": number, "name": name} for number, name in enumerate(of_split, start=1)]
    tables = {"images": [image], "annotations": [dog], "categories": categories}
    (folder / split / "_annotations.coco.json").write_text(json.dumps(tables))

options = {"square_resize_div_64": True, "multi_scale": False, "expanded_scales": False, "patch_size": 16}
given = types.SimpleNamespace(dataset_dir=str(folder), segmentation_head=True, num_windows=1, **options)
rfdetr = []
for split in ("train", "val"):
    with contextlib.redirect_stdout(io.StringIO()):
        dataset = build_roboflow_from_coco(split, given, 64)
    rfdetr.append(names["train"][dataset[0][1]["labels"].item()])

splits = ({"annotations": str(folder / split / "_annotations.coco.json")} for split in names)
data, lightly = COCOInstanceSegmentationDataArgs(**dict(zip(("train", "val"), splits, strict=True))), []
for args in (data.get_train_args(), data.get_val_args()):
    (row,) = args.list_image_info()
    lightly += [[*data.included_classes.values()][label] for label in json.loads(row["class_labels"])]

for name, read in (("rfdetr", rfdetr), ("lightly-train", lightly)):
    print(f"{name} {version(name)}: the dog to train on is a {read[0]}, the dog to validate on is a {read[1]}")
sys.exit(0 if rfdetr == lightly == ["dog", "cat"] else 1)
PYTHON
