"""Rare classes: does pasting objects of a bank, all classes alike, help the tail, and does it keep the head?

    python -m evidence.rare_classes run        # what is not done yet: trials, then the runs; may be stopped at any time
    python -m evidence.rare_classes status     # how many runs are done
    python -m evidence.rare_classes gather     # all runs into one file, runs.jsonl
    python -m evidence.rare_classes page       # docs/evidence/rare-classes.md and its pictures, from the runs

`evidence/protocols/rare-classes.md` says what is compared, and was committed before the first run.
"""

from __future__ import annotations

from ..measures import group_iou
from ..programs import main
from ..runs import Run
from . import page

NAME = "rare-classes"


def validation_score(run: Run) -> float:
    """Return the mean over all classes, without the background, on validation scenes: what tuning maximises."""
    ious = run.found["validation"]
    return group_iou(ious, list(range(len(ious) - 1)))


if __name__ == "__main__":
    main(NAME, __doc__, "evidence.rare_classes.runs:train", validation_score, page.write)
