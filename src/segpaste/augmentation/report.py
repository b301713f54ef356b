"""Report of a forward pass: tensors that account for every try. Reports can be summed over loaders and machines.

Neither making nor summing reports waits for the device.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from segpaste._reprs import counted
from segpaste.augmentation.config.paste import BatchCopyPasteConfig
from segpaste.engine import LayerRows, Outcome, Placement, PlacementCounts
from segpaste.engine.reference.classmix import where_they_stand
from segpaste.types import Modality, PaddedBatchedDenseSample
from segpaste.types.movable import Movable, register_pytree

DROP_REASONS = (
    "no_source",
    "no_free_slot",
    "does_not_fit",
    "hidden",
    "reverted",
    "too_small",
    "outside_region",
    "covers_too_much",
    "eval_mode",
)
"""Reasons why a tried paste is not in the output, in the order of `PasteReport.num_dropped`.

``no_source``: no source row has an eligible instance, or no staged crop can be pasted (one attempt per image).
``no_free_slot``: the target's slots were occupied. ``does_not_fit``: its box would extend too far beyond the image, or
a cut by the border of its own image would be visible. ``hidden``: none of its pixels is visible. ``reverted``: it was
removed because it hid too much of a stuff class or of an object. ``too_small``: fewer than ``min_area_px`` of its
pixels are visible. ``outside_region``: it fits, but too much of its box is outside the region of its class.
``covers_too_much``: it fits there, but its box would cover too much of the box of an instance of the target.
``eval_mode``: the module is in eval mode (one attempt per image).
"""

_NOT_DRAWN = "no_source", "eval_mode"
"""Reasons of attempts for which no object was drawn."""


LOSS_REASONS = "hidden", "too_small"
"""Reasons why an instance of the target is not in the output: pastes hide all of its pixels, or the visible rest is
below ``min_area_px``, ``min_residual_area_frac`` or another limit of the config."""

_ADVICE = {
    "no_source": "batch at least two images, with instance masks (or source.mask_from='boxes') of whole objects (or "
    "source.whole_only=False)",
    "no_free_slot": "pad to more slots, or set max_instances; images of boxes without masks take crops only with "
    "source.mask_from='boxes'",
    "does_not_fit": "lower placement.scale_range or k_range, or raise placement.max_attempts or layers",
    "reverted": "raise max_hidden_frac",
    "too_small": "raise placement.scale_range, or lower min_area_px",
    "outside_region": "raise placement.max_attempts or layers, or lower placement.region_frac or scale_range",
    "covers_too_much": "raise placement.max_cover_frac or max_attempts, or lower placement.scale_range",
    "eval_mode": "call train()",
}


_NOTHING_TO_MIX = (
    "batch at least two images whose semantic maps hold classes of the taxonomy, or without one classes from 0 to 1023"
)

_NOTHING_IN_IT = (
    "give images with instance masks (or source.mask_from='boxes') of whole objects (or source.whole_only=False)"
)

_OF_PANOPTIC = {
    "no_source": " and of things of the taxonomy",
    "reverted": ", or lower panoptic.tau_stuff_frac or tau_stuff_px",
}
"""What is added to the advice with a taxonomy."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PasteReport(Movable):
    """Numbers and maps of the pastes of each image; ``num_tried == num_placed + num_dropped.sum(1)``.

    Attributes:
        num_tried: [B] int64, pastes that were drawn.
        num_placed: [B] int64, pastes that are in the output.
        num_dropped: [B, len(DROP_REASONS)] int64, pastes that were dropped, by reason.
        visible_layer: [B, H, W] int16, the visible layer at each pixel, -1 for the target.
        placement: the maps, with ``carried`` holding the pastes that are in the output.
        slot_layer: [B, K] int64, the layer of the paste in each output slot, -1 if it holds none.
        slot_source: [B, K] int64, the source slot of the paste in each output slot, -1 if it holds none.
        drawn: [B, L, K_s] bool, the pastes that were placed, before any of them was removed; a replay needs only this,
            the maps of ``placement`` and the sources.
        slot_lost: [B, K] int64, for each slot of the target 0, or if its instance is not in the output 1 plus the
            position of the reason in `LOSS_REASONS`. A paste may be in that slot of the output.

    With ClassMix, ``drawn`` and ``placement.carried`` have one more slot, the last, for pasted pixels that belong to no
    instance. It counts as a paste.
    """

    num_tried: Tensor
    num_placed: Tensor
    num_dropped: Tensor
    visible_layer: Tensor
    placement: Placement
    slot_layer: Tensor
    slot_source: Tensor
    drawn: Tensor
    slot_lost: Tensor

    @property
    def num_lost(self) -> Tensor:
        """Instances of the target that are not in the output, by reason, [B, len(LOSS_REASONS)] int64."""
        return torch.stack([(self.slot_lost == i).sum(1) for i in range(1, 1 + len(LOSS_REASONS))], 1)

    @property
    def num_intended(self) -> Tensor:
        """Attempts for which an object was drawn, [B] int64: not those without a source or in eval mode."""
        return self.num_tried - sum(self.num_dropped[:, DROP_REASONS.index(reason)] for reason in _NOT_DRAWN)

    def __repr__(self) -> str:
        return f"PasteReport({_in_words(PasteSummary.of(self))})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PasteSummary(Movable):
    """Numbers of pastes over many images; summaries can be added without waiting for their device.

    Attributes:
        counts: [3 + len(DROP_REASONS) + len(LOSS_REASONS)] int64: images, pastes tried, placed, and dropped by reason,
            and instances of the targets that were lost by reason.
    """

    counts: Tensor

    @classmethod
    def of(cls, report: PasteReport) -> PasteSummary:
        """Summarise the report of one batch, on its device."""
        num_images = torch.full_like(report.num_tried[:1].sum(), len(report.num_tried))
        sums = torch.stack([num_images, report.num_tried.sum(), report.num_placed.sum()])
        return cls(torch.cat([sums, report.num_dropped.sum(0), report.num_lost.sum(0)]))

    def __add__(self, other: PasteSummary | PasteReport | int) -> PasteSummary:
        """Add a summary or a report, on the device of this one; 0 adds nothing, so that `sum` takes summaries."""
        if other == 0:
            return self
        if isinstance(other, PasteReport):
            other = PasteSummary.of(other)
        if not isinstance(other, PasteSummary):
            return NotImplemented
        return PasteSummary(self.counts + other.counts.to(self.counts.device))

    __radd__ = __add__

    def to_dict(self) -> dict[str, int]:
        """Return the counts by name, which waits for the device.

        ``num_intended`` counts attempts for which an object was drawn: not those without a source or in eval mode.
        """
        lost = (f"lost_{reason}" for reason in LOSS_REASONS)
        names = ("num_images", "num_tried", "num_placed", *DROP_REASONS, *lost)
        found = dict(zip(names, self.counts.tolist(), strict=False))  # sums may be without losses
        return {**found, "num_intended": found["num_tried"] - sum(found[reason] for reason in _NOT_DRAWN)}

    def __repr__(self) -> str:
        return f"PasteSummary({_in_words(self)})"


