"""The page on throughput: every sentence about a result follows from the repeats, whatever their outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from segpaste.tuning.statistics import Interval, median_interval

from .. import pages, plots
from ..runs import Run, RunFolder

PRIMARY = "segpaste_step"
NONE, AGAIN = "none", "none_again"
NAMES = {
    NONE: "no paste",
    AGAIN: "no paste, again",
    "segpaste_sample": "segpaste, sample in a worker",
    "segpaste_batch": "segpaste, batch in a worker",
    PRIMARY: "segpaste, in the step",
    "segpaste_compiled": "segpaste, in the step, compiled",
    "segpaste_step_bank": "segpaste, in the step, bank",
    "albumentationsx": "AlbumentationsX, in a worker",
    "ultralytics": "Ultralytics, in a worker",
    "torchvision": "torchvision's rule, in a worker",
}

_FIGURES = ("images_per_second", "wait_share", "step_cpu_ms", "paste_cpu_ms", "worker_cpu_ms")

Turns = Mapping[str, list[Mapping[str, float]]]


def turns_of(repeats: Sequence[Run]) -> dict[str, list[Mapping[str, float]]]:
    """Return the figures of each arm, one turn per repeat."""
    return {name: [run.found["arms"][name] for run in repeats] for name in NAMES if name in repeats[0].found["arms"]}


def ratios(turns: Turns, name: str) -> list[float]:
    """Return images per second of an arm relative to no paste, by repeat."""
    pairs = zip(turns[name], turns[NONE], strict=True)
    return [ours["images_per_second"] / none["images_per_second"] for ours, none in pairs]


def cpu_ratios(turns: Turns, name: str) -> list[float]:
    """Return CPU time for an image, of step and workers together, relative to no paste, by repeat."""
    return [_cpu_ms(ours) / _cpu_ms(none) for ours, none in zip(turns[name], turns[NONE], strict=True)]


def said(ratio: Interval, name: str) -> str:
    """Return a sentence on whether an arm trains fewer images per second than no paste."""
    text = f"{ratio.mean:.2f} times its images per second, 95 % interval {ratio.low:.2f} to {ratio.high:.2f}"
    if ratio.high < 1:
        return f"*{NAMES[name]}* is **slower** than no paste: {text}."
    if ratio.low > 1:
        return f"*{NAMES[name]}* is **faster** than no paste, which can only be noise: {text}."
    return f"*{NAMES[name]}* is **not significantly different** from no paste: {text}."


def write(folder: RunFolder, settings: Sequence[Mapping[str, Any]], docs: Path) -> Path:
    """Write the page and its picture, and return the page's path.

    Raises:
        LookupError: a repeat is missing.
    """
    if missing := folder.missing(settings):
        raise LookupError(f"expected {len(settings)} repeats, {len(missing)} are missing; do them with `run`")
    repeats = [run for one in settings if (run := folder.find(one)) is not None]
    turns, common = turns_of(repeats), settings[0]
    text = [_head(common, len(repeats)), _answer(turns), _arms(turns, repeats), _caveats(common, repeats)]
    return pages.write_page(docs, "throughput", [*text, _every_repeat(turns, repeats)], {"runs": picture(turns)})


def picture(turns: Turns) -> Image.Image:
    """Return the ratios of all repeats."""
    panels = {
        title: {NAMES[name]: of(turns, name) for name in turns if name != NONE}
        for title, of in (
            ("images per second, no paste = 1", ratios),
            ("CPU time of an image, no paste = 1", cpu_ratios),
        )
    }
    return plots.runs_by_arm(panels, NAMES[PRIMARY], median_interval)


def _head(common: Mapping[str, Any], num_repeats: int) -> str:
    side = common["side"]
    return f"""\
# Throughput

How many images per second does a training loop process with pasting, and without? The model is LR-ASPP with a
MobileNetV3, trained on the CPU on batches of {common["batch_size"]} images of {side} × {side} pixels.
{common["workers"]} loader workers decode JPEG images and masks, flip them and jitter their size.

**This was measured on two CPU cores, without a GPU. The workers share the cores with the training step**, so work in
a worker is not free. On a GPU the step would be much shorter. All arms were measured in turn in one program,
{num_repeats} times. Each result is the ratio to *no paste* in the same repeat. The protocol is
`evidence/protocols/throughput.md`. A program writes this page:

