"""Pastes from a bank, written again: crops as images of one slot, and the draw of crops."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import brute_force
import brute_force_draws
from brute_force_draws import SCALE_DEN, Drawn, bits
from brute_force_pixels import Fields
from segpaste.augmentation import BatchCopyPasteConfig, Placement
from segpaste.types import PaddedBatchedDenseSample, StagedCrops


def crops_of(staged: StagedCrops, batch: PaddedBatchedDenseSample, config: BatchCopyPasteConfig) -> list[Fields]:
    """Every staged crop as an image with one instance, those of a target after those of the one before."""
    found: list[Fields] = []
    takes_depth = batch.depth is not None and config.emit_depth is not False
    for b in range(staged.batch_size):
        for k in range(staged.num_crops):
            x1, y1, x2, y2 = staged.boxes[b, k].tolist()
            image = staged.images[b, k]
            if image.dtype != batch.images.dtype:
                assert config.source.value_range is not None
                white = config.source.value_range
                image = (image.float() * (white / 255)).to(batch.images.dtype).float()
            fields = {
                "images": image.numpy(),
                "instance_masks": staged.alphas[b, k].numpy(),
                "boxes": staged.boxes[b, k, None].numpy(),
                "labels": staged.class_ids[b, k, None].numpy(),
                "instance_valid": (staged.boxes[b, k, 2:] > staged.boxes[b, k, :2]).all()[None].numpy(),
            }
            assert bool(staged.alphas[b, k, 0, y1:y2, x1:x2].sum() == staged.alphas[b, k].sum())
            if takes_depth and staged.depth is not None and staged.depth_valid is not None:
                fields |= {"depth": staged.depth[b, k].numpy(), "depth_valid": staged.depth_valid[b, k].numpy()}
            if batch.normals is not None and staged.normals is not None:
                fields["normals"] = staged.normals[b, k].numpy()
            if staged.camera_intrinsics is not None:
                fields["camera_intrinsics"] = staged.camera_intrinsics[b, k].numpy()
            found.append(fields)
    return found


def draw(
    batch: PaddedBatchedDenseSample, staged: StagedCrops, config: BatchCopyPasteConfig, b: int
) -> brute_force_draws.Drawn:
    """The placement of image ``b``, its sources counted from the first crop of the first image."""
    target, first, num = brute_force.prepared(batch, config)[b], b * staged.num_crops, config.source.crops_per_target
    crops = crops_of(staged, batch, config)[first : first + staged.num_crops]
    seed = int(target["sample_seeds"])
    keys = {k: bits(seed, "crop", k) // 4 for k, crop in enumerate(crops) if _is_usable(crop, target, config)}
    order = sorted(range(len(crops)), key=lambda k: (-keys.get(k, -1), k))[:num]
    drawn = Drawn(
        source_idx=[1 + k for k in order],
        layer_valid=[k in keys for k in order],
        flips=[brute_force_draws.flips_of(seed, config, j) for j in range(num)],
    )
    usable = [
        crop if k in keys else {**crop, "instance_valid": crop["instance_valid"] & False}
        for k, crop in enumerate(crops)
    ]
    as_layers = config.placement.model_copy(update={"layers": num, "grouping": "instance"})
    rules = config.model_copy(update={"placement": as_layers})
    shrunk = None if config.source.relative_to == "crop" else [_shrunk(staged, b, k) for k in order]
    brute_force_draws.place([target, *usable], rules, 0, drawn, bool(keys), shrunk)
    drawn.source_idx = [first + k for k in order]
    return drawn


def _is_usable(crop: Fields, target: Fields, config: BatchCopyPasteConfig) -> bool:
    if not brute_force_draws.eligible(crop, config):
        return False
    if "depth" not in target or config.source.without_depth == "invalid":
        return True
    return "depth_valid" in crop and bool((crop["depth_valid"] & crop["instance_masks"]).any())


def _shrunk(staged: StagedCrops, b: int, k: int) -> Fraction:
    assert staged.scales is not None
    scaled = float(staged.scales[b, k]) * SCALE_DEN
    whole = floor(scaled)
    half = scaled - whole == 0.5
    rounded = whole + (whole % 2 if half else scaled - whole > 0.5)
    return Fraction(max(int(rounded), 1), SCALE_DEN)


def paste(
    batch: PaddedBatchedDenseSample, staged: StagedCrops, config: BatchCopyPasteConfig, placement: Placement
) -> list[brute_force.Outcome]:
    """Return every image, with the pastes of a placement as it was drawn."""
    return brute_force.paste(batch, config, placement, crops_of(staged, batch, config))
