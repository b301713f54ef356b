"""Measure the cost of building a bank: crops per second, and peak memory as the dataset grows.

    python -m benchmarks.bank_build --quick

Photos are synthetic, 640 x 480 JPEG files with eight objects each; a larger dataset names the same files more often.
Every build is a process of its own, whose memory is what the kernel counts as resident at the peak, less what it was
when the dataset was open; worker processes are not counted. The photos lie in the page cache: no disk is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from segpaste.bank import build_bank
from segpaste.datasets import CocoDetectionV2

from .memory import status_bytes

SIDES, NUM_OBJECTS, NUM_FILES, NUM_CLASSES = (480, 640), 8, 20, 10
FORMATS = ("memmap", "lmdb", "webdataset")


def write_dataset(folder: Path, num_photos: int) -> Path:
    """The annotation file of a dataset of ``num_photos`` photos, and the photos where they are not there yet."""
    rng = np.random.default_rng(0)
    height, width = SIDES
    images, annotations = [], []
    for i in range(min(NUM_FILES, num_photos)):
        coarse = Image.fromarray(rng.integers(0, 256, (height // 8, width // 8, 3), dtype=np.uint8))
        coarse.resize((width, height), Image.Resampling.BICUBIC).save(folder / f"{i}.jpg", quality=90)
    for i in range(num_photos):
        images.append({"id": i, "file_name": f"{i % NUM_FILES}.jpg", "height": height, "width": width})
        for j in range(NUM_OBJECTS):
            radius = rng.uniform(15, 160)
            centre = rng.uniform(radius, 480 - radius, 2)
            angles = np.linspace(0, 2 * np.pi, 24, endpoint=False)
            outline = centre + radius * rng.uniform(0.7, 1, (24, 1)) * np.stack([np.cos(angles), np.sin(angles)], 1)
            row = {"id": i * NUM_OBJECTS + j, "image_id": i, "category_id": int(rng.integers(NUM_CLASSES))}
            annotations.append({**row, "iscrowd": 0, "segmentation": [outline.round(1).reshape(-1).tolist()]})
    categories = [{"id": i, "name": f"class {i}"} for i in range(NUM_CLASSES)]
    path = folder / f"{num_photos}.json"
    path.write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))
    return path


def build_here(path: Path, out: Path, form: str, workers: int, crop_px: int) -> dict[str, float]:
    """Build in this process: crops, seconds, and the bytes of its peak beyond the opened dataset."""
    photos = CocoDetectionV2(path.parent, path)
    photos[0]
    Path("/proc/self/clear_refs").write_text("5")
    before, start = status_bytes("VmRSS"), time.perf_counter()
    summary = build_bank(
        photos, out, class_names=photos.class_names, crop_size=(crop_px, crop_px), format=form, workers=workers
    )
    seconds = time.perf_counter() - start
    return {"crops": summary.num_crops, "seconds": seconds, "peak_bytes": status_bytes("VmHWM") - before}


def measure(num_photos: int, crop_px: int) -> list[dict[str, Any]]:
    """One row for each build."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sizes = {factor: write_dataset(folder, factor * num_photos) for factor in (1, 10)}
        plans = [(form, factor, 1) for form in FORMATS for factor in (1, 10)] + [("memmap", 10, 2)]
        for form, factor, workers in plans:
            words = json.dumps([str(sizes[factor]), str(folder / "bank"), form, workers, crop_px])
            command = [sys.executable, "-m", "benchmarks.bank_build", "--child", words]
            root = str(Path(__file__).resolve().parents[1])
            path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
            run = subprocess.run(
                command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True, check=True
            )
            rows.append({"format": form, "size": factor, "workers": workers, **json.loads(run.stdout.splitlines()[-1])})
            subprocess.run(["rm", "-r", str(folder / "bank")], check=True)
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """As Markdown."""
    lines = [
        "| format | dataset | workers | crops | crops/s | peak beyond the opened dataset |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        speed = row["crops"] / row["seconds"]
        lines.append(
            f"| {row['format']} | {row['size']} × | {row['workers']} | {row['crops']:,} | {speed:,.0f} | "
            f"{row['peak_bytes'] / 2**20:,.0f} MiB |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bank_build", description="What building a bank costs.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the photos, smaller crops")
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    args = parser.parse_args()
    rows = measure(*((10, 64) if args.quick else (100, 256)))
    print(table(rows))
    if args.out is not None:
        args.out.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        path, out, form, workers, crop_px = json.loads(sys.argv[2])
        print(json.dumps(build_here(Path(path), Path(out), form, workers, crop_px)))
    else:
        main()
