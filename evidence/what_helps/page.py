"""The page on what helps where: every sentence about a result follows from the runs, whatever their outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PIL import Image

from segpaste.augmentation import PlacementConfig
from segpaste.tuning.comparing import Values, compare, compare_all, mean

from .. import pages, plots
from ..pages import Found, Results
from ..protocol import Protocol
from ..runs import Run
from .options import COUNTS, NAMES, SHARES, compared, pick, said, switched

TASKS = {
    "classes": "IoU of the classes",
    "depth": "1 − relative error of depth near edges",
    "tokens": "IoU of the patches",
}


def scores(found: Found, part: str = "validation") -> dict[str, Values]:
    """Return the score of each arm by seed."""
    return {arm: {seed: run.found[part]["score"] for seed, run in runs.items()} for arm, runs in found.items()}


def of_task(protocol: Protocol, values: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Return those arms that have a task, by their names."""
    return {NAMES[arm]: value for arm, value in values.items() if protocol.of_arm[arm]["task"] == task}


def pictures(protocol: Protocol, found: Found) -> dict[str, Image.Image]:
    """Return a picture of the runs of each task, and one of the curves."""
    values = {arm: list(of.values()) for arm, of in scores(found).items()}
    runs = {
        task: plots.runs_by_arm({f"{title}, validation": of_task(protocol, values, task)}, NAMES["default"])
        for task, title in TASKS.items()
    }
    shown = {title: SHARES if title == "share" else COUNTS for title in ("share", "number of objects")}
    lines = {
        f"IoU by {title}, validation": {f"{value:g}": _curve(found[arm]) for value, arm in arms.items()}
        for title, arms in shown.items()
    }
    legend = [f"share {share:g}; {count:g} objects" for share, count in zip(SHARES, COUNTS, strict=True)]
    return {**runs, "curves": plots.curves(lines, "steps", legend)}


def _head(results: Results) -> str:
    protocol = results.protocol
    common, paste = protocol.settings, protocol.of_arm["default"]["paste"]
    low, high = paste["scale_range"]
    return f"""\
# What helps where

Which options of a paste help, which do not, and what should the defaults be? Each option is compared with the same
default setting, by a measure of what the option should improve. Small models are trained from scratch on
{common["num_scenes"]} rendered scenes of 48 × 64 pixels with six classes; the first class is {common["ratio"]:g} times
as frequent as the last.

The *default* pastes {paste["objects"]} objects of other images of the batch into an image, with a probability of
{paste["paste_prob"]:g} for each image. Each object is scaled by {low:g} to {high:g}, and placed where it covers least
out of {paste["max_attempts"]} random places. Each arm was trained {len(protocol.seeds)} times, with the same training
sets and initialisations in all arms: {common["steps"]} steps of {common["batch_size"]} images, with flips and size
jitter in all arms. The protocol,
`evidence/protocols/{protocol.name}.md`, was committed before the first run and names one primary endpoint. A program
writes this page from the runs:

```sh
python -m evidence.what_helps run     # two processes of one thread; resumes after an interruption
python -m evidence.what_helps page
```"""


def _answer(results: Results) -> str:
    found, ours, theirs = results.found, results.protocol.ours, results.protocol.rivals[0]
    on_test, valid = scores(found, "test"), scores(found)
    primary = pages.said(compare(on_test[ours], on_test[theirs]), f"the {NAMES[ours]}", NAMES[theirs])
    share, count = pick(SHARES, valid), pick(COUNTS, valid)
    others = compared(valid)
    lines = "\n".join(f"- {said(arm, of, pages.figures(of))}" for arm, of in others.items())
    nothing = " The answer is not to paste." if share.value == 0 else ""
    default = PlacementConfig().paste_prob
    same = "is the same" if default == share.value else f"is {default:g}: set the share that you train with"
    return f"""\
## The answer

The primary endpoint is the mean IoU of the six classes on test scenes: {primary} A point is 0.01.

The defaults are chosen on validation scenes. Each is the smallest value that is not significantly worse than the
best, by tests without correction for their number, as the protocol says:

- `paste_prob` {share.value:g}; the highest mean is at {share.best:g}.{nothing} The library's
  default {same}.
- Number of objects {count.value:g}; the highest mean is at {count.best:g}. The library's default pastes all objects of
  one source image that may be pasted.

{switched(others)}

The other comparisons are on validation scenes, with p values adjusted by Holm's method:

{lines}

![Score of every run with class maps, by arm]({results.protocol.name}-classes.png)

*Each dot is a run, and the bar is the 95 % bootstrap interval of the mean.*"""


