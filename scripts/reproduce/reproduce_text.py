#!/usr/bin/env python3
"""The text experiment: memories of equal attention cost on the words of eleven novels, three seeds of 2 M tokens each.

    scripts/reproduce/reproduce_text.py --text DIR [--runs DIR] [--memories NAME ...] [--seeds N] [--jobs N]
                              [--table] [--write-docs [PAGE]] [--set KEY=VALUE]

--text is the folder of the novels (docs/reproducing.md says which); it is read once, and what is made of it stays in the
folder of the runs. Trains what is not trained yet (a stopped run is resumed, a finished one skipped), evaluates each run
on the test split, compares the memories by `mneme report`, and prints tables; the folder of the runs gets results.csv,
differences.csv and the pages of the reports. --jobs runs go at once, one thread each.
--memories trains some only, the tables show all. --table trains nothing. Needs Python 3.9 and a built build/release.
"""
import json
import pathlib
import re
import statistics
import sys
import tempfile

import experiment_runs as experiment
import experiment_verdicts as verdicts

RUNS = "runs/text"
CONFIGS = experiment.ROOT / "configs/text"
MEMORIES = CONFIGS / "memory"
_REPORT = ("memory.tier.0.report_mass=true", "memory.tier.0.report_loss=true")
ARMS = {arm.name: arm for arm in (
    experiment.Arm("xl_cache", MEMORIES / "xl_cache.toml"),
    experiment.Arm("compressive, conv", MEMORIES / "compressive.toml", eval_settings=_REPORT),
    experiment.Arm("compressive, mean", MEMORIES / "compressive_mean.toml", eval_settings=_REPORT),
)}
REFERENCE = "xl_cache"
FAMILIES = (verdicts.Family(REFERENCE, ("compressive, conv", "compressive, mean")),
            verdicts.Family("compressive, mean", ("compressive, conv",)))
# By book, as PG-19 is split.
SPLITS = {
    "train": ("0135_les_miserables", "0145_middlemarch", "0766_david_copperfield", "0996_don_quixote",
              "1023_bleak_house", "1399_anna_karenina", "2600_war_and_peace", "28054_brothers_karamazov"),
    "valid": ("1400_great_expectations",),
    "test": ("1342_pride_and_prejudice", "2701_moby_dick"),
}
TOKENS = {"train": 3977412, "valid": 227898, "test": 404640}
VOCABULARY = 16000
# A word with its apostrophes, or one mark; the underscores around italics are left out.
TOKEN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*|[^\w\s]")


def cut(text):
    """The words and marks of a text in lower case, a blank between any two, one paragraph a line."""
    paragraphs = (" ".join(TOKEN.findall(part)) for part in text.lower().split("\n\n"))
    return "".join(part + "\n" for part in paragraphs if part)


def prepare(text, folder):
    """Makes `folder` of the novels in `text` with `mneme data prepare`, unless it is there."""
    if folder.exists():
        return
    files = {split: [text / f"{name}.txt" for name in names] for split, names in SPLITS.items()}
    missing = [path.name for paths in files.values() for path in paths if not path.exists()]
    if missing:
        raise experiment.Failure(f"--text {text}: {len(missing)} of 11 novels are not there ({', '.join(missing)}); "
                                 "docs/reproducing.md says where they are found")
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        options = []
        for split, paths in files.items():
            options.append(f"--{split}")
            for path in paths:
                words = pathlib.Path(scratch) / path.name
                words.write_text(cut(path.read_text(encoding="utf-8")), encoding="utf-8")
                options.append(words)
        experiment.call(["data", "prepare", "--vocabulary", "word", "--vocabulary-size", VOCABULARY, "--no-eos",
                         *options, "--out", folder, "--quiet"])


def note_counts(folder):
    """Says how many tokens there are, and warns when they are not those of the published numbers."""
    data = json.loads((folder / "data.json").read_text(encoding="utf-8"))
    got = {split: data["splits"][split]["tokens"] for split in TOKENS}
    print("tokens: " + ", ".join(f"{split} {n}" for split, n in got.items()), flush=True)
    if got != TOKENS:
        print(f"warning: other texts than those of docs/reproducing.md ({TOKENS}): numbers are not comparable",
              file=sys.stderr)


