#!/usr/bin/env python3
"""The small sorting experiment: no memory, xl_cache, xl_cache + continuous_ltm (even and sticky samples), at two lengths.

    scripts/reproduce_sorting.py [--runs DIR] [--seeds N] [--jobs N] [--lengths 500 1000] [--basis N ...] [--table]

Trains what is not trained yet (a stopped run is resumed, a finished one skipped), evaluates each run on the test split, and
prints a table; DIR gets runs, results.csv and two figures. --jobs runs go at once, one thread
each. --basis gives the basis functions of the sweep at the last length (seed 1; each a multiple of the two widths).
--table trains nothing. Needs Python 3.9 and a built build/release.
"""
import argparse
import concurrent.futures
import csv
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MNEME = ROOT / "build/release/bin/mneme"
CONFIGS = ROOT / "configs/sorting"
ARMS = {
    "none": ROOT / "configs/memory/none.toml",
    "xl_cache": CONFIGS / "memory/small_xl_cache.toml",
    "continuous_ltm": CONFIGS / "memory/small_continuous_ltm.toml",
    "continuous_ltm, sticky": CONFIGS / "memory/small_continuous_ltm_sticky.toml",
}
ALPHABET = 20
BASIS = 130  # of configs/sorting/memory/small_continuous_ltm.toml


class Run:
    """One training: a length, a memory, a seed, and for the sweep a number of basis functions."""

    def __init__(self, runs, length, arm, seed, basis=None):
        self.length, self.arm, self.seed, self.basis = length, arm, seed, basis
        name = f"{length}_{arm.replace(', ', '_')}_{seed}" + (f"_basis{basis}" if basis else "")
        self.folder = runs / name
        self.result = runs / (name + ".json")

    @property
    def is_done(self):
        return self.result.exists()

    def command(self):
        if (self.folder / "experiment.toml").exists():
            return ["train", "--resume", self.folder]
        options = ["--set", f"train.seed={self.seed}"]
        if self.basis:
            for key in ("basis", "samples"):
                options += ["--set", f"memory.tier.1.{key}={self.basis}"]
        return ["train", CONFIGS / f"small_{self.length}.toml", "--memory", ARMS[self.arm], "--run", self.folder, *options]

    def execute(self):
        call([*self.command(), "--threads", "1", "--quiet"])
        options = ["--set", "memory.tier.1.report_error=true"] if self.arm.startswith("continuous") else []
        unfinished = self.result.with_suffix(".part")
        call(["eval", self.folder, "--split", "test", "--threads", "1", "--quiet", "--json", unfinished, *options])
        unfinished.rename(self.result)
        print(f"{self.folder.name}: accuracy {self.accuracy():.4f}", flush=True)

    def memory(self):
        return json.loads(self.result.read_text())["memories"][0]["result"]

    def accuracy(self):
        return self.memory()["accuracy"]

    def regression_error(self):
        return next((v for k, v in self.memory().get("metrics", {}).items() if k.endswith("regression_error")), None)


def call(arguments):
    done = subprocess.run([str(MNEME), *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"mneme {' '.join(map(str, arguments))} ended with {done.returncode}:\n{done.stderr.strip()}")


def train(runs, jobs):
    waiting = [run for run in runs if not run.is_done]
    print(f"{len(runs) - len(waiting)} of {len(runs)} runs are finished", flush=True)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for done in concurrent.futures.as_completed([pool.submit(run.execute) for run in waiting]):
            done.result()


def print_table(runs, lengths):
    print("\nAnswer tokens predicted right, test split, mean +- standard deviation over seeds (chance "
          f"{1 / ALPHABET:.3f}):\n\n| memory | " + " | ".join(f"{n} symbols" for n in lengths) + " |")
    print("|---|" + "---|" * len(lengths))
    for arm in ARMS:
        cells = []
        for length in lengths:
            got = [r.accuracy() for r in runs if (r.length, r.arm, r.basis) == (length, arm, None) and r.is_done]
            spread = f" +- {statistics.stdev(got):.3f}" if len(got) > 1 else ""
            cells.append(f"{statistics.mean(got):.3f}{spread} ({len(got)})" if got else "not run")
        print(f"| {arm} | " + " | ".join(cells) + " |")
    print()
    for length in lengths:
        for better, worse in (("xl_cache", "none"), ("continuous_ltm", "xl_cache"), ("continuous_ltm, sticky", "xl_cache"),
                              ("continuous_ltm, sticky", "continuous_ltm")):
            print_order(runs, length, better, worse)


def print_order(runs, length, better, worse):
    def by_seed(arm):
        return {r.seed: r.accuracy() for r in runs if (r.length, r.arm, r.basis) == (length, arm, None) and r.is_done}

    ahead, behind = by_seed(better), by_seed(worse)
    both = sorted(ahead.keys() & behind.keys())
    if not both:
        return
    differences = [ahead[s] - behind[s] for s in both]
    print(f"{length}: {better} above {worse} in {sum(d > 0 for d in differences)} of {len(both)} seeds, by "
          + ", ".join(f"{d:+.3f}" for d in differences))


def sweep_of(runs, length):
    """The finished runs of the sweep with the one of the comparison that belongs to it, by number of functions."""
    arm = [r for r in runs if (r.length, r.arm, r.seed) == (length, "continuous_ltm", 1) and r.is_done]
    return sorted(arm, key=lambda r: r.basis or BASIS)


def print_sweep(runs, length):
    sweep = sweep_of(runs, length)
    if not sweep:
        return
    print(f"\n{length} symbols, continuous_ltm, seed 1:\n\n| N | accuracy | regression error |\n|---|---|---|")
    for run in sweep:
        print(f"| {run.basis or BASIS} | {run.accuracy():.3f} | {run.regression_error():.3f} |")


def write_csv(runs, path):
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["length", "memory", "basis", "seed", "accuracy", "loss", "regression_error"])
        for r in runs:
            if r.is_done:
                out.writerow([r.length, r.arm, r.basis or "", r.seed, r.accuracy(), r.memory()["loss"], r.regression_error() or ""])


