"""Case of the checks, one forward of `segpaste.augmentation.BatchCopyPaste` as its user sees it, and violations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, wraps

import torch
from torch import Tensor

from segpaste.augmentation import BatchCopyPasteConfig, PanopticConfig, PasteReport
from segpaste.augmentation.config.base import as_fraction
from segpaste.augmentation.prepare import padded_to_multiple
from segpaste.invariants._layers import LayerMap, Surface, layer_maps, layer_surface, seen, seen_map
from segpaste.types import Modality, PaddedBatchedDenseSample, tight_boxes
from segpaste.types.check import not_none
from segpaste.types.sampling import outward_boxes

_MAX_LINES = 20
_PLACES = {
    1: ("in the image", ""),
    2: ("in slot {0}", "{num} slots"),
    3: ("at pixel (y {0}, x {1})", "{num} pixels"),
}


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule that one image breaks.

    Attributes:
        invariant: name of the check.
        image_idx: row of the batch.
        expected: expectation of the rule.
        came: value in the batch, and its place.
    """

    invariant: str
    image_idx: int
    expected: str
    came: str

    def __str__(self) -> str:
        return f"{self.invariant}: image {self.image_idx}: expected {self.expected}, got {self.came}"


class InvariantError(AssertionError):
    """Error raised for violations; ``violations`` has all of them, the message the first ones."""

    def __init__(self, violations: Iterable[Violation]) -> None:
        self.violations = tuple(violations)
        super().__init__(self.violations)

    def __str__(self) -> str:
        lines = [str(violation) for violation in self.violations[:_MAX_LINES]]
        more = len(self.violations) - len(lines)
        return "\n".join(lines + ([f"and {more} more"] if more else []))


def found(name: str, bad: Tensor, expected: str, came: str, **values: Tensor) -> list[Violation]:
    """Return one violation for each image that has a True in ``bad``, with the values at its first place.

    Args:
        name: name of the check.
        bad: bool, [B] per image, [B, K] per slot or [B, H, W] per pixel.
        expected: format string over ``values`` at that place.
        came: format string over ``values``, too.
        values: tensors whose first dimensions are those of ``bad``.
    """
    if not bool(bad.any()):
        return []
    where, others = _PLACES[bad.ndim]
    violations = []
    for image_idx in bad.reshape(bad.shape[0], -1).any(1).nonzero().flatten().tolist():
        places = bad[image_idx].nonzero()
        place = places[0].tolist()
        texts = {key: _text(value[(image_idx, *place)]) for key, value in values.items()}
        text = f"{came.format(**texts)} {where.format(*place)}"
        if len(places) > 1:
            text += f" (the first of {others.format(num=len(places))})"
        violations.append(Violation(name, image_idx, expected.format(**texts), text))
    return violations


def _text(value: Tensor) -> str:
    if value.ndim:
        return "(" + ", ".join(_text(v) for v in value) + ")"
    return f"{value.item():.6g}" if value.is_floating_point() else str(value.item())


