#!/usr/bin/env python3
"""Memories behind a pretrained decoder: excerpts of novels read with each memory, as the model comes and after the memory
alone was trained with a frozen backbone. scripts/real_decoder.sh calls it with the package.

    scripts/reproduce/reproduce_real_decoder.py --package FILE --books DIR [options]

FILE is a wheel with one GGUF file, or that file. The largest book is for training; of each other book --excerpts parts of
--bytes bytes are read, each a document. Steps that are finished are skipped, a stopped training is resumed. The folder of
the runs gets results.csv, differences.csv (intervals over excerpts, by `mneme report`), distance.csv (loss by distance into the excerpt) and
distance.svg. --device trains and evaluates on a GPU, one run at a time. Needs Python 3.9 and a built build/release with the examples.
"""
import argparse
import array
import dataclasses
import json
import pathlib
import shutil
import statistics
import struct
import sys
import zipfile

import experiment_runs as experiment
import experiment_verdicts as verdicts
import figures

SECTION = "real_decoder"
MEMORIES = ("none", "xl_cache", "sinks", "compressive", "continuous")
TRAINED = ("compressive", "continuous")
SIZES = (("excerpts", 1, "of each book that is read"), ("bytes", 6144, "of an excerpt"), ("segment", 256, "tokens"),
         ("rows", 512, "that a memory reads"), ("steps", 30, "of training; 0: only the model as it comes"))
BIN = 128  # tokens of a group of distances


