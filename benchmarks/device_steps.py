"""Measure a step on a CUDA device: host time, device time, replay as a graph, peak memory, and waits.

    python -m benchmarks.device_steps --quick
    python -m benchmarks.device_steps --out benchmarks/results/gpu.json

The batches are those on which a step is hard: many slots, all modalities, odd widths, many layers. Each is pasted next
to its clone, all of them in turn, on several batches of random data. A call that waits for the device is an error that
the report quotes; what runs into it is measured all the same. The program exits with 1 if there is such an error, or
if a goal of `benchmarks.device_goals` is missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from segpaste.augmentation import BatchCopyPaste, BatchCopyPasteConfig
from segpaste.types import PaddedBatchedDenseSample

from . import device_goals, pasting, step, timing
from .plan import HARD_SHAPES, QUICK, TINY, Plan, Shape
from .timing import Clock, Contender

HOST, DEVICE, EAGER, GRAPH = "host", "device", "eager", "graph"
CLOCKS: Mapping[str, Clock] = {
    HOST: timing.host_clock,
    DEVICE: timing.queued_clock,
    EAGER: timing.event_clock,
    GRAPH: timing.queued_clock,
}
"""``host``: until the call returns; ``device``: its work alone; ``eager``: from an idle device until all is done;
``graph``: the work of a replay."""

STEPS = {pasting.CLONE: None, pasting.OUT_OF_PLACE: False, pasting.IN_PLACE: True}
"""Measured steps, and whether each is in place; None for the clone."""


def measure(plan: Plan, threads: int = 1, device: str = "cuda") -> dict[str, Any]:
    """The device table, a row for each shape; and the goals, of which ``missed`` has those that do not hold."""
    torch.set_num_threads(threads)
    shapes = plan.shapes if plan is TINY else HARD_SHAPES[:1] + HARD_SHAPES[5:6] if plan is QUICK else HARD_SHAPES
    rows = [measure_shape(shape, plan.rounds, device) for shape in shapes]
    if device == "cpu":
        return {"rows": rows, "errors": [], "goals": [], "missed": []}
    goals = device_goals.judged(rows)
    return {"rows": rows, "errors": list(errors(rows)), "goals": goals, "missed": list(device_goals.missed(goals))}


def errors(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what must not be: steps that wait for the device, and steps that cannot be captured as a graph."""
    for row in rows:
        yield from (f"{row['batch']}, {name}: waits: {wait}" for name, wait in row["waits"].items() if wait)
        yield from (f"{row['batch']}, {name}: not captured: {reason}" for name, reason in row["skipped"].items())


def measure_shape(
    shape: Shape, rounds: int, device: str = "cuda", clocks: Mapping[str, Clock] = CLOCKS
) -> dict[str, Any]:
    """Milliseconds by every clock, peak memory and waits of each step on one shape."""
    num_inputs = 1 if shape.all_modalities else step.NUM_INPUTS
    made = [step.made(shape, seed) for seed in range(num_inputs)]
    inputs, config = [batch.to(device) for batch, _ in made], made[0][1]
    found: dict[str, Any] = {"batch": step.name_of(shape), "bytes": pasting.num_bytes(inputs[0])}
    skipped: dict[str, str] = {}
    times: dict[str, Any] = {}
    for clock_name, clock in clocks.items():
        contenders, reasons = _contenders(inputs, config, as_graphs=clock_name == GRAPH)
        skipped |= {f"{name}, {clock_name}": reason for name, reason in reasons.items()}
        times[clock_name] = timing.summaries(timing.in_turns(contenders, rounds, clock=clock))
    found |= {"times": times, "skipped": skipped}
    if device != "cpu":
        found["waits"] = {name: wait_of(*_call_of(name, inputs[0], config)) for name in STEPS}
        found["peak_beyond_outputs"] = {name: _peak(*_call_of(name, inputs[0], config)) for name in STEPS}
    return found


def _contenders(
    inputs: list[PaddedBatchedDenseSample], config: BatchCopyPasteConfig, *, as_graphs: bool
) -> tuple[dict[str, Contender], dict[str, str]]:
    """All steps, each on all inputs in turn; and why a step cannot be captured."""
    found, skipped = {}, {}
    for name in STEPS:
        try:
            found[name] = timing.rotating([_contender(name, batch, config, as_graph=as_graphs) for batch in inputs])
        except RuntimeError as error:
            skipped[name] = f"{type(error).__name__}: {' '.join(str(error).split()):.160}"
    return found, skipped


def _contender(
    name: str, batch: PaddedBatchedDenseSample, config: BatchCopyPasteConfig, *, as_graph: bool
) -> Contender:
    call, own = _call_of(name, batch, config)

    def fresh() -> PaddedBatchedDenseSample:
        return own if own is batch else pasting.restored(own, batch)

    if as_graph:
        replay = captured(call, own)
        return Contender(lambda _: replay(), fresh)
    return Contender(call, fresh if STEPS[name] is None else pasting.with_seeds(fresh))


def _call_of(
    name: str, batch: PaddedBatchedDenseSample, config: BatchCopyPasteConfig
) -> tuple[Callable[[PaddedBatchedDenseSample], object], PaddedBatchedDenseSample]:
    """Return a step, and the batch for it: a copy if the step changes it."""
    in_place = STEPS[name]
    if in_place is None:
        return PaddedBatchedDenseSample.clone, batch
    return BatchCopyPaste(config, inplace=in_place).to(batch.device), batch.clone() if in_place else batch


def captured(
    call: Callable[[PaddedBatchedDenseSample], object], batch: PaddedBatchedDenseSample
) -> Callable[[], object]:
    """Return the replay of a step on one batch, captured as a graph after a warm-up on a stream of its own.

    Raises:
        RuntimeError: the step does what cannot be captured.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call(batch)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call(batch)
    return graph.replay


def wait_of(call: Callable[[PaddedBatchedDenseSample], object], batch: PaddedBatchedDenseSample) -> str:
    """Return what torch says of the first wait for the device in a call after the first; empty if there is none."""
    call(batch)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        call(batch)
    except RuntimeError as error:
        return " ".join(str(error).split())[:160]
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return ""


def _peak(call: Callable[[PaddedBatchedDenseSample], object], batch: PaddedBatchedDenseSample) -> int:
    """Bytes at the peak of a call beyond those of its new tensors."""
    call(batch)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    out = call(batch)
    torch.cuda.synchronize()
    old = {t.untyped_storage().data_ptr() for t in tree_leaves(batch)}
    new = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tree_leaves(out)}
    kept = sum(size for pointer, size in new.items() if pointer not in old)
    return int(max(0, torch.cuda.max_memory_allocated() - before - kept))


if __name__ == "__main__":
    from .programs import main

    main("device_steps", __doc__, measure, device="cuda")