```sh
python -m evidence.throughput run     # a minute or two per repeat; resumes after an interruption
python -m evidence.throughput page
```"""


def _answer(turns: Turns) -> str:
    others = [name for name in turns if name not in (NONE, AGAIN, PRIMARY)]
    lines = "\n".join(f"- {said(median_interval(ratios(turns, name)), name)}" for name in [PRIMARY, *others])
    noise = median_interval(ratios(turns, AGAIN))
    return f"""\
## The answer

The primary endpoint is the first line. A second measurement of no paste has a ratio of {noise.mean:.2f} to the first,
95 % interval {noise.low:.2f} to {noise.high:.2f}: differences of that size are noise.
The intervals are not corrected for the number of comparisons: {len(turns[NONE])} repeats are too few for such a test.
CPU time, in the table, depends less on other programs.

{lines}

![Images per second of every repeat, relative to no paste](throughput-runs.png)

*Each dot is a repeat, the line is the median, and the bar is its 95 % bootstrap interval.*"""


def _arms(turns: Turns, repeats: Sequence[Run]) -> str:
    head = [
        "arm",
        "images per second",
        "relative to no paste",
        "CPU time, relative to no paste",
        "share of time waiting for a batch",
        "CPU ms per image, step",
        "of which the paste",
        "CPU ms per image, workers",
        "images per second that two workers can load",
    ]
    body = []
    for name in turns:
        of_speed, of_cpu = (_interval(of(turns, name)) for of in (ratios, cpu_ratios))
        speed, wait, step, paste, worker = (_median(turns[name], key) for key in _FIGURES)
        cells = [f"{speed:.1f}", of_speed, of_cpu, f"{wait:.0%}"]
        body.append(
            [
                NAMES[name],
                *cells,
                *(f"{ms:.1f}" for ms in (step, paste, worker)),
                f"{2e3 / worker:.0f}" if worker else "–",
            ]
        )
    left_out = "".join(f"\n*{NAMES[name]}* is left out: {why}." for name, why in repeats[0].found["skipped"].items())
    return f"""\
## All arms

Medians of the repeats, and ratios with their 95 % bootstrap intervals. CPU time is that of the step and the workers
together; other programs influence it less than images per second. The last column is computed from the CPU time of the
workers: it is what two workers could load if each had its own core.

{pages.table(head, body)}
{left_out}
The arms do not paste the same objects; the protocol says what each does. *Ultralytics* decodes a second image for each
image. *torchvision's rule* is our own implementation of the rule in torchvision's reference script; it does not move or
scale objects."""


def _caveats(common: Mapping[str, Any], repeats: Sequence[Run]) -> str:
    loads = sorted(run.found["load"] for run in repeats)
    return f"""\
## What this does not say

- With a GPU the step is shorter, so the workers may be the bottleneck. Then the last column matters more than the
  ratio. A paste in the step then runs on the GPU, which is not measured here.
- The step used {common["threads"]} thread. The load average of the machine was {loads[0]:.1f} to {loads[-1]:.1f},
  including other programs; this benchmark alone, with three busy processes, makes a load of 3. Other programs lower
  images per second and widen the intervals.
- The images are small, few, and in memory. Larger ones cost more in all arms."""


def _every_repeat(turns: Turns, repeats: Sequence[Run]) -> str:
    body = [[NAMES[name], *(f"{turn['images_per_second']:.1f}" for turn in of)] for name, of in turns.items()]
    head = ["arm", *(str(run.settings["repeat"]) for run in repeats)]
    peers = ", ".join(f"{name} {version}" for name, version in repeats[0].found["versions"].items())
    return f"""\
## Every repeat

Images per second:

{pages.table(head, body)}

All results are in `evidence/results/throughput`. A first set of repeats was made while other programs ran, at a higher
load. It is published there as `under-load.jsonl`, and this page does not use it.
Versions of the other libraries: {peers}. Machines:

{pages.setting(repeats)}"""


def _median(turns: Sequence[Mapping[str, float]], key: str) -> float:
    return median_interval([turn[key] for turn in turns]).mean


def _cpu_ms(turn: Mapping[str, float]) -> float:
    return turn["step_cpu_ms"] + turn["worker_cpu_ms"]


def _interval(values: Sequence[float]) -> str:
    median, low, high = median_interval(values)
    return f"{median:.2f} ({low:.2f}–{high:.2f})"
