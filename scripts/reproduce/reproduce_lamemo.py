#!/usr/bin/env python3
"""LaMemo's experiment: look-ahead memory, its ablations and Transformer-XL's cache on the words of eleven novels, three
seeds of 2 M tokens each.

    scripts/reproduce/reproduce_lamemo.py [--text DIR] [--books DIR] [--runs DIR] [--memories NAME ...] [--seeds N] [--jobs N]
                                [--table] [--write-docs [PAGE]] [--set KEY=VALUE]

--books is the text as scripts/reproduce/reproduce_text.py prepares it; where it is not there, it is prepared from --text, the
folder of the novels. Trains what is not trained yet (a stopped run is resumed, a finished one skipped; one whose loss
was no longer finite is finished too), evaluates each run on the test split, some with memories of 1 to 10 segments,
analyses the runs of the first seed, compares the memories by `mneme report`, and prints tables; the folder of the
runs gets results.csv, differences.csv, curves.csv, the pages of the reports
and figures (Vega-Lite specifications; --write-docs draws them as SVG). --jobs
runs go at once, one thread each. --memories trains some only, the tables show all. --table trains nothing. Needs
Python 3.9 and a built build/release.
"""
import csv
import dataclasses
import json
import pathlib
import re
import shutil
import statistics
import sys

import experiment_runs as experiment
import experiment_verdicts as verdicts
import figures
import reproduce_text

RUNS = "runs/lamemo"
BOOKS = "runs/text/books"
CONFIGS = experiment.ROOT / "configs/lamemo"
MEMORIES = CONFIGS / "memory"
ARMS = {arm.name: arm for arm in (
    experiment.Arm("none", experiment.ROOT / "configs/memory/none.toml"),
    experiment.Arm("xl_cache", MEMORIES / "books_xl_cache.toml"),
    experiment.Arm("lamemo", MEMORIES / "books.toml"),
    experiment.Arm("lamemo, no interpolation", MEMORIES / "books_no_interpolation.toml"),
    experiment.Arm("lamemo, no look-ahead", MEMORIES / "books_no_lookahead.toml"),
    experiment.Arm("lamemo, XL encoding", MEMORIES / "books_xl_encoding.toml", ("model.position=relative",)),
)}
REFERENCE = "xl_cache"
# Without look-ahead it is xl_cache, number by number: one seed shows it.
SEEDS = {"lamemo, no look-ahead": 1}
ABLATIONS = ("lamemo, no interpolation", "lamemo, XL encoding")
FAMILIES = (verdicts.Family(REFERENCE, ("lamemo", *ABLATIONS)), verdicts.Family("lamemo", ABLATIONS),
            verdicts.Family("none", (REFERENCE, "lamemo", *ABLATIONS)))
EXTRAPOLATED = (REFERENCE, "lamemo", "lamemo, no interpolation")
SEGMENT, MULTIPLES = 64, 10  # memories of 64 m rows beside segments of 64 [LaMemo, fig. 5]
SIZED_SEGMENTS = 100  # of each lane: memory rows pass every layer with each segment, ten times as many at the end
ANALYSES = ("alpha", "distance")
DIVERGED = re.compile(r"step (\d+): .*numbers that are not finite")


