"""The corrected resampled t test: an interval and a test for differences on splits that overlap.

Splits of the same images share held-out images, so their differences are correlated. The spread of the differences
alone then says too little about the variance of their mean. Nadeau and Bengio, "Inference for the Generalization
Error", Machine Learning 52, 2003, estimate that variance from N differences with sample variance S^2 as

    (1 / N + rho / (1 - rho)) S^2

where rho is the correlation between splits. They set rho to the fraction of the images that is held out, as if any
image could be held out. `segpaste.tuning.splits` holds out images of a pool only, and those of rare classes more often.
Therefore rho is computed from the held-out images themselves; docs/decisions/tuning.md derives it.

The model: the score of a split is a mean over held-out images, the effects of pasting on the images are independent
draws from one population, and each run adds independent noise. Noise of the runs lowers the correlation, which makes
the test conservative. The choice of training images is not part of the model: the runs share most of them. In a mean
over classes, the model is that the effects vary equally in all classes; see `HIGHEST_CORRELATION`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from segpaste.tuning.statistics import Interval, checked

HIGHEST_CORRELATION = 0.9
"""Above it, splits say too little about other images: they have no interval, and a class leaves the mean that decides.

The spread between splits hides the variance of a class in (nearly) the same images, but the mean has all of it. The
other classes cannot show how large it is, because its effects may vary more than theirs. A class with 7 of 8 splits on
one image and one on another has a correlation of 0.75, and 0.86 is the highest that `--held-out 0.4` gives to a class
in all images.
"""


def image_weights(scored: Sequence[Sequence[Sequence[int]]]) -> NDArray[np.float64]:
    """Return the weight of each image in the score of each split [N, images].

    Args:
        scored: for each split, the images of each class. The score of a split is the mean over its classes, and the
            score of a class the mean over its images.
    """
    num = 1 + max(max(images) for classes in scored for images in classes)
    weights = np.zeros((len(scored), num))
    for row, classes in zip(weights, scored, strict=True):
        for images in classes:
            row[list(images)] += 1 / (len(images) * len(classes))
    return weights


def correlation(weights: NDArray[np.float64]) -> float:
    """Return the correlation between splits, 1 if all score the same images or there is only one.

    Args:
        weights: weight of each image in the score of each split [N, images], see `image_weights`.
    """
    if len(weights) == 1:
        return 1.0
    products = weights @ weights.T
    own = products.trace()
    return float((products.sum() - own) / (len(weights) - 1) / own)


def resampled_t(differences: ArrayLike, weights: NDArray[np.float64], *, level: float = 0.95) -> tuple[Interval, float]:
    """Return the mean of differences [N] with its interval, and the two-sided p value of the test.

    In the model, the covariance of splits s and t is proportional to the dot product of their weights w_s and w_t. So
    rho is the mean product of two different splits, relative to that of a split with itself.

    The sample variance has fewer than N - 1 degrees of freedom, because it also varies with the images in the pool.
    Their number is the approximation of Satterthwaite, "An Approximate Distribution of Estimates of Variance
    Components", Biometrics Bulletin 2(6), 1946, rounded down.

    Above `HIGHEST_CORRELATION`, the interval is infinite, and the p value 1.

    Args:
        differences: difference of each split.
        weights: weight of each image in the score of each split [N, images], see `image_weights`.
        level: probability that the interval contains the mean of the population.

    Raises:
        ValueError: there are no differences, or not a row of weights for each.
    """
    values = checked(differences)
    if len(weights) != len(values):
        raise ValueError(f"expected a row of weights for each of {len(values)} differences, got {len(weights)}")
    mean, rho = float(values.mean()), correlation(weights)
    if rho > HIGHEST_CORRELATION:
        return Interval(mean, -math.inf, math.inf), 1.0
    factor = 1 / len(values) + rho / (1 - rho)
    own = weights - weights.mean(0)
    products = own @ own.T
    freedom = max(1, int(products.trace() ** 2 / (products**2).sum() + 1e-9))
    error = math.sqrt(factor * values.var(ddof=1))
    half = t_quantile(level, freedom) * error
    size = abs(mean) / error if error else math.inf if mean else 0.0
    return Interval(mean, mean - half, mean + half), 1 - t_within(size, freedom)


def t_within(size: float, freedom: int) -> float:
    """Return the probability that Student's t is between -size and size.

    After Abramowitz and Stegun, "Handbook of Mathematical Functions", 1964, 26.7.3 and 26.7.4.

    Args:
        size: at least 0.
        freedom: degrees of freedom, at least 1.
    """
    angle = math.atan(size / math.sqrt(freedom))
    is_odd = freedom % 2
    term, total = (math.cos(angle), 0.0) if is_odd else (1.0, 0.0)
    for k in range(2 + is_odd, freedom + 1, 2):
        total += term
        term *= math.cos(angle) ** 2 * (k - 1) / k
    inside = 2 / math.pi * (angle + math.sin(angle) * total) if is_odd else math.sin(angle) * total
    return min(1.0, inside)


@cache
def t_quantile(level: float, freedom: int) -> float:
    """Return the size that Student's t stays within with a probability, by bisection.

    Args:
        level: the probability, below 1.
        freedom: degrees of freedom, at least 1.
    """
    low, high = 0.0, 1.0
    while t_within(high, freedom) < level:
        high *= 2
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (low, middle) if t_within(middle, freedom) >= level else (middle, high)
    return high
