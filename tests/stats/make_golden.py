"""Writes tests/stats/golden.json: what scipy, numpy, statsmodels and rliable compute for the functions of host/stats.

    python3 -m venv /tmp/stats && /tmp/stats/bin/pip install numpy scipy statsmodels rliable "pandas<3"
    /tmp/stats/bin/python tests/stats/make_golden.py > tests/stats/golden.json

The tests read the file and need none of these packages. Nothing here follows the code of host/stats: variances
come from mean squares, delete-one fits or least squares, p values from scipy's permutation test.
"""

import importlib.metadata
import itertools
import json
import sys

import numpy as np
import scipy
import statsmodels
from rliable import library, metrics
from scipy import optimize, signal, stats
from statsmodels.stats.multitest import multipletests

rng = np.random.default_rng(20240611)


def rounded(values, digits=6):
    return np.round(values, digits)


def quantiles():
    normal = [[p, stats.norm.ppf(p)] for p in (0.001, 0.025, 0.3, 0.5, 0.8, 0.975, 0.9999)]
    t = [[p, f, stats.t.ppf(p, f)] for p in (0.6, 0.9, 0.975, 0.9995) for f in (1, 2, 3.7, 19, 199, 5000)]
    chi_squared = [[p, f, stats.chi2.ppf(p, f)] for p in (0.005, 0.5, 0.95) for f in (1, 2, 5, 17)]
    return {"normal": normal, "t": t, "chi_squared": chi_squared}


def power(shift, degrees, critical):
    # nct.cdf(-critical) is nan for some shifts; the lower tail is the upper one of the mirrored distribution.
    return stats.nct.sf(critical, degrees, shift) + stats.nct.sf(critical, degrees, -shift)


def powers():
    rows = []
    for degrees in (3, 19, 59, 199):
        critical = stats.t.ppf(0.975, degrees)
        rows += [[shift, degrees, critical, power(shift, degrees, critical)] for shift in (0.5, 2, 3.5)]
    shifts = []
    for degrees in (3, 19, 59, 199):
        critical = stats.t.ppf(0.975, degrees)
        root = optimize.brentq(lambda s: power(s, degrees, critical) - 0.8, 1, 6, xtol=1e-13)
        shifts.append([0.8, degrees, critical, root])
    return {"power": rows, "shift": shifts}


def holm():
    families = [[0.01, 0.04, 0.03], [0.2], [0.001, 0.001, 0.9, 0.02, 0.5], [0.04, 0.04, 0.04], [1.0, 0.0, 0.3]]
    return [{"p": p, "adjusted": multipletests(p, method="holm")[1].tolist()} for p in families]


def mean_squares(sums, n):
    """Parts of the variance of the mean for units of n targets each: crossed two-way analysis of variance."""
    y = sums / n
    s, j = y.shape
    rows, columns, mean = y.mean(1, keepdims=True), y.mean(0, keepdims=True), y.mean()
    ms_seeds = j * ((rows - mean) ** 2).sum() / (s - 1)
    ms_units = s * ((columns - mean) ** 2).sum() / (j - 1)
    ms_rest = ((y - rows - columns + mean) ** 2).sum() / ((s - 1) * (j - 1))
    return mean, [v / (s * j) for v in (ms_seeds, ms_units, ms_rest)]


def cluster_robust(sums, targets):
    """Mean and its HC2 variance by weighted least squares on a constant, each unit one cluster."""
    x = np.sqrt(targets)[:, None]
    y = (sums / targets * np.sqrt(targets))[:, None]
    inverse = np.linalg.inv(x.T @ x)
    hat = x @ inverse @ x.T
    beta = inverse @ x.T @ y
    residual = (y - x @ beta)[:, 0]
    meat = sum(x[j, 0] ** 2 * residual[j] ** 2 / (1 - hat[j, j]) for j in range(len(targets)))
    return beta[0, 0], (inverse @ [[meat]] @ inverse)[0, 0]


def parts(sums, targets):
    s = len(sums)
    mean, units = cluster_robust(sums.mean(0), targets)
    ratios = sums.sum(1) / targets.sum()
    rest = sum(cluster_robust(row - sums.mean(0), targets)[1] for row in sums)
    return mean, [np.var(ratios, ddof=1) / s if s > 1 else 0.0, units, rest / (s * (s - 1)) if s > 1 else 0.0]


def half_width(variance, seeds, units, outside):
    v_seeds, v_units, v_rest = variance
    t_units = stats.t.isf(outside / 2, units - 1)
    if seeds == 1:
        return t_units * np.sqrt(v_units)
    own = max(v_units - v_rest, 0)
    k = 0.8 if seeds == 2 else 1.5
    weight = v_seeds**2 / (v_seeds**2 + (k * own) ** 2)
    t_seeds = stats.t.isf(outside / 2, seeds - 1)
    square = (v_seeds + own) * ((1 - weight) * t_units**2 + weight * t_seeds**2)
    return np.sqrt(max(square, t_units**2 * v_units))


def flipped_t(sums, targets):
    d = sums.mean(0)
    values = []
    for signs in itertools.product((1, -1), repeat=len(targets) - 1):
        mean, variance = cluster_robust(d * np.array((1, *signs)), targets)
        values.append(abs(mean) / np.sqrt(variance))
    return np.array(values)


