"""Trials: pairs of samples by their ids, scored by the evidence of their codes.

A CSV of trials has a column ``enrollment`` (or ``enrolment``), a column ``test``, and for figures a column ``key``: it
has ``target`` or 1 where both samples are of one class, and ``nontarget`` or 0 where they are not. The columns are
separated by commas, or by tabs if there is one in the first line.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from segpaste.encoder.data.vector_csv import VectorsError, csv_rows, shown_columns
from segpaste.encoder.evaluation.assessment import RatioFigures, ratio_figures
from segpaste.encoder.evaluation.evidence import AttributeEvidence
from segpaste.encoder.model.codes import Bits

_KINDS = {"target": True, "1": True, "nontarget": False, "0": False}
_ENROLMENT = ("enrollment", "enrolment")
_NUM_PAIRS = 1 << 18


@dataclass(frozen=True, eq=False)
class Trials:
    """Pairs of rows of vectors.

    Attributes:
        ids: of the enrolment and the test sample of each pair, as the file has them.
        rows: of the same, int64 [N, 2].
        is_target: whether a pair is of one class, bool [N]; None if that is not known.
    """

    ids: list[tuple[str, str]]
    rows: NDArray[np.int64]
    is_target: NDArray[np.bool_] | None

    @property
    def is_counted(self) -> NDArray[np.bool_]:
        """Whether a pair counts in figures, bool [N]: a sample beside itself says nothing."""
        return np.asarray(self.rows[:, 0] != self.rows[:, 1])


@dataclass(frozen=True, eq=False)
class ScoredTrials:
    """What the evidence says of trials.

    Attributes:
        scores: before calibration, [N].
        log_likelihood_ratios: natural logarithms, [N].
        figures: of the pairs that count; None where the kinds are not known, or one has no pairs.
    """

    scores: NDArray[np.float64]
    log_likelihood_ratios: NDArray[np.float64]
    figures: RatioFigures | None


def read_trials(path: Path, row_of: dict[str, int], labels: list[str] | None = None) -> Trials:
    """Read pairs.

    Args:
        path: a CSV in UTF-8.
        row_of: the row of each id.
        labels: of each row; without a column ``key`` they say which pairs are of one class.

    Raises:
        VectorsError: a column is missing, a value is not what it must be, or there are no pairs.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        delimiter = "\t" if b"\t" in file.readline() else ","
    lines = csv_rows(path, delimiter)
    _, header = next(lines, (0, []))
    columns = _find(path, header)
    ids: list[tuple[str, str]] = []
    kinds: list[bool] = []
    for line, row in lines:
        one, other, *key = (row[column] for column in columns)
        for column, name in zip(columns, (one, other), strict=False):
            if name not in row_of:
                where = f"{path}: line {line}, column {header[column]!r}"
                raise VectorsError(f"{where}: expected the id of a vector, got {name!r:.60}")
        if key and key[0].strip().lower() not in _KINDS:
            where = f"{path}: line {line}, column 'key'"
            raise VectorsError(f"{where}: expected target or 1, nontarget or 0, got {key[0]!r:.60}")
        ids.append((one, other))
        kinds += [_KINDS[text.strip().lower()] for text in key]
    if not ids:
        raise VectorsError(f"{path}: expected a line for each pair after that with the names of the columns, got none")
    rows = np.array([(row_of[one], row_of[other]) for one, other in ids], np.int64)
    if len(columns) == 3:
        return Trials(ids, rows, np.array(kinds, bool))
    return Trials(ids, rows, None if labels is None else np.array([labels[a] == labels[b] for a, b in rows.tolist()]))


def score_trials(evidence: AttributeEvidence, codes: Bits, trials: Trials) -> ScoredTrials:
    """Score pairs.

    Args:
        evidence: with a calibration.
        codes: of the vectors, [N, K].
        trials: pairs of their rows.

    Raises:
        ValueError: there is no calibration.
    """
    blocks = [trials.rows[first : first + _NUM_PAIRS].T for first in range(0, len(trials.rows), _NUM_PAIRS)]
    scores = np.concatenate([evidence.pair_scores(codes[one], codes[other]) for one, other in blocks])
    figures = None
    if trials.is_target is not None:
        kinds = (scores[trials.is_counted & (trials.is_target == kind)] for kind in (True, False))
        figures = ratio_figures(evidence, *kinds)
    return ScoredTrials(scores, evidence.ratios_of(scores), figures)


def scores_csv(trials: Trials, scored: ScoredTrials) -> bytes:
    """The CSV of scored pairs, in their order: enrollment, test, score, llr, and key where it is known."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns: dict[str, Iterable[str]] = {
        "enrollment": (one for one, _ in trials.ids),
        "test": (other for _, other in trials.ids),
        "score": (f"{score:.9g}" for score in scored.scores.tolist()),
        "llr": (f"{ratio:.9g}" for ratio in scored.log_likelihood_ratios.tolist()),
    }
    if trials.is_target is not None:
        columns["key"] = ("target" if is_target else "nontarget" for is_target in trials.is_target.tolist())
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue().encode()


def _find(path: Path, header: list[str]) -> list[int]:
    """Where the columns are: of the enrolment, of the test, and of the key if there is one."""
    got = f"got the columns {shown_columns(header)}" if header else "got an empty file"
    enrolment = [name for name in _ENROLMENT if name in header]
    if len(enrolment) != 1 or "test" not in header:
        raise VectorsError(f"{path}: line 1: expected the columns enrollment and test of ids, {got}")
    return [header.index(name) for name in (enrolment[0], "test", "key") if name in header]