@dataclasses.dataclass(frozen=True)
class LookAheadRun(experiment.Run):
    """A run whose loss may become infinite or NaN, and that may be evaluated with memories of several sizes."""

    @property
    def sizes_file(self):
        return self.runs / (self.name + ".sizes.json")

    @property
    def is_done(self):
        return super().is_done and (self.is_sized or not self.wants_sizes)

    @property
    def has_losses(self):
        return self.diverged() == ""

    @property
    def is_sized(self):
        return self.sizes_file.exists()

    @property
    def wants_sizes(self):
        return self.arm.name in EXTRAPOLATED and self.diverged() == ""

    def diverged(self):
        """The step at which the loss was no longer finite; "" when it always was."""
        return json.loads(self.result_file.read_text(encoding="utf-8")).get("diverged", "")

    def execute(self):
        if not self.result_file.exists():
            self._train()
        if self.wants_sizes and not self.is_sized:
            unfinished = self.sizes_file.with_suffix(".part")
            experiment.call(["analyze", "extrapolation", self.folder, "--out", self.runs / (self.name + "_sizes"),
                             "--split", "test", "--segment", SEGMENT, "--multiples", MULTIPLES, "--set",
                             f"eval.steps={SIZED_SEGMENTS}", *experiment.PLACE, "--quiet", "--json", unfinished])
            unfinished.rename(self.sizes_file)
            print(f"{self.name}: memories of {MULTIPLES} sizes", flush=True)

    def _train(self):
        try:
            super().execute()
        except experiment.Failure as error:
            found = DIVERGED.search(str(error))
            if not found:
                raise
            self.result_file.write_text(json.dumps({"diverged": int(found[1])}), encoding="utf-8")
            print(f"{self.name}: diverged at step {found[1]}", flush=True)

    def perplexities(self):
        """By memory size in segments."""
        if not self.is_sized:
            return {}
        memories = json.loads(self.sizes_file.read_text(encoding="utf-8"))["memories"]
        return {memory["multiple"]: memory["result"]["perplexity"] for memory in memories}

    def curve(self):
        """(step, loss of the training batch), as logged."""
        path = self.folder / "metrics.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [(line["step"], line["loss"]) for line in map(json.loads, lines) if line["kind"] == "step"]


def prepare(options):
    """The folder of the prepared text, made where it is not there."""
    if not options.books.exists():
        options.books.parent.mkdir(parents=True, exist_ok=True)
        reproduce_text.prepare(options.text, options.books)
    reproduce_text.note_counts(options.books)


def make_runs(options):
    """{(memory, seed): run}, in the order of training."""
    data = f"data.prepared={json.dumps(str(options.books.resolve()))}"
    return {(name, seed): LookAheadRun(options.runs, f"{arm.file_name}-seed{seed}", CONFIGS / "books.toml", arm, seed,
                                       (data, *options.set))
            for seed in range(1, options.seeds + 1) for name, arm in ARMS.items()
            if seed <= SEEDS.get(name, options.seeds)}


def row(key, run):
    diverged = run.diverged()
    result = {} if diverged != "" else run.result()
    curve = run.curve()
    sizes = run.perplexities()
    return {"memory": key[0], "seed": key[1], "loss": result.get("loss", ""),
            "perplexity": result.get("perplexity", ""), "diverged": diverged,
            "train_loss": curve[-1][1] if curve else "", "tokens": result.get("tokens", ""),
            "rows": result["protocol"]["context_rows"] if result else "",
            "state_bytes": result["state_bytes"] // result["lanes"] if result else "",
            **{f"x{m}": sizes.get(m, "") for m in range(1, MULTIPLES + 1)},
            "train_seconds": run.train_seconds(), "commit": run.commit()}


def finished(rows):
    """Without the runs that diverged."""
    return [row for row in rows if row["loss"]]


def difference(rows, name):
    got = experiment.differences(finished(rows), name, REFERENCE, "loss")
    if name == REFERENCE or not got:
        return ""
    deviation = f" +- {statistics.stdev(got):.4f}" if len(got) > 1 else ""
    return f"{statistics.mean(got):+.4f}{deviation}"


def results_table(rows):
    def line(name):
        got = experiment.pick(rows, memory=name)
        ended = finished(got)
        steps = ", ".join(r["diverged"] for r in got if r["diverged"])

        def mean(column, digits):
            values = [float(r[column]) for r in got if r[column]]
            return f"{statistics.mean(values):.{digits}f}" if values else ""

        perplexity = experiment.spread(ended, "perplexity", 2) if ended or not got else "-"
        return [name, mean("rows", 0), mean("state_bytes", 0), perplexity, difference(rows, name),
                mean("train_loss", 3),
                f"{len(got) - len(ended)} of {len(got)}" + (f" (step {steps})" if steps else "") if got else ""]

    return experiment.table(["memory", "rows read", "state bytes a lane", "test perplexity",
                             f"loss minus {REFERENCE}'s", "last training loss", "diverged"],
                            [line(name) for name in ARMS])


