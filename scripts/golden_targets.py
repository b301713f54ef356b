"""Records of what adapters make of a batch, and of what the transform of one sample makes of each form of target."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from golden_digests import Digests, Record, digest_of

from segpaste import BatchCopyPaste, BatchCopyPasteConfig, PaddedBatchedDenseSample
from segpaste.augmentation import PlacementConfig, SourceConfig
from segpaste.types import KeypointSchema

SCHEMA = KeypointSchema(names=("left", "right"), flip_pairs=((0, 1),))
COLOURS: dict[str, Any] = {"mean": (0.4, 0.5, 0.6), "std": (0.2, 0.2, 0.3)}


def targets(scratch: Path) -> Iterator[Record]:
    """Record the targets of every framework before and after a paste."""
    yield "target of a batch", _of_batches()
    yield "target of YOLO", _of_yolo()
    yield "target of RF-DETR", _of_rfdetr()
    yield "target of one sample", _of_one_sample(scratch)


def _of_batches() -> Digests:
    from samples import make_batch
    from segpaste.integrations.torchvision import from_detection, to_detection

    batch = make_batch(3, size=(17, 11), padding=(4, 3), keypoints=True)
    plain = to_detection(make_batch(3, size=(17, 11), modalities=["instance"]), label_map=1)
    found = {"to_detection": to_detection(batch, label_map=1)}
    found["from_detection"] = from_detection(*plain, label_map=1, max_instances=5)
    found["to_detection of pasted"] = to_detection(_pasted(batch), label_map=[4, 2, 7, 1, *range(20, 60)])
    with contextlib.suppress(ImportError):
        from segpaste.integrations import huggingface as hf

        pasted = _pasted(make_batch(3, size=(17, 11), padding=(4, 3)))
        found["to_mask_labels"] = hf.to_mask_labels(batch, **COLOURS, label_map=1)
        found["to_mask_labels of pasted"] = hf.to_mask_labels(pasted, **COLOURS, with_pixel_mask=False)
        for name, given in {"to_detr": batch, "to_detr of pasted": pasted}.items():
            found[name] = hf.to_detr(given, **COLOURS, label_map=1)
    return {name: digest_of(value) for name, value in found.items()}


def _pasted(batch: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
    place = PlacementConfig(paste_prob=1.0, hflip_probability=1.0, scale_range=(0.6, 0.9))
    config = BatchCopyPasteConfig(placement=place, source=SourceConfig(whole_only=False), min_area_px=2)
    seeds = torch.arange(batch.batch_size) + 5
    out, report = BatchCopyPaste(config)(batch.derived(sample_seeds=seeds), return_report=True)
    assert int(report.num_placed.sum()), "expected pastes"
    assert isinstance(out, PaddedBatchedDenseSample)
    return out


def _pixels(num: int, size: tuple[int, int]) -> torch.Tensor:
    """Return images [num, 3, H, W] uint8 without random numbers."""
    return (torch.arange(num * 3 * size[0] * size[1]).reshape(num, 3, *size) * 37 % 251).to(torch.uint8)


def _masks(size: tuple[int, int]) -> torch.Tensor:
    masks = torch.zeros(3, *size, dtype=torch.bool)
    masks[0, 2:9, 3:12] = masks[1, 6:14, 8:20] = masks[2, 4:12, 1:7] = True
    return masks


def _of_yolo() -> Digests:
    from segpaste.integrations.ultralytics import from_yolo, to_yolo

    size = (20, 24)
    masks, image_of = _masks(size), torch.tensor([0.0, 0, 1])
    numbered = torch.zeros(2, *size, dtype=torch.uint8)
    for image, number, row in ((0, 1, 0), (0, 2, 1), (1, 1, 2)):
        numbered[image][masks[row]] = number
    points = torch.tensor([[[0.2, 0.3, 2], [0.4, 0.35, 1]], [[0.5, 0.5, 2], [0, 0, 0]], [[0.1, 0.4, 2], [0.2, 0.5, 2]]])
    boxes = torch.tensor([[7.5, 5.5, 9, 7.25], [14, 10, 12, 8], [4, 8, 6, 8]]) / torch.tensor([24, 20, 24, 20])
    plain = {"img": _pixels(2, size), "batch_idx": image_of, "cls": torch.tensor([[1.0], [0], [2]]), "bboxes": boxes}
    found = {}
    for overlap in (True, False):
        batch = {**plain, "masks": numbered if overlap else masks.to(torch.uint8), "sem_masks": torch.zeros(2, *size)}
        padded = from_yolo(batch, 6, overlap=overlap)
        found[f"from, overlap {overlap}"] = padded
        for ratio in (1, 4):
            out = to_yolo(_pasted(padded), like=batch, mask_ratio=ratio, overlap=overlap)
            found[f"to, overlap {overlap}, ratio {ratio}"] = out
    pose = {**plain, "keypoints": points}
    padded = from_yolo(pose, 6, overlap=True, schema=SCHEMA)
    found |= {"from pose": padded, "to pose": to_yolo(padded, like=pose, mask_ratio=4, overlap=True)}
    return {name: digest_of(value) for name, value in found.items()}


def _of_rfdetr() -> Digests:
    from segpaste.integrations.rfdetr import Form, from_nested, to_nested

    size = (16, 24)
    masks = _masks(size)
    boxes = torch.tensor([[3.0, 2, 12, 9], [8, 6, 20, 14], [1, 4, 7, 12]])
    found: dict[str, Any] = {}
    for normalized in (False, True):
        colours = _pixels(2, size).float() / 255
        samples = SimpleNamespace(tensors=colours, mask=None, no_padding=True)
        rows = boxes
        if normalized:
            mean, deviation = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
            samples.tensors = (colours - mean[:, None, None]) / deviation[:, None, None]
            rows = torch.cat([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]], 1)
            rows = rows / torch.tensor([24, 16, 24, 16])
        given = []
        for image, part in enumerate((slice(0, 2), slice(2, 3))):
            target = {"boxes": rows[part], "labels": torch.tensor([3, 5, 4])[part], "masks": masks[part]}
            target |= {"area": masks[part].flatten(1).sum(1).float(), "iscrowd": torch.tensor([0, 0, 0])[part]}
            given.append({**target, "size": torch.tensor(size), "image_id": torch.tensor([image])})
        form = Form(normalized=normalized, label_map=[3, 4, 5])
        padded = from_nested(samples, given, 6, form)
        out, after = to_nested(_pasted(padded), samples, given, form)
        name = f"normalized {normalized}"
        found |= {f"from, {name}": padded, f"to, {name}": [out.tensors, after]}
    return {name: digest_of(value) for name, value in found.items()}


def _of_one_sample(scratch: Path) -> Digests:
    """Return what the transform makes of each form of target."""
    from coded_pastes import IDS, box_of, coded_bank, coded_config, coded_photo
    from samples import make_sample
    from segpaste.experimental import CopyPaste

    bank, photo = coded_bank(scratch / "coded"), coded_photo(1)
    image = torch.from_numpy(photo.pixels).permute(2, 0, 1).contiguous()
    masks = np.array([row.mask for row in photo.rows], np.uint8)
    labels, xyxy = [row.label for row in photo.rows], np.array([box_of(row.mask) for row in photo.rows], np.float32)
    target = {"boxes": torch.from_numpy(xyxy), "masks": torch.from_numpy(masks), "labels": torch.tensor(labels)}
    target |= {"image_id": 5, "iscrowd": torch.zeros(len(labels)).long(), "area": target["masks"].flatten(1).sum(1)}
    arrays = {"image": photo.pixels, "masks": masks, "labels": labels}
    sizes = np.concatenate([xyxy[:, :2], xyxy[:, 2:] - xyxy[:, :2]], 1)
    sample = make_sample((31, 23), 3, ["instance"], keypoints=True)
    detection = CopyPaste(bank, coded_config(), label_map=IDS[:3])
    given: dict[str, tuple[Any, Any]] = {
        "sample": (CopyPaste(bank, coded_config()), sample),
        "pair": (detection, (image, target)),
        "dictionary": (detection, {"image": image, **target}),
        "arrays": (detection, arrays),
        "arrays with boxes": (
            CopyPaste(bank, coded_config(), label_map=IDS[:3], bbox_format="coco"),
            {**arrays, "bboxes": sizes},
        ),
    }
    found = {}
    for name, (transform, value) in given.items():
        torch.manual_seed(3)
        found[name] = digest_of(transform(value))
    return found