def _arms(results: Results) -> str:
    protocol, chosen, found, _ = results
    valid, on_test = scores(found), scores(found, "test")
    parts = []
    for task, title in TASKS.items():
        arms = [arm for arm in found if protocol.of_arm[arm]["task"] == task]
        body = [
            [NAMES[arm], pages.mean_text(valid[arm]), pages.mean_text(on_test[arm]), *pages.choice_cells(chosen[arm])]
            for arm in arms
        ]
        parts.append(f"{title}:\n\n{pages.table(['arm', 'validation', 'test', 'learning rate', 'ms per step'], body)}")
    tables = "\n\n".join(parts)
    return f"""\
## All arms

Mean over the seeds, with the 95 % bootstrap interval of the mean. The learning rate was chosen for each arm on
validation scenes, with {len(protocol.tuning_seeds)} other seeds. `ms per step` is the CPU time of one thread.

{tables}

![Depth, by arm]({protocol.name}-depth.png)

![Patches, by arm]({protocol.name}-tokens.png)"""


def _depth(results: Results) -> str:
    found = results.found
    arms = [arm for arm in found if arm.startswith("depth_")]
    measures = ("edge_error", "error")
    values = {
        name: {arm: {seed: run.found["validation"][name] for seed, run in found[arm].items()} for arm in arms}
        for name in measures
    }
    body = [[NAMES[arm], *(pages.mean_text(values[name][arm]) for name in measures)] for arm in arms]
    return f"""\
## Depth

With *depth-aware pastes* the nearer surface is visible, and an enlarged object is nearer. *Pastes in front* hide
everything behind them, and keep the depth of their source image. The model predicts depth from the image alone. The
table shows the relative error of depth on validation scenes, within two pixels of an object's edge and everywhere:

{pages.table(["arm", "near edges", "everywhere"], body)}"""


def _equal_seconds(results: Results) -> str:
    protocol, chosen, found, longer = results
    theirs = {**scores(found, "test"), **scores(longer, "test")}
    pairs = {
        f"{NAMES[arm]}, {protocol.longer_steps(arm, chosen)} steps": (theirs[protocol.ours], theirs[arm])
        for arm in protocol.longer
    }
    return f"""\
## Equal time

A step with a paste may take longer. Here *no paste* is trained for as many CPU seconds as the default, but never for
fewer steps. IoU on test scenes:

{pages.comparison_table(compare_all(pairs))}"""


def _convergence(results: Results) -> str:
    body = []
    for arm, runs in results.found.items():
        losses = pages.mean_curve(runs, lambda point: float(point["loss"]))
        rise = pages.settled([y for _, y in _curve(runs)])
        body.append([NAMES[arm], f"{100 * rise:+.1f}", f"{losses[0][1]:.2f} to {losses[-1][1]:.2f}"])
    return f"""\
## Convergence

Score on validation scenes, averaged over the seeds:

{pages.table(["arm", "rise over the last quarter, points", "loss, first to last"], body)}

![IoU over the steps by share and by number of objects]({results.protocol.name}-curves.png)"""


def _caveats(results: Results) -> str:
    edges = "".join(f"\n- {line}" for line in pages.edges_said(results.chosen))
    base = {arm: mean(values) for arm, values in scores(results.found).items()}
    low = [NAMES[arm] for arm in ("none", "depth_none", "tokens_none") if base[arm] <= 0.01]
    too_hard = (
        f" **The score of {', '.join(low)} is near zero, so that task is too hard for a comparison.**" if low else ""
    )
    return f"""\
## What this does not say

- The scenes are rendered, and their objects have exact masks. This favours pasting, and leaves little to correct for
  harmonisation: scenes differ only in the direction of their light, and have no noise.
- The results are from one domain, with small images, and small models trained from scratch. Other data may need other
  values.
- Options are changed one at a time. Two options that help separately may not help together.
- Without a paste the IoU of the classes is {base["none"]:.2f}.{too_hard}{edges}"""


def _every_run(results: Results) -> str:
    protocol, _, found, longer = results
    panels = {f"{title}, validation": of_task(protocol, scores(found), task) for task, title in TASKS.items()}
    panels["IoU of the classes, test"] = of_task(protocol, scores(found, "test"), "classes")
    if longer:
        panels["IoU of the classes, test, equal time"] = of_task(protocol, scores(longer, "test"), "classes")
    runs = [run for of_arm in (*found.values(), *longer.values()) for run in of_arm.values()]
    return f"""\
## Every run

{pages.runs_table(panels)}

Trials, runs and their curves are in `evidence/results/{protocol.name}`. Machines:

{pages.setting(runs)}"""


def _curve(runs: Mapping[int, Run]) -> list[tuple[float, float]]:
    return pages.mean_curve(runs, lambda point: float(point["score"]))


SECTIONS = (_head, _answer, _arms, _depth, _equal_seconds, _convergence, _caveats, _every_run)
write = pages.writer(SECTIONS, pictures)