@dataclass(frozen=True, eq=False)
class Case:
    """One forward, to be checked.

    Attributes:
        before: input batch of the module; it is padded as in the config, so that its canvas is that of the output.
        after: output batch.
        report: report of the call, from ``return_report=True``.
        config: configuration of the module.
        source: batch whose rows ``report.placement.source_idx`` indexes; None if it is ``before``.

    Raises:
        ValueError: at construction, if the batches and the report are not from one forward.
    """

    before: PaddedBatchedDenseSample
    after: PaddedBatchedDenseSample
    report: PasteReport
    config: BatchCopyPasteConfig = field(default_factory=BatchCopyPasteConfig)
    source: PaddedBatchedDenseSample | None = None

    def __post_init__(self) -> None:
        if self.config.placement.pad_to_multiple is not None:
            padded = padded_to_multiple(self.before, self.config.placement.pad_to_multiple)
            object.__setattr__(self, "before", padded)
        before, after = self.before, self.after
        sizes: dict[str, tuple[int, ...]] = {
            "before": (before.batch_size, *before.canvas_size),
            "after": (after.batch_size, *after.canvas_size),
            "report.visible_layer": tuple(self.report.visible_layer.shape),
        }
        if len(set(sizes.values())) > 1:
            raise ValueError(f"Case: expected one [B, H, W], got {sizes}; give before, after and report of one forward")
        slots = {"before": before.max_instances, "after": after.max_instances}
        slots["report.slot_layer"] = self.report.slot_layer.shape[1]
        if not slots["before"] <= slots["after"] == slots["report.slot_layer"]:
            raise ValueError(
                f"Case: expected one K after the paste, not below the K before it, got {slots}; "
                "give before, after and report of one forward"
            )

    @property
    def modalities(self) -> frozenset[Modality]:
        """Modalities of both the input and the output."""
        return self.before.modalities & self.after.modalities

    @property
    def panoptic(self) -> PanopticConfig | None:
        """Taxonomy and thresholds, or None if the batches are not panoptic."""
        return self.config.panoptic if Modality.PANOPTIC in self.modalities else None

    @property
    def has_priorities(self) -> bool:
        """True if some class has a contact priority and the batches are panoptic."""
        return self.panoptic is not None and any(self.panoptic.contact_priority.values())

    def priority(self, classes: Tensor) -> Tensor:
        """Return the contact priorities of classes, int16."""
        priorities = torch.zeros_like(classes, dtype=torch.int16)
        for label, priority in ({} if self.panoptic is None else self.panoptic.contact_priority).items():
            priorities.masked_fill_(classes == label, priority)
        return priorities

    @property
    def source_batch(self) -> PaddedBatchedDenseSample:
        """Batch of the sources."""
        return self.before if self.source is None else self.source

    @property
    def has_slots(self) -> bool:
        """True if the source and the placement have instance slots, so that a layer can paste."""
        return 0 not in (self.source_batch.max_instances, self.report.placement.carried.shape[-1])

    @cached_property
    def layers(self) -> tuple[LayerMap, ...]:
        """Map of each layer, from the placement in the report."""
        return layer_maps(self.report.placement, self.source_batch, self.before.canvas_size)

    @cached_property
    def seen(self) -> LayerMap:
        """Map of the visible layer of each pixel, undefined outside of pastes."""
        return seen_map(self.report.visible_layer, self.layers)

    @cached_property
    def surfaces(self) -> tuple[Surface, ...]:
        """Depth of each layer."""
        return self._surfaces(by_value=False)

    @cached_property
    def ordering_surfaces(self) -> tuple[Surface, ...]:
        """Depth of each layer that decides what is nearer, see ``depth_order``."""
        return self._surfaces(by_value=True) if self.orders_by_value else self.surfaces

    @property
    def orders_by_value(self) -> bool:
        """True if depth that is not valid also decides what is nearer."""
        return self.config.depth_order == "value"

    def _surfaces(self, by_value: bool) -> tuple[Surface, ...]:
        perspective = self.config.perspective_depth
        return tuple(
            layer_surface(layer, self.before, self.source_batch, perspective, by_value) for layer in self.layers
        )

    @cached_property
    def seen_surface(self) -> Surface:
        """Depth of the visible layer of each pixel, undefined outside of pastes."""
        parts = zip(*self.surfaces, strict=True)
        return Surface(*(seen(self.report.visible_layer, part) for part in parts))

    @cached_property
    def pasted(self) -> Tensor:
        """Pixels covered by a paste, M_eff, [B, H, W] bool."""
        return self.report.visible_layer >= 0

    @cached_property
    def is_paste(self) -> Tensor:
        """True for output slots with a paste, [B, K] bool."""
        return self.report.slot_layer >= 0

    @cached_property
    def left(self) -> Tensor:
        """Masks of the target without the pasted pixels, [B, K_t, H, W] bool."""
        return not_none(self.before.instance_masks) & ~self.pasted[:, None]

    @cached_property
    def area_before(self) -> Tensor:
        """Area of the instances of the target before the paste, [B, K_t] int64 pixels."""
        return _areas(self.before.instance_masks)

    @cached_property
    def area_left(self) -> Tensor:
        """Area of the instances of the target without the pasted pixels, [B, K_t] int64 pixels."""
        return _areas(self.left)

    @cached_property
    def area_after(self) -> Tensor:
        """Area of the instances of the output, [B, K] int64 pixels."""
        return _areas(self.after.instance_masks)

    @cached_property
    def box_shift(self) -> Tensor:
        """Maximum shift of an edge of each box by pastes that hide a part, [B, K_t] float32 pixels."""
        height, width = self.before.canvas_size
        limits = torch.tensor([width, height, width, height], dtype=torch.int64, device=self.before.device)
        whole = outward_boxes(self.before.boxes)
        left = tight_boxes(self.left.flatten(0, 1)).view_as(whole)
        return (left - torch.minimum(whole.clamp(min=0), limits)).abs().amax(-1)

    @cached_property
    def survives(self) -> Tensor:
        """True for instances of the target with enough pixels left to keep their row, [B, K_t] bool."""
        frac, rules = as_fraction(self.config.min_residual_area_frac), self.config.placement.originals
        enough = self.area_left * frac.denominator >= self.area_before * frac.numerator
        enough &= (self.area_left >= rules.min_residual_area_px) | (self.area_left == self.area_before)
        if rules.max_box_shift_px is not None:
            enough |= self.box_shift <= rules.max_box_shift_px
        return self.before.instance_valid & enough & (self.area_left >= self.config.min_area_px)

    @cached_property
    def kept(self) -> Tensor:
        """True for slots of the output with an instance of the target, [B, K_t] bool."""
        return (self.after.instance_valid & ~self.is_paste)[:, : self.before.max_instances]

    @cached_property
    def orphans(self) -> Tensor:
        """Pixels of instances that lost their row, [B, H, W] bool."""
        if self.before.instance_masks is None:
            return torch.zeros_like(self.pasted)
        dropped = self.before.instance_valid & ~self.survives
        return (self.left & dropped[:, :, None, None]).any(1)