def same_line(rows):
    same = experiment.differences(finished(rows), "lamemo, no look-ahead", REFERENCE, "loss")
    return f"lamemo without look-ahead minus {REFERENCE}, seed 1: {same[0]:+.2e} (the same model)." if same else ""


def sizes_table(rows):
    lines = []
    for name in EXTRAPOLATED:
        got = experiment.pick(rows, memory=name)
        cells = [experiment.spread(got, f"x{m}", 2).split(" ")[0] for m in range(1, MULTIPLES + 1)]
        if any(r["x1"] for r in got):
            lines.append([name, *cells])
    lead = ["lead of lamemo"]
    for m in range(1, MULTIPLES + 1):
        got = experiment.differences([r for r in rows if r[f"x{m}"]], REFERENCE, "lamemo", f"x{m}")
        lead.append(f"{statistics.mean(got):+.2f}" if got else "")
    if not lines:
        return ""
    return experiment.table(["memory", *(str(SEGMENT * m) for m in range(1, MULTIPLES + 1))],
                            lines + ([lead] if any(lead[1:]) else []))


def section(rows, differences):
    """The results as Markdown, from the rows of results.csv and differences.csv."""
    title = ("Test split, mean +- standard deviation over seeds (number of seeds). Loss in nats a token; the column of "
             "differences is taken seed by seed:")
    out = [title, results_table(rows), experiment.commits(rows), same_line(rows), verdicts.section(differences)]
    sizes = sizes_table(rows)
    if sizes:
        out += [f"Test perplexity with other memories than in training, by rows, of the first {SIZED_SEGMENTS} segments of "
                f"{SEGMENT} of each lane, means over seeds, not tested; the lead is {REFERENCE}'s perplexity minus lamemo's:", sizes,
                experiment.commits([r for r in rows if r["x1"]])]
    return "\n\n".join(part for part in out if part)


def docs_section(rows, differences):
    alone = any(r["diverged"] for r in experiment.pick(rows, memory=REFERENCE, seed=1))
    pictures = ["![Training loss, seed 1](figures/lamemo_curves.svg)",
               "![Test perplexity against memory size](figures/lamemo_sizes.svg)",
               "![Alpha by place in the memory, valid split, seed 1](figures/lamemo_alpha.svg)",
               f"![Attention by distance, valid split, seed 1{f', lamemo only: {REFERENCE} diverged' if alone else ''}]"
               "(figures/lamemo_distance.svg)"]
    numbers = ("Every run: [figures/lamemo.csv](figures/lamemo.csv) (`train_seconds` is wall-clock time), the curves: "
               "[figures/lamemo_curves.csv](figures/lamemo_curves.csv)" + verdicts.link("lamemo", differences) + ".")
    return "\n\n".join([section(rows, differences), "\n".join(pictures), numbers])


def write_curves(path, runs):
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["memory", "seed", "step", "loss"])
        for (name, seed), run in runs.items():
            out.writerows([name, seed, step, loss] for step, loss in run.curve())


def write_figures(rows, curves, folder):
    """Writes the specifications of what is not the program's own."""
    series = {name: [(int(r["step"]), float(r["loss"])) for r in experiment.pick(curves, memory=name, seed=1)] for name in ARMS}
    figures.write(folder / "curves.vl.json",
                  figures.lines("Training loss, seed 1", "step", "loss, nats a token", series, from_zero=False))
    sizes = {name: [(SEGMENT * m, statistics.mean(values)) for m in range(1, MULTIPLES + 1)
                    if (values := [float(r[f"x{m}"]) for r in experiment.pick(rows, memory=name) if r[f"x{m}"]])]
             for name in EXTRAPOLATED}
    figures.write(folder / "sizes.vl.json",
                  figures.lines("Test perplexity, mean over seeds", f"memory rows (segments of {SEGMENT})", "perplexity",
                                sizes, from_zero=False))