def memory_file(folder, name, rows):
    """The file of a memory that reads about `rows` rows."""
    def tier(plugin, **values):
        return "\n[[memory.tier]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in
                                               {"plugin": plugin, **values}.items())

    tiers = {"none": "", "xl_cache": tier("xl_cache", rows=rows), "sinks": tier("sinks", sinks=4, window=rows - 4),
             "compressive": tier("compressive", rows=rows // 2, compressed_rows=rows // 2, rate=4),
             "continuous": tier("xl_cache", rows=rows) + tier("continuous_ltm", basis=rows, tau=0.75, sticky=True,
                                                              widths=[0.005, 0.01])}
    plugins = [str(experiment.MNEME.parents[1] / part) for part in ("plugins", "examples")]
    path = folder / f"{name}.toml"
    path.write_text(f'[memory]\ncarry = "reset"\nplugins = {json.dumps(plugins)}\n{tiers[name]}', encoding="utf-8")
    return path


def gguf_of(package, folder):
    """The GGUF file of a wheel, which is unpacked into the folder once."""
    if package.suffix == ".gguf":
        return package
    with zipfile.ZipFile(package) as wheel:
        names = [name for name in wheel.namelist() if name.endswith(".gguf")]
        if len(names) != 1:
            raise experiment.Failure(f"{package}: expected one GGUF file in the wheel, got {len(names)}")
        out = folder / pathlib.PurePosixPath(names[0]).name
        if not out.exists():
            part = out.with_suffix(".part")
            with wheel.open(names[0]) as source, open(part, "wb") as target:
                shutil.copyfileobj(source, target)
            part.rename(out)
    return out


def excerpt(text, begin, size):
    """From the first paragraph that begins behind `begin` on, at most `size` bytes, to the end of a word."""
    begin = text.find("\n\n", begin) + 2
    part = text[begin:].encode()[:size].decode(errors="ignore")
    return part[:part.rfind(" ")].strip() + "\n"


def write_texts(options):
    """The excerpts and the training text. The largest book is trained on."""
    books = sorted(options.books.glob("*.txt"), key=lambda book: (book.stat().st_size, book.name))
    if len(books) < 2:
        raise experiment.Failure(f"--books {options.books}: expected at least two .txt files, got {len(books)}")
    folder = options.runs / "text"
    folder.mkdir(exist_ok=True)
    *read, trained = [(book.stem, book.read_text(encoding="utf-8").replace("\r\n", "\n")) for book in books]
    (folder / "train.txt").write_text(excerpt(trained[1], len(trained[1]) // 10, 8 * options.steps * 1024 + 65536),
                                      encoding="utf-8")
    (folder / "test").mkdir(exist_ok=True)
    for name, text in read:
        for i in range(options.excerpts):
            part = excerpt(text, len(text) * (i + 1) // (options.excerpts + 2), options.bytes)
            (folder / "test" / f"{name}-{i}.txt").write_text(part, encoding="utf-8")
    return folder


def prepare(options):
    """data/, encoded with the model's tokenizer, and experiment.toml."""
    base, data = options.runs / "base", options.runs / "data"
    if not data.exists():
        texts = write_texts(options)
        if not (base / "run.json").exists():
            experiment.call(["import", "--from", gguf_of(options.package, options.runs), "--run", base])
        experiment.call(["data", "prepare", "--vocabulary", "tokenizer", "--vocabulary-file", base / "vocabulary.json",
                         "--train", texts / "train.txt", "--test", texts / "test", "--out", data, "--quiet"])
        shutil.rmtree(base)  # each memory has a run of its own
    path = options.runs / "experiment.toml"
    path.write_text(f"""[data]
task = "text"
prepared = {json.dumps(str(data.resolve()))}
reset = "document"

[train]
segment = {options.segment}
lanes = 2
steps = {max(1, options.steps)}
optimizer = "adamw"
lr = 5e-4
schedule = "cosine"
warmup = {min(20, options.steps // 5)}
clip = 1.0
log_every = 10

[eval]
segment = {options.segment}
lanes = 1
""", encoding="utf-8")
    return path


@dataclasses.dataclass(frozen=True)
class AsItComes(experiment.Run):
    """The imported model with a memory."""
    model: pathlib.Path = None

    def command(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        return ["import", "--from", self.model, self.experiment, "--memory", self.arm.memory, "--run", self.folder]

    def execute(self):
        if not (self.folder / "run.json").exists():
            experiment.call(self.command())
        self.keep(self._evaluate("part", ()))


@dataclasses.dataclass(frozen=True)
class Tuned(experiment.Run):
    """The memory trained behind the frozen model."""
    base: experiment.Run = None

    def command(self):
        command = super().command()
        return command if "--resume" in command else [*command, "--init", self.base.folder]


def make_runs(options, model, file):
    """{(name, seed): run}, those that others begin with first."""
    folder = options.runs / "memory"
    folder.mkdir(exist_ok=True)
    arms = {name: experiment.Arm(name, memory_file(folder, name, options.rows)) for name in MEMORIES}
    runs = {(name, 1): AsItComes(options.runs, name, file, arm, 1, model=model) for name, arm in arms.items()}
    for name in TRAINED if options.steps else ():
        base, tuned = runs[name, 1], experiment.Arm(f"{name}, trained", arms[name].memory)
        runs[tuned.name, 1] = Tuned(options.runs, tuned.file_name, base.folder / "experiment.toml", tuned, 1,
                                    ('train.freeze="backbone"',), base)
    return runs


def losses(run):
    """{document: [(position, nll), ...]} of the run's own evaluation of the test split."""
    folder = max((run.folder / "evaluations").glob("test-*"), key=lambda path: path.name)
    with open(folder / "nll.safetensors", "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        begin = file.tell()

        def column(name):
            from_, to = header[name]["data_offsets"]
            file.seek(begin + from_)
            values = array.array({"F32": "f", "F64": "d", "I32": "i"}[header[name]["dtype"]])
            values.frombytes(file.read(to - from_))
            return values

        out = {}
        for document, position, nll in zip(column("document"), column("position"), column("nll")):
            out.setdefault(document, []).append((position, nll))
    return out


def means_by_distance(run):
    """{first distance of a group: {document: mean loss}}, groups that every document fills."""
    groups, documents = {}, losses(run)
    for document, targets in documents.items():
        for position, nll in targets:
            groups.setdefault(position // BIN * BIN, {}).setdefault(document, []).append(nll)
    return {begin: {document: statistics.fmean(values) for document, values in of.items()}
            for begin, of in sorted(groups.items())
            if len(of) == len(documents) and all(len(values) >= BIN - 1 for values in of.values())}


def distance_rows(runs):
    """Rows of distance.csv: the mean over documents, and its difference to no memory with an interval over documents."""
    base, out = means_by_distance(runs["none", 1]), []
    for (name, _), run in runs.items():
        for begin, of in means_by_distance(run).items():
            difference, half = experiment.interval([loss - base[begin][document] for document, loss in of.items()])
            out.append({"memory": name, "from": begin, "to": begin + BIN - 1, "documents": len(of),
                        "loss": f"{statistics.fmean(of.values()):.5f}", "difference": f"{difference:.5f}",
                        "low": f"{difference - half:.5f}", "high": f"{difference + half:.5f}"})
    return out


def draw(options, rows):
    """distance.svg: the difference to no memory."""
    series = {}
    for row in rows:
        if row["memory"] != "none":
            series.setdefault(row["memory"], []).append((int(row["from"]) + BIN // 2, float(row["difference"])))
    specification = options.runs / "distance.vl.json"
    figures.write(specification, figures.lines("Loss less that without a memory", "tokens of the excerpt before the token",
                                               "nats a token", series, from_zero=True))
    figures.draw(specification, options.runs / "distance.svg")


def row(key, run, base):
    """The difference to `base`, no memory, is that of the documents' means, with an interval over documents. `mneme report`
    gives none of trained memories: an import reads no training data, a training does, so it refuses the pair."""
    result = run.result()
    means = [{document: statistics.fmean(nll for _, nll in targets) for document, targets in losses(one).items()}
             for one in (run, base)]
    difference, half = experiment.interval([loss - means[1][document] for document, loss in means[0].items()])
    return {"difference": f"{difference:.5f}", "low": f"{difference - half:.5f}", "high": f"{difference + half:.5f}",
            "memory": key[0], "loss": result["loss"], "perplexity": result["perplexity"], "tokens": result["tokens"],
            "rows": result["protocol"]["context_rows"], "state_bytes": result["state_bytes"] // result["lanes"],
            "train_seconds": run.train_seconds(), "commit": run.commit()}


def section(rows, differences):
    lines = [[one["memory"], one["rows"], f"{int(one['state_bytes']):,}", f"{float(one['loss']):.4f}",
              f"{float(one['perplexity']):.2f}",
              f"{float(one['difference']):+.4f} ({float(one['low']):+.4f} to {float(one['high']):+.4f})"] for one in rows]
    return "\n\n".join((f"{int(rows[0]['tokens']):,} tokens:",
                        experiment.table(["memory", "rows read", "state bytes", "loss", "perplexity",
                                          "difference to none, mean of excerpts (95 %)"], lines),
                        experiment.commits(rows), verdicts.section(differences)))


def write_docs(page, options, text, differences):
    folder = experiment.copy_results(options.runs, page, SECTION)
    for suffix in ("csv", "svg"):
        shutil.copyfile(options.runs / f"distance.{suffix}", folder / f"{SECTION}_distance.{suffix}")
    figure = (f"![Loss less that without a memory, by distance into the excerpt](figures/{SECTION}_distance.svg)\n\n"
              f"Numbers: [figures/{SECTION}.csv](figures/{SECTION}.csv), by distance with intervals "
              f"[figures/{SECTION}_distance.csv](figures/{SECTION}_distance.csv){verdicts.link(SECTION, differences)}.")
    experiment.write_section(page, SECTION, f"{text}\n\n{figure}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", type=pathlib.Path, required=True, metavar="FILE")
    parser.add_argument("--books", type=pathlib.Path, required=True, metavar="DIR")
    for name, default, what in SIZES:
        parser.add_argument(f"--{name}", type=int, default=default, metavar="N", help=f"{what}; default: {default}")
    parser.add_argument("--runs", type=pathlib.Path, metavar="DIR", help="default: runs/real_decoder")
    parser.add_argument("--program", type=pathlib.Path, metavar="FILE", help="mneme; default: build/release/bin/mneme")
    experiment.add_place(parser)
    parser.add_argument("--table", action="store_true", help="run nothing")
    parser.add_argument("--write-docs", nargs="?", type=pathlib.Path, const=experiment.PAGE, metavar="PAGE",
                        help="put table and figure into docs/reproducing.md, or into PAGE")
    options = parser.parse_args()
    options.set = []
    experiment.check(parser, options, "runs/real_decoder")
    options.runs = options.runs.resolve()
    sizes, note = {name: getattr(options, name) for name, _, _ in SIZES}, options.runs / "sizes.json"
    if not note.exists():
        note.write_text(json.dumps(sizes), encoding="utf-8")
    elif json.loads(note.read_text(encoding="utf-8")) != sizes:
        parser.error(f"{options.runs} has runs of other sizes ({note.name}): give the same, or another folder with --runs")
    return options


def main():
    options = arguments()
    try:
        file = prepare(options)
        runs = make_runs(options, gguf_of(options.package, options.runs), file)
        if not options.table:
            for wanted in (AsItComes, Tuned):
                experiment.train([run for run in runs.values() if isinstance(run, wanted)], options.jobs)
        runs = {key: run for key, run in runs.items() if run.is_done}
        rows = experiment.write_rows(options.runs / "results.csv",
                                     [row(key, run, runs["none", 1]) for key, run in runs.items()])
        others = tuple(name for name in MEMORIES if name != "none" and (name, 1) in runs)
        families = [verdicts.Family("none", others), verdicts.Family("xl_cache", tuple(n for n in others if n != "xl_cache"))]
        differences = verdicts.write(options.runs / "differences.csv",
                                     verdicts.compare(families, runs, options.runs / "reports"))
        draw(options, experiment.write_rows(options.runs / "distance.csv", distance_rows(runs)))
        text = section(rows, differences)
        print("\n" + text)
        if options.write_docs:
            write_docs(options.write_docs, options, text, differences)
    except experiment.Failure as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