def p_value(sums, targets, mean, variance):
    """The level at which the mean is outside, with the flips in the place of Student's t."""
    values = flipped_t(sums, targets)
    s, j = sums.shape

    def excess(level):
        threshold = abs(mean) * stats.t.isf(level / 2, j - 1) / half_width(variance, s, j, level)
        return (values >= threshold * (1 - 1e-9)).mean() - level

    return optimize.brentq(excess, 1e-9, 1 - 1e-9, xtol=1e-14)


def bootstrap(sums, targets, draws=400000):
    """Quantiles of bootstrap t values, and the Monte Carlo error of one draw's worth of each."""
    s, j = sums.shape
    residual = sums - np.outer(sums.sum(1) / targets.sum(), targets)
    values = []
    for _ in range(draws // 20000):
        weight = np.stack([np.bincount(r, minlength=s) for r in rng.integers(0, s, (20000, s))]) / s
        unit = rng.integers(0, j, (20000, j))
        e = np.take_along_axis(weight @ residual, unit, 1)
        n = targets[unit]
        shift = e.sum(1) / n.sum(1)
        rest = e - n * shift[:, None]
        error = np.sqrt(j / (j - 1) * (rest**2).sum(1)) / n.sum(1)
        values.append(shift / error)
    values = np.concatenate(values)
    result = []
    for p in (0.025, 0.975):
        q = np.quantile(values, p)
        width = 0.1
        density = np.mean(np.abs(values - q) < width) / (2 * width)
        result.append({"quantile": q, "error_of_one_draw": np.sqrt(p * (1 - p)) / density, "draws": draws})
    return result


def paired_cases():
    cases = []
    for seeds, units, equal in ((1, 11, True), (3, 9, True), (2, 10, False), (5, 12, False), (1, 8, False)):
        targets = np.full(units, 40.0) if equal else np.round(rng.lognormal(5, 0.6, units))
        effect = 0.03 * rng.standard_normal(seeds)[:, None] + 0.1 * rng.standard_exponential(units) - 0.02
        sums = rounded(targets * (effect + 0.05 * rng.standard_normal((seeds, units))))
        mean, variance = parts(sums, targets)
        if equal and seeds > 1:
            other, squares = mean_squares(sums, 40.0)
            assert np.isclose(mean, other, rtol=1e-12) and np.allclose(variance, squares, rtol=1e-10)
        case = {"sums": sums.tolist(), "targets": targets.tolist(), "mean": mean, "variance": variance,
                "half_width": half_width(variance, seeds, units, 0.05), "bootstrap": bootstrap(sums, targets)}
        if seeds == 1:
            test = stats.permutation_test(
                (sums[0],), lambda d: abs(cluster_robust(d, targets)[0]) / np.sqrt(cluster_robust(d, targets)[1]),
                permutation_type="samples", alternative="greater", n_resamples=np.inf)
            case["p"] = test.pvalue
        else:
            case["p"] = p_value(sums, targets, mean, variance)
        cases.append(case)
    return cases


def blocks():
    """Autocorrelations of block means of two lanes."""
    noise = rng.standard_normal((2, 1024))
    lanes = rounded(signal.lfilter([1], [1, -0.8], noise, axis=1), 4)
    rows = []
    for length in (1, 4, 16, 64):
        means = lanes.reshape(2, -1, length).mean(2)
        centred = means - means.mean()
        pairs = centred[:, 1:] * centred[:, :-1]
        rows.append({"length": length, "pairs": pairs.size,
                     "autocorrelation": pairs.mean() / (centred**2).mean() + 1 / means.size})
    return {"lanes": lanes.tolist(), "rows": rows}


def aggregates():
    """Three memories with five seeds of six tasks: 30 scores, of which a quarter is no whole number."""
    own = np.random.default_rng(20211001)
    scores = rounded(np.clip(0.2 + 0.15 * np.arange(3)[:, None, None] + 0.3 * own.random((1, 1, 6))
                             + 0.2 * own.standard_normal((3, 5, 6)), -0.1, 1.1), 2)  # [memory, seed, task]; has ties
    scores[1, :, 2] = scores[0, :, 2]
    thresholds = np.linspace(0, 1, 11)
    np.random.seed(1)
    cases = []
    for one in scores:
        numbers = lambda x: np.array([metrics.aggregate_iqm(x), metrics.aggregate_mean(x), metrics.aggregate_median(x),
                                      metrics.aggregate_optimality_gap(x)])
        point, interval = library.get_interval_estimates({"": one}, numbers, reps=20000)
        profile, band = library.create_performance_profile({"": one}, thresholds, reps=20000)
        better, around = library.get_interval_estimates(
            {"": [one, scores[0]]}, lambda x, y: np.array([metrics.probability_of_improvement(x, y)]), reps=2000)
        cases.append({"scores": one.T.tolist(), "numbers": point[""].tolist(), "intervals": interval[""].T.tolist(),
                      "profile": profile[""].tolist(), "bands": band[""].T.tolist(),
                      "improvement": better[""][0], "improvement_interval": around[""][:, 0].tolist()})
    return {"thresholds": thresholds.tolist(), "memories": cases}


json.dump({"made_with": {"numpy": np.__version__, "scipy": scipy.__version__, "statsmodels": statsmodels.__version__,
                         "rliable": importlib.metadata.version("rliable")},
           "quantiles": quantiles(), "powers": powers(), "holm": holm(), "paired": paired_cases(), "blocks": blocks(),
           "aggregates": aggregates()},
          sys.stdout, indent=None, separators=(", ", ": "), default=float)
print()
