#!/usr/bin/env python3
"""Fine-tuning a small decoder with each memory, on the words of novels and on dialogues about documents, three seeds each.

    scripts/reproduce/reproduce_decoder.py text [--text DIR] [--books DIR] [options]
    scripts/reproduce/reproduce_decoder.py dialogues [--dialogues DIR] [options]

One decoder is trained without a memory; each memory goes on from its weights, as does a model without one. --books is the
text as scripts/reproduce/reproduce_text.py prepares it; where it is not there, it is prepared from --text, the folder of the novels.
--dialogues is a folder with CMU_DoG's train, valid and test.jsonl and documents.jsonl (docs/dialogue.md). Trains what is
not trained yet (a stopped run is resumed, a finished one skipped), evaluates each run on the test split, generates answers
to turns of dialogues, compares the memories by `mneme report`, and prints tables; the folder of the runs gets results.csv,
differences.csv and the pages of the reports. --jobs runs go at once, one thread each. --memories trains some only, the
tables show all. --table trains nothing. Needs Python 3.9 and a built build/release.
"""
import dataclasses
import json
import pathlib
import statistics
import sys

import experiment_runs as experiment
import experiment_verdicts as verdicts
import reproduce_text

CONFIGS = experiment.ROOT / "configs"
NONE = CONFIGS / "memory/none.toml"
BASE_SEED = 1
ANSWERS = 300  # turns of the test split that every run answers
SCORES = ("token_f1", "rouge1_recall", "rouge1_f", "rougeL_recall", "rougeL_f", "meteor_exact_stem")
MEMORIES = ("xl_cache", "compressive", "continuous_ltm", "continuous_ltm, sticky")


@dataclasses.dataclass(frozen=True)
class Tuned(experiment.Run):
    """A training that begins with another run's weights, and answers turns of dialogues."""
    base: experiment.Run = None
    answers: int = 0

    def command(self):
        command = super().command()
        return command if "--resume" in command else [*command, "--init", self.base.folder]

    def _evaluate(self, suffix, options):
        evaluation = super()._evaluate(suffix, options)
        if self.answers:
            experiment.call(["generate", self.folder, "--split", "test", "--for-report", self.answers, *experiment.PLACE, "--quiet"])
        return evaluation


@dataclasses.dataclass(frozen=True)
class Task:
    """What is fine-tuned on."""
    name: str
    experiment: pathlib.Path
    arms: dict
    baseline: str
    steps: int  # of the fine-tuning
    answers: int = 0

    @property
    def section(self):
        return "decoder_" + self.name

    @property
    def families(self):
        others = tuple(name for name in self.arms if name != self.baseline)
        return (verdicts.Family(self.baseline, others),
                verdicts.Family("xl_cache", tuple(name for name in MEMORIES if name != "xl_cache")))


def arms(folder, *first):
    files = {name: folder / (name.replace(", ", "_") + ".toml") for name in MEMORIES}
    return {arm.name: arm for arm in (*first, *(experiment.Arm(name, file) for name, file in files.items()))}


TASKS = {task.name: task for task in (
    Task("text", CONFIGS / "decoder/books.toml",
         arms(CONFIGS / "decoder/memory", experiment.Arm("none", NONE)), "none", steps=400),
    Task("dialogues", CONFIGS / "dialogue/small.toml",
         arms(CONFIGS / "dialogue/memory", experiment.Arm("none, no document", NONE, ("data.with_document=false",)),
              experiment.Arm("none", NONE)), "none", steps=400, answers=ANSWERS),
)}


def prepare_books(options):
    folder = options.books or experiment.ROOT / "runs/text/books"
    folder.parent.mkdir(parents=True, exist_ok=True)
    reproduce_text.prepare(options.text, folder)
    reproduce_text.note_counts(folder)


def prepare_dialogues(options):
    """The splits in our own form, the test and valid splits without dialogues that are in train."""
    source = options.dialogues
    missing = [name for name in ("train.jsonl", "valid.jsonl", "test.jsonl", "documents.jsonl")
               if not (source / name).exists()]
    if missing and not (options.runs / "data/test.jsonl").exists():
        raise experiment.Failure(f"--dialogues {source}: {', '.join(missing)} not there; docs/dialogue.md says what they are")
    for split in ("train", "valid", "test"):
        out = options.runs / f"data/{split}.jsonl"
        if out.exists():
            continue
        out.parent.mkdir(exist_ok=True)
        others = () if split == "train" else ("--except", source / "train.jsonl")
        experiment.call(["data", "dialogues", source / f"{split}.jsonl", "--leave-out-blank", *others, "--out", out])


def data_settings(options, task):
    def setting(key, path):
        return f"data.{key}={json.dumps(str(path.resolve()))}"

    if task.name == "text":
        return (setting("prepared", options.books or experiment.ROOT / "runs/text/books"),)
    return tuple(setting(split, options.runs / f"data/{split}.jsonl") for split in ("train", "valid", "test"))