def shown_runs(runs):
    """{analysis: runs in its figure}, of those that the first seed's runs allow: alpha, attention by distance."""
    look_ahead, cache = runs[("lamemo", 1)], runs[(REFERENCE, 1)]
    if not look_ahead.is_done or look_ahead.diverged() != "":
        return {}
    shown = {"alpha": [look_ahead]}
    if cache.is_done:  # a figure without it would stay so
        shown["distance"] = [cache, look_ahead] if cache.diverged() == "" else [look_ahead]
    return shown


def is_drawn(folder, name, runs):
    if not (folder / name / f"{name}.vl.json").exists():
        return False
    rows = experiment.read_rows(folder / name / f"{name}.csv")
    return name != "distance" or {row["memory"] for row in rows} == {run.name for run in runs}


def analyse(options, runs):
    """Looks into the first seed's memories, as they read the valid split."""
    # As many tokens as the paper's figures: 100 segments, and 15 k tokens.
    arguments = {"alpha": ([], 100), "distance": (["distance"], 240)}
    for name, shown in shown_runs(runs).items():
        if not is_drawn(options.runs, name, shown):
            command, segments = arguments[name]
            experiment.call(["analyze", *command, *(run.folder for run in shown), "--split", "valid",
                             "--segments", segments, "--out", options.runs / name, *experiment.PLACE, "--quiet"])


def write_docs(page, rows, differences, options, runs):
    shown = shown_runs(runs)
    absent = [name for name in ANALYSES if name not in shown or not is_drawn(options.runs, name, shown[name])]
    if absent:
        raise experiment.Failure(f"--write-docs: there is no {' and no '.join(absent)} of seed 1, which lamemo is needed "
                                 f"for, and {REFERENCE} for distance: run without --table")
    folder = experiment.copy_results(options.runs, page, "lamemo")
    shutil.copyfile(options.runs / "curves.csv", folder / "lamemo_curves.csv")
    for name in ANALYSES:
        shutil.copyfile(options.runs / name / f"{name}.csv", folder / f"lamemo_{name}.csv")
        figures.draw(options.runs / name / f"{name}.vl.json", folder / f"lamemo_{name}.svg")
    for name in ("curves", "sizes"):
        figures.draw(options.runs / f"{name}.vl.json", folder / f"lamemo_{name}.svg")
    experiment.write_section(page, "lamemo", docs_section(rows, differences))


def main():
    parser = experiment.arguments(__doc__, RUNS, ARMS)
    parser.add_argument("--text", type=pathlib.Path, default=experiment.ROOT / "data/books", metavar="DIR",
                        help="folder of the novels, where --books is not there; default: data/books")
    parser.add_argument("--books", type=pathlib.Path, default=experiment.ROOT / BOOKS, metavar="DIR",
                        help=f"the prepared text; default: {BOOKS}")
    options = parser.parse_args()
    experiment.check(parser, options, RUNS)
    runs = make_runs(options)
    try:
        if not options.table:
            prepare(options)
            experiment.train([run for run in runs.values() if run.arm.name in options.memories], options.jobs)
            analyse(options, runs)
        done = {key: run for key, run in runs.items() if run.is_done}
        rows = experiment.write_rows(options.runs / "results.csv", [row(key, run) for key, run in done.items()])
        write_curves(options.runs / "curves.csv", done)
        differences = verdicts.write(options.runs / "differences.csv",
                                     verdicts.compare(FAMILIES, runs, options.runs / "reports"))
        print("\n" + section(rows, differences))
        write_figures(rows, experiment.read_rows(options.runs / "curves.csv"), options.runs)
        if options.write_docs:
            write_docs(options.write_docs, rows, differences, options, runs)
    except experiment.Failure as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
