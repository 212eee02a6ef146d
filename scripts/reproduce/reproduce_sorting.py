#!/usr/bin/env python3
"""The sorting experiment. Small, at 500 and 1,000 symbols: no memory, xl_cache, xl_cache + continuous_ltm (even and
sticky samples), and at the last length compressive (rates 2, 4 and 8, and 4 without loss). With --lengths 4000, 8000 or 16000
at the paper's own size: the same without "none", and compressive at the ends of the paper's range of rates, with loss and without.

    scripts/reproduce/reproduce_sorting.py [--runs DIR] [--memories NAME ...] [--seeds N] [--jobs N] [--device DEVICE]
                                 [--lengths 500 1000] [--basis N ...] [--table] [--write-docs [PAGE]] [--set KEY=VALUE]

Trains what is not trained yet (a stopped run is resumed, a finished one skipped), evaluates each run on the test split,
compares the memories by `mneme report`, and prints tables; DIR gets runs, results.csv, differences.csv, the pages of the
reports and two figures (Vega-Lite specifications; --write-docs draws them as SVG). --jobs runs go at once, one thread
each. --device trains and evaluates on a GPU, one run at a time. --memories trains some only, the tables show all. --lengths
trains some lengths; --write-docs then keeps what the page has of the others. --basis gives the basis functions of the sweep at
1,000 symbols, and as many samples (seed 1; each a multiple of the two widths). --table trains nothing. A folder of runs that
was copied to another machine goes on there. Needs Python 3.9 and a built build/release.
"""
import statistics
import sys

import experiment_runs as experiment
import experiment_verdicts as verdicts
import figures

RUNS = "runs/sorting"
CONFIGS = experiment.ROOT / "configs/sorting"
MEMORIES = CONFIGS / "memory"
LENGTHS = (500, 1000)  # of sequences, in symbols; compressive and the sweep are at the last
PAPER_RATES = {4000: (2,), 8000: (2, 6), 16000: (2, 12)}  # of compressive, by length: the paper's, or the ends of its range
ALPHABET = 20
CHANCE = sum(1 / left for left in range(1, ALPHABET + 1)) / ALPHABET  # who guesses symbols that the answer does not have yet
BASIS = 130  # and samples, of configs/sorting/memory/small_continuous_ltm.toml
_ERROR = ("memory.tier.1.report_error=true",)
_MASS = ("memory.tier.0.report_mass=true",)


def _memories(size, rates, rates_without_loss):
    """The memories of the files configs/sorting/memory/<size>*.toml."""
    def compressive(rate, file, words=""):
        return experiment.Arm(f"compressive, rate {rate}{words}", MEMORIES / f"{size}{file}.toml",
                              (f"memory.tier.0.rate={rate}",), _MASS)

    return (experiment.Arm("xl_cache", MEMORIES / f"{size}xl_cache.toml"),
            experiment.Arm("continuous_ltm", MEMORIES / f"{size}continuous_ltm.toml", eval_settings=_ERROR),
            experiment.Arm("continuous_ltm, sticky", MEMORIES / f"{size}continuous_ltm_sticky.toml", eval_settings=_ERROR),
            *(compressive(rate, "compressive") for rate in rates),
            *(compressive(rate, "compressive_no_loss", ", no loss") for rate in rates_without_loss))


_NONE = experiment.Arm("none", experiment.ROOT / "configs/memory/none.toml")
# {length: {name: memory}}
ARMS = {length: {arm.name: arm for arm in arms} for length, arms in (
    (LENGTHS[0], (_NONE, *_memories("small_", (), ()))),
    (LENGTHS[1], (_NONE, *_memories("small_", (2, 4, 8), (4,)))),
    *((length, _memories("", rates, rates)) for length, rates in PAPER_RATES.items()))}
NAMES = list(dict.fromkeys(name for arms in ARMS.values() for name in arms))
RATES = tuple(f"compressive, rate {rate}" for rate in (2, 4, 8, 6, 12))
NO_LOSS = tuple(f"compressive, rate {rate}, no loss" for rate in (4, 2, 6, 12))
# Those at a length have the memories of that length.
FAMILIES = (verdicts.Family("none", ("xl_cache",)),
            verdicts.Family("xl_cache", ("continuous_ltm", "continuous_ltm, sticky", *RATES, *NO_LOSS)),
            verdicts.Family("continuous_ltm", ("continuous_ltm, sticky", *RATES)),
            verdicts.Family("compressive, rate 2", RATES[1:]),
            *(verdicts.Family(name, (name.removesuffix(", no loss"),)) for name in NO_LOSS))


