"""Sources of pasted objects: their protocols, the request to a source, and the sources that take rows of batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from segpaste._reprs import described
from segpaste.augmentation.config.placement import PlacementConfig
from segpaste.augmentation.rules import fixed_rules, on_canvas
from segpaste.augmentation.schedule import Schedule
from segpaste.augmentation.tables import ClassTables
from segpaste.engine import (
    Classes,
    DrawRules,
    DrawTables,
    LayerRows,
    Placement,
    PlacementCounts,
    Sources,
    Targets,
    engine_for,
)
from segpaste.engine.record_fields import RecordField, fields_of
from segpaste.engine.reference.geometry import valid_extent
from segpaste.engine.schema import LARGEST_NUM, SCALE_DEN, HeldRules, Pick
from segpaste.types import PaddedBatchedDenseSample, StagedCrops
from segpaste.types.check import check_count, check_tensor, not_none
from segpaste.types.sampling import outward_boxes
from segpaste.types.tracing import is_traced

Sampled = tuple[PaddedBatchedDenseSample, Placement, PlacementCounts]
"""Source batch, placement of its objects, and counts of the tries."""


@dataclass(frozen=True, slots=True, eq=False)
class PlacementRequest:
    """Targets and parameters of a draw, as they are given to a source.

    Attributes:
        seeds: [B] int64, the targets' seeds.
        extent: [B, 2] int64, (width, height) of the targets without padding.
        occupied: [B, K_t, 4] int64, pixel boxes of the targets' instances, zero in slots without one.
        num_free: [B] int64, number of instance slots that pastes may take.
        canvas_size: (H, W) of the target.
        config: the ranges and probabilities, with ``layers`` and ``grouping`` as the source uses them.
        schedule: the parameters that may change between steps, as tensors.
        classes: tables of things and stuff, if the config has a taxonomy.
        staged: crops of a bank, for a source that uses them.
        fixed: ``config`` as integers, if it was converted before.
        regions: regions that may be pasted on, see `segpaste.engine.Targets`.
    """

    seeds: Tensor
    extent: Tensor
    occupied: Tensor
    num_free: Tensor
    canvas_size: tuple[int, int]
    config: PlacementConfig
    schedule: Schedule
    classes: ClassTables | None = None
    staged: StagedCrops | None = None
    fixed: DrawRules | None = None
    regions: Tensor | None = None

    @property
    def tables(self) -> DrawTables:
        """The parameters of ``schedule`` for these targets, as an engine takes them."""
        return self.schedule.tables_for(self.seeds)

    @property
    def targets(self) -> Targets:
        """Targets as an engine takes them."""
        return Targets(self.seeds, self.occupied, self.num_free, self.extent, self.regions)

    def rules(self, source_canvas: tuple[int, int] | None = None) -> DrawRules:
        """Return the parameters of the draws for sources of this canvas (H, W), by default that of the target."""
        fixed = fixed_rules(self.config) if self.fixed is None else self.fixed
        if isinstance(fixed, HeldRules):  # no canvas changes them
            return fixed
        return on_canvas(fixed, self.config, source_canvas or self.canvas_size)


@dataclass(frozen=True, slots=True, eq=False)
class LayerSources:
    """Source rows that were chosen for the layers.

    Attributes:
        source_idx: [B, L] int64.
        layer_valid: [B, L] bool.
        extent: [B, L, 2] int64, (width, height) of the sources without padding.
        boxes: [B, L, K_s, 4] int64, pixel boxes of their instances.
        labels: [B, L, K_s] int64, their classes.
        eligible: [B, L, K_s] bool, instances that may be pasted.
        canvas_size: (H, W) of the sources; None if it is that of the targets.
        shrunk: [B, L] int64 over `SCALE_DEN`, divisor of the drawn scales; None for 1.
    """

    source_idx: Tensor
    layer_valid: Tensor
    extent: Tensor
    boxes: Tensor
    labels: Tensor
    eligible: Tensor
    canvas_size: tuple[int, int] | None = None
    shrunk: Tensor | None = None

    @classmethod
    def of_rows(cls, source: PaddedBatchedDenseSample, source_idx: Tensor, eligible: Tensor) -> LayerSources:
        """Return the sources of layers that take rows of a batch.

        Args:
            source: the batch, S rows and K_s slots.
            source_idx: [B, L] int64, the row that each layer takes.
            eligible: [S, K_s] bool, instances that may be pasted. A layer whose row has none is not valid.
        """
        return cls(
            source_idx=source_idx,
            layer_valid=eligible.any(1)[source_idx],
            extent=valid_extent(source)[source_idx],
            boxes=outward_boxes(source.boxes)[source_idx],
            labels=source.labels[source_idx],
            eligible=eligible[source_idx],
            canvas_size=source.canvas_size,
        )


def draw_placement(request: PlacementRequest, sources: LayerSources) -> tuple[Placement, PlacementCounts]:
    """Draw slots, scale, flip and place for every layer.

    Returns:
        The placement, whose ``carried`` holds the slots that fit, and the counts of the tries.

    Raises:
        TypeError: a tensor of the request or of the sources has another dtype.
        ValueError: it has another shape or device, or ``shrunk`` is not positive.
    """
    _check_sources(request, sources)
    of_layers = Sources(
        eligible=sources.eligible.flatten(0, 1),
        boxes=sources.boxes.flatten(0, 1),
        labels=sources.labels.flatten(0, 1),
        extent=sources.extent.flatten(0, 1),
        shrunk=None if sources.shrunk is None else sources.shrunk.flatten(),
    )
    rows = LayerRows(sources.source_idx, sources.layer_valid)
    rules = request.rules(sources.canvas_size)
    return engine_for(request.seeds.device).draw(request.targets, of_layers, request.tables, rules, rows)


_TARGETS = fields_of(Targets)
_SOURCES = (
    *fields_of(LayerRows),
    *(field._replace(shape=("B", "L", *field.shape[1:])) for field in fields_of(Sources)),
)


def check_declared(
    label: str,
    record: object,
    declared: Sequence[RecordField],
    sizes: dict[str, int],
    device: torch.device,
    whose: str,
) -> None:
    """Check dtype, shape and device of the tensors of a record, see `check_tensor`; errors name the device's owner."""
    for name, shape, dtype, is_optional, _ in declared:
        if is_optional and getattr(record, name) is None:
            continue
        value = check_tensor(f"{label}.{name}", getattr(record, name), shape, (not_none(dtype),), sizes)
        if value.device != device:
            raise ValueError(f"{label}.{name}: expected a tensor on {device}, {whose}, got {value.device}")


