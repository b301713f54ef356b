"""Small datasets for the tests of conversions, and readers of written files that share no code with the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from coco_files import annotation_row, image_row, unroll, write_coco
from numpy.typing import NDArray
from PIL import Image

from on_disk import Mask, rectangle, runs

SIZES = ((17, 23), (19, 13))
OTHERS: dict[str, Any] = {"info": {"year": 2017}, "licenses": [{"id": 4, "name": "CC"}], "type": "instances"}


def write_instances(folder: Path) -> tuple[Path, Path]:
    """Write two photos: one with three objects, the last two overlapping, a crowd and an ignored region; one empty."""
    images = [{**image_row(8, SIZES[0], "a/one.png"), "license": 4}, image_row(5, SIZES[1], "two.png")]
    masks = [rectangle(SIZES[0], 1, 2, 6, 7), rectangle(SIZES[0], 4, 9, 15, 20), rectangle(SIZES[0], 6, 11, 9, 14)]
    rows = [
        {**annotation_row(30 + i, 8, runs(mask), (3, 90, 7)[i]), "area": int(mask.sum()), "bbox": xywh(mask)}
        for i, mask in enumerate(masks)
    ]
    rows[0] |= {"attributes": {"occluded": True, "maker": "é <&>"}, "score": 0.25, "parts": [1, 2]}
    crowd = rectangle(SIZES[0], 0, 18, 6, 23)
    rows.append({**annotation_row(40, 8, runs(crowd), 7), "iscrowd": 1, "area": 30, "bbox": xywh(crowd)})
    ignored = rectangle(SIZES[0], 14, 0, 17, 9)
    rows.append({**annotation_row(41, 8, runs(ignored), 3), "ignore": 1, "area": 27, "bbox": xywh(ignored)})
    for name in ("a", "photos/a"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    images_dir, path = write_coco(folder, images, rows)
    path.write_text(json.dumps({**OTHERS, **json.loads(path.read_text())}))
    return images_dir, path


def xywh(mask: Mask) -> list[int]:
    """The box of a mask, by its pixels."""
    ys, xs = np.nonzero(mask)
    return [int(xs.min()), int(ys.min()), int(np.ptp(xs)) + 1, int(np.ptp(ys)) + 1]


def mask_of(row: Any) -> Mask:
    """The mask of an entry with uncompressed run lengths."""
    return unroll(row["segmentation"]["counts"], row["segmentation"]["size"])


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def read_map(path: Path) -> NDArray[np.int64]:
    """The values of a PNG as stored, without its palette."""
    with Image.open(path) as picture:
        return np.array(picture).astype(np.int64)


def voc_objects(path: Path) -> list[dict[str, Any]]:
    """The objects of an XML: name, box as written, difficult, attributes."""
    found = []
    for item in ElementTree.parse(path).getroot().iter("object"):
        box = item.find("bndbox")
        assert box is not None
        attributes = {a.findtext("name"): a.findtext("value") for a in item.iter("attribute")}
        edges = [int(box.findtext(key) or "") for key in ("xmin", "ymin", "xmax", "ymax")]
        found.append(
            {
                "name": item.findtext("name"),
                "box": edges,
                "difficult": item.findtext("difficult"),
                "occluded": item.findtext("occluded"),
                "attributes": attributes,
            }
        )
    return found
