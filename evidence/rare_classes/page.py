"""The page on rare classes: every sentence about a result follows from the runs, whatever they say."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from segpaste.tuning.comparing import Values, better, compare, compare_all, mean

from .. import pages, plots
from ..measures import group_iou
from ..pages import Found, Results
from ..protocol import Choice, Protocol
from ..runs import Run

MARGIN = 0.02
FAR_BELOW = 0.1
NAMES = {
    "none": "no paste",
    "repeat_factor": "repeat factor",
    "weighted_loss": "weighted loss",
    "intra_batch": "intra-batch",
    "bank_natural": "bank, natural",
    "bank_tempered": "bank, tempered",
    "bank_uniform": "bank, class-uniform",
    "placebo": "placebo",
}
_STRENGTH = {"repeat_factor": "threshold", "weighted_loss": "power"}


def measured(found: Found, classes: Sequence[int], part: str = "test") -> dict[str, Values]:
    """Return the mean IoU of some classes, by arm and seed."""
    return {
        arm: {seed: group_iou(run.found[part], classes) for seed, run in runs.items()} for arm, runs in found.items()
    }


def pictures(protocol: Protocol, found: Found) -> dict[str, Any]:
    """Return the pictures of the page by name."""
    groups = {name: measured(found, classes) for name, classes in protocol.groups.items()}
    named = {
        f"IoU of the {name}": {NAMES[arm]: list(runs.values()) for arm, runs in values.items()}
        for name, values in groups.items()
    }
    lines = {
        f"IoU of the {name}, validation": {NAMES[arm]: _curve(runs, classes) for arm, runs in found.items()}
        for name, classes in protocol.groups.items()
    }
    return {"runs": plots.runs_by_arm(named, NAMES[protocol.ours]), "curves": plots.curves(lines, "steps")}


def _head(results: Results) -> str:
    protocol = results.protocol
    common = protocol.settings
    return f"""\
# Rare classes

Does it help rare classes to paste their objects more often, and what does it cost the common ones? A small U-Net is
trained from scratch on {common["num_scenes"]} rendered scenes of 48 × 64 pixels. They have six classes. The first is
{common["ratio"]:g} times as frequent as the last, of which a training set has {common["fewest"]} instances or more. The
test has {common["num_test"]} other scenes, in which all classes are equally frequent.

Each arm was trained {len(protocol.seeds)} times. Each time has a training set and an initialisation, the same for all
arms: {common["steps"]} steps of {common["batch_size"]} images, flipped and jittered in size in all arms. The protocol,
`evidence/protocols/{protocol.name}.md`, was committed before the first run and names one primary endpoint. A program
writes this page from the runs:

```sh
python -m evidence.rare_classes run     # two processes of one thread; resumes after an interruption
python -m evidence.rare_classes page
```"""


def _answer(results: Results) -> str:
    protocol, _, found, _ = results
    tail, head = (measured(found, protocol.groups[name]) for name in ("tail", "head"))
    natural = {name: measured(found, protocol.groups[name], "natural_test") for name in ("tail", "head")}
    ours = protocol.ours
    rival = better({arm: tail[arm] for arm in protocol.rivals})
    lines = [pages.said(compare(tail[ours], tail[rival]), NAMES[ours], NAMES[rival])]
    for theirs in ("none", rival):
        text = compare(head[ours], head[theirs])
        lines.append(pages.said_kept(text, NAMES[ours], NAMES[theirs], "the head", MARGIN))
    text = compare(natural["head"][ours], natural["head"]["none"])
    kept = pages.said_kept(text, NAMES[ours], NAMES["none"], "the head", MARGIN)
    lines.append(f"In the natural test, whose classes are as frequent as in training: {kept}")
    of_tail = [
        pages.said(compare(natural["tail"][ours], natural["tail"][arm]), NAMES[ours], NAMES[arm])
        for arm in (rival, "none")
    ]
    lines.append(f"The tail in the natural test, where it has few pixels: {' '.join(of_tail)}")
    listed = "\n".join(f"- {line}" for line in lines)
    of_rates = rates_said(protocol, results.chosen, is_gain=mean(tail[ours]) > mean(tail[rival]))
    return f"""\
## The answer

The primary endpoint is the IoU of the tail, the three rarest classes: *{NAMES[ours]}* against the better of
{" and ".join(f"*{NAMES[arm]}*" for arm in protocol.rivals)}, here *{NAMES[rival]}*. A point is 0.01 of IoU.{of_rates}

{listed}

![IoU of every run, by arm]({protocol.name}-runs.png)

