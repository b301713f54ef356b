"""Observe the behaviour of copy-paste libraries for the table of the README: `python -m benchmarks.compared`.

Two or more images carry their own coordinates as colours, so each pixel of an output tells the image and the place that
it comes from. Each library pastes into them many times, by the calls that `benchmarks.peers` measures. A cell of the
table is an observation of these outputs, never a claim of a manual.

A library that is not installed is left out. Run the program again with the Python of another environment and the same
``--out``: results are collected there. With `--table` it only prints the table of what is there.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from segpaste.types import PaddedBatchedDenseSample
from segpaste.workspace import write_whole

SIDE, NUM_IMAGES, NUM_RUNS = 96, 4, 40
PLACES = (
    ((6, 8, 28, 30), (50, 52, 26, 30)),
    ((26, 30, 26, 26), (64, 4, 24, 30)),
    ((8, 56, 30, 26), (42, 22, 30, 22)),
    ((60, 30, 24, 28), (22, 4, 30, 20)),
)
"""Left, top, width and height of the objects of each image; some overlap those of other images a little."""
OUT = Path(__file__).parent / "results" / "compared"
Pixels = NDArray[np.uint8]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Output:
    """An image after a paste.

    Attributes:
        image: [H, W, 3] uint8: column, row and number of the image that a pixel comes from.
        masks: [N, H, W] of the instances, or None.
        boxes: [N, 4] xyxy, pixels, or None.
        semantic: [H, W], or None.
    """

    image: Pixels
    masks: Bools | None = None
    boxes: NDArray[np.float64] | None = None
    semantic: NDArray[np.int64] | None = None


Paste = Callable[[PaddedBatchedDenseSample], list[Output]]


def coded_batch() -> PaddedBatchedDenseSample:
    """Return images whose colours are their coordinates, each with two objects and a semantic map."""
    images = torch.zeros(NUM_IMAGES, 3, SIDE, SIDE, dtype=torch.uint8)
    images[:, 0], images[:, 1] = torch.arange(SIDE), torch.arange(SIDE)[:, None]
    images[:, 2] = 60 * torch.arange(NUM_IMAGES)[:, None, None]
    masks = torch.zeros(NUM_IMAGES, 6, SIDE, SIDE, dtype=torch.bool)
    for b in range(NUM_IMAGES):
        for k, (x, y, width, height) in enumerate(PLACES[b]):
            masks[b, k, y : y + height, x : x + width] = True
    valid = torch.arange(6).expand(NUM_IMAGES, 6) < 2
    labels = torch.where(valid, torch.arange(1, 7).expand(NUM_IMAGES, 6), 0)
    boxes = torch.zeros(NUM_IMAGES, 6, 4)
    for b, k in valid.nonzero().tolist():
        ys, xs = masks[b, k].nonzero(as_tuple=True)
        boxes[b, k] = torch.tensor([xs.min(), ys.min(), xs.max() + 1, ys.max() + 1])
    return PaddedBatchedDenseSample(
        images=images,
        boxes=boxes,
        labels=labels,
        instance_masks=masks,
        instance_ids=torch.where(valid, torch.arange(1, 7).expand(NUM_IMAGES, 6), 0).int(),
        instance_valid=valid,
        semantic_maps=(masks * labels[..., None, None]).amax(1),
        sample_seeds=torch.arange(NUM_IMAGES),
    )


def segpaste(batch: PaddedBatchedDenseSample) -> list[Output]:
    """Paste by this library, each object with a size and place of its own."""
    from segpaste import BatchCopyPaste, BatchCopyPasteConfig

    placement = {"paste_prob": 1.0, "grouping": "instance", "layers": 2, "k_range": (1, 2), "scale_range": (0.5, 1.0)}
    assert batch.sample_seeds is not None
    seeds = batch.sample_seeds + NUM_IMAGES * torch.initial_seed()
    out = BatchCopyPaste(BatchCopyPasteConfig(placement=placement))(batch.derived(sample_seeds=seeds))
    assert out.instance_masks is not None
    assert out.semantic_maps is not None
    return [
        Output(
            out.images[b].permute(1, 2, 0).numpy(),
            out.instance_masks[b][out.instance_valid[b]].numpy(),
            out.boxes[b][out.instance_valid[b]].double().numpy(),
            out.semantic_maps[b].numpy(),
        )
        for b in range(batch.batch_size)
    ]


def ultralytics(batch: PaddedBatchedDenseSample) -> list[Output]:
    """Paste by Ultralytics in its mode ``mixup``."""
    from ultralytics.data.augment import CopyPaste
    from ultralytics.data.utils import polygons2masks

    from .peers.ultralytics import _Images, _labels

    images = [_labels(batch, b) for b in range(batch.batch_size)]
    for b, labels in enumerate(images):
        labels["semantic_mask"] = batch.semantic_maps[b].numpy().astype(np.uint8)  # type: ignore[index]
    transform = CopyPaste(dataset=_Images(images), p=1.0, mode="mixup")
    outputs = []
    for labels in [transform(dict(labels)) for labels in images]:
        instances = labels["instances"]
        instances.convert_bbox("xyxy")
        masks = polygons2masks((SIDE, SIDE), list(instances.segments), 1).astype(bool)
        outputs.append(Output(labels["img"], masks, instances.bboxes, labels.get("semantic_mask")))
    return outputs


def mmdetection(batch: PaddedBatchedDenseSample) -> list[Output]:
    """Paste by MMDetection, whose compiled operators no transform needs."""
    operators = ModuleType("mmcv._ext")
    operators.__getattr__ = lambda name: None  # type: ignore[method-assign]
    sys.modules.setdefault("mmcv._ext", operators)
    from .peers.mmdetection import prepare

    contender = prepare(batch)
    given: Any = contender.fresh()
    for b, results in enumerate(given):
        maps = [batch.semantic_maps[i].numpy().astype(np.uint8) for i in (b, b - 1)]  # type: ignore[index]
        results["gt_seg_map"], results["mix_results"][0]["gt_seg_map"] = maps
    return [
        Output(
            results["img"].astype(np.uint8),
            results["gt_masks"].masks.astype(bool),
            results["gt_bboxes"].tensor.double().numpy(),
            results.get("gt_seg_map"),
        )
        for results in contender.call(given)  # type: ignore[attr-defined]
    ]


def albumentationsx(batch: PaddedBatchedDenseSample) -> list[Output]:
    """Paste by AlbumentationsX, with the semantic map as its target ``mask``."""
    import albumentations as A

    from .peers.albumentationsx import _donors, _sample

    boxes = A.BboxParams(coord_format="pascal_voc", label_fields=["labels"])
    pipeline = A.Compose([A.CopyAndPaste(scale_range=(0.5, 1.0), p=1.0)], bbox_params=boxes, telemetry=False)
    samples = [_sample(batch, b) for b in range(batch.batch_size)]
    maps = [batch.semantic_maps[b].numpy().astype(np.uint8) for b in range(batch.batch_size)]  # type: ignore[index]
    outputs = []
    for b, sample in enumerate(samples):
        donors = [{**donor, "semantic_mask": maps[b - 1]} for donor in _donors(samples[b - 1])]
        out = pipeline(**sample, mask=maps[b], copy_paste_metadata=random.sample(donors, 1))
        outputs.append(Output(out["image"], np.asarray(out["masks"], bool), np.asarray(out["bboxes"]), out["mask"]))
    return outputs


def kornia(batch: PaddedBatchedDenseSample) -> list[Output]:
    """Paste by Kornia, which takes a class of the semantic map."""
    from .peers.kornia import prepare

    contender = prepare(batch.derived(images=batch.images.float()))
    images, maps = contender.call(contender.fresh())  # type: ignore[misc]
    return [
        Output(image.permute(1, 2, 0).round().byte().numpy(), semantic=semantic.long().numpy())
        for image, semantic in zip(images, maps, strict=True)
    ]


def compiles(name: str) -> str:
    """Return whether a paste of tensors traces as one graph; libraries that take arrays have nothing to trace."""
    batch = coded_batch()
    if name == "segpaste":
        from segpaste import BatchCopyPaste

        call: Any = BatchCopyPaste()
        given: Any = (batch,)
    elif name == "kornia":
        from .peers.kornia import prepare

        contender = prepare(batch.derived(images=batch.images.float()))
        call, given = contender.call, (contender.fresh(),)
    else:
        return "no: takes arrays"
    try:
        torch.compile(call, fullgraph=True, backend="eager")(*given)
    except Exception as error:  # whatever the tracer raises
        return f"no: {type(error).__name__}"
    return "yes"


LIBRARIES: dict[str, tuple[str, Paste]] = {
    "segpaste": ("segpaste", segpaste),
    "Ultralytics CopyPaste": ("ultralytics", ultralytics),
    "MMDetection CopyPaste": ("mmdet", mmdetection),
    "AlbumentationsX CopyAndPaste": ("albumentationsx", albumentationsx),
    "Kornia RandomTransplantation": ("kornia", kornia),
}
"""Column of the table to the distribution and the function."""


def observed(paste: Paste) -> dict[str, str]:
    """Return the cells of a library: what was seen in all runs together."""
    batch = coded_batch()
    runs = []
    for seed in range(NUM_RUNS):
        seed_everything(seed)
        runs.append(paste(batch))
    pasted = [(out, b) for outputs in runs for b, out in enumerate(outputs) if from_others(out, b).any()]
    if not pasted:
        raise SystemExit(f"expected a paste in {NUM_RUNS} runs, saw none")
    cells = {
        "images with a paste": f"{len(pasted)} of {NUM_RUNS * NUM_IMAGES} images",
        "instance masks of pasted objects": agreement([masks_agree(out, b) for out, b in pasted]),
        "semantic map of pasted objects": agreement([semantic_agrees(out, b, batch) for out, b in pasted]),
    }
    maps = [map_of(out, b) for out, b in pasted]
    cells["objects scaled"] = yes(any(abs(abs(slope) - 1) > 0.05 for slope, _ in maps))
    cells["objects flipped"] = yes(any(slope < 0 for slope, _ in maps))
    cells["objects moved"] = yes(any(abs(abs(slope) - 1) <= 0.05 and abs(shift) > 1 for slope, shift in maps))
    cells["hidden objects cut"] = agreement([survivors_cut(out, b) for out, b in pasted])
    cells["boxes of cut objects refitted"] = agreement([boxes_fit(out, b, batch) for out, b in pasted])
    cells["same paste in another order of the batch"] = yes(is_order_free(paste, batch))
    return cells


def seed_everything(seed: int) -> None:
    """Seed every generator that a library may use."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)