def make_runs(options):
    """{(memory, seed): run}, in the order of training."""
    data = f"data.prepared={json.dumps(str((options.runs / 'books').resolve()))}"
    return {(name, seed): experiment.Run(options.runs, f"{arm.file_name}-seed{seed}", CONFIGS / "books.toml", arm, seed,
                                         (data, *options.set))
            for seed in range(1, options.seeds + 1) for name, arm in ARMS.items()}


def row(key, run):
    evaluation = run.evaluation()
    result, words = evaluation["result"], evaluation["breakdown"]["frequency"]
    by_frequency = {f"loss {name}": nll / tokens
                    for name, nll, tokens in zip(words["name"], words["nll"], words["tokens"])}
    return {"memory": key[0], "seed": key[1], "loss": result["loss"], "perplexity": result["perplexity"],
            "tokens": result["tokens"], "rows": result["protocol"]["context_rows"],
            "state_bytes": result["state_bytes"] // result["lanes"],
            "reconstruction": run.metric("compression"), "mass_compressed": run.metric("mass_compressed"),
            **by_frequency, "train_seconds": run.train_seconds(), "commit": run.commit()}


def difference(rows, name, column):
    got = experiment.differences(rows, name, REFERENCE, column)
    if name == REFERENCE or not got:
        return ""
    deviation = f" +- {statistics.stdev(got):.4f}" if len(got) > 1 else ""
    return f"{statistics.mean(got):+.4f}{deviation}"


def results_table(rows):
    def line(name):
        got = experiment.pick(rows, memory=name)

        def mean(column, digits):
            values = [float(r[column]) for r in got if r[column]]
            return f"{statistics.mean(values):.{digits}f}" if values else ""

        return [name, mean("rows", 0), mean("state_bytes", 0), experiment.spread(got, "perplexity", 2),
                difference(rows, name, "loss"), mean("reconstruction", 4), mean("mass_compressed", 3)]

    return experiment.table(["memory", "rows read", "state bytes a lane", "test perplexity",
                             f"loss minus {REFERENCE}'s", "reconstruction", "attention on compressed rows"],
                            [line(name) for name in ARMS])


def frequency_table(rows):
    columns = [column for column in rows[0] if column.startswith("loss ")]
    lines = []
    for name in ARMS:
        values = [difference(rows, name, column) for column in columns]
        if any(values):
            lines.append([name, *(value.split(" ")[0] for value in values)])
    return experiment.table(["memory", *(column[len("loss "):] for column in columns)], lines) if lines else ""


def section(rows, differences):
    """The results as Markdown, from the rows of results.csv and differences.csv."""
    title = ("Test split, mean +- standard deviation over seeds (number of seeds). Loss in nats a token; the column of "
             "differences is taken seed by seed. Reconstruction is the attention loss of the compression, mean square:")
    out = [title, results_table(rows), experiment.commits(rows), verdicts.section(differences)]
    frequencies = frequency_table(rows)
    if frequencies:
        out += [f"Loss minus {REFERENCE}'s, by how often the predicted word occurs in the training text (means over seeds, not "
                "tested):", frequencies]
    return "\n\n".join(part for part in out if part)


def docs_section(rows, differences):
    numbers = "Every run: [figures/text.csv](figures/text.csv) (`train_seconds` is wall-clock time)"
    return f"{section(rows, differences)}\n\n{numbers}{verdicts.link('text', differences)}."


def write_docs(page, rows, differences, options):
    experiment.copy_results(options.runs, page, "text")
    experiment.write_section(page, "text", docs_section(rows, differences))


def main():
    parser = experiment.arguments(__doc__, RUNS, ARMS)
    parser.add_argument("--text", type=pathlib.Path, default=experiment.ROOT / "data/books", metavar="DIR",
                        help="folder of the novels; default: data/books")
    options = parser.parse_args()
    experiment.check(parser, options, RUNS)
    runs = make_runs(options)
    try:
        if not options.table:
            prepare(options.text, options.runs / "books")
            note_counts(options.runs / "books")
        rows = experiment.finished_rows(options, runs, row)
        differences = verdicts.write(options.runs / "differences.csv",
                                     verdicts.compare(FAMILIES, runs, options.runs / "reports"))
        print("\n" + section(rows, differences))
        if options.write_docs:
            write_docs(options.write_docs, rows, differences, options)
    except experiment.Failure as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