register_pytree(PasteReport)
register_pytree(PasteSummary)


def _in_words(summary: PasteSummary) -> str:
    images, tried, placed, *counts = summary.counts.tolist()
    dropped, lost = counts[: len(DROP_REASONS)], counts[len(DROP_REASONS) :]
    words = [f"{counted(images, 'image')}: {tried} tried", f"{placed} placed", *_dropped_in_words(dropped)]
    return ", ".join([*words, *(f"lost_{why} {num}" for why, num in zip(LOSS_REASONS, lost, strict=False) if num)])


def _dropped_in_words(num_dropped: Sequence[int]) -> list[str]:
    return [f"{reason} {count}" for reason, count in zip(DROP_REASONS, num_dropped, strict=True) if count]


def report_of(placement: Placement, counts: PlacementCounts, outcome: Outcome) -> PasteReport:
    """Build the report of one forward pass.

    Args:
        placement: the placement of the pastes.
        counts: counts of its tries.
        outcome: outcome of the engine, with the visible layer.
    """
    later = (counts.outside_region, counts.covers_too_much, None)  # nothing is drawn in eval mode
    rejected = [torch.zeros_like(counts.tried) if count is None else count for count in later]
    dropped = [counts.no_source, counts.no_free_slot, counts.does_not_fit, *outcome.num_gone.unbind(1), *rejected]
    return PasteReport(
        num_tried=counts.tried,
        num_placed=outcome.carried.sum((1, 2)),
        num_dropped=torch.stack(dropped, 1),
        visible_layer=outcome.visible_layer,
        placement=replace(placement, carried=outcome.carried),
        slot_layer=outcome.slot_layer,
        slot_source=outcome.slot_source,
        drawn=placement.carried,
        slot_lost=outcome.slot_lost,
    )


def unchanged_report(batch: PaddedBatchedDenseSample, num_layers: int, reason: str) -> PasteReport:
    """Return the report of a batch into which nothing is pasted: one try per image, dropped for ``reason``."""
    labels = batch.labels
    b, k = labels.shape
    num_dropped = labels.new_zeros(b, len(DROP_REASONS))
    num_dropped[:, DROP_REASONS.index(reason)] = 1
    rows, carried = labels.new_zeros(b, num_layers), labels.new_zeros(b, num_layers, k, dtype=torch.bool)
    placement = where_they_stand(LayerRows(rows, rows.bool()), carried)
    return PasteReport(
        num_tried=labels.new_ones(b),
        num_placed=labels.new_zeros(b),
        num_dropped=num_dropped,
        visible_layer=labels.new_full((b, *batch.canvas_size), -1, dtype=torch.int16),
        placement=placement,
        slot_layer=torch.full_like(labels, -1),
        slot_source=torch.full_like(labels, -1),
        drawn=carried.clone(),
        slot_lost=torch.zeros_like(labels),
    )


