"""The page on few real photos: every sentence about a result follows from the runs, whatever their outcome."""

from __future__ import annotations

from typing import Any

from PIL import Image

from segpaste.tuning.comparing import Values, compare, compare_all, mean

from .. import pages, plots
from ..pages import Found, Results
from ..protocol import Protocol

NAMES = {
    "none": "no paste",
    "bank": "segpaste, bank",
    "albumentationsx": "AlbumentationsX",
    "ultralytics": "Ultralytics' rule",
}
MEASURES = {"ap": "mask AP", "ap50": "AP50"}


def name_of(protocol: Protocol, arm: str) -> str:
    """Return an arm's name with its number of photos."""
    own = protocol.of_arm[arm]
    return f"{NAMES[own['method']]}, {own['photos']} photos"


def measured(found: Found, measure: str) -> dict[str, Values]:
    """Return a measure on the test photos, by arm and seed."""
    return {arm: {seed: run.found["test"][measure] for seed, run in runs.items()} for arm, runs in found.items()}


def pictures(protocol: Protocol, found: Found) -> dict[str, Image.Image]:
    """Return the pictures of the page by name."""
    panels = {
        title: {name_of(protocol, arm): list(values.values()) for arm, values in measured(found, measure).items()}
        for measure, title in MEASURES.items()
    }
    lines = {
        f"mask AP, validation, {num} photos": {
            name_of(protocol, arm): pages.mean_curve(runs, lambda point: float(point["validation"]["ap"]))
            for arm, runs in found.items()
            if protocol.of_arm[arm]["photos"] == num
        }
        for num in (4, 8)
    }
    return {
        "runs": plots.runs_by_arm(panels, name_of(protocol, protocol.ours)),
        "curves": plots.curves(lines, "steps", [NAMES[name] for name in NAMES]),
    }


def _head(results: Results) -> str:
    protocol = results.protocol
    common, own = protocol.settings, protocol.of_arm[protocol.ours]
    low, high = own["scale_range"]
    return f"""\
# Few real photos

Does pasting help a model that is trained on only 4 or 8 photos? The 18 photos of
[fruits and nuts](https://github.com/Tony607/mmdetection_instance_segmentation_demo) (MIT licence) show dates, figs and
hazelnuts. A small U-Net that predicts centres and offsets is trained from scratch, and tested on 7 photos that are not
in its training set.

Each arm was trained on the same {len(protocol.seeds)} random splits: {common["steps"]} steps of
{common["batch_size"]} images of 128 × 160 pixels, with flips and size jitter in all arms. The protocol,
`evidence/protocols/{protocol.name}.md`, was committed before the first run and names one primary endpoint. A program
writes this page from the runs:

```sh
python -m evidence.few_images run     # two processes of one thread; resumes after an interruption
python -m evidence.few_images page
```

*segpaste, bank* pastes {own["objects"]} objects of the training photos into an image, with a probability of
{own["paste_prob"]:g} for each image. Each object is scaled by {low:g} to {high:g}, and placed where it covers least
out of {own["max_attempts"]} random places. *AlbumentationsX* gets the same objects for the same number of images; its
`CopyAndPaste` chooses the places and never enlarges an object. *Ultralytics' rule* is the preset `ultralytics_mixup`,
which pastes like Ultralytics' `CopyPaste` in its mode `mixup`."""


def _answer(results: Results) -> str:
    protocol, _, found, _ = results
    ours, theirs = protocol.ours, protocol.rivals[0]
    values = {measure: measured(found, measure) for measure in MEASURES}
    lines = [
        f"{title[0].upper()}{title[1:]}: "
        + pages.said(
            compare(values[measure][ours], values[measure][theirs]), name_of(protocol, ours), name_of(protocol, theirs)
        )
        for measure, title in MEASURES.items()
    ]
    listed = "\n".join(f"- {line}" for line in lines)
    return f"""\
## The answer

The primary endpoint is mask AP with 4 photos, with a bank against no paste. AP50 is given as well. A point is 0.01.

{listed}

![AP of every run, by arm]({protocol.name}-runs.png)

*Each dot is a split, and the bar is the 95 % bootstrap interval of the mean.*"""


