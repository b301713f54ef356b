"""The table of what users do: every case runs, goals are judged, contenders take turns; no test asserts on a time."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from segpaste.cli import bench

PROGRAMS = bench.load_programs()
measuring, rows, turns, plan, report = (
    importlib.import_module(f"{PROGRAMS}.{name}")
    for name in ("everyday.measuring", "everyday.rows", "everyday.turns", "plan", "report")
)
OWN, AGAIN, BASE = rows.OWN, rows.AGAIN, rows.BASE
SIZE = plan.Everyday(1, 2, 4, (96, 128), 2, 4, 48)
HEAVY = ("commands:worker", "commands:dry_run", "commands:check", "commands:augment")
"""Commands that import torch; one of them runs here."""
LIGHT_CASES = [case for case in dict.fromkeys(row.case for row in rows.ROWS) if case not in HEAVY]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A few small scenes."""
    return measuring.prepared(tmp_path_factory.mktemp("everyday"), SIZE)


def row(**changes: Any) -> Any:
    return rows.Row(**{"what": "a thing", "case": "samples:of_pair", "unit": "CPU ms", "goal": 2.0, **changes})


class TestCases:
    @pytest.mark.parametrize("case", [*LIGHT_CASES, "commands:augment"])
    def test_it_yields_the_units_of_its_rows(self, data: Any, case: str) -> None:
        figures = turns.figures_of(case, data)
        found = [next(figures), next(figures)]
        asked = {row.unit for row in rows.ROWS if row.case == case}
        assert all(set(one) >= asked and min(one.values()) > 0 for one in found)

    def test_a_command_that_fails_is_told(self, data: Any) -> None:
        with pytest.raises(RuntimeError, match=r"stats.*expected exit code 0, got 2"):
            next(turns.figures_of("commands:stats", dataclasses.replace(data, dataset="nowhere")))

    def test_every_case_and_every_other_library_has_a_function(self) -> None:
        for case in {case for row in rows.ROWS for case in (row.case, *row.peers.values())}:
            module, function, *_ = case.split(":")
            assert callable(getattr(importlib.import_module(f"{PROGRAMS}.everyday.{module}"), function))


class TestTurns:
    def test_the_first_does_not_count_and_the_order_changes(self) -> None:
        log: list[str] = []

        def figures(name: str) -> Iterator[dict[str, float]]:
            for number in range(9):
                log.append(name)
                yield {"s": float(number)}

        found, skipped = turns.in_turns({"a": figures("a"), "b": figures("b")}, 2)
        assert log == ["b", "a", "a", "b", "b", "a"]
        assert found == {"a": {"s": [1.0, 2.0]}, "b": {"s": [1.0, 2.0]}}
        assert not skipped

    def test_a_library_that_is_missing_is_left_out_with_the_reason(self) -> None:
        def missing() -> Iterator[dict[str, float]]:
            raise RuntimeError("no such library")
            yield {}

        found, skipped = turns.in_turns({"a": iter([{"s": 1.0}] * 3), "b": missing()}, 2)
        assert found == {"a": {"s": [1.0, 1.0]}}
        assert skipped == {"b": "no such library"}

    def test_another_process_measures(self, data: Any) -> None:
        found = turns.remote(sys.executable, turns.SOURCE, "commands:bank_info", data)
        assert next(found)["CPU s"] > 0
        found.close()

    def test_the_last_line_of_another_process_is_the_reason(self, data: Any) -> None:
        with pytest.raises(RuntimeError, match=r"ultralytics is not installed|does not import here"):
            next(turns.remote(sys.executable, turns.SOURCE, "steps:of_peer:small:Ultralytics CopyPaste", data))

    def test_programs_are_found_from_a_process_of_their_own(self) -> None:
        folder = Path(turns.PROGRAMS)
        assert (folder / PROGRAMS.replace(".", "/") / "everyday" / "turns.py").is_file()


class TestGoals:
    def test_a_figure(self) -> None:
        assert row().reached({OWN: 2.0}) is True
        assert row().reached({OWN: 2.1}) is False

    def test_a_ratio_to_the_fastest_of_the_others(self) -> None:
        judged = row(of=("x", "y"), goal=0.5)
        assert judged.reached({OWN: 2.0, "x": 5.0, "y": 4.0}) is True
        assert judged.reached({OWN: 2.1, "x": 5.0, "y": 4.0}) is False
        assert judged.reached({OWN: 2.0}) is None

    def test_a_rate(self) -> None:
        assert row(is_rate=True).reached({OWN: 2.1}) is True
        assert row(is_rate=True).reached({OWN: 1.9}) is False

    def test_the_table(self) -> None:
        found = {
            "figures": {
                "samples:of_pair": {
                    OWN: {"CPU ms": [1.0, 2.0, 3.0]},
                    BASE: {"CPU ms": [4.0]},
                    AGAIN: {"CPU ms": [1.8]},
                    "AlbumentationsX, 1 object, masks": {"CPU ms": [4.0]},
                }
            },
            "skipped": {"samples:of_pair": {"Nobody": "it is not installed"}},
        }
        text = report.everyday(found)
        assert "| 2.00 (1.00..3.00) | 0.90 × | 4.00 (4.00..4.00), 0.50 of it |" in text
        assert (
            "| AlbumentationsX, 1 object, masks 4.00 (4.00..4.00) | ≤ 0.7 × AlbumentationsX, 1 object, masks | yes |"
            in text
        )
        assert text.endswith("Not measured:\n\n- Nobody: it is not installed")
        assert text.count("\n| ") == 3  # the head, the rule and the only row that was measured

    def test_a_row_without_a_figure_says_so(self) -> None:
        found = {"figures": {"commands:stats": {}}, "skipped": {"commands:stats": {OWN: "no"}}}
        assert "not measured" in report.everyday(found)
