#!/usr/bin/env python3
"""Paste by thousands of random hostile plans: custom sources that set every placement.

Each plan is a pure function of its seed, over a batch of `hostile_inputs`. It has no layer, one or many; translations,
scales and rows of the source at the ends of what is allowed; a source of another canvas, of no slot, or in the memory
of the target. Some boxes are NaN, infinite, inverted or without extent. There are four kinds:

- ``drawn``: no source of one's own, only such boxes. It is pasted, and equal to the reference.
- ``honest``: what the checks of a source let through. Likewise.
- ``careless``: some numbers are not allowed. A ValueError says so, and nothing is written.
- ``unchecked``: the same without those checks, as in compiled code. The native library itself must refuse what it
  cannot read, or write inside of its tensors.

    python scripts/hostile_plans.py --num 3000
    python scripts/hostile_plans.py --num 1 --seed 4711    # one plan again

A sanitizer detects accesses outside of tensors: `scripts/sanitize_native.py` runs this program with one. Exits
with 1, and prints the seeds, if a plan fails.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import torch
from hostile_batches import Outcome, differences, no_numbers
from hostile_configs import Draws
from hostile_inputs import Inputs, hostile_inputs
from torch import Tensor

from segpaste import BatchCopyPaste, BatchCopyPasteConfig, PaddedBatchedDenseSample
from segpaste.augmentation import HarmonizeConfig, Placement, PlacementCounts, PlacementRequest
from segpaste.augmentation.sources import source_check
from segpaste.engine import use_backend
from segpaste.types import FIELDS, tight_boxes

KINDS = ("drawn", "honest", "honest", "honest", "careless", "unchecked")
FARTHEST = 1 << 30
"""Pixels, the largest translation."""
TERMS = (*((1, 1),) * 5, (3, 2), (2, 1), (1, 2), (3, 7), (999_983, 1_000_003), (FARTHEST, FARTHEST))
HUGE_TERMS = ((64, 1), (FARTHEST, 1), (FARTHEST, FARTHEST - 1))
LARGE_TERMS = ((1 << 40, 1), (1 << 40, 1 << 40), ((1 << 40) - 1, 1 << 39))
"""Allowed too. Their products with edges of boxes that lie leave 64 bits, in the reference."""
WRONG = (-1, 0, 1 << 40, (1 << 62) + 1, -(1 << 63), (1 << 63) - 1)
EDGES = (float("nan"), float("inf"), float("-inf"), 3e38, -3e38, 2.0**30, -(2.0**30), 1e9, -0.0, 0.5, 1e-45)


@dataclass(frozen=True)
class Plan:
    """Arguments of one forward.

    Attributes:
        kind: see the module.
        batch: the target.
        config: of the module.
        source: its source; None for the rows of the batch.
        inplace: of the module.
    """

    kind: str
    batch: PaddedBatchedDenseSample
    config: BatchCopyPasteConfig
    source: HostileSource | None
    inplace: bool


class HostileSource:
    """A placement drawn from a seed, the same in every call.

    Args:
        seed: of the draws.
        kind: see the module.
    """

    def __init__(self, seed: int, kind: str) -> None:
        self.seed = seed
        self.kind = kind

    def sample(
        self, target: PaddedBatchedDenseSample, eligible: Tensor, request: PlacementRequest
    ) -> tuple[PaddedBatchedDenseSample, Placement, PlacementCounts]:
        """Return a source and a placement."""
        draws = Draws(self.seed)
        source = _source(draws, target)
        if not source.batch_size:
            source = target
        num_layers = draws.one_of((0, 1, 1, 1, 2, 2, 3, 9))
        shape = target.batch_size, num_layers
        placement = _placement(draws, shape, source, request)
        if self.kind != "honest":
            placement = _spoiled(draws, placement)
        num_carried = placement.carried.sum((1, 2))
        zero = torch.zeros_like(num_carried)
        return source, placement, PlacementCounts(num_carried, zero, zero, zero)


def hostile_plan(seed: int) -> Plan:
    """Draw everything from a seed, >= 0."""
    draws, at = Draws(seed + (1 << 32)), seed
    while not _is_fit(given := hostile_inputs(at), may_be_empty=draws.chance(0.02)):
        at += 1 << 20
    batch = given.batch
    config = given.config.model_copy(update={"harmonize": HarmonizeConfig()})
    kind = draws.one_of(KINDS)
    # In place a mask keeps what lies beyond a box that does not enclose it, and only there.
    if draws.chance(1.0 if kind == "drawn" else 0.3) and not (given.inplace and kind in ("drawn", "honest")):
        batch = batch.clone()
        _spoil_boxes(draws, batch)
    return Plan(kind, batch, config, None if kind == "drawn" else HostileSource(seed, kind), given.inplace)


def _is_fit(given: Inputs, may_be_empty: bool) -> bool:
    """Return whether a custom source can be pasted into a batch, in a time that allows for thousands."""
    is_quick = 0.1 <= given.config.placement.scale_range[0] <= 1
    has_room = bool(given.batch.instance_valid.any()) or may_be_empty
    is_plain = given.staged is None and not given.config.emit_classmix
    return is_plain and is_quick and has_room and given.batch.instance_masks is not None


def _source(draws: Draws, target: PaddedBatchedDenseSample) -> PaddedBatchedDenseSample:
    """The target itself, rows of it in its own memory, or lines, columns and slots of it at random."""
    kind = draws.one_of(("itself", "itself", "rows", "flipped", "other", "other"))
    if kind == "itself":
        return target
    if kind == "rows":
        first = draws.one_of((0, 1, target.batch_size - 1))
        return target.map_tensors(lambda t: t[max(first, 0) :])
    if kind == "flipped":
        order = torch.arange(target.batch_size - 1, -1, -1)
        return target.map_tensors(lambda t: t[order])
    height, width = target.canvas_size
    rows, slots, lines, columns = (
        torch.from_numpy(draws.rng.integers(0, size, num)) if size else torch.zeros(0, dtype=torch.int64)
        for size, num in (
            (target.batch_size, draws.one_of((1, 2, 5))),
            (target.max_instances, draws.one_of((0, 2, 3, 6, 20))),
            (height, draws.one_of((1, 2, 13, 40))),
            (width, draws.one_of((1, 3, 9, 40))),
        )
    )
    values: dict[str, Any] = {}
    for field in FIELDS:
        value = getattr(target, field.batched_name)
        if value is None:
            continue
        value = value[rows]
        if field.shape[:1] == ("N",):
            value = value[:, slots]
        if field.shape[-2:] == ("H", "W"):
            value = value[..., lines, :][..., columns]
        values[field.batched_name] = value.contiguous()
    seeds = None if target.sample_seeds is None else target.sample_seeds[rows]
    padding = None if target.padding_mask is None else target.padding_mask[rows][..., lines, :][..., columns]
    masks = values["instance_masks"]
    values["boxes"] = tight_boxes(masks.flatten(0, 1)).view(*masks.shape[:2], 4) * values["instance_valid"][..., None]
    ids = torch.arange(1, len(slots) + 1, dtype=torch.int32).expand(len(rows), -1)
    values |= {"sample_seeds": seeds, "padding_mask": padding, "instance_ids": ids * values["instance_valid"]}
    source = target.derived(**values)
    if draws.chance(0.3):
        _spoil_boxes(draws, source)
    return source


def _spoil_boxes(draws: Draws, batch: PaddedBatchedDenseSample) -> None:
    """Write what no box should hold over some, behind the back of the checks at construction."""
    for place in batch.instance_valid.nonzero().tolist():
        box = batch.boxes[tuple(place)]
        kind = draws.one_of(("edges", "edge", "inverted", "nothing", "shifted", "right", "right"))
        if kind == "edges":
            box[:] = torch.tensor([draws.one_of(EDGES) for _ in range(4)])
        elif kind == "edge":
            box[int(draws.rng.integers(4))] = draws.one_of(EDGES)
        elif kind == "inverted":
            box[:] = box[[2, 3, 0, 1]].clone()
        elif kind == "nothing":
            box[2:] = box[:2].clone()
        elif kind == "shifted":
            box += draws.one_of((-1e6, -3.0, 2.5, 1e6))


def _placement(
    draws: Draws, shape: tuple[int, int], source: PaddedBatchedDenseSample, request: PlacementRequest
) -> Placement:
    """Return a random placement that passes the checks of a source."""
    num_rows, slots = source.batch_size, source.max_instances
    rows = torch.from_numpy(draws.rng.integers(0, num_rows, shape) if num_rows else torch.zeros(shape).long().numpy())
    if num_rows and draws.chance(0.5):
        rows[:] = draws.one_of((0, num_rows - 1))
    takes_large = bool((source.boxes.abs() <= 1 << 20).all())
    large = LARGE_TERMS if draws.chance(0.1) and takes_large else ()
    terms = [*TERMS, *(HUGE_TERMS if draws.chance(0.3) else ()), *large]
    least = request.config.scale_range[0]
    terms = [term for term in terms if term[0] / term[1] >= least]
    scales = torch.tensor([draws.one_of(terms) for _ in range(shape[0] * shape[1] * 2)], dtype=torch.int64)
    scales = scales.view(*shape, 2, 2)
    far = (0, 0, 1, -1, request.canvas_size[1], -request.canvas_size[0], FARTHEST, -FARTHEST, 1 << 20)
    near = draws.one_of((1.0, 0.9, 0.3))
    moves = [
        int(draws.rng.integers(-3, 4)) if draws.chance(near) else draws.one_of(far)
        for _ in range(shape[0] * shape[1] * 2)
    ]
    valid = torch.from_numpy(draws.noise(*shape) < 0.9)
    wanted = torch.from_numpy(draws.noise(*shape, slots) < draws.one_of((0.5, 1.0)))
    wanted &= source.instance_valid[rows] & valid[..., None]
    room = request.num_free[:, None] >= wanted.flatten(1).cumsum(1)
    return Placement(
        source_idx=rows,
        layer_valid=valid,
        scale_num=scales[..., 0],
        scale_den=scales[..., 1],
        translate=torch.tensor(moves, dtype=torch.int64).view(*shape, 2),
        hflip=torch.from_numpy(draws.noise(*shape) < 0.5),
        vflip=torch.from_numpy(draws.noise(*shape) < 0.5),
        swap_axes=torch.from_numpy(draws.noise(*shape) < 0.5),
        carried=wanted & room.view_as(wanted),
    )


def _spoiled(draws: Draws, placement: Placement) -> Placement:
    """The placement with some numbers that are not allowed."""
    name = draws.one_of(("source_idx", "scale_num", "scale_den", "translate", "carried", "carried", "flags"))
    if name == "carried":
        return replace(placement, carried=placement.carried | (torch.rand(placement.carried.shape) < 2))
    if name == "flags":  # bools of other bytes than 0 and 1
        return replace(placement, carried=(placement.carried.to(torch.uint8) * 255).view(torch.bool))
    values = getattr(placement, name).clone()
    if values.numel():
        values.view(-1)[int(draws.rng.integers(values.numel()))] = draws.one_of(WRONG)
    return replace(placement, **{name: values})


def run(seeds: Sequence[int], *, compares: bool = True) -> Iterator[tuple[int, str, list[str]]]:
    """Paste by the plans of these seeds, and ``compares`` with the reference.

    Yields:
        The seed; what happened: ``pasted``, ``empty`` or ``refused``, behind the kind of the plan; what is wrong.
    """
    for seed in seeds:
        try:
            plan = hostile_plan(seed)
            happened, wrong = _checked(plan, compares)
            yield seed, f"{plan.kind} {happened}", wrong
        except Exception as error:  # whatever it is, the seed must be told
            yield seed, "failed", [f"{type(error).__name__}: {error}"]


def _checked(plan: Plan, compares: bool) -> tuple[str, list[str]]:
    before = plan.batch.clone()
    try:
        out, report = found = _pasted(plan, "native")
    except ValueError as error:
        told = str(error)
        is_clear = "expected" in told and ("got" in told or "mend" in told)
        return "refused", [] if is_clear else [f"an error that says little: {told}"]
    except IndexError:  # torch looked first
        if plan.kind != "unchecked":
            raise
        return "refused", []
    happened = "pasted" if report.num_placed.sum() else "empty"
    wrong = list(no_numbers(out))
    if not plan.inplace and not _same(plan.batch, before):
        wrong.append("the target was written")
    carried = report.placement.carried
    is_for_all = bool(carried.shape[1] and carried.shape[2])  # the reference wants a layer, and a slot
    if compares and is_for_all and plan.kind in ("drawn", "honest"):
        wrong += differences(found, _pasted(plan, "reference"))
    return happened, wrong


def _pasted(plan: Plan, backend: str) -> Outcome:
    """One forward, on a copy of the batch where it works in place.

    Raises:
        ValueError: the plan is refused.
        RuntimeError: it is refused after something was written.
    """
    module = BatchCopyPaste(plan.config, source=plan.source, inplace=plan.inplace)
    batch = plan.batch.clone() if plan.inplace else plan.batch
    checks: Any = warnings.catch_warnings()
    if plan.kind == "unchecked":
        checks = mock.patch.object(source_check, "checked_sample", lambda strategy, sampled, target, request: sampled)
    with use_backend(backend), warnings.catch_warnings(), checks:
        warnings.filterwarnings("ignore", "BatchCopyPaste")
        try:
            outcome: Outcome = module(batch, return_report=True)
            return outcome
        except ValueError as error:
            if not _same(batch, plan.batch):
                raise RuntimeError(f"refused after something was written: {error}") from error
            raise


def _same(one: PaddedBatchedDenseSample, other: PaddedBatchedDenseSample) -> bool:
    """Return whether two batches hold the same numbers."""
    for field in FIELDS:
        values = [getattr(batch, field.batched_name) for batch in (one, other)]
        if values[0] is None:
            continue
        if not ((values[0] == values[1]) | (values[0].isnan() & values[1].isnan())).all():
            return False
    return True


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 if nothing was wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--num", type=int, default=1000, metavar="N", help="plans, default: 1000")
    parser.add_argument("--seed", type=int, default=0, help="of the first plan, default: 0; each next one's is 1 more")
    parser.add_argument("--alone", action="store_true", help="do not compare with the reference, which takes longer")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    start, failed, happened = time.monotonic(), [], Counter[str]()
    for seed, what, wrong in run(range(options.seed, options.seed + options.num), compares=not options.alone):
        happened[what] += 1
        if wrong:
            failed.append(seed)
            print(f"seed {seed}, {what}:", *wrong[:10], sep="\n    ", flush=True)
    told = ", ".join(f"{num} {what}" for what, num in sorted(happened.items()))
    print(
        f"{options.num} plans ({told}), {len(failed)} that failed, {time.monotonic() - start:.0f} s"
        + (f"; seeds {', '.join(map(str, failed[:20]))}" if failed else "")
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