def svg(path, title, x_label, y_label, series):
    """A plain scatter and line plot. series: {name: [(x, y), ...]}."""
    points = [p for line in series.values() for p in line]
    if not points:
        return
    width, height, left, bottom = 520, 340, 60, 50
    x0, x1 = min(p[0] for p in points), max(p[0] for p in points)
    y0, y1 = 0.0, max(p[1] for p in points) * 1.1

    def place(x, y):
        across = (x - x0) / (x1 - x0) if x1 > x0 else 0.5
        return left + across * (width - left - 150), height - bottom - (y - y0) / (y1 - y0) * (height - bottom - 40)

    colours = ["#444444", "#1f77b4", "#d62728", "#2ca02c", "#9467bd"]
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/><text x="{left}" y="22" font-size="14">{title}</text>',
           f'<text x="{left}" y="{height - 12}">{x_label}</text>',
           f'<text x="14" y="{height - bottom}" transform="rotate(-90 14 {height - bottom})">{y_label}</text>']
    for step in range(6):
        y = y0 + (y1 - y0) * step / 5
        _, row = place(x0, y)
        out.append(f'<line x1="{left}" x2="{width - 150}" y1="{row:.1f}" y2="{row:.1f}" stroke="#dddddd"/>'
                   f'<text x="{left - 36}" y="{row + 4:.1f}">{y:.2f}</text>')
    for x in sorted({p[0] for p in points}):
        column, row = place(x, y0)
        out.append(f'<text x="{column - 12:.1f}" y="{row + 18:.1f}">{x:.4g}</text>')
    for i, (name, line) in enumerate(series.items()):
        colour = colours[i % len(colours)]
        places = [place(*p) for p in sorted(line)]
        out.append('<polyline fill="none" stroke="%s" points="%s"/>' % (colour, " ".join(f"{x:.1f},{y:.1f}" for x, y in places)))
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        out.append(f'<text x="{width - 142}" y="{50 + 18 * i}" fill="{colour}">{name}</text>')
    path.write_text("\n".join(out + ["</svg>\n"]), encoding="utf-8")


def draw(runs, lengths, folder):
    means = {}
    for arm in ARMS:
        line = []
        for length in lengths:
            got = [r.accuracy() for r in runs if (r.length, r.arm, r.basis) == (length, arm, None) and r.is_done]
            if got:
                line.append((length, statistics.mean(got)))
        means[arm] = line
    svg(folder / "accuracy.svg", "Sorting: accuracy against length", "symbols", "accuracy", {k: v for k, v in means.items() if v})
    sweep = [(r.regression_error(), r.accuracy()) for r in sweep_of(runs, lengths[-1])]
    svg(folder / "regression_error.svg", "Sorting: accuracy against regression error", "regression error", "accuracy",
        {"continuous_ltm": sweep} if sweep else {})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=pathlib.Path, default=ROOT / "runs/sorting")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--lengths", type=int, nargs="+", default=[500, 1000])
    parser.add_argument("--basis", type=int, nargs="*", default=[16, 32, 64, 130, 260])
    parser.add_argument("--table", action="store_true", help="train nothing")
    options = parser.parse_args()
    for length in options.lengths:
        if not (CONFIGS / f"small_{length}.toml").exists():
            parser.error(f"--lengths: no configs/sorting/small_{length}.toml")
    if not MNEME.exists():
        parser.error("build/release/bin/mneme is not built: run scripts/quickstart.sh or scripts/test.sh")
    options.runs.mkdir(parents=True, exist_ok=True)
    runs = [Run(options.runs, length, arm, seed) for seed in range(1, options.seeds + 1) for length in options.lengths for arm in ARMS]
    # The sweep's 130 functions are those of the comparison.
    runs += [Run(options.runs, options.lengths[-1], "continuous_ltm", 1, n) for n in options.basis if n != BASIS]
    if not options.table:
        try:
            train(runs, options.jobs)
        except RuntimeError as error:
            sys.exit(f"error: {error}")
    print_table(runs, options.lengths)
    print_sweep(runs, options.lengths[-1])
    write_csv(runs, options.runs / "results.csv")
    draw(runs, options.lengths, options.runs)


if __name__ == "__main__":
    main()
