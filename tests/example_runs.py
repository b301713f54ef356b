"""Helpers that run an example as a script, with this interpreter, in a folder of its own."""

from __future__ import annotations

import re
from pathlib import Path

from PIL import Image

from fresh_process import run_script

EXAMPLES = Path(__file__).parents[1] / "examples"

PRINTS = {
    "01_first_paste": r"placed [1-9]\d* of \d+ objects",
    "02_own_dataset": r"an epoch: PasteSummary\(8 images: \d+ tried, [1-9]\d* placed",
    "03_rare_classes": r"marbled slab +9 +2\d +3\d$",
    "04_panoptic": r"violations: none of 14 invariants",
    "05_depth_and_normals": r" +3 +\d\.\d\d m +\d\.\d\d +\d\.\d\d +\d\.\d\d m +\d\.\d\d m",
    "06_vit_patches": r"aligned +[1-9]\d* pastes, [1-9]\d*\.\d mixed tokens a paste",
    "07_keypoints": r"survivors: [1-9]\d* of \d+ visible points are hidden by a paste",
    "08_class_batches": r"batch of 3 classes, [1-9]\d* objects pasted",
    "09_replay": r"equal bit for bit: image, boxes, .*, panoptic_map, depth, normals$",
    "10_compiled_step": r"12 steps, compiled once",
    "11_torchvision_mask_rcnn": r"step 4: loss \d+\.\d+, [1-9]\d* objects",
    "12_hugging_face_mask2former": r"losses (\d+\.\d+(, |$)){4}",
    "13_ultralytics_segmentation": r"losses (\d+\.\d+(, |$)){4}",
    "14_lightning": r"probability of a paste in the last step: 0\.17",
    "15_small_batches": r"batch 2: 2 of 4 images are pasted into",
    "16_per_sample_transform": r"\d+ objects in 16 images, \d+ after the pastes",
    "17_rf_detr": r"objects in the batches: [1-9]",
}
"""The start of a line that each example prints."""

IN_SUITES = {"12_hugging_face_mask2former": "transformers", "13_ultralytics_segmentation": "ultralytics"}
IN_SUITES |= {"17_rf_detr": "rfdetr"}
"""Examples that need a trainer: the suite ``trainers/checks_NAME.py`` runs them beside it."""


def expect_example_runs(name: str, folder: Path) -> str:
    """Run an example in an empty folder and return what it prints; it must print its line and write its picture."""
    run = run_script(EXAMPLES / f"{name}.py", "--out", "pictures", folder=folder)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-3000:]
    assert re.search(f"^{PRINTS[name]}", run.stdout, re.MULTILINE), run.stdout[-3000:]
    with Image.open(folder / "pictures" / f"{name}.png") as picture:
        picture.load()
        assert min(picture.size) > 100
    assert [path.name for path in folder.iterdir() if path.name != "pictures"] == []
    return run.stdout
