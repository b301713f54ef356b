"""Trials: pairs of samples, given by their ids and scored by the evidence of their codes.

A CSV of trials has a column ``enrollment`` (or ``enrolment``), a column ``test``, and for figures a column ``key``. The
key is ``target`` or 1 if both samples are of one class, else ``nontarget`` or 0. The separator is a comma, or a tab if
the first line contains a tab.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segpaste.encoder.codes import Bits
from segpaste.encoder.evaluation import RatioFigures, pair_cosines, ratio_figures
from segpaste.encoder.evidence import AttributeEvidence
from segpaste.encoder.vector_csv import VectorsError, csv_rows, shown_columns

_KINDS = {"target": True, "1": True, "nontarget": False, "0": False}
_ENROLMENT = ("enrollment", "enrolment")
_NUM_PAIRS = 1 << 18
_NUM_CHARS = 1 << 20


@dataclass(frozen=True, eq=False)
class Trials:
    """Pairs of rows of vectors.

    Attributes:
        ids: ids of the enrolment and the test sample of each pair, as in the file.
        rows: rows of both samples, int64 [N, 2].
        is_target: True for pairs of one class, bool [N]; None if the classes are not known.
    """

    ids: list[tuple[str, str]]
    rows: NDArray[np.int64]
    is_target: NDArray[np.bool_] | None

    def of_kind(self, kind: bool) -> NDArray[np.bool_]:
        """Return the mask of the pairs of one class, or of two, that count in figures, bool [N].

        Raises:
            ValueError: the classes are not known.
        """
        if self.is_target is None:
            raise ValueError("Trials: expected a key or labels, got neither")
        return np.asarray(self.is_counted & (self.is_target == kind))

    @property
    def is_counted(self) -> NDArray[np.bool_]:
        """Mask of the pairs that count in figures, bool [N]: those of two different samples."""
        return np.asarray(self.rows[:, 0] != self.rows[:, 1])


@dataclass(frozen=True, eq=False)
class ScoredTrials:
    """Scores of trials.

    Attributes:
        scores: scores before calibration, [N].
        log_likelihood_ratios: natural logarithms, [N].
        figures: figures of the pairs that count; None if the kinds are not known, or a kind has no pairs.
        cosines: cosines of the vectors of the pairs of one class, and of two, that count; None if not measured.
    """

    scores: NDArray[np.float64]
    log_likelihood_ratios: NDArray[np.float64]
    figures: RatioFigures | None
    cosines: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None


def read_trials(path: Path, row_of: dict[str, int], labels: list[str] | None = None) -> Trials:
    """Read trials from a CSV.

    Args:
        path: a CSV in UTF-8.
        row_of: row of each id.
        labels: label of each row; without a column ``key`` they decide which pairs are of one class.

    Raises:
        VectorsError: a column is missing, a value is invalid, or there are no pairs.
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
        raise VectorsError(f"{path}: expected a line for each pair after the names of the columns, got none")
    rows = np.array([(row_of[one], row_of[other]) for one, other in ids], np.int64)
    if len(columns) == 3:
        return Trials(ids, rows, np.array(kinds, bool))
    return Trials(ids, rows, None if labels is None else np.array([labels[a] == labels[b] for a, b in rows.tolist()]))


def score_trials(
    evidence: AttributeEvidence, codes: Bits, trials: Trials, vectors: NDArray[np.floating[Any]] | None = None
) -> ScoredTrials:
    """Score trials.

    Args:
        evidence: evidence with a calibration.
        codes: codes of the vectors, [N, K].
        trials: pairs of rows of these codes.
        vectors: the vectors of these codes, [N, D], whose cosines are measured for comparison.

    Raises:
        ValueError: there is no calibration.
    """
    blocks = [trials.rows[first : first + _NUM_PAIRS].T for first in range(0, len(trials.rows), _NUM_PAIRS)]
    scores = np.concatenate([evidence.pair_scores(codes[one], codes[other]) for one, other in blocks])
    figures = cosines = None
    if trials.is_target is not None:
        target, nontarget = trials.of_kind(True), trials.of_kind(False)
        if vectors is not None:
            rows = trials.rows.T
            cosines = pair_cosines(vectors, rows[:, target]), pair_cosines(vectors, rows[:, nontarget])
        figures = ratio_figures(evidence, scores[target], scores[nontarget], cosines)
    return ScoredTrials(scores, evidence.ratios_of(scores), figures, cosines)


def scores_csv(trials: Trials, scored: ScoredTrials) -> bytes:
    """Return a CSV of the pairs, in order, with the columns enrollment, test, score, llr, and key if it is known."""
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


def contributions_csv(evidence: AttributeEvidence, codes: Bits, trials: Trials) -> Iterator[bytes]:
    """Yield the lines of a CSV of the pairs, in order: enrollment, test, attribute_0 and so on.

    An attribute's contribution is the natural logarithm of its likelihood ratio; those of a pair add up to its score.

    Args:
        evidence: evidence of the codes.
        codes: codes of the vectors, [N, K].
        trials: pairs of rows of these codes.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    num = codes.shape[1]
    writer.writerow(["enrollment", "test", *(f"attribute_{k}" for k in range(num))])
    texts = np.array([f"{value:.9g}" for value in evidence.log_ratios.ravel().tolist()], object).reshape(num, 2, 2)
    for ids, (one, other) in zip(trials.ids, trials.rows.tolist(), strict=True):
        writer.writerow([*ids, *texts[np.arange(num), codes[one].astype(int), codes[other].astype(int)]])
        if text.tell() > _NUM_CHARS:
            yield text.getvalue().encode()
            text.seek(0)
            text.truncate()
    yield text.getvalue().encode()


def _find(path: Path, header: list[str]) -> list[int]:
    """Return the indices of the columns of the enrolment, of the test, and of the key if there is one."""
    got = f"got the columns {shown_columns(header)}" if header else "got an empty file"
    enrolment = [name for name in _ENROLMENT if name in header]
    if len(enrolment) != 1 or "test" not in header:
        raise VectorsError(f"{path}: line 1: expected the columns enrollment and test of ids, {got}")
    return [header.index(name) for name in (enrolment[0], "test", "key") if name in header]
