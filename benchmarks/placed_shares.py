"""Share of the intended pastes that are placed, for objects of each size.

    python -m benchmarks.placed_shares --data DIR [--preset documents] [KEY=VALUE ...]

An intended paste is an object that was drawn for an image. Photos keep their sizes: batches of eight are padded to a
common canvas, as `segpaste augment` does. Objects are classed by the area of their mask relative to their image, by the
bounds that COCO's 32 and 96 pixels squared are on 480 x 640 pixels: small is below 1/300, medium below 3/100, large
below 1/2, and huge above. The last column is a class's share of the placed objects over its share of the drawn ones: 1
where fitting favours no size.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import yaml
from torch import Tensor

from segpaste import BatchCopyPaste, BatchCopyPasteConfig, get_preset
from segpaste.augmentation import IntraBatchSource, PasteReport, PasteSummary, PlacementRequest
from segpaste.augmentation.config.base import merged
from segpaste.augmentation.sources.strategies import Sampled
from segpaste.datasets import CocoDetectionV2, FixedSizeCrop, SceneConfig, SceneDataset, open_dataset
from segpaste.engine import Sources
from segpaste.engine.reference.draws import slots
from segpaste.engine.reference.draws.draw import choose_rows
from segpaste.seeding import derive_seed
from segpaste.types import BatchedDenseSample, DenseSample, PaddedBatchedDenseSample

BOUNDS = (1 / 300, 3 / 100, 1 / 2)
NAMES = ("small", "medium", "large", "huge")
BATCH_SIZE = 8


class Watched(IntraBatchSource):
    """Source that notes which objects were drawn, before any place was tried."""

    chosen: Tensor
    source_idx: Tensor

    def sample(self, target: PaddedBatchedDenseSample, eligible: Tensor, request: PlacementRequest) -> Sampled:
        """See `IntraBatchSource.sample`."""
        rows = choose_rows(eligible.any(1), request.seeds, request.config.layers)
        tables = Sources(eligible, request.occupied, target.labels, request.extent)
        of_layers = Sources(*(None if t is None else t[rows.source_idx] for t in tables))  # type: ignore[arg-type]
        choice = slots.choose(slots.Draw(request.targets, of_layers, rows, request.tables, request.rules()))
        self.chosen, self.source_idx = choice.chosen, rows.source_idx
        return super().sample(target, eligible, request)


class Counts(NamedTuple):
    """Numbers of objects by size class, [4] int64 each, and the sum of all reports."""

    drawn: Tensor
    placed: Tensor
    summary: PasteSummary


def size_classes(batch: PaddedBatchedDenseSample) -> Tensor:
    """Return the size class of each instance, [B, K] int64."""
    assert batch.instance_masks is not None
    area = batch.instance_masks.flatten(2).sum(2).double()
    pixels = batch.images[0, 0].numel() if batch.padding_mask is None else (~batch.padding_mask).flatten(1).sum(1)
    share = area / torch.as_tensor(pixels).view(-1, 1)
    return torch.bucketize(share, torch.tensor(BOUNDS, dtype=torch.float64), right=True)


def batches(photos: Sequence[DenseSample], num: int) -> Iterator[PaddedBatchedDenseSample]:
    """Yield ``num`` batches of random photos, each padded to the largest of its batch."""
    generator = torch.Generator().manual_seed(0)
    for step in range(num):
        picked = [photos[i] for i in torch.randperm(len(photos), generator=generator)[:BATCH_SIZE].tolist()]
        size = max(p.canvas_size[0] for p in picked), max(p.canvas_size[1] for p in picked)
        padded = BatchedDenseSample.from_samples([FixedSizeCrop(size).transform(p, (0, 0)) for p in picked])
        seeds = [derive_seed(0, step, 0, 0, i) for i in range(len(picked))]
        batch = padded.to_padded(max(len(p.labels) for p in picked) * 2 + 1)
        yield batch.derived(sample_seeds=torch.tensor([s - (1 << 64) if s >> 63 else s for s in seeds]))


def measure(photos: Sequence[DenseSample], config: BatchCopyPasteConfig, num: int) -> Counts:
    """Paste ``num`` batches and count."""
    source = Watched()
    paste, reports = BatchCopyPaste(config, source), []
    drawn, placed = torch.zeros(4, dtype=torch.int64), torch.zeros(4, dtype=torch.int64)
    for batch in batches(photos, num):
        report: PasteReport = paste(batch, return_report=True)[1]
        sizes = size_classes(batch)[source.source_idx]
        drawn += sizes[source.chosen].bincount(minlength=4)
        placed += sizes[report.placement.carried].bincount(minlength=4)
        reports.append(PasteSummary.of(report))
    return Counts(drawn, placed, sum(reports[1:], reports[0]))


def table(name: str, counts: Counts) -> str:
    """Return the rows of a table in Markdown."""
    found, total = counts.summary.to_dict(), int(counts.placed.sum())
    intended, placed = found["num_intended"], found["num_placed"]
    rows = [f"| {name} | all | {intended} | {placed} | {placed / max(intended, 1):.1%} | |"]
    for i, size in enumerate(NAMES):
        num, kept = int(counts.drawn[i]), int(counts.placed[i])
        shares = num / max(int(counts.drawn.sum()), 1), kept / max(total, 1)
        relative = f"{shares[1] / shares[0]:.2f}" if num else "none drawn"
        rows.append(f"| | {size} | {num} | {kept} | {kept / max(num, 1):.1%} | {relative} |")
    dropped = {key: value for key, value in found.items() if key not in ("num_images", "num_tried", "num_placed")}
    return "\n".join(rows) + f"\n<!-- {name}: {dropped} -->"


def datasets(data: Path | None) -> Iterator[tuple[str, list[DenseSample]]]:
    """Yield the scenes, and the photos that are there."""
    scenes = SceneDataset(32, SceneConfig(height=240, width=320))
    yield "scenes", [scenes[i] for i in range(32)]
    if data is None:
        return
    coco = data / "tiny_coco"
    photos = CocoDetectionV2(coco / "train2017", coco / "annotations" / "instances_train2017.json")
    yield "tiny_coco", [photos[i] for i in range(len(photos))]
    found = open_dataset(data / "coco128_seg")
    yield "coco128_seg", [found[i] for i in range(len(found))]


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.placed_shares", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="a folder with tiny_coco and coco128_seg; default: only scenes")
    parser.add_argument("--preset", help="default: the default config, pasted into every image")
    parser.add_argument("--num", type=int, default=40, help="batches of eight images, default: 40")
    parser.add_argument("changes", nargs="*", metavar="KEY=VALUE", help="such as placement.layers=3")
    args = parser.parse_args()
    values: dict[str, Any] = (
        {"placement": {"paste_prob": 1.0}} if args.preset is None else get_preset(args.preset).config.model_dump()
    )
    for change in args.changes:
        key, _, text = change.partition("=")
        for part in reversed(key.split(".")):
            text = {part: yaml.safe_load(text) if isinstance(text, str) else text}
        values = merged(values, text)
    config = BatchCopyPasteConfig.model_validate(values)
    print("| images | objects | intended | placed | share | placed share / drawn share |\n|---|---|---|---|---|---|")
    warnings.filterwarnings("ignore", "BatchCopyPaste could paste nothing")
    for name, photos in datasets(args.data):
        print(table(name, measure([_plain(photo) for photo in photos], config, args.num)))


def _plain(sample: DenseSample) -> DenseSample:
    """Return image and instances alone, so that depth and stuff do not hide pastes."""
    names = ("image", "boxes", "labels", "instance_ids", "instance_masks")
    return DenseSample(**{name: getattr(sample, name) for name in names})


if __name__ == "__main__":
    main()
