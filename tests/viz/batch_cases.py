"""One small batch, written by hand, in every structure that `segpaste.viz.show` draws; and its pixels by slow loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torchvision import tv_tensors

from samples import Array
from segpaste.types import BatchedDenseSample, DenseSample, InstanceMask, PaddingMask
from segpaste.viz import palette

HEIGHT, WIDTH = 40, 56
PICTURE = 32, 44
"""(H, W) without padding, of the second image where a structure has padding."""

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
NORMALISED = {"mean": MEAN, "std": STD}

IMAGES = np.random.default_rng(7).integers(0, 256, (3, HEIGHT, WIDTH, 3), dtype=np.uint8)
LABELS = [[3, 5], [0], []]
BOXES = [[(3.0, 2.0, 26.0, 18.0), (28.0, 20.0, 48.0, 36.0)], [(8.0, 8.0, 20.0, 20.0)], []]
"""xyxy in pixels; the first is loose. No side has 25 pixels, from where on objects have their name at them."""


def masks_of_image(b: int) -> Array:
    """[N, H, W] bool, in blocks of four by four pixels; the second object of the first image has a notch."""
    masks = np.zeros((len(LABELS[b]), HEIGHT, WIDTH), bool)
    if b == 0:
        masks[0, 4:16, 4:24] = True
        masks[1, 20:36, 28:48] = True
        masks[1, 20:28, 28:36] = False
    elif b == 1:
        masks[0, 8:20, 8:20] = True
    return masks


@dataclass
class Case:
    """A batch in one structure, and what its picture must hold.

    Attributes:
        batch: the batch.
        options: what `show` needs for it.
        masks: it has masks.
        boxes: it has boxes.
        padding: "hatched", "cut" where images have their own sizes, or "none".
        tolerance: levels by which colours may differ after a normalisation.
    """

    batch: Any
    options: dict[str, Any] = field(default_factory=dict)
    masks: bool = True
    boxes: bool = True
    padding: str = "none"
    tolerance: int = 0


def chw(b: int) -> torch.Tensor:
    return torch.from_numpy(IMAGES[b]).permute(2, 0, 1).contiguous()


def is_padding(b: int) -> Array:
    padding = np.zeros((HEIGHT, WIDTH), bool)
    if b == 1:
        padding[PICTURE[0] :] = padding[:, PICTURE[1] :] = True
    return padding


def normalised(b: int) -> torch.Tensor:
    """The image in floats, normalised one value at a time; 0 in padding."""
    out = np.zeros((3, HEIGHT, WIDTH), np.float32)
    for y, x in np.argwhere(~is_padding(b)):
        for c in range(3):
            out[c, y, x] = (IMAGES[b][y, x, c] / 255 - MEAN[c]) / STD[c]
    return torch.from_numpy(out)


def boxes_of(b: int) -> torch.Tensor:
    return torch.tensor(BOXES[b], dtype=torch.float32).reshape(-1, 4)


def fractions_of(b: int, width: float = WIDTH, height: float = HEIGHT) -> torch.Tensor:
    rows = [
        ((x1 + x2) / 2 / width, (y1 + y2) / 2 / height, (x2 - x1) / width, (y2 - y1) / height)
        for x1, y1, x2, y2 in BOXES[b]
    ]
    return torch.tensor(rows, dtype=torch.float32).reshape(-1, 4)


def labels_of(b: int) -> torch.Tensor:
    return torch.tensor(LABELS[b], dtype=torch.int64)


def masks_tensor(b: int) -> torch.Tensor:
    return torch.from_numpy(masks_of_image(b))


def sample(b: int, masks: bool = True) -> DenseSample:
    fields: dict[str, Any] = {"padding_mask": PaddingMask(torch.from_numpy(is_padding(b)[None]))}
    if masks:
        fields["instance_masks"] = InstanceMask(masks_tensor(b))
        fields["instance_ids"] = torch.arange(1, len(LABELS[b]) + 1, dtype=torch.int32)
    boxes = tv_tensors.BoundingBoxes(boxes_of(b), format="XYXY", canvas_size=(HEIGHT, WIDTH))
    return DenseSample(tv_tensors.Image(chw(b)), boxes, labels_of(b), **fields)


def ragged(**options: Any) -> BatchedDenseSample:
    return BatchedDenseSample.from_samples([sample(b, **options) for b in range(3)])


def half_precision() -> Any:
    batch = ragged().to_padded(4)
    return batch.map_tensors(lambda t: (t / 255).to(torch.bfloat16) if t is batch.images else t)


def torchvision(masks: bool = True) -> Any:
    images, targets = [], []
    for b in range(3):
        h, w = PICTURE if b == 1 else (HEIGHT, WIDTH)
        images.append(chw(b)[:, :h, :w].float() / 255)
        target = {"boxes": boxes_of(b), "labels": labels_of(b)}
        targets.append(target | ({"masks": masks_tensor(b)[:, :h, :w].to(torch.uint8)} if masks else {}))
    return images, targets


def rfdetr(masks: bool = True) -> Any:
    """Targets are fractions of images that are not padded yet; a row of the first one only fills it."""
    padding = torch.from_numpy(np.stack([is_padding(b) for b in range(3)]))
    targets = []
    for b in range(3):
        h, w = PICTURE if b == 1 else (HEIGHT, WIDTH)
        target = {"boxes": fractions_of(b, w, h), "labels": labels_of(b)}
        if masks:
            target["masks"] = masks_tensor(b)[:, :h, :w]
        if b == 0:
            target = {name: torch.cat([value, torch.ones_like(value[:1])]) for name, value in target.items()}
            target["valid"] = torch.tensor([True, True, False])
        targets.append(target)
    return SimpleNamespace(tensors=torch.stack([normalised(b) for b in range(3)]), mask=padding), tuple(targets)


def mask_labels(pixel_mask: bool = True) -> Any:
    inputs: dict[str, Any] = {"pixel_values": torch.stack([normalised(b) for b in range(3)])}
    if pixel_mask:
        inputs["pixel_mask"] = torch.from_numpy(np.stack([~is_padding(b) for b in range(3)])).long()
    inputs["mask_labels"] = [masks_tensor(b).float() for b in range(3)]
    return inputs | {"class_labels": [labels_of(b) for b in range(3)]}


def detr(masks: bool = True) -> Any:
    inputs = mask_labels()
    labels = []
    for b in range(3):
        target = {"class_labels": labels_of(b), "boxes": fractions_of(b)}
        labels.append(target | ({"masks": masks_tensor(b).to(torch.uint8)} if masks else {}))
    return {"pixel_values": inputs["pixel_values"], "pixel_mask": inputs["pixel_mask"], "labels": labels}


def yolo(masks: str = "overlap", ratio: int = 4, floats: bool = False) -> Any:
    images = torch.stack([chw(b) for b in range(3)])
    batch = {
        "img": images.float() / 255 if floats else images,
        "batch_idx": torch.tensor([0.0, 0.0, 1.0]),
        "cls": torch.cat([labels_of(b) for b in range(3)])[:, None].float(),
        "bboxes": torch.cat([fractions_of(b) for b in range(3)]),
    }
    small = [masks_tensor(b)[:, ::ratio, ::ratio] for b in range(3)]
    if masks == "overlap":
        maps = torch.zeros(3, HEIGHT // ratio, WIDTH // ratio, dtype=torch.uint8)
        for b in range(3):
            for n, mask in enumerate(small[b]):
                maps[b][mask] = n + 1
        batch["masks"] = maps
    elif masks == "stacked":
        batch["masks"] = torch.cat(small).to(torch.uint8)
    return batch


def albumentations(masks: bool = True, bbox_format: str | None = "pascal_voc", tensors: bool = False) -> Any:
    """One dictionary for each image, as a pipeline returns it; with ``ToTensorV2`` of tensors."""
    found = []
    for b in range(3):
        data: dict[str, Any] = {"image": chw(b) if tensors else IMAGES[b], "labels": LABELS[b]}
        if masks:
            stack = masks_of_image(b).astype(np.uint8) * (255 if tensors else 1)
            data["masks"] = list(torch.from_numpy(stack)) if tensors else stack
        corners = boxes_of(b).numpy()
        sides, edges = corners[:, 2:] - corners[:, :2], np.array([WIDTH, HEIGHT] * 2)
        forms = {
            "pascal_voc": corners,
            "coco": np.concatenate([corners[:, :2], sides], 1),
            "cxcywh": np.concatenate([corners[:, :2] + sides / 2, sides], 1),
            "albumentations": corners / edges,
            "yolo": fractions_of(b).numpy(),
        }
        found.append(data if bbox_format is None else {**data, "bboxes": forms[bbox_format]})
    return found


CASES: dict[str, Callable[[], Case]] = {
    "padded": lambda: Case(ragged().to_padded(4), padding="hatched"),
    "padded, bfloat16": lambda: Case(half_precision(), padding="hatched", tolerance=1),
    "padded, boxes only": lambda: Case(ragged(masks=False).to_padded(2), masks=False, padding="hatched"),
    "ragged": lambda: Case(ragged(), padding="hatched"),
    "list of samples": lambda: Case([sample(b) for b in range(3)], padding="hatched"),
    "torchvision": lambda: Case(torchvision(), padding="cut"),
    "torchvision, boxes only": lambda: Case(torchvision(masks=False), masks=False, padding="cut"),
    "pairs": lambda: Case(list(zip(*torchvision(), strict=True)), padding="cut"),
    "RF-DETR": lambda: Case(rfdetr(), NORMALISED, padding="hatched", tolerance=1),
    "RF-DETR, boxes only": lambda: Case(rfdetr(masks=False), NORMALISED, False, padding="hatched", tolerance=1),
    "mask labels": lambda: Case(mask_labels(), NORMALISED, boxes=False, padding="hatched", tolerance=1),
    "DETR": lambda: Case(detr(), NORMALISED, padding="hatched", tolerance=1),
    "DETR, boxes only": lambda: Case(detr(masks=False), NORMALISED, masks=False, padding="hatched", tolerance=1),
    "Ultralytics, overlap": lambda: Case(yolo()),
    "Ultralytics, stacked": lambda: Case(yolo("stacked", ratio=2)),
    "Ultralytics, floats": lambda: Case(yolo("stacked", ratio=1, floats=True)),
    "Ultralytics, boxes only": lambda: Case(yolo("none"), masks=False),
    "AlbumentationsX": lambda: Case(albumentations(), {"bbox_format": "pascal_voc"}),
    "AlbumentationsX, tensors": lambda: Case(albumentations(True, "yolo", True), {"bbox_format": "yolo"}),
    "AlbumentationsX, boxes only": lambda: Case(albumentations(False, "coco"), {"bbox_format": "coco"}, masks=False),
    "AlbumentationsX, masks only": lambda: Case(albumentations(True, None), boxes=False),
}


def mixed(under: int, over: int, opacity: float) -> int:
    """A level with another one laid over it."""
    low, high = np.float32(under), np.float32(over)
    return int(low + (high - low) * np.float32(opacity) + np.float32(0.5))


def laid_over(pixel: Array, color: tuple[int, ...], opacity: float) -> list[int]:
    return [mixed(int(u), c, opacity) for u, c in zip(pixel, color, strict=True)]


def expected_picture(b: int, case: Case) -> Array:
    """The image as it must be drawn, one pixel after the other: padding, fills, outlines, then frames of boxes."""
    picture = IMAGES[b].copy()
    if case.padding == "hatched":
        for y, x in np.argwhere(is_padding(b)):
            grey = 168 if (y + x) % 8 < 4 else 146
            picture[y, x] = [mixed(grey, level, 0.5) for level in palette.PAPER]
    order = sorted(range(len(LABELS[b])), key=lambda n: -areas(b)[n])
    for n in order if case.masks else []:
        mask, color = masks_of_image(b)[n], palette.instance_color(n + 1)
        for y, x in np.argwhere(mask):
            picture[y, x] = color if at_edge(mask, y, x) else laid_over(picture[y, x], color, 0.42)
    for n in order if case.boxes else []:
        x1, y1, x2, y2 = map(int, BOXES[b][n])
        for y in range(y1, y2):
            for x in range(x1, x2):
                if y in (y1, y2 - 1) or x in (x1, x2 - 1):
                    picture[y, x] = laid_over(picture[y, x], palette.instance_color(n + 1), 0.8)
    if case.padding == "cut" and b == 1:
        picture = picture[: PICTURE[0], : PICTURE[1]]
    return picture


def areas(b: int) -> list[float]:
    return [(x2 - x1) * (y2 - y1) for x1, y1, x2, y2 in BOXES[b]]


def at_edge(mask: Array, y: int, x: int) -> bool:
    """Return whether a pixel of a mask touches one outside of it, or the edge of the image."""
    around = [(y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)]
    return not all(0 <= v < HEIGHT and 0 <= u < WIDTH and mask[v, u] for v, u in around)