def make_run(options, length, name, seed, basis=None):
    arm = ARMS[length][name]
    sweep = tuple(f"memory.tier.1.{key}={basis}" for key in ("basis", "samples")) if basis else ()
    file_name = f"{length}_{arm.file_name}" + (f"_basis{basis}" if basis else "") + f"-seed{seed}"
    settings = (*sweep, *options.set)
    size = "" if length in PAPER_RATES else "small_"
    return experiment.Run(options.runs, file_name, CONFIGS / f"{size}{length}.toml", arm, seed, settings)


def make_runs(options):
    """{(length, memory, basis or "", seed): run}, in the order of training."""
    keys = [(length, name, "", seed) for seed in range(1, options.seeds + 1) for length in options.lengths
            for name in ARMS[length]]
    # The sweep's 130 functions are those of the comparison.
    if LENGTHS[-1] in options.lengths:
        keys += [(LENGTHS[-1], "continuous_ltm", basis, 1) for basis in options.basis if basis != BASIS]
    return {key: make_run(options, key[0], key[1], key[3], key[2]) for key in keys}


def row(key, run):
    result = run.result()
    return {"length": key[0], "memory": key[1], "basis": key[2], "seed": key[3], "accuracy": result["accuracy"],
            "loss": result["loss"], "regression_error": run.metric("regression_error"),
            "mass_compressed": run.metric("mass_compressed"), "train_seconds": run.train_seconds(),
            "commit": run.commit()}


def compare(options, runs):
    """The rows of differences.csv, length by length."""
    out = []
    for length in options.lengths:
        at_length = {(name, seed): run for (of, name, basis, seed), run in runs.items() if of == length and not basis}
        names = {name for name, _ in at_length}
        families = [family.of(names.__contains__) for family in FAMILIES if family.baseline in names]
        out += verdicts.compare([family for family in families if family.memories], at_length, options.runs / "reports",
                                "accuracy", group_of(length))
    return out


def group_of(length):
    return f"{length} symbols"


def lengths_of(rows):
    return sorted({int(row["length"]) for row in rows})


def sweep_of(rows):
    """The sweep's rows at the last length with the one of the comparison that belongs to it, by number of functions."""
    arm = experiment.pick(rows, length=LENGTHS[-1], memory="continuous_ltm", seed=1)
    return sorted(arm, key=lambda r: int(r["basis"] or BASIS))


def accuracy_table(rows):
    lengths = lengths_of(rows)

    def cell(name, length):
        if name not in ARMS[length]:
            return "-"
        return experiment.spread(experiment.pick(rows, memory=name, length=length, basis=""), "accuracy")

    lines = [[name, *(cell(name, length) for length in lengths)] for name in NAMES
             if any(name in ARMS[length] for length in lengths)]
    return experiment.table(["memory", *(f"{length} symbols" for length in lengths)], lines)


def sweep_table(rows):
    lines = [[r["basis"] or BASIS, f"{float(r['accuracy']):.3f}", f"{float(r['regression_error']):.3f}"]
             for r in sweep_of(rows)]
    return experiment.table(["N = M", "accuracy", "regression error"], lines)


def section(rows, differences):
    """The results as Markdown, from the rows of results.csv and differences.csv."""
    title = ("Answer tokens predicted right, test split, mean +- standard deviation over seeds (number of seeds); "
             f"chance is {CHANCE:.3f}:")
    out = [title, accuracy_table(rows), sizes(rows), experiment.commits(experiment.pick(rows, basis="")),
           verdicts.section(differences), untested(rows, differences)]
    if len(sweep_of(rows)) > 1:
        out += [f"continuous_ltm at {LENGTHS[-1]} symbols, seed 1, by number of basis functions and of samples, N = M "
                "(one seed, not tested):",
                sweep_table(rows), experiment.commits(sweep_of(rows))]
    return "\n\n".join(part for part in out if part)


def sizes(rows):
    """Which lengths have the paper's own size; "" when none has."""
    lengths = [length for length in lengths_of(rows) if length in PAPER_RATES]
    return f"At {' and '.join(map(group_of, lengths))} everything has the paper's own size." if lengths else ""


