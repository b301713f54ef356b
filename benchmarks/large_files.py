"""Measure time and memory of large annotation files: the first opening, a later one, and reading in a worker.

    python -m benchmarks.large_files [--images 20000] [--annotations 10] [--out benchmarks/results/large-files]

A file of COCO instances is generated in a temporary folder, beside one photo that all images name. Each row runs in a
process of its own. Memory is what is beyond that of the imports: the peak of what is resident, and what is not shared
with other processes (the index and libraries are mapped from files). ``--no-json`` leaves out `json.load`, which needs
7 bytes of memory for each byte of the file.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from segpaste.datasets import CocoDetectionV2

from . import report
from .machine import machine
from .memory import status_bytes

HEIGHT, WIDTH, CLASSES = 480, 640, 80
SHARD, NUM_SHARDS = 3, 1000
HEAD = ["images", "annotations", "MB", "", "s", "CPU s", "peak MB", "own MB", "did"]


def write_file(path: Path, num_images: int, per_image: int, seed: int = 0) -> None:
    """Write annotations in shuffled order of images; polygons of 8 to 30 points come from a pool of 1000."""
    draw = random.Random(seed)
    pool = [_polygon(draw) for _ in range(1000)]

    def rows(table: str) -> Iterator[str]:
        for number in range(1, num_images + 1) if table == "images" else range(1, num_images * per_image + 1):
            if table == "images":
                yield (
                    f'{{"license":1,"file_name":"photo.jpg","height":{HEIGHT},"width":{WIDTH},'
                    f'"date_captured":"2013-11-14 11:18:45","flickr_url":"http://host/{number:012}_z.jpg","id":{number}}}'
                )
            else:
                yield (
                    f'{{"segmentation":[[{draw.choice(pool)}]],"area":4321.5,"iscrowd":0,'
                    f'"image_id":{draw.randrange(num_images) + 1},"bbox":[1.5,2.25,100.0,200.0],'
                    f'"category_id":{draw.randrange(CLASSES) + 1},"id":{number}}}'
                )

    with path.open("w") as file:
        categories = [{"id": i, "name": f"class {i}", "supercategory": "none"} for i in range(1, CLASSES + 1)]
        file.write(f'{{"info":{{"year":2026}},"licenses":[],"categories":{json.dumps(categories)}')
        for table in ("images", "annotations"):
            file.write(f',"{table}":[')
            separator = ""
            for row in rows(table):
                file.write(separator + row)
                separator = ","
            file.write("]")
        file.write("}")


def write_dataset(folder: Path, num_images: int, per_image: int) -> None:
    """Write ``annotations.json`` and the photo that it names."""
    noise = np.random.default_rng(0).integers(0, 256, (HEIGHT // 8, WIDTH // 8, 3), np.uint8)
    Image.fromarray(noise).resize((WIDTH, HEIGHT)).save(folder / "photo.jpg")
    write_file(folder / "annotations.json", num_images, per_image)


def _polygon(draw: random.Random) -> str:
    angles = np.linspace(0, 2 * np.pi, draw.randint(8, 30), endpoint=False)
    radius = draw.uniform(5, 60)
    x = draw.uniform(70, WIDTH - 70) + radius * np.cos(angles)
    y = draw.uniform(70, HEIGHT - 70) + radius * np.sin(angles)
    return ",".join(f"{value:.2f}" for value in np.stack([x, y], 1).ravel())


def parse(folder: Path) -> str:
    """Parse the file with the standard library."""
    with (folder / "annotations.json").open() as file:
        return f"parsed {len(json.load(file))} keys"


def open_it(folder: Path) -> str:
    """Open the dataset and count its annotations by class."""
    photos = CocoDetectionV2(folder, folder / "annotations.json")
    counts = np.zeros(CLASSES, np.int64)
    for index in range(0, len(photos), max(1, len(photos) // 20_000)):
        np.add.at(counts, list(photos.instance_labels(index)), 1)
    (folder / "dataset.pickle").write_bytes(pickle.dumps(photos))
    return f"opened, counted {int(counts.sum()):,} annotations"


def read_rows(folder: Path) -> str:
    """Read the rows of images drawn at random, as a worker does that was handed the dataset."""
    photos = pickle.loads((folder / "dataset.pickle").read_bytes())
    draw = random.Random(1)
    num = sum(len(photos.annotation_rows(draw.randrange(len(photos)))) for _ in range(10_000))
    return f"rows of 10,000 images: {num:,} annotations"


def read_shard(folder: Path) -> str:
    """Read the samples of one shard of 1000, in shuffled order."""
    photos = pickle.loads((folder / "dataset.pickle").read_bytes())
    order = np.random.default_rng(2).permutation(len(photos))[SHARD::NUM_SHARDS]
    num = sum(photos[int(index)].num_instances for index in order)
    return f"shard of {len(order):,} samples: {num:,} instances"


STEPS: dict[str, Callable[[Path], str]] = {
    "json.load": parse,
    "first opening": open_it,
    "next openings": open_it,
    "worker, rows": read_rows,
    "worker, samples": read_shard,
}


def run_step(name: str, folder: Path) -> dict[str, Any]:
    """Run a step in this process and measure it."""
    Path("/proc/self/clear_refs").write_text("5")
    before, own_before = status_bytes("VmRSS"), status_bytes("RssAnon")
    start, cpu_start = time.perf_counter(), time.process_time()
    did = STEPS[name](folder)
    return {
        "step": name,
        "did": did,
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu_start,
        "peak_bytes": status_bytes("VmHWM") - before,
        "own_bytes": max(0, status_bytes("RssAnon") - own_before),
    }


def measure(num_images: int, per_image: int, with_json: bool) -> dict[str, Any]:
    """Generate a file and run all steps, each in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="segpaste_bench_") as name:
        folder = Path(name)
        write_dataset(folder, num_images, per_image)
        environment = {**os.environ, "SEGPASTE_CACHE": str(folder / "cache")}
        rows = []
        for step in STEPS:
            if step == "json.load" and not with_json:
                continue
            command = [sys.executable, "-m", f"{__package__}.large_files", "--step", step, "--folder", name]
            rows.append(json.loads(subprocess.run(command, env=environment, check=True, capture_output=True).stdout))
        return {
            "images": num_images,
            "annotations": num_images * per_image,
            "file_bytes": (folder / "annotations.json").stat().st_size,
            "index_bytes": sum(file.stat().st_size for file in (folder / "cache" / "annotations").glob("*.index")),
            "rows": rows,
        }


