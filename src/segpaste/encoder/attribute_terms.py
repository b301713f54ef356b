"""Typicality, drop-out and drop-in of attributes: the terms of BA-LR, measured on codes.

In speaker verification a class is a speaker, and a sample an utterance. The terms are those of Ben-Amor and Bonastre,
"BA-LR: Binary-Attribute-based Likelihood Ratio estimation for explainable speaker verification" (Odyssey 2022), who
took them from the interpretation of DNA profiles. The definitions are those of `AttributeTerms`; they were not compared
with the formulas of that paper, which was not at hand.

They describe attributes and do not enter a score. `segpaste.encoder.AttributeEvidence` counts pairs instead, and needs
no decision whether a class has an attribute. The two agree: if every sample of a class has attributes independently of
the other samples, with probability 1 - d if the class has the attribute and i if it does not, then

    P(both | one class)    = f (1 - d)^2 + (1 - f) i^2
    P(both | two classes)  = t (1 - d)^2 + 2 (f - t) (1 - d) i + (1 - 2 f + t) i^2

with the share of classes f, the typicality t, drop-out d and drop-in i of that attribute. Without drop-in their ratio
is f / t, hence a rare attribute is strong evidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from segpaste.encoder.codes import Bits, attribute_shares
from segpaste.encoder.evidence import AttributeEvidence

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AttributeTerms:
    """How common and how stable each attribute is; create it with `of`.

    A class has an attribute if more than a given share of its samples have it. All classes have the same weight.

    Attributes:
        class_frac: share of classes that have the attribute, [K].
        typicality: share of pairs of different classes that both have the attribute, [K].
        dropout: share of samples without the attribute in a class that has it, mean over these classes, [K]; NaN if no
            class has it.
        dropin: share of samples with the attribute in a class that does not have it, mean over these classes, [K]; NaN
            if all classes have it.
    """

    class_frac: Numbers
    typicality: Numbers
    dropout: Numbers
    dropin: Numbers

    @classmethod
    def of(cls, codes: Bits, labels: NDArray[np.int64], profile_share: float = 0.5) -> AttributeTerms:
        """Measure the terms.

        Args:
            codes: codes of the samples, [N, K].
            labels: class of each sample, [N].
            profile_share: share of samples that a class must exceed to have an attribute, at least 0 and below 1. With
                0 one sample suffices, so there is no drop-in.

        Raises:
            ValueError: there are fewer than two classes, or the share is out of range.
        """
        if not 0 <= profile_share < 1:
            raise ValueError(f"AttributeTerms: expected 0 <= profile_share < 1, got {profile_share}")
        _, class_ids = np.unique(labels, return_inverse=True)
        num_classes = int(class_ids.max(initial=-1)) + 1
        if num_classes < 2:
            raise ValueError(f"AttributeTerms: expected at least two classes, got {num_classes}")
        share = attribute_shares(codes, class_ids, num_classes)
        has = share > profile_share
        num = has.sum(0)
        with np.errstate(invalid="ignore"):
            dropout = np.where(has, 1 - share, 0).sum(0) / num
            dropin = np.where(has, 0, share).sum(0) / (num_classes - num)
        return cls(num / num_classes, num * (num - 1) / (num_classes * (num_classes - 1)), dropout, dropin)


def attribute_columns(evidence: AttributeEvidence, codes: Bits, labels: NDArray[np.int64]) -> Mapping[str, Numbers]:
    """Return a table of attributes, [K] for each column: the terms, and the log ratios of a pair of samples.

    Args:
        evidence: evidence of the codes.
        codes: codes of the samples, [N, K].
        labels: class of each sample, [N].

    Raises:
        ValueError: there are fewer than two classes.
    """
    terms, ratios = AttributeTerms.of(codes, labels), evidence.log_ratios
    return {
        "share": evidence.shares,
        **{name: getattr(terms, name) for name in ("class_frac", "typicality", "dropout", "dropin")},
        "score_both": ratios[:, 1, 1],
        "score_one": ratios[:, 0, 1],
        "score_neither": ratios[:, 0, 0],
    }


def columns_csv(columns: Mapping[str, Numbers]) -> bytes:
    """Return a CSV of a table of attributes, a line for each, by number; a value that is not defined is empty."""
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    lines = [",".join(["attribute", *columns])]
    for number, row in enumerate(rows):
        lines.append(",".join([str(number), *("" if value != value else f"{value:.9g}" for value in row)]))
    return "".join(f"{line}\n" for line in lines).encode()