Check = Callable[[Case], list[Violation]]
_NEEDS: dict[str, tuple[frozenset[Modality], tuple[str, ...], bool, bool]] = {}


def invariant(
    *modalities: Modality, fields: tuple[str, ...] = (), taxonomy: bool = False, boxes_only: bool = False
) -> Callable[[Check], Check]:
    """Declare the fields that a check reads, so that it rejects a case without them.

    Args:
        modalities: modalities that input and output must both have.
        fields: names of other fields of a batch that input and output must both have.
        taxonomy: True if ``config.panoptic`` must be set.
        boxes_only: True if the input must have boxes only, and ``config.source.mask_from`` must be set.
    """

    def declare(function: Check) -> Check:
        _NEEDS[function.__name__] = frozenset(modalities), fields, taxonomy, boxes_only

        @wraps(function)
        def checked(case: Case) -> list[Violation]:
            if (reason := what_is_missing(function.__name__, case)) is not None:
                raise ValueError(f"{function.__name__}: {reason}")
            return function(case)

        return checked

    return declare


def what_is_missing(name: str, case: Case) -> str | None:
    """Return why the check of this name cannot run on the case, or None if it can."""
    modalities, fields, taxonomy, boxes_only = _NEEDS[name]
    missing = sorted(m.value for m in modalities - case.modalities)
    missing += [name for name in fields if None in (getattr(case.before, name), getattr(case.after, name))]
    if missing:
        return f"expected {missing} in the batch before and after the paste, got neither or one"
    if taxonomy and case.panoptic is None:
        return "expected config.panoptic, which says what is thing and what is stuff, got None; give it to Case"
    if boxes_only and (case.before.instance_masks is not None or case.config.source.mask_from is None):
        return "expected a batch with boxes only and config.source.mask_from, got masks, or no such config"
    return None


def _areas(masks: Tensor | None) -> Tensor:
    return not_none(masks).flatten(2).sum(2, dtype=torch.int32).to(torch.int64)  # sums in int64 take twice as long
