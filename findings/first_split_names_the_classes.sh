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
cat > "$folder/make.py" <<'PYTHON'
import json
import pathlib
import sys

from PIL import Image

for split, names in (("train", ("cat", "dog")), ("valid", ("dog", "cat"))):
    place = pathlib.Path(sys.argv[1], split)
    place.mkdir()
    Image.new("RGB", (64, 64)).save(place / "a.png")
    dog = {"id": 1, "image_id": 1, "category_id": names.index("dog") + 1, "iscrowd": 0, "area": 400}
    dog |= {"bbox": [5, 5, 20, 20], "segmentation": [[5, 5, 25, 5, 25, 25, 5, 25]]}
    image = {"id": 1, "file_name": "a.png", "width": 64, "height": 64}
    categories = [{"id": number, "name": name} for number, name in enumerate(names, start=1)]
    tables = {"images": [image], "annotations": [dog], "categories": categories}
    (place / "_annotations.coco.json").write_text(json.dumps(tables))
PYTHON
cat > "$folder/read_rfdetr.py" <<'PYTHON'
import contextlib
import io
import sys
import warnings
from importlib.metadata import version
from types import SimpleNamespace

warnings.simplefilter("ignore")
from rfdetr.datasets import build_roboflow

options = {"square_resize_div_64": True, "multi_scale": False, "expanded_scales": False, "patch_size": 16}
given = SimpleNamespace(dataset_dir=sys.argv[1], segmentation_head=True, num_windows=1, **options)
read = []
for split in ("train", "val"):
    with contextlib.redirect_stdout(io.StringIO()):
        dataset = build_roboflow(split, given, 64)
    read.append(("cat", "dog")[dataset[0][1]["labels"].item()])
print(f"RF-DETR {version('rfdetr')}: the dog to train on is a {read[0]}, the dog to validate on is a {read[1]}")
sys.exit(0 if read == ["dog", "cat"] else 1)
PYTHON
cat > "$folder/read_lightly.py" <<'PYTHON'
import json
import sys
from importlib.metadata import version

from lightly_train._data.instance_segmentation_dataset import COCOInstanceSegmentationDataArgs

train, valid = ({"annotations": f"{sys.argv[1]}/{split}/_annotations.coco.json"} for split in ("train", "valid"))
data = COCOInstanceSegmentationDataArgs(train=train, val=valid)
names, read = list(data.included_classes.values()), []
for args in (data.get_train_args(), data.get_val_args()):
    (image,) = args.list_image_info()
    read += [names[label] for label in json.loads(image["class_labels"])]
print(f"LightlyTrain {version('lightly-train')}: the dog to train on is a {read[0]}, the dog to validate on is a {read[1]}")
sys.exit(0 if read == ["dog", "cat"] else 1)
PYTHON
for name in rfdetr lightly; do
    python3 -m venv "$folder/$name"
    [ "$name" = rfdetr ] && packages="rfdetr[train,augment]==1.11.2" || packages="lightly-train==0.18.0"
    "$folder/$name/bin/pip" install --quiet --disable-pip-version-check "$packages"
    [ "$name" = lightly ] || "$folder/$name/bin/python" "$folder/make.py" "$folder"
    "$folder/$name/bin/python" "$folder/read_$name.py" "$folder"
done