def make_runs(options, task):
    """The first training, and {(memory, seed): run} in the order of training."""
    data = data_settings(options, task)
    base = experiment.Run(options.runs, f"base-seed{BASE_SEED}", task.experiment, experiment.Arm("base", NONE), BASE_SEED,
                          (*data, *options.set))
    tuning = (*data, f"train.steps={task.steps}", "train.lr=3e-4", "train.warmup=20", *options.set)
    runs = {(name, seed): Tuned(options.runs, f"{arm.file_name}-seed{seed}", task.experiment, arm, seed, tuning, base,
                                task.answers)
            for seed in range(1, options.seeds + 1) for name, arm in task.arms.items()}
    return base, runs


def row(key, run):
    result = run.result()
    return {"memory": key[0], "seed": key[1], "loss": result["loss"], "perplexity": result["perplexity"],
            "perplexity_per_block": result.get("perplexity_per_block", ""), "tokens": result["tokens"],
            "rows": result["protocol"]["context_rows"], "state_bytes": result["state_bytes"] // result["lanes"],
            "train_seconds": run.train_seconds(), "commit": run.commit()}


def compare(task, runs, pages):
    measures = ("loss", *(SCORES if task.answers else ()))
    return [one for measure in measures
            for one in verdicts.compare(task.families if measure == "loss" else task.families[:1], runs, pages, measure)]


def results_table(task, rows):
    def line(name):
        got = experiment.pick(rows, memory=name)

        def mean(column):
            values = [float(one[column]) for one in got if one[column]]
            return f"{statistics.mean(values):.0f}" if values else ""

        blocks = [experiment.spread(got, "perplexity_per_block", 2)] if task.name == "text" else []
        return [name, mean("rows"), mean("state_bytes"), experiment.spread(got, "perplexity", 2), *blocks]

    blocks = ["a block"] if task.name == "text" else []
    return experiment.table(["memory", "rows read", "state bytes a lane", "test perplexity, a token", *blocks],
                            [line(name) for name in task.arms])


def scores_table(task, differences):
    """Means of the scores times 100; a difference that is shown is bold."""
    def cell(name, measure):
        one = next((one for one in differences if one["measure"] == measure and one["memory"] == name
                    and one["baseline"] == task.baseline), None)
        if name == task.baseline:
            means = [one["baseline_mean"] for one in differences if one["measure"] == measure and one["baseline_mean"]
                     and one["baseline"] == task.baseline]
            return f"{100 * float(means[-1]):.2f}" if means else ""
        if one is None or not one["mean"]:
            return ""
        text = f"{100 * float(one['mean']):.2f}"
        return f"**{text}**" if one["verdict"] in ("better", "worse") else text

    return experiment.table(["memory", *SCORES], [[name, *(cell(name, measure) for measure in SCORES)] for name in task.arms])


def section(task, rows, differences):
    """The results as Markdown, from the rows of results.csv and differences.csv."""
    out = ["Test split, mean +- standard deviation over seeds (number of seeds):", results_table(task, rows),
           experiment.commits(rows), verdicts.section([one for one in differences if one["measure"] == "loss"])]
    if task.answers:
        out += [f"Scores of {ANSWERS} generated answers a run, times 100, means over seeds; bold where `mneme report` shows a "
                f"difference to {task.baseline} over dialogues and seeds, after Holm's correction over the memories:",
                scores_table(task, differences)]
    return "\n\n".join(part for part in out if part)


def docs_section(task, rows, differences):
    numbers = (f"Every run: [figures/{task.section}.csv](figures/{task.section}.csv) (`train_seconds` is wall-clock time)"
               f"{verdicts.link(task.section, differences)}.")
    return f"{section(task, rows, differences)}\n\n{numbers}"


def write_docs(page, task, rows, differences, options):
    experiment.copy_results(options.runs, page, task.section)
    experiment.write_section(page, task.section, docs_section(task, rows, differences))


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in TASKS and not {"-h", "--help"} & set(sys.argv[1:]):
        sys.exit(f"usage: scripts/reproduce/reproduce_decoder.py {{{','.join(TASKS)}}} [options]; see --help")
    task = TASKS.get(sys.argv[1], TASKS["text"])
    parser = experiment.arguments(__doc__, f"runs/decoder/{task.name}", task.arms)
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--text", type=pathlib.Path, default=experiment.ROOT / "data/books", metavar="DIR",
                        help="folder of the novels; default: data/books")
    parser.add_argument("--books", type=pathlib.Path, metavar="DIR", help="the prepared text; default: runs/text/books")
    parser.add_argument("--dialogues", type=pathlib.Path, default=experiment.ROOT / "data/cmu-dog", metavar="DIR",
                        help="folder of the dialogues; default: data/cmu-dog")
    options = parser.parse_args()
    experiment.check(parser, options, f"runs/decoder/{task.name}")
    base, runs = make_runs(options, task)
    try:
        if not options.table:
            (prepare_books if task.name == "text" else prepare_dialogues)(options)
            experiment.train([base], 1)
        rows = experiment.finished_rows(options, runs, row)
        differences = verdicts.write(options.runs / "differences.csv", compare(task, runs, options.runs / "reports"))
        print("\n" + section(task, rows, differences))
        if options.write_docs:
            write_docs(options.write_docs, task, rows, differences, options)
    except experiment.Failure as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