def _check_sources(request: PlacementRequest, sources: LayerSources) -> None:
    """Reject tensors that an engine cannot read; check values only where they can be read without waiting."""
    sizes: dict[str, int] = {"L": request.config.layers}
    device = request.seeds.device
    canvas_size, shrunk = sources.canvas_size, sources.shrunk
    check_declared("PlacementRequest", request, _TARGETS, sizes, device, "the seeds' device")
    check_declared("LayerSources", sources, _SOURCES, sizes, device, "the seeds' device")
    if canvas_size is not None:
        if not isinstance(canvas_size, tuple) or len(canvas_size) != 2:
            raise TypeError(f"LayerSources.canvas_size: expected (H, W), got {canvas_size!r:.80}")
        for size in canvas_size:
            check_count("LayerSources.canvas_size", size, 1)
    if shrunk is not None and device.type == "cpu" and not is_traced():
        wrong = shrunk[(shrunk < 1) | (shrunk > LARGEST_NUM)]
        if wrong.numel():
            raise ValueError(
                f"LayerSources.shrunk: expected 1 to {LARGEST_NUM}, over SCALE_DEN = {SCALE_DEN}, got {int(wrong[0])}"
            )


@runtime_checkable
class SourceStrategy(Protocol):
    """Source that names the layers that are pasted over each target."""

    def sample(self, target: PaddedBatchedDenseSample, eligible: Tensor, request: PlacementRequest) -> Sampled:
        """Choose sources and draw their placement; traces without a graph break.

        Args:
            target: the batch that is pasted into, with seeds and instance masks.
            eligible: [B, K] bool, instances of the target batch that may be sources.
            request: seeds, extents, free slots and ranges.

        Returns:
            The source batch (S rows, K_s slots), the placement of its objects, and the counts of the attempts. The
            placement names rows of that batch, scales above 0, and carries at most ``request.num_free`` slots for each
            target; violations raise ValueError on the CPU, and are not checked on a GPU.
        """


@runtime_checkable
class RowStrategy(Protocol):
    """Source that names the rows of a batch that ClassMix mixes into each target."""

    def rows(self, target: PaddedBatchedDenseSample, candidates: Tensor, request: PlacementRequest) -> LayerRows:
        """Choose a row for each layer; traces without a graph break.

        Args:
            target: the batch that is pasted into, with seeds.
            candidates: [B] bool, rows of the target batch that have something to paste.
            request: seeds and the number of layers.
        """


