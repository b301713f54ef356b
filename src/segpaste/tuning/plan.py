"""Plan of a tuning: the arms that are tried, the seeds of the runs, and their number.

The search has three stages: balance and share, then the number of objects, then the placement. Each stage varies the
best arm of the stages before it. The chosen arm is then compared with training without paste, with seeds of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

BALANCES = ("natural", "tempered", "class_uniform", "repeat_factor", "instance_aware")
PLACEMENTS: Mapping[str, Mapping[str, int]] = {"least_covering": {"max_attempts": 8}, "uniform": {"max_attempts": 1}}
"""Values of ``placement`` by name: the place of 8 that covers the least, or any place."""
FEWEST_PAIRS = 6
"""Pairs of the smallest plan; with fewer, only very large gains are significant."""
MOST_HELD_OUT = 0.4
"""Largest fraction that a run holds out. With nearly half of the images, all runs would hold out the same pool."""
_FIRST_SEARCH_SEED = 101  # seeds below are those of the final comparison


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to paste.

    Attributes:
        balance: how the classes of pasted objects are drawn, see `segpaste.BankSampler`.
        share: probability of pasting into an image.
        count: number of objects drawn for an image.
        placement: key of `PLACEMENTS`.
    """

    balance: str
    share: float
    count: int
    placement: str

    @property
    def name(self) -> str:
        """Name for files."""
        return f"{self.balance}-{self.share!r}-{self.count}-{self.placement}"

    def __str__(self) -> str:
        objects = "1 object" if self.count == 1 else f"{self.count} objects"
        return f"{self.balance}, share {self.share:g}, {objects}, {self.placement}"

    def settings(self) -> dict[str, Any]:
        """Return the config keys of this arm; the balance is an argument, not a key."""
        placement = {**PLACEMENTS[self.placement], "paste_prob": self.share}
        return {"placement": placement, "source": {"crops_per_target": self.count}}


SEARCHED_KEYS = {
    "placement.paste_prob": "shares",
    "source.crops_per_target": "counts",
    "placement.max_attempts": "placements",
}
"""Keys of a paste config that an arm sets, and the options that name their values."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All choices that are made before the first run.

    The first value of ``counts`` and of ``placements`` is used until the stage that varies it.

    Attributes:
        balances, shares, counts, placements: values that are tried.
        num_search: runs of each arm in the search.
        num_pairs: pairs of runs in the final comparison; one run of each pair does not paste.
        seed: seed of the splits.
        held_out: fraction of the images that a run holds out.
    """

    balances: tuple[str, ...] = ("natural", "tempered", "class_uniform")
    shares: tuple[float, ...] = (0.5, 1.0)
    counts: tuple[int, ...] = (4, 2, 8)
    placements: tuple[str, ...] = tuple(PLACEMENTS)
    num_search: int = 2
    num_pairs: int = 8
    seed: int = 0
    held_out: float = 0.25

    @property
    def search_seeds(self) -> range:
        """Seeds of the search."""
        return range(_FIRST_SEARCH_SEED, _FIRST_SEARCH_SEED + self.num_search)

    @property
    def final_seeds(self) -> range:
        """Seeds of the final comparison; the search uses others."""
        return range(1, self.num_pairs + 1)

    @property
    def num_arms(self) -> int:
        """Number of arms of the search, without the one that does not paste."""
        return len(self.balances) * len(self.shares) + len(self.counts) - 1 + len(self.placements) - 1

    @property
    def num_runs(self) -> int:
        """Number of runs; a single arm needs no search."""
        search = (self.num_arms + 1) * self.num_search if self.num_arms > 1 else 0
        return search + 2 * self.num_pairs

    def stages(self) -> Iterator[tuple[str, Callable[[Arm], list[Arm]]]]:
        """Yield the name of each stage that has arms, and a function from the best arm so far to its new arms."""
        yield "balance and share", lambda best: self.first_arms()
        if len(self.counts) > 1:
            yield "count", lambda best: [replace(best, count=count) for count in self.counts[1:]]
        if len(self.placements) > 1:
            yield "placement", lambda best: [replace(best, placement=name) for name in self.placements[1:]]

    def first_arms(self) -> list[Arm]:
        """Return the arms of the first stage."""
        pairs = [(balance, share) for balance in self.balances for share in self.shares]
        return [Arm(*pair, self.counts[0], self.placements[0]) for pair in pairs]

    def facts(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def listed(values: Sequence[object]) -> str:
    """Return values as an option of ``segpaste tune`` takes them."""
    return ",".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)


def fit(plan: Plan, num_runs: int) -> tuple[Plan, list[str]]:
    """Reduce a plan to at most a number of runs; return it, and a description of each cut.

    Cuts are made in a fixed order until the plan fits. The pairs of the final comparison are cut second to last,
    because the answer depends on them.

    Raises:
        ValueError: even the smallest plan has too many runs.
    """
    cuts: list[tuple[str, dict[str, Any]]] = [
        (f"only {plan.placements[0]} placement", {"placements": plan.placements[:1]}),
        (f"only {plan.counts[0]} objects", {"counts": plan.counts[:1]}),
        ("one run of each arm in the search", {"num_search": 1}),
        (f"only share {plan.shares[-1]:g}", {"shares": plan.shares[-1:]}),
        (f"{FEWEST_PAIRS} pairs in the final comparison", {"num_pairs": FEWEST_PAIRS}),
        (f"only {plan.balances[-1]} balance", {"balances": plan.balances[-1:]}),
    ]
    said = []
    for text, change in cuts:
        if plan.num_runs <= num_runs:
            break
        reduced = replace(plan, **change)
        if reduced.num_runs < plan.num_runs:
            said.append(text)
            plan = reduced
    if plan.num_runs > num_runs:
        raise ValueError(
            f"expected at least {2 * FEWEST_PAIRS} runs ({FEWEST_PAIRS} pairs), got {num_runs}; allow more"
        )
    return plan, said