def num_mixed_tokens(visible_layer: Tensor, patch_size: int) -> Tensor:
    """Count the patches of each image that mix pixels of several layers, or of a layer and the target, [B] int64.

    Args:
        visible_layer: [B, H, W], from a report; its last row and column are repeated up to whole patches.
        patch_size: side of a patch in pixels.

    Raises:
        ValueError: it is below 1.
    """
    if patch_size < 1:
        raise ValueError(f"num_mixed_tokens: expected patch_size >= 1, got {patch_size}")
    height, width = visible_layer.shape[-2:]
    bottom, right = -height % patch_size, -width % patch_size
    layer = F.pad(visible_layer[:, None].float(), [0, right, 0, bottom], mode="replicate")  # exact: layers are few
    highest = F.max_pool2d(layer, patch_size)
    lowest = -F.max_pool2d(-layer, patch_size)
    return (highest != lowest).flatten(1).sum(1)


def nothing_pasted_warning(
    report: PasteReport, config: BatchCopyPasteConfig, modalities: Collection[Modality]
) -> str | None:
    """Return a message that says why nothing was pasted into a batch; None if there is a paste, or nothing was tried.

    A single image of several may have tried by chance, and its source may be the one image without objects. So at least
    two images must have tried, unless the batch has only one.

    Args:
        report: report of the batch; it is read once, which waits for its device.
        config: config of the paste.
        modalities: modalities of the batch.
    """
    _, tried, placed, *dropped = PasteSummary.of(report).counts[: 3 + len(DROP_REASONS)].tolist()
    is_chance = int((report.num_tried > 0).sum()) < min(2, len(report.num_tried))
    return None if placed or is_chance else _nothing_pasted(tried, dropped, config, Modality.DEPTH in modalities)


def nothing_there_warning(num_images: int, config: BatchCopyPasteConfig) -> str | None:
    """Return the message of `nothing_pasted_warning` for a batch that has no instance to paste, see `unchanged_report`.

    Args:
        num_images: B.
        config: config of the paste.
    """
    return _nothing_pasted(num_images, [num_images if r == "no_source" else 0 for r in DROP_REASONS], config)


def _nothing_pasted(
    tried: int, dropped: Sequence[int], config: BatchCopyPasteConfig, has_depth: bool = False
) -> str | None:
    """Return a message for a batch whose tries were all dropped, else None."""
    if tried == 0:
        return None
    why = ", ".join(_dropped_in_words(dropped))
    reason = DROP_REASONS[dropped.index(max(dropped))]
    advice = _hidden(config, has_depth) if reason == "hidden" else _ADVICE[reason]
    added = "" if config.panoptic is None else _OF_PANOPTIC.get(reason, "")
    if reason == "no_source" and config.emit_classmix:
        advice, added = _NOTHING_TO_MIX, ""
    elif reason == "no_source" and config.source.kind == "bank":
        advice, added = _nothing_staged(config), ""
    elif reason == "no_source" and config.source.kind != "intra_batch":
        advice = _NOTHING_IN_IT
    advice += added
    return f"BatchCopyPaste could paste nothing into a batch: of {counted(tried, 'try', 'tries')}, {why}; {advice}"


def _nothing_staged(config: BatchCopyPasteConfig) -> str:
    """Return the advice for staged crops of which none can be pasted."""
    of_things = " of a thing class of the taxonomy (class_map gives the class in the dataset of each class of the bank)"
    parts = ["each staged crop needs an object", "" if config.panoptic is None else of_things]
    with_depth = " and depth, or set source.without_depth='invalid', since 'skip' leaves out crops without depth"
    return "".join([*parts, with_depth if config.source.without_depth == "skip" else ", a mask that is not empty"])


def _hidden(config: BatchCopyPasteConfig, has_depth: bool) -> str:
    """Return the advice for pastes of which no pixel is visible, in words of what the batch has."""
    if has_depth and config.emit_depth is not False:
        return "the targets are nearer everywhere; check the unit of depth, and that depth and masks are aligned"
    if config.panoptic is not None and any(config.panoptic.contact_priority.values()):
        return "the targets have a higher panoptic.contact_priority everywhere; raise that of the pasted classes"
    return (
        "they shrink to less than a pixel (raise placement.scale_range), or lie on padding or on pixels of the ignored "
        "class (set placement.cover_void)"
    )
