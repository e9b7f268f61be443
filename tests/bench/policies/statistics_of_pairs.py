"""Medians, and what repeated measurements say of a ratio."""

import math
import random
import statistics


def spread(values):
    """(max - min) / median, as a share."""
    return (max(values) - min(values)) / statistics.median(values)


def lower_bound(ratios, confidence=0.95, draws=4000):
    """The one-sided bound of the geometric mean of `ratios` that resampling
    them leaves below with a probability of 1 - confidence. Equal ratios give
    equal bounds."""
    chance = random.Random(1)
    logs = [math.log(ratio) for ratio in ratios]
    means = sorted(statistics.fmean(chance.choices(logs, k=len(logs)))
                   for _ in range(draws))
    return math.exp(means[int((1 - confidence) * draws)])


def geometric_mean(ratios):
    return math.exp(statistics.fmean(map(math.log, ratios)))
