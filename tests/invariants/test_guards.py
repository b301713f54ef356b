"""Every invariant is seen to fail with the rule that it guards switched off, and to hold with it.

Each of `guard_mutations` breaks one rule. A check that stays silent then checks nothing.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest
from guard_mutations import MUTATIONS, Mutation
from invariant_cases import EVERYTHING, draw, run

from samples import STUFF
from segpaste import invariants
from segpaste.invariants import Case, Violation
from segpaste.invariants.case import what_is_missing
from segpaste.types import Modality

pytestmark = [pytest.mark.xdist_group("invariants-guards"), pytest.mark.usefixtures("reference_kernels")]

NUM_CASES = 12


@functools.cache
def clean_cases() -> list[Case]:
    """Cases with all modalities; drawn with the rules in force, and some that run into rare ones."""
    drawn = [draw(EVERYTHING, number) for number in range(NUM_CASES)]
    drawn += [(batch, config.model_copy(update={"max_hidden_frac": 0.1})) for batch, config in drawn[7:9]]
    for batch, config in drawn[1:9]:
        assert config.panoptic is not None
        panoptic = config.panoptic.model_copy(update={"contact_priority": dict.fromkeys(STUFF, 1)})
        drawn.append((batch, config.model_copy(update={"panoptic": panoptic})))
    return [run(batch, config) for batch, config in drawn]


@functools.cache
def boxed_cases() -> list[Case]:
    """Cases of boxes alone."""
    return [run(*draw(frozenset({Modality.SEMANTIC}), number)) for number in range(NUM_CASES)]


def broken(name: str, cases: list[Case]) -> list[Violation]:
    """Return what the check of this name finds in all cases that it applies to."""
    check = getattr(invariants, name)
    return [v for case in cases if what_is_missing(name, case) is None for v in check(replace(case))]


@pytest.mark.parametrize(("name", "mutation"), MUTATIONS)
def test_invariant_fails_without_its_rule(name: str, mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = boxed_cases() if name == "instance_given_bbox_kept" else clean_cases()
    assert broken(name, cases) == []
    with monkeypatch.context() as patch:
        mutation(patch)
        mutated = [run(case.before, case.config) for case in cases]
    num_found = len(broken(name, mutated))
    assert num_found > 0, f"{name} does not notice that {mutation.__name__.replace('_', ' ')}"


def test_every_invariant_is_guarded() -> None:
    assert {param.values[0] for param in MUTATIONS} == {check.__name__ for check in invariants.INVARIANTS}
