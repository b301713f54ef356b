"""Measure the memory that the adapters take besides a batch: full-size masks of all objects before and after the paste.

    python -m benchmarks.adapter_memory
    python -m benchmarks.adapter_memory --images 4 --side 320 --slots 32

Counted are the bytes that torch's allocator hands out and gets back, as its profiler records them on the CPU: they
are the same on every run. The step goes from the batch as the framework's loader gives it to the batch that its model
gets, which is part of the peak. No framework is needed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from torch.utils._pytree import tree_leaves

from segpaste import BatchCopyPaste
from segpaste.integrations.huggingface import to_detr, to_mask_labels
from segpaste.integrations.rfdetr import Form, from_nested, to_nested
from segpaste.integrations.torchvision import from_detection, to_detection
from segpaste.integrations.ultralytics import from_yolo, to_yolo
from segpaste.types import BatchedDenseSample, DenseSample

from .batches import EVERY_IMAGE

COLOURS: dict[str, Any] = {"mean": [0.5] * 3, "std": [0.25] * 3}
MB = 1_000_000

Step = Callable[[], Any]


def main() -> None:
    """Print the table of one size of batch."""
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}.adapter_memory", description="Memory of adapters")
    parser.add_argument("--images", type=int, default=16, help="default: 16")
    parser.add_argument("--side", type=int, default=640, help="pixels, default: 640")
    parser.add_argument("--objects", type=int, default=8, help="of an image of the loader, default: 8")
    parser.add_argument("--slots", type=int, default=64, help="max_instances, default: 64")
    args = parser.parse_args()
    print("| adapter | the loader's batch, MB | masks of all slots, MB | peak beside the loader's batch, MB |")
    print("|---|---|---|---|")
    for name, (given, step) in cases(args.images, args.side, args.objects, args.slots).items():
        slots = args.images * args.slots * args.side**2
        cells = (sum(leaf.nbytes for leaf in tree_leaves(given) if isinstance(leaf, Tensor)), slots, peak_bytes(step))
        print(f"| {name} | " + " | ".join(f"{cell / MB:.0f}" for cell in cells) + " |")


def peak_bytes(step: Step) -> int:
    """Return the most bytes that are allocated at once during a step, beyond those that were before it."""
    step()  # what is made once
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        result = step()
    del result
    events = [event for event in found.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


def cases(num: int, side: int, num_objects: int, slots: int) -> dict[str, tuple[Any, Step]]:
    """Return the loader's batch of each framework, and its way through the adapter."""
    generator = torch.Generator().manual_seed(0)
    paste = BatchCopyPaste(EVERY_IMAGE)
    samples = [_sample(side, num_objects, generator) for _ in range(num)]
    images, masks = (torch.stack([getattr(s, name) for s in samples]) for name in ("image", "instance_masks"))
    boxes, labels = (torch.stack([getattr(s, name) for s in samples]) for name in ("boxes", "labels"))
    plain = [boxes.as_subclass(Tensor), labels, masks.as_subclass(Tensor)]
    yolo = {
        "img": images.as_subclass(Tensor),
        "batch_idx": torch.arange(num).repeat_interleave(num_objects).float(),
        "cls": labels.reshape(-1, 1).float(),
        "bboxes": torch.full((num * num_objects, 4), 0.5),
    }
    numbers = torch.arange(1, num_objects + 1).view(1, -1, 1, 1)
    of_map = {**yolo, "masks": (plain[2] * numbers).amax(1).to(torch.uint8)}
    of_each = {**yolo, "masks": plain[2].flatten(0, 1).to(torch.uint8)}
    targets = [dict(zip(("boxes", "labels", "masks"), rows, strict=True)) for rows in zip(*plain, strict=True)]
    for target in targets:
        target |= {"area": target["masks"].flatten(1).sum(1).float(), "iscrowd": torch.zeros_like(target["labels"])}
    nested = SimpleNamespace(tensors=yolo["img"] / 255, mask=None, no_padding=True)
    form = Form(normalized=False)

    def of_yolo(batch: dict[str, Tensor], overlap: bool, ratio: int) -> Any:
        return to_yolo(paste(from_yolo(batch, slots, overlap=overlap)), like=batch, mask_ratio=ratio, overlap=overlap)

    def of_samples(convert: Callable[..., Any]) -> Any:
        return convert(paste(BatchedDenseSample.from_samples(samples).to_padded(slots)), **COLOURS)

    def of_rfdetr() -> Any:
        return to_nested(paste(from_nested(nested, targets, slots, form)), nested, targets, form)

    def of_torchvision() -> Any:
        batch = from_detection(list(yolo["img"]), targets, label_map=0, max_instances=slots)
        return to_detection(paste(batch), label_map=0)

    return {
        "Ultralytics, overlap map": (of_map, partial(of_yolo, of_map, True, 4)),
        "Ultralytics, one mask each": (of_each, partial(of_yolo, of_each, False, 4)),
        "Ultralytics, overlap map, `mask_ratio=1`": (of_map, partial(of_yolo, of_map, True, 1)),
        "RF-DETR": ([nested.tensors, targets], of_rfdetr),
        "transformers, `to_mask_labels`": ([images, *plain], partial(of_samples, to_mask_labels)),
        "transformers, `to_detr`": ([images, *plain], partial(of_samples, to_detr)),
        "torchvision": ([yolo["img"], targets], of_torchvision),
    }


def _sample(side: int, num_objects: int, generator: torch.Generator) -> DenseSample:
    """Return an image of noise with square objects, a sixth of its side long."""
    masks = torch.zeros(num_objects, side, side, dtype=torch.bool)
    length = side // 6
    corners = torch.randint(side - length, (num_objects, 2), generator=generator).tolist()
    for mask, (y, x) in zip(masks, corners, strict=True):
        mask[y : y + length, x : x + length] = True
    image = torch.randint(256, (3, side, side), dtype=torch.uint8, generator=generator)
    return DenseSample.from_masks(image, masks, torch.zeros(num_objects, dtype=torch.int64))


if __name__ == "__main__":
    main()
