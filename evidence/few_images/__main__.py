"""Few real photos: does pasting help a small instance model that has 4 or 8 photos to learn from?

    python -m evidence.few_images run        # what is not done yet: trials, then the runs; may be stopped at any time
    python -m evidence.few_images status     # how many runs are done
    python -m evidence.few_images gather     # all runs into one file, runs.jsonl
    python -m evidence.few_images page       # docs/evidence/few-images.md and its pictures, from the runs

SEGPASTE_TEST_DATA names the folder that holds `fruits_nuts`; one arm needs AlbumentationsX. The protocol,
`evidence/protocols/few-images.md`, was committed before the first run.
"""

from __future__ import annotations

from ..programs import main
from ..runs import Run
from . import page

NAME = "few-images"


def validation_score(run: Run) -> float:
    """Return the mask AP on the validation photos: what tuning maximises."""
    return float(run.found["validation"]["ap"])


if __name__ == "__main__":
    main(NAME, __doc__, "evidence.few_images.runs:train", validation_score, page.write)
