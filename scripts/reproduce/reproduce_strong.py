#!/usr/bin/env python3
"""Whether configs/decoder/strong.toml reaches the loss of configs/decoder/books.toml in at most two thirds of its tokens: the
same width, depth and text, three seeds each.

    scripts/reproduce/reproduce_strong.py [--text DIR] [--books DIR] [--runs DIR] [--memories NAME ...] [--seeds N] [--jobs N]
                                 [--device DEVICE] [--table] [--write-docs [PAGE]] [--set KEY=VALUE]

--books is the text as scripts/reproduce/reproduce_text.py prepares it; where it is not there, it is prepared from --text, the
folder of the novels. Trains what is not trained yet (a stopped run is resumed, a finished one skipped): base is books.toml,
strong is strong.toml, and both are evaluated on the valid split every 200 steps and at the end. Prints a table; DIR gets runs
and results.csv. --jobs runs go at once, one thread each. --memories trains one of the two only, the table shows seeds that have
both. --table trains nothing. --write-docs puts the table into docs/training.md, or into PAGE. Needs Python 3.9 and a built
build/release.
"""
import collections
import json
import pathlib
import statistics
import sys

import experiment_runs as experiment
import reproduce_decoder

RUNS = "runs/strong"
PAGE = experiment.ROOT / "docs/training.md"
SECTION = "strong"
EVERY = 200  # steps between evaluations
CONFIGS = {"base": experiment.ROOT / "configs/decoder/books.toml", "strong": experiment.ROOT / "configs/decoder/strong.toml"}
ARMS = {name: experiment.Arm(name, reproduce_decoder.NONE) for name in CONFIGS}
HEADER = ("seed", "loss: base", "strong", "strong - base", "tokens: strong / base", "seconds: base", "strong", "strong / base",
          "loss of base reached at, share of its tokens")
FORMS = (".4f", ".4f", "+.4f", ".4f", ".0f", ".0f", ".2f", ".4f")  # of HEADER without the seed
WITH_INTERVAL = (2, 6)  # of FORMS


class Run(experiment.Run):
    """A training, whose last evaluation of the valid split is its result."""

    def execute(self):
        experiment.call([*self.command(), *experiment.PLACE, "--quiet"])
        self.keep({"result": self.lines("eval")[-1]["result"]})

    def lines(self, kind):
        text = (self.folder / "metrics.jsonl").read_text(encoding="utf-8")
        return [line for line in map(json.loads, text.splitlines()) if line["kind"] == kind]

    def tokens(self, step):
        """Targets up to a step: those of the nearest logged one, and batches like its own between the two."""
        line = min(self.lines("step"), key=lambda one: abs(one["step"] - step))
        return round(line["tokens"] * step / line["step"])

    def first_step(self, loss):
        """The first evaluated step with at most this loss; "" when there is none."""
        return next((one["step"] for one in self.lines("eval") if one["result"]["loss"] <= loss), "")

    def device(self):
        return json.loads((self.folder / "run.json").read_text(encoding="utf-8"))["device"]


def make_runs(options):
    """{(recipe, seed): run}, in the order of training."""
    data = reproduce_decoder.data_settings(options, reproduce_decoder.TASKS["text"])
    settings = (*data, f"train.eval_every={EVERY}", *options.set)
    return {(name, seed): Run(options.runs, f"{name}-seed{seed}", CONFIGS[name], arm, seed, settings)
            for seed in range(1, options.seeds + 1) for name, arm in ARMS.items()}


def row(key, run, base):
    """`base`: the seed's run of books.toml."""
    name, seed = key
    steps = run.lines("eval")[-1]["step"]
    reached = run.first_step(base.result()["loss"]) if name == "strong" and base.is_done else ""
    return {"recipe": name, "seed": seed, "steps": steps, "tokens": run.tokens(steps), "loss": run.result()["loss"],
            "reached_step": reached, "reached_tokens": run.tokens(reached) if reached else "",
            "train_seconds": run.train_seconds(), "device": run.device(), "commit": run.commit()}


