"""Coverage of the half width of docs/statistics.md, "Interval", by numerical integration: units' variance known.

    /tmp/stats/bin/python tests/stats/interval_coverage.py      (numpy and scipy, as for make_golden.py)

Prints for each number of seeds and level the smallest and largest coverage over the seeds' share of the variance,
with the weights of host/stats (k = 0.8 for two seeds, else 1.5) and with Cochran's.
"""

import numpy as np
from scipy import stats


def coverage(seeds, level, ratio, weight):
    """ratio: the seeds' part of the variance over the units', which is 1."""
    f = seeds - 1
    v_seeds = ratio * stats.chi2.ppf((np.arange(4000) + 0.5) / 4000, f) / f
    w = weight(v_seeds, f)
    z, t = stats.norm.ppf(0.5 + level / 2), stats.t.ppf(0.5 + level / 2, f)
    h = np.sqrt((v_seeds + 1) * ((1 - w) * z**2 + w * t**2))
    return 100 * np.mean(2 * stats.norm.cdf(h / np.sqrt(1 + ratio)) - 1)


def ours(v, f):
    return v**2 / (v**2 + (0.8 if f == 1 else 1.5) ** 2)


def cochran(v, f):
    return v / (v + 1)


ratios = np.concatenate([[1e-9], np.geomspace(0.01, 1e4, 61)])
for level in (0.95, 0.99):
    for seeds in (2, 3, 4, 5, 10):
        ranges = []
        for weight in (ours, cochran):
            values = [coverage(seeds, level, ratio, weight) for ratio in ratios]
            ranges.append(f"{min(values):.1f} to {max(values):.1f}")
        print(f"level {level:.2f}, {seeds:2d} seeds: {ranges[0]} %, Cochran's weights {ranges[1]} %", flush=True)
