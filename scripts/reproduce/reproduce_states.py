#!/usr/bin/env python3
"""Parity beyond the training length (configs/suite/parity.toml): no memory, a cache of all symbols, and layers without attention.
Each is trained on sequences of 32 symbols and evaluated on the first 255 symbols of the test split's sequences.

    scripts/reproduce/reproduce_states.py [--runs DIR] [--memories NAME ...] [--seeds N] [--jobs N] [--device DEVICE]
                                 [--table] [--write-docs [PAGE]] [--set KEY=VALUE]

Trains what is not trained yet (a stopped run is resumed, a finished one skipped), evaluates each run, and prints a table of the
accuracy by the number of symbols; DIR gets runs and results.csv. --jobs runs go at once, one thread each.
--memories trains some only, the table shows all. --table trains nothing. --write-docs puts the table into docs/tasks.md, or into
PAGE. Needs Python 3.9 and a built build/release.
"""
import shutil
import sys

import experiment_runs as experiment

RUNS = "runs/states"
PAGE = experiment.ROOT / "docs/tasks.md"
SECTION = "states"
CONFIG = experiment.ROOT / "configs/suite/parity.toml"
MEMORIES = experiment.ROOT / "configs/suite/memory"
TRAINED = 32  # symbols of a sequence that is trained
PARTS = ("1-31", "32-63", "64-127", "128-255")  # of a sequence: the number of symbols of which a target is the state
_ONLY_POSITIVE = ("memory.tier.0.negative_eigenvalues=false",)
_NEGATIVE = ("memory.tier.0.negative_eigenvalues=true",)
_SLOW = ("memory.tier.0.gate_divisor=1000",)  # linear attention that hardly forgets: a token leaves .9993 of a state at the start
ARMS = {arm.name: arm for arm in (
    experiment.Arm("none", experiment.ROOT / "configs/memory/none.toml"),
    experiment.Arm("xl_cache", MEMORIES / "xl_cache.toml", ("memory.tier.0.rows=256",)),
    experiment.Arm("gla", MEMORIES / "gla.toml"),
    experiment.Arm("gla, slow decay", MEMORIES / "gla.toml", _SLOW),
    experiment.Arm("mamba2", MEMORIES / "mamba2.toml"),
    experiment.Arm("gated_deltanet", MEMORIES / "gated_deltanet.toml", _ONLY_POSITIVE),
    experiment.Arm("kda", MEMORIES / "kda.toml", _ONLY_POSITIVE),
    experiment.Arm("gated_deltanet, negative", MEMORIES / "gated_deltanet.toml", _NEGATIVE),
    experiment.Arm("kda, negative", MEMORIES / "kda.toml", _NEGATIVE))}


class Run(experiment.Run):
    """A training, and its evaluation at the longest length."""

    def execute(self):
        experiment.call([*self.command(), *experiment.PLACE, "--quiet"])
        self.keep(self._evaluate("part", ("--set", f"data.length={8 * TRAINED - 1}", "--breakdown", "--no-store")))


def make_runs(options):
    """{(memory, seed): run}, in the order of training."""
    return {(name, seed): Run(options.runs, f"{arm.file_name}-seed{seed}", CONFIG, arm, seed, tuple(options.set))
            for seed in range(1, options.seeds + 1) for name, arm in ARMS.items()}


def accuracies(evaluation):
    """{part: accuracy of its targets}."""
    by_distance = evaluation["breakdown"]["distance"]
    counts = dict.fromkeys(PARTS, (0, 0))
    for name, tokens, correct in zip(*(by_distance[key] for key in ("name", "tokens", "correct"))):
        part = name if name in PARTS else PARTS[0]
        counts[part] = (counts[part][0] + tokens, counts[part][1] + correct)
    return {part: correct / tokens for part, (tokens, correct) in counts.items()}


def row(key, run):
    return {"memory": key[0], "seed": key[1], **accuracies(run.evaluation()), "train_seconds": run.train_seconds(),
            "commit": run.commit()}


def cell(values):
    """Mean [95 % interval of the mean over seeds], within what an accuracy may be."""
    mean, half = experiment.interval(values)
    if len(values) < 2:
        return f"{mean:.3f}"
    return f"{mean:.3f} \\[{max(mean - half, 0):.3f}, {min(mean + half, 1):.3f}\\]"


def section(rows):
    """The results as Markdown, from the rows of results.csv."""
    lines = []
    for name in ARMS:
        got = experiment.pick(rows, memory=name)
        if got:
            lines.append([name, *(cell([float(r[part]) for r in got]) for part in PARTS), len(got)])
    table = experiment.table(["memory", *(f"{part} symbols" for part in PARTS), "seeds"], lines)
    minutes = sum(float(r["train_seconds"] or 0) for r in rows) / 60
    note = (f"Accuracy on the test split, mean over seeds \\[95 % interval of the mean over seeds\\]; trained on {TRAINED} symbols, chance is .5. "
            f"{len(rows)} trainings, {minutes:.0f} minutes added up.")
    return "\n\n".join((table, note, experiment.commits(rows)))


def main():
    parser = experiment.arguments(__doc__, RUNS, ARMS, PAGE)
    options = parser.parse_args()
    experiment.check(parser, options, RUNS)
    runs = make_runs(options)
    try:
        rows = experiment.finished_rows(options, runs, row)
        print("\n" + section(rows))
        if options.write_docs:
            page = options.write_docs
            (page.parent / "figures").mkdir(exist_ok=True)
            shutil.copyfile(options.runs / "results.csv", page.parent / "figures/states.csv")
            text = section(rows) + "\n\nEvery run: [figures/states.csv](figures/states.csv) (`train_seconds` is wall-clock time)."
            experiment.write_section(page, SECTION, text)
    except experiment.Failure as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