def numbers(base, strong):
    """Of a seed, in the order of FORMS, from two rows of results.csv; the last is "" where no evaluation was as low."""
    losses, tokens, seconds = ([float(one[column]) for one in (base, strong)] for column in ("loss", "tokens", "train_seconds"))
    reached = float(strong["reached_tokens"]) / tokens[0] if strong["reached_tokens"] else ""
    return (*losses, losses[1] - losses[0], tokens[1] / tokens[0], *seconds, seconds[1] / seconds[0], reached)


def interval(values, form):
    """Mean [95 % interval of the mean over seeds]."""
    mean, half = experiment.interval(values)
    cell = f"{mean:{form}}"
    return cell if len(values) < 2 else f"{cell} \\[{mean - half:{form}}, {mean + half:{form}}\\]"


def verdict(differences, share):
    """The answer, as far as the seeds give one."""
    if len(differences) < 2:
        return "One seed has no interval: nothing is shown."
    mean, half = experiment.interval(differences)
    asked = f"that strong.toml ends at the loss of books.toml or below it in {share:.4f} of its tokens"
    if mean + half <= 0:
        return f"**Shown:** {asked}."
    return f"**Not shown:** {asked}; " + ("its loss is higher." if mean - half > 0 else "the interval has both signs.")


def section(rows):
    """The results as Markdown, from the rows of results.csv."""
    pairs = [(base, strong) for base in experiment.pick(rows, recipe="base")
             for strong in experiment.pick(rows, recipe="strong", seed=base["seed"])]
    if not pairs:
        return "No seed has finished runs of both."
    seeds = [numbers(base, strong) for base, strong in pairs]
    lines = [[base["seed"], *(f"{number:{form}}" if number != "" else "not reached" for number, form in zip(of, FORMS))]
             for (base, _), of in zip(pairs, seeds)]
    *columns, reached = zip(*seeds)
    means = [interval(of, form) if i in WITH_INTERVAL else f"{statistics.fmean(of):{form}}"
             for i, (of, form) in enumerate(zip(columns, FORMS))]
    found = [one for one in reached if one != ""]
    last = f"{statistics.fmean(found):{FORMS[-1]}}" if len(found) == len(seeds) else f"{len(found)} of {len(seeds)} seeds"
    table = experiment.table(HEADER, [*lines, ["mean \\[95 %\\]", *means, last]])
    note = ("Loss of the valid split after the last step, nats a token; of strong it is that of the averages of the weights. "
            "Intervals are of the mean over seeds (Student's t). Seconds are wall-clock time of the steps, without evaluations. "
            "The last column is the first evaluated step whose loss is at most that with which base ends.")
    paired = [one for pair in pairs for one in pair]
    devices = collections.Counter(one["device"] for one in paired)
    machine = "Trained on (number of runs): " + ", ".join(f"{name} ({number})" for name, number in sorted(devices.items()))
    parts = (table, verdict(columns[2], statistics.fmean(columns[3])), note, machine, experiment.commits(paired))
    return "\n\n".join(filter(None, parts))


def main():
    parser = experiment.arguments(__doc__, RUNS, ARMS, PAGE)
    parser.add_argument("--text", type=pathlib.Path, default=experiment.ROOT / "data/books", metavar="DIR",
                        help="folder of the novels; default: data/books")
    parser.add_argument("--books", type=pathlib.Path, metavar="DIR", help="the prepared text; default: runs/text/books")
    options = parser.parse_args()
    if any(one.replace(" ", "") == "train.log_every=0" for one in options.set):
        parser.error("--set train.log_every=0: tokens and seconds are those of logged steps; expected at least 1")
    experiment.check(parser, options, RUNS)
    runs = make_runs(options)
    try:
        if not options.table:
            reproduce_decoder.prepare_books(options)
        rows = experiment.finished_rows(options, runs, lambda key, run: row(key, run, runs["base", key[1]]))
        print("\n" + section(rows))
        if options.write_docs:
            page = options.write_docs
            (page.parent / "figures").mkdir(exist_ok=True)
            experiment.write_rows(page.parent / "figures/strong.csv", rows)
            text = section(rows) + "\n\nEvery run: [figures/strong.csv](figures/strong.csv) (`train_seconds` is wall-clock time)."
            experiment.write_section(page, SECTION, text)
    except experiment.Failure as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