*Every dot is a run, the bar the 95 % bootstrap interval of the mean.*"""


def rates_said(protocol: Protocol, chosen: Mapping[str, Choice], *, is_gain: bool) -> str:
    """Return a sentence on a new line if the best learning rate of other arms was the highest tried, otherwise "".

    Args:
        protocol: the learning rates that were tried.
        chosen: learning rate of each arm.
        is_gain: whether our arm has a higher mean than its rival.
    """
    highest = max(protocol.learning_rates)
    others = [arm for arm in chosen if arm != protocol.ours]
    at_top = [arm for arm in others if chosen[arm].lr == highest]
    if not at_top:
        return ""
    whose = "all other arms" if at_top == others else " and of ".join(f"*{NAMES[arm]}*" for arm in at_top)
    effect = "narrow this gain" if is_gain and chosen[protocol.ours].lr < highest else "change this difference"
    return f"\nThe best learning rate of {whose} was the highest tried, {highest:g}: a higher one may {effect}."


def _arms(results: Results) -> str:
    protocol, chosen, found, _ = results
    groups = {name: measured(found, classes) for name, classes in protocol.groups.items()}
    natural = {name: measured(found, classes, "natural_test") for name, classes in protocol.groups.items()}
    head = ["arm", *groups, *(f"{name}, natural test" for name in groups), "learning rate", "own setting", "ms a step"]
    body = []
    for arm in found:
        choice = chosen[arm]
        means = [pages.mean_text(values[arm]) for values in groups.values()]
        rate, milliseconds = pages.choice_cells(choice)
        body.append(
            [
                NAMES[arm],
                *means,
                *(pages.mean_text(values[arm]) for values in natural.values()),
                rate,
                _strength(arm, choice),
                milliseconds,
            ]
        )
    paste = protocol.of_arm[protocol.ours]["paste"]
    low, high = paste["placement"]["scale_range"]
    classes = "; ".join(f"{name}: class {', '.join(str(c + 1) for c in of)}" for name, of in protocol.groups.items())
    return f"""\
## All arms

Mean IoU over the seeds, with the 95 % bootstrap interval of the mean ({classes}; class 1 is the most frequent).

{pages.table(head, body)}

Learning rate and the arm's own setting were chosen for each arm by the mean IoU of all six classes on
{protocol.settings["num_validation"]} validation scenes, with {len(protocol.tuning_seeds)} other seeds. `ms a step` is
CPU milliseconds of one thread.

*No paste* is flips and jitter alone. *Repeat factor* reads images of rare classes more often, *weighted loss* weighs
their pixels more. *Intra-batch* pastes objects between the images of a batch. The bank holds the objects of the
training set: drawn as often as they occur, tempered, or class-uniform. *Placebo* draws and places what
*bank, class-uniform* does, but filled with the background of the object's room and labelled as background. Its
own learning rate and `paste_prob` were tuned. In the natural test, classes are as frequent as in training.

All arms that paste draw {paste["objects"]} objects for an image and resize them by {low:g} to {high:g}. Of
{paste["placement"]["max_attempts"]} places, each object takes the one where it hides least.
`paste_prob` is the share of images that receive pastes."""


def _others(results: Results) -> str:
    protocol, _, found, _ = results
    tail, ours = measured(found, protocol.groups["tail"]), protocol.ours
    rival = better({arm: tail[arm] for arm in protocol.rivals})
    pairs = {NAMES[arm]: (tail[ours], tail[arm]) for arm in found if arm not in (ours, rival)}
    return f"""\
## The other comparisons

The tail of *{NAMES[ours]}* against the other arms, p values adjusted for {len(pairs)} tests by Holm's method:

{pages.comparison_table(compare_all(pairs))}"""


def _equal_seconds(results: Results) -> str:
    protocol, chosen, found, longer = results
    tail = measured(found, protocol.groups["tail"])
    theirs = {**tail, **measured(longer, protocol.groups["tail"])}
    steps = {arm: protocol.longer_steps(arm, chosen) for arm in protocol.longer}
    pairs = {f"{NAMES[arm]}, {steps[arm]} steps": (tail[protocol.ours], theirs[arm]) for arm in protocol.longer}
    timed = {arm: (longer.get(arm) or found[arm]) for arm in (protocol.ours, *protocol.longer)}
    mean_seconds = {arm: mean({s: run.found["cpu_seconds"] for s, run in runs.items()}) for arm, runs in timed.items()}
    seconds = ", ".join(f"*{NAMES[arm]}* {value:.1f}" for arm, value in mean_seconds.items()) + " CPU seconds"
    return f"""\
## Equal time