def untested(rows, differences):
    """Which lengths have runs without stored losses, where others have them; "" when there are none."""
    tested = {row["group"] for row in differences}
    lengths = [length for length in lengths_of(rows) if group_of(length) not in tested]
    if not tested or not lengths:
        return ""
    return (f"**No intervals at {' and '.join(map(group_of, lengths))}.** Those runs were trained before runs kept the loss of every "
            "target: their numbers are means over seeds, which say what the runs gave, and not which memory is better.")


def with_other_lengths(page, rows, differences, lengths):
    """Rows and differences with those that the page has of other lengths than these."""
    folder = page.parent / "figures"
    old = experiment.read_rows(folder / "sorting.csv") if (folder / "sorting.csv").exists() else []
    rows = [row for row in old if int(row["length"]) not in lengths] + rows
    groups = set(map(group_of, lengths))
    kept = [row for row in verdicts.read(folder / "sorting_differences.csv") if row["group"] not in groups]
    return (sorted(rows, key=lambda row: (bool(row["basis"]), int(row["seed"]), int(row["length"]))),
            sorted(kept + differences, key=lambda row: int(row["group"].split()[0])))


def docs_section(rows, differences):
    pictures = ["![Accuracy against length](figures/sorting_accuracy.svg)"]
    if len(sweep_of(rows)) > 1:
        pictures.append("![Accuracy against regression error](figures/sorting_regression_error.svg)")
    if sizes(rows):
        pictures.append("![Accuracy against length at the paper's size](figures/sorting_paper_accuracy.svg)")
    numbers = "Every run: [figures/sorting.csv](figures/sorting.csv) (`train_seconds` is wall-clock time)"
    return "\n\n".join([section(rows, differences), "\n".join(pictures), numbers + verdicts.link("sorting", differences) + "."])


def write_figures(rows, folder):
    """Writes the specifications."""
    def mean(name, length):
        got = experiment.pick(rows, memory=name, length=length, basis="")
        return [(length, statistics.mean(float(r["accuracy"]) for r in got))] if got else []

    def accuracy(file, title, lengths):
        series = {name: [point for length in lengths for point in mean(name, length)] for name in NAMES}
        figures.write(folder / file, figures.lines(title, "length of the sequence, symbols",
                                                   "share of answer tokens that are right", series))

    accuracy("accuracy.vl.json", "Sorting: accuracy against length, mean over seeds", LENGTHS)
    if sizes(rows):
        accuracy("paper_accuracy.vl.json", "Sorting at the paper's size: accuracy against length, mean over seeds", PAPER_RATES)
    sweep = [(float(r["regression_error"]), float(r["accuracy"])) for r in sweep_of(rows)]
    figures.write(folder / "regression_error.vl.json",
                  figures.lines("Sorting: accuracy against regression error", "relative error of the regression",
                                "share of answer tokens that are right", {"continuous_ltm": sweep}))


def write_docs(page, rows, differences, runs):
    folder = page.parent / "figures"
    folder.mkdir(exist_ok=True)
    experiment.write_rows(folder / "sorting.csv", rows)
    verdicts.write(folder / "sorting_differences.csv", differences)
    for name in ("accuracy", "regression_error", "paper_accuracy"):
        if (runs / f"{name}.vl.json").exists():
            figures.draw(runs / f"{name}.vl.json", folder / f"sorting_{name}.svg")
    experiment.write_section(page, "sorting", docs_section(rows, differences))


def main():
    parser = experiment.arguments(__doc__, RUNS, NAMES)
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, metavar="N")
    parser.add_argument("--basis", type=int, nargs="*", default=[16, 32, 64, 130, 260], metavar="N")
    options = parser.parse_args()
    for length in options.lengths:
        if length not in ARMS:
            parser.error(f"--lengths: expected some of {', '.join(map(str, ARMS))}; got {length}")
    experiment.check(parser, options, RUNS)
    runs = make_runs(options)
    try:
        rows = experiment.finished_rows(options, runs, row)
        differences = verdicts.write(options.runs / "differences.csv", compare(options, runs))
        if options.write_docs:
            rows, differences = with_other_lengths(options.write_docs, rows, differences, options.lengths)
        print("\n" + section(rows, differences))
        write_figures(rows, options.runs)
        if options.write_docs:
            write_docs(options.write_docs, rows, differences, options.runs)
    except experiment.Failure as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
