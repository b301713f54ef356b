#!/usr/bin/env bash
# Label Studio's own converter gives a rotated rectangle another box in each format.
#
# Most expect: a rectangle that was drawn and turned in Label Studio is exported as the upright box around it, or refused, in
# formats that have upright boxes only; and it is the same box in COCO, YOLO and Pascal VOC.
# What happens: YOLO and Pascal VOC get the rectangle as it was before the turn. COCO gets a box that is computed in percent
# of width and of height, though a turn mixes both: right for square images only. The format with oriented boxes
# (YOLO OBB) gets the right corners. There is no warning.
#
# Why it matters: a turn by 90 degrees of a long box, which is easy to make by hand, moves it off the object altogether. Most
# photos are not square. Boxes computed from the exported corners (YOLO OBB) are right.
#
# Prints versions and boxes, and exits with 1 if the behaviour has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check label-studio-sdk==2.1.2
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import json
import math
import pathlib
import re
import sys
from importlib.metadata import version

from label_studio_sdk.converter import Converter
from PIL import Image

WIDTH, HEIGHT = 200, 100
Image.new("RGB", (WIDTH, HEIGHT)).save("a.png")
config = """<View><Image name="image" value="$image"/><RectangleLabels name="label" toName="image">
<Label value="car"/></RectangleLabels></View>"""
value = {"x": 50, "y": 20, "width": 20, "height": 20, "rectanglelabels": ["car"]}  # percent: 40 x 20 pixels at (100, 20)


def boxes(angle: int) -> dict[str, list[int]]:
    """The box of the rectangle, turned around its upper left corner, by its corners and in each format."""
    region = {"id": "r", "from_name": "label", "to_name": "image", "type": "rectanglelabels"}
    region |= {"value": value | {"rotation": angle}, "original_width": WIDTH, "original_height": HEIGHT, "image_rotation": 0}
    task = {"id": 1, "data": {"image": "a.png"}, "annotations": [{"id": 1, "completed_by": 1, "result": [region]}]}
    pathlib.Path("tasks.json").write_text(json.dumps([task]))
    converter = Converter(config=config, project_dir=None, download_resources=False)
    converter.convert_to_coco("tasks.json", "coco", is_dir=False)
    converter.convert_to_yolo("tasks.json", "yolo", is_dir=False)
    converter.convert_to_voc("tasks.json", "voc", is_dir=False)
    cosine, sine = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    corners = [(100 + x * cosine - y * sine, 20 + x * sine + y * cosine) for x in (0, 40) for y in (0, 20)]
    left, top, width, height = json.loads(pathlib.Path("coco/result.json").read_text())["annotations"][0]["bbox"]
    (rows,) = pathlib.Path("yolo/labels").glob("*.txt")
    x, y, w, h = (float(part) * side for part, side in zip(rows.read_text().split()[1:], (WIDTH, HEIGHT) * 2))
    (page,) = pathlib.Path("voc").rglob("*.xml")
    voc = re.findall(r"<[xy]m(?:in|ax)>([^<]+)<", page.read_text())
    found = {
        "corners": [f(side) for f in (min, max) for side in zip(*corners)],
        "COCO": [left, top, left + width, top + height],
        "YOLO": [x - w / 2, y - h / 2, x + w / 2, y + h / 2],
        "Pascal VOC": [float(edge) for edge in voc],
    }
    return {name: [round(edge) for edge in box] for name, box in found.items()}


print(f"label-studio-sdk {version('label-studio-sdk')}; left, top, right, bottom in an image of {WIDTH} x {HEIGHT}")
found = {angle: boxes(angle) for angle in (0, 30, 90)}
for angle, result in found.items():
    print(f"  turned by {angle} degrees: {result}")
same = {name for angle in (30, 90) for name in ("COCO", "YOLO", "Pascal VOC") if found[angle][name] == found[angle]["corners"]}
sys.exit(0 if not same and len({tuple(box) for box in found[0].values()}) == 1 else 1)
PYTHON