A step with a paste may take longer. Here the other arms are trained for as many CPU seconds as *{NAMES[protocol.ours]}*
takes in the trials of tuning, but never for fewer steps; the learning rate falls over all of them. CPU seconds are
counted, since other programs ran on the machine. The runs themselves took {seconds}. The difference is of the tail, p
values are adjusted for these tests.

{pages.comparison_table(compare_all(pairs))}"""


def _convergence(results: Results) -> str:
    protocol, _, found, _ = results
    head = ["arm", *(f"{name}, last quarter" for name in protocol.groups), "loss, first to last"]
    body = []
    for arm, runs in found.items():
        rises = [pages.settled([y for _, y in _curve(runs, classes)]) for classes in protocol.groups.values()]
        losses = [[point["loss"] for point in run.found["curve"]] for run in runs.values()]
        first, last = (sum(loss[i] for loss in losses) / len(losses) for i in (0, -1))
        body.append([NAMES[arm], *(f"{100 * rise:+.1f}" for rise in rises), f"{first:.2f} to {last:.3f}"])
    return f"""\
## Convergence

How much the IoU on validation scenes rose over the last quarter of the steps, points, mean over the seeds:

{pages.table(head, body)}

![IoU on validation scenes over the steps]({protocol.name}-curves.png)"""


def _caveats(results: Results) -> str:
    protocol, chosen, found, longer = results
    tail = measured(found, protocol.groups["tail"])
    base = mean(tail["none"])
    tails = {NAMES[arm]: values for arm, values in tail.items()}
    tails |= {f"{NAMES[arm]}, equal time": v for arm, v in measured(longer, protocol.groups["tail"]).items()}
    of_runs = "".join(f"\n- {line}" for line in (*pages.edges_said(chosen), *failures_said(tails)))
    above = (
        "above zero, as the protocol demands"
        if base > 0.01
        else "**near zero, so this task is too hard to compare on**"
    )
    return f"""\
## What this does not say

- The scenes are rendered, and their objects have exact masks. That favours pasting: an object that is pasted elsewhere
  looks as it would there, but for light and perspective.
- It is one domain: rooms with objects on a floor or on each other. Class and place are independent there, so a paste
  breaks no context.
- The network is small and trained from scratch. A pretrained one needs fewer examples of a class.
- Without any paste the tail has an IoU of {base:.2f}: {above}.
- All classes are equally frequent in validation scenes, as in the test. With few examples of a class, tuning is
  noisier.{of_runs}"""


def failures_said(tails: Mapping[str, Values]) -> list[str]:
    """Say of which arms some runs ended far below the others, since their means say little about a typical run."""
    spread = {name: sorted(values.values()) for name, values in tails.items()}
    wide = {name: runs for name, runs in spread.items() if statistics.median(runs) - runs[0] > FAR_BELOW}
    if not wide:
        return []
    named = ", ".join(
        f"*{name}* (lowest {runs[0]:.2f}, median {statistics.median(runs):.3f})" for name, runs in wide.items()
    )
    return [
        f"Some runs ended more than {100 * FAR_BELOW:g} points of the tail below the median of their arm: {named}. "
        "Compare the medians, too."
    ]


def _every_run(results: Results) -> str:
    protocol, _, found, longer = results
    panels = {f"IoU of the {name}": _named(measured(found, classes)) for name, classes in protocol.groups.items()}
    if longer:
        panels["IoU of the tail, equal time"] = _named(measured(longer, protocol.groups["tail"]))
    counts = {seed: run.found["instances"] for seed, run in found[protocol.ours].items()}
    body = [[str(seed), *map(str, counts[seed])] for seed in sorted(counts)]
    instances = pages.table(["seed", *(f"class {c}" for c in range(1, 7))], body)
    runs = [run for runs in (*found.values(), *longer.values()) for run in runs.values()]
    return f"""\
## Every run

{pages.runs_table(panels)}

Instances in the training sets:

{instances}

Trials, runs and their curves are in `evidence/results/{protocol.name}`. Machines:

{pages.setting(runs)}"""


def _curve(runs: Mapping[int, Run], classes: Sequence[int]) -> list[tuple[float, float]]:
    """Return (step, mean over the seeds) of the validation IoU of some classes."""
    return pages.mean_curve(runs, lambda point: group_iou(point["ious"], classes))


def _named(values: Mapping[str, Values]) -> dict[str, Any]:
    return {NAMES[arm]: dict(of_arm) for arm, of_arm in values.items()}


def _strength(arm: str, choice: Choice) -> str:
    return "" if choice.strength is None else f"{_STRENGTH.get(arm, 'paste_prob')} {choice.strength:g}"


SECTIONS = (_head, _answer, _arms, _others, _equal_seconds, _convergence, _caveats, _every_run)
write = pages.writer(SECTIONS, pictures)
