"""What helps where: share, number and size of pastes, harmonisation, whole objects, depth and patches.

    python -m evidence.what_helps run        # what is not done yet: trials, then the runs; may be stopped at any time
    python -m evidence.what_helps status     # how many runs are done
    python -m evidence.what_helps gather     # all runs into one file, runs.jsonl
    python -m evidence.what_helps page       # docs/evidence/what-helps.md and its pictures, from the runs

`evidence/protocols/what-helps.md` says what is compared, and was committed before the first run.
"""

from __future__ import annotations

from ..programs import main
from ..runs import Run
from . import page

NAME = "what-helps"


def validation_score(run: Run) -> float:
    """Return the score of the run's task on validation scenes: what tuning maximises."""
    return float(run.found["validation"]["score"])


if __name__ == "__main__":
    main(NAME, __doc__, "evidence.what_helps.runs:train", validation_score, page.write)
