"""Result of a tuning as text, as JSON and as a paste config."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from segpaste._printable import printable
from segpaste.augmentation import BatchCopyPasteConfig
from segpaste.tuning.comparing import Comparison, Verdict
from segpaste.tuning.plan import Plan
from segpaste.tuning.search import Found

ANSWERS: Mapping[Verdict, str] = {
    "higher": "paste with this config",
    "lower": "do not paste",
    "undecided": "undecided: no gain shown",
}
_MOST_GAINS = 12
_HARDLY = 0.02  # of the score of the best class


def pastes(found: Found) -> bool:
    """Return whether the answer is to paste."""
    return found.mean.verdict == "higher"


def lines(found: Found) -> Iterator[str]:
    """Yield the lines of the report."""
    if found.gains:
        yield "mean gains in the search; the highest is biased upwards, because it selected the arm"
        ranked = sorted(found.gains.items(), key=lambda pair: -pair[1])
        yield from (f"  {gain:+9.4f}  {arm}" for arm, gain in ranked[:_MOST_GAINS])
        yield ""
    yield f"chosen: {found.arm}; on {found.mean.num_pairs} new splits, whose held-out images the search never scored:"
    names = {name: printable(name) for name in found.classes}
    width = max(5, *(len(name) for name in names.values()))
    yield f"{'class':{width}}  {'without':>9}  {'with':>9}  {'gain':>9}  {'95 % interval':>22}  {'pairs':>5}"
    for name, comparison in found.classes.items():
        yield _row(f"{names[name]:{width}}", found.without[name], found.with_paste[name], comparison)
    yield _row(f"{'mean':{width}}", *found.mean_scores, found.mean)
    yield ""
    yield answer(found)
    if unlearned := _unlearned(found):
        yield f"hardly learned without paste: {', '.join(unlearned)}; train longer before you rely on these gains"


def answer(found: Found) -> str:
    """Return the answer in a sentence."""
    mean = found.mean.interval
    gain = f"gain {mean.mean:+.4f} on images like these, 95 % interval {_interval(found.mean)}"
    text = f"{ANSWERS[found.mean.verdict]} ({gain}, corrected t test p = {found.mean.p_value:.3g})"
    lost = [printable(name) for name, comparison in found.classes.items() if comparison.verdict == "lower"]
    if lost and pastes(found):
        text += f"; worse for {', '.join(lost)}"
    if found.left_out:
        text += f"; not in the mean, too few images: {', '.join(printable(name) for name in found.left_out)}"
    return text


def document(found: Found, plan: Plan, runs: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return all of a tuning as JSON values: answer, comparisons, plan and every run."""
    return {
        "answer": ANSWERS[found.mean.verdict],
        "chosen": {"balance": found.arm.balance, **found.arm.settings()},
        "mean": _facts(found.mean),
        "not in the mean": found.left_out,
        "classes": {
            name: {"without": found.without[name], "with": found.with_paste[name], **_facts(comparison)}
            for name, comparison in found.classes.items()
        },
        "search": [{"arm": str(arm), "gain": gain} for arm, gain in found.gains.items()],
        "plan": plan.facts(),
        "made with": dict(facts),
        "runs": list(runs),
    }


def config_text(found: Found, config: BatchCopyPasteConfig) -> str:
    """Return the paste config as YAML, with the answer as a comment; unless the answer is to paste, it pastes nothing.

    Args:
        found: the result.
        config: config of the chosen arm.
    """
    import yaml

    values = config.model_dump(mode="json")
    if pastes(found):
        hint = f"# Pass balance={found.arm.balance!r} beside this config: it is an argument, not a key.\n"
    else:
        hint = "# placement.paste_prob is 0: nothing is pasted. tune.json names the arm that was compared.\n"
        values["placement"]["paste_prob"] = 0.0
    return f"# segpaste tune: {answer(found)}\n{hint}{yaml.safe_dump(values, sort_keys=False)}"


def _unlearned(found: Found) -> list[str]:
    """Return the classes that score next to nothing without paste, compared with the best class."""
    best = max(found.without.values())
    return [printable(name) for name, score in found.without.items() if 0 <= score < _HARDLY * best]


def _row(name: str, without: float, with_paste: float, comparison: Comparison) -> str:
    gain, pairs = comparison.interval.mean, comparison.num_pairs
    verdict = "" if comparison.verdict == "undecided" else f"  {comparison.verdict}"
    return f"{name}  {without:9.4f}  {with_paste:9.4f}  {gain:+9.4f}  {_interval(comparison):>22}  {pairs:>5}{verdict}"


def _interval(comparison: Comparison) -> str:
    """Return an interval; it is infinite with one pair, or if nearly all pairs score the same images."""
    if not comparison.is_known:
        return "too few images"
    return f"[{comparison.interval.low:+.4f}, {comparison.interval.high:+.4f}]"


def _facts(comparison: Comparison) -> dict[str, Any]:
    low, high = comparison.interval.low, comparison.interval.high
    return {
        "gain": comparison.interval.mean,
        "interval": [low, high] if comparison.is_known else None,
        "p": comparison.p_value,
        "pairs": comparison.num_pairs,
        "better in": comparison.num_better,
        "verdict": comparison.verdict,
    }