def markdown(found: dict[str, Any]) -> str:
    """Return the table of one file."""
    sizes = [f"{found['images']:,}", f"{found['annotations']:,}", f"{found['file_bytes'] / 1e6:,.0f}"]
    body = [
        [
            *sizes,
            row["step"],
            f"{row['seconds']:.2f}",
            f"{row['cpu_seconds']:.2f}",
            *(f"{row[key] / 1e6:,.0f}" for key in ("peak_bytes", "own_bytes")),
            row["did"],
        ]
        for row in found["rows"]
    ]
    return f"{report.table(HEAD, body)}\n\nThe index has {found['index_bytes'] / 1e6:,.1f} MB."


def main() -> None:
    """Print the table, and write it and the figures if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=20_000, help="default: 20000")
    parser.add_argument("--annotations", type=int, default=10, help="of each image, default: 10")
    parser.add_argument("--no-json", action="store_true", help="without json.load")
    parser.add_argument("--out", type=Path, help="path of a Markdown and a JSON file, without suffix")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.step:
        print(json.dumps(run_step(args.step, args.folder)))
        return
    found = measure(args.images, args.annotations, not args.no_json)
    results = {"settings": {"threads": 1, "device": "cpu"}, "machine": machine(["pydantic"]), "large_files": found}
    report.publish("Large annotation files", markdown(found), results, args.out)


if __name__ == "__main__":
    main()