def _arms(results: Results) -> str:
    protocol, chosen, found, _ = results
    values = {title: measured(found, measure) for measure, title in MEASURES.items()}
    head = ["arm", *values, "learning rate", "ms per step"]
    body = [
        [
            name_of(protocol, arm),
            *(pages.mean_text(of[arm]) for of in values.values()),
            *pages.choice_cells(chosen[arm]),
        ]
        for arm in found
    ]
    return f"""\
## All arms

Mean over the splits, with the 95 % bootstrap interval of the mean. The learning rate of each arm was chosen by mask AP
on 3 validation photos, with {len(protocol.tuning_seeds)} other splits of the remaining photos. No split uses the
validation photos for training or testing. `ms per step` is the CPU time of one thread.

{pages.table(head, body)}"""


def _others(results: Results) -> str:
    protocol, _, found, _ = results
    pairs = {}
    for measure, title in MEASURES.items():
        values = measured(found, measure)
        for arm, own in protocol.of_arm.items():
            ours = f"bank-{own['photos']}"
            if arm != ours and (arm, measure) != (protocol.rivals[0], "ap"):
                pairs[f"{title}: {name_of(protocol, arm)}"] = values[ours], values[arm]
    return f"""\
## The other comparisons

*segpaste, bank* against each other arm with the same number of photos, with p values adjusted for {len(pairs)} tests by
Holm's method:

{pages.comparison_table(compare_all(pairs))}"""


def _equal_seconds(results: Results) -> str:
    protocol, chosen, found, longer = results
    values = measured(found, "ap")
    theirs = {**values, **measured(longer, "ap")}
    pairs = {
        f"{name_of(protocol, arm)}, {protocol.longer_steps(arm, chosen)} steps": (values[protocol.ours], theirs[arm])
        for arm in protocol.longer
    }
    return f"""\
## Equal time

*No paste* is trained for as many CPU seconds as *{name_of(protocol, protocol.ours)}*. Mask AP:

{pages.comparison_table(compare_all(pairs))}"""


def _convergence(results: Results) -> str:
    protocol, _, found, _ = results
    body = []
    for arm, runs in found.items():
        rise = pages.settled([y for _, y in pages.mean_curve(runs, lambda point: float(point["validation"]["ap"]))])
        training = mean({seed: run.found["training"]["ap"] for seed, run in runs.items()})
        losses = pages.mean_curve(runs, lambda point: float(point["loss"]))
        body.append(
            [
                name_of(protocol, arm),
                f"{100 * rise:+.1f}",
                f"{training:.2f}",
                f"{losses[0][1]:.2f} to {losses[-1][1]:.2f}",
            ]
        )
    head = ["arm", "rise over the last quarter, points", "mask AP on the training photos", "loss, first to last"]
    return f"""\
## Convergence

Mask AP on the validation photos, averaged over the splits:

{pages.table(head, body)}

![AP on validation photos over the steps]({protocol.name}-curves.png)"""


def _caveats(results: Results) -> str:
    protocol, _, found, _ = results
    base = mean(measured(found, "ap")[protocol.rivals[0]])
    too_hard = "" if base > 0.01 else ", **so this task is too hard for a comparison**"
    return f"""\
## What this does not say

- The results are from one domain: small objects on a table, seen from above, with few backgrounds. There an object may
  be anywhere in an image, which favours pasting.
- 18 photos are few. The splits share photos, so they are less independent than the test assumes, and the intervals are
  too narrow for other photos.
- The network is small and trained from scratch. A pretrained network needs fewer photos.
- Without a paste, 4 photos give a mask AP of {base:.2f}{too_hard}."""


def _every_run(results: Results) -> str:
    protocol, _, found, longer = results
    panels: dict[str, dict[str, Values]] = {
        title: {name_of(protocol, arm): values for arm, values in measured(found, measure).items()}
        for measure, title in MEASURES.items()
    }
    if longer:
        equal = {name_of(protocol, arm): values for arm, values in measured(longer, "ap").items()}
        panels["mask AP, equal time"] = equal
    runs: list[Any] = [run for of_arm in (*found.values(), *longer.values()) for run in of_arm.values()]
    return f"""\
## Every run

{pages.runs_table(panels)}

Trials, runs and their curves are in `evidence/results/{protocol.name}`. Machines:

{pages.setting(runs)}"""


SECTIONS = (_head, _answer, _arms, _others, _equal_seconds, _convergence, _caveats, _every_run)
write = pages.writer(SECTIONS, pictures)