def yes(value: bool) -> str:
    """Return the word of a cell."""
    return "yes" if value else "no"


def agreement(values: Sequence[bool | None]) -> str:
    """Return ``yes``, ``no``, or the share where only some outputs agree; None does not count."""
    known = [value for value in values if value is not None]
    if not known:
        return "no"
    share = sum(known) / len(known)
    return yes(share == 1) if share in (0, 1) else f"{share:.0%} of outputs"


def from_others(out: Output, b: int) -> Bools:
    """Return the pixels of another image, by the third channel, whatever was rounded at an edge."""
    source = out.image[..., 2].astype(int)
    return np.asarray(np.abs(source - 60 * b) > 29)


def masks_agree(out: Output, b: int) -> bool | None:
    """Return whether the masks of pasted objects cover the pasted pixels, up to a ring of one pixel."""
    if out.masks is None:
        return None
    own = [mask for mask in out.masks if (mask & from_others(out, b)).sum() > mask.sum() / 2]
    union = np.any(own, axis=0) if own else np.zeros((SIDE, SIDE), bool)
    return bool((union != from_others(out, b)).sum() <= 8 * SIDE // 2)


def semantic_agrees(out: Output, b: int, batch: PaddedBatchedDenseSample) -> bool | None:
    """Return whether the semantic map has the class of the source at pasted pixels, but for edges."""
    if out.semantic is None:
        return None
    there = from_others(out, b)
    x, y = out.image[..., 0][there].astype(int), out.image[..., 1][there].astype(int)
    source = np.clip(np.rint(out.image[..., 2][there] / 60).astype(int), 0, NUM_IMAGES - 1)
    expected = batch.semantic_maps.numpy()[source, y.clip(0, SIDE - 1), x.clip(0, SIDE - 1)]  # type: ignore[union-attr]
    return bool((np.asarray(out.semantic)[there] == expected).mean() > 0.9)


def map_of(out: Output, b: int) -> tuple[float, float]:
    """Return slope and shift from output columns to source columns, of the largest piece of one row of a paste."""
    there = from_others(out, b)
    row = int(there.sum(1).argmax())
    columns = np.flatnonzero(there[row])
    pieces = np.split(columns, np.flatnonzero(np.diff(columns) > 1) + 1)
    inner = max(pieces, key=len)[1:-1]
    if len(inner) < 3:
        return 1.0, 0.0
    slope, _ = np.polyfit(inner, out.image[row, inner, 0].astype(float), 1)
    values = out.image[row, inner, 0].astype(float)
    return float(slope), float(np.median(values - slope * inner))


def survivors_cut(out: Output, b: int) -> bool | None:
    """Return whether masks of the image's own objects leave out what a paste hides; None if nothing is hidden."""
    if out.masks is None:
        return None
    there = from_others(out, b)
    hidden = [mask for mask in out.masks[:2] if (mask & ~there).any()]
    before = coded_batch().instance_masks[b, :2].numpy()  # type: ignore[index]
    if not (before & there).any():
        return None
    return not any((mask & there).sum() > 4 for mask in hidden if (mask & ~there).sum() > mask.sum() / 2)


def boxes_fit(out: Output, b: int, batch: PaddedBatchedDenseSample) -> bool | None:
    """Return whether boxes of own objects that lost an edge end at what is seen of them; None if none lost one."""
    if out.masks is None or out.boxes is None:
        return None
    there, known = from_others(out, b), []
    for k in range(2):
        before = batch.instance_masks[b, k].numpy()  # type: ignore[index]
        seen = before & ~there
        ys, xs = np.nonzero(seen)
        if not len(xs):
            continue
        tight = np.array([xs.min(), ys.min(), xs.max() + 1, ys.max() + 1])
        if np.abs(tight - batch.boxes[b, k].numpy()).max() < 4:
            continue
        known.append(bool((np.abs(out.boxes - tight).max(1) <= 2).any()))
    return all(known) if known else None


def is_order_free(paste: Paste, batch: PaddedBatchedDenseSample) -> bool:
    """Return whether an image gets the same paste when the images of its batch stand in reverse order."""
    seed_everything(0)
    forward = paste(batch)
    seed_everything(0)
    mirrored = paste(reverse(batch))[::-1]
    return all(np.array_equal(a.image, c.image) for a, c in zip(forward, mirrored, strict=True))


def reverse(batch: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
    """Return the batch with its images in reverse order."""
    names = ("images", "boxes", "labels", "instance_masks", "instance_ids", "instance_valid", "semantic_maps")
    return batch.derived(**{n: getattr(batch, n).flip(0) for n in (*names, "sample_seeds")})


def table(folder: Path) -> str:
    """Return the table of all results, in Markdown."""
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}
    columns = [name for name in LIBRARIES if name in {item["library"] for item in found.values()}]
    cells = {item["library"]: item for item in found.values()}
    rows = list(cells[columns[0]]["cells"])
    lines = ["| | " + " | ".join(f"{name} {cells[name]['version']}" for name in columns) + " |"]
    lines.append("|---" * (len(columns) + 1) + "|")
    lines += [f"| {row} | " + " | ".join(cells[name]["cells"].get(row, "") for name in columns) + " |" for row in rows]
    return "\n".join(lines)


def main() -> None:
    """Observe the libraries that are installed, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the results")
    parser.add_argument("--table", action="store_true", help="observe nothing, print the table")
    args = parser.parse_args()
    for name, (distribution, paste) in LIBRARIES.items():
        try:
            number = version(distribution)
        except PackageNotFoundError:
            continue
        if args.table:
            continue
        result = {
            "library": name,
            "version": "" if name == "segpaste" else number,
            "cells": {**observed(paste), "one graph under torch.compile": compiles(distribution)},
        }
        args.out.mkdir(parents=True, exist_ok=True)
        write_whole(args.out / f"{distribution}.json", (json.dumps(result, indent=1) + "\n").encode())
    print(table(args.out))


if __name__ == "__main__":
    main()
