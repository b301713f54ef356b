"""Choice of the arms to compare and of the value of each option: pure functions of the scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from segpaste.tuning.comparing import Comparison, Values, compare, compare_all, mean

NAMES = {
    "none": "no paste",
    "share_25": "a quarter of the images",
    "default": "default",
    "share_100": "all images",
    "count_1": "1 object",
    "count_2": "2 objects",
    "count_8": "8 objects",
    "sizes_same": "original sizes",
    "sizes_near": "scales 0.8 to 1.25",
    "reinhard": "harmonised, reinhard",
    "multiband": "harmonised, multiband",
    "fragments": "cut-off objects included",
    "depth_none": "no paste, depth",
    "depth_front": "pastes in front, depth",
    "depth_aware": "depth-aware pastes",
    "tokens_none": "no paste, patches",
    "tokens_free": "pastes anywhere, patches",
    "tokens_grid": "pastes on the patch grid",
}
"""Names of the arms; up to ``fragments`` the task is class maps."""

AGAINST = {
    **dict.fromkeys(
        [*("share_25", "share_100", "count_1", "count_2", "count_8"), "sizes_same", "sizes_near"], "default"
    ),
    **dict.fromkeys(["reinhard", "multiband", "fragments"], "default"),
    "depth_aware": "depth_front",
    "tokens_grid": "tokens_free",
}
"""Each option, and the arm without it."""

FURTHER = {"depth_front": "depth_none", "tokens_free": "tokens_none"}
"""Arms with paste, and the arm without paste of the same task."""

SWITCHES = ("reinhard", "multiband", "fragments", "depth_aware", "tokens_grid")
"""Options that are on or off."""

SHARES = {0.0: "none", 0.25: "share_25", 0.5: "default", 1.0: "share_100"}
COUNTS: dict[float, str] = {1: "count_1", 2: "count_2", 4: "default", 8: "count_8"}


class Picked(NamedTuple):
    """Value of an option that becomes the library's default.

    Attributes:
        value: the smallest that is not worse than the best.
        best: the one with the highest mean.
    """

    value: float
    best: float


def pick(arms: Mapping[float, str], scores: Mapping[str, Values]) -> Picked:
    """Return the smallest value that is not significantly worse than the one with the highest mean score.

    Args:
        arms: value to its arm.
        scores: score of each arm by seed.
    """
    best = max(arms, key=lambda value: mean(scores[arms[value]]))
    for value in sorted(arms):
        if value == best or compare(scores[arms[best]], scores[arms[value]]).verdict != "higher":
            return Picked(value, best)
    raise AssertionError("the best value is among the values")


def compared(scores: Mapping[str, Values]) -> dict[str, Comparison]:
    """Return each option against the arm without it, p values adjusted by Holm over all of them."""
    pairs = {**AGAINST, **FURTHER}
    return compare_all({arm: (scores[arm], scores[pairs[arm]]) for arm in pairs})


def switched(found: Mapping[str, Comparison]) -> str:
    """Return sentences on which switches help; what does not help stays off."""
    on = [f"*{NAMES[arm]}*" for arm in SWITCHES if found[arm].verdict == "higher"]
    off = [f"*{NAMES[arm]}*" for arm in SWITCHES if found[arm].verdict != "higher"]
    parts = [f"These options improve what they should: {', '.join(on)}."] if on else []
    return " ".join([*parts, f"These options do not help here and stay off: {', '.join(off)}."] if off else parts)


def said(arm: str, comparison: Comparison, figures: str) -> str:
    """Return a sentence on whether an arm is better than the one that it is compared with."""
    ours, theirs = NAMES[arm], NAMES[{**AGAINST, **FURTHER}[arm]]
    verdicts = {
        "higher": f"*{ours}*: **better** than *{theirs}*",
        "lower": f"*{ours}*: **worse** than *{theirs}*",
        "undecided": f"*{ours}*: **no significant difference** from *{theirs}*",
    }
    return f"{verdicts[comparison.verdict]} ({figures})."