class Offer(NamedTuple):
    """Objects that a source offers to all targets, known before these are surveyed."""

    batch: PaddedBatchedDenseSample
    """The source batch."""
    sources: Sources | None
    """Its instances that may be pasted; None for those that the survey finds, if the source batch is the target."""
    pick: Pick
    """Rule by which layers choose rows of it."""


@runtime_checkable
class OfferingSource(Protocol):
    """Source whose placement an engine draws by a rule."""

    def offer(self, target: PaddedBatchedDenseSample, staged: StagedCrops | None, classes: ClassTables | None) -> Offer:
        """Return the objects for a target.

        Args:
            target: the batch that is pasted into.
            staged: crops of a bank.
            classes: tables of things and stuff, if the config has a taxonomy.
        """


def drawn(offer: Offer, target: PaddedBatchedDenseSample, eligible: Tensor, request: PlacementRequest) -> Sampled:
    """Draw the placement of an offer; see `SourceStrategy.sample`."""
    sources = offer.sources
    if sources is None:
        sources = Sources(eligible, request.occupied, target.labels, request.extent)
    engine, rules = engine_for(target.device), request.rules(offer.batch.canvas_size)
    return offer.batch, *engine.draw(request.targets, sources, request.tables, rules, offer.pick)


_PICKS: Final[dict[str, Pick]] = {"intra_batch": "others", "same_image": "same"}


class IntraBatchSource:
    """Source that takes objects from rows of the batch.

    With ``intra_batch`` each layer takes one row, uniformly among those that have an eligible instance, never the
    target's own. The choice compares random numbers keyed by the seeds of both rows, so it does not depend on the order
    of the batch (rows of equal seeds are distinguished by their order).

    Args:
        kind: ``intra_batch`` takes them from the other rows, ``same_image`` from the target's own row.

    Raises:
        ValueError: ``kind`` is another value.
    """

    def __init__(self, kind: Literal["intra_batch", "same_image"] = "intra_batch") -> None:
        if kind not in _PICKS:
            raise ValueError(f"IntraBatchSource: expected kind {' or '.join(map(repr, _PICKS))}, got {kind!r}")
        self.kind = kind

    def __repr__(self) -> str:
        return described(self, lambda: self.kind)

    def sample(self, target: PaddedBatchedDenseSample, eligible: Tensor, request: PlacementRequest) -> Sampled:
        """See `SourceStrategy.sample`; the source batch is the target itself."""
        return drawn(self.offer(target, request.staged, request.classes), target, eligible, request)

    def offer(self, target: PaddedBatchedDenseSample, staged: StagedCrops | None, classes: ClassTables | None) -> Offer:
        """See `OfferingSource.offer`."""
        return Offer(target, None, _PICKS[self.kind])

    def rows(self, target: PaddedBatchedDenseSample, candidates: Tensor, request: PlacementRequest) -> LayerRows:
        """See `RowStrategy.rows`."""
        return engine_for(target.device).choose_rows(candidates, request.seeds, request.config.layers)


class GivenRows:
    """Source whose layer j takes row j of a batch of sources, modulo the number of rows.

    The sources are not rows of the target's batch, so neither is padded to the size of the other: memory depends on one
    target and the objects pasted into it only. Not for training, where `segpaste.IntraBatchSource` or a bank have their
    sources on the device already.

    Args:
        whole_only: leave out objects whose box touches the border of their row.

    Attributes:
        rows: the sources of the next call, as `segpaste.augmentation.prepare.prepared_sources` returns them.
    """

    def __init__(self, *, whole_only: bool = False) -> None:
        self.whole_only = whole_only
        self.rows: PaddedBatchedDenseSample | None = None

    def sample(self, target: PaddedBatchedDenseSample, eligible: Tensor, request: PlacementRequest) -> Sampled:
        """See `segpaste.SourceStrategy.sample`; the source batch is the given one.

        Raises:
            ValueError: no rows were given.
        """
        rows = self.rows
        if rows is None:
            raise ValueError("GivenRows: expected sources, got none; set rows before the call of the module")
        classes = Classes() if request.classes is None else request.classes.tables_on(rows.device)
        found = engine_for(rows.device).survey(rows, classes, whole_only=self.whole_only)
        layers = torch.arange(request.config.layers, device=rows.device) % max(rows.batch_size, 1)
        index = layers.expand(target.batch_size, -1).contiguous()
        sources = LayerSources(
            source_idx=index,
            layer_valid=found.eligible.any(1)[index],
            extent=found.extent[index],
            boxes=found.occupied[index],
            labels=rows.labels[index],
            eligible=found.eligible[index],
            canvas_size=rows.canvas_size,
        )
        return rows, *draw_placement(request, sources)
