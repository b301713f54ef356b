#!/usr/bin/env bash
# `path: .` in a data.yaml leads Ultralytics and LibreYOLO to two datasets, and neither is the one beside the file.
#
# Most expect: paths in a configuration are relative to its file. So `path: .` with `train: images/train` is written where a
# dataset and its data.yaml are moved together, and RF-DETR and LightlyTrain read it like that.
# What happens: Ultralytics takes `.` for the folder in which the run is started. LibreYOLO looks first in its folder of
# datasets, `~/datasets`, in which `.` is this folder itself. Where these have an images/train of their own, as copies of a
# dataset and older versions have, it is trained on, without an error and without a warning. Without the key `path` both read
# the folder of data.yaml.
#
# Why it matters: a model is trained on other images than those of the file that was given, or on an old version of their
# labels. Leave `path` out, or write it absolute.
#
# Prints versions and the images that are read, and exits with 1 if the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check ultralytics==8.4.190 libreyolo==1.6.0 pillow==13.0.0
cat > "$folder/make.py" <<'PYTHON'
import pathlib
import sys

from PIL import Image

for name in ("given", "work", "home/datasets"):
    place = pathlib.Path(sys.argv[1], name)
    for kind in ("images", "labels"):
        (place / kind / "train").mkdir(parents=True)
    Image.new("RGB", (64, 64)).save(place / "images" / "train" / "a.png")
    (place / "labels" / "train" / "a.txt").write_text("0 0.5 0.5 0.4 0.4\n")
for key, text in (("with", "path: .\n"), ("without", "")):
    file = pathlib.Path(sys.argv[1], "given", f"{key}_path.yaml")
    file.write_text(f"{text}train: images/train\nval: images/train\nnames: {{0: cat}}\n")
PYTHON
cat > "$folder/read.py" <<'PYTHON'
import contextlib
import io
import pathlib
import sys
from importlib.metadata import version

root = pathlib.Path(sys.argv[1]).resolve()
with contextlib.redirect_stdout(io.StringIO()):
    from libreyolo.data.utils import load_data_config
    from ultralytics.data.utils import check_det_dataset

print(f"Ultralytics {version('ultralytics')}, LibreYOLO {version('libreyolo')}")
read = {}
for key in ("with", "without"):
    file = str(root / "given" / f"{key}_path.yaml")
    folders = check_det_dataset(file)["train"], load_data_config(file)["train_img_files"][0].parent
    read[key] = [pathlib.Path(place).resolve().relative_to(root).as_posix() for place in folders]
    print(f"  {key} path: Ultralytics reads {read[key][0]}, LibreYOLO {read[key][1]}")
is_as_described = read["with"] == ["work/images/train", "home/datasets/images/train"]
sys.exit(0 if is_as_described and read["without"] == ["given/images/train"] * 2 else 1)
PYTHON
"$folder/env/bin/python" "$folder/make.py" "$folder"
cd "$folder/work"
HOME="$folder/home" YOLO_CONFIG_DIR="$folder" YOLO_OFFLINE=true YOLO_VERBOSE=false "$folder/env/bin/python" "$folder/read.py" "$folder"
